//! A directed graph in compressed rows: built once, then only read.
//!
//! Edges are numbered in the order they were given, and the edges that leave a
//! node keep that order, so a branch's first successor stays its first. Parallel
//! edges and self loops are edges like any other. Building costs O(nodes +
//! edges); every query is a slice.

use crate::define_index;
use crate::index::Index;

define_index!(
    /// An edge of a graph.
    Edge, "e"
);

/// A directed graph whose nodes are the first `node_count` indices of type `N`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digraph<N> {
    ends: Vec<(N, N)>,
    outgoing: Rows,
    incoming: Rows,
}

/// For each node a slice of edges.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Rows {
    starts: Vec<u32>,
    edges: Vec<Edge>,
}

impl Rows {
    /// Sorts the edges by `node`, keeping their order within a node.
    fn new(nodes: usize, owners: impl Iterator<Item = usize> + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        for owner in owners.clone() {
            starts[owner + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut edges = vec![Edge::new(0); starts[nodes] as usize];
        for (edge, owner) in owners.enumerate() {
            edges[next[owner] as usize] = Edge::new(edge);
            next[owner] += 1;
        }
        Self { starts, edges }
    }

    fn row(&self, node: usize) -> &[Edge] {
        &self.edges[self.starts[node] as usize..self.starts[node + 1] as usize]
    }
}

impl<N: Index> Digraph<N> {
    /// A graph of `nodes` nodes and these edges, each from its first to its
    /// second node.
    ///
    /// # Panics
    /// If an edge names a node at or past `nodes`: callers check what they read
    /// before they build a graph of it.
    pub fn new(nodes: usize, edges: impl IntoIterator<Item = (N, N)>) -> Self {
        let ends: Vec<(N, N)> = edges.into_iter().collect();
        let outgoing = Rows::new(nodes, ends.iter().map(|(from, _)| from.position()));
        let incoming = Rows::new(nodes, ends.iter().map(|(_, to)| to.position()));
        Self { ends, outgoing, incoming }
    }

    /// How many nodes there are.
    pub fn node_count(&self) -> usize {
        self.outgoing.starts.len() - 1
    }

    /// How many edges there are.
    pub fn edge_count(&self) -> usize {
        self.ends.len()
    }

    /// All nodes, in order.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = N> + ExactSizeIterator + use<N> {
        (0..self.node_count()).map(N::new)
    }

    /// All edges, in order.
    pub fn edges(&self) -> impl DoubleEndedIterator<Item = Edge> + ExactSizeIterator + use<N> {
        (0..self.edge_count()).map(Edge::new)
    }

    /// The node `edge` leaves.
    pub fn source(&self, edge: Edge) -> N {
        self.ends[edge.position()].0
    }

    /// The node `edge` leads to.
    pub fn target(&self, edge: Edge) -> N {
        self.ends[edge.position()].1
    }

    /// The edges that leave `node`, in the order they were given.
    pub fn out_edges(&self, node: N) -> &[Edge] {
        self.outgoing.row(node.position())
    }

    /// The edges that lead to `node`, in the order they were given.
    pub fn in_edges(&self, node: N) -> &[Edge] {
        self.incoming.row(node.position())
    }

    /// The targets of the edges that leave `node`.
    pub fn successors(&self, node: N) -> impl DoubleEndedIterator<Item = N> + ExactSizeIterator {
        self.out_edges(node).iter().map(|&edge| self.target(edge))
    }

    /// The sources of the edges that lead to `node`.
    pub fn predecessors(&self, node: N) -> impl DoubleEndedIterator<Item = N> + ExactSizeIterator {
        self.in_edges(node).iter().map(|&edge| self.source(edge))
    }

    /// The same nodes and edges, each edge the other way round.
    pub fn reversed(&self) -> Self {
        Self {
            ends: self.ends.iter().map(|&(from, to)| (to, from)).collect(),
            outgoing: self.incoming.clone(),
            incoming: self.outgoing.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    define_index!(Node, "n");

    #[test]
    fn edges_keep_their_order_and_parallel_edges_stay_apart() {
        let ends = [(2, 0), (0, 1), (0, 1), (0, 0), (2, 1)];
        let graph = Digraph::<Node>::new(3, ends.map(|(a, b)| (Node::new(a), Node::new(b))));
        assert_eq!((graph.node_count(), graph.edge_count()), (3, 5));
        let printed = |edges: &[Edge]| format!("{edges:?}");
        assert_eq!(printed(graph.out_edges(Node::new(0))), "[e1, e2, e3]");
        assert_eq!(printed(graph.out_edges(Node::new(1))), "[]");
        assert_eq!(printed(graph.in_edges(Node::new(1))), "[e1, e2, e4]");
        assert_eq!(printed(graph.reversed().out_edges(Node::new(1))), "[e1, e2, e4]");
        assert_eq!(graph.reversed().reversed(), graph);
    }

    #[test]
    fn a_graph_may_be_empty() {
        let graph = Digraph::<Node>::new(0, []);
        assert_eq!((graph.nodes().len(), graph.edges().len()), (0, 0));
    }
}
