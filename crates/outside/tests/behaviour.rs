//! Functions of the C library are called by a program that has its own allocator and its
//! own streams; whoever calls these says so in its row.

use std::collections::BTreeSet;
use std::process::Command;

use backtrail_outside::{Class, Family, of};

#[test]
fn functions_call_nobody_their_rows_do_not_speak_of() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("behaviour");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/behaviour.c");
    // No built-in function in place of a call.
    let options = ["-w", "-O0", "-fno-builtin", "-U_FORTIFY_SOURCE", "-pthread", "-o"];
    let mut compiler = Command::new("cc");
    compiler.args(options).arg(&program).arg(source).arg("-lm");
    assert!(compiler.status().expect("cc is there").success());
    let said = folder.path().join("said");
    let mut shell = Command::new("sh");
    shell.args(["-c", "exec \"$0\" 3>said >/dev/null 2>&1 </dev/null"]).arg(&program);
    let status = shell.current_dir(folder.path()).status().unwrap();
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(
        status.success() && said.ends_with("end 0 0\n"),
        "{status}, behind {:?}",
        said.lines().last()
    );
    let (mut called, mut wrong) = (BTreeSet::new(), BTreeSet::new());
    let (mut allocated, mut back) = (0, 0);
    for line in said.lines().filter(|line| !line.starts_with("end ")) {
        let [name, allocates, calls] = *line.split(' ').collect::<Vec<_>>() else {
            panic!("{line}");
        };
        called.insert(name);
        let Some(function) = of(name) else {
            wrong.insert(format!("{name} has no row"));
            continue;
        };
        if function.anything {
            continue;
        }
        allocated += usize::from(allocates == "1");
        back += usize::from(calls == "1");
        let is_own = Family::Malloc.has(name) || function.by_name.has(Family::Malloc);
        if allocates == "1" && !is_own {
            wrong.insert(format!("{name} calls the allocator"));
        }
        if calls == "1" && !function.runs.has(Class::Stream) {
            wrong.insert(format!("{name} calls functions of a stream"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    // So that a program that counts nothing does not pass.
    assert!(called.len() > 450, "only {} functions were called", called.len());
    assert!(allocated > 30, "only {allocated} calls of the allocator were seen");
    assert!(back > 30, "only {back} calls of streams were seen");
}
