//! How often each edge of a function is taken, guessed from its shape.
//!
//! Used where no profile is at hand, to put probes where they cost least. A
//! wrong guess costs time, never exactness. In the manner of Ball and Larus,
//! *Branch Prediction for Free*, PLDI 1993, much reduced: flow goes down the
//! graph without its retreating edges, is multiplied at loop heads, prefers to
//! stay within a loop, and avoids exceptions and what ends in a call that does
//! not return.

use backtrail_graph::{Components, DepthFirst, Digraph, EdgeKind, Index};
use backtrail_ir::Function;

use crate::function_graph::{FunctionGraph, Leave, Piece};

/// How often a loop is thought to run.
const LOOP: f64 = 8.0;
/// The share of an edge out of a loop against one that stays, and of an edge to
/// where the program ends or unwinds against any other.
const OUT: f64 = 0.2;
const COLD: f64 = 0.002;
/// What is entered once counts this much, so that rare edges differ, too.
pub const GUESSED_ENTRIES: u64 = 65536;

/// A guess for each edge of `graph`, by number; an edge that is reached is at
/// least 1.
pub fn guess_frequencies(function: &Function, graph: &FunctionGraph) -> Vec<u64> {
    let flow = &graph.flow;
    let components = Components::new(flow);
    let leaves_loop = |from: Piece, to: Piece| {
        is_in_loop(flow, &components, from) && components.of(from) != components.of(to)
    };
    let search = DepthFirst::new(flow, graph.entry());
    guess_with(function, graph, &search, OUT, &leaves_loop)
}

/// The same by another notion of loops: `leaves_loop` says of an edge's ends whether
/// it leaves one, and has then the share `out`. `search` is from the entry.
pub fn guess_with(
    function: &Function,
    graph: &FunctionGraph,
    search: &DepthFirst<Piece>,
    out: f64,
    leaves_loop: &dyn Fn(Piece, Piece) -> bool,
) -> Vec<u64> {
    let flow = &graph.flow;
    let cold = cold_pieces(function, graph, search.postorder());
    let mut arriving = vec![0.0f64; flow.node_count()];
    let mut guesses = vec![0u64; flow.edge_count()];
    arriving[graph.entry().position()] = 1.0;
    // A retreating edge's target is a loop head.
    let mut is_head = vec![false; flow.node_count()];
    for edge in flow.edges().filter(|&edge| search.kind(edge) == EdgeKind::Retreating) {
        is_head[flow.target(edge).position()] = true;
    }
    for &piece in search.postorder().iter().rev() {
        let here = arriving[piece.position()] * if is_head[piece.position()] { LOOP } else { 1.0 };
        let share = |target: Piece| {
            let stays = if leaves_loop(piece, target) { out } else { 1.0 };
            stays * if cold[target.position()] { COLD } else { 1.0 }
        };
        let edges = flow.out_edges(piece);
        let total: f64 = edges.iter().map(|&edge| share(flow.target(edge))).sum();
        for &edge in edges {
            let target = flow.target(edge);
            let taken = here * share(target) / total;
            guesses[edge.position()] = ((taken * GUESSED_ENTRIES as f64) as u64).clamp(1, 1 << 50);
            if search.kind(edge) != EdgeKind::Retreating {
                arriving[target.position()] += taken;
            }
        }
    }
    guesses
}

fn is_in_loop(flow: &Digraph<Piece>, components: &Components<Piece>, piece: Piece) -> bool {
    flow.successors(piece).any(|next| components.of(next) == components.of(piece))
}

/// Pieces from which every way ends in a call that does not return, or that
/// exceptions lead to.
fn cold_pieces(function: &Function, graph: &FunctionGraph, postorder: &[Piece]) -> Vec<bool> {
    let mut cold = vec![false; graph.flow.node_count()];
    for &piece in postorder {
        let data = graph.pieces[piece];
        let is_pad = function.blocks[data.block].landing_pad;
        let dead_end = match data.leave {
            Some(Leave::Call(_)) => true,
            Some(Leave::Function(inst)) => {
                matches!(function.insts[inst].op, backtrail_ir::Op::Unreachable)
            }
            None => graph.flow.successors(piece).all(|next| cold[next.position()]),
        };
        cold[piece.position()] = is_pad || dead_end;
    }
    cold
}
