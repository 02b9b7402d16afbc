//! The graph whose paths are traced: that whose paths are counted
//! ([`FunctionGraph`]), less what a crash does not need.
//!
//! - Computed gotos with the same targets are one node. A path that ends at a
//!   jump says by its end which jump that was; the next path need not say it
//!   again. In an interpreter every path then begins with the same sum.
//! - Blocks in which nothing can go wrong, and which lead nowhere but to a
//!   return, are left out: no crash happens there, and nothing follows.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::{Digraph, Edge, Index};
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::LeftOut;
use backtrail_profile::function_graph::{Begin, FunctionGraph, Joint, Leave, Piece};

use crate::frequency::guess_frequencies;

/// The graph of a function.
#[derive(Debug, Clone)]
pub struct TraceGraph {
    /// All pieces, and the edges between them.
    pub whole: FunctionGraph,
    /// The graph that is traced, with the same nodes.
    pub flow: Digraph<Piece>,
    /// The edge of `whole` that each of its edges is.
    origins: Vec<Edge>,
    /// The node that stands for each piece.
    stands_for: Vec<Piece>,
    /// The pieces that were left out since nothing goes wrong in them.
    harmless: Vec<bool>,
}

impl TraceGraph {
    /// The graph of `function`, or why it cannot be traced.
    pub fn new(unit: &Unit, function: Func) -> Result<Self, LeftOut> {
        let whole = FunctionGraph::new(unit, function)?;
        let harmless = harmless_pieces(&unit.functions[function], &whole);
        let stands_for = merge_jumps(&whole);
        let mut ends = Vec::new();
        let mut origins = Vec::new();
        for edge in whole.flow.edges() {
            let (from, to) = (whole.flow.source(edge), whole.flow.target(edge));
            let is_merged = stands_for[from.position()] != from;
            if is_merged || harmless[to.position()] || harmless[from.position()] {
                continue;
            }
            ends.push((from, stands_for[to.position()]));
            origins.push(edge);
        }
        let flow = Digraph::new(whole.pieces.len(), ends);
        Ok(Self { whole, flow, origins, stands_for, harmless })
    }

    /// Where the function begins.
    pub fn entry(&self) -> Piece {
        self.whole.entry()
    }

    /// What joins the pieces of an edge of `flow`.
    pub fn joint(&self, edge: Edge) -> Joint {
        self.whole.joint(self.origins[edge.position()])
    }

    /// How many instructions it takes, by experience, to have a place on an edge: a
    /// jump and a copy if it leaves a block that others leave, too, for one that
    /// others lead to.
    pub fn split_cost(&self, edge: Edge) -> u64 {
        let (from, to) = (self.flow.source(edge), self.flow.target(edge));
        let is_critical = self.joint(edge) == Joint::Edge
            && self.whole.flow.out_edges(from).len() > 1
            && self.whole.flow.in_edges(to).len() > 1;
        if is_critical { 2 } else { 0 }
    }

    /// The node that stands for a piece.
    pub fn node(&self, piece: Piece) -> Option<Piece> {
        self.stands_for.get(piece.position()).copied()
    }

    /// Whether a piece was left out since nothing goes wrong in it.
    pub fn is_harmless(&self, piece: Piece) -> bool {
        self.harmless.get(piece.position()).copied().unwrap_or(false)
    }

    /// The pieces that lead to a piece, in the whole graph.
    pub fn before(&self, piece: Piece) -> impl Iterator<Item = Piece> {
        self.whole.flow.in_edges(piece).iter().map(|&edge| self.whole.flow.source(edge))
    }

    /// The block that is entered with a piece, if one is.
    pub fn entered(&self, piece: Piece) -> Option<Block> {
        let data = self.whole.pieces[piece];
        (data.begin == Begin::Block).then_some(data.block)
    }

    /// The edges at which paths must end.
    pub fn forced_cuts(&self) -> BTreeSet<Edge> {
        let is_forced = |edge: &Edge| matches!(self.joint(*edge), Joint::Jump(_) | Joint::Twice(_));
        self.flow.edges().filter(is_forced).collect()
    }

    /// The edges that have no place for code.
    pub fn computed(&self) -> BTreeSet<Edge> {
        self.flow.edges().filter(|edge| self.joint(*edge) == Joint::Computed).collect()
    }

    /// How often each edge of `flow` is thought to be taken.
    pub fn guess_frequencies(&self, function: &Function) -> Vec<u64> {
        let guesses = guess_frequencies(function, &self.whole);
        self.origins.iter().map(|edge| guesses[edge.position()]).collect()
    }

    /// The instructions with which pieces begin within their blocks.
    pub fn splits(&self) -> Vec<Inst> {
        let splits = self.whole.joints.iter().filter_map(|joint| match *joint {
            // Before both the path has ended, and the next has begun.
            Joint::Jump(inst) | Joint::Twice(inst) => Some(inst),
            Joint::Edge | Joint::Computed => None,
        });
        splits.collect::<BTreeSet<Inst>>().into_iter().collect()
    }
}

/// For each piece the one that stands for it: of computed gotos with the same
/// targets the first.
fn merge_jumps(graph: &FunctionGraph) -> Vec<Piece> {
    let mut first: BTreeMap<Vec<Piece>, Piece> = BTreeMap::new();
    let stands_for = |(piece, data): (Piece, &backtrail_profile::function_graph::PieceData)| {
        if data.begin != Begin::Jump {
            return piece;
        }
        *first.entry(graph.flow.successors(piece).collect()).or_insert(piece)
    };
    graph.pieces.iter().map(stands_for).collect()
}

/// Pieces from which the function returns without anything that can fail.
fn harmless_pieces(function: &Function, graph: &FunctionGraph) -> Vec<bool> {
    let mut harmless = vec![false; graph.pieces.len()];
    let search = backtrail_graph::DepthFirst::new(&graph.flow, graph.entry());
    for &piece in search.postorder() {
        let data = graph.pieces[piece];
        let ends_well = match data.leave {
            Some(Leave::Function(inst)) => matches!(function.insts[inst].op, Op::Return),
            Some(Leave::Call(_)) => false,
            // In postorder what is not yet known is a loop's head.
            None => graph.flow.successors(piece).all(|next| harmless[next.position()]),
        };
        harmless[piece.position()] = piece != graph.entry()
            && data.begin == Begin::Block
            && ends_well
            && graph.flow.in_edges(piece).iter().all(|&edge| graph.joint(edge) == Joint::Edge)
            && function.blocks[data.block].insts().all(|it| is_quiet(&function.insts[it].op));
    }
    harmless
}

/// Whether nothing can go wrong in an instruction.
pub(crate) fn is_quiet(op: &Op) -> bool {
    match op {
        Op::Phi { .. } | Op::Select | Op::Compare | Op::Address { .. } => true,
        Op::Return | Op::Jump | Op::Branch => true,
        Op::Compute { .. } => !is_division(op),
        _ => false,
    }
}

/// Whether an instruction is a division of integers.
pub(crate) fn is_division(op: &Op) -> bool {
    matches!(op, Op::Compute { opcode } if DIVISIONS.contains(opcode))
}

/// LLVM's C API opcode numbers of what can fail by itself: `udiv`, `sdiv`,
/// `urem`, `srem`.
const DIVISIONS: [u16; 4] = [14, 15, 17, 18];
