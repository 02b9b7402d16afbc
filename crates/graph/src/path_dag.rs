//! The acyclic graph of a function's paths, and how many paths there are.
//!
//! Ball and Larus, *Efficient Path Profiling*, MICRO 1996, sections 3.1 and
//! 3.2. A control-flow graph becomes a graph without cycles between a virtual
//! ENTRY and a virtual EXIT, whose ENTRY-to-EXIT paths are the pieces a run is
//! divided into:
//!
//! - ENTRY leads to the first block, and each block without successors to EXIT.
//! - A retreating edge v→w (see [`crate::depth_first`]; the loops need not be
//!   reducible) is taken out. ENTRY→w stands for a path that begins at the loop
//!   head: one per head, shared by its retreating edges. v→EXIT stands for a
//!   path that ends there: each retreating edge has its own, even if two leave
//!   the same block, because sharing them would leave edge counts undetermined.
//! - Blocks that cannot be reached take no part.
//!
//! Every node that takes part lies on some path: each block is reached, and
//! from each block EXIT can be reached, since a block has successors, or
//! retreating edges, or leads to EXIT itself.
//!
//! If the first block is itself a loop head, ENTRY leads to it by two edges, one
//! for the path that enters the function and one for the path that begins at
//! the loop.
//!
//! The graph's parallel edges give different paths. Whoever wants a `switch`
//! with several cases for one block to be one edge merges them first.
//!
//! Cost O(nodes + edges).

use std::collections::BTreeSet;
use std::fmt;
use std::ops::Add;

use crate::define_index;
use crate::depth_first::{DepthFirst, EdgeKind};
use crate::digraph::{Digraph, Edge};
use crate::index::Index;

define_index!(
    /// A node of a [`PathDag`]: that of the control-flow graph at the same
    /// position, or one of the two past them, ENTRY and EXIT.
    DagNode, "n"
);

/// What an edge of a [`PathDag`] stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DagEdge {
    /// ENTRY to the first block: the path begins where the function does.
    Enter,
    /// ENTRY to a loop head, or to the target of a cut edge: the path begins there.
    LoopStart,
    /// This edge of the control-flow graph.
    Flow(Edge),
    /// From the source of this retreating or cut edge to EXIT: the path ends
    /// with it.
    LoopEnd(Edge),
    /// A block without successors to EXIT: the path ends where the function does.
    Leave,
}

/// The acyclic graph of a function's paths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathDag {
    graph: Digraph<DagNode>,
    kinds: Vec<DagEdge>,
    /// What takes part, each node before its predecessors: EXIT first.
    reverse_topological: Vec<DagNode>,
}

impl PathDag {
    /// The acyclic graph of `cfg`, which is entered at `first`.
    pub fn new<N: Index>(cfg: &Digraph<N>, first: N) -> Self {
        Self::with_cuts(cfg, first, &BTreeSet::new())
    }

    /// The same with the edges of `cuts` taken out as retreating edges are:
    /// paths end and begin there. That is how the number of paths is kept small
    /// (see [`crate::path_cuts`]), and how a path ends where it must.
    ///
    /// Cuts come first: what retreats is found in the graph without them, in a
    /// search from `first` and then from the targets of cuts. A loop that a cut
    /// opens needs no second place where paths end.
    pub fn with_cuts<N: Index>(cfg: &Digraph<N>, first: N, cuts: &BTreeSet<Edge>) -> Self {
        let reached = DepthFirst::new(cfg, first);
        let node = |block: N| DagNode::new(block.position());
        let entry = DagNode::new(cfg.node_count());
        let exit = DagNode::new(cfg.node_count() + 1);

        // ENTRY stands for the search's root, and EXIT is not reached.
        let is_cut = |edge: Edge| cuts.contains(&edge) && reached.kind(edge) != EdgeKind::Unreached;
        let kept: Vec<Edge> = cfg
            .edges()
            .filter(|&edge| !is_cut(edge) && reached.kind(edge) != EdgeKind::Unreached)
            .collect();
        let starts = cfg.nodes().filter(|&it| cfg.in_edges(it).iter().any(|&edge| is_cut(edge)));
        let roots: Vec<_> =
            std::iter::once(first).chain(starts).map(|it| (entry, node(it))).collect();
        let root_count = roots.len();
        let flow = kept.iter().map(|&edge| (node(cfg.source(edge)), node(cfg.target(edge))));
        let opened = Digraph::new(cfg.node_count() + 2, roots.into_iter().chain(flow));
        let search = DepthFirst::new(&opened, entry);
        let mut taken_out: Vec<bool> = cfg.edges().map(is_cut).collect();
        for (position, edge) in kept.iter().enumerate() {
            taken_out[edge.position()] =
                search.kind(Edge::new(root_count + position)) == EdgeKind::Retreating;
        }

        let mut ends = vec![(entry, node(first))];
        let mut kinds = vec![DagEdge::Enter];
        let is_taken_out = |edge: &Edge| taken_out[edge.position()];
        for head in cfg.nodes().filter(|&head| cfg.in_edges(head).iter().any(is_taken_out)) {
            ends.push((entry, node(head)));
            kinds.push(DagEdge::LoopStart);
        }
        for block in cfg.nodes().filter(|&block| reached.is_reached(block)) {
            for &edge in cfg.out_edges(block) {
                if is_taken_out(&edge) {
                    ends.push((node(block), exit));
                    kinds.push(DagEdge::LoopEnd(edge));
                } else {
                    ends.push((node(block), node(cfg.target(edge))));
                    kinds.push(DagEdge::Flow(edge));
                }
            }
            if cfg.out_edges(block).is_empty() {
                ends.push((node(block), exit));
                kinds.push(DagEdge::Leave);
            }
        }

        let mut reverse_topological = vec![exit];
        reverse_topological.extend(search.postorder());
        Self { graph: Digraph::new(cfg.node_count() + 2, ends), kinds, reverse_topological }
    }

    /// The graph. The edges that leave a node are in the control-flow graph's
    /// order; those that leave ENTRY are [`DagEdge::Enter`], then the loop heads
    /// by number.
    pub fn graph(&self) -> &Digraph<DagNode> {
        &self.graph
    }

    /// ENTRY.
    pub fn entry(&self) -> DagNode {
        DagNode::new(self.graph.node_count() - 2)
    }

    /// EXIT.
    pub fn exit(&self) -> DagNode {
        DagNode::new(self.graph.node_count() - 1)
    }

    /// What `edge` of [`Self::graph`] stands for.
    pub fn kind(&self, edge: Edge) -> DagEdge {
        self.kinds[edge.position()]
    }

    /// The nodes that take part, each after all its successors: EXIT first,
    /// ENTRY last.
    pub fn reverse_topological(&self) -> &[DagNode] {
        &self.reverse_topological
    }

    /// How many paths lead from each node to EXIT, by node; 0 for nodes that
    /// take no part.
    pub fn path_counts(&self) -> Vec<PathCount> {
        let mut counts = vec![PathCount::Exact(0); self.graph.node_count()];
        counts[self.exit().position()] = PathCount::Exact(1);
        for &node in self.reverse_topological.iter().skip(1) {
            let ways = self.graph.successors(node).map(|next| counts[next.position()]);
            counts[node.position()] = ways.fold(PathCount::Exact(0), Add::add);
        }
        counts
    }

    /// How many paths lead from ENTRY to EXIT.
    pub fn path_count(&self) -> PathCount {
        self.path_counts()[self.entry().position()]
    }
}

/// A number of paths, exact or a lower bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PathCount {
    /// Exactly so many.
    Exact(u128),
    /// So many or more: the exact number does not fit.
    AtLeast(u128),
}

impl PathCount {
    /// Whether there are surely no more than `limit`.
    pub fn is_at_most(self, limit: u128) -> bool {
        matches!(self, Self::Exact(count) if count <= limit)
    }

    /// The number, or its lower bound.
    pub fn lower_bound(self) -> u128 {
        match self {
            Self::Exact(count) | Self::AtLeast(count) => count,
        }
    }
}

impl Add for PathCount {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        match (self, other, self.lower_bound().checked_add(other.lower_bound())) {
            (Self::Exact(_), Self::Exact(_), Some(sum)) => Self::Exact(sum),
            (_, _, sum) => Self::AtLeast(sum.unwrap_or(u128::MAX)),
        }
    }
}

impl fmt::Display for PathCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(count) => write!(f, "{count}"),
            Self::AtLeast(count) => write!(f, "at least {count}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A chain of `diamonds` if-then-else: 2^diamonds paths.
    fn diamonds(diamonds: usize) -> PathDag {
        let mut edges = Vec::new();
        for top in (0..diamonds).map(|i| 3 * i) {
            for (from, to) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
                edges.push((DagNode::new(top + from), DagNode::new(top + to)));
            }
        }
        PathDag::new(&Digraph::new(3 * diamonds + 1, edges), DagNode::new(0))
    }

    #[test]
    fn counts_are_exact_up_to_128_bits_and_labelled_beyond() {
        assert_eq!(diamonds(0).path_count(), PathCount::Exact(1));
        assert_eq!(diamonds(16).path_count(), PathCount::Exact(1 << 16));
        assert!(diamonds(16).path_count().is_at_most(1 << 16));
        assert_eq!(diamonds(127).path_count(), PathCount::Exact(1 << 127));
        assert_eq!(diamonds(128).path_count(), PathCount::AtLeast(u128::MAX));
        assert!(!diamonds(300).path_count().is_at_most(u128::MAX));
        assert_eq!(diamonds(128).path_count().to_string(), format!("at least {}", u128::MAX));
    }

    #[test]
    fn retreating_edges_share_a_start_and_have_ends_of_their_own() {
        // b0 -> b1; b1 -> b2, b3; b2 -> b1, b1 (parallel); b3 leaves.
        let block = DagNode::new;
        let edges = [(0, 1), (1, 2), (1, 3), (2, 1), (2, 1)].map(|(a, b)| (block(a), block(b)));
        let dag = PathDag::new(&Digraph::new(4, edges), block(0));
        let count = |kind: fn(&DagEdge) -> bool| dag.kinds.iter().filter(|k| kind(k)).count();
        assert_eq!(count(|kind| matches!(kind, DagEdge::LoopStart)), 1);
        assert_eq!(count(|kind| matches!(kind, DagEdge::LoopEnd(_))), 2);
        // From b1: over b3, or over b2 and one of two ends; begun by ENTRY or the loop.
        assert_eq!(dag.path_count(), PathCount::Exact(6));
    }

    #[test]
    fn a_loop_at_the_first_block_begins_in_two_ways() {
        let block = DagNode::new(0);
        let dag = PathDag::new(&Digraph::new(1, [(block, block)]), block);
        assert_eq!(dag.path_count(), PathCount::Exact(2));
    }
}
