//! A program that dies of a signal is followed by the tool, in every verb that runs one.

mod cc_project;

use cc_project::Project;

/// Dies of the signal that it is given, or of a real fault.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    if (atoi(argv[1]) == 0) *(volatile int *)0 = argc;
    raise(atoi(argv[1]));
    return 9;
}
"#;

/// Signals that end a program that does not expect them: Rust's runtime has handlers for
/// some, ignores one, and knows nothing of the rest.
const SIGNALS: [i32; 20] = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 26, 30, 31];

const VERBS: [&str; 6] = [
    "profile -o out",
    "profile --copies 2 -o out",
    "trace -o out",
    "trace --strategy log -o out",
    "trace --witness breakpoint -o out",
    "trace --witness breakpoint --in-process -o out",
];

#[test]
fn the_tool_ends_as_the_program_did() {
    let project = Project::new(&[("p.c", PROGRAM)]);
    project.run_ours("$CC -O1 p.c -o p").succeeded();
    // A shell cannot tell a status of 139 from a signal, so something else looks.
    let look = "import subprocess, sys\n\
        print(subprocess.run(sys.argv[1:], stderr=subprocess.DEVNULL).returncode)\n";
    std::fs::write(project.ours("look.py"), look).unwrap();
    for verb in VERBS {
        // They all leave by the same door, so one goes through the whole list.
        let signals = if verb == VERBS[0] { &SIGNALS[..] } else { &[0, 7, 13, 15][..] };
        for &signal in signals {
            let script = format!(
                "ulimit -c 0; python3 look.py ./p {signal}; \
                 python3 look.py backtrail {verb} ./p -- {signal}"
            );
            let text = project.run_ours(&script).succeeded().text();
            let [alone, ours] = text.lines().collect::<Vec<_>>()[..] else { panic!("{text}") };
            assert!(alone.starts_with('-'), "{signal}: {alone}");
            assert_eq!(ours, alone, "{verb}, signal {signal}");
        }
    }
}

/// Dies before anything of what is recorded runs.
const EARLY: &str = "#include <signal.h>\n\
    __attribute__((constructor)) static void early(void) { raise(SIGKILL); }\n";

#[test]
fn whose_status_it_is_where_nothing_was_recorded() {
    let project = Project::new(&[("p.c", PROGRAM), ("early.c", EARLY)]);
    project.run_ours("clang-19 -c early.c && $CC -O1 p.c early.o -o p").succeeded();
    for verb in ["profile", "trace", "trace --strategy log", "trace --witness breakpoint"] {
        let script = format!("backtrail {verb} --status status -o out ./p -- 0; cat status");
        let ran = project.run_ours(&script).succeeded();
        let told = match verb.contains("breakpoint") {
            // A trace of nothing, but there is one.
            true => "backtrail 0\nprogram signal 9\n",
            false => "backtrail 3\nprogram signal 9\n",
        };
        assert_eq!(ran.text(), told, "{verb}: {}", ran.stderr);
    }
}
