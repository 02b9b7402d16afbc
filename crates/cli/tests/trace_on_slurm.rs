//! A trace from tasks on a real Slurm cluster is the trace of one run: by breakpoints
//! in an installed program, and by probes.

mod profile_program;
#[path = "../../collect/tests/slurm_cluster/mod.rs"]
mod slurm_cluster;

use std::fs;
use std::process::Output;

use profile_program::{BACKTRAIL, Program, fixture};
use slurm_cluster::Cluster;

/// The blocks of a trace, without the line about the process.
fn blocks(program: &Program, file: &str) -> Vec<String> {
    let shown = program.command(BACKTRAIL).args(["show", file, "--json"]).output().unwrap();
    assert!(shown.status.success(), "{shown:?}");
    let text = String::from_utf8(shown.stdout).unwrap();
    let block = |line: &str| {
        let row: serde_json::Value = serde_json::from_str(line).unwrap();
        format!("{} {}", row["function"], row["block"])
    };
    text.lines().skip(1).map(block).collect()
}

#[test]
fn on_slurm_a_trace_is_that_of_one_run() {
    let cluster = Cluster::start(3);
    let text = fixture("squeeze.c");
    let program = Program::c(&text, &["-O2"]);
    let shared = tempfile::tempdir().unwrap();
    let is_clean = || cluster.queue().is_empty() && shared.path().read_dir().unwrap().count() == 0;
    let trace = |words: &[&str]| -> Output {
        fs::write(program.path("input"), text.repeat(2)).unwrap();
        let input = fs::File::open(program.path("input")).unwrap();
        let mut command = program.command(BACKTRAIL);
        command.env("SLURM_CONF", cluster.configuration()).arg("trace").args(words);
        command.stdin(input).output().unwrap()
    };
    let slurm = ["--engine", "slurm", "--slurm-dir", shared.path().to_str().unwrap()];
    // Without a size, sort goes by how much memory is free.
    let sort = &["/usr/bin/sort", "--", "-S1M"][..];
    let kinds = [("breakpoint", sort), ("edge", &["./program"]), ("node", &["./program"])];
    for (witness, started) in kinds {
        let run = |words: &[&str], file: &str| {
            let all = [&["--witness", witness, "-o", file], words, started].concat();
            let output = trace(&all);
            let message = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{all:?}: {message}");
            (output.stdout, blocks(&program, file))
        };
        let one = run(&[], "one");
        assert!(one.1.len() > 500, "{witness}: {}", one.1.len());
        let several = run(&[&["--runs", "3"], &slurm[..]].concat(), "several");
        assert!(several == one, "{witness}: {} and {} blocks", several.1.len(), one.1.len());
        assert!(is_clean(), "{witness}");
    }
    for witness in ["breakpoint", "edge"] {
        let words = ["--witness", witness, "--runs", "2", "--slurm-arg=--partition=none"];
        let output = trace(&[&words[..], &slurm, &["-o", "none", "./program"]].concat());
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(5), "{message}");
        assert!(message.contains("invalid partition"), "{message}");
        assert!(is_clean() && !program.path("none").exists());
    }
}
