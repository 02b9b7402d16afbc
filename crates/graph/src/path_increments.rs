//! Moves the values of a [`PathNumbering`] to few and cheap edges.
//!
//! Ball and Larus, *Efficient Path Profiling*, MICRO 1996, section 3.2, after
//! Ball, *Efficiently Counting Program Events with Support for On-line
//! Queries*, 1994. With a potential φ of the nodes that follows the values
//! along the edges of a spanning tree, every other edge u→v (a chord) gets
//! φ(u) + value(u→v) − φ(v), and tree edges get 0. Along a path from ENTRY to
//! EXIT the potentials cancel, since φ(ENTRY) = φ(EXIT) = 0: that is why the
//! tree connects the two (by the virtual edge EXIT→ENTRY, of value 0).

use crate::digraph::Edge;
use crate::index::Index;
use crate::path_dag::PathDag;
use crate::path_numbering::PathNumbering;
use crate::spanning_tree::SpanningTree;

/// What each edge adds to the sum of the path under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIncrements {
    increments: Vec<i64>,
}

impl PathIncrements {
    /// Increments for `numbering`, on the chords of the spanning tree that is
    /// heaviest under `weights` (by edge of the DAG). Edges of `forced` are in
    /// the tree, as far as they close no cycle.
    pub fn new(dag: &PathDag, numbering: &PathNumbering, weights: &[u64], forced: &[Edge]) -> Self {
        let graph = dag.graph();
        let tree = SpanningTree::new(graph, weights, &[(dag.exit(), dag.entry())], forced);
        let mut potential: Vec<Option<i64>> = vec![None; graph.node_count()];
        potential[dag.entry().position()] = Some(0);
        potential[dag.exit().position()] = Some(0);
        let mut pending = vec![dag.entry(), dag.exit()];
        while let Some(node) = pending.pop() {
            let here = potential[node.position()].expect("pending nodes have a potential");
            let out = graph.out_edges(node).iter().map(|&edge| (edge, graph.target(edge), 1));
            let into = graph.in_edges(node).iter().map(|&edge| (edge, graph.source(edge), -1));
            for (edge, next, sign) in out.chain(into) {
                if tree.contains(edge) && potential[next.position()].is_none() {
                    let value = numbering.value(edge) as i64;
                    potential[next.position()] = Some(here.wrapping_add(sign * value));
                    pending.push(next);
                }
            }
        }
        let at = |node: crate::path_dag::DagNode| potential[node.position()].unwrap_or(0);
        let increment = |edge: Edge| {
            if tree.contains(edge) {
                return 0;
            }
            let value = numbering.value(edge) as i64;
            at(graph.source(edge)).wrapping_add(value).wrapping_sub(at(graph.target(edge)))
        };
        Self { increments: graph.edges().map(increment).collect() }
    }

    /// What `edge` adds. The sum along a path, modulo 2^64, is its number.
    pub fn increment(&self, edge: Edge) -> i64 {
        self.increments[edge.position()]
    }
}
