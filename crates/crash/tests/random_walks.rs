//! Records against the walk itself: random functions are walked at random, and
//! at every instruction the record must tell the way that was taken.
//!
//! The slow twin is the list of the blocks that were entered. Functions include
//! irreducible ones, computed gotos, and calls that return twice, never, or in
//! tail position.

use std::cell::RefCell;

use backtrail_abi::record;
use backtrail_analysis::calls::{has_call_that_returns_twice, is_in_tail_position, traits_of};
use backtrail_crash::traced::TracedPaths;
use backtrail_crash::unit_plan::UnitMeaning;
use backtrail_crash::{Frame, Frames, Known, Recovered};
use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::frames::{
    CodeKind, CodeRun, FrameTable, FunctionCode, RecordPlace, UnitFrames,
};
use backtrail_plan::{Action, FrameRecord, LeftOut, Place, Probe, RecordAction};
use backtrail_testkit::random_unit::{self, Size};
use proptest::prelude::*;

/// Where the record is in the memory of a walk, and where code lies.
const RECORD: u64 = 0x1000;
const CODE: u64 = 0x40_0000;
/// Where the code of probes lies.
const PROBES: u64 = 0x50_0000;

/// One run of a function under both observers.
struct Walk<'a> {
    unit: &'a Unit,
    function: &'a Function,
    frames: &'a Frames,
    probes: &'a [Probe],
    /// The number of the piece that each instruction is of.
    pieces: &'a [u32],
    record: Option<FrameRecord>,
    ended: u32,
    has_returns: bool,
    /// The pieces whose records are for the piece behind.
    early: Vec<bool>,
    rng: fastrand::Rng,
    /// The record, with whatever was in memory before.
    words: RefCell<Vec<u64>>,
    /// The blocks that were entered, and since when the way is known.
    walked: Vec<Block>,
    lost_before: usize,
    seen: Seen,
}

/// What was checked, so that it is not nothing.
#[derive(Debug, Default, Clone, Copy)]
struct Seen {
    exact: usize,
    inferred: usize,
    unknown: usize,
    complete: usize,
    older: usize,
    early: usize,
    /// Edges that are free, in functions that were walked.
    free: usize,
    /// Frames that were interrupted where a record was about to be shifted.
    interrupted: usize,
}

impl Walk<'_> {
    fn probe(&mut self, at: Place) {
        for probe in self.probes.iter().filter(|probe| probe.at == at) {
            let Action::Record(action) = probe.action else { panic!("only records are kept") };
            assert!(self.record.is_some(), "a probe changes a record");
            let words = &mut self.words.borrow_mut()[..];
            let mut add = |number: i32| words[0] = words[0].wrapping_add_signed(number.into());
            match action {
                RecordAction::Begin(sum) => words[0] = i64::from(sum).cast_unsigned(),
                RecordAction::Add(number) => add(number),
                RecordAction::End { add: number, bits, next } => {
                    add(number);
                    for word in (1..words.len()).rev() {
                        words[word] = words[word] << bits | words[word - 1] >> (64 - bits);
                    }
                    words[0] <<= bits;
                    words[0] = words[0].wrapping_add_signed(next.into());
                }
                RecordAction::ClearMarks | RecordAction::Mark { .. } => {
                    panic!("only paths are traced")
                }
            }
        }
    }

    /// What the record says at an address.
    fn recover(&self, address: u64) -> Recovered {
        let memory = |at: u64, bytes: &mut [u8]| {
            let word = ((at - RECORD) / record::WORD_BYTES) as usize;
            bytes.copy_from_slice(&self.words.borrow()[word].to_le_bytes());
            true
        };
        let frame = Frame {
            address,
            is_call: false,
            frame_address: RECORD + 64,
            register: &|_| None,
            memory: &memory,
        };
        self.frames.recover(&frame).expect("the function is known")
    }

    /// Compares what the record says where a block begins, before its probe has changed
    /// the first word, with the walk, which has entered the block. The other words are
    /// about to be shifted.
    fn check_interrupted(&mut self, block: Block) {
        let at = |probe: &Probe| probe.at == Place::Block(block);
        if !self.probes.iter().any(at) {
            return;
        }
        let first = self.function.blocks[block].insts().next().expect("a block is not empty");
        let words = self.words.borrow().clone();
        self.words.borrow_mut().iter_mut().skip(1).for_each(|word| *word = self.rng.u64(..));
        let found = self.recover(PROBES + u64::from(self.pieces[first.position()]));
        *self.words.borrow_mut() = words;
        if found.known == Known::No {
            return;
        }
        let older = found.older.iter().rev().flat_map(|path| path.blocks.clone());
        let way: Vec<Block> = older.chain(found.path).collect();
        let known = &self.walked[self.lost_before..];
        assert!(known.ends_with(&way), "{way:?} does not end {known:?}");
        self.seen.interrupted += 1;
    }

    /// Compares what the record says at `inst` with the walk.
    fn check(&mut self, block: Block, inst: Inst) {
        let found = self.recover(CODE + u64::from(self.pieces[inst.position()]));
        assert_eq!(found.block, Some(block));
        let mut way: Vec<Block> =
            found.older.iter().rev().flat_map(|path| path.blocks.clone()).collect();
        way.extend(&found.path);
        match found.known {
            Known::Exact => self.seen.exact += 1,
            Known::Inferred => self.seen.inferred += 1,
            Known::No => {
                self.seen.unknown += 1;
                return;
            }
        }
        let known = &self.walked[self.lost_before..];
        assert_eq!(found.note, None);
        if found.truncated {
            assert!(known.ends_with(&way), "{way:?} does not end {known:?}");
        } else {
            assert_eq!(self.lost_before, 0, "what is lost is not complete");
            assert_eq!(way, known);
            self.seen.complete += 1;
        }
        self.seen.older += found.older.len();
        let early = self.early[self.pieces[inst.position()] as usize];
        self.seen.early += usize::from(early);
        // So many were asked for, unless a second return cut them off, or one more
        // is about to end.
        let is_whole = !found.truncated || found.older.len() >= self.ended as usize;
        assert!(is_whole || self.has_returns || early, "{} of {}", found.older.len(), self.ended);
    }

    /// Walks one activation; it may be left anywhere.
    fn run(&mut self, steps: usize) {
        self.words.borrow_mut().fill_with(|| self.rng.u64(..));
        self.walked = vec![Block::new(0)];
        self.lost_before = 0;
        self.probe(Place::Entry);
        let (mut block, mut from) = (Block::new(0), 0);
        let mut returned: Option<(Block, Inst)> = None;
        let comes_back = has_call_that_returns_twice(self.unit, self.function);
        for _ in 0..steps {
            let data = &self.function.blocks[block];
            let insts: Vec<Inst> = data.insts().skip(from).collect();
            from = 0;
            for inst in insts {
                self.probe(Place::Before(inst));
                self.check(block, inst);
                if let Op::Call(call) = &self.function.insts[inst].op {
                    let traits = traits_of(self.unit, call);
                    let leaves = traits.no_return && !comes_back;
                    if leaves || is_in_tail_position(self.function, inst) || traits.no_return {
                        return;
                    }
                    if traits.returns_twice {
                        returned = Some((block, inst));
                    }
                }
                if inst != data.terminator() {
                    self.probe(Place::After(inst));
                }
            }
            if data.successors.is_empty() {
                return;
            }
            // The second return: the way since the last ended path is lost.
            if let Some((where_to, call)) = returned
                && self.rng.u8(..8) == 0
            {
                self.probe(Place::After(call));
                block = where_to;
                self.lost_before = self.walked.len();
                from = call.position() + 1 - self.function.blocks[block].first as usize;
                continue;
            }
            let to = data.successors[self.rng.usize(..data.successors.len())];
            self.probe(Place::Edge { from: block, to });
            self.walked.push(to);
            self.check_interrupted(to);
            self.probe(Place::Block(to));
            block = to;
        }
    }
}

/// The piece of each instruction, as compiled code tells it.
fn pieces(function: &Function, splits: &[Inst]) -> Vec<u32> {
    let mut pieces = vec![0; function.insts.len()];
    let mut next = 0;
    for data in function.blocks.values() {
        next += 1;
        for inst in data.insts() {
            next += u32::from(splits.contains(&inst));
            pieces[inst.position()] = next - 1;
        }
    }
    pieces
}

/// Walks `function` a few times, unless it cannot be traced.
fn check(unit: &Unit, function: Func, ended: u32, seed: u64) -> Result<Seen, LeftOut> {
    let paths = TracedPaths::new(unit, function, ended)?;
    let meaning = UnitMeaning { traced: vec![paths.meaning(function)], ..UnitMeaning::default() };
    let body = &unit.functions[function];
    let pieces = pieces(body, &paths.graph().splits());
    let run = |piece: u32| CodeRun { bytes: 1, kind: CodeKind::Piece(piece) };
    let probe = |piece: u32| CodeRun { bytes: 1, kind: CodeKind::Probe(piece) };
    let code = |start: u64, runs: Vec<CodeRun>| FunctionCode {
        unit: 0,
        function: function.position() as u32,
        start,
        record: Some(RecordPlace::FrameAddress(-64)),
        runs,
    };
    let count = pieces.iter().max().map_or(0, |last| last + 1);
    let table = FrameTable {
        units: vec![UnitFrames {
            unit: [7; 16],
            variant: 0,
            meaning: meaning.to_bytes(),
            covered: None,
        }],
        code: vec![
            code(CODE, (0..count).map(run).collect()),
            code(PROBES, (0..count).map(probe).collect()),
        ],
        ..FrameTable::default()
    };
    let frames = Frames::new(&table.to_bytes(), &|_| Some(unit.clone())).unwrap();
    let words = paths.record().map_or(0, |record| record.words);
    let mut walk = Walk {
        unit,
        function: body,
        frames: &frames,
        probes: &paths.probes(),
        pieces: &pieces,
        record: paths.record(),
        ended,
        has_returns: has_call_that_returns_twice(unit, body),
        early: (0..count as usize).map(|it| paths.is_early(Index::new(it))).collect(),
        rng: fastrand::Rng::with_seed(seed),
        words: RefCell::new(vec![0; words as usize]),
        walked: Vec::new(),
        lost_before: 0,
        seen: Seen { free: meaning.traced[0].free.len(), ..Seen::default() },
    };
    for _ in 0..4 {
        walk.run(40);
    }
    Ok(walk.seen)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..Default::default() })]

    #[test]
    fn a_record_tells_the_way_at_every_instruction(
        seed in any::<u64>(), ended in 1u32..=100, insts in 0usize..=3,
    ) {
        let unit = random_unit::unit(seed, Size { functions: 4, blocks: 12, insts });
        for function in unit.functions.indices() {
            let _ = check(&unit, function, ended, seed);
        }
    }
}

#[test]
fn the_walks_see_what_they_should() {
    let mut total = Seen::default();
    for seed in 0..60 {
        let unit = random_unit::unit(seed, Size { functions: 4, blocks: 12, insts: 3 });
        for function in unit.functions.indices() {
            let Ok(seen) = check(&unit, function, 4, seed) else { continue };
            total.exact += seen.exact;
            total.inferred += seen.inferred;
            total.unknown += seen.unknown;
            total.complete += seen.complete;
            total.older += seen.older;
            total.free += seen.free;
            total.interrupted += seen.interrupted;
        }
    }
    assert!(total.exact > 5_000 && total.complete > 1_000 && total.older > 5_000, "{total:?}");
    assert!(total.unknown * 20 < total.exact, "{total:?}");
    assert!(total.free > 8 && total.interrupted > 20, "{total:?}");
}

#[test]
fn records_that_are_early_tell_the_way() {
    // Nothing goes wrong in blocks that only jump.
    let mut early = 0;
    for seed in 0..3_000 {
        let unit = random_unit::unit(seed, Size { functions: 4, blocks: 14, insts: 0 });
        for function in unit.functions.indices() {
            let Ok(paths) = TracedPaths::new(&unit, function, 4) else { continue };
            let count = paths.graph().whole.pieces.len();
            if (0..count).any(|piece| paths.is_early(Index::new(piece))) {
                early += (0..8)
                    .flat_map(|walk| check(&unit, function, 4, walk))
                    .map(|it| it.early)
                    .sum::<usize>();
            }
        }
    }
    assert!(early > 200, "{early}");
}

#[test]
fn early_blocks_one_after_another() {
    let seed = 5_303_103_954_344_167_332;
    let unit = random_unit::unit(seed, Size { functions: 4, blocks: 12, insts: 0 });
    for function in unit.functions.indices() {
        let _ = check(&unit, function, 25, seed);
    }
}

#[test]
fn a_meaning_that_names_what_is_not_there_is_refused() {
    let mut refused = [0; 5];
    for seed in 0..200 {
        let unit = random_unit::unit(seed, Size { functions: 4, blocks: 8, insts: 2 });
        for function in unit.functions.indices() {
            let Ok(paths) = TracedPaths::new(&unit, function, 4) else { continue };
            let meaning = paths.meaning(function);
            assert!(TracedPaths::with_meaning(&unit, &meaning).is_some(), "{seed} {function}");
            let (pieces, edges) =
                (paths.graph().flow.node_count(), paths.graph().flow.edge_count());
            for beyond in [0, 1, 1 << 20] {
                let (piece, edge) = ((pieces + beyond) as u32, (edges + beyond) as u32);
                let mut damaged = [(); 5].map(|()| meaning.clone());
                damaged[0].early.push(piece);
                damaged[1].heads.push(piece);
                damaged[2].inner.push(edge);
                damaged[3].free.push(edge);
                damaged[4].function = (unit.functions.len() + beyond) as u32;
                for (refused, meaning) in refused.iter_mut().zip(&damaged) {
                    let is_there = TracedPaths::with_meaning(&unit, meaning).is_some();
                    assert!(!is_there, "{seed} {function} {beyond}: {meaning:?}");
                    *refused += 1;
                }
            }
        }
    }
    assert!(refused[0] > 500, "{refused:?}");
}
