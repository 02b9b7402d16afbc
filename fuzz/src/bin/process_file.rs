//! Process files: as they are (0), or fields and registrations without the
//! 4,096 bytes of the executable's name (1). What is read says what the bytes
//! say, and every event number is in at most one range.

#![no_main]

use backtrail_abi::log::{PATH_BYTES, ProcessHeader, Registration};
use backtrail_fuzz::{choose, chosen, fixtures};
use backtrail_trace::block_log::Process;
use libfuzzer_sys::fuzz_target;

/// Bytes before the name.
const FIELDS: usize = ProcessHeader::BYTES - PATH_BYTES;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 2) else { return };
    let bytes = if form == 0 { rest.to_vec() } else { with_name(rest) };
    let Ok(process) = Process::read(&bytes) else { return };
    let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((process.pid, process.parent), (number(12), number(16)));
    assert_eq!(process.forked_from.unwrap_or(0), number(20));
    assert_eq!(process.incomplete.is_some(), number(24) != 0);
    if let Some(gap) = process.incomplete {
        assert!(!gap.to_string().contains('\n'));
    }
    assert_eq!(process.ranges().len(), number(32) as usize);
    let mut written = Vec::new();
    for range in process.ranges() {
        written.extend(range.unit.0);
        written.extend(range.base.to_le_bytes());
        written.extend(range.blocks.to_le_bytes());
        let own = |event: u32| process.range_of(event) == Some(*range);
        match range.blocks {
            0 => assert!(!own(range.base)),
            blocks => assert!(own(range.base) && own(range.base + (blocks - 1))),
        }
    }
    assert_eq!(bytes[ProcessHeader::BYTES..][..written.len()], written[..]);
    assert_eq!(process.range_of(0), None, "zero is no event");
});

fn with_name(input: &[u8]) -> Vec<u8> {
    let (fields, registrations) = input.split_at(input.len().min(FIELDS));
    let mut bytes = fields.to_vec();
    bytes.resize(FIELDS, 0);
    bytes.extend_from_slice(b"/usr/bin/program");
    bytes.resize(ProcessHeader::BYTES, 0);
    bytes.extend_from_slice(registrations);
    bytes
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for folder in ["records-log", "records-profile"] {
        for file in from.all(folder, "process") {
            let count = u32::from_le_bytes(file[32..36].try_into().unwrap()) as usize;
            let end = ProcessHeader::BYTES + count * Registration::BYTES;
            inputs.push(chosen(0, &file[..end]));
            inputs.push(chosen(1, &[&file[..FIELDS], &file[ProcessHeader::BYTES..end]].concat()));
        }
    }
    let mut several = inputs[1].clone();
    several[1 + 32..1 + 36].copy_from_slice(&3u32.to_le_bytes());
    several.truncate(1 + FIELDS);
    for (unit, base, blocks) in [(1u8, 1u32, 4u32), (2, 5, 0), (3, 5, 9)] {
        several.extend([unit; 16]);
        several.extend(base.to_le_bytes());
        several.extend(blocks.to_le_bytes());
    }
    inputs.push(several);
    inputs
}
