//! The block log's reader against records built here byte by byte, which share
//! no layout with it.

use std::io::{self, Read};

use backtrail_abi::log::Incomplete;
use backtrail_abi::{UnitId, VERSION};
use backtrail_trace::Error;
use backtrail_trace::block_log::{Event, Events, Gap, Module, Process, Summary};
use proptest::prelude::*;

/// Units as (id, base, blocks).
type Units<'a> = &'a [(u8, u32, u32)];

/// A process file: the numbers of its header, then units.
fn process_file(numbers: [u32; 8], units: Units<'_>) -> Vec<u8> {
    let mut bytes = b"BTPROC\x01\n".to_vec();
    numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.extend(b"/bin/true");
    bytes.resize(4136, 0);
    for &(id, base, blocks) in units {
        bytes.extend([id; 16]);
        bytes.extend(base.to_le_bytes());
        bytes.extend(blocks.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(8192), 0);
    bytes
}

/// A process file with these units and nothing special.
fn process_of(units: Units<'_>) -> Vec<u8> {
    process_file([VERSION, 10, 9, 0, 0, 0, units.len() as u32, 0], units)
}

/// A thread file with these words, `length` bytes long.
fn thread_file(words: &[u32], length: usize) -> Vec<u8> {
    let mut bytes = b"BTEVNT\x01\n".to_vec();
    [VERSION, 11, 2, 0, 0].iter().for_each(|number: &u32| bytes.extend(number.to_le_bytes()));
    words.iter().for_each(|word| bytes.extend(word.to_le_bytes()));
    bytes.resize(length, 0);
    bytes
}

const UNITS: [(u8, u32, u32); 3] = [(5, 1, 10), (6, 11, 0), (7, 11, 100)];

fn read_all(process: &[u8], thread: &[u8]) -> Result<(Vec<Event>, Summary), Error> {
    let process = Process::read(process)?;
    let mut events = Events::new(&process, thread)?;
    let list = (&mut events).collect::<Result<_, _>>()?;
    assert!(events.next().is_none());
    Ok((list, events.summary()))
}

fn event(number: u64, unit: u8, block: u32) -> Event {
    Event { number, unit: UnitId([unit; 16]), block }
}

#[test]
fn events_have_units_blocks_and_numbers() {
    let thread = thread_file(&[1, 10, 11, 110, 5], 4096);
    let (events, summary) = read_all(&process_of(&UNITS), &thread).unwrap();
    let expected =
        [event(0, 5, 0), event(1, 5, 9), event(2, 7, 0), event(3, 7, 99), event(4, 5, 4)];
    assert_eq!(events, expected);
    assert_eq!(summary, Summary { events: 5, lost: 0, truncated: false });
}

#[test]
fn a_zero_before_an_event_is_a_lost_one() {
    let thread = thread_file(&[0, 1, 0, 0, 2, 0], 8192);
    let (events, summary) = read_all(&process_of(&UNITS), &thread).unwrap();
    assert_eq!(events, [event(1, 5, 0), event(4, 5, 1)]);
    assert_eq!(summary, Summary { events: 2, lost: 3, truncated: false });
}

#[test]
fn a_log_that_fills_its_file() {
    let thread = thread_file(&[3; 1017], 4096);
    let (events, summary) = read_all(&process_of(&UNITS), &thread).unwrap();
    assert_eq!(events.len(), 1017);
    assert_eq!(summary, Summary { events: 1017, lost: 0, truncated: false });
}

#[test]
fn a_thread_that_was_killed_at_its_start_has_no_events() {
    for thread in [Vec::new(), vec![0; 4096]] {
        let (events, summary) = read_all(&process_of(&UNITS), &thread).unwrap();
        assert_eq!((events.len(), summary), (0, Summary::default()));
    }
    let mut thread = thread_file(&[1], 4096);
    thread[..28].fill(0);
    assert!(matches!(read_all(&process_of(&UNITS), &thread), Err(Error::Headless)));
}

#[test]
fn the_process_file_says_who_and_why() {
    let file = process_file([VERSION, 10, 9, 8, 2, 28, 1, 0], &[(5, 1, 10)]);
    let process = Process::read(&file).unwrap();
    assert_eq!((process.pid, process.parent, process.forked_from), (10, 9, Some(8)));
    assert_eq!(process.executable.to_str(), Some("/bin/true"));
    let gap = Gap { why: Some(Incomplete::Extend), error: 28 };
    assert_eq!(process.incomplete, Some(gap));
    assert!(gap.to_string().starts_with("a file could not be extended: No space left"));
    let unknown = Process::read(&process_file([VERSION, 10, 9, 0, 99, 0, 0, 0], &[])).unwrap();
    assert_eq!(unknown.incomplete, Some(Gap { why: None, error: 0 }));
    assert_eq!(unknown.forked_from, None);
}

#[test]
fn modules_stand_between_units() {
    let path = b"/opt/lib/a library of its own.so";
    let mut bytes = process_of(&[]);
    bytes.truncate(4136);
    let row = |bytes: &mut Vec<u8>, id: u8, base: u32, blocks: u32| {
        bytes.extend([id; 16]);
        bytes.extend(base.to_le_bytes());
        bytes.extend(blocks.to_le_bytes());
    };
    row(&mut bytes, 1, 0, 1 << 31);
    row(&mut bytes, 5, 1, 10);
    row(&mut bytes, 2, 0, path.len() as u32);
    bytes.extend(path);
    bytes.resize(4136 + 5 * 24, 0);
    row(&mut bytes, 3, 0, 0);
    row(&mut bytes, 6, 11, 3);
    let with_rows = |rows: u32| {
        let mut bytes = bytes.clone();
        bytes[32..36].copy_from_slice(&rows.to_le_bytes());
        Process::read(&bytes)
    };
    let process = with_rows(7).unwrap();
    let module = |id: u8, is_executable, path: Option<&str>| Module {
        id: [id; 16],
        is_executable,
        path: path.map(Into::into),
    };
    let library = module(2, false, Some("/opt/lib/a library of its own.so"));
    let all = [module(1, true, Some("/bin/true")), library, module(3, false, None)];
    assert_eq!(process.modules, all);
    assert_eq!(process.ranges().iter().map(|it| it.base).collect::<Vec<_>>(), [1, 11]);
    // Rows are counted when they are whole, so a path is never cut but by damage.
    for rows in [3, 4] {
        let error = with_rows(rows).unwrap_err().to_string();
        assert!(error.contains("registration 2") && error.contains("path of a module"), "{error}");
    }
    assert_eq!(with_rows(5).unwrap().modules, all[..2]);
}

#[test]
fn what_is_wrong_is_said() {
    let message =
        |process: &[u8], thread: &[u8]| read_all(process, thread).unwrap_err().to_string();
    let process = process_of(&UNITS);
    let thread = thread_file(&[1, 111], 4096);
    let good = thread_file(&[], 4096);
    assert!(message(&process, &thread).contains("event 1"));
    assert!(message(&process, &thread).contains("number 111"));
    assert!(message(&process, &good[..23]).contains("23 bytes"));
    assert!(message(&process[..4135], &good).contains("4135 bytes"));
    assert!(message(&vec![0; 8192], &good).contains("no header"));
    assert!(
        message(b"\x7fELF\x02\x01\x01\0".repeat(600).as_slice(), &good).contains("not a process")
    );
    assert!(message(&process, &process).contains("not a thread file"));
    let mut other_version = good.clone();
    other_version[8] = 9;
    assert!(message(&process, &other_version).contains("version 9"));
    let bad_units: [(Units<'_>, &str); 4] = [
        (&[(5, 0, 10)], "registration 0"),
        (&[(5, 1, 10), (6, 10, 1)], "registration 1"),
        (&[(5, 1, 10), (6, 20, 1), (7, 15, 1)], "registration 2"),
        (&[(5, 2, u32::MAX)], "pass 32 bits"),
    ];
    for (units, part) in bad_units {
        assert!(message(&process_of(units), &good).contains(part));
    }
    let many = process_file([VERSION, 10, 9, 0, 0, 0, u32::MAX, 0], &[]);
    assert!(message(&many, &good).contains("ends before it"));
}

/// What the reader should say, decided for the whole file at once.
fn slow_twin(units: Units<'_>, bytes: &[u8]) -> Option<(Vec<Event>, Summary)> {
    let words: Vec<u32> = bytes
        .get(28..)?
        .chunks_exact(4)
        .map(|word| u32::from_le_bytes(word.try_into().unwrap()))
        .collect();
    let used = words.iter().rposition(|&word| word != 0).map_or(0, |last| last + 1);
    let mut events = Vec::new();
    for (number, &word) in words[..used].iter().enumerate().filter(|(_, word)| **word != 0) {
        let &(id, base, _) = units.iter().find(|&&(_, base, blocks)| {
            word >= base && u64::from(word) < u64::from(base) + u64::from(blocks)
        })?;
        events.push(event(number as u64, id, word - base));
    }
    let lost = (used - events.len()) as u64;
    let mut length = 0;
    while length < bytes.len() {
        length = match length {
            0 => 4096,
            length if length < 16 << 20 => length * 2,
            length => length + (16 << 20),
        };
    }
    let truncated = length != bytes.len();
    let summary = Summary { events: events.len() as u64, lost, truncated };
    Some((events, summary))
}

/// Gives its bytes in pieces of odd sizes.
struct Pieces<'a>(&'a [u8], usize);

impl Read for Pieces<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.1 = self.1 % 13 + 1;
        if self.1 == 7 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let length = self.1.min(buffer.len());
        self.0.read(&mut buffer[..length])
    }
}

#[test]
fn every_prefix_is_read_or_refused() {
    let process = process_of(&UNITS);
    let words: Vec<u32> = (0..1500).map(|i| i * 7 % 111).collect();
    let thread = thread_file(&words, 8192);
    for length in 0..=process.len() {
        let needed = 4136 + 3 * 24;
        assert_eq!(Process::read(&process[..length]).is_ok(), length >= needed, "{length}");
    }
    for length in 0..=thread.len() {
        let result = read_all(&process, &thread[..length]);
        match length {
            0 => assert_eq!(result.unwrap(), (Vec::new(), Summary::default())),
            1..28 => assert!(matches!(result, Err(Error::Short { .. }))),
            _ => assert_eq!(result.ok(), slow_twin(&UNITS, &thread[..length]), "{length}"),
        }
    }
}

#[test]
fn a_failing_input_is_an_error() {
    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("broken"))
        }
    }
    let process = Process::read(&process_of(&UNITS)).unwrap();
    assert!(matches!(Events::new(&process, Broken), Err(Error::Read { .. })));
    let start = thread_file(&[1; 1018], 4096);
    let mut events = Events::new(&process, start.as_slice().chain(Broken));
    // The header and what follows it are read at once.
    assert!(matches!(events, Err(Error::Read { .. })));
    let long = thread_file(&[1; 40000], 262_144);
    events = Events::new(&process, long.as_slice().chain(Broken));
    let results: Vec<_> = events.unwrap().collect();
    assert!(matches!(results.last(), Some(Err(Error::Read { .. }))));
    assert!(results.len() > 30000);
}

/// Units with gaps between their ranges, some of them empty.
fn units() -> impl Strategy<Value = Vec<(u8, u32, u32)>> {
    prop::collection::vec((any::<u8>(), 0u32..5, 0u32..40), 0..20).prop_map(|parts| {
        let mut next = 1;
        let place = |(id, gap, blocks)| {
            let base = next + gap;
            next = base + blocks;
            (id, base, blocks)
        };
        parts.into_iter().map(place).collect()
    })
}

proptest! {
    #[test]
    fn the_reader_agrees_with_its_slow_twin(
        units in units(),
        words in prop::collection::vec(0u32..300, 0..30000),
        cut in 0usize..200_000,
    ) {
        let length = (28 + words.len() * 4).next_power_of_two().max(4096);
        let mut thread = thread_file(&words, length);
        thread.truncate(cut.max(28));
        let process = Process::read(&process_of(&units)).unwrap();
        let expected = slow_twin(&units, &thread);
        for pieces in [false, true] {
            let input: Box<dyn Read> =
                if pieces { Box::new(Pieces(&thread, 0)) } else { Box::new(thread.as_slice()) };
            let mut events = Events::new(&process, input).unwrap();
            let list: Option<Vec<_>> = (&mut events).map(Result::ok).collect();
            let found = list.map(|list| (list, events.summary()));
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn nothing_makes_it_panic(
        changes in prop::collection::vec((0usize..8192, any::<u8>(), any::<bool>()), 1..20),
        process_cut in 0usize..9000,
        thread_cut in 0usize..9000,
    ) {
        let mut process = process_of(&UNITS);
        let mut thread = thread_file(&[1, 2, 0, 50, 0, 0, 11], 8192);
        for (place, value, in_process) in changes {
            // Most of the files is zeros: aim at what is not.
            let file = if in_process { &mut process } else { &mut thread };
            let place = if in_process && place > 4096 { 4136 + place % 80 } else { place % 64 };
            file[place] = value;
        }
        process.truncate(process_cut);
        thread.truncate(thread_cut);
        let _ = read_all(&process, &thread);
    }

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..6000)) {
        let _ = Process::read(&bytes);
        let process = Process::read(&process_of(&UNITS)).unwrap();
        if let Ok(events) = Events::new(&process, bytes.as_slice()) {
            events.for_each(drop);
        }
    }
}
