//! A process file.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use backtrail_abi::UnitId;
use backtrail_abi::frames::FRAMES;
use backtrail_abi::log::{FIRST_BASE, Incomplete, ProcessHeader, Registration};
use backtrail_abi::modules::{ModuleRow, path_rows};

use crate::Error;

const WHAT: &str = "process file";

/// In the place of a unit: words that are not of blocks ([`backtrail_abi::frames`]).
pub(super) const WORDS: UnitId = UnitId([0xfe; 16]);

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
            Some(Incomplete::Bound) => "logs or counters reached the bound that was set for them",
            Some(Incomplete::Changed) => {
                "the folder or a file of the record was replaced or changed while the program ran"
            }
            Some(Incomplete::NoSize) => {
                "nothing was recorded, as BACKTRAIL_DISK is no size (such as 500M)"
            }
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

/// An executable or library that a process is made of, if it is one that records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Which variant it is.
    pub id: [u8; 16],
    /// Whether it is an executable.
    pub is_executable: bool,
    /// The file, if that was found out.
    pub path: Option<PathBuf>,
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
    /// What it was made of, in the order in which that was loaded.
    pub modules: Vec<Module>,
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
        let (mut ranges, mut modules) = (Vec::with_capacity(count), Vec::new());
        let executable: PathBuf = OsStr::from_bytes(header.executable()).into();
        let mut next = FIRST_BASE;
        let mut rest = (0..).zip(entries);
        while let Some((index, entry)) = rest.next() {
            let entry = Registration::read(entry);
            let corrupt = |why| Error::Registration { index, why };
            if let Some(row) = ModuleRow::of(&entry) {
                let rows = path_rows(row.path_bytes) as usize;
                let path: Vec<u8> = rest.by_ref().take(rows).flat_map(|(_, row)| *row).collect();
                let path = path.get(..row.path_bytes as usize);
                let path = path.ok_or(corrupt("the path of a module is cut"))?;
                let path = if row.is_executable {
                    Some(executable.clone())
                } else {
                    Some(OsStr::from_bytes(path).into()).filter(|_| !path.is_empty())
                };
                modules.push(Module { id: row.id, is_executable: row.is_executable, path });
                continue;
            }
            let Registration { unit, base, blocks } = entry;
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
            executable,
            modules,
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

    /// The same process as one that logged every block, and which activations they are
    /// of.
    pub fn of_blocks(mut self) -> Result<Self, Error> {
        let is_other = |range: &Range| range.base.saturating_add(range.blocks) > FRAMES;
        if let Some(index) = self.ranges.iter().position(is_other) {
            let why = "its numbers are not those of blocks";
            return Err(Error::Registration { index: index as u32, why });
        }
        self.ranges.push(Range { base: FRAMES, blocks: FRAMES, unit: WORDS });
        Ok(self)
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
