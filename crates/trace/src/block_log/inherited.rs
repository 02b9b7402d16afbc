//! The log of a fork's child behind what its process had logged before.
//!
//! What the child did begins in the middle of what its parent did, with its frames. The
//! parent's log up to the fork and the child's behind it are the log of a thread that
//! did both; the numbers of units in it are those of the child, which inherits them.

use std::collections::VecDeque;
use std::io::{self, Read, Take};
use std::path::Path;

use backtrail_abi::log::ThreadHeader;

use super::ThreadLog;

/// Logs one behind the other, as if they were one.
#[derive(Debug)]
pub struct InheritedLog {
    parts: VecDeque<Take<ThreadLog>>,
}

/// A log, and how many slots of it are taken; all, if it is not said.
pub type Part<'a> = (&'a Path, Option<u64>);

impl InheritedLog {
    /// Opens the logs of a process and of those that it comes from, the oldest first.
    pub fn open<'a>(parts: impl IntoIterator<Item = Part<'a>>) -> io::Result<Self> {
        let mut opened = VecDeque::new();
        for (path, slots) in parts {
            let mut log = ThreadLog::open(path)?;
            let mut header = 0;
            if !opened.is_empty() {
                io::copy(&mut log.by_ref().take(ThreadHeader::BYTES as u64), &mut io::sink())?;
                header = ThreadHeader::BYTES as u64;
            }
            let bytes = slots.map(|slots| ThreadHeader::BYTES as u64 - header + 4 * slots);
            opened.push_back(log.take(bytes.unwrap_or(u64::MAX)));
        }
        Ok(Self { parts: opened })
    }
}

impl Read for InheritedLog {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(part) = self.parts.front_mut() {
            match part.read(buffer)? {
                0 if !buffer.is_empty() => self.parts.pop_front(),
                count => return Ok(count),
            };
        }
        Ok(0)
    }
}

#[cfg(test)]
mod tests {
    use backtrail_abi::log::THREAD_MAGIC;

    use super::*;

    fn log(events: std::ops::Range<u32>) -> Vec<u8> {
        let mut bytes = THREAD_MAGIC.to_vec();
        let header = [backtrail_abi::VERSION, 7, 0, 0, 0];
        header.into_iter().chain(events).for_each(|word| bytes.extend(word.to_le_bytes()));
        bytes.resize(4096, 0);
        bytes
    }

    #[test]
    fn a_log_goes_on_where_it_was_forked() {
        let folder = tempfile::tempdir().unwrap();
        let paths: Vec<_> = [10..20, 30..40, 50..55]
            .into_iter()
            .map(|events| {
                let path = folder.path().join(format!("thread-{}-0", events.start));
                std::fs::write(&path, log(events)).unwrap();
                path
            })
            .collect();
        let parts = [(&*paths[0], Some(3)), (&*paths[1], Some(0)), (&*paths[2], None)];
        let mut bytes = Vec::new();
        InheritedLog::open(parts).unwrap().read_to_end(&mut bytes).unwrap();
        let words = bytes[ThreadHeader::BYTES..].as_chunks::<4>().0;
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        assert_eq!(words[..9], [10, 11, 12, 50, 51, 52, 53, 54, 0]);
        assert_eq!(bytes[..ThreadHeader::BYTES], log(0..0)[..ThreadHeader::BYTES]);
        assert_eq!(bytes.len(), 4096 + 3 * 4);
    }
}
