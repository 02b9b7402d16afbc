//! A profile from tasks on a real Slurm cluster is the profile of one run.

mod profile_program;
#[path = "../../collect/tests/slurm_cluster/mod.rs"]
mod slurm_cluster;

use std::fs;
use std::process::Output;

use backtrail_profile::file::read_profile;
use profile_program::{BACKTRAIL, Program, fixture};
use slurm_cluster::Cluster;

#[test]
fn on_slurm_a_profile_is_that_of_one_run() {
    let cluster = Cluster::start(3);
    let text = fixture("squeeze.c");
    let program = Program::c(&text, &["-O2"]);
    let input = text.repeat(3);
    let run = |words: &[&str]| -> Output {
        fs::write(program.path("input"), &input).unwrap();
        let input = fs::File::open(program.path("input")).unwrap();
        let mut command = program.command(BACKTRAIL);
        command.env("SLURM_CONF", cluster.configuration()).arg("profile").args(words);
        let output = command.arg("./program").stdin(input).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
        output
    };
    let shared = tempfile::tempdir().unwrap();
    let shared_path = shared.path().to_str().unwrap();
    let is_clean = || cluster.queue().is_empty() && shared.path().read_dir().unwrap().count() == 0;
    let one = run(&["-o", "one"]);
    for strategy in ["p3", "adaptive"] {
        let words = ["--engine", "slurm", "--slurm-dir", shared_path, "--strategy", strategy];
        let several = run(&[&words[..], &["--copies", "5", "-o", "several"]].concat());
        assert_eq!(several, one, "{strategy}");
        let (one, several) = (program.path("one"), program.path("several"));
        let read = |path| read_profile(&fs::read(path).unwrap()).unwrap();
        let (one, mut several) = (read(one), read(several));
        assert!(std::mem::take(&mut several.merged)[0].checked, "{strategy}");
        assert!(one == several, "{strategy}");
        assert!(is_clean(), "{strategy}");
    }
    let mut command = program.command(BACKTRAIL);
    command.env("SLURM_CONF", cluster.configuration());
    let words = ["profile", "--copies", "2", "--engine", "slurm", "--slurm-arg=--partition=none"];
    let output =
        command.args(words).args(["--slurm-dir", shared_path, "./program"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("invalid partition"), "{message}");
    assert!(is_clean());
}
