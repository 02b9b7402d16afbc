//! The proof that every path of a function is counted by some copy.
//!
//! A copy counts the paths that are made of its interesting edges. So a path is
//! counted by none if and only if each copy lacks one of its edges. Going down
//! the graph from ENTRY, the copies that have had all edges so far are a set;
//! if the empty set arrives anywhere, the way there is the beginning of a path
//! that nobody counts (every node leads to EXIT).
//!
//! Several ways to a node may leave different sets. Of two, one within the
//! other, the larger need not be followed: what empties it empties the smaller.
//! The sets that are kept at a node are few (parts are made of whole regions of
//! the graph); if there are more than `MOST_SETS`, no answer is given.
//!
//! Cost O(edges · sets²).

use backtrail_graph::{Index, PathDag};

use crate::partition::interest::Interest;

/// The most sets of copies that are kept at a node.
const MOST_SETS: usize = 256;

/// Whether every path of `dag` is counted by one of at most 64 copies, given
/// what each counts; `None` if that would take too long to find out.
pub fn covers_every_path(dag: &PathDag, copies: &[Option<&Interest>]) -> Option<bool> {
    if copies.iter().any(|it| matches!(it, Some(Interest::Whole))) {
        return Some(true);
    }
    let graph = dag.graph();
    let mut having = vec![0u64; graph.edge_count()];
    let mut all = 0u64;
    for (copy, interest) in copies.iter().enumerate() {
        let Some(Interest::Part(selection)) = interest else { continue };
        all |= 1 << copy;
        for edge in selection.edges().iter() {
            having[edge.position()] |= 1 << copy;
        }
    }
    if all == 0 {
        return Some(false);
    }
    let mut sets: Vec<Vec<u64>> = vec![Vec::new(); graph.node_count()];
    sets[dag.entry().position()].push(all);
    for &node in dag.reverse_topological().iter().rev() {
        let here = std::mem::take(&mut sets[node.position()]);
        if here.len() > MOST_SETS {
            return None;
        }
        for &edge in graph.out_edges(node) {
            let there = &mut sets[graph.target(edge).position()];
            for set in &here {
                let left = set & having[edge.position()];
                if left == 0 {
                    return Some(false);
                }
                if there.iter().all(|known| known & left != *known) {
                    there.retain(|known| known & left != left);
                    there.push(left);
                }
            }
        }
    }
    Some(true)
}
