//! Which edges to cut so that a function has few enough paths.
//!
//! A function may have more acyclic paths than any array of counters holds:
//! bzip2's `BZ2_compressBlock` has more than 2^40. An edge that is cut is
//! treated as a retreating edge is: paths end before it and begin behind it
//! ([`PathDag::with_cuts`]). Counting stays exact, in shorter pieces.
//!
//! Under a bound on the paths that may leave any one node, nodes are visited
//! from EXIT upwards; where more paths leave, edges are cut, those first that
//! save most paths for the least weight. Behind a cut edge v→w, one path leaves
//! v, and the paths of w count once more at ENTRY, however many edges to w are
//! cut. The bound is lowered until the total fits. Each try costs
//! O(edges · log edges), and there are at most as many tries as the limit has
//! bits.

use std::cmp::Reverse;
use std::collections::BTreeSet;

use crate::depth_first::{DepthFirst, EdgeKind};
use crate::digraph::{Digraph, Edge};
use crate::index::Index;
use crate::path_dag::PathDag;

/// Edges of `cfg` to cut so that there are at most `limit` paths. `weights`, by
/// edge, says how often each is thought to be taken. The edges of `forced` are
/// cut in any case, and those of `whole` never. A function with more edges than
/// `limit` may keep more paths: with every edge cut, each edge is a path.
pub fn compute_cuts<N: Index>(
    cfg: &Digraph<N>,
    first: N,
    weights: &[u64],
    limit: u64,
    forced: &BTreeSet<Edge>,
    whole: &BTreeSet<Edge>,
) -> BTreeSet<Edge> {
    let fits = |cuts: &BTreeSet<Edge>| {
        PathDag::with_cuts(cfg, first, cuts).path_count().is_at_most(u128::from(limit))
    };
    let mut cuts = forced.clone();
    let mut bound = limit;
    while !fits(&cuts) && bound > 0 {
        cuts = cuts_under(cfg, first, weights, bound, forced, whole);
        bound /= 2;
    }
    if !fits(&cuts) {
        cuts.extend(cfg.edges().filter(|edge| !whole.contains(edge)));
    }
    cuts
}

/// Edges to cut so that at most `bound` paths leave each node, as far as its
/// number of edges allows.
fn cuts_under<N: Index>(
    cfg: &Digraph<N>,
    first: N,
    weights: &[u64],
    bound: u64,
    forced: &BTreeSet<Edge>,
    whole: &BTreeSet<Edge>,
) -> BTreeSet<Edge> {
    let search = DepthFirst::new(cfg, first);
    let mut leaving = vec![1u64; cfg.node_count()];
    let mut cuts = forced.clone();
    for &node in search.postorder() {
        // An edge that ends paths lets one path leave.
        let mut ways: Vec<(Edge, u64)> = Vec::new();
        for &edge in cfg.out_edges(node) {
            let ends = search.kind(edge) == EdgeKind::Retreating || forced.contains(&edge);
            ways.push((edge, if ends { 1 } else { leaving[cfg.target(edge).position()] }));
        }
        let mut total = ways.iter().fold(0u64, |sum, (_, paths)| sum.saturating_add(*paths));
        if total > bound {
            ways.sort_by_key(|&(edge, paths)| Reverse(paths / (weights[edge.position()] + 1)));
            // Saturated sums are of no use for subtracting.
            let mut kept: Vec<u64> = ways.iter().map(|(_, paths)| *paths).collect();
            for (position, (edge, paths)) in ways.iter().enumerate() {
                if total <= bound {
                    break;
                }
                if *paths > 1 && !whole.contains(edge) {
                    cuts.insert(*edge);
                    kept[position] = 1;
                    total = kept.iter().fold(0u64, |sum, paths| sum.saturating_add(*paths));
                }
            }
        }
        leaving[node.position()] = total.max(1);
    }
    cuts
}
