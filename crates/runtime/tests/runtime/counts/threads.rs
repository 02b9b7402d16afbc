//! Threads, however many, and the signals they get.

use super::check;
use crate::program::Program;

#[test]
fn one_thread() {
    let program = Program::new("count_threads");
    program.run(&["0", "1000000"], 0);
    assert_eq!(check(&program)[0].files, 1);
}

#[test]
fn threads_in_the_same_function_are_exact() {
    let program = Program::new("count_threads");
    program.run(&["1", "10000000"], 0);
    assert_eq!(check(&program)[0].files, 2);
}

#[test]
fn many_threads_at_once_on_small_stacks() {
    let program = Program::new("count_threads");
    program.run(&["150", "20000"], 0);
    check(&program);
}

#[test]
fn short_threads_share_few_files() {
    for arguments in [&["500"][..], &["500", "sizes"]] {
        let program = Program::new("count_short_threads");
        let output = program.run(arguments, 0);
        let more: i32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert!(more < 40, "{more} mappings more");
        let files = check(&program)[0].files;
        assert!(files <= 24, "{files} files for four threads at a time");
    }
}

#[test]
fn threads_that_all_begin_at_once() {
    for _ in 0..10 {
        let program = Program::new("count_at_once");
        program.run(&[], 0);
        let files = check(&program)[0].files;
        assert!((16..=17).contains(&files), "{files} files");
    }
}

#[test]
fn handlers_count_too_and_may_be_the_first() {
    let program = Program::new("count_signals");
    program.run(&[], 0);
    assert_eq!(check(&program)[0].files, 2);
}

#[test]
fn no_register_changes() {
    for options in [&["-O2"][..], &["-O2", "-static"], &["-O0", "-no-pie", "-fno-pie"]] {
        let program = Program::with("count_registers", "clang-19", options);
        program.run(&[], 0);
        check(&program);
    }
}
