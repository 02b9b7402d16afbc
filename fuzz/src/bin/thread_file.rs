//! A thread's file of events. The first byte says how many units there are and
//! the next ones how many blocks each has; then a file as it is, or (by the
//! highest bit) filled with zeros to a length that files have. The stream gives
//! what looking at all words at once gives, however the bytes come.

#![no_main]

use std::io::Read;

use backtrail_abi::log::{ProcessHeader, ThreadHeader, next_thread_length};
use backtrail_fuzz::fixtures;
use backtrail_trace::Error;
use backtrail_trace::block_log::{Event, Events, Process, Summary};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let units = usize::from(first & 7).min(rest.len());
    let (sizes, thread) = rest.split_at(units);
    let process = process(sizes);
    let mut thread = thread.to_vec();
    if first & 0x80 != 0 {
        let mut length = 0;
        while length < thread.len() as u64 {
            length = next_thread_length(length);
        }
        thread.resize(length as usize, 0);
    }
    let whole = collect(&process, &thread[..]);
    let slowly = collect(&process, InSmallPieces(&thread));
    assert_eq!(shown(&whole), shown(&slowly));
    let Ok((events, error, summary)) = whole else { return };
    let (expected, is_error, lost) = at_once(&process, &thread);
    assert_eq!((&events, error.is_some()), (&expected, is_error));
    if !is_error {
        assert_eq!((summary.events, summary.lost), (expected.len() as u64, lost));
    }
});

type Collected = Result<(Vec<Event>, Option<Error>, Summary), Error>;

fn collect(process: &Process, input: impl Read) -> Collected {
    let mut events = Events::new(process, input)?;
    let (mut list, mut wrong) = (Vec::new(), None);
    for event in &mut events {
        match event {
            Ok(event) => list.push(event),
            Err(error) => {
                assert!(wrong.is_none(), "nothing follows an error");
                wrong = Some(error);
            }
        }
    }
    Ok((list, wrong, events.summary()))
}

fn shown(collected: &Collected) -> String {
    format!("{collected:?}")
}

/// The events, whether an error ends them, and how many zeros are before the
/// last.
fn at_once(process: &Process, thread: &[u8]) -> (Vec<Event>, bool, u64) {
    let behind = thread.get(ThreadHeader::BYTES..).unwrap_or_default();
    let has_header = thread.iter().take(8).any(|byte| *byte != 0);
    let (mut events, mut lost) = (Vec::new(), 0);
    for (number, word) in (0..).zip(behind.as_chunks::<4>().0) {
        let word = u32::from_le_bytes(*word);
        if word == 0 {
            continue;
        }
        let range =
            process.ranges().iter().find(|it| (it.base..it.base + it.blocks).contains(&word));
        let Some(range) = range.filter(|_| has_header) else { return (events, true, lost) };
        lost = number - events.len() as u64;
        events.push(Event { number, unit: range.unit, block: word - range.base });
    }
    (events, false, lost)
}

/// Gives one to seven bytes at a time.
struct InSmallPieces<'a>(&'a [u8]);

impl Read for InSmallPieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let length = (self.0.len() % 7 + 1).min(self.0.len()).min(buffer.len());
        let (piece, rest) = self.0.split_at(length);
        buffer[..length].copy_from_slice(piece);
        self.0 = rest;
        Ok(length)
    }
}

/// A process whose units have these numbers of blocks.
fn process(sizes: &[u8]) -> Process {
    let mut bytes = backtrail_trace::block_log::example_process();
    bytes.truncate(ProcessHeader::BYTES);
    bytes[32..36].copy_from_slice(&(sizes.len() as u32).to_le_bytes());
    let mut base = 1u32;
    for (number, &size) in sizes.iter().enumerate() {
        bytes.extend([number as u8; 16]);
        bytes.extend(base.to_le_bytes());
        bytes.extend(u32::from(size).to_le_bytes());
        base += u32::from(size);
    }
    Process::read(&bytes).expect("it was made from the description")
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for file in from.all("records-log", "thread-") {
        let head = &file[..file.len().min(4096)];
        inputs.push([&[0x81, 255], head].concat());
        inputs.push([&[0x03, 2, 0, 253], &head[..head.len().min(200)]].concat());
    }
    inputs.push([&[1, 3], &backtrail_trace::block_log::example_thread()[..]].concat());
    inputs
}
