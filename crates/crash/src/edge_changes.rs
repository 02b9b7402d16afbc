//! What is done to the record on each edge, done at once where that is cheaper.
//!
//! Before a loop there often is a block in which nothing can go wrong: it is
//! entered by an edge that changes the record, and left by one that does. Both
//! changes can be made when it is entered. Nobody looks at the record in between,
//! unless a signal does; such blocks are *early*, and a record that is read there is
//! one for the block behind.

use backtrail_graph::{Edge, Index};
use backtrail_ir::Function;
use backtrail_plan::RecordAction;
use backtrail_profile::function_graph::{Begin, Joint, Piece};

use crate::regions::Regions;
use crate::trace_graph::{TraceGraph, is_quiet};

/// A change of a record: it is shifted, or begun anew, and something is added.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Change {
    /// Whether it is begun anew.
    pub begins: bool,
    /// By how many bits it is shifted.
    pub bits: u32,
    /// What is added then.
    pub add: i32,
}

impl Change {
    /// This one and then another, if that can be done at once.
    fn then(self, next: Self) -> Option<Self> {
        if next.begins {
            return Some(next);
        }
        let bits = self.bits + next.bits;
        let add = i64::from(self.add).checked_mul(1i64.checked_shl(next.bits)?)?;
        let add = i32::try_from(add.checked_add(next.add.into())?).ok()?;
        let fits = next.bits < 31 && bits < u64::BITS;
        fits.then_some(Self { bits: if self.begins { 0 } else { bits }, add, ..self })
    }

    /// How many instructions it takes in a record of so many words.
    pub fn cost(self, words: u32) -> u64 {
        match (self.begins, self.bits) {
            (true, _) => 1,
            (false, 0) => u64::from(self.add != 0),
            (false, _) => u64::from(2 * words - 1) + u64::from(self.add != 0),
        }
    }

    /// The same for a probe; none if there is nothing to do.
    pub fn action(self) -> Option<RecordAction> {
        match self {
            Self { begins: true, add, .. } => Some(RecordAction::Begin(add)),
            Self { bits: 0, add: 0, .. } => None,
            Self { bits: 0, add, .. } => Some(RecordAction::Add(add)),
            Self { bits, add, .. } => Some(RecordAction::End { add: 0, bits, next: add }),
        }
    }
}

/// Whether the change on the edge out of a block could be made where the block is
/// entered: there is one such edge, and there is a place on all that lead to it.
pub fn may_be_early(graph: &TraceGraph, piece: Piece) -> bool {
    let plain = |edges: &[Edge]| edges.iter().all(|&it| graph.joint(it) == Joint::Edge);
    graph.whole.pieces[piece].begin == Begin::Block
        && piece != graph.entry()
        && graph.node(piece) == Some(piece)
        && graph.flow.out_edges(piece).len() == 1
        && graph.whole.flow.out_edges(piece).len() == 1
        && plain(graph.flow.out_edges(piece))
        && plain(graph.flow.in_edges(piece))
        && graph.flow.successors(piece).all(|next| next != piece)
}

/// The block that a record which is read at `piece` is for, and how many blocks
/// come before it; none if they go round.
pub fn read_as(graph: &TraceGraph, early: &[bool], piece: Piece) -> Option<(Piece, usize)> {
    let (mut here, mut count) = (piece, 0);
    while early.get(here.position()).copied()? {
        here = graph.flow.successors(here).next()?;
        count += 1;
        if count > early.len() {
            return None;
        }
    }
    Some((here, count))
}

/// Whether early blocks lead from behind `piece` to it.
fn leads_back(graph: &TraceGraph, early: &[bool], piece: Piece) -> bool {
    let next = graph.flow.successors(piece).next();
    let last = next.and_then(|next| read_as(graph, early, next));
    last.is_none_or(|(last, _)| last == piece)
}

/// Makes changes early where that is cheaper, and says at which blocks that is.
pub fn make_early(
    graph: &TraceGraph,
    body: &Function,
    regions: &Regions,
    changes: &mut [Change],
    weights: &[u64],
    words: u32,
) -> Vec<bool> {
    let mut early = vec![false; graph.flow.node_count()];
    let is_candidate = |&piece: &Piece| {
        let mut insts = body.blocks[graph.whole.block(piece)].insts();
        // Behind what is early, a head would still have to shift.
        let is_last = graph.flow.successors(piece).all(|next| !regions.is_shifting(next));
        may_be_early(graph, piece) && is_last && insts.all(|inst| is_quiet(&body.insts[inst].op))
    };
    let candidates: Vec<Piece> = graph.flow.nodes().filter(is_candidate).collect();
    // What is made early may be made earlier still, but not round a loop.
    for _ in 0..3 {
        for &piece in candidates.iter().rev() {
            let behind = graph.flow.out_edges(piece)[0];
            let change = changes[behind.position()];
            let is_done = early[piece.position()] || change == Change::default();
            if is_done || leads_back(graph, &early, piece) {
                continue;
            }
            let into = graph.flow.in_edges(piece);
            // Behind an early block nothing may be left to do.
            if into.iter().any(|&edge| early[graph.flow.source(edge).position()]) {
                continue;
            }
            let merged: Option<Vec<Change>> =
                into.iter().map(|edge| changes[edge.position()].then(change)).collect();
            let Some(merged) = merged else { continue };
            let price = |edge: Edge, change: Change| match change.cost(words) {
                0 => 0,
                cost => {
                    let cost = u128::from(cost + graph.split_cost(edge));
                    u128::from(weights[edge.position()].max(1)) * cost
                }
            };
            let before = into.iter().map(|&edge| price(edge, changes[edge.position()]));
            let before = before.sum::<u128>() + price(behind, change);
            let after = into.iter().zip(&merged).map(|(&edge, &change)| price(edge, change));
            if after.sum::<u128>() >= before {
                continue;
            }
            for (edge, change) in into.iter().zip(merged) {
                changes[edge.position()] = change;
            }
            changes[behind.position()] = Change::default();
            early[piece.position()] = true;
        }
    }
    early
}
