//! Coverage against the walks themselves: random functions are walked at random by
//! several activations, some of which are stopped anywhere, and what bytes and
//! marks tell must be what was walked.
//!
//! The slow twin is the list of what each activation entered and called. Functions
//! include irreducible ones, computed gotos, and calls that return twice, never, or
//! not to whoever made them. `BACKTRAIL_WALKS` sets how many units are tried.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::Leaving;
use backtrail_analysis::calls::is_call;
use backtrail_analysis::calls::traits_of;
use backtrail_crash::covered::Covered;
use backtrail_crash::evidence::{
    Activation, Coverage, Evidence, Position, Seen, Stack, StackFrame,
};
use backtrail_crash::placement::Wanted;
use backtrail_crash::points::Points;
use backtrail_crash::unit_plan::UnitMeaning;
use backtrail_crash::{Frame, Frames};
use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::frames::{
    CodeKind, CodeRun, FrameTable, FunctionCode, RecordPlace, UnitFrames,
};
use backtrail_plan::{Action, Place, Probe, RecordAction};
use backtrail_testkit::random_unit::{self, Size};

const CODE: u64 = 0x40_0000;
const BYTES: u64 = 0x60_0000;
const STACK: u64 = 0x70_0000;
const FRAME: u64 = 0x1000;
const UNIT: [u8; 16] = [7; 16];

/// Where a walk stops.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stop {
    /// Over: it returned or was left.
    Over,
    /// Before its marks are cleared.
    Entering,
    /// At an instruction of this point; at its call, if it is one under way.
    At { point: usize, call: bool },
    /// Among the probes that follow this point.
    Probing { point: usize },
}

/// What an activation did.
#[derive(Debug, Default, Clone)]
struct Walked {
    blocks: BTreeSet<Block>,
    calls: BTreeSet<Inst>,
    /// What it came to while it was among the probes of that.
    open: (Option<Block>, Option<Inst>),
}

struct Program<'a> {
    unit: &'a Unit,
    body: &'a Function,
    probes: Vec<Probe>,
    leaving: Option<BTreeSet<Inst>>,
    /// The point of each instruction.
    point_of: Vec<usize>,
    bytes: RefCell<Vec<u8>>,
}

struct Walk<'a> {
    program: &'a Program<'a>,
    marks: Vec<u8>,
    walked: Walked,
    /// So many steps are left.
    left: usize,
}

impl Walk<'_> {
    /// Carries out the probes of a place; stops among them if steps run out.
    fn probe(&mut self, at: Place) -> Option<()> {
        for probe in self.program.probes.iter().filter(|probe| probe.at == at) {
            self.step()?;
            match probe.action {
                Action::Cover { byte } => self.program.bytes.borrow_mut()[byte as usize] = 1,
                Action::Record(RecordAction::ClearMarks) => self.marks.fill(0),
                Action::Record(RecordAction::Mark { byte, bits, alone }) => {
                    let mark = &mut self.marks[byte as usize];
                    *mark = if alone { bits } else { *mark | bits };
                }
                _ => panic!("only coverage is planned"),
            }
        }
        Some(())
    }

    fn step(&mut self) -> Option<()> {
        self.left = self.left.checked_sub(1)?;
        Some(())
    }

    fn run(&mut self, rng: &mut fastrand::Rng) -> Stop {
        let program = self.program;
        let (mut block, mut skip) = (Block::new(0), 0);
        self.walked.open.0 = Some(block);
        if self.probe(Place::Entry).is_none() {
            return Stop::Entering;
        }
        let mut twice: Option<(Block, usize)> = None;
        let mut last = 0;
        loop {
            let data = &program.body.blocks[block];
            if skip == 0 {
                self.walked.open.0 = Some(block);
                if self.probe(Place::Block(block)).is_none() {
                    return Stop::Probing { point: last };
                }
                self.walked.open.0 = None;
                self.walked.blocks.insert(block);
            }
            let begins = data.first as usize;
            for inst in data.insts().skip(skip) {
                let op = &program.body.insts[inst].op;
                let point = program.point_of[inst.position()];
                let before = if is_call(op) { point - 1 } else { point };
                self.walked.open.1 = is_call(op).then_some(inst);
                if self.probe(Place::Before(inst)).is_none() {
                    return Stop::Probing { point: before };
                }
                self.walked.open.1 = None;
                last = point;
                if is_call(op) {
                    self.walked.calls.insert(inst);
                }
                if self.step().is_none() {
                    return Stop::At { point, call: is_call(op) };
                }
                // Whoever may be left may be so at any time.
                let may_leave = match &program.leaving {
                    None => true,
                    Some(calls) => calls.contains(&inst),
                };
                if may_leave && rng.u8(..8) == 0 {
                    return Stop::Over;
                }
                let Some(call) = op.call() else { continue };
                let traits = traits_of(program.unit, call);
                if traits.returns_twice {
                    twice = Some((block, inst.position() + 1 - begins));
                }
                if stays(program.unit, op) {
                    match twice {
                        Some(_) if rng.bool() => break,
                        _ => return Stop::At { point, call: is_call(op) },
                    }
                }
            }
            if let Some((back, from)) = twice
                && (rng.u8(..6) == 0 || !leads_on(program, block))
            {
                (block, skip) = (back, from);
                if from < program.body.blocks[back].insts().len() {
                    continue;
                }
            }
            // Where the call that returns again ends its block, that ends once more.
            let data = &program.body.blocks[block];
            match program.body.insts[data.terminator()].op {
                Op::Return | Op::Resume => return Stop::Over,
                _ if data.successors.is_empty() => return Stop::At { point: last, call: false },
                _ => {}
            }
            block = data.successors[rng.usize(..data.successors.len())];
            skip = 0;
        }
    }
}

/// Whether the end of a block can be reached.
fn leads_on(program: &Program<'_>, block: Block) -> bool {
    let mut insts = program.body.blocks[block].insts();
    !insts.any(|inst| stays(program.unit, &program.body.insts[inst].op))
}

/// Whether an instruction is a call that never returns.
fn stays(unit: &Unit, op: &Op) -> bool {
    let traits = op.call().map(|call| traits_of(unit, call)).unwrap_or_default();
    traits.no_return && !traits.returns_twice && matches!(op, Op::Call(_))
}

/// What was checked, so that it is not nothing.
#[derive(Debug, Default)]
struct Told {
    yes: usize,
    no: usize,
    unknown: usize,
    probes: usize,
    points: usize,
}

/// Compares what is told with what was walked; `must_know` is what was asked for.
fn compare(
    told: &Coverage,
    walked: &[&Walked],
    body: &Function,
    must: (bool, bool),
    counts: &mut Told,
) -> Result<(), String> {
    let mut check = |what: String, seen: Seen, was: bool, open: bool, must: bool| {
        match seen {
            Seen::Yes => counts.yes += 1,
            Seen::No => counts.no += 1,
            Seen::Unknown => counts.unknown += 1,
        }
        let wrong = match seen {
            Seen::Yes => !was && !open,
            Seen::No => was,
            Seen::Unknown => must && !open,
        };
        if wrong { Err(format!("{what} is {seen:?}, was {was}")) } else { Ok(()) }
    };
    for block in body.blocks.indices() {
        let was = walked.iter().any(|it| it.blocks.contains(&block));
        let open = walked.iter().any(|it| it.open.0 == Some(block));
        check(format!("{block}"), told.block(block), was, open, must.0)?;
    }
    for (inst, _) in body.insts.iter().filter(|(_, it)| is_call(&it.op)) {
        let was = walked.iter().any(|it| it.calls.contains(&inst));
        let open = walked.iter().any(|it| it.open.1 == Some(inst));
        check(format!("{inst}"), told.call(inst), was, open, must.1)?;
    }
    Ok(())
}

fn check(unit: &Unit, function: Func, rng: &mut fastrand::Rng, counts: &mut Told) {
    let body = &unit.functions[function];
    let wanted = Wanted { entered: rng.bool(), calls: rng.bool(), blocks: rng.bool() };
    let calls = body.insts.iter().filter(|(_, it)| is_call(&it.op)).map(|(inst, _)| inst);
    let leaving: Option<BTreeSet<Inst>> = match rng.u8(..6) {
        0 => None,
        often => Some(calls.filter(|_| rng.u8(..6) < often - 1).collect()),
    };
    let chosen = match &leaving {
        None => Leaving::Everywhere,
        Some(calls) => Leaving::Calls(calls),
    };
    let Ok(covered) = Covered::new(unit, function, wanted, chosen) else { return };
    let points = covered.points();
    let mut point_of = vec![0; body.insts.len()];
    let mut next = 0;
    for data in body.blocks.values() {
        next += 1;
        for inst in data.insts() {
            next += usize::from(points.splits().contains(&inst));
            point_of[inst.position()] = next - 1;
        }
    }
    assert_eq!(next, points.data.len());
    counts.points += next;
    counts.probes += covered.placement().anywhere.len() + covered.placement().here.len();
    // Each point has two addresses: its code, and the probes behind it.
    let mut runs = vec![CodeRun { bytes: 1, kind: CodeKind::Frame }];
    for point in 0..next as u32 {
        runs.push(CodeRun { bytes: 1, kind: CodeKind::Piece(point) });
        runs.push(CodeRun { bytes: 1, kind: CodeKind::Probe(point) });
    }
    let meaning = covered.meaning(function, 3);
    let meaning = UnitMeaning { covered: vec![meaning], ..UnitMeaning::default() };
    let number = function.position() as u32;
    let record = Some(RecordPlace::FrameAddress(-64));
    let code = FunctionCode { unit: 0, function: number, start: CODE, record, runs };
    let unit_frames =
        UnitFrames { unit: UNIT, variant: 0, meaning: meaning.to_bytes(), covered: Some(BYTES) };
    let table = FrameTable { units: vec![unit_frames], code: vec![code], ..FrameTable::default() };
    let frames = Frames::new(&table.to_bytes(), &|_| Some(unit.clone())).unwrap();

    let program = Program {
        unit,
        body,
        probes: covered.probes(3),
        leaving,
        point_of,
        bytes: RefCell::new(vec![0; 3 + covered.bytes() as usize]),
    };
    let mut stopped: Vec<(Stop, Walk<'_>)> = Vec::new();
    for _ in 0..rng.usize(1..5) {
        let marks = (0..covered.mark_words() * 8).map(|_| rng.u8(..)).collect();
        let left = if rng.bool() { rng.usize(..30) } else { 200 };
        let mut walk = Walk { program: &program, marks, walked: Walked::default(), left };
        let stop = walk.run(rng);
        stopped.push((stop, walk));
    }
    let live: Vec<&(Stop, Walk<'_>)> =
        stopped.iter().filter(|(stop, _)| *stop != Stop::Over).collect();
    let memory = |at: u64, bytes: &mut [u8]| {
        let (walk, offset) = ((at - STACK) / FRAME, (at - STACK) % FRAME);
        let marks = &live[walk as usize].1.marks;
        bytes.copy_from_slice(&marks[offset as usize..][..bytes.len()]);
        true
    };
    let mut evidence = Evidence::default();
    let mut asked = BTreeMap::new();
    let mut sharp = true;
    for (place, (stop, _)) in live.iter().enumerate() {
        let (address, is_call) = match *stop {
            Stop::Over => continue,
            Stop::Entering => (CODE, false),
            Stop::At { point, call } => (CODE + 1 + 2 * point as u64, call),
            Stop::Probing { point } => (CODE + 2 + 2 * point as u64, false),
        };
        // What is asked for is known if all are where something can happen.
        sharp &= is_sharp(*stop, points, body);
        let frame = Frame {
            address,
            is_call,
            frame_address: STACK + place as u64 * FRAME + 64,
            register: &|_| None,
            memory: &memory,
        };
        asked.insert((0, place), frame);
    }
    let activation = Activation {
        function: (UNIT, function),
        at: None,
        position: Position::Within,
        suffix: Vec::new(),
        complete: false,
        coverage: Coverage::default(),
    };
    let known = |_: &&(Stop, Walk<'_>)| StackFrame::Known(activation.clone());
    let mut stack =
        Stack { frames: live.iter().map(known).collect(), complete: true, ..Stack::default() };
    // Some frames may not be found.
    let lost = !live.is_empty() && rng.u8(..4) == 0;
    if lost {
        stack.frames.pop();
        stack.complete = false;
        asked.remove(&(0, live.len() - 1));
    }
    evidence.threads.push(stack);
    let bytes = |at: u64, bytes: &mut [u8]| {
        bytes.copy_from_slice(&program.bytes.borrow()[(at - BYTES) as usize..][..bytes.len()]);
        true
    };
    frames.add_coverage(&mut evidence, &asked, &bytes);

    let all: Vec<&Walked> = stopped.iter().map(|(_, walk)| &walk.walked).collect();
    let of_all = &evidence.functions[&(UNIT, function)];
    let must = |sharp: bool| (wanted.blocks && sharp, wanted.calls && sharp);
    let whole = must(sharp && !lost);
    let explain = |what: &str, why: String| {
        let stops: Vec<_> = stopped.iter().map(|(stop, walk)| (stop, &walk.walked)).collect();
        let mut graph = String::new();
        for (point, data) in points.data.iter() {
            let next: Vec<_> = points.flow.successors(point).collect();
            let end = points.ends[point.position()];
            graph += &format!("{point} {} {:?} end {end} -> {next:?}\n", data.block, data.first);
        }
        panic!("{what}: {why}\n{wanted:?} {:?}\n{stops:?}\n{graph}", covered.placement());
    };
    if let Err(why) = compare(&of_all.coverage, &all, body, whole, counts) {
        explain("all", why);
    }
    // One that is lost may have been about to set its first byte.
    let was = all.iter().any(|it| it.blocks.contains(&Block::new(0)));
    assert!(of_all.entered != Seen::No || !was, "it was entered");
    for (place, frame) in evidence.threads[0].frames.iter().enumerate() {
        let StackFrame::Known(activation) = frame else { continue };
        let (stop, walk) = live[place];
        let must = must(is_sharp(*stop, points, body));
        if let Err(why) = compare(&activation.coverage, &[&walk.walked], body, must, counts) {
            explain(&format!("{stop:?}"), why);
        }
    }
}

/// Whether a place says all that is asked for.
fn is_sharp(stop: Stop, points: &Points, body: &Function) -> bool {
    let Stop::At { point, call } = stop else { return stop == Stop::Over };
    let data = points.data[Index::new(point)];
    !data.quiet && (call || !Points::has_division(body, data.block))
}

#[test]
fn coverage_tells_what_was_walked() {
    let amount = std::env::var("BACKTRAIL_WALKS").ok().and_then(|it| it.parse().ok());
    let mut counts = Told::default();
    for seed in 0..amount.unwrap_or(1_500u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        let size = Size { functions: 4, blocks: rng.usize(1..16), insts: rng.usize(1..5) };
        let unit = random_unit::unit(seed, size);
        for function in unit.functions.indices() {
            check(&unit, function, &mut rng, &mut counts);
        }
    }
    println!("{counts:?}");
    assert!(counts.yes > 10_000 && counts.no > 10_000, "{counts:?}");
    assert!(counts.probes < counts.points, "{counts:?}");
}
