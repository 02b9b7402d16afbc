//! Forks, `exec`, and sudden death.

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::ExitStatusExt;
use std::process::Stdio;
use std::time::{Duration, Instant};

use backtrail_abi::log::Incomplete;
use backtrail_collect::packing::Packing;
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

/// Bytes on disk of all files of counters.
fn space(program: &Program) -> u64 {
    let records = Records::read(&program.records()).unwrap();
    let files = records.processes.iter().flat_map(|process| &process.counts);
    files.map(|file| std::fs::metadata(&file.path).unwrap().blocks() * 512).sum()
}

#[test]
fn what_ended_takes_little_space() {
    for has_leases in [true, false] {
        let program = Program::with("count_fork_threads", "clang-19", &["-O2", "-DPAGES=100"]);
        program.run(&[], 0);
        let processes = check(&program).len() as u64;
        let before = space(&program);
        assert!(before >= processes * 100 * 4096);
        let mut packing = Packing::new([program.records()]);
        if !has_leases {
            packing = packing.without_leases();
            packing.step();
            assert_eq!(space(&program), before, "they may be about to be mapped");
        }
        packing.step();
        assert_eq!(check(&program).len() as u64, processes);
        if has_leases && space(&program) == before {
            // A file system of which the kernel does not tell.
            packing.step();
        }
        let after = space(&program);
        assert!(after <= before / 50, "{after} of {before} bytes");
        packing.step();
        assert_eq!(space(&program), after);
    }
}

/// As somebody leaves it who is stopped while a file is packed.
#[test]
fn while_a_file_is_there_what_is_packed_of_it_does_not_count() {
    let program = Program::new("count_exec");
    program.run(&["exec"], 5);
    let records = Records::read(&program.records()).unwrap();
    let paths = records.processes.iter().flat_map(|process| &process.counts);
    let files: Vec<_> =
        paths.map(|file| (&file.path, std::fs::read(&file.path).unwrap())).collect();
    for cut in [0, 60, 1000] {
        let mut packing = Packing::new([program.records()]);
        packing.step();
        packing.step();
        for (path, bytes) in &files {
            let name = path.file_name().unwrap().to_str().unwrap();
            let packed = path.with_file_name(name.replacen("counts-", "ended-", 1));
            assert!(packed.exists() && !path.exists());
            let mut part = std::fs::read(&packed).unwrap();
            part.truncate(cut);
            std::fs::write(&packed, part).unwrap();
            std::fs::write(path, bytes).unwrap();
        }
        let all = read(&program);
        assert_eq!(all.len(), 2);
        assert_eq!(*all[0].main(), [(1, 10), (2, 20)].into());
        assert_eq!(*all[1].main(), [(4, 40)].into());
    }
}

#[test]
fn what_is_counted_in_is_not_packed() {
    let program = Program::new("count_endless");
    let mut child = program.command().stdout(Stdio::piped()).spawn().unwrap();
    let mut output = child.stdout.take().unwrap();
    let mut word = [0; 8];
    output.read_exact(&mut word).unwrap();
    // As if it were in a namespace of its own, where it has another number.
    let records = Records::read(&program.records()).unwrap();
    let folder = &records.processes[0].folder;
    let name = folder.file_name().unwrap().to_str().unwrap();
    let nonce = name.split_once('-').unwrap().1;
    std::fs::rename(folder, program.records().join(format!("4194399-{nonce}"))).unwrap();
    let before = space(&program);
    let mut packings =
        [Packing::new([program.records()]), Packing::new([program.records()]).without_leases()];
    let mut pack = || {
        for _ in 0..4 {
            for packing in &mut packings {
                packing.step();
            }
        }
    };
    pack();
    assert_eq!(space(&program), before);
    child.kill().unwrap();
    child.wait().unwrap();
    let mut rest = Vec::new();
    output.read_to_end(&mut rest).unwrap();
    pack();
    assert!(space(&program) < before);
    let counted = u64::from_le_bytes(*rest.as_chunks().0.last().unwrap_or(&word));
    let recorded = read(&program)[0].main()[&1];
    assert!((counted..=counted + 2000).contains(&recorded), "{counted}, {recorded} recorded");
}
