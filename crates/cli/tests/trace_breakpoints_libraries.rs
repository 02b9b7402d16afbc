//! `backtrail trace --witness breakpoint --library`: libraries, traced with the program
//! that loads them.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// A program `host` with a library `libshared.so`.
    fn new() -> Self {
        let place = Self { folder: tempfile::tempdir().unwrap() };
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine/tests/code");
        let library = place.path("libshared.so");
        let compile = |source: &str, options: &[&str], to: &Path| {
            let mut gcc = Command::new("gcc");
            let gcc = gcc.args(["-O1", "-g"]).arg(sources.join(source)).args(options);
            assert!(gcc.arg("-o").arg(to).status().unwrap().success(), "{source}");
        };
        compile("shared.c", &["-fPIC", "-shared"], &library);
        compile("host.c", &[library.to_str().unwrap()], &place.path("host"));
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn run(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
        command.current_dir(self.folder.path()).args(words).output().unwrap()
    }

    fn trace(&self, words: &[&str]) -> Output {
        let start = ["trace", "--witness", "breakpoint", "-o", "trace"];
        self.run(&[&start[..], words, &["./host", "--", "3"]].concat())
    }

    /// Functions and blocks of the trace, and what it says of itself.
    fn shown(&self, options: &[&str]) -> (Vec<String>, String) {
        let shown = self.run(&[&["show", "trace", "--json"], options].concat());
        assert!(shown.status.success(), "{}", text(&shown.stderr));
        let shown = text(&shown.stdout);
        let mut lines = shown.lines().map(|it| serde_json::from_str(it).unwrap());
        let head: serde_json::Value = lines.next().unwrap();
        let incomplete = head["incomplete"].as_str().unwrap_or_default().to_owned();
        let blocks = lines.map(|it| format!("{} {}", it["function"], it["block"]));
        (blocks.collect(), incomplete)
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[test]
fn blocks_of_a_library_are_in_the_trace_and_told_apart() {
    let place = Place::new();
    let plain = place.trace(&[]);
    assert!(plain.status.success(), "{}", text(&plain.stderr));
    let (alone, incomplete) = place.shown(&[]);
    assert_eq!(incomplete, "");
    let traced = place.trace(&["--library", "libshared*"]);
    assert!(traced.status.success(), "{}", text(&traced.stderr));
    assert_eq!(text(&traced.stdout), text(&plain.stdout));
    let (one, incomplete) = place.shown(&[]);
    assert!(incomplete.contains("libshared.so") && incomplete.contains("entry point"));
    let is_of_library = |it: &&String| it.starts_with("\"libshared.so:");
    let in_library = one.iter().filter(is_of_library).count();
    assert!(in_library > 100, "{one:?}");
    // The program's own blocks are the same, in the same order.
    let own: Vec<&String> = one.iter().filter(|it| !is_of_library(it)).collect();
    assert_eq!(own, alone.iter().collect::<Vec<_>>());
    let (found, _) = place.shown(&["--function", "libshared.so:*"]);
    assert_eq!(found.len(), in_library);
    assert!(found.iter().any(|it| it.contains("libshared.so:shared_mix")));
    // Several runs, planned by the counts of the first.
    std::fs::rename(place.path("trace"), place.path("before")).unwrap();
    let words = ["--library", "libshared*", "--runs", "3", "--weights", "before"];
    let again = place.trace(&words);
    assert!(again.status.success(), "{}", text(&again.stderr));
    assert_eq!(place.shown(&[]).0, one);
    // Counts of the program alone are of something else.
    let refused = place.trace(&["--weights", "before"]);
    assert_eq!(refused.status.code(), Some(3), "{}", text(&refused.stderr));
}

#[test]
fn libraries_that_are_not_there_are_told() {
    let place = Place::new();
    for (words, expected) in [
        (&["--library", "libz*"][..], "there are libshared.so, libc.so.6"),
        (&["--library", "ld-linux*"], "no library of"),
        (&["--library", "libshared*", "--in-process"], "for the executable alone"),
    ] {
        let refused = place.trace(words);
        let message = text(&refused.stderr);
        assert_eq!(refused.status.code(), Some(2), "{message}");
        assert!(message.contains(expected), "{message}");
        assert!(!place.path("trace").exists());
    }
}
