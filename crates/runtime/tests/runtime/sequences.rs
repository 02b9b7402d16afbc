//! One process, one or many threads: exactly what happened.

use crate::program::Program;

#[test]
fn one_thread() {
    let program = Program::new("sequence");
    for (runs, count) in ["0", "1", "1018", "1019", "5000", "1000000"].into_iter().enumerate() {
        program.run(&[count], 42);
        if runs == 0 {
            assert!(!program.records().exists(), "no event, no record");
            std::fs::remove_dir_all(program.truth()).unwrap();
        }
    }
    let logs = program.check();
    assert_eq!(logs.len(), 5);
    let total: usize = logs.iter().map(|log| log.only_thread().events.len()).sum();
    assert_eq!(total, 1 + 1018 + 1019 + 5000 + 1_000_000);
    for log in logs {
        assert_eq!(log.process.executable, program.executable.canonicalize().unwrap());
        assert_eq!(log.process.parent, std::process::id());
        assert_eq!(log.process.forked_from, None);
    }
}

#[test]
fn eight_threads() {
    let program = Program::new("threads");
    program.run(&["8", "200000"], 0);
    assert_eq!(program.check()[0].threads.len(), 9);
}

#[test]
fn thousand_short_threads_leave_few_mappings() {
    let program = Program::new("short_threads");
    let output = program.run(&["1000"], 0);
    assert_eq!(program.check()[0].threads.len(), 1001);
    let grown: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(grown < 40, "{grown} more mappings after 1000 threads");
}

#[test]
fn many_units_registered_by_many_threads() {
    let program = Program::new("many_units");
    program.run(&[], 0);
    let logs = program.check();
    assert_eq!(logs[0].process.ranges().len(), 3000, "a unit has one range");
}
