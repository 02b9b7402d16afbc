//! What logs of blocks say of activations: simulated runs are read as they were, every
//! prefix of a log as a prefix of them, and any words at all without a panic.

use backtrail_abi::frames::{Word, parts};
use backtrail_abi::{UnitId, VERSION};
use backtrail_ir::{Index, Unit, text};
use backtrail_trace::Error;
use backtrail_trace::block_log::{Events, LogFrames, Moment, Moments, Process, ProgramMap};
use proptest::prelude::*;

const ID: UnitId = UnitId([7; 16]);

/// Three functions of three blocks, each of which may call.
fn unit() -> Unit {
    let mut program = "unit \"a.c\"\nfile0 = \"a.c\"\n".to_owned();
    (0..3).for_each(|it| program += &format!("s{it} = function f{it} \"f{it}\" external\n"));
    for it in 0..3 {
        program += &format!(
            "\nfunction f{it} s{it} parameters 1 {{\nb0:\n  i0 branch (p0) -> b1, b2\nb1:\n  \
             i1 jump -> b2\nb2:\n  i2 return ()\n}}\n"
        );
    }
    text::parse(&program).unwrap()
}

fn process() -> Process {
    let mut bytes = b"BTPROC\x01\n".to_vec();
    [VERSION, 10, 9, 0, 0, 0, 1, 0].iter().for_each(|it: &u32| bytes.extend(it.to_le_bytes()));
    bytes.resize(4136, 0);
    bytes.extend(ID.0);
    [1u32, 9].iter().for_each(|it| bytes.extend(it.to_le_bytes()));
    Process::read(&bytes).unwrap().of_blocks().unwrap()
}

/// A block, its depth, and whether its frame begins there.
type Step = (u32, u32, bool);

fn read(words: &[u32]) -> (Vec<Step>, Option<Error>) {
    let unit = unit();
    let map = ProgramMap::new([(ID, &unit)]);
    let process = process();
    let mut bytes = b"BTEVNT\x01\n".to_vec();
    [VERSION, 11, 2, 0, 0].iter().for_each(|it: &u32| bytes.extend(it.to_le_bytes()));
    words.iter().for_each(|it| bytes.extend(it.to_le_bytes()));
    let events = Events::new(&process, bytes.as_slice()).unwrap();
    let mut frames = LogFrames::default();
    let mut steps = Vec::new();
    for moment in Moments::new(&map, events, &mut frames) {
        match moment {
            Ok(Moment::Block { step, of, .. }) => {
                let number = step.func.position() * 3 + step.block.position();
                steps.push((number as u32, of.depth, of.enters));
            }
            Ok(_) => {}
            Err(error) => return (steps, Some(error)),
        }
    }
    (steps, None)
}

#[test]
fn what_is_of_no_known_unit_is_passed_over() {
    let unit = unit();
    let map = ProgramMap::new([(ID, &unit)]);
    let mut bytes = b"BTPROC\x01\n".to_vec();
    [VERSION, 10, 9, 0, 0, 0, 2, 0].iter().for_each(|it: &u32| bytes.extend(it.to_le_bytes()));
    bytes.resize(4136, 0);
    for (id, base, blocks) in [(ID.0, 1u32, 9u32), ([8; 16], 10, 20)] {
        bytes.extend(id);
        [base, blocks].iter().for_each(|it| bytes.extend(it.to_le_bytes()));
    }
    let process = Process::read(&bytes).unwrap().of_blocks().unwrap();
    let frame = |place| {
        let (upper, lower) = parts(place);
        [Word::Frame(upper).number(), Word::Frame(lower).number()]
    };
    let mut words = vec![1];
    words.extend(frame(0x7fff_ffff_0100));
    // A function of the other unit, which calls back one of this.
    words.push(14);
    words.extend(frame(0x7fff_ffff_00c0));
    words.push(16);
    words.push(4);
    words.extend(frame(0x7fff_ffff_0080));
    words.extend([Word::Ends.number(), 17, Word::Ends.number(), 2]);
    let mut log = b"BTEVNT\x01\n".to_vec();
    [VERSION, 11, 2, 0, 0].iter().for_each(|it: &u32| log.extend(it.to_le_bytes()));
    words.iter().for_each(|it| log.extend(it.to_le_bytes()));
    let events = Events::new(&process, log.as_slice()).unwrap();
    let mut frames = LogFrames::default();
    let (mut known, mut unseen) = (Vec::new(), Vec::new());
    for moment in Moments::new(&map, events, &mut frames) {
        match moment.unwrap() {
            Moment::Block { number, step, of } => {
                known.push((number, step.func.position(), of.activation));
            }
            Moment::Unseen { number, unit, block } => unseen.push((number, unit, block)),
            _ => {}
        }
    }
    // Of this unit, what is known is as it would be without the other.
    assert_eq!(known, [(0, 0, 1), (3, 1, 3), (5, 0, 1)]);
    let other = UnitId([8; 16]);
    assert_eq!(unseen, [(1, other, 4), (2, other, 6), (4, other, 7)]);
}

/// What a thread does next: calls a function, goes on to a block, ends the innermost
/// activation, or jumps to one that is so far out.
#[derive(Debug, Clone, Copy)]
enum Deed {
    Call(u32),
    Go(u32),
    Return,
    Jump(usize),
}

fn deeds() -> impl Strategy<Value = Vec<Deed>> {
    let deed = prop_oneof![
        4 => (0..3u32).prop_map(Deed::Call),
        3 => (1..3u32).prop_map(Deed::Go),
        3 => Just(Deed::Return),
        1 => (0..5usize).prop_map(Deed::Jump),
    ];
    prop::collection::vec(deed, 0..60)
}

/// What is logged of this, and what it is.
fn simulate(deeds: &[Deed]) -> (Vec<u32>, Vec<Step>) {
    let (mut words, mut steps) = (Vec::new(), Vec::new());
    let mut stack: Vec<u32> = Vec::new();
    let place = |depth: usize| parts(0x7fff_ffff_0000 - 0x40 * depth as u64);
    for &deed in deeds {
        match deed {
            Deed::Call(function) => {
                stack.push(function);
                let (upper, lower) = place(stack.len());
                words.extend([
                    1 + function * 3,
                    Word::Frame(upper).number(),
                    Word::Frame(lower).number(),
                ]);
                steps.push((function * 3, stack.len() as u32, true));
            }
            Deed::Go(block) => {
                if let Some(function) = stack.last() {
                    words.push(1 + function * 3 + block);
                    steps.push((function * 3 + block, stack.len() as u32, false));
                }
            }
            Deed::Return => {
                if stack.pop().is_some() {
                    words.extend([Word::Nothing.number(), Word::Ends.number()]);
                }
            }
            Deed::Jump(out) => {
                if stack.len() > out {
                    stack.truncate(stack.len() - out);
                    let (upper, lower) = place(stack.len());
                    words.extend([Word::Resumes(upper).number(), Word::Frame(lower).number()]);
                }
            }
        }
    }
    (words, steps)
}

proptest! {
    #[test]
    fn simulated_runs_are_read_as_they_were(deeds in deeds()) {
        let (words, steps) = simulate(&deeds);
        let (found, error) = read(&words);
        prop_assert!(error.is_none(), "{error:?}");
        prop_assert_eq!(&found, &steps);
        for cut in 0..words.len() {
            let (found, error) = read(&words[..cut]);
            prop_assert!(error.is_none() && steps.starts_with(&found), "{cut}: {error:?}");
        }
    }

    #[test]
    fn any_words_are_read_or_refused(
        words in prop::collection::vec(
            prop_oneof![0..11u32, (8..16u32, 0..4u32).prop_map(|(kind, it)| kind << 28 | it)],
            0..80,
        )
    ) {
        let (steps, _) = read(&words);
        prop_assert!(steps.iter().all(|(_, depth, _)| *depth >= 1));
    }
}

#[test]
fn a_part_of_a_place_by_itself_is_refused() {
    let (steps, error) = read(&[2, Word::Frame(5).number(), 3]);
    assert_eq!(steps, [(1, 1, true)]);
    assert!(matches!(error, Some(Error::Event { number: 1, .. })), "{error:?}");
}
