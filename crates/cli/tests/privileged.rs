//! A program with rights that its variants have not is not run without them.

mod cc_project;

use std::os::unix::fs::MetadataExt as _;

use cc_project::Project;

const PROGRAM: &str = "#include <stdio.h>\n\
    int main(int argc, char **argv) { puts(\"it ran\"); return argc - 1; }\n";

/// Gives a file a capability (`vfs_cap_data` in linux/capability.h).
const CAPABLE: &str = "import os, struct\n\
    os.setxattr('p', 'security.capability', struct.pack('<5I', 0x2000001, 1 << 13, 0, 0, 0))\n";

#[test]
fn what_would_run_without_its_rights_is_refused() {
    // Others have no rights to give.
    if std::fs::metadata("/proc/self").unwrap().uid() != 0 {
        return;
    }
    let project = Project::new(&[("p.c", PROGRAM), ("capable.py", CAPABLE)]);
    project.run_ours("$CC -O1 p.c -o p && chmod -R a+rX . .. && mkdir -m 777 own").succeeded();
    let by_others = "cd own && setpriv --reuid=65534 --regid=65534 --clear-groups \
        env TMPDIR=$PWD BACKTRAIL_CACHE=$PWD/cache";
    for give in ["chmod 4755 p", "chmod 2755 p", "python3 capable.py"] {
        project.run_ours(&format!("chmod 755 p && setfattr -x security.capability p; {give}"));
        for verb in [
            "profile",
            "profile --copies 2",
            "trace",
            "trace --strategy log",
            "trace --runs 2",
            "trace --witness breakpoint",
        ] {
            let script = format!("{by_others} backtrail {verb} -o out ../p");
            let ran = project.run_ours(&script);
            assert_eq!(ran.status, 5, "{give}, {verb}: {}", ran.stderr);
            assert!(ran.stderr.contains("set-user-id"), "{give}, {verb}: {}", ran.stderr);
            assert_eq!(ran.text(), "", "{give}, {verb}");
        }
        // Who has the rights anyway gains none, and `run` starts it as it is.
        project.run_ours("backtrail profile -o out ./p").succeeded();
        project.run_ours(&format!("{by_others} backtrail run ../p")).succeeded();
    }
}
