//! Counting the records of a suite, and removing them as it goes.
//!
//! A block log has four bytes for every block that a program executes, and a
//! suite starts thousands of programs. So the folder of records is swept while
//! the suite runs: the record of a process that has ended is counted, some are
//! kept to be read with `backtrail show`, and the rest is removed.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use anyhow::{Context, Result};

/// How many records are kept for reading.
const KEPT: usize = 24;

/// Records larger than this are not kept: reading them takes long.
const KEPT_BYTES: u64 = 64 << 20;

/// What was recorded.
#[derive(Debug, Default)]
pub struct Tally {
    /// How many processes left a record.
    pub processes: usize,
    /// The bytes of all of them.
    pub bytes: u64,
    /// The folders that were kept, the first processes first.
    pub kept: Vec<PathBuf>,
    counted: BTreeSet<PathBuf>,
}

impl Tally {
    /// The records that were kept, each with its place among all processes by
    /// the time they began.
    pub fn ranked(&self) -> Vec<(usize, &PathBuf)> {
        let mut all: Vec<&PathBuf> = self.counted.iter().collect();
        all.sort_by_key(|path| began(path));
        let rank = |path: &PathBuf| all.iter().position(|it| *it == path);
        self.kept.iter().filter_map(|path| Some((rank(path)?, path))).collect()
    }
}

/// When the process of a record began: the second half of `PID-NONCE`, whose
/// digits are always as many.
fn began(path: &Path) -> String {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.split('-').next_back().unwrap_or_default().to_owned()
}

/// A sweep that is under way.
pub struct Sweep {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Tally>,
}

impl Sweep {
    /// Starts sweeping `folder`, which is made anew.
    pub fn start(folder: &Path) -> Result<Sweep> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let stop = Arc::new(AtomicBool::new(false));
        let (stopped, folder) = (stop.clone(), folder.to_path_buf());
        let thread = std::thread::spawn(move || {
            let mut tally = Tally::default();
            while !stopped.load(Ordering::Relaxed) {
                sweep(&folder, &mut tally);
                std::thread::sleep(Duration::from_millis(200));
            }
            sweep(&folder, &mut tally);
            tally
        });
        Ok(Sweep { stop, thread })
    }

    /// Sweeps a last time.
    pub fn finish(self) -> Tally {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap_or_default()
    }
}

fn sweep(folder: &Path, tally: &mut Tally) {
    let mut entries: Vec<_> = std::fs::read_dir(folder).into_iter().flatten().flatten().collect();
    entries.sort_by_key(|entry| began(&entry.path()));
    for entry in entries {
        let path = entry.path();
        if tally.counted.contains(&path) {
            continue;
        }
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let process = name.split('-').next().unwrap_or_default();
        if Path::new("/proc").join(process).exists() {
            continue;
        }
        let bytes = size(&path);
        tally.processes += 1;
        tally.bytes += bytes;
        tally.counted.insert(path.clone());
        if tally.kept.len() < KEPT && bytes < KEPT_BYTES {
            tally.kept.push(path.clone());
        } else {
            // What is left if this fails is only in the way.
            let _ = std::fs::remove_dir_all(&path);
        }
    }
}

fn size(folder: &Path) -> u64 {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.metadata().ok()).map(|data| data.len()).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ended_processes_are_counted_once_and_running_ones_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let records = folder.path().join("records");
        let sweep = Sweep::start(&records).unwrap();
        let running = records.join(format!("{}-1", std::process::id()));
        std::fs::create_dir(&running).unwrap();
        // Process numbers end at 2^22, so these are nobody's.
        for number in 0..40 {
            let ended = records.join(format!("{}-7", 5_000_000 + number));
            std::fs::create_dir(&ended).unwrap();
            std::fs::write(ended.join("thread-1-0"), [0u8; 100]).unwrap();
        }
        std::thread::sleep(Duration::from_millis(600));
        let tally = sweep.finish();
        assert_eq!((tally.processes, tally.kept.len()), (40, KEPT));
        assert!(running.is_dir());
        assert_eq!(std::fs::read_dir(&records).unwrap().count(), KEPT + 1);
    }
}
