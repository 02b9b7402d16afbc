//! Counters: what programs with counters leave behind is what they counted.
//!
//! The programs `count_*.c` do by hand what injected code does, and tell what is
//! true.

mod linking;
mod processes;
mod refusals;
mod threads;

use std::collections::BTreeMap;
use std::fs;

use backtrail_abi::counts::PAGE_BYTES;
use backtrail_collect::counts::{CountsFile, unpack};
use backtrail_collect::records::Records;
use backtrail_trace::block_log::Process;

use crate::program::Program;

/// One process's record: by layout, the sum of each counter over all copies.
pub struct Counted {
    pub process: Process,
    pub files: usize,
    pub counts: BTreeMap<u8, BTreeMap<u64, u64>>,
}

impl Counted {
    /// The counts of the module with layout 1.
    pub fn main(&self) -> &BTreeMap<u64, u64> {
        &self.counts[&1]
    }
}

/// Reads all records of a program; there must be nothing else in its folder.
pub fn read(program: &Program) -> Vec<Counted> {
    let records = Records::read(&program.records()).unwrap();
    assert_eq!(records.foreign, []);
    read_all(&records)
}

/// Reads all files of counters that can be read.
pub fn read_all(records: &Records) -> Vec<Counted> {
    let processes = records.processes.iter().map(|record| {
        let process = Process::read(&fs::read(record.process_file()).unwrap()).unwrap();
        let mut counts = BTreeMap::<u8, BTreeMap<u64, u64>>::new();
        for file in &record.counts {
            let bytes = unpack(fs::read(&file.path).unwrap()).unwrap();
            let decoded = CountsFile::decode(&bytes).unwrap();
            assert_eq!((decoded.module(), decoded.copy()), (file.module, file.copy));
            let of_module = counts.entry(decoded.layout()[0]).or_default();
            for (offset, count) in decoded.nonzero() {
                *of_module.entry((offset - PAGE_BYTES) / 8).or_default() += count;
            }
        }
        Counted { process, files: record.counts.len(), counts }
    });
    processes.collect()
}

/// What the processes of a program told.
pub fn told(program: &Program) -> BTreeMap<u32, BTreeMap<u64, u64>> {
    let files = fs::read_dir(program.truth()).unwrap().map(|entry| {
        let path = entry.unwrap().path();
        let mut counts = BTreeMap::new();
        for line in fs::read_to_string(&path).unwrap().lines() {
            let (counter, count) = line.split_once(' ').unwrap();
            *counts.entry(counter.parse().unwrap()).or_default() += count.parse::<u64>().unwrap();
        }
        (path.file_name().unwrap().to_str().unwrap().parse().unwrap(), counts)
    });
    files.collect()
}

/// Checks that the records are exactly what the program told, and gives them.
pub fn check(program: &Program) -> Vec<Counted> {
    let (all, told) = (read(program), told(program));
    assert_eq!(all.len(), told.len());
    for counted in &all {
        assert_eq!(counted.process.incomplete, None);
        assert_eq!(*counted.main(), told[&counted.process.pid]);
    }
    all
}
