//! A program gets the environment that we got, in its order, whatever runs it.

mod cc_project;

use cc_project::Project;

const PROGRAM: &str = r#"
#include <stdio.h>
#include <string.h>
extern char **environ;
int main(void) {
    for (char **it = environ; *it; it++)
        if (strncmp(*it, "BACKTRAIL_DIR=", 14)) puts(*it);
    return 0;
}
"#;

/// Becomes the rest with variables that no shell would hand on: unsorted, twice, no variable.
const GIVES: &str = r#"
import ctypes, os, sys
own = [f"{name}={os.environ[name]}" for name in os.environ if name.startswith("BACKTRAIL")]
words = [f"PATH={os.environ['PATH']}", f"HOME={os.environ.get('HOME', '/')}"]
entries = ["Z=1"] + words + ["A=2", "M=3", "no variable", "Z=4"] + own + ["AB=5"]
array = lambda texts: (ctypes.c_char_p * (len(texts) + 1))(*[it.encode() for it in texts], None)
libc = ctypes.CDLL(None)
import shutil
libc.execve(shutil.which(sys.argv[1]).encode(), array(sys.argv[1:]), array(entries))
"#;

#[test]
fn a_program_gets_its_variables_in_order() {
    let project = Project::new(&[("p.c", PROGRAM), ("gives.py", GIVES)]);
    project.run_ours("$CC -O1 p.c -o p").succeeded();
    let alone = project.run_ours("python3 gives.py ./p").succeeded().text();
    assert!(alone.starts_with("Z=1\n") && alone.contains("\nno variable\nZ=4\n"), "{alone}");
    for verb in [
        "run",
        "profile -o out",
        "profile --copies 2 -o out",
        "trace -o out",
        "trace --runs 2 -o out",
        "trace --strategy log -o out",
        "trace --witness breakpoint -o out",
        "trace --witness breakpoint --runs 2 -o out",
    ] {
        let ran = project.run_ours(&format!("python3 gives.py backtrail -q {verb} ./p"));
        assert_eq!(ran.succeeded().text(), alone, "{verb}");
    }
}
