//! `backtrail profile --engine slurm` on a real cluster of three nodes.

mod profile_program;
#[path = "../../collect/tests/slurm_cluster/mod.rs"]
mod slurm_cluster;

use std::fs;

use profile_program::{BACKTRAIL, Program, fixture};
use slurm_cluster::Cluster;

#[test]
fn copies_on_nodes_give_the_profile_of_one_run() {
    let cluster = Cluster::start(3);
    let configuration = cluster.configuration();
    let program = Program::c(&fixture("words.c"), &["-O2"])
        .with("SLURM_CONF", configuration.to_str().unwrap());
    let run = |words: &[&str]| {
        let words = [&["profile"], words, &["./program", "--", "9"]].concat();
        let output = program.command(BACKTRAIL).args(&words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), output.stdout, message)
    };
    let one = run(&["-o", "one"]);
    assert_eq!(one.0, Some(0), "{}", one.2);
    // More copies than nodes.
    let several = run(&["--copies", "4", "--engine", "slurm", "-o", "several"]);
    assert_eq!((several.0, &several.1), (one.0, &one.1), "{}", several.2);
    let [one, several] = ["one", "several"].map(|name| fs::read(program.path(name)).unwrap());
    assert!(one == several, "another profile");
    assert_eq!(cluster.queue(), "");
    let staged = fs::read_dir(program.path(".")).unwrap().flatten();
    let staged: Vec<_> =
        staged.filter(|it| it.file_name().to_string_lossy().contains("slurm")).collect();
    assert!(staged.is_empty(), "{staged:?}");

    let words =
        ["--copies", "2", "--engine", "slurm", "--slurm-arg=--partition=nowhere", "-o", "none"];
    let (code, _, message) = run(&words);
    assert_eq!(code, Some(5), "{message}");
    assert!(message.contains("slurm") && message.contains("partition"), "{message}");
    assert!(!program.path("none").exists());
}
