//! What a run did that probes do not see is said: libraries without IR, and what ran behind
//! calls that start programs, replace this one or open libraries.

mod cc_project;

use cc_project::Project;

const LAUNCHER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>
int main(int argc, char **argv) {
    if (argc > 1) return system("true");
    printf("%s\n", *zlibVersion() ? "z" : "");
    fflush(stdout);
    execlp("echo", "echo", "became", (char *)0);
    return 1;
}
"#;

fn told(project: &Project, command: &str) -> String {
    let ran = project.run_ours(&format!("backtrail {command}"));
    let told = ran.stderr.clone();
    assert!(ran.status == 0, "{command}: {told}");
    told
}

#[test]
fn what_is_not_recorded_is_said_in_a_line() {
    let project = Project::new(&[
        ("l.c", LAUNCHER),
        ("p.c", "int main(int argc, char **argv) { return argc > 3; }\n"),
    ]);
    project.run_ours("$CC -O1 -g l.c -lz -o l && $CC -O1 -g p.c -o p").succeeded();
    let library = "backtrail: not recorded: 1 library without IR besides the C library";
    for verb in [
        "profile -o out",
        "profile --copies 2 -o out",
        "trace -o out",
        "trace --runs 2 -o out",
        "trace --strategy log -o out",
    ] {
        let (became, started) =
            (told(&project, &format!("{verb} ./l")), told(&project, &format!("{verb} ./l -- x")));
        let call = |call: &str| format!("{library}, and what ran behind the call of {call}\n");
        // Counters do not know all of a function that was not left.
        let became_other = match verb.starts_with("profile") {
            true => {
                "and what may have run behind calls of execlp in main (l.c:10), \
                 system in main (l.c:7)\n"
            }
            false => "and what ran behind the call of execlp in main (l.c:10)\n",
        };
        assert!(became.contains(library) && became.contains(became_other), "{verb}: {became}");
        assert!(started.contains(&call("system in main (l.c:7)")), "{verb}: {started}");
        assert!(!told(&project, &format!("{verb} ./p")).contains("not recorded"), "{verb}");
        assert!(!told(&project, &format!("-q {verb} ./l")).contains("not recorded"), "{verb}");
    }
}
