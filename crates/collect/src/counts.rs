//! Files of counters.
//!
//! The layout is that of [`backtrail_abi::counts`]: a header in a page of its
//! own, then the counters, each at the place in the file that it has in its
//! module's area. A file is allocated as a whole before its header is written,
//! so any length but the header's means that something cut or extended it.
//!
//! One whose process has ended may be packed ([`crate::packing`]); [`unpack`] gives
//! what it was.

use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::FileExt as _;

use backtrail_abi::VERSION;
use backtrail_abi::counts::{
    COUNTS_MAGIC, CountsHeader, ORDER_OFFSET, PACKED_COUNTS_MAGIC, PAGE_BYTES,
};
use backtrail_abi::log::HeaderError;

use nix::errno::Errno;
use nix::unistd::{Whence, lseek};

use crate::Error;

const PAGE: usize = PAGE_BYTES as usize;

/// How many bytes are read at once.
const AT_ONCE: u64 = 256 * PAGE_BYTES;

/// The counters of one copy of a module's area.
#[derive(Debug, Clone, Copy)]
pub struct CountsFile<'a> {
    header: CountsHeader,
    bytes: &'a [u8],
}

impl<'a> CountsFile<'a> {
    /// Takes the bytes of a whole file.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, Error> {
        if is_packed(bytes) {
            return Err(Error::NotCounts);
        }
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

/// The layout of the counters in a file's bytes, packed or not, and how many bytes it
/// has when it is not.
pub fn layout_in(bytes: &[u8]) -> Result<([u8; 16], u64), Error> {
    let header = check_header(bytes, bytes.len() as u64)?;
    Ok((header.layout, header.file_bytes()))
}

/// The bytes of a whole file as they were before it was packed, if it was. That takes
/// as much memory as [`layout_in`] says.
pub fn unpack(bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if !is_packed(&bytes) {
        return Ok(bytes);
    }
    let header = check_header(&bytes, bytes.len() as u64)?;
    let expected = header.file_bytes();
    let (start, frame) = bytes.split_at(CountsHeader::BYTES);
    let mut whole = vec![0; expected as usize];
    whole[..start.len()].copy_from_slice(start);
    whole[..COUNTS_MAGIC.len()].copy_from_slice(&COUNTS_MAGIC);
    let (_, counters) = whole.split_at_mut(PAGE);
    let damaged = |_| Error::DamagedCounts;
    let mut frame = zstd::stream::Decoder::with_buffer(frame).map_err(damaged)?;
    let mut rest = counters.as_chunks_mut::<PAGE>().0.iter_mut();
    let mut next = 1;
    loop {
        let mut number = [0; 8];
        match frame.read(&mut number).map_err(damaged)? {
            0 => return Ok(whole),
            read => frame.read_exact(&mut number[read..]).map_err(damaged)?,
        }
        // Ever further on, and not behind the end.
        let number = u64::from_le_bytes(number);
        let skipped = number.checked_sub(next).ok_or(Error::DamagedCounts)?;
        let page = usize::try_from(skipped).ok().and_then(|skipped| rest.nth(skipped));
        frame.read_exact(page.ok_or(Error::DamagedCounts)?).map_err(damaged)?;
        next = number + 1;
    }
}

/// The number that says in which order functions were entered, in the bytes of a whole
/// file, packed or not; nothing if nothing was written to it yet.
pub fn order_in(bytes: Vec<u8>) -> Result<Option<u64>, Error> {
    match layout_in(&bytes) {
        Err(Error::NoCounts) => return Ok(None),
        checked => checked?,
    };
    let bytes = unpack(bytes)?;
    let word = bytes.get(ORDER_OFFSET as usize..).and_then(|it| it.first_chunk());
    Ok(word.map(|word| u64::from_le_bytes(*word)))
}

/// What a file is when it is packed; nothing if it is already, holds no counts, or is
/// larger then.
pub(crate) fn pack(file: &File) -> io::Result<Option<Vec<u8>>> {
    let length = file.metadata()?.len();
    let mut start = [0; CountsHeader::BYTES];
    if file.read_exact_at(&mut start, 0).is_err()
        || is_packed(&start)
        || check_header(&start, length).is_err()
    {
        return Ok(None);
    }
    start[..PACKED_COUNTS_MAGIC.len()].copy_from_slice(&PACKED_COUNTS_MAGIC);
    let mut pages = Vec::new();
    let mut found = Vec::new();
    let mut place = PAGE_BYTES;
    while let Some(data) = next_data(file, place, length)? {
        let start = data - data % PAGE_BYTES;
        let end = next_hole(file, data, length)?.next_multiple_of(PAGE_BYTES).min(length);
        place = end.min(start + AT_ONCE);
        found.resize((place - start) as usize, 0);
        file.read_exact_at(&mut found, start)?;
        for (number, page) in (start / PAGE_BYTES..).zip(found.as_chunks::<PAGE>().0) {
            if *page != [0; PAGE] {
                pages.extend(number.to_le_bytes());
                pages.extend(page);
            }
        }
    }
    let mut compressor = zstd::bulk::Compressor::new(1)?;
    compressor.include_checksum(true)?;
    let mut packed = start.to_vec();
    packed.extend(compressor.compress(&pages)?);
    Ok(((packed.len() as u64) < length).then_some(packed))
}

/// Where the next bytes are that the file has, from `place` on. The others are zero.
fn next_data(file: &File, place: u64, length: u64) -> io::Result<Option<u64>> {
    match lseek(file, place as i64, Whence::SeekData) {
        Ok(data) => Ok(Some(data as u64)),
        Err(Errno::ENXIO) => Ok(None),
        // Not every file system knows.
        Err(Errno::EINVAL) => Ok((place < length).then_some(place)),
        Err(error) => Err(error.into()),
    }
}

fn next_hole(file: &File, place: u64, length: u64) -> io::Result<u64> {
    match lseek(file, place as i64, Whence::SeekHole) {
        Ok(hole) => Ok(hole as u64),
        Err(Errno::EINVAL) => Ok(length),
        Err(error) => Err(error.into()),
    }
}

fn is_packed(bytes: &[u8]) -> bool {
    bytes.starts_with(&PACKED_COUNTS_MAGIC)
}

/// Reads the header that `bytes` start with and checks that the file, which is
/// `found` bytes long, is as long as the header says, unless it is packed.
pub(crate) fn check_header(bytes: &[u8], found: u64) -> Result<CountsHeader, Error> {
    let packed = is_packed(bytes);
    let mut start = bytes.get(..CountsHeader::BYTES).unwrap_or(bytes).to_vec();
    if packed {
        start[..COUNTS_MAGIC.len()].copy_from_slice(&COUNTS_MAGIC);
    }
    let header = CountsHeader::read(&start).map_err(|error| match error {
        HeaderError::Short(0) | HeaderError::Unwritten => Error::NoCounts,
        HeaderError::Short(_) => Error::CutCounts { found, expected: PAGE_BYTES },
        HeaderError::Magic(_) => Error::NotCounts,
        HeaderError::Version(found) => Error::CountsVersion { found, known: VERSION },
    })?;
    let expected = header.file_bytes();
    if expected < 2 * PAGE_BYTES || !expected.is_multiple_of(PAGE_BYTES) {
        return Err(Error::CorruptCounts { bytes: expected });
    }
    if found != expected && !packed {
        return Err(Error::CutCounts { found, expected });
    }
    Ok(header)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Counters of so many pages, and their file, with holes.
    fn random(pages: u64, random: &mut impl FnMut() -> u64) -> (File, Vec<u8>) {
        let mut whole = vec![0; ((pages + 1) * PAGE_BYTES) as usize];
        let header = CountsHeader {
            magic: COUNTS_MAGIC,
            version: VERSION,
            module: 0,
            copy: 0,
            reserved: 0,
            layout: [7; 16],
            bytes: whole.len() as u64,
        };
        let file = tempfile::tempfile().unwrap();
        file.set_len(whole.len() as u64).unwrap();
        header_bytes(&header, &mut whole);
        file.write_all_at(&whole[..PAGE], 0).unwrap();
        for _ in 0..random() % 20 {
            let place = PAGE_BYTES + random() % (pages * PAGE_BYTES / 8) * 8;
            // Zeros are written, too.
            let count = (random() % 3).wrapping_mul(random());
            file.write_all_at(&count.to_le_bytes(), place).unwrap();
            whole[place as usize..][..8].copy_from_slice(&count.to_le_bytes());
        }
        (file, whole)
    }

    fn header_bytes(header: &CountsHeader, bytes: &mut [u8]) {
        let numbers = [header.version, header.module, header.copy, header.reserved];
        let mut all = header.magic.to_vec();
        all.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        all.extend(header.layout);
        all.extend(header.bytes.to_le_bytes());
        bytes[..all.len()].copy_from_slice(&all);
    }

    fn xorshift(mut state: u64) -> impl FnMut() -> u64 {
        move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        }
    }

    #[test]
    fn what_is_packed_is_what_was() {
        let mut numbers = xorshift(0x9e37_79b9_7f4a_7c15);
        for _ in 0..100 {
            let pages = 1 + numbers() % 300;
            let (file, whole) = random(pages, &mut numbers);
            let packed = pack(&file).unwrap().unwrap();
            assert!(packed.len() < whole.len());
            assert_eq!(unpack(packed).unwrap(), whole);
        }
    }

    #[test]
    fn what_is_damaged_is_refused() {
        let mut numbers = xorshift(0x0123_4567_89ab_cdef);
        let (file, whole) = random(50, &mut numbers);
        let packed = pack(&file).unwrap().unwrap();
        for length in CountsHeader::BYTES..packed.len() {
            assert!(unpack(packed[..length].to_vec()).is_err(), "{length}");
        }
        for _ in 0..2000 {
            let mut damaged = packed.clone();
            let place =
                CountsHeader::BYTES + numbers() as usize % (packed.len() - CountsHeader::BYTES);
            damaged[place] ^= 1 << (numbers() % 8);
            // Some bits of a frame mean nothing.
            if let Ok(it) = unpack(damaged) {
                assert!(it == whole, "{place}");
            }
        }
        // Pages that are in another order, twice, or beyond the end.
        let frame = |numbers: &[u64]| {
            let mut pages = Vec::new();
            for number in numbers {
                pages.extend(number.to_le_bytes());
                pages.extend([1; PAGE]);
            }
            let mut bytes = packed[..CountsHeader::BYTES].to_vec();
            bytes.extend(zstd::bulk::compress(&pages, 1).unwrap());
            unpack(bytes)
        };
        assert!(frame(&[1, 2, 50]).is_ok());
        for wrong in [&[0][..], &[51], &[2, 2], &[2, 1], &[u64::MAX], &[1, u64::MAX]] {
            assert!(matches!(frame(wrong), Err(Error::DamagedCounts)), "{wrong:?}");
        }
    }
}
