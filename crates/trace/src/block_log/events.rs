//! The events of a thread file, as a stream.
//!
//! Memory does not depend on the file's length: bytes go through one buffer.
//! Zeros are looked at in the order they come: those with an event behind them
//! were events that their thread began and never finished, those at the end are
//! space allocated ahead. Events are numbered as they happened, lost ones
//! included, so a loss shows as a gap in the numbers.

use std::io::{ErrorKind, Read};

use backtrail_abi::UnitId;
use backtrail_abi::log::{HeaderError, ThreadHeader, is_log_length};

use super::{Process, Range};
use crate::Error;

const WHAT: &str = "thread file";
const BUFFER_BYTES: usize = 64 << 10;
const EVENT_BYTES: usize = size_of::<u32>();

/// One executed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Event {
    /// Its place in the thread's log, from 0, lost events counted.
    pub number: u64,
    /// The unit.
    pub unit: UnitId,
    /// The block, blocks of all functions of the unit counted through.
    pub block: u32,
}

/// What is known about a thread file as far as it was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Summary {
    /// Events read.
    pub events: u64,
    /// Events that were begun and never finished.
    pub lost: u64,
    /// Whether the file, read to its end, has a length the runtime never gives
    /// it: something cut it, and events may be missing at the end. A cut at a
    /// length the runtime does give cannot be told.
    pub truncated: bool,
}

/// The events of a thread file, in order.
#[derive(Debug)]
pub struct Events<'p, R> {
    process: &'p Process,
    input: R,
    header: Option<ThreadHeader>,
    buffer: Box<[u8]>,
    /// The part of the buffer that is still to be decoded.
    at: usize,
    end: usize,
    /// The range of the last event: most events are in the same unit.
    range: Range,
    /// Bytes had from the input.
    length: u64,
    zeros: u64,
    summary: Summary,
    finished: bool,
}

impl<'p, R: Read> Events<'p, R> {
    /// Reads the header; `process` is of the same folder.
    pub fn new(process: &'p Process, input: R) -> Result<Self, Error> {
        let mut events = Self {
            process,
            input,
            header: None,
            buffer: vec![0; BUFFER_BYTES].into_boxed_slice(),
            at: 0,
            end: 0,
            range: Range { base: 0, blocks: 0, unit: UnitId([0; 16]) },
            length: 0,
            zeros: 0,
            summary: Summary::default(),
            finished: false,
        };
        events.fill()?;
        events.header = match ThreadHeader::read(&events.buffer[..events.end]) {
            Ok(header) => Some(header),
            // Killed just after it made the file: a log without events.
            Err(HeaderError::Short(0) | HeaderError::Unwritten) => None,
            Err(error) => return Err(Error::from_header(WHAT, ThreadHeader::BYTES, error)),
        };
        events.at = events.end.min(ThreadHeader::BYTES);
        Ok(events)
    }

    /// The thread, as the kernel numbered it. `None` if the process was stopped
    /// before the thread recorded anything; then there are no events.
    pub fn tid(&self) -> Option<u32> {
        Some(self.header?.tid)
    }

    /// Orders the threads of a process by their first event.
    pub fn ordinal(&self) -> Option<u32> {
        Some(self.header?.ordinal)
    }

    /// What is known so far; everything once the iterator gave `None`.
    pub fn summary(&self) -> Summary {
        self.summary
    }

    /// Moves what is left to the front and reads until the buffer is full or
    /// the input ends.
    fn fill(&mut self) -> Result<(), Error> {
        self.buffer.copy_within(self.at..self.end, 0);
        self.end -= self.at;
        self.at = 0;
        while self.end < self.buffer.len() {
            match self.input.read(&mut self.buffer[self.end..]) {
                Ok(0) => break,
                Ok(count) => {
                    self.end += count;
                    self.length += count as u64;
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Read { what: WHAT, source }),
            }
        }
        Ok(())
    }

    /// The next word, zeros counted and left out.
    fn next_word(&mut self) -> Result<Option<u32>, Error> {
        loop {
            let words = self.buffer[self.at..self.end].as_chunks::<EVENT_BYTES>().0;
            for (skipped, word) in words.iter().enumerate() {
                let word = u32::from_le_bytes(*word);
                if word != 0 {
                    self.zeros += skipped as u64;
                    self.at += (skipped + 1) * EVENT_BYTES;
                    return Ok(Some(word));
                }
            }
            self.zeros += words.len() as u64;
            self.at += words.len() * EVENT_BYTES;
            self.fill()?;
            if self.end < EVENT_BYTES {
                return Ok(None);
            }
        }
    }

    fn next_event(&mut self) -> Result<Option<Event>, Error> {
        let Some(event) = self.next_word()? else {
            self.summary.truncated = !is_log_length(self.length);
            return Ok(None);
        };
        if self.header.is_none() {
            return Err(Error::Headless);
        }
        self.summary.lost += std::mem::take(&mut self.zeros);
        let number = self.summary.events + self.summary.lost;
        if event.wrapping_sub(self.range.base) >= self.range.blocks {
            self.range = self.process.range_of(event).ok_or(Error::Event { number, event })?;
        }
        self.summary.events += 1;
        Ok(Some(Event { number, unit: self.range.unit, block: event - self.range.base }))
    }
}

impl<R: Read> Iterator for Events<'_, R> {
    type Item = Result<Event, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        // What nearly always happens: one more event of the same unit. Zero is
        // in no range.
        if let Some(word) = self.buffer[self.at..self.end].first_chunk()
            && self.zeros == 0
        {
            let block = u32::from_le_bytes(*word).wrapping_sub(self.range.base);
            if block < self.range.blocks {
                let number = self.summary.events + self.summary.lost;
                self.at += EVENT_BYTES;
                self.summary.events += 1;
                return Some(Ok(Event { number, unit: self.range.unit, block }));
            }
        }
        self.next_slowly()
    }
}

impl<R: Read> Events<'_, R> {
    fn next_slowly(&mut self) -> Option<Result<Event, Error>> {
        if self.finished {
            return None;
        }
        let event = self.next_event().transpose();
        // After an error what follows could be anything.
        self.finished = !matches!(event, Some(Ok(_)));
        if self.finished {
            self.at = self.end;
        }
        event
    }
}
