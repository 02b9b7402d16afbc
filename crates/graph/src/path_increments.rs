//! Moves values of edges to few and cheap edges, keeping the sum of every path.
//!
//! Ball and Larus, *Efficient Path Profiling*, MICRO 1996, section 3.2, after
//! Ball, *Efficiently Counting Program Events with Support for On-line
//! Queries*, 1994. With a potential φ of the nodes, every edge u→v gets
//! φ(u) + value(u→v) − φ(v). Along a path from ENTRY to EXIT the potentials
//! cancel, since φ(ENTRY) = φ(EXIT) = 0. This holds of any values: those of a
//! [`PathNumbering`], or labels that are not zero on a few edges only
//! ([`crate::selective_labels`]), and of every path, of interest or not.
//!
//! [`PathIncrements::new`] lets the potential follow the values along a spanning
//! tree of greatest weight, which holds the virtual edge EXIT→ENTRY: tree edges
//! get 0, and only the others (chords) may get more. No potential does better
//! for values in general. For special ones it may, and
//! [`PathIncrements::improve`] looks for it, node by node: the potential of a
//! node is chosen so that the heaviest edges at the node get 0. To find the best
//! potential is hard (it is to satisfy most of a set of equations between pairs
//! of unknowns); this finds one that no change at a single node betters.

use std::collections::VecDeque;

use crate::digraph::Edge;
use crate::edge_agreement::compute_potential;
use crate::index::Index;
use crate::path_dag::{DagNode, PathDag};
use crate::path_numbering::PathNumbering;
use crate::spanning_tree::SpanningTree;

/// What each edge adds to the sum of the path under way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathIncrements {
    increments: Vec<i64>,
}

/// How often [`PathIncrements::improve`] looks at a node, at most and on average.
const ROUNDS: usize = 16;

impl PathIncrements {
    /// Increments for `numbering`, on the chords of the spanning tree that is
    /// heaviest under `weights` (by edge of the DAG). Edges of `forced` are in
    /// the tree, as far as they close no cycle.
    pub fn new(dag: &PathDag, numbering: &PathNumbering, weights: &[u64], forced: &[Edge]) -> Self {
        let values: Vec<u64> = dag.graph().edges().map(|edge| numbering.value(edge)).collect();
        Self::along_tree(dag, &values, weights, forced)
    }

    /// The same for any values.
    pub fn along_tree(dag: &PathDag, values: &[u64], weights: &[u64], forced: &[Edge]) -> Self {
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
                    let value = values[edge.position()] as i64;
                    potential[next.position()] = Some(here.wrapping_add(sign * value));
                    pending.push(next);
                }
            }
        }
        let at = |node: DagNode| potential[node.position()].unwrap_or(0);
        let increment = |edge: Edge| {
            if tree.contains(edge) {
                return 0;
            }
            let value = values[edge.position()] as i64;
            at(graph.source(edge)).wrapping_add(value).wrapping_sub(at(graph.target(edge)))
        };
        Self { increments: graph.edges().map(increment).collect() }
    }

    /// Increments for any values, moved so that edges of much weight get 0
    /// ([`crate::edge_agreement`]), edges of `forced` first.
    pub fn by_agreement(dag: &PathDag, values: &[u64], weights: &[u64], forced: &[Edge]) -> Self {
        let potential = compute_potential(dag, values, weights, forced);
        let graph = dag.graph();
        let increment = |edge: Edge| {
            let from = potential[graph.source(edge).position()];
            let to = potential[graph.target(edge).position()];
            from.wrapping_add(values[edge.position()] as i64).wrapping_sub(to)
        };
        Self { increments: graph.edges().map(increment).collect() }
    }

    /// The values where they are.
    pub fn unmoved(values: &[u64]) -> Self {
        Self { increments: values.iter().map(|&value| value as i64).collect() }
    }

    /// Changes the potential of one node after another, as long as edges of more
    /// weight lose their increment than get one. An edge of `forced` that has
    /// none gets none. Nodes all of whose edges add nothing are not looked at.
    pub fn improve(&mut self, dag: &PathDag, weights: &[u64], forced: &[Edge]) {
        let graph = dag.graph();
        let mut weights: Vec<u128> = weights.iter().map(|&weight| weight.into()).collect();
        for edge in forced {
            weights[edge.position()] = 1 << 100;
        }
        let is_fixed = |node: DagNode| node == dag.entry() || node == dag.exit();
        let mut is_pending = vec![false; graph.node_count()];
        let mut pending = VecDeque::new();
        for edge in graph.edges().filter(|&edge| self.increment(edge) != 0) {
            for node in [graph.source(edge), graph.target(edge)] {
                if !is_fixed(node) && !std::mem::replace(&mut is_pending[node.position()], true) {
                    pending.push_back(node);
                }
            }
        }
        let mut left = ROUNDS * graph.node_count();
        let mut steps = Vec::new();
        while let Some(node) = pending.pop_front().filter(|_| left > 0) {
            left -= 1;
            is_pending[node.position()] = false;
            if self.improve_at(dag, node, &weights, &mut steps) {
                for next in graph.successors(node).chain(graph.predecessors(node)) {
                    if !is_fixed(next) && !std::mem::replace(&mut is_pending[next.position()], true)
                    {
                        pending.push_back(next);
                    }
                }
            }
        }
    }

    /// Changes the potential of `node` if that saves weight; whether it did.
    fn improve_at(
        &mut self,
        dag: &PathDag,
        node: DagNode,
        weights: &[u128],
        steps: &mut Vec<(i64, u128)>,
    ) -> bool {
        let graph = dag.graph();
        let into = graph.in_edges(node).iter().map(|&edge| (edge, 1i64));
        let edges = into.chain(graph.out_edges(node).iter().map(|&edge| (edge, -1)));
        // By how much the potential would have to grow for which weight.
        steps.clear();
        steps.extend(edges.clone().map(|(edge, sign)| {
            (self.increments[edge.position()].wrapping_mul(sign), weights[edge.position()])
        }));
        steps.sort_unstable();
        let (mut now, mut best) = (0u128, (0u128, 0i64));
        for same in steps.chunk_by(|a, b| a.0 == b.0) {
            let weight: u128 = same.iter().map(|(_, weight)| weight).sum();
            if same[0].0 == 0 {
                now = weight;
            }
            if weight > best.0 {
                best = (weight, same[0].0);
            }
        }
        if best.0 <= now {
            return false;
        }
        for (edge, sign) in edges {
            let increment = &mut self.increments[edge.position()];
            *increment = increment.wrapping_sub(best.1.wrapping_mul(sign));
        }
        true
    }

    /// Whether every path from ENTRY to EXIT has the sum that it has under
    /// `values`: whether they differ by a potential that is 0 at both.
    pub fn keeps_sums(&self, dag: &PathDag, values: &[u64]) -> bool {
        let graph = dag.graph();
        let mut potential = vec![None; graph.node_count()];
        potential[dag.entry().position()] = Some(0i64);
        let topological = || dag.reverse_topological().iter().rev();
        topological().all(|node| {
            let here: i64 = potential[node.position()].unwrap_or(0);
            graph.out_edges(*node).iter().all(|&edge| {
                let value = values[edge.position()] as i64;
                let there = here.wrapping_add(value).wrapping_sub(self.increment(edge));
                *potential[graph.target(edge).position()].get_or_insert(there) == there
            })
        }) && potential[dag.exit().position()] == Some(0)
    }

    /// What `edge` adds. The sum along a path, modulo 2^64, is that of the values.
    pub fn increment(&self, edge: Edge) -> i64 {
        self.increments[edge.position()]
    }

    /// The weight of the edges that add something.
    pub fn weight(&self, weights: &[u64]) -> u128 {
        let pairs = self.increments.iter().zip(weights);
        pairs.filter(|(add, _)| **add != 0).map(|(_, &weight)| u128::from(weight)).sum()
    }
}
