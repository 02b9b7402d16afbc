//! Logs that are packed while they are written, and after: what is read stays the
//! same, whoever was stopped.

use std::fs;
use std::io::{Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;
use std::process::{Child, Stdio};

use backtrail_abi::log::{Incomplete, SEGMENT, SEGMENT_EVENTS};
use backtrail_collect::packing::{Packer, Packing};

use crate::program::Program;

/// Files in the folders of processes whose names begin with `prefix`.
fn files(program: &Program, prefix: &str) -> Vec<PathBuf> {
    let folders = fs::read_dir(program.records()).unwrap();
    let files = folders.flat_map(|folder| fs::read_dir(folder.unwrap().path()).unwrap());
    let mut paths: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    paths.retain(|path| path.file_name().unwrap().to_str().unwrap().starts_with(prefix));
    paths
}

fn bytes(paths: &[PathBuf]) -> u64 {
    paths.iter().map(|path| fs::metadata(path).unwrap().len()).sum()
}

#[test]
fn while_threads_log() {
    let program = Program::new("threads");
    let packer = Packer::start([program.records()]);
    program.run(&["4", "2000000"], 0);
    drop(packer);
    assert_eq!(program.check()[0].threads.len(), 5);
}

#[test]
fn while_handlers_log() {
    let program = Program::new("storm");
    let packer = Packer::start([program.records()]);
    program.run(&["6"], 0);
    drop(packer);
    check_storm(&program);
}

/// What the program logged and what its handler did: each counts up.
fn check_storm(program: &Program) {
    let told = program.told();
    for log in program.logs() {
        let thread = log.only_thread();
        assert_eq!((log.process.incomplete, thread.summary.lost), (None, 0));
        let counts = &told[&(log.process.pid, thread.tid)];
        for (unit, count) in (1..).zip(counts) {
            let of_unit = thread.events.iter().filter(|&&event| event >> 24 == unit);
            assert!(of_unit.map(|event| event & 0xff_ffff).eq(0..*count));
        }
    }
}

/// `bursts.c` while it runs.
pub struct Bursts {
    pub program: Program,
    child: Child,
    packing: Packing,
}

impl Bursts {
    pub fn start(environment: &[(&str, &str)]) -> Self {
        let program = Program::new("bursts");
        let mut command = program.command();
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).envs(environment.iter().copied());
        let (child, packing) = (command.spawn().unwrap(), Packing::new([program.records()]));
        Self { program, child, packing }
    }

    /// Lets it log another 100,000 events.
    pub fn burst(&mut self) {
        let mut byte = [1];
        self.child.stdin.as_mut().unwrap().write_all(&byte).unwrap();
        self.child.stdout.as_mut().unwrap().read_exact(&mut byte).unwrap();
    }

    pub fn end(mut self) -> Program {
        drop(self.child.stdin.take());
        assert!(self.child.wait().unwrap().success());
        self.program
    }
}

#[test]
fn free_segments_are_used_again() {
    let mut bursts = Bursts::start(&[]);
    let mut packed = 0;
    for _ in 0..30 {
        bursts.burst();
        packed += bursts.packing.step();
    }
    assert_eq!(packed, (3_000_000 * 4 - SEGMENT as usize) / SEGMENT_EVENTS);
    let program = bursts.end();
    assert_eq!(program.check()[0].only_thread().events.len(), 3_000_000);
    // A burst fills one segment and some.
    assert_eq!(bytes(&files(&program, "thread-")), 4 * SEGMENT);
}

#[test]
fn segments_that_nobody_packs_in_time() {
    let mut bursts = Bursts::start(&[]);
    (0..80).for_each(|_| bursts.burst());
    assert!(bursts.packing.step() > 100);
    // The first of them have left the ring, and are holes now.
    let thread = files(&bursts.program, "thread-");
    let taken: u64 = thread.iter().map(|path| fs::metadata(path).unwrap().blocks() * 512).sum();
    assert!(taken < bytes(&thread) * 3 / 4, "{taken} of {} bytes", bytes(&thread));
    let length = bytes(&thread);
    for _ in 0..20 {
        bursts.burst();
        bursts.packing.step();
    }
    assert_eq!(bytes(&thread), length, "there were free ones");
    let program = bursts.end();
    assert_eq!(program.check()[0].only_thread().events.len(), 10_000_000);
}

#[test]
fn stopped_at_any_moment() {
    let program = Program::new("sequence");
    program.run(&["1000000"], 42);
    let (thread, before) = {
        let path = files(&program, "thread-").remove(0);
        (path.clone(), fs::read(path).unwrap())
    };
    assert_eq!(
        Packing::new([program.records()]).step(),
        14,
        "a million events and the last segment"
    );
    program.check();
    // What was not zeroed, or in part, is in both files.
    let packed_file = fs::read(&thread).unwrap();
    fs::write(&thread, &before).unwrap();
    program.check();
    let middle = 3 * SEGMENT as usize + 1000;
    let torn = [&packed_file[..middle], &before[middle..]].concat();
    fs::write(&thread, torn).unwrap();
    program.check();
    // What was not packed to the end is in the thread's file.
    fs::write(&thread, &before).unwrap();
    let packed = files(&program, "packed-").remove(0);
    let whole = fs::read(&packed).unwrap();
    for length in [0, 5, 12, 100, whole.len() / 2, whole.len() - 1] {
        fs::write(&packed, &whole[..length]).unwrap();
        program.check();
    }
    // What is in neither is noticed.
    fs::write(&thread, &packed_file).unwrap();
    let told = program.told().into_values().next().unwrap();
    for length in [0, whole.len() / 2, whole.len() - 1] {
        fs::write(&packed, &whole[..length]).unwrap();
        let logs = program.logs();
        let log = &logs[0];
        let (events, summary) = (&log.only_thread().events, log.only_thread().summary);
        assert!(summary.truncated);
        assert_eq!(**events, told[..events.len()]);
        assert!(events.len() < told.len());
    }
}

#[test]
fn what_is_packed_counts_for_the_bound() {
    let bound = 4 << 20;
    let mut bursts = Bursts::start(&[("BACKTRAIL_DISK", &bound.to_string())]);
    for _ in 0..60 {
        bursts.burst();
        bursts.packing.step();
    }
    let program = bursts.end();
    let logs = program.logs();
    let log = &logs[0];
    assert_eq!(log.gap().why, Some(Incomplete::Bound));
    let packed = bytes(&files(&program, "packed-"));
    let taken = packed + bytes(&files(&program, "thread-"));
    // What was full when it stopped was packed afterwards.
    assert!(packed > bound / 2 && taken <= bound + 2 * SEGMENT, "{taken} bytes, {packed} packed");
    let events = &log.only_thread().events;
    assert!(events.len() > 1_000_000);
    let told = program.told().into_values().next().unwrap();
    assert_eq!(**events, told[..events.len()]);
}
