//! A spanning tree of greatest weight, the directions of edges ignored.
//!
//! Kruskal's algorithm with edges of equal weight taken in order, so that the
//! result depends on nothing else. Edges that must be in the tree are taken
//! first. Cost O(edges · log edges).

use crate::digraph::{Digraph, Edge};
use crate::index::Index;

/// Which edges of a graph are in the tree (a forest, if the graph is in pieces).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpanningTree {
    in_tree: Vec<bool>,
}

/// Nodes that are connected so far.
struct Pieces {
    parent: Vec<usize>,
}

impl Pieces {
    fn find(&mut self, mut node: usize) -> usize {
        while self.parent[node] != node {
            self.parent[node] = self.parent[self.parent[node]];
            node = self.parent[node];
        }
        node
    }

    /// Joins two pieces; whether they were two.
    fn join(&mut self, one: usize, other: usize) -> bool {
        let (one, other) = (self.find(one), self.find(other));
        self.parent[one] = other;
        one != other
    }
}

impl SpanningTree {
    /// The tree of greatest weight that joins `joined` (pairs of nodes that
    /// count as connected) and holds the edges of `forced`. Edges of `forced`
    /// that close a cycle are left out of the tree.
    pub fn new<N: Index>(
        graph: &Digraph<N>,
        weights: &[u64],
        joined: &[(N, N)],
        forced: &[Edge],
    ) -> Self {
        let mut pieces = Pieces { parent: (0..graph.node_count()).collect() };
        for &(one, other) in joined {
            pieces.join(one.position(), other.position());
        }
        let mut in_tree = vec![false; graph.edge_count()];
        let mut by_weight: Vec<Edge> = graph.edges().collect();
        by_weight.sort_by_key(|edge| std::cmp::Reverse(weights[edge.position()]));
        for &edge in forced.iter().chain(&by_weight) {
            let (from, to) = (graph.source(edge).position(), graph.target(edge).position());
            if !in_tree[edge.position()] && pieces.join(from, to) {
                in_tree[edge.position()] = true;
            }
        }
        Self { in_tree }
    }

    /// Whether `edge` is in the tree; one that is not is called a chord.
    pub fn contains(&self, edge: Edge) -> bool {
        self.in_tree[edge.position()]
    }
}
