//! Crashes, forced and real: what an autopsy tells of them, against the log of
//! every block of the same crash, and against gdb's backtrace of the same core.
//!
//! `cargo xtask fuzz crash` runs them in large numbers and in parts: `BACKTRAIL_PART`
//! names one (`kinds`, `csmith`, `listed`), `BACKTRAIL_CRASHES` says how many,
//! `BACKTRAIL_PROGRAMS` names a list of real programs, `BACKTRAIL_ROWS` the file into
//! which goes what was found. `BACKTRAIL_CORES=gdb` lets gdb write all cores, as
//! happens where the kernel sends them elsewhere.

mod debugger;
mod judge;
mod listed;
mod program;
mod schemes;
mod table;

use std::process::Command;

use fastrand::Rng;

use listed::Listed;
use program::{Crashed, Program, fixture};
use table::Table;

const LEVELS: [&str; 3] = ["-O0", "-O2", "-O3"];
const VARIANTS: [&str; 2] = ["traced", "stripped"];

/// Forced crashes of one random program.
const PER_PROGRAM: usize = 12;

/// No more blocks than this are executed before a forced crash: logs are long. Real
/// programs take more before they begin with their work.
const LATEST: u64 = 6_000;
const LATEST_LISTED: u64 = 60_000;

fn stop_object(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| it.to_string()).chain([fixture("stop.c")]).collect()
}

/// Compiles `source` so that it can be ended at any block.
fn stoppable(source: &str, level: &str, more: &[&str], run: &[&str]) -> Program {
    let words =
        ["cc", level, "-g", "-w", "-fsanitize-coverage=trace-pc-guard", "-o", "program", source];
    let mut words = stop_object(&words);
    words.extend(more.iter().map(|it| it.to_string()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Program::new(&words, run)
}

/// Crashes of one program, which gdb is asked about together.
struct Crashes<'a> {
    program: &'a Program,
    level: &'a str,
    made: Vec<(String, &'static str, Crashed)>,
}

impl<'a> Crashes<'a> {
    fn new(program: &'a Program, level: &'a str) -> Self {
        Self { program, level, made: Vec::new() }
    }

    /// Ends a program at `count` random blocks.
    fn force(&mut self, rng: &mut Rng, kind: &str, count: usize, latest: u64) {
        let Some(all) = self.program.count() else { return };
        for number in 0..count {
            let variant = VARIANTS[number % 2];
            let stop = rng.u64(1..=all.clamp(1, latest));
            if let Some(crashed) = self.program.judge(variant, &[], stop) {
                self.made.push((kind.to_owned(), variant, crashed));
            }
        }
    }

    /// Adds them to the table, and how many there are.
    fn finish(self, table: &mut Table) -> usize {
        let count = self.made.len();
        if count == 0 {
            return 0;
        }
        let cores: Vec<_> = self.made.iter().map(|it| it.2.core.clone()).collect();
        let answers = debugger::ask(&self.program.path("traced"), &cores);
        for ((kind, variant, crashed), answer) in self.made.into_iter().zip(answers) {
            let compared = debugger::compare(&crashed.told, &answer, variant == "stripped");
            table.add((&kind, self.level, variant), crashed.judged, compared);
            std::fs::remove_file(&crashed.core).unwrap();
        }
        table.write();
        count
    }
}

fn csmith(folder: &std::path::Path, seed: u64) -> Option<String> {
    let path = folder.join(format!("csmith-{seed}.c"));
    let output = Command::new("csmith")
        .args(["--seed", &seed.to_string(), "--max-funcs", "6", "--max-block-depth", "4"])
        .arg("-o")
        .arg(&path)
        .output()
        .expect("csmith can be started (package csmith)");
    output.status.success().then(|| path.to_str().unwrap().to_owned())
}

fn number(name: &str, default: u64) -> u64 {
    let is_number = |text: String| text.parse().unwrap_or_else(|_| panic!("{name} is a number"));
    std::env::var(name).map_or(default, is_number)
}

/// Real crashes of each kind, so many times with each of two schemes, and `forced`
/// ones of the same program.
fn kinds(table: &mut Table, rng: &mut Rng, levels: &[&str], rounds: usize, forced: usize) {
    let kinds = ["segfault", "overflow", "callback", "handler", "thread", "longjmp"];
    for &level in levels {
        let words = ["cc", level, "-g", "-pthread", "-o", "program", &fixture("kinds.c")];
        let program = Program::new(&words, &[]);
        for scheme in ["pt", "full"] {
            program.derive(scheme);
            let mut crashes = Crashes::new(&program, level);
            for (number, kind) in kinds.iter().enumerate() {
                for round in 0..rounds {
                    let variant = VARIANTS[(number + round) % 2];
                    let amount = format!("{}", rng.u32(0..60));
                    let crashed = program.judge(variant, &[kind, &amount], 0);
                    let crashed = crashed.unwrap_or_else(|| panic!("{kind} {amount} did not die"));
                    crashes.made.push((kind.to_string(), variant, crashed));
                }
            }
            crashes.finish(table);
        }
        let program = stoppable(&fixture("kinds.c"), level, &["-pthread"], &["none", "40"]);
        program.derive("full");
        let mut crashes = Crashes::new(&program, level);
        crashes.force(rng, "block, fixture", forced, LATEST);
        crashes.finish(table);
    }
}

/// Forced crashes of real programs, `count` of each.
fn listed(table: &mut Table, rng: &mut Rng, count: usize) {
    for listed in Listed::all() {
        let program = listed.program();
        let kind = format!("block, {}", listed.name);
        program.derive(if listed.level == "-O3" { "pt" } else { "full" });
        let mut crashes = Crashes::new(&program, &listed.level);
        crashes.force(rng, &kind, count, LATEST_LISTED);
        let made = crashes.finish(table);
        println!("{} {}: {made}", listed.name, listed.level);
        assert!(made > 0, "{listed:?} cannot be ended");
    }
}

/// Forced crashes of programs that csmith writes, by the numbers from `seed` on.
fn random_programs(table: &mut Table, rng: &mut Rng, seed: u64, count: usize) {
    let folder = tempfile::tempdir().unwrap();
    let include = std::env::var("CSMITH_INCLUDE").unwrap_or("/usr/include/csmith".to_owned());
    let (mut made, mut number) = (0, 0);
    while made < count {
        number += 1;
        let level = LEVELS[number as usize % 3];
        let Some(source) = csmith(folder.path(), seed * 10_000 + number) else { continue };
        let program = stoppable(&source, level, &["-I", &include], &[]);
        program.derive(if number % 2 == 0 { "pt" } else { "full" });
        let mut crashes = Crashes::new(&program, level);
        crashes.force(rng, "block, csmith", PER_PROGRAM, LATEST);
        made += crashes.finish(table);
    }
}

#[test]
fn crashes_tell_what_the_log_tells() {
    let count = number("BACKTRAIL_CRASHES", 12) as usize;
    let seed = number("BACKTRAIL_SEED", 1);
    let mut rng = Rng::with_seed(seed);
    let mut table = Table::default();
    match std::env::var("BACKTRAIL_PART").as_deref() {
        Err(_) => kinds(&mut table, &mut rng, &LEVELS[1..2], 1, 4),
        Ok("kinds") => kinds(&mut table, &mut rng, &LEVELS, 4, count),
        Ok("listed") => listed(&mut table, &mut rng, count),
        Ok("csmith") => random_programs(&mut table, &mut rng, seed, count),
        Ok(other) => panic!("no part {other}"),
    }
    table.write();
    table.assert_told();
}

#[test]
fn cores_that_gdb_writes_tell_the_same() {
    let words = ["cc", "-O2", "-g", "-pthread", "-o", "program", &fixture("kinds.c")];
    let mut program = Program::new(&words, &[]);
    program.by_debugger = true;
    program.derive("full");
    let mut table = Table::default();
    let mut crashes = Crashes::new(&program, "-O2");
    for (number, kind) in ["segfault", "handler", "thread"].into_iter().enumerate() {
        let variant = VARIANTS[number % 2];
        let crashed = program.judge(variant, &[kind, "17"], 0).expect("it dies");
        crashes.made.push((kind.to_owned(), variant, crashed));
    }
    assert_eq!(crashes.finish(&mut table), 3);
    table.assert_told();
}

#[test]
fn where_gdb_may_not_trace_the_setting_is_named() {
    let program = Program::new(&["cc", "-o", "program", &fixture("kinds.c")], &[]);
    let untraced = program.path("untraced");
    let mut clang = Command::new("clang-19");
    clang
        .arg(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/untraced.c"))
        .arg("-o")
        .arg(&untraced);
    assert!(clang.status().unwrap().success());
    let untraced = untraced.to_str().unwrap();
    let why = program.core_by(&[untraced, "gdb"], "program", &["segfault"], 0).unwrap_err();
    assert!(why.contains("kernel.yama.ptrace_scope") && why.contains("not permitted"), "{why}");
}

/// So many crashes at random moments that averages of them can be compared.
const MANY: usize = 30;

#[test]
fn schemes_leave_less_than_the_stack() {
    let count = number("BACKTRAIL_CRASHES_BY_SCHEME", 3) as usize;
    let mut rng = Rng::with_seed(number("BACKTRAIL_SEED", 1));
    let mut found = Vec::new();
    for listed in Listed::all() {
        let program = listed.program();
        found.push(schemes::measure(&listed.name, &program, &listed.functions, count, &mut rng));
        schemes::write(&found[found.len() - 1]);
    }
    if found.is_empty() {
        let source = fixture("kinds.c");
        let words = ["cc", "-O2", "-pthread", "-o", "program", &source];
        let program = Program::new(&words, &["none", "20000000"]);
        let functions = ["main".to_owned(), "work".to_owned()];
        found.push(schemes::measure("fixture", &program, &functions, count, &mut rng));
    }
    for program in found {
        let edges = |scheme: &str| {
            let place = schemes::SCHEMES.iter().position(|it| *it == scheme).unwrap();
            let crashes = program.of[place].crashes as usize;
            // How long a run takes differs with what else the machine does.
            assert!(crashes == count || crashes > 0 && count < MANY, "{} {scheme}", program.name);
            program.of[place].left()[1]
        };
        // They are not the same crashes, but over many of them what tells more must not
        // leave more.
        let all = ["fc", "cc", "bc", "full"].map(edges);
        let is_sorted = all.is_sorted_by(|more, less| *less <= more + 5.0);
        assert!(is_sorted || count < MANY, "{}: {all:?}", program.name);
        assert!(edges("full") < 95.0 && edges("realistic") < 95.0, "{}", program.name);
    }
}
