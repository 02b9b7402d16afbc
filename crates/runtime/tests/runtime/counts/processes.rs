//! Forks, `exec`, and sudden death.

use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use backtrail_abi::log::Incomplete;
use backtrail_collect::records::Records;

use super::{check, read, read_all, told};
use crate::program::Program;

#[test]
fn a_fork_in_the_middle_of_a_loop() {
    for arguments in [&["fork"][..], &["fork", "thread"]] {
        for options in [&["-O2"][..], &["-O2", "-static"]] {
            let program = Program::with("count_fork", "clang-19", options);
            program.run(arguments, 0);
            let all = check(&program);
            assert!(all.len() > 4);
            let roots = all.iter().filter(|counted| counted.process.forked_from.is_none());
            assert_eq!(roots.count(), 1);
        }
    }
}

#[test]
fn forks_while_threads_come_and_go() {
    let program = Program::new("count_fork_threads");
    program.run(&[], 0);
    assert_eq!(check(&program).len(), 1 + 2 * 60);
}

#[test]
fn a_fork_behind_the_c_library_is_labelled() {
    for how in ["syscall", "clone"] {
        let program = Program::new("count_fork");
        program.run(&[how], 0);
        let (all, told) = (read(&program), told(&program));
        assert_eq!(all.len(), told.len());
        assert!(all.len() > 4);
        for counted in &all {
            let gap = counted.process.incomplete.expect("the record says it is incomplete");
            assert_eq!(gap.why, Some(Incomplete::RawFork));
            // What came after the next check is exact.
            let told = &told[&counted.process.pid];
            assert_eq!(counted.main().get(&4), told.get(&4));
            assert_eq!(counted.main().get(&5), told.get(&5));
        }
    }
}

#[test]
fn a_child_of_vfork_counts_as_its_parent() {
    let program = Program::new("count_exec");
    program.run(&["vfork"], 5);
    let all = check(&program);
    assert_eq!(all.len(), 2);
    assert!(all.iter().all(|counted| counted.process.forked_from.is_none()));
    assert_eq!(all[0].main()[&2], 20);
}

#[test]
fn an_exec_begins_a_record() {
    let program = Program::new("count_exec");
    program.run(&["exec"], 5);
    let all = read(&program);
    assert_eq!(all.len(), 2);
    assert_eq!(all[0].process.pid, all[1].process.pid);
    assert_eq!(*all[0].main(), [(1, 10), (2, 20)].into());
    assert_eq!(*all[1].main(), [(4, 40)].into());
}

#[test]
fn kill_loses_nothing_that_was_counted() {
    let program = Program::new("count_endless");
    for round in 0..12u64 {
        let mut child = program.command().stdout(Stdio::piped()).spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let until = Instant::now() + Duration::from_micros(500 + round * round * 700);
        let mut word = [0; 8];
        // Not before it has counted anything, however late it is.
        let mut counted = loop {
            output.read_exact(&mut word).unwrap();
            if Instant::now() >= until {
                break u64::from_le_bytes(word);
            }
        };
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        let mut rest = Vec::new();
        output.read_to_end(&mut rest).unwrap();
        if let Some(last) = rest.as_chunks::<8>().0.last() {
            counted = u64::from_le_bytes(*last);
        }
        // The other thread may have counted nothing yet.
        let records = Records::read(&program.records()).unwrap();
        assert!(records.foreign.iter().all(|file| !file.lost), "{:?}", records.foreign);
        let all = read_all(&records);
        assert_eq!(all.len(), 1);
        assert_eq!(all[0].process.incomplete, None);
        // It prints after every thousandth.
        let recorded = all[0].main()[&1];
        assert!((counted..=counted + 2000).contains(&recorded), "{counted}, {recorded} recorded");
        std::fs::remove_dir_all(program.records()).unwrap();
    }
}
