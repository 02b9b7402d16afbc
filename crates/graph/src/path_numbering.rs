//! Numbers the paths of a [`PathDag`], and finds a path by its number.
//!
//! Ball and Larus, *Efficient Path Profiling*, MICRO 1996, figure 5. An edge
//! v→w gets as value the number of paths that leave v by the edges before it;
//! the sum of the values along a path is its number, and the numbers are
//! 0 … number of paths − 1, each for one path.
//!
//! Cost O(nodes + edges); a path is found in the sum of the degrees along it.

use crate::digraph::Edge;
use crate::index::Index;
use crate::path_dag::{DagNode, PathDag};

/// The numbers of the paths of a [`PathDag`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathNumbering {
    values: Vec<u64>,
    count: u64,
}

impl PathNumbering {
    /// Numbers the paths of `dag`; `None` if there are more than 2^63 of them,
    /// so that sums of values fit in 64 bits with their sign.
    pub fn new(dag: &PathDag) -> Option<Self> {
        let graph = dag.graph();
        let mut counts = vec![0u64; graph.node_count()];
        let mut values = vec![0u64; graph.edge_count()];
        counts[dag.exit().position()] = 1;
        for &node in dag.reverse_topological().iter().skip(1) {
            let mut before = 0u64;
            for &edge in graph.out_edges(node) {
                values[edge.position()] = before;
                before = before.checked_add(counts[graph.target(edge).position()])?;
            }
            counts[node.position()] = before;
        }
        let count = counts[dag.entry().position()];
        (count <= 1 << 63).then_some(Self { values, count })
    }

    /// How many paths there are.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The value of an edge.
    pub fn value(&self, edge: Edge) -> u64 {
        self.values[edge.position()]
    }

    /// The path with this number, from ENTRY to EXIT; `None` if no path has it.
    pub fn path(&self, dag: &PathDag, number: u64) -> Option<Vec<Edge>> {
        if number >= self.count {
            return None;
        }
        let graph = dag.graph();
        let mut path = Vec::new();
        let mut rest = number;
        let mut node: DagNode = dag.entry();
        while node != dag.exit() {
            // Values grow with the edges' order: the last that fits is it.
            let edges = graph.out_edges(node);
            let after = edges.partition_point(|&edge| self.value(edge) <= rest);
            let edge = edges[after - 1];
            rest -= self.value(edge);
            path.push(edge);
            node = graph.target(edge);
        }
        Some(path)
    }
}
