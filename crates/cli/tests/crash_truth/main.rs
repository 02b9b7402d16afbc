//! Crashes, forced and real: what an autopsy tells of them, against the log of
//! every block of the same crash, and against gdb's backtrace of the same core.
//!
//! `BACKTRAIL_CRASHES` sets how many forced ones there are, `BACKTRAIL_PROGRAMS`
//! names a list of further programs, `BACKTRAIL_TABLE` the page into which the table
//! is written (`cargo xtask fuzz crash`). `BACKTRAIL_CORES=gdb` lets gdb write all
//! cores, as happens where the kernel sends them elsewhere.

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
            let core = crashed.core.display();
            let compared = debugger::compare(&crashed.told, &answer, variant == "stripped");
            let frames =
                compared.unwrap_or_else(|why| panic!("{kind} {} {core}: {why}", self.level));
            table.add(&kind, self.level, variant, crashed.judged);
            table.add_frames(&kind, self.level, variant, frames);
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

#[test]
fn crashes_tell_what_the_log_tells() {
    let wanted = number("BACKTRAIL_CRASHES", 0) as usize;
    let seed = number("BACKTRAIL_SEED", 1);
    let mut rng = Rng::with_seed(seed);
    let mut table = Table::default();

    // Real ones.
    let kinds = ["segfault", "overflow", "callback", "handler", "thread", "longjmp"];
    let rounds = if wanted == 0 { 1 } else { 4 };
    let levels = if wanted == 0 { &LEVELS[1..2] } else { &LEVELS[..] };
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
            crashes.finish(&mut table);
        }
    }

    // Forced ones, in the same program and in others.
    let per_program = if wanted == 0 { 4 } else { 12 };
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    for &level in levels {
        let program = stoppable(&fixture("kinds.c"), level, &["-pthread"], &["none", "40"]);
        program.derive("full");
        let mut crashes = Crashes::new(&program, level);
        crashes.force(&mut rng, "block, fixture", per_program, LATEST);
        made += crashes.finish(&mut table);
    }
    for (number, listed) in Listed::all().iter().enumerate() {
        let program = listed.program();
        program.derive(if number % 4 == 3 { "pt" } else { "full" });
        let mut crashes = Crashes::new(&program, &listed.level);
        let kind = format!("block, {}", listed.name);
        crashes.force(&mut rng, &kind, 2 * per_program, LATEST_LISTED);
        let count = crashes.finish(&mut table);
        println!("{} {}: {count}", listed.name, listed.level);
        assert!(count > 0, "{listed:?} cannot be ended");
        made += count;
    }
    let mut number = 0;
    while made < wanted {
        number += 1;
        let level = LEVELS[number as usize % 3];
        let Some(source) = csmith(folder.path(), seed * 10_000 + number) else { continue };
        let include = std::env::var("CSMITH_INCLUDE").unwrap_or("/usr/include/csmith".to_owned());
        let program = stoppable(&source, level, &["-I", &include], &[]);
        program.derive(if number % 2 == 0 { "pt" } else { "full" });
        let mut crashes = Crashes::new(&program, level);
        crashes.force(&mut rng, "block, csmith", per_program, LATEST);
        made += crashes.finish(&mut table);
    }
    println!("{}", table.text());
    table.assert_told();
    table.write();
}

#[test]
fn schemes_leave_less_than_the_stack() {
    let count = number("BACKTRAIL_CRASHES_BY_SCHEME", 3) as usize;
    let mut rng = Rng::with_seed(number("BACKTRAIL_SEED", 1));
    let mut found = Vec::new();
    for listed in Listed::all() {
        let Some(program) = listed.plain() else { continue };
        found.push(schemes::measure(&listed.name, &program, &listed.functions, count, &mut rng));
        println!("{}", schemes::text(&found));
        schemes::write(&found);
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
            assert_eq!(program.of[place].crashes as usize, count, "{} {scheme}", program.name);
            program.of[place].left()[1]
        };
        // Not the same crashes, but what tells more must not leave more.
        let all = ["fc", "cc", "bc", "full"].map(edges);
        assert!(all.is_sorted_by(|more, less| *less <= more + 5.0), "{}: {all:?}", program.name);
        assert!(edges("full") < 95.0 && edges("realistic") < 95.0, "{}", program.name);
    }
}
