//! Files of counters.
//!
//! The layout is that of [`backtrail_abi::counts`]: a header in a page of its
//! own, then the counters, each at the place in the file that it has in its
//! module's area. A file is allocated as a whole before its header is written,
//! so any length but the header's means that something cut or extended it.

use backtrail_abi::VERSION;
use backtrail_abi::counts::{CountsHeader, PAGE_BYTES};
use backtrail_abi::log::HeaderError;

use crate::Error;

/// The counters of one copy of a module's area.
#[derive(Debug, Clone, Copy)]
pub struct CountsFile<'a> {
    header: CountsHeader,
    bytes: &'a [u8],
}

impl<'a> CountsFile<'a> {
    /// Takes the bytes of a whole file.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        let header = check_header(bytes, bytes.len() as u64)?;
        Ok(Self { header, bytes })
    }

    /// The number of the module within its process.
    pub fn module(&self) -> u32 {
        self.header.module
    }

    /// The number of the copy; 0 is the module's area itself.
    pub fn copy(&self) -> u32 {
        self.header.copy
    }

    /// What identifies the layout of the counters.
    pub fn layout(&self) -> [u8; 16] {
        self.header.layout
    }

    /// The counter at a distance from the start of the area, if there is one.
    pub fn counter(&self, offset: u64) -> Option<u64> {
        let offset = usize::try_from(offset).ok().filter(|&offset| offset as u64 >= PAGE_BYTES)?;
        let bytes = self.bytes.get(offset..)?.first_chunk()?;
        Some(u64::from_le_bytes(*bytes))
    }

    /// The `count` counters from a distance from the start of the area on, if
    /// the area has so many.
    pub fn counters(&self, offset: u64, count: u64) -> Option<impl Iterator<Item = u64> + use<'a>> {
        let start = usize::try_from(offset).ok().filter(|&offset| offset as u64 >= PAGE_BYTES)?;
        let length = usize::try_from(count.checked_mul(8)?).ok()?;
        let bytes = self.bytes.get(start..start.checked_add(length)?)?;
        Some(bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes)))
    }

    /// All counters that are not zero, with their distance from the start of
    /// the area.
    pub fn nonzero(&self) -> impl Iterator<Item = (u64, u64)> + use<'a> {
        let words = self.bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
        let header_words = (PAGE_BYTES / 8) as usize;
        words
            .enumerate()
            .skip(header_words)
            .filter(|(_, count)| *count != 0)
            .map(|(index, count)| (index as u64 * 8, count))
    }
}

/// Reads the header that `bytes` start with and checks that the file, which is
/// `found` bytes long, is as long as the header says.
pub(crate) fn check_header(bytes: &[u8], found: u64) -> Result<CountsHeader, Error> {
    let header = CountsHeader::read(bytes).map_err(|error| match error {
        HeaderError::Short(0) | HeaderError::Unwritten => Error::NoCounts,
        HeaderError::Short(_) => Error::CutCounts { found, expected: PAGE_BYTES },
        HeaderError::Magic(_) => Error::NotCounts,
        HeaderError::Version(found) => Error::CountsVersion { found, known: VERSION },
    })?;
    let expected = header.file_bytes();
    if expected < 2 * PAGE_BYTES || !expected.is_multiple_of(PAGE_BYTES) {
        return Err(Error::CorruptCounts { bytes: expected });
    }
    if found != expected {
        return Err(Error::CutCounts { found, expected });
    }
    Ok(header)
}
