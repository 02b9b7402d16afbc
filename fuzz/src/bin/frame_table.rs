//! Tables of frames, with the model of a unit and the words of a frame. Whatever a
//! record says, the blocks that are recovered are blocks of the function, and each
//! leads to the next.

#![no_main]

use backtrail_crash::{Frame, Frames};
use backtrail_fuzz::{fixtures, joined, parts};
use backtrail_ir::encode::{from_bytes, to_bytes};
use backtrail_ir::text;
use backtrail_machine::elf::Elf;
use libfuzzer_sys::fuzz_target;

/// As many addresses as are asked about.
const MOST_ADDRESSES: usize = 64;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let [words, unit, table] = parts::<3>(data);
    let Ok(unit) = from_bytes(unit) else { return };
    let Ok(frames) = Frames::new(table, &|_| Some(unit.clone())) else { return };
    let (addresses, memory) = words.split_at(words.len() / 2);
    for address in addresses.chunks_exact(3).take(MOST_ADDRESSES) {
        let address = u64::from(address[0]) | u64::from(address[1]) << 8;
        let read = |at: u64, bytes: &mut [u8]| {
            let from = usize::try_from(at).ok().and_then(|at| memory.get(at..));
            let Some(from) = from.and_then(|from| from.get(..bytes.len())) else { return false };
            bytes.copy_from_slice(from);
            true
        };
        let frame = Frame {
            address,
            is_call: address % 2 == 0,
            frame_address: 64,
            register: &|_| Some(64),
            memory: &read,
        };
        let Ok(found) = frames.recover(&frame) else { continue };
        let function = &unit.functions[found.function];
        let flow = function.control_flow();
        let ways = std::iter::once(&found.path).chain(found.older.iter().map(|it| &it.blocks));
        for way in ways {
            for step in way.windows(2) {
                assert!(
                    flow.successors(step[0]).any(|next| next == step[1]),
                    "{} does not lead to {}",
                    step[0],
                    step[1]
                );
            }
        }
    }
});

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let model = from.all("models", "").into_iter().find_map(|it| String::from_utf8(it).ok());
    let unit = text::parse(&model.expect("the fixture has a model")).expect("it is a unit");
    let mut inputs = Vec::new();
    for (number, name) in ["program.pt", "program.full"].into_iter().enumerate() {
        let program = from.read(name);
        let elf = Elf::parse(&program).expect("the fixture is an ELF file");
        let table = elf.section(backtrail_abi::record::FRAMES_SECTION).ok().flatten();
        let table = table.expect("the variant has a table");
        for seed in 0..8_u64 {
            let word = |at: u64| (at * 0x9e37_79b9 + seed * 31 + number as u64).to_le_bytes();
            let words: Vec<u8> = (0..48).flat_map(word).collect();
            inputs.push(joined(&[&words, &to_bytes(&unit), &table]));
        }
    }
    inputs
}
