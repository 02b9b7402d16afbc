//! The bytes of a thread's log in the order in which they were logged: the start of
//! its file, then its segments by their sequence numbers, from the packed file or,
//! where it does not have them, from the thread's own ([`backtrail_abi::log`]).
//!
//! What comes out is a [`ThreadHeader`](backtrail_abi::log::ThreadHeader) and events,
//! as if there were no segments. Where a sequence number is missing, or a file does
//! not have a length that the runtime gives it, the log was cut: it ends with what is
//! there up to that, and has a length that [`is_log_length`] refuses. Memory does not
//! depend on the log's length but for some bytes for each segment.
//!
//! [`is_log_length`]: backtrail_abi::log::is_log_length

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufReader, ErrorKind, Read, Seek, SeekFrom};
use std::path::Path;

use backtrail_abi::log::{
    FREE, PACKED_FILE_PREFIX, PackedHeader, SEGMENT, SEGMENT_EVENTS, SegmentHeader,
    THREAD_FILE_PREFIX, is_thread_length,
};
use backtrail_foreign::file::open;

/// Where the events of a segment are.
#[derive(Debug, Clone, Copy)]
enum Place {
    /// In the thread's file: from where, and how many bytes.
    File(u64, usize),
    /// In the packed file: from where, and how many bytes when packed.
    Packed(u64, usize),
}

/// A thread's log.
#[derive(Debug)]
pub struct ThreadLog {
    file: File,
    packed: Option<File>,
    /// What is to come, the next one last.
    places: Vec<Place>,
    /// What is read, and how far it was given.
    buffer: Vec<u8>,
    at: usize,
    /// Whether something is missing behind the last place.
    is_cut: bool,
}

impl ThreadLog {
    /// Opens a thread's file, and the packed file beside it if there is one.
    pub fn open(path: &Path) -> io::Result<Self> {
        let file = open(path)?;
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let packed = match name.strip_prefix(THREAD_FILE_PREFIX) {
            None => None,
            Some(rest) => match open(&path.with_file_name(format!("{PACKED_FILE_PREFIX}{rest}"))) {
                Err(error) if error.kind() == ErrorKind::NotFound => None,
                opened => Some(opened?),
            },
        };
        let length = file.metadata()?.len();
        let mut found = segments_in_file(&file, length)?;
        if let Some(packed) = &packed {
            // A segment that is in both may have been zeroed in part.
            found.extend(segments_in_packed(packed)?);
        }
        let count = found.len();
        let in_order = (1..).zip(&found).take_while(|(number, (found, _))| number == *found);
        let mut places: Vec<Place> = in_order.map(|(_, (_, place))| *place).collect();
        let mut is_cut = places.len() < count || !is_thread_length(length);
        // What is behind a segment that was cut is not known to follow.
        if let Some(short) = places
            .iter()
            .position(|it| matches!(it, Place::File(_, bytes) if *bytes < SEGMENT_EVENTS))
        {
            is_cut = true;
            places.truncate(short + 1);
        }
        places.push(Place::File(0, length.min(SEGMENT) as usize));
        let last = places.len() - 1;
        places[..last].reverse();
        Ok(Self { file, packed, places, buffer: Vec::new(), at: 0, is_cut })
    }

    fn read_place(&mut self, place: Place) -> io::Result<()> {
        self.buffer.clear();
        self.at = 0;
        match place {
            Place::File(from, bytes) => {
                self.file.seek(SeekFrom::Start(from))?;
                (&self.file).take(bytes as u64).read_to_end(&mut self.buffer)?;
            }
            Place::Packed(from, bytes) => {
                let Some(packed) = &mut self.packed else { return Ok(()) };
                packed.seek(SeekFrom::Start(from))?;
                let mut frame = Vec::with_capacity(bytes);
                packed.take(bytes as u64).read_to_end(&mut frame)?;
                self.buffer = match bytes {
                    SEGMENT_EVENTS => frame,
                    _ => zstd::bulk::decompress(&frame, SEGMENT_EVENTS)?,
                };
                if self.buffer.len() != SEGMENT_EVENTS {
                    let what = "a packed segment is not of the size that segments have";
                    return Err(io::Error::new(ErrorKind::InvalidData, what));
                }
            }
        }
        Ok(())
    }
}

impl Read for ThreadLog {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.at == self.buffer.len() {
            if let Some(place) = self.places.pop() {
                self.read_place(place)?;
            } else if std::mem::take(&mut self.is_cut) {
                // Not a whole event, and so none; but a length that no log has.
                self.buffer = vec![0];
                self.at = 0;
            } else {
                return Ok(0);
            }
        }
        let count = (self.buffer.len() - self.at).min(buffer.len());
        buffer[..count].copy_from_slice(&self.buffer[self.at..self.at + count]);
        self.at += count;
        Ok(count)
    }
}

/// The segments of a thread's file that have events, by sequence number.
fn segments_in_file(mut file: &File, length: u64) -> io::Result<BTreeMap<u64, Place>> {
    let mut found = BTreeMap::new();
    let mut at = SEGMENT;
    let mut bytes = [0; SegmentHeader::BYTES];
    while length.saturating_sub(at) >= SegmentHeader::BYTES as u64 {
        file.seek(SeekFrom::Start(at))?;
        file.read_exact(&mut bytes)?;
        let header = SegmentHeader::read(&bytes);
        if header.sequence != 0 && header.state != FREE {
            let events = (length - at).min(SEGMENT) as usize - SegmentHeader::BYTES;
            found.insert(header.sequence, Place::File(at + SegmentHeader::BYTES as u64, events));
        }
        at += SEGMENT;
    }
    Ok(found)
}

/// The segments of a packed file. What is behind the last whole one was not finished.
fn segments_in_packed(packed: &File) -> io::Result<BTreeMap<u64, Place>> {
    let mut found = BTreeMap::new();
    let length = packed.metadata()?.len();
    let mut input = BufReader::new(packed);
    let mut at = 0;
    let mut bytes = [0; PackedHeader::BYTES];
    while length - at >= PackedHeader::BYTES as u64 {
        input.read_exact(&mut bytes)?;
        let header = PackedHeader::read(&bytes);
        at += PackedHeader::BYTES as u64;
        if length - at < u64::from(header.bytes) {
            break;
        }
        found.insert(header.sequence, Place::Packed(at, header.bytes as usize));
        input.seek_relative(i64::from(header.bytes))?;
        at += u64::from(header.bytes);
    }
    Ok(found)
}
