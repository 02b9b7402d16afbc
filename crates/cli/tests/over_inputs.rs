//! Nothing is written over what is read, by whatever name, in any verb; and what is
//! changed in place is changed whole, by one at a time.

mod cc_project;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use cc_project::Project;

const PROGRAM: &str = r#"
#include <stdio.h>
__attribute__((noinline)) int step(int x) { return x & 1 ? 3 * x + 1 : x / 2; }
__attribute__((noinline)) int walk(int x) { int n = 0; while (x != 1) { x = step(x); n++; } return n; }
int main(int argc, char **argv) { printf("%d\n", walk(argc + 6)); return 0; }
"#;
const LIBRARY: &str = "int twice(int x) { return x > 3 ? x * 2 : x; }\n";
const USER: &str = "int twice(int);\nint main(int argc, char **argv) { return twice(argc) - 1; }\n";

/// A program, what can be made of it, and every kind of other name for each.
fn project() -> Project {
    let project = Project::new(&[("p.c", PROGRAM), ("lib.c", LIBRARY), ("use.c", USER)]);
    let script = "mkdir libs d && $CC -O1 -g p.c -o p && \
        $CC -O1 -g -shared -fPIC lib.c -o libs/libt.so && \
        $CC -O1 -g use.c -Llibs -lt -Wl,-rpath,'$ORIGIN/libs' -o use && \
        backtrail profile -o p.prof ./p && backtrail profile -o q.prof ./p && \
        backtrail trace -o p.trace ./p && \
        backtrail -q instrument --scheme none --tunable '*' -o p.tune p && \
        backtrail -q instrument --scheme log -o p.log p && \
        BACKTRAIL_DIR=rec ./p.log && cp p d/index.html && echo walk > list && \
        cp use detached && backtrail detach detached > side && \
        for f in p p.prof p.trace p.tune list; do \
            ln -s $f soft.$f; ln $f hard.$f; ln -s soft.$f softer.$f; done";
    project.run_ours(script).succeeded();
    project
}

/// Every file below a folder, with its contents.
fn contents(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    let mut pending = vec![folder.to_owned()];
    while let Some(next) = pending.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            match entry.file_type().unwrap().is_dir() {
                true => pending.push(entry.path()),
                false => {
                    let bytes = fs::read(entry.path()).unwrap_or_default();
                    found.insert(entry.path(), bytes);
                }
            }
        }
    }
    found
}

#[test]
fn what_is_read_is_not_written_to() {
    let project = project();
    let before = contents(&project.ours("."));
    // OUT stands for each name of the file that follows.
    let commands = [
        ("backtrail instrument --scheme log -o OUT p", "p"),
        ("backtrail instrument --scheme realistic --pt-list list -o OUT p", "list"),
        ("backtrail instrument --scheme profile --weights p.prof -o OUT p", "p.prof"),
        ("backtrail profile -o OUT ./p", "p"),
        ("backtrail profile --weights p.prof -o OUT ./p", "p.prof"),
        ("backtrail profile -o x --status OUT ./p", "p"),
        ("backtrail profile --copies 2 -o OUT ./p", "p"),
        ("backtrail trace -o OUT ./p", "p"),
        ("backtrail trace --strategy log -o OUT ./p", "p"),
        ("backtrail trace --witness breakpoint -o OUT ./p", "p"),
        ("backtrail trace --witness breakpoint --weights p.trace -o OUT ./p", "p.trace"),
        ("backtrail trace -o x --status OUT ./p", "p"),
        ("backtrail paths q.prof p.prof -o OUT", "p.prof"),
        ("backtrail export p.prof --to lcov -o OUT", "p.prof"),
        ("backtrail show p.trace --to perfetto -o OUT", "p.trace"),
        ("backtrail tune p.tune --set 'step=cc' -o OUT", "p.tune"),
        ("backtrail detach p -o OUT", "p"),
    ];
    let mut refused = 0;
    for (command, file) in commands {
        let absolute = "$PWD/d/../".to_owned() + file;
        let names = [file.to_owned(), format!("./{file}"), absolute];
        let links = ["soft", "hard", "softer"].map(|kind| format!("{kind}.{file}"));
        for name in names.into_iter().chain(links) {
            let command = command.replace("OUT", &name);
            let ran = project.run_ours(&command);
            assert_eq!(ran.status, 2, "{command}: {}", ran.stderr);
            assert!(ran.stderr.contains("give another -o"), "{command}: {}", ran.stderr);
            assert_eq!(ran.stderr.lines().count(), 1, "{command}: {}", ran.stderr);
            refused += 1;
        }
    }
    assert_eq!(refused, commands.len() * 6);
    for command in [
        // A page beside which an input is called index.html.
        "backtrail paths d/index.html --html d",
        "backtrail autopsy core --exe d/index.html --html d",
        // Records.
        "backtrail paths rec -o rec/sum",
        // Two outputs.
        "backtrail profile -o x --status ./x ./p",
        // What is found on the way.
        "backtrail instrument --scheme log -o libs/libt.so use",
        "backtrail profile -o libs/libt.so ./use",
        "backtrail trace -o libs/libt.so ./use",
        "backtrail instrument --scheme log -o \"$(cat side)\" detached",
        // A name that is made of another.
        "cp p.prof p.btprof && backtrail profile --weights p.btprof ./p; s=$?; rm p.btprof; exit $s",
    ] {
        let ran = project.run_ours(command);
        assert_eq!(ran.status, 2, "{command}: {}", ran.stderr);
    }
    let after = contents(&project.ours("."));
    assert!(before == after, "something was written");
    // What is no file has nothing to lose.
    project.run_ours("backtrail profile -o /dev/null --status /dev/null ./p").succeeded();
}

#[test]
fn what_was_given_open_is_written_to_where_it_is() {
    let project = project();
    let export = "backtrail -q export p.prof --to lcov -o";
    project.run_ours(&format!("{export} whole")).succeeded();
    for name in ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"] {
        let script = format!(
            "ln -sf {name} named; for name in {name} named; do \
                {{ echo begin; {export} $name; echo end; }} > f; \
                {{ echo begin; cat whole; echo end; }} | cmp - f || exit 1; done"
        );
        project.run_ours(&script).succeeded();
    }
    let tune = "backtrail -q tune p.tune --set step=cc -o";
    let show = "backtrail -q show p.trace --to perfetto -o";
    project.run_ours(&format!("{tune} tuned && {show} shown")).succeeded();
    for (write, whole) in [
        (export, "whole"),
        ("backtrail -q profile ./p -o", "p.prof"),
        (show, "shown"),
        (tune, "tuned"),
    ] {
        // A pipe, and a file that is not only ours.
        for script in [
            format!("{{ {write} /dev/fd/3 > /dev/null; }} 3>&1 | cmp - {whole}"),
            format!(
                "{{ {write} /dev/fd/3; echo end >&3; }} 3> f > /dev/null; \
                     {{ cat {whole}; echo end; }} | cmp - f"
            ),
            format!(
                "rm -f pipe; mkfifo pipe; cat pipe > f & {write} pipe > /dev/null; wait; \
                     test -p pipe && cmp f {whole}"
            ),
        ] {
            project.run_ours(&format!("exec 2>&1; {script}")).succeeded();
        }
        // Not open, and open for ourselves.
        for number in [3, 4, 5, 77] {
            let ran = project.run_ours(&format!("{write} /dev/fd/{number} > /dev/null"));
            assert_eq!(ran.status, 6, "{write} {number}: {}", ran.stderr);
        }
    }
}

#[test]
fn what_is_detached_keeps_its_permissions() {
    let project = project();
    project
        .run_ours("chmod 0751 p && backtrail detach p && test $(stat -c %a p) = 751")
        .succeeded();
}

#[test]
fn other_names_of_what_is_changed_are_told() {
    let project = project();
    let ran = project.run_ours("backtrail tune hard.p.tune --set step=cc").succeeded();
    assert!(ran.stderr.contains("another name"), "{}", ran.stderr);
    let ran = project.run_ours("backtrail detach p").succeeded();
    assert!(ran.stderr.contains("another name"), "{}", ran.stderr);
    let ran = project.run_ours("backtrail tune hard.p.tune --set step=cc+pt").succeeded();
    assert!(!ran.stderr.contains("another name"), "{}", ran.stderr);
}

#[test]
fn of_two_that_change_a_file_one_waits() {
    let project = project();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do cp p.tune c; \
        backtrail -q tune c --set walk=cc & backtrail -q tune c --set step=cc+pt & wait; \
        backtrail tune c --list | grep -c ' \\*  '; done";
    let ran = project.run_ours(script).succeeded();
    assert_eq!(ran.text(), "2\n".repeat(10));
}
