//! What `backtrail paths` shows, adds up and refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::model::Profile;
use backtrail_testkit::sample_profile::{SOURCE, other_profile, profile};
use serde_json::Value;

fn backtrail(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.args(words).current_dir(folder).output().unwrap()
}

fn shown(folder: &Path, words: &[&str]) -> String {
    let output = backtrail(folder, words);
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    assert!(output.stderr.is_empty(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// The message and exit code of a command that fails.
fn refused(folder: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = backtrail(folder, words);
    let message = String::from_utf8(output.stderr).unwrap();
    assert_eq!(message.lines().count(), 1, "{message}");
    assert!(output.stdout.is_empty());
    (output.status.code(), message)
}

fn save(folder: &Path, name: &str, profile: &Profile) -> PathBuf {
    let path = folder.join(name);
    std::fs::write(&path, write_profile(profile).unwrap()).unwrap();
    path
}

/// A folder with the sample's source and two profiles of it.
fn sample() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("scan.c"), SOURCE).unwrap();
    save(folder.path(), "a.btprof", &profile("scan.c"));
    save(folder.path(), "b.btprof", &other_profile("scan.c"));
    folder
}

#[test]
fn the_hottest_paths_with_their_lines() {
    let folder = sample();
    let text = shown(folder.path(), &["paths", "a.btprof", "--top", "2"]);
    let expected = "\
scan  build id 5ca0, 1 process
  incomplete  no
  executed    7,800,005 blocks, in 1,700,001 executions of 9 paths
  functions   2 of 3 ran; 3 whole, 0 cut, 0 not instrumented
  unfinished  no activation; counts of edges and lines are exact

Hottest paths, by executed blocks
   1.  51.3 %  scan  scan.c:9
               800,000 times, 47.1 % of executions, 50.0 % of the function's; 5 blocks; from a loop's head back to a loop's head
               ↻ 11 T → 12 =97 → 4 F → 6 → 13 → 11 ↩ 11
                 11 T     for (int i = 0; text[i] && i < limit; i++) {
                 12 =97          switch (text[i]) {
                  4 F        if (x % 3 == 0)  ← weigh
";
    assert!(text.starts_with(expected), "{text}");
}
