//! A part of `cargo xtask fuzz attack`, the same each time: damaged inputs for every
//! verb, interruptions of every command, and programs that do what is rarely done.

use std::path::Path;

use xtask::attack::inputs::Inputs;
use xtask::attack::interrupt::{self, Interrupted};
use xtask::attack::torture::rows::{ROWS, Row};
use xtask::attack::torture::{self, Tortured};
use xtask::attack::{Finding, Place, damage};
use xtask::workspace::{self, Profile};

/// Programs that together use processes, threads, signals, limits and stacks.
const PROGRAMS: [&str; 11] = [
    "fork-tree",
    "vfork",
    "exec-itself",
    "raw-fork",
    "keys",
    "exit-with-threads",
    "fault-mended",
    "int3",
    "seccomp",
    "close-range",
    "gs",
];

fn place(folder: &Path) -> Place {
    Place {
        tool: workspace::build_tool(Profile::Dev).unwrap(),
        xtask: env!("CARGO_BIN_EXE_xtask").into(),
        folder: folder.to_owned(),
        findings: folder.join("findings"),
        seed: 1,
    }
}

/// What was found, a line each.
fn shown(findings: &[Finding]) -> String {
    let line = |it: &Finding| format!("{}: {}: {}\n", it.number, it.command, it.what);
    findings.iter().map(line).collect()
}

#[test]
fn damaged_inputs_are_refused_or_read() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let inputs = Inputs::make(&place).unwrap();
    let found = damage::run(&place, &inputs, 0..150).unwrap();
    assert!(found.findings.is_empty(), "{}", shown(&found.findings));
    let tried: u64 = found.counts.values().flat_map(|ends| ends.values()).sum();
    assert_eq!(tried, 150);
    assert!(found.counts.len() > 10, "hardly any part was damaged: {:?}", found.counts);
}

#[test]
fn interruptions_leave_nothing_and_lose_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let interrupted = Interrupted::make(&place).unwrap();
    let found = interrupt::run(&place, &interrupted, 0..12).unwrap();
    assert!(found.findings.is_empty(), "{}", shown(&found.findings));
}

#[test]
fn programs_that_do_what_is_rarely_done_do_it_under_every_scheme() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    let is_chosen = |row: &&Row| PROGRAMS.contains(&row.name);
    let rows: Vec<&Row> = ROWS.iter().filter(is_chosen).collect();
    assert_eq!(rows.len(), PROGRAMS.len());
    let tortured = Tortured::make(&place, rows.iter().copied()).unwrap();
    for row in rows {
        let found = torture::run(&place, &tortured, row).unwrap();
        assert!(found.findings.is_empty(), "{}", shown(&found.findings));
    }
}
