//! Crashes, forced and real: what an autopsy tells of them, against the log of
//! every block of the same crash.
//!
//! `BACKTRAIL_CRASHES` sets how many forced ones there are, `BACKTRAIL_TABLE` the
//! page into which the table is written (`cargo xtask fuzz crash`).

mod program;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;

use fastrand::Rng;

use program::{Judged, Program, fixture};

const LEVELS: [&str; 3] = ["-O0", "-O2", "-O3"];
const VARIANTS: [&str; 2] = ["traced", "stripped"];

/// No more blocks than this are executed before a forced crash: logs are long.
const LATEST: u64 = 6_000;

/// What was found, by kind, level and variant.
#[derive(Default)]
struct Table {
    rows: BTreeMap<(String, &'static str, &'static str), Row>,
}

#[derive(Default)]
struct Row {
    crashes: usize,
    /// Crashes all of whose frames agree with the log.
    equal: usize,
    frames: usize,
    unresolved: usize,
    lengths: Vec<usize>,
    edges: (u64, u64),
}

impl Table {
    #[track_caller]
    fn add(&mut self, kind: &str, level: &'static str, variant: &'static str, judged: Judged) {
        let what = (kind.to_owned(), level, variant);
        assert!(judged.wrong.is_empty(), "{what:?}: {:#?}", judged.wrong);
        let row = self.rows.entry(what).or_default();
        row.crashes += 1;
        row.equal += usize::from(judged.equal == judged.frames - judged.unresolved);
        row.frames += judged.frames;
        row.unresolved += judged.unresolved;
        row.lengths.extend(judged.lengths);
        row.edges.0 += judged.edges.0;
        row.edges.1 += judged.edges.1;
    }

    /// Writes the table, as far as it is: a long run that is ended leaves it.
    fn write(&self) {
        if let Some(path) = std::env::var_os("BACKTRAIL_TABLE") {
            std::fs::write(path, self.text()).unwrap();
        }
    }

    fn text(&self) -> String {
        let mut out = String::from(
            "| kind | level | stripped | crashes | equal to the log | frames | unresolved | \
             median blocks known | edges left |\n| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        for ((kind, level, variant), row) in &self.rows {
            let mut lengths = row.lengths.clone();
            lengths.sort_unstable();
            let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
            let left = 100 * row.edges.1 / row.edges.0.max(1);
            let _ = writeln!(
                out,
                "| {kind} | {level} | {} | {} | {} | {} | {} | {median} | {left} % |",
                if *variant == "stripped" { "yes" } else { "no" },
                row.crashes,
                row.equal,
                row.frames,
                row.unresolved,
            );
        }
        out
    }
}

fn stop_object(words: &[&str]) -> Vec<String> {
    words.iter().map(|it| it.to_string()).chain([fixture("stop.c")]).collect()
}

/// Compiles `source` so that it can be ended at any block.
fn stoppable(source: &str, level: &str, more: &[&str], run: &[&str]) -> Program {
    let words = ["cc", level, "-w", "-fsanitize-coverage=trace-pc-guard", "-o", "program", source];
    let mut words = stop_object(&words);
    words.extend(more.iter().map(|it| it.to_string()));
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    Program::new(&words, run)
}

/// Ends a program at `count` random blocks.
fn force(
    table: &mut Table,
    rng: &mut Rng,
    program: &Program,
    (kind, level): (&str, &'static str),
    count: usize,
) -> usize {
    let Some(all) = program.count() else { return 0 };
    let mut made = 0;
    for number in 0..count {
        let variant = VARIANTS[number % 2];
        let stop = rng.u64(1..=all.clamp(1, LATEST));
        if let Some(judged) = program.judge(variant, &[], stop) {
            table.add(kind, level, variant, judged);
            made += 1;
        }
    }
    made
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

#[test]
fn crashes_tell_what_the_log_tells() {
    let wanted = std::env::var("BACKTRAIL_CRASHES").ok();
    let wanted: usize = wanted.map_or(0, |it| it.parse().expect("BACKTRAIL_CRASHES is a number"));
    let seed = std::env::var("BACKTRAIL_SEED").ok().and_then(|it| it.parse().ok()).unwrap_or(1);
    let mut rng = Rng::with_seed(seed);
    let mut table = Table::default();

    // Real ones.
    let kinds = ["segfault", "overflow", "callback", "handler", "thread", "longjmp"];
    let rounds = if wanted == 0 { 1 } else { 4 };
    let levels = if wanted == 0 { &LEVELS[1..2] } else { &LEVELS[..] };
    for &level in levels {
        let source = fixture("kinds.c");
        let program = Program::new(&["cc", level, "-pthread", "-o", "program", &source], &[]);
        for scheme in ["pt", "full"] {
            program.derive(scheme);
            for (number, kind) in kinds.iter().enumerate() {
                for round in 0..rounds {
                    let variant = VARIANTS[(number + round) % 2];
                    let amount = rng.u32(0..60).to_string();
                    let judged = program.judge(variant, &[kind, &amount], 0);
                    let judged = judged.unwrap_or_else(|| panic!("{kind} {amount} did not die"));
                    table.add(kind, level, variant, judged);
                }
            }
        }
    }

    // Forced ones, in the same program and in others.
    let per_program = if wanted == 0 { 4 } else { 12 };
    let folder = tempfile::tempdir().unwrap();
    let mut made = 0;
    for &level in levels {
        let program = stoppable(&fixture("kinds.c"), level, &["-pthread"], &["none", "40"]);
        program.derive("full");
        made += force(&mut table, &mut rng, &program, ("block, fixture", level), per_program);
    }
    let mut number = 0;
    while made < wanted {
        number += 1;
        let level = LEVELS[number as usize % 3];
        let Some(source) = csmith(folder.path(), seed * 10_000 + number) else { continue };
        let include = std::env::var("CSMITH_INCLUDE").unwrap_or("/usr/include/csmith".to_owned());
        let program = stoppable(&source, level, &["-I", &include], &[]);
        program.derive(if number % 2 == 0 { "pt" } else { "full" });
        made += force(&mut table, &mut rng, &program, ("block, csmith", level), per_program);
        table.write();
    }
    println!("{}", table.text());
    for ((kind, ..), row) in &table.rows {
        // A frame of which nothing is known proves nothing.
        assert!(row.unresolved * 10 <= row.frames, "{kind}: {} of {}", row.unresolved, row.frames);
    }
    table.write();
}
