//! A potential of nodes that agrees with the values of edges of much weight.
//!
//! An edge u→v of value x agrees with a potential φ if φ(v) − φ(u) = x; moved by
//! φ, its value is 0 (see [`crate::path_increments`]). To find the potential
//! that edges of the greatest weight agree with is hard. This is greedy: of all
//! pairs of groups of nodes, each with its potential fixed up to a constant, and
//! all constants under which edges between the two agree, the one of greatest
//! weight is chosen, and the groups become one. A spanning tree of greatest
//! weight takes the heaviest edge instead, and not what else agrees along with
//! it; where values are mostly equal, as those of labels on a few edges only
//! are, that is a great difference.
//!
//! Cost O(edges · log² edges): the smaller group's edges are moved to the larger.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use crate::digraph::Edge;
use crate::index::Index;
use crate::path_dag::{DagNode, PathDag};

/// Groups of nodes with their potentials.
struct Groups {
    /// The node that a node is joined to, and its potential less that one's.
    parent: Vec<(usize, i64)>,
    /// By group, its neighbours: by how much their constant would have to exceed
    /// this one's, and the weight of the edges that agree then.
    between: Vec<BTreeMap<usize, BTreeMap<i64, u128>>>,
}

/// Two groups and a step between them, after the weight that agrees then.
type Choice = (u128, Reverse<(usize, usize, i64)>);

/// The potential of each node; that of ENTRY and that of EXIT are 0. The edges
/// of `forced` come first.
pub fn compute_potential(
    dag: &PathDag,
    values: &[u64],
    weights: &[u64],
    forced: &[Edge],
) -> Vec<i64> {
    let graph = dag.graph();
    let nodes = graph.node_count();
    let mut groups = Groups {
        parent: (0..nodes).map(|node| (node, 0)).collect(),
        between: vec![BTreeMap::new(); nodes],
    };
    groups.join(dag.entry().position(), dag.exit().position(), 0);
    let ends = |edge: Edge| (graph.source(edge).position(), graph.target(edge).position());
    for &edge in forced {
        let (from, to) = ends(edge);
        groups.join(from, to, values[edge.position()] as i64);
    }
    for edge in graph.edges().filter(|edge| weights[edge.position()] > 0) {
        let (from, to) = ends(edge);
        let ((one, above), (other, below)) = (groups.find(from), groups.find(to));
        if one != other {
            let step = (values[edge.position()] as i64).wrapping_add(above).wrapping_sub(below);
            groups.add(one, other, step, weights[edge.position()].into());
        }
    }
    // The heaviest first; of equal ones the first in order.
    let mut best: BinaryHeap<Choice> = BinaryHeap::new();
    for one in 0..nodes {
        for (&other, steps) in groups.between[one].range(one..) {
            best.extend(steps.iter().map(|(&step, &it)| (it, Reverse((one, other, step)))));
        }
    }
    while let Some((weight, Reverse((one, other, step)))) = best.pop() {
        let is_current = groups.find(one).0 == one
            && groups.find(other).0 == other
            && groups.between[one].get(&other).and_then(|it| it.get(&step)) == Some(&weight);
        if is_current {
            for (one, other, step, weight) in groups.merge(one, other, step) {
                best.push((weight, Reverse((one, other, step))));
            }
        }
    }
    let (root, origin) = groups.find(dag.entry().position());
    let potential = |node: DagNode| {
        let (its, potential) = groups.find(node.position());
        if its == root { potential.wrapping_sub(origin) } else { potential }
    };
    graph.nodes().map(potential).collect()
}

impl Groups {
    /// The group of a node, and the node's potential in it.
    fn find(&self, mut node: usize) -> (usize, i64) {
        let mut potential = 0i64;
        while self.parent[node].0 != node {
            potential = potential.wrapping_add(self.parent[node].1);
            node = self.parent[node].0;
        }
        (node, potential)
    }

    /// Joins two nodes before there are neighbours, the potential of the second
    /// being `step` more; nothing, if they are joined otherwise.
    fn join(&mut self, from: usize, to: usize, step: i64) {
        let ((one, above), (other, below)) = (self.find(from), self.find(to));
        if one != other {
            self.parent[other] = (one, step.wrapping_add(above).wrapping_sub(below));
        }
    }

    /// Adds edges between two groups that agree if the constant of the second
    /// is `step` more; their weight then.
    fn add(&mut self, one: usize, other: usize, step: i64, weight: u128) -> u128 {
        let back = self.between[other].entry(one).or_default();
        *back.entry(step.wrapping_neg()).or_default() += weight;
        let there = self.between[one].entry(other).or_default().entry(step).or_default();
        *there += weight;
        *there
    }

    /// Makes two groups one, the constant of the second being `step` more.
    /// Returns what has changed: groups, step and weight.
    fn merge(&mut self, one: usize, other: usize, step: i64) -> Vec<(usize, usize, i64, u128)> {
        // The one with fewer neighbours is taken in.
        let (kept, gone, step) = if self.between[one].len() >= self.between[other].len() {
            (one, other, step)
        } else {
            (other, one, step.wrapping_neg())
        };
        self.parent[gone] = (kept, step);
        let mut changed = Vec::new();
        for (next, steps) in std::mem::take(&mut self.between[gone]) {
            self.between[next].remove(&gone);
            if next == kept {
                continue;
            }
            for (its, weight) in steps {
                let from_kept = its.wrapping_add(step);
                let weight = self.add(kept, next, from_kept, weight);
                changed.push((kept, next, from_kept, weight));
            }
        }
        changed
    }
}
