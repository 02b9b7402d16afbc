//! How often each edge of a function is taken, guessed from its shape.
//!
//! A wrong guess costs time, never exactness. As [`backtrail_profile::frequency`]
//! guesses, but with loops in loops: flow goes down the graph without its
//! retreating edges, is multiplied at loop heads, and prefers to stay within the
//! innermost loop, so that an inner loop is not thought to be left as soon as it is
//! entered. In the manner of Ball and Larus, *Branch Prediction for Free*, PLDI 1993.
//!
//! Loops are the strongly connected parts of the graph, and of each such part
//! without the edges to its head, and so on (Steensgaard, 1993). Cost: edges times
//! depth.

use backtrail_graph::{Components, DepthFirst, Digraph, Index};
use backtrail_ir::Function;
use backtrail_profile::frequency::guess_with;
use backtrail_profile::function_graph::{FunctionGraph, Piece};

pub use backtrail_profile::frequency::GUESSED_ENTRIES;

/// The share of an edge out of the innermost loop against one that stays.
const OUT: f64 = 0.14;
/// Deeper loops count as this deep.
const DEEPEST: usize = 12;

/// A guess for each edge of `graph`, by number; an edge that is reached is at
/// least 1.
pub fn guess_frequencies(function: &Function, graph: &FunctionGraph) -> Vec<u64> {
    let search = DepthFirst::new(&graph.flow, graph.entry());
    let loops = Loops::new(&graph.flow, &search);
    guess_with(function, graph, &search, OUT, &|from, to| loops.leaves(from, to))
}

/// The loops of a graph, each within another or none.
struct Loops {
    /// The innermost loop of each node.
    of: Vec<Option<usize>>,
    /// The loop around each.
    around: Vec<Option<usize>>,
}

impl Loops {
    fn new(flow: &Digraph<Piece>, search: &DepthFirst<Piece>) -> Self {
        let mut loops = Self { of: vec![None; flow.node_count()], around: Vec::new() };
        let ends = |edge| (flow.source(edge), flow.target(edge));
        let mut left: Vec<(Piece, Piece)> = flow.edges().map(ends).collect();
        left.retain(|(from, _)| search.is_reached(*from));
        for _ in 0..DEEPEST {
            let graph = Digraph::new(flow.node_count(), left.iter().copied());
            let parts = Components::new(&graph);
            left.retain(|(from, to)| parts.of(*from) == parts.of(*to));
            if left.is_empty() {
                break;
            }
            let mut heads = vec![None; parts.count()];
            for &(from, _) in &left {
                let part = parts.of(from);
                if heads[part.position()].is_some() {
                    continue;
                }
                let members = parts.members(part);
                // What was come to first.
                let first = |it: &Piece| search.preorder_number(*it);
                heads[part.position()] = members.iter().copied().min_by_key(first);
                loops.around.push(loops.of[from.position()]);
                for member in members {
                    loops.of[member.position()] = Some(loops.around.len() - 1);
                }
            }
            left.retain(|(_, to)| heads[parts.of(*to).position()] != Some(*to));
        }
        loops
    }

    /// Whether a way from one node to another leaves the innermost loop of the first.
    fn leaves(&self, from: Piece, to: Piece) -> bool {
        let Some(own) = self.of[from.position()] else { return false };
        let mut here = self.of[to.position()];
        while let Some(inner) = here.filter(|&it| it != own) {
            here = self.around[inner];
        }
        here.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(edges: &[(usize, usize)]) -> (Digraph<Piece>, DepthFirst<Piece>) {
        let count = edges.iter().map(|it| it.0.max(it.1) + 1).max().unwrap_or(1);
        let ends = edges.iter().map(|it| (Piece::new(it.0), Piece::new(it.1)));
        let flow = Digraph::new(count, ends);
        let search = DepthFirst::new(&flow, Piece::new(0));
        (flow, search)
    }

    #[test]
    fn a_loop_within_a_loop_is_left_for_the_outer_one() {
        // 1 { 2 { 3 } 4 } 5
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (3, 4), (4, 1), (4, 5)];
        let (flow, search) = pieces(&edges);
        let loops = Loops::new(&flow, &search);
        let leaves = |from, to| loops.leaves(Piece::new(from), Piece::new(to));
        assert!(!leaves(0, 1) && !leaves(1, 2) && !leaves(2, 3) && !leaves(3, 2));
        assert!(leaves(3, 4) && !leaves(4, 1) && leaves(4, 5));
        assert_eq!(loops.around.len(), 2);
    }

    #[test]
    fn what_is_no_loop_is_never_left() {
        let (flow, search) = pieces(&[(0, 1), (0, 2), (1, 3), (2, 3)]);
        let loops = Loops::new(&flow, &search);
        assert!(flow.edges().all(|edge| !loops.leaves(flow.source(edge), flow.target(edge))));
        assert!(loops.around.is_empty());
    }
}
