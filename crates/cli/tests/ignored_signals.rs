//! A program ignores what it would ignore if it were started alone.

mod cc_project;

use cc_project::Project;

/// Tells what it ignores, of the signals that the C library lets it ask for.
const PROGRAM: &str = r#"
#include <signal.h>
#include <stdio.h>
int main(void) {
    for (int i = 1; i < 65; i++) {
        struct sigaction action;
        if (sigaction(i, 0, &action) == 0 && action.sa_handler == SIG_IGN) printf("%d ", i);
    }
    puts("ignored");
    return 0;
}
"#;

/// Ignores the signals that are given, or none, and becomes the rest.
const IGNORES: &str = r#"
import os, signal, sys
for number in range(1, 32):
    if number not in (9, 19): signal.signal(number, signal.SIG_DFL)
for number in sys.argv[1].split(): signal.signal(int(number), signal.SIG_IGN)
os.execvp(sys.argv[2], sys.argv[2:])
"#;

#[test]
fn a_program_ignores_what_it_would_alone() {
    let project = Project::new(&[("p.c", PROGRAM), ("ignores.py", IGNORES)]);
    project.run_ours("$CC -O1 p.c -o p").succeeded();
    for signals in ["", "13", "17", "1 2 13 17 28"] {
        let ignoring = format!("python3 ignores.py '{signals}'");
        let alone = project.run_ours(&format!("{ignoring} ./p")).succeeded().text();
        assert_eq!(alone, format!("{signals} ignored\n").trim_start());
        for verb in [
            "run",
            "profile -o out",
            "profile --copies 2 -o out",
            "trace -o out",
            "trace --runs 2 -o out",
            "trace --strategy log -o out",
            "trace --witness breakpoint -o out",
            "trace --witness breakpoint --in-process -o out",
            "trace --witness breakpoint --runs 2 -o out",
        ] {
            let ran = project.run_ours(&format!("{ignoring} backtrail -q {verb} ./p")).succeeded();
            assert_eq!(ran.text(), alone, "{verb}");
        }
    }
    // Compilers and linkers are waited for all the same.
    let build = "python3 ignores.py 17 $CC -O1 p.c -o q && python3 ignores.py 17 backtrail -q \
        instrument --scheme log -o q.log q";
    project.run_ours(build).succeeded();
}

/// Writes a file of 4 MiB.
const FILLS: &str = r#"
#include <stdio.h>
int main(void) {
    static char block[1 << 16];
    FILE *file = fopen("filled", "w");
    for (int i = 0; i < 64; i++) if (fwrite(block, 1 << 16, 1, file) != 1) return 5;
    return 3;
}
"#;

#[test]
fn a_limit_on_files_is_an_error_for_us_and_for_the_program_what_it_is() {
    let project = Project::new(&[("p.c", FILLS), ("ignores.py", IGNORES)]);
    let ran = project.run_ours("$CC -O1 p.c -o p && backtrail -q profile -o kept ./p");
    assert_eq!(ran.status, 3, "{}", ran.stderr);
    for verb in ["profile -o out ./p", "instrument --scheme log -o out p", "paths -o out kept"] {
        let ran = project.run_ours(&format!("ulimit -f 0; backtrail -q {verb} 2> /dev/full"));
        assert_eq!(ran.status, 6, "{verb}: {}", ran.stderr);
    }
    for (signals, status) in [("", 153), ("25", 5)] {
        for verb in ["profile -o out", "trace -o out", "trace --witness breakpoint -o out"] {
            let script = format!(
                "ulimit -c 0; ulimit -f 4000; python3 ignores.py '{signals}' backtrail -q {verb} ./p"
            );
            let ran = project.run_ours(&format!("({script}); echo $? > status; cat status"));
            assert_eq!(ran.text().trim(), status.to_string(), "{verb}: {}", ran.stderr);
            assert!(project.ours("out").exists(), "{verb}");
            std::fs::remove_file(project.ours("out")).unwrap();
        }
    }
}
