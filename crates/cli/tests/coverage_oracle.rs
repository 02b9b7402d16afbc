//! The block log against an oracle that shares no code with us: clang's own
//! `-fsanitize-coverage=trace-pc-guard`, at -O0 on the same source.
//!
//! Both give one entry per executed block; compared are the function and the
//! line of each, in order. Two things are the sanitizer's own and are let pass:
//! its call in an entry block has the line of the function's opening brace, and
//! a block whose first instruction has no line gives line 0.

use std::path::{Path, PathBuf};
use std::process::Command;

fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {} {stderr}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// An executed block: the function, and the line of the source.
type Entry = (String, u32);

/// What the sanitizer sees.
fn guarded(
    folder: &Path,
    sources: &[PathBuf],
    options: &[&str],
    words: &[&str],
) -> (String, Vec<Entry>) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oracle");
    let receiver = folder.join("guards.o");
    run(Command::new("clang-19").arg("-c").arg(fixtures.join("guards.c")).arg("-o").arg(&receiver));
    let program = folder.join("guarded");
    let mut command = Command::new("clang-19");
    // Blocks rather than edges, and none left out because another implies it.
    command.arg("-fsanitize-coverage=bb,trace-pc-guard,no-prune").args(["-O0", "-g", "-no-pie"]);
    run(command.args(options).args(sources).arg(&receiver).arg("-o").arg(&program).arg("-lm"));
    let out = folder.join("guards.txt");
    let printed = run(Command::new(&program).args(words).env("GUARDS_OUT", &out));

    let addresses = std::fs::read_to_string(&out).unwrap();
    let mut command = Command::new("addr2line");
    command.args(["-f", "-e"]).arg(&program).arg(format!("@{}", out.display()));
    let resolved = run(&mut command);
    let lines: Vec<&str> = resolved.lines().collect();
    assert_eq!(lines.len(), 2 * addresses.lines().count());
    let entries = lines.chunks(2).map(|pair| {
        let line = pair[1].rsplit(':').next().unwrap().split(' ').next().unwrap();
        (pair[0].to_owned(), line.parse().unwrap_or(0))
    });
    (printed, entries.collect())
}

/// What the block log says, with whether each block is a function's entry.
fn logged(
    folder: &Path,
    sources: &[PathBuf],
    options: &[&str],
    words: &[&str],
) -> (String, Vec<(Entry, bool)>) {
    let backtrail = env!("CARGO_BIN_EXE_backtrail");
    let program = folder.join("program");
    let variant = folder.join("variant");
    let mut command = Command::new(backtrail);
    run(command.args(["cc", "-O0"]).args(options).args(sources).arg("-o").arg(&program).arg("-lm"));
    let mut command = Command::new(backtrail);
    run(command.args(["instrument", "--scheme", "log", "-o"]).arg(&variant).arg(&program));
    let records = folder.join("records");
    let printed = run(Command::new(&variant).args(words).env("BACKTRAIL_DIR", &records));
    let shown = run(Command::new(backtrail).args(["show", "--json"]).arg(&records));
    let entries = shown.lines().skip(1).map(|line| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        let place = row["line"].as_str().unwrap_or("?:0");
        let line = place.rsplit(':').next().unwrap().parse().unwrap();
        ((row["function"].as_str().unwrap().to_owned(), line), row["block"] == "b0")
    });
    (printed, entries.collect())
}

fn check(sources: &[PathBuf], options: &[&str], words: &[&str], at_least: usize) {
    let folder = tempfile::tempdir().unwrap();
    let (their_output, theirs) = guarded(folder.path(), sources, options, words);
    let (our_output, ours) = logged(folder.path(), sources, options, words);
    assert_eq!(our_output, their_output);
    assert!(ours.len() >= at_least, "only {} blocks: an empty log proves nothing", ours.len());
    let mut compared = 0;
    for (index, (((function, line), is_entry), theirs)) in ours.iter().zip(&theirs).enumerate() {
        assert_eq!(function, &theirs.0, "function of block {index}");
        if !is_entry && theirs.1 != 0 {
            assert_eq!(*line, theirs.1, "line of block {index}, in {function}");
            compared += 1;
        }
    }
    assert_eq!(ours.len(), theirs.len());
    assert!(2 * compared > ours.len(), "only {compared} of {} lines could be compared", ours.len());
}

#[test]
fn control_flow_of_every_kind() {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/oracle");
    check(&[fixtures.join("control.c")], &[], &["one", "two"], 150);
}

#[test]
fn the_bundled_program() {
    let demo = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../demo");
    let mut sources: Vec<PathBuf> =
        std::fs::read_dir(demo.join("src")).unwrap().map(|entry| entry.unwrap().path()).collect();
    sources.retain(|source| source.extension().is_some_and(|ending| ending == "c"));
    sources.sort();
    let inputs = demo.join("inputs");
    let words = [inputs.join("orders.script"), inputs.join("good.csv")];
    let words: Vec<&str> = words.iter().map(|word| word.to_str().unwrap()).collect();
    check(&sources, &["-std=c11", "-D_POSIX_C_SOURCE=200809L"], &words, 9_000);
}
