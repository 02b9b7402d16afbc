//! A process file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use backtrail_abi::UnitId;
use backtrail_abi::log::{FIRST_BASE, Incomplete, ProcessHeader, Registration};

use crate::Error;

const WHAT: &str = "process file";

/// The event numbers of one unit: `base .. base + blocks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// The number of its block 0.
    pub base: u32,
    /// How many blocks it has.
    pub blocks: u32,
    /// The unit.
    pub unit: UnitId,
}

/// Why a record does not have everything that happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// What failed; `None` for a reason this version does not know.
    pub why: Option<Incomplete>,
    /// The error number of the system, 0 if there was none.
    pub error: u32,
}

impl std::fmt::Display for Gap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self.why {
            Some(Incomplete::Create) => "a file could not be created or opened again",
            Some(Incomplete::Extend) => "a file could not be extended",
            Some(Incomplete::Map) => "a file could not be mapped",
            Some(Incomplete::Limit) => "there was more than the format can number",
            Some(Incomplete::Shared) => "threads shared counters, so that counts may be missing",
            Some(Incomplete::RawFork) => {
                "a process made without the C library counted in its parent's record for a while"
            }
            Some(Incomplete::Bound) => "the log reached the bound that was set for it",
            None => "recording stopped for a reason this version does not know",
        })?;
        match self.error {
            0 => Ok(()),
            error => {
                write!(f, ": {}", std::io::Error::from_raw_os_error(error.cast_signed()))
            }
        }
    }
}

/// What a process file says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Process {
    /// The process.
    pub pid: u32,
    /// Its parent when it began to record.
    pub parent: u32,
    /// The recorded process it is a fork of; `None` if it began with an `exec`.
    pub forked_from: Option<u32>,
    /// Its executable.
    pub executable: PathBuf,
    /// Why the record is incomplete, if it is.
    pub incomplete: Option<Gap>,
    ranges: Vec<Range>,
}

impl Process {
    /// Reads a process file. Every range is checked: none is empty of numbers
    /// it claims, none overlaps another.
    pub fn read(bytes: &[u8]) -> Result<Self, Error> {
        let header = ProcessHeader::read(bytes)
            .map_err(|error| Error::from_header(WHAT, ProcessHeader::BYTES, error))?;
        let entries = bytes[ProcessHeader::BYTES..].as_chunks::<{ Registration::BYTES }>().0;
        let count = header.registrations as usize;
        let Some(entries) = entries.get(..count) else {
            let index = u32::try_from(entries.len()).unwrap_or(u32::MAX);
            return Err(Error::Registration { index, why: "the file ends before it" });
        };
        let mut ranges = Vec::with_capacity(count);
        let mut next = FIRST_BASE;
        for (index, entry) in (0..).zip(entries) {
            let Registration { unit, base, blocks } = Registration::read(entry);
            let corrupt = |why| Error::Registration { index, why };
            if base < next {
                return Err(corrupt("its numbers overlap those before it"));
            }
            next = base.checked_add(blocks).ok_or(corrupt("its numbers pass 32 bits"))?;
            ranges.push(Range { base, blocks, unit: UnitId(unit) });
        }
        let gap = Gap { why: Incomplete::from_number(header.incomplete), error: header.error };
        Ok(Self {
            pid: header.pid,
            parent: header.parent,
            forked_from: (header.forked_from != 0).then_some(header.forked_from),
            executable: OsStr::from_bytes(header.executable()).into(),
            incomplete: (header.incomplete != 0).then_some(gap),
            ranges,
        })
    }

    /// The same process with other ranges: those that were given to units before
    /// it ran.
    pub fn with_ranges(self, mut ranges: Vec<Range>) -> Self {
        ranges.sort_by_key(|range| range.base);
        Self { ranges, ..self }
    }

    /// The units' ranges, by increasing base.
    pub fn ranges(&self) -> &[Range] {
        &self.ranges
    }

    /// The range `event` is in.
    pub fn range_of(&self, event: u32) -> Option<Range> {
        let behind = self.ranges.partition_point(|range| range.base <= event);
        // An empty range has the base of the one behind it: it comes first, so
        // the last one at or before the event is the one that can contain it.
        let range = self.ranges[..behind].last()?;
        (event - range.base < range.blocks).then_some(*range)
    }
}
