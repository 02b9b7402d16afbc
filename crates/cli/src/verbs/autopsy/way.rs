//! The way a frame came, out of what its activation recorded.

use backtrail_crash::{self as crash, Known};
use backtrail_graph::Index as _;
use backtrail_ir::{Block, Func, Inst, Loc, Op, Unit};
use backtrail_report::autopsy::{Line, Older, Step, Way};

use crate::own_code::{Owner, told_by};

/// How many of the lines of the block that a frame is in are not yet to come:
/// those up to the instruction `reached`, if that is known, and up to `line`, at
/// which the frame is.
pub fn lines_reached(
    unit: &Unit,
    function: Func,
    block: Block,
    reached: Option<Inst>,
    line: Option<u32>,
) -> usize {
    let places = places_until(unit, function, block, reached);
    let at =
        line.and_then(|line| places.iter().rposition(|&place| unit.locations[place].line == line));
    at.map_or(places.len(), |at| at + 1)
}

/// What was recovered, with lines.
pub fn way(unit: &Unit, found: &crash::Recovered, scheme: &str) -> Way {
    let known = match found.known {
        Known::Exact => "exact",
        Known::Inferred | Known::No => "inferred",
    };
    let mut older: Vec<Older> = Vec::new();
    for path in &found.older {
        let steps = steps(unit, found.function, &path.blocks);
        match older.last_mut() {
            Some(last) if last.steps == steps => last.times += 1,
            _ => older.push(Older { steps, times: 1 }),
        }
    }
    Way {
        scheme: scheme.to_owned(),
        known,
        path: steps(unit, found.function, &found.path),
        older,
        truncated: found.traced && found.truncated,
        note: found.note.map(str::to_owned),
    }
}

/// The lines of a block, in order.
pub fn lines(unit: &Unit, function: Func, block: Block) -> Vec<(String, u32)> {
    let places = places_until(unit, function, block, None).into_iter();
    places.map(|place| line(unit, place)).collect()
}

/// The lines of a block by which it is told.
pub fn told_lines(unit: &Unit, function: Func, block: Block) -> Vec<(String, u32)> {
    let places = places_until(unit, function, block, None).into_iter();
    places.map(|place| line(unit, told_by(unit, place))).collect()
}

fn line(unit: &Unit, place: Loc) -> (String, u32) {
    let location = &unit.locations[place];
    (unit.files[location.file].clone(), location.line)
}

/// The places of a block up to an instruction, one of several of a line that are next to
/// each other and were inlined at the same place.
fn places_until(unit: &Unit, function: Func, block: Block, last: Option<Inst>) -> Vec<Loc> {
    let body = &unit.functions[function];
    let insts = body.blocks[block].insts();
    let insts = insts.take_while(|&inst| last.is_none_or(|last| inst <= last));
    let places = insts.filter_map(|inst| body.insts[inst].location);
    let mut places: Vec<Loc> = places.filter(|&place| unit.locations[place].line > 0).collect();
    places.dedup_by_key(|place| {
        let location = &unit.locations[*place];
        (location.file, location.line, location.inlined_at)
    });
    places
}

/// Blocks as steps: their lines, and what was decided at their end.
fn steps(unit: &Unit, function: Func, blocks: &[Block]) -> Vec<Step> {
    let body = &unit.functions[function];
    let mut steps = Vec::new();
    for (place, &block) in blocks.iter().enumerate() {
        let data = &body.blocks[block];
        let next = blocks.get(place + 1);
        let decision = match (&body.insts[data.terminator()].op, next) {
            (Op::Branch, Some(next)) if data.successors[..] != [*next, *next] => {
                Some(data.successors.first() == Some(next))
            }
            _ => None,
        };
        let lines = places_until(unit, function, block, None).into_iter();
        let lines = lines.map(|place| step_line(unit, place)).collect();
        steps.push(Step { block: format!("b{}", block.position()), lines, decision });
    }
    steps
}

fn step_line(unit: &Unit, place: Loc) -> Line {
    let (file, number) = line(unit, place);
    let teller = told_by(unit, place);
    let told = line(unit, teller);
    let own = Owner::of(&told.0) == Owner::User;
    Line { file, line: number, told_by: (teller != place).then_some(told), own }
}
