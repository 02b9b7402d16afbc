//! What `backtrail paths` shows, adds up and refuses.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::model::Profile;
use backtrail_testkit::sample_profile::{SOURCE, other_profile, profile};

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
  executed    7,800,004 blocks, in 1,700,001 executions of 9 paths
  functions   2 of 3 ran; 3 whole, 0 cut, 0 not instrumented
  unfinished  no activation; counts of edges and lines are exact

Hottest paths, by executed blocks
   1.  51.3 %  scan  scan.c:9
               800,000 times × 5 blocks, 47.1 % of executions, 50.0 % of the function's
               ↻ 11 T → 12 =97 → 4 F → 6 → 13 → 11 ↩ 11
                 11 T        for (int i = 0; text[i] && i < limit; i++) {
                 12 =97          switch (text[i]) {
                  4 F        if (x % 3 == 0)  ← weigh
                  6          return 1;  ← weigh
                 13              case 'a': sum += weigh(i); break;
                 11          for (int i = 0; text[i] && i < limit; i++) {
   2.  25.6 %  scan  scan.c:9
               400,000 times × 5 blocks, 23.5 % of executions, 25.0 % of the function's
               ↻ 11 T → 12 =97 → 4 T → 5 → 13 → 11 ↩ 11
                 11 T        for (int i = 0; text[i] && i < limit; i++) {
                 12 =97          switch (text[i]) {
                  4 T        if (x % 3 == 0)  ← weigh
                  5              return x / 3;  ← weigh
                 13              case 'a': sum += weigh(i); break;
                 11          for (int i = 0; text[i] && i < limit; i++) {
  7 more (--top N)
  ▶ entry  ■ exit  ↻ loop's head  ↩ back to it  ✂ cut  ✕ call that does not return
  T F  the compiled condition holds or not (it may be the opposite of the written one)

Functions
  blocks  executions  entries  unfinished  paths  of  instrumented  edges  function  where
  97.4 %   1,600,000  100,000           0      6  10  whole         exact  scan      scan.c:9
   2.6 %     100,001        1           0      3   6  whole         exact  main      scan.c:25
  1 that did not run
";
    assert_eq!(text, expected);
}

#[test]
fn options_choose_what_is_shown() {
    let folder = sample();
    let folder = folder.path();
    let main = shown(folder, &["paths", "a.btprof", "--function", "m?in"]);
    assert!(main.contains("  main  scan.c:25") && !main.contains("  scan  scan.c:9"), "{main}");
    // Shares stay those of the whole program.
    assert!(main.contains("   1.   2.6 %  main"), "{main}");
    let order = shown(folder, &["paths", "a.btprof", "--by", "executions", "--top", "1"]);
    assert!(order.contains("   1.  47.1 %  scan"), "{order}");
    std::fs::remove_file(folder.join("scan.c")).unwrap();
    let without = shown(folder, &["paths", "a.btprof", "--top", "1"]);
    assert!(without.contains("↻ 11 T → 12 =97") && !without.contains("switch"), "{without}");
}

#[test]
fn what_is_missing_is_always_said() {
    let folder = sample();
    let folder = folder.path();
    let text = shown(folder, &["paths", "b.btprof"]);
    let line = "unfinished  1 activation; in 1 function, edges and lines are lower bounds";
    assert!(text.contains(line) && text.contains("inexact  scan"), "{text}");
    let mut torn = profile("scan.c");
    torn.incomplete = vec!["the disk was full\u{1b}[31m".to_owned()];
    save(folder, "torn.btprof", &torn);
    let text = shown(folder, &["paths", "torn.btprof"]);
    assert!(text.contains("incomplete  yes: the disk was full\\u{1b}[31m\n"), "{text}");
    let compared = shown(folder, &["paths", "--compare", "a.btprof", "torn.btprof"]);
    assert!(compared.contains("incomplete: the disk was full"), "{compared}");
}

#[test]
fn profiles_of_one_build_add_up() {
    let folder = sample();
    let folder = folder.path();
    let said = shown(folder, &["paths", "a.btprof", "b.btprof", "-o", "sum.btprof"]);
    assert_eq!(said, "sum.btprof: 2 processes added up\n");
    let sum = read_profile(&std::fs::read(folder.join("sum.btprof")).unwrap()).unwrap();
    assert_eq!(sum.functions[0].entries, 200_001);
    assert_eq!(sum.functions[0].paths[3].count, 500_000);
    let both = shown(folder, &["paths", "a.btprof", "b.btprof"]);
    assert_eq!(both, shown(folder, &["paths", "sum.btprof"]));
    assert_eq!(shown(folder, &["paths", "--quiet", "a.btprof", "-o", "a2.btprof"]), "");

    let mut other = profile("scan.c");
    other.layout = *b"some other build";
    other.build_id = "beef".to_owned();
    save(folder, "other.btprof", &other);
    let (code, message) = refused(folder, &["paths", "a.btprof", "other.btprof"]);
    assert_eq!(code, Some(3));
    assert!(message.contains("scan (build id 5ca0) and scan (build id beef)"), "{message}");
}

#[test]
fn a_change_past_the_limit_is_a_finding() {
    let folder = sample();
    let folder = folder.path();
    let compare = |words: &[&str]| {
        let mut all = vec!["paths", "--compare", "a.btprof", "b.btprof"];
        all.extend_from_slice(words);
        let output = backtrail(folder, &all);
        assert!(output.stderr.is_empty());
        (output.status.code(), String::from_utf8(output.stdout).unwrap())
    };
    let (code, text) = compare(&[]);
    assert_eq!(code, Some(0));
    let line = "  scan  1,600,000 → 1,900,000 executions (+18.8 %), 14.8 % on other paths, inexact";
    assert!(text.contains(line), "{text}");
    assert!(text.contains("100,000  →  400,000  6.2 % → 21.1 %  ↻ 11 T → 12 =98"), "{text}");
    let (code, text) = compare(&["--fail-over", "18"]);
    assert_eq!(code, Some(1));
    assert!(
        text.contains("! scan") && text.contains("1 of 1 changed function over 18 %"),
        "{text}"
    );
    assert_eq!(compare(&["--fail-over", "19%"]).0, Some(0));
    assert_eq!(compare(&["--fail-over", "1", "--least-share", "99.9"]).0, Some(0));
    let usage = ["paths", "--compare", "a.btprof", "b.btprof", "--fail-over=-1"];
    assert_eq!(backtrail(folder, &usage).status.code(), Some(2));
    let same = shown(folder, &["paths", "--compare", "a.btprof", "a.btprof", "--fail-over", "0"]);
    assert!(same.contains("No function changed; 2 ran."), "{same}");

    // Another build, with the function three lines further down.
    let mut moved = profile("scan.c");
    moved.layout = *b"some other build";
    moved.locations.iter_mut().for_each(|location| location.line += 3);
    save(folder, "moved.btprof", &moved);
    let text =
        shown(folder, &["paths", "--compare", "a.btprof", "moved.btprof", "--fail-over", "0"]);
    assert!(text.contains("different builds") && text.contains("No function changed"), "{text}");
}

#[test]
fn files_that_are_no_profiles_are_told_apart() {
    let folder = sample();
    let folder = folder.path();
    let bytes = std::fs::read(folder.join("a.btprof")).unwrap();
    let mut flipped = bytes.clone();
    flipped[100] ^= 1;
    let mut newer = bytes.clone();
    newer[8] = 9;
    for (contents, message) in [
        (&b"#!/bin/sh\n"[..], "bad: not a path profile"),
        (&bytes[..bytes.len() - 1], "bad: truncated"),
        (&flipped, "bad: corrupt"),
        (&newer, "bad: a path profile of version 9"),
    ] {
        std::fs::write(folder.join("bad"), contents).unwrap();
        let (code, said) = refused(folder, &["paths", "bad"]);
        assert_eq!(code, Some(3), "{said}");
        assert!(said.contains(message), "{said}");
    }
    let (code, said) = refused(folder, &["paths", "gone.btprof"]);
    assert_eq!((code, said.contains("gone.btprof: No such file")), (Some(3), true), "{said}");
    let (code, said) = refused(folder, &["paths", "a.btprof", "-o", "no/such/folder"]);
    assert_eq!((code, said.contains("cannot write no/such/folder")), (Some(6), true), "{said}");
    assert_eq!(backtrail(folder, &["paths"]).status.code(), Some(2));
}

/// What it prints on a terminal of some width.
fn on_terminal(folder: &Path, columns: u32, variables: &str, words: &str) -> String {
    let backtrail = env!("CARGO_BIN_EXE_backtrail");
    let line = format!("stty rows 40 cols {columns}; {variables} {backtrail} {words}");
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]).current_dir(folder);
    let output = command.env("TERM", "xterm").env_remove("NO_COLOR").output();
    let output = output.expect("script can be started (package bsdutils)");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    String::from_utf8(output.stdout).unwrap().replace('\r', "")
}

#[test]
fn a_terminal_has_colours_and_a_width() {
    let folder = sample();
    let folder = folder.path();
    let coloured = on_terminal(folder, 100, "", "paths a.btprof --top 1");
    assert!(coloured.contains("\u{1b}[1mscan\u{1b}[0m"), "{coloured}");
    let plain = on_terminal(folder, 100, "NO_COLOR=1", "paths a.btprof --top 1");
    assert_eq!(plain, shown(folder, &["paths", "a.btprof", "--top", "1"]));
    let narrow = on_terminal(folder, 56, "NO_COLOR=1", "paths a.btprof --top 3");
    let paths = narrow.split("\nHottest").nth(1).unwrap().split("  6 more").next().unwrap();
    assert!(paths.lines().count() > 25, "{paths}");
    for line in paths.lines() {
        assert!(line.chars().count() <= 56, "{line}");
    }
}
