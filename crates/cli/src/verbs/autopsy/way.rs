//! The way a frame came, out of what its activation recorded.

use backtrail_crash::{self as crash, Known};
use backtrail_graph::Index as _;
use backtrail_ir::{Block, Func, Inst, Op, Unit};
use backtrail_report::autopsy::{Older, Step, Way};

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
    let lines = lines_until(unit, function, block, reached);
    let at = line.and_then(|line| lines.iter().rposition(|(_, it)| *it == line));
    at.map_or(lines.len(), |at| at + 1)
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
    lines_until(unit, function, block, None)
}

/// The lines of a block up to an instruction.
fn lines_until(
    unit: &Unit,
    function: Func,
    block: Block,
    last: Option<Inst>,
) -> Vec<(String, u32)> {
    let body = &unit.functions[function];
    let mut lines: Vec<(String, u32)> = Vec::new();
    let insts = body.blocks[block].insts();
    for inst in insts.take_while(|&inst| last.is_none_or(|last| inst <= last)) {
        let Some(location) = body.insts[inst].location else { continue };
        let location = &unit.locations[location];
        let file = &unit.files[location.file];
        if location.line > 0
            && lines.last().is_none_or(|(it, line)| it != file || *line != location.line)
        {
            lines.push((file.clone(), location.line));
        }
    }
    lines
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
        let lines = lines(unit, function, block);
        steps.push(Step { block: format!("b{}", block.position()), lines, decision });
    }
    steps
}
