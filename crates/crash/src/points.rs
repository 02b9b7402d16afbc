//! The points of a function: what coverage is recorded of and told of.
//!
//! A block is divided before each of its calls. A point is reached when control
//! comes to its first instruction: the first point of a block when the block is
//! entered, any other when its call is begun. So whether a block or a call was
//! executed is whether its point was reached.
//!
//! An activation is a walk over points. It begins at the first. It ends at a
//! return, at a call that does not come back to this activation
//! ([`backtrail_analysis::leaving`]), or, if it is still alive, wherever it is. Calls
//! that never return, and leave nothing either (`abort`, `exit`), have no successor
//! and end no walk of an activation that is over: whoever made them is alive.
//!
//! A call that returns twice may do so from anywhere behind it; every point is
//! taken to lead to it. That allows more walks than there are, which makes less
//! certain and nothing wrong.
//!
//! Points are numbered as pieces of code are ([`backtrail_plan::block_lines`]), by
//! block and instruction.

use std::collections::BTreeSet;

use backtrail_analysis::Leaving;
use backtrail_analysis::calls::is_call;
use backtrail_analysis::calls::traits_of;
use backtrail_graph::{Digraph, Index, IndexMap, define_index};
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::{LeftOut, Place};

use crate::trace_graph::is_quiet;

define_index!(
    /// A point of a function.
    Point, "x"
);

/// A point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PointData {
    /// Its block.
    pub block: Block,
    /// Its first instruction, if it does not begin with its block.
    pub first: Option<Inst>,
    /// The call it begins with, if that counts as one.
    pub call: Option<Inst>,
    /// Whether nothing can go wrong in it.
    pub quiet: bool,
}

/// The points of a function and what may follow what.
#[derive(Debug, Clone)]
pub struct Points {
    /// The points.
    pub data: IndexMap<Point, PointData>,
    /// What may follow what.
    pub flow: Digraph<Point>,
    /// The first point of each block.
    pub first: Vec<Point>,
    /// Whether an activation that is over may have ended at a point.
    pub ends: Vec<bool>,
}

impl Points {
    /// The points of `function`, or why it cannot be covered.
    pub fn new(unit: &Unit, function: Func, leaving: Leaving<'_>) -> Result<Self, LeftOut> {
        let body = &unit.functions[function];
        let mut data = IndexMap::<Point, PointData>::new();
        let (mut first, mut last, mut within) = (Vec::new(), Vec::new(), Vec::new());
        let mut ends: Vec<bool> = Vec::new();
        let mut twice = Vec::new();
        for (block, content) in body.blocks.iter() {
            let start = PointData { block, first: None, call: None, quiet: true };
            let mut current = data.push(start);
            let mut here = Some(current);
            first.push(current);
            ends.push(false);
            for inst in content.insts() {
                let op = &body.insts[inst].op;
                if matches!(op, Op::OtherTerminator { .. }) {
                    return Err(LeftOut::Funclets);
                }
                let traits = op.call().map(|call| traits_of(unit, call)).unwrap_or_default();
                if splits(op) || traits.returns_twice {
                    let call = is_call(op).then_some(inst);
                    let next = PointData { block, first: Some(inst), call, quiet: true };
                    let next = data.push(next);
                    ends.push(false);
                    within.extend(here.map(|here| (here, next)));
                    here = here.map(|_| next);
                    current = next;
                    if traits.returns_twice {
                        twice.push(next);
                    }
                }
                data[current].quiet &= is_quiet(op);
                let leaves = match leaving {
                    Leaving::Calls(calls) => calls.contains(&inst),
                    Leaving::Everywhere => true,
                };
                ends[current.position()] |= leaves || matches!(op, Op::Return | Op::Resume);
                if traits.no_return && !traits.returns_twice && matches!(op, Op::Call(_)) {
                    here = None;
                }
            }
            last.push(here);
        }
        for (block, content) in body.blocks.iter() {
            let Some(from) = last[block.position()] else { continue };
            let targets: BTreeSet<Block> = content.successors.iter().copied().collect();
            within.extend(targets.into_iter().map(|to| (from, first[to.position()])));
        }
        for &to in &twice {
            within.extend(data.indices().map(|from| (from, to)));
        }
        let flow = Digraph::new(data.len(), within);
        Ok(Self { data, flow, first, ends })
    }

    /// Where the function begins.
    pub fn entry(&self) -> Point {
        Point::new(0)
    }

    /// Where a probe of a point goes.
    pub fn place(&self, point: Point) -> Place {
        match self.data[point].first {
            Some(inst) => Place::Before(inst),
            None => Place::Block(self.data[point].block),
        }
    }

    /// The points of a block.
    pub fn of_block(&self, block: Block) -> impl Iterator<Item = Point> {
        let behind =
            self.first.get(block.position() + 1).map_or(self.data.len(), |it| it.position());
        let from = self.first.get(block.position()).map_or(behind, |it| it.position());
        (from..behind).map(Point::new)
    }

    /// The instructions with which points begin within their blocks.
    pub fn splits(&self) -> Vec<Inst> {
        self.data.values().filter_map(|data| data.first).collect()
    }

    /// Whether a block has instructions that fail by themselves and that code
    /// generation may move past calls.
    pub fn has_division(function: &Function, block: Block) -> bool {
        let mut insts = function.blocks[block].insts();
        insts.any(|inst| crate::trace_graph::is_division(&function.insts[inst].op))
    }
}

/// Whether a point begins with an instruction, whatever else.
fn splits(op: &Op) -> bool {
    is_call(op) || matches!(op, Op::IndirectJump)
}
