//! The memory of a process, read out of a core.
//!
//! The kernel leaves out what files hold anyway (`core(5)`, "Controlling which
//! mappings are written"): code and constant data. So an address is answered
//! from the core where it is there, and else from the mapped file, where
//! `add_backing` was told that it is the same file. Anything else is
//! absent, and says why.
//!
//! Pages are kept; a read within one costs a lookup.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::fs::File;
use std::ops::Range;

use crate::core_file::{Segment, find_segment, read_up_to};

/// The granule that is read and kept.
const PAGE: u64 = 4096;
/// How many pages are kept before all are forgotten: 64 MiB.
const KEPT: usize = 16 << 10;

/// Why the bytes at an address are not known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// Nothing was mapped there.
    NotMapped,
    /// It was mapped, and is not in the core.
    NotDumped,
    /// It was in the part of the core that is missing.
    Truncated,
    /// The file that has it cannot be read.
    Unreadable,
}

impl fmt::Display for Absent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotMapped => "nothing was mapped there",
            Self::NotDumped => "it is not in the core",
            Self::Truncated => "it is in the part of the core that is missing",
            Self::Unreadable => "it cannot be read",
        })
    }
}

type Page = Box<[u8; PAGE as usize]>;

/// The memory of a process.
pub struct Memory {
    file: File,
    length: u64,
    segments: Vec<Segment>,
    backing: Vec<Backing>,
    /// Whether all mappings are known.
    pub(crate) complete: bool,
    pages: RefCell<HashMap<u64, Result<Page, Absent>>>,
}

struct Backing {
    range: Range<u64>,
    file: std::rc::Rc<File>,
    offset: u64,
}

impl Memory {
    /// The memory whose dumped part is in `file`, which is `length` bytes long;
    /// `segments` are sorted and do not overlap.
    pub(crate) fn new(file: File, length: u64, segments: Vec<Segment>) -> Self {
        Self {
            file,
            length,
            segments,
            backing: Vec::new(),
            complete: true,
            pages: RefCell::default(),
        }
    }

    /// What is not in the core between these addresses is in `file`, from
    /// `offset` on.
    pub(crate) fn add_backing(&mut self, range: Range<u64>, file: std::rc::Rc<File>, offset: u64) {
        let place = self.backing.partition_point(|backing| backing.range.start < range.start);
        self.backing.insert(place, Backing { range, file, offset });
        self.pages.get_mut().clear();
    }

    /// Forgets what was read: the process has run since.
    pub(crate) fn forget(&self) {
        self.pages.borrow_mut().clear();
    }

    /// These addresses were mapped, too, as far as no segment says so: gcore
    /// leaves out segments of which it writes nothing.
    pub(crate) fn add_mapping(&mut self, range: Range<u64>, executable: bool) {
        let place = self.segments.partition_point(|segment| segment.start < range.start);
        let before = place.checked_sub(1).map_or(0, |before| self.segments[before].end());
        let start = range.start.max(before);
        let next = self.segments.get(place).map_or(u64::MAX, |segment| segment.start);
        let end = range.end.min(next);
        if start < end {
            let segment = Segment {
                start,
                size: end - start,
                offset: 0,
                dumped: 0,
                writable: false,
                executable,
            };
            self.segments.insert(place, segment);
            self.pages.get_mut().clear();
        }
    }

    /// The mappings, by address.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// The mapping that holds an address.
    pub fn segment(&self, address: u64) -> Option<&Segment> {
        find_segment(&self.segments, address)
    }

    /// Whether the core itself holds so many bytes at an address, so that no file
    /// has to stand for them.
    pub fn is_dumped(&self, address: u64, bytes: u64) -> bool {
        let Some(end) = address.checked_add(bytes) else { return false };
        let mut at = address;
        while at < end {
            let held = self.segment(at).map(|segment| segment.start.saturating_add(segment.dumped));
            match held {
                Some(held) if held > at => at = held,
                _ => return false,
            }
        }
        true
    }

    /// Whether code could be executed there.
    pub fn is_executable(&self, address: u64) -> bool {
        self.segment(address).is_some_and(|segment| segment.executable)
    }

    /// Fills `buffer` with what is at `address` and behind, or says why that is
    /// not known; then, what was filled is unspecified.
    pub fn read(&self, address: u64, buffer: &mut [u8]) -> Result<(), Absent> {
        let mut filled = 0;
        while filled < buffer.len() {
            let at = address.checked_add(filled as u64).ok_or(Absent::NotMapped)?;
            let within = (at % PAGE) as usize;
            let count = (PAGE as usize - within).min(buffer.len() - filled);
            self.with_page(at - within as u64, |page| {
                buffer[filled..filled + count].copy_from_slice(&page[within..within + count]);
            })?;
            filled += count;
        }
        Ok(())
    }

    /// The eight bytes at an address, as a number.
    pub fn word(&self, address: u64) -> Result<u64, Absent> {
        let mut bytes = [0; 8];
        self.read(address, &mut bytes)?;
        Ok(u64::from_le_bytes(bytes))
    }

    fn with_page<T>(
        &self,
        page: u64,
        use_it: impl FnOnce(&[u8; PAGE as usize]) -> T,
    ) -> Result<T, Absent> {
        let mut pages = self.pages.borrow_mut();
        if pages.len() >= KEPT && !pages.contains_key(&page) {
            pages.clear();
        }
        let entry = pages.entry(page).or_insert_with(|| self.load(page));
        entry.as_ref().map(|page| use_it(page)).map_err(|absent| *absent)
    }

    fn load(&self, page: u64) -> Result<Page, Absent> {
        let segment = self.segment(page).ok_or(Absent::NotMapped)?;
        let within = page - segment.start;
        let mut bytes = Box::new([0; PAGE as usize]);
        let mut truncated = false;
        if within < segment.dumped {
            let wanted = PAGE.min(segment.dumped - within) as usize;
            let offset = segment.offset.checked_add(within).ok_or(Absent::Unreadable)?;
            let there = self.length.saturating_sub(offset).min(wanted as u64) as usize;
            if there == wanted {
                let got = read_up_to(&self.file, &mut bytes[..wanted], offset);
                return match got {
                    Ok(got) if got == wanted => Ok(bytes),
                    _ => Err(Absent::Unreadable),
                };
            }
            truncated = true;
        }
        // What was written to the core had been changed, or may have been: the
        // file does not stand for it, unless it is code.
        if truncated && (!segment.executable || segment.writable) {
            return Err(Absent::Truncated);
        }
        let absent = if truncated { Absent::Truncated } else { Absent::NotDumped };
        let behind = self.backing.partition_point(|backing| backing.range.start <= page);
        let backing = self.backing[..behind].last().filter(|it| it.range.contains(&page));
        let backing = backing.ok_or(absent)?;
        let offset = backing.offset.checked_add(page - backing.range.start).ok_or(absent)?;
        match read_up_to(&backing.file, &mut bytes[..], offset) {
            // The rest of a file's last page is zero.
            Ok(got) if got > 0 => {
                bytes[got..].fill(0);
                Ok(bytes)
            }
            _ => Err(Absent::Unreadable),
        }
    }
}
