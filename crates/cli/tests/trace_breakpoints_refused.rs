//! What cannot be traced by breakpoints, and what happens when tracing goes wrong: a
//! message, an exit code, no trace that looks whole and no process left.

use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::{CommandExt as _, ExitStatusExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");
const TRACE: [&str; 5] = ["trace", "--witness", "breakpoint", "-o", "trace"];

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        // For whoever else runs here.
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(folder.path(), all).unwrap();
        Self { folder }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, text: &str, options: &[&str]) -> PathBuf {
        let source = self.path(name).with_extension("c");
        std::fs::write(&source, text).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.current_dir(self.folder.path());
        let done = gcc.arg(&source).args(options).arg("-o").arg(self.path(name)).status();
        assert!(done.unwrap().success(), "{name}");
        self.path(name)
    }

    /// Exit code and message of a command in the folder; there must be no trace.
    fn refused(&self, command: &mut Command) -> (Option<i32>, String) {
        let output = command.current_dir(self.folder.path()).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!self.path("trace").exists(), "{message}");
        let left = self.folder.path().read_dir().unwrap().flatten();
        let mut left = left.map(|it| it.file_name().to_string_lossy().into_owned());
        assert!(!left.any(|name| name.starts_with(".backtrail-")), "{message}");
        (output.status.code(), message)
    }

    fn trace(&self, words: &[&str]) -> (Option<i32>, String) {
        self.refused(Command::new(BACKTRAIL).args(TRACE).args(words))
    }
}

fn check((code, message): (Option<i32>, String), expected: i32, words: &str) {
    assert_eq!(code, Some(expected), "{message}");
    assert!(message.contains(words), "{message}");
}

#[test]
fn other_kinds_of_executables_are_refused() {
    let place = Place::new();
    let nothing = place.compile("nothing", "int main(void) { return 0; }\n", &[]);
    // The class of an ELF file is its fifth byte: 1 for 32 bits.
    let mut bytes = std::fs::read(&nothing).unwrap();
    bytes[4] = 1;
    std::fs::write(place.path("short"), &bytes).unwrap();
    let mode = std::fs::Permissions::from_mode(0o755);
    std::fs::set_permissions(place.path("short"), mode).unwrap();
    let (code, message) = place.trace(&["./short"]);
    assert_eq!(code, Some(3), "{message}");
    assert!(message.contains("32") || message.contains("ELF"), "{message}");
    std::fs::write(place.path("id"), "go").unwrap();
    let mut objcopy = Command::new("objcopy");
    objcopy.current_dir(place.folder.path()).args(["--add-section", ".note.go.buildid=id"]);
    assert!(objcopy.args(["nothing", "go"]).status().unwrap().success());
    check(place.trace(&["./go"]), 3, "a Go program");
    check(place.trace(&["./missing"]), 3, "missing");
    std::fs::write(place.path("text"), "hello\n").unwrap();
    check(place.trace(&["./text"]), 3, "text");
}

/// Runs `command` as somebody without rights, if this process may.
fn as_nobody(command: &mut Command) -> bool {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|it| {
        use std::os::unix::fs::MetadataExt as _;
        it.uid() == 0
    });
    if is_root {
        command.uid(65534).gid(65534);
    }
    is_root
}

#[test]
fn a_program_that_would_gain_privileges_is_refused() {
    let place = Place::new();
    let program = place.compile("program", "int main(void) { return 0; }\n", &[]);
    let mut command = Command::new(BACKTRAIL);
    command.args(TRACE);
    // The owner has to be another: root's, seen by nobody, or a file of root's.
    if as_nobody(&mut command) {
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o4755)).unwrap();
        command.arg("./program");
    } else {
        command.arg("/usr/bin/passwd");
    }
    check(place.refused(&mut command), 5, "set-user-id");
}

/// Starts its arguments with `ptrace` forbidden.
const FORBIDS: &str = include_str!("fixtures/untraced.c");

#[test]
fn where_ptrace_is_forbidden_the_settings_are_named() {
    let place = Place::new();
    let forbids = place.compile("forbids", FORBIDS, &[]);
    for options in [&[][..], &["--in-process"], &["--runs", "2"]] {
        let mut command = Command::new(&forbids);
        command.arg(BACKTRAIL).args(TRACE).args(options).arg("/usr/bin/ls");
        let refused = place.refused(&mut command);
        assert!(refused.1.contains("seccomp"), "{options:?}: {}", refused.1);
        check(refused, 5, "kernel.yama.ptrace_scope");
    }
}

#[test]
fn a_program_that_is_not_deterministic_diverges_and_the_place_is_told() {
    let place = Place::new();
    // As many calls as the number of the process says, which every run sees.
    let text = "#include <unistd.h>\nstatic volatile int calls;\n\
                static void call(void) { calls++; }\n\
                static void (*volatile pointer)(void) = call;\n\
                int main(void) { for (int i = getpid() % 5000; i >= 0; i--) pointer(); \
                return 0; }\n";
    place.compile("program", text, &["-O1"]);
    let (code, message) = place.trace(&["--runs", "2", "./program"]);
    assert_eq!(code, Some(4), "{message}");
    assert!(message.contains("diverged after"), "{message}");
    let names = |function: &str| message.contains(&format!(" in {function}; run "));
    assert!(names("main") || names("call"), "{message}");
    place.compile(
        "output",
        "#include <stdio.h>\n#include <unistd.h>\n\
                             int main(void) { printf(\"%d\\n\", getpid()); return 0; }\n",
        &[],
    );
    check(place.trace(&["--runs", "2", "./output"]), 4, "differ");
}

#[test]
fn a_full_disk_leaves_no_trace() {
    let place = Place::new();
    // Files of a few blocks: what a full disk does, without one.
    let limited = |words: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; ulimit -f 8; exec \"$0\" \"$@\"", BACKTRAIL]);
        place.refused(shell.args(TRACE).args(words))
    };
    let sort = ["/usr/bin/sort", "--", "-S1M", "/etc/services", "-o", "/dev/null"];
    for options in [&[][..], &["--in-process"], &["--runs", "2"]] {
        let (code, message) = limited(&[options, &sort[..]].concat());
        assert_eq!(code, Some(6), "{options:?}: {message}");
        assert!(message.contains("too large") || message.contains("File"), "{message}");
    }
    let (code, message) = place.trace(&["-o", "nowhere/trace", "/usr/bin/true"]);
    assert_eq!(code, Some(2), "{message}");
}

fn wait_for(what: &str, mut is_there: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_there() {
        assert!(start.elapsed() < Duration::from_secs(60), "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn an_interruption_leaves_no_process_and_no_file() {
    let place = Place::new();
    let text = "#include <stdio.h>\n#include <unistd.h>\n\
                int main(void) { FILE *file = fopen(\"pid\", \"w\"); \
                fprintf(file, \"%d\\n\", getpid()); fclose(file); for (;;) usleep(1000); }\n";
    place.compile("program", text, &[]);
    let scratch = place.path("scratch");
    for options in [&[][..], &["--in-process"], &["--runs", "2", "--isolate", "none"]] {
        for signal in ["-INT", "-TERM"] {
            std::fs::create_dir_all(&scratch).unwrap();
            let _ = std::fs::remove_file(place.path("pid"));
            // Whoever runs this may ignore them, as shells do for what runs in the background.
            let mut command = Command::new("env");
            command.args(["--default-signal=INT,TERM", BACKTRAIL]);
            command.current_dir(place.folder.path()).env("TMPDIR", &scratch);
            command.args(TRACE).args(options).arg("./program").stderr(Stdio::piped());
            let tool = command.stdin(Stdio::null()).spawn().unwrap();
            let pid = || -> Option<u32> {
                std::fs::read_to_string(place.path("pid")).ok()?.trim().parse().ok()
            };
            wait_for("the program starts", || pid().is_some());
            let traced = pid().unwrap();
            let killed = Command::new("kill").arg(signal).arg(tool.id().to_string()).status();
            assert!(killed.unwrap().success());
            let output = tool.wait_with_output().unwrap();
            let status = output.status;
            let said = String::from_utf8_lossy(&output.stderr);
            assert!(!status.success(), "{options:?} {signal}: {status:?}");
            let number = if signal == "-INT" { 2 } else { 15 };
            assert!(
                status.signal() == Some(number) || status.code() == Some(128 + number),
                "{options:?} {signal}: {status:?}: {said}"
            );
            let is_gone = || {
                let state = std::fs::read_to_string(format!("/proc/{traced}/stat"));
                state.map_or(true, |it| it.contains(") Z "))
            };
            wait_for("the program ends", is_gone);
            // What ran is kept; of several runs nothing is put together.
            let is_kept = std::fs::remove_file(place.path("trace")).is_ok();
            assert_eq!(is_kept, !options.contains(&"--runs"), "{options:?} {signal}");
            let left: Vec<_> = scratch.read_dir().unwrap().flatten().collect();
            assert!(left.is_empty(), "{options:?} {signal}: {left:?}");
        }
    }
}

/// While libraries are loaded, and at the program's first instruction, before any of its
/// code has run.
#[test]
fn signals_come_before_the_program_begins() {
    let place = Place::new();
    let program = "#include <stdio.h>\nint main(void) { puts(\"ran\"); return 7; }\n";
    for (name, text, ended_by) in [
        (
            "often",
            "#include <signal.h>\n#include <sys/time.h>\n\
             static void ignore(int number) { (void)number; }\n\
             __attribute__((constructor)) static void begin(void) { \
             struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART}; \
             sigaction(SIGALRM, &action, 0); \
             struct itimerval often = {{0, 50}, {0, 50}}; setitimer(ITIMER_REAL, &often, 0); }\n",
            None,
        ),
        (
            "once",
            "#include <signal.h>\n\
             __attribute__((constructor)) static void begin(void) { raise(SIGTERM); }\n",
            Some(15),
        ),
    ] {
        place.compile("lib.so", text, &["-shared", "-fPIC"]);
        place.compile(name, program, &["-Wl,--no-as-needed", "lib.so", "-Wl,-rpath,$ORIGIN"]);
        for options in [&[][..], &["--in-process"], &["--runs", "2"]] {
            let mut command = Command::new(BACKTRAIL);
            command.current_dir(place.folder.path()).args(TRACE).args(options).arg("-q");
            let output = command.arg(place.path(name)).output().unwrap();
            let said = String::from_utf8_lossy(&output.stderr);
            let printed = String::from_utf8_lossy(&output.stdout);
            assert_eq!(output.status.signal(), ended_by, "{name} {options:?}: {said}");
            assert_eq!(printed.contains("ran"), ended_by.is_none(), "{name} {options:?}: {said}");
            let is_there = std::fs::remove_file(place.path("trace")).is_ok();
            assert_eq!(is_there, ended_by.is_none(), "{name} {options:?}: {said}");
            if !options.contains(&"--runs") && ended_by.is_some() {
                assert!(said.contains("ended by signal 15 before its own code"), "{said}");
            }
        }
    }
}

#[test]
fn a_program_that_needs_a_terminal_has_it_in_one_run() {
    let place = Place::new();
    let text = "#include <stdio.h>\n#include <unistd.h>\n\
                int main(void) { if (!isatty(0) || !isatty(1)) { \
                fputs(\"no terminal\\n\", stderr); return 3; } return 0; }\n";
    place.compile("program", text, &[]);
    // `script` gives a terminal to what it runs.
    let in_terminal = |runs: &str| {
        let line = format!("{BACKTRAIL} {} --runs {runs} ./program", TRACE.join(" "));
        let mut script = Command::new("script");
        script.current_dir(place.folder.path()).args(["-qec", &line, "/dev/null"]);
        let output = script.stdin(Stdio::null()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
    };
    let (code, printed) = in_terminal("1");
    assert_eq!(code, Some(0), "{printed}");
    assert!(Path::new(&place.path("trace")).exists());
    // Several cannot share one: they have pipes, and the program says what it misses.
    let (code, printed) = in_terminal("2");
    assert_eq!(code, Some(3), "{printed}");
    assert!(printed.contains("no terminal"), "{printed}");
}
