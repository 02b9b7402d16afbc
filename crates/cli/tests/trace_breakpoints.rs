//! `backtrail trace --witness breakpoint` on executables as they are installed.

use std::path::Path;
use std::process::{Command, Output};

fn backtrail(folder: &Path, words: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
    command.current_dir(folder).args(words).output().unwrap()
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The blocks of a trace, without the line about the process.
fn blocks(folder: &Path, file: &str) -> Vec<String> {
    let shown = backtrail(folder, &["show", file, "--json"]);
    assert!(shown.status.success(), "{}", text(&shown.stderr));
    let lines: Vec<serde_json::Value> = text(&shown.stdout)
        .lines()
        .skip(1)
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    lines.iter().map(|it| format!("{} {}", it["function"], it["block"])).collect()
}

#[test]
fn one_run_and_three_give_the_same_trace_and_the_programs_own_output() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("in"), "b\nc\na\n").unwrap();
    let ways: [(&str, &str, &[&str]); 3] =
        [("1", "one", &[]), ("3", "three", &[]), ("2", "inside", &["--in-process"])];
    for (runs, output, options) in ways {
        let words = ["trace", "--witness", "breakpoint", "--runs", runs, "-o", output];
        // Without a size, sort goes by how much memory is free.
        let program = ["/usr/bin/sort", "--", "-S1M", "in"];
        let traced = backtrail(folder, &[&words[..], options, &program].concat());
        assert!(traced.status.success(), "{}", text(&traced.stderr));
        assert_eq!(text(&traced.stdout), "a\nb\nc\n");
    }
    let one = blocks(folder, "one");
    assert!(one.len() > 500, "{}", one.len());
    // All printed to pipes.
    assert_eq!(one, blocks(folder, "three"));
    assert_eq!(one, blocks(folder, "inside"));
}

#[test]
fn the_programs_status_is_left_with_and_what_cannot_be_traced_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trace = |words: &[&str]| {
        let traced =
            backtrail(folder, &[&["trace", "--witness", "breakpoint", "-o", "t"], words].concat());
        (traced.status.code(), text(&traced.stderr))
    };
    assert_eq!(trace(&["/usr/bin/false"]).0, Some(1));
    assert_eq!(trace(&["/usr/bin/expr", "--", "1", "+"]).0, Some(2));
    let source = folder.join("nothing.c");
    std::fs::write(
        &source,
        "#ifndef STATUS\n#define STATUS 0\n#endif\nint main(void) { return STATUS; }\n",
    )
    .unwrap();
    let compile = |options: &[&str], to: &str| {
        let mut command = Command::new("gcc");
        let command = command.current_dir(folder).args(options).arg(&source).args(["-o", to]);
        assert!(command.status().unwrap().success());
    };
    // Its C library is in it, and traced with it.
    compile(&["-static", "-DSTATUS=7"], "static");
    assert_eq!(trace(&["./static"]).0, Some(7));
    assert!(blocks(folder, "t").len() > 500);
    std::fs::write(folder.join("script"), "#!/bin/sh\n").unwrap();
    let made = Command::new("chmod").arg("+x").arg(folder.join("script")).status().unwrap();
    assert!(made.success());
    let (code, message) = trace(&["./script"]);
    assert_eq!(code, Some(3), "{message}");
    assert!(
        message.contains("./script is a script for /bin/sh: trace the interpreter"),
        "{message}"
    );
    let (code, message) = trace(&["--strategy", "log", "/usr/bin/true"]);
    assert_eq!(code, Some(2), "{message}");
}

#[test]
fn a_program_is_found_where_shells_find_commands() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let trace = |options: &[&str]| {
        let words = ["trace", "--witness", "breakpoint"];
        let traced = backtrail(folder, &[&words, options, &["expr", "--", "1", "+"]].concat());
        (traced.status.code(), text(&traced.stderr))
    };
    // A folder of that name is nothing that could be started.
    std::fs::create_dir(folder.join("expr")).unwrap();
    for options in [&[][..], &["--runs", "2"], &["--runs", "2", "--in-process"]] {
        let (code, message) = trace(options);
        assert_eq!(code, Some(2), "{options:?}: {message}");
        // Its own message, which begins with the name it was started by.
        assert!(message.lines().any(|it| it.starts_with("expr: ")), "{options:?}: {message}");
        std::fs::remove_file(folder.join("expr.bttrace")).unwrap();
    }
    // A file in the folder comes first.
    std::fs::remove_dir(folder.join("expr")).unwrap();
    std::fs::copy("/usr/bin/false", folder.join("expr")).unwrap();
    assert_eq!(trace(&[]).0, Some(1));
    let missing = backtrail(folder, &["trace", "--witness", "breakpoint", "no-such-program"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(text(&missing.stderr).contains("no-such-program"), "{}", text(&missing.stderr));
}

/// A breakpoint in one would be read as a part of it.
#[test]
fn constants_between_functions_are_left_alone() {
    let folder = tempfile::tempdir().unwrap();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/constants_in_code.c");
    for options in [&["-O1"][..], &["-O1", "-s"], &["-O1", "-s", "-no-pie", "-fno-pie"]] {
        let mut gcc = Command::new("gcc");
        gcc.current_dir(folder.path()).args(options).args([source, "-o", "program"]);
        assert!(gcc.status().unwrap().success(), "{options:?}");
        let alone = Command::new(folder.path().join("program")).output().unwrap();
        for runs in ["1", "3"] {
            let words =
                ["trace", "--witness", "breakpoint", "--runs", runs, "-o", "t", "./program"];
            let traced = backtrail(folder.path(), &words);
            let told = text(&traced.stderr);
            assert_eq!(traced.status.code(), Some(0), "{options:?} {runs}: {told}");
            assert_eq!(text(&traced.stdout), text(&alone.stdout), "{options:?} {runs}: {told}");
        }
    }
}
