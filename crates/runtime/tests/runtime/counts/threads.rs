//! Threads, however many, and the signals they get.

use std::process::Command;

use backtrail_abi::log::Incomplete;

use super::{check, read};
use crate::program::{Program, source};

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
    let program = Program::new("count_at_once");
    for _ in 0..10 {
        program.clear();
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

#[test]
fn code_that_llvm_makes() {
    let ir = source("count_ir.ll");
    let ir = ir.to_str().unwrap();
    for options in [
        &["-O2", ir][..],
        &["-O0", ir],
        &["-O2", "-march=x86-64-v3", ir],
        &["-O2", "-static", ir],
        &["-O1", "-no-pie", "-fno-pie", ir],
    ] {
        let program = Program::with("count_ir", "clang-19", options);
        program.run(&[], 0);
        check(&program);
    }
}

#[test]
fn a_backtrace_at_any_instruction_finds_the_caller() {
    for mode in ["backtrace", "count"] {
        let program = Program::with("count_step", "clang-19", &["-O2", "-g0"]);
        let output = program.run(&[mode], 0);
        let steps: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
        assert!(steps > 15, "only {steps} steps");
        assert_eq!(check(&program).len(), steps + 1);
    }
}

#[test]
fn a_small_signal_stack_is_enough() {
    let program = Program::new("count_stack");
    let output = program.run(&[], 0);
    let output = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.lines().count(), 2);
    for used in output.lines().map(|line| line.parse::<u32>().unwrap()) {
        assert!(used > 500, "{used} bytes of stack: nothing was saved");
        assert!(used < 2048, "{used} bytes of stack");
    }
}

#[test]
fn a_thread_that_uses_the_segment_is_left_alone() {
    let program = Program::new("count_foreign");
    program.run(&[], 0);
    let all = read(&program);
    assert_eq!(all[0].process.incomplete.unwrap().why, Some(Incomplete::Shared));
    assert_eq!(*all[0].main(), [(1, 20)].into());
}

#[test]
fn a_thread_with_the_pointer_of_a_dead_one() {
    let program = Program::new("count_same_pointer");
    let output = program.run(&[], 0);
    let same: u32 = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(same > 10, "only {same} times the same pointer");
    check(&program);
}

#[test]
fn what_is_not_counted_takes_no_memory() {
    let program = Program::with("count_sparse", "clang-19", &["-O2", "-DPAGES=6000"]);
    let output = program.run(&[], 0);
    check(&program);
    // On a file system in memory all that is allocated is in memory.
    let kind = Command::new("stat").args(["-f", "-c", "%T"]).arg(program.records()).output();
    if kind.unwrap().stdout != b"tmpfs\n" {
        assert_eq!(String::from_utf8(output.stdout).unwrap(), "4\n4\n");
    }
}
