//! Whatever takes long says what it is doing, and what does not take long says nothing.

mod profile_program;

use std::process::Output;

use profile_program::{BACKTRAIL, Program};

const LOOP: &str = "#include <stdio.h>\n\
    int main(void) { int n = 0; for (int i = 0; i < 9; i++) if (i & 1) n += i; \
    printf(\"%d\\n\", n); return 0; }\n";

/// Runs the tool, which says nothing for so many seconds.
fn run(program: &Program, silence: &str, words: &[&str]) -> Output {
    let mut command = program.command(BACKTRAIL);
    let output = command.env("BACKTRAIL_PROGRESS", silence).args(words).output().unwrap();
    assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
    output
}

fn said(output: &Output) -> Vec<String> {
    String::from_utf8_lossy(&output.stderr).lines().map(str::to_owned).collect()
}

#[test]
fn what_is_done_is_said_in_order() {
    let program = Program::c(LOOP, &["-O1"]);
    for (words, wanted) in [
        (
            &["trace", "./program"][..],
            &["planning", "deriving", "running ./program", "rebuilding the trace"][..],
        ),
        (
            &["trace", "--runs", "2", "./program"],
            &["planning", "deriving", "running", "rebuilding"],
        ),
        (
            &["trace", "--strategy", "log", "./program"],
            &["deriving", "running", "writing the trace"],
        ),
        (
            &["trace", "--witness", "breakpoint", "./program"],
            &["finding code", "planning", "running ./program", "rebuilding the trace"],
        ),
        (&["profile", "./program"], &["deriving", "running ./program", "reading what was counted"]),
        (
            &["profile", "--copies", "2", "./program"],
            &["planning", "deriving", "running", "reading"],
        ),
        (&["paths", "program.btprof"], &["reading what was counted"]),
        (&["info", "program"], &["reading what is carried"]),
    ] {
        let output = run(&program, "0", words);
        let lines = said(&output);
        let mut rest = lines.iter();
        for wanted in wanted {
            let line = format!("backtrail: {wanted}");
            assert!(rest.any(|it| it.starts_with(&line)), "{words:?}: {wanted} in {lines:#?}");
        }
        let is_progress = |line: &String| line.starts_with("backtrail: ");
        assert!(lines.iter().all(is_progress), "{words:?}: {lines:#?}");
        // The program's own output is what it is.
        if words.contains(&"./program") {
            assert_eq!(String::from_utf8_lossy(&output.stdout), "16\n", "{words:?}");
        }
        // Nothing is said of what does not take long, or where nobody wants it.
        assert_eq!(said(&run(&program, "3600", words)), [""; 0], "{words:?}");
        assert_eq!(said(&run(&program, "never", words)), [""; 0], "{words:?}");
        let quiet = [&["-q"], words].concat();
        assert_eq!(said(&run(&program, "0", &quiet)), [""; 0], "{words:?}");
    }
}

/// A terminal has one line that changes, and is clean when it is over.
#[test]
fn a_terminal_has_a_line_that_goes_away() {
    let program = Program::c(LOOP, &["-O1"]);
    let shown = |silence: &str| {
        let mut command = program.command("script");
        let line = format!("{BACKTRAIL} profile ./program");
        command.args(["-q", "-e", "-c", &line, "/dev/null"]).env("TERM", "xterm");
        let output = command.env("BACKTRAIL_PROGRESS", silence).output().unwrap();
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let text = shown("0");
    assert!(text.contains("deriving") && text.contains("\u{1b}[2K"), "{text:?}");
    assert!(text.contains("backtrail: running ./program\r\n"), "{text:?}");
    assert_eq!(shown("3600"), "16\r\n");
}
