//! Forks, however they are made, and `exec`.

use crate::program::Program;

fn forks(how: &str, threads: &str) {
    let program = Program::new("fork");
    program.run(&[how, threads], 0);
    let logs = program.check();
    // Eight forks, and of each child's loop what was left of it.
    assert_eq!(logs.len(), 1 + 8 + 7 * 8 / 2);
    let roots = logs.iter().filter(|log| log.process.forked_from.is_none()).count();
    assert_eq!(roots, 1);
    for log in &logs {
        let Some(parent) = log.process.forked_from else { continue };
        assert_eq!(parent, log.process.parent);
        assert!(logs.iter().any(|other| other.process.pid == parent));
    }
}

#[test]
fn fork_in_a_loop() {
    forks("fork", "0");
}

#[test]
fn fork_among_busy_threads() {
    forks("fork", "3");
}

#[test]
fn raw_fork() {
    forks("syscall", "0");
}

#[test]
fn raw_clone_among_busy_threads() {
    forks("clone", "2");
}

#[test]
fn fork_while_units_are_registered() {
    let program = Program::new("fork_units");
    program.run(&[], 0);
    assert_eq!(program.check().len(), 101);
}

#[test]
fn threads_of_a_child() {
    let program = Program::new("fork_threads");
    program.run(&[], 0);
    let logs = program.check();
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[1].threads.len(), 4);
}

#[test]
fn vfork_then_exec() {
    let program = Program::new("vfork");
    program.run(&[], 7);
    let logs = program.check();
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[1].process.forked_from, None);
}

#[test]
fn first_event_in_a_vfork_child() {
    // The record is under the child's number then, but it is all there.
    let program = Program::new("vfork");
    let output = program.command().env("LATE", "1").output().unwrap();
    crate::program::check_status(&output, 7);
    let logs = program.logs();
    assert_eq!(logs.len(), 2);
    let lengths: Vec<_> = logs.iter().map(|log| log.only_thread().events.len()).collect();
    assert_eq!(lengths, [3000, 1]);
}

#[test]
fn several_programs_at_once_in_one_folder() {
    let program = Program::new("sequence");
    let start = || program.command().arg("20000").spawn().unwrap();
    let running: Vec<_> = (0..8).map(|_| start()).collect();
    for mut child in running {
        assert_eq!(child.wait().unwrap().code(), Some(42));
    }
    assert_eq!(program.check().len(), 8);
}

#[test]
fn exec_of_itself() {
    let program = Program::new("exec");
    program.run(&[], 5);
    let logs = program.logs();
    assert_eq!(logs.len(), 2);
    assert_eq!(logs[0].process.pid, logs[1].process.pid);
    assert_eq!(logs[0].only_thread().events, [1 << 24, 1 << 24 | 1]);
    assert_eq!(logs[1].only_thread().events, [1 << 24 | 2, 1 << 24 | 3]);
}
