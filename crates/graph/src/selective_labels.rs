//! Labels of edges that tell the paths of interest from all others.
//!
//! Afraz, Saha and Kanade, *P3: Partitioned Path Profiling*, ESEC/FSE 2015,
//! algorithm 1 (precise selective path profiling, PSPP). Given a [`PathDag`] and
//! a set of interesting edges, the sum of the labels along a path made of
//! interesting edges only is the sum along no other path, interesting or not.
//! Other paths may share their sums. Edges that are not of interest have label
//! 0, and with every edge of interest this is Ball and Larus's numbering with
//! the edges of each node in another order.
//!
//! The three steps:
//!
//! 1. From EXIT upwards, the edges of a node get as value the number of paths
//!    that leave by the edges before them. Those not of interest come first,
//!    then the others by decreasing least value of an interesting path behind
//!    them. This order is what keeps an uninteresting path, which loses labels
//!    in step 3, away from the interesting ones (appendix A of the paper;
//!    the older selective path profiling takes any order, and fails).
//! 2. From ENTRY downwards, the value of a node's only edge in is moved to its
//!    edges out. The sum of every path stays.
//! 3. Edges that are not of interest lose their label.
//!
//! *Departure.* Of some edges it may be known that paths over them are never
//! counted (`uncounted`: they end where no counter is updated). These edges
//! are taken out of the graph first, and what leads nowhere without them; there
//! are fewer paths to tell apart, and their sums are smaller. Without such edges
//! the labels are the paper's.
//!
//! Every sum is below [`SelectiveLabels::count`]: values are a numbering of the
//! paths that may be counted, and steps 2 and 3 only ever make sums smaller.
//!
//! Cost O(nodes + edges · log edges); a path is found in the sum of the degrees
//! along it.

use std::cmp::Reverse;

use crate::digraph::Edge;
use crate::edge_set::EdgeSet;
use crate::index::Index;
use crate::path_dag::PathDag;

/// Labels for the paths of interest of a [`PathDag`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SelectiveLabels {
    interesting: EdgeSet,
    counted: EdgeSet,
    values: Vec<u64>,
    labels: Vec<u64>,
    count: u64,
}

impl SelectiveLabels {
    /// Labels for the paths of `dag` that are made of edges of `interesting`.
    /// Paths over an edge of `uncounted` are not counted; no interesting edge
    /// is among them. `None` if more than 2^63 paths may be counted.
    pub fn new(dag: &PathDag, interesting: &EdgeSet, uncounted: &EdgeSet) -> Option<Self> {
        let interesting = whole_paths(dag, interesting);
        let counted = edges_that_may_be_counted(dag, uncounted);
        let (values, count) = compute_values(dag, &interesting, &counted)?;
        let labels = move_and_absorb(dag, &interesting, &counted, values.clone());
        Some(Self { interesting, counted, values, labels, count })
    }

    /// The label of each edge, by number.
    pub fn labels(&self) -> &[u64] {
        &self.labels
    }

    /// Labels without step 2, by number of the edge. They tell the same paths
    /// apart, and the sums of interesting ones are the same: an uninteresting
    /// path keeps the values of its interesting edges where they are, and what
    /// it loses at its first uninteresting edge leaves it below all interesting
    /// paths from that node on. (So the order of step 1 is of no account here.)
    pub fn unpropagated(&self) -> Vec<u64> {
        let mut labels = self.values.clone();
        for (edge, label) in labels.iter_mut().enumerate() {
            if !self.interesting.contains(Edge::new(edge)) {
                *label = 0;
            }
        }
        labels
    }

    /// The label of an edge.
    pub fn label(&self, edge: Edge) -> u64 {
        self.labels[edge.position()]
    }

    /// The edges of the paths of interest.
    pub fn interesting(&self) -> &EdgeSet {
        &self.interesting
    }

    /// The edges from which a count can be reached.
    pub fn counted(&self) -> &EdgeSet {
        &self.counted
    }

    /// One more than the greatest sum that a counted path may have.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The path of interest with this sum, from ENTRY to EXIT; `None` if no path
    /// of interest has it.
    pub fn path(&self, dag: &PathDag, sum: u64) -> Option<Vec<Edge>> {
        let graph = dag.graph();
        let mut path = Vec::new();
        let mut rest = sum;
        let mut node = dag.entry();
        while node != dag.exit() {
            let edges = graph.out_edges(node).iter().copied();
            let fitting = edges.filter(|&edge| {
                self.interesting.contains(edge) && self.values[edge.position()] <= rest
            });
            let edge = fitting.max_by_key(|edge| self.values[edge.position()])?;
            rest -= self.values[edge.position()];
            path.push(edge);
            node = graph.target(edge);
        }
        (rest == 0).then_some(path)
    }
}

/// The edges of `set` that lie on a path from ENTRY to EXIT within it.
pub fn whole_paths(dag: &PathDag, set: &EdgeSet) -> EdgeSet {
    let graph = dag.graph();
    let mut from_entry = vec![false; graph.node_count()];
    let mut to_exit = vec![false; graph.node_count()];
    from_entry[dag.entry().position()] = true;
    to_exit[dag.exit().position()] = true;
    for &node in dag.reverse_topological().iter().skip(1) {
        let mut out = graph.out_edges(node).iter().filter(|&&edge| set.contains(edge));
        to_exit[node.position()] = out.any(|&edge| to_exit[graph.target(edge).position()]);
    }
    let mut kept = EdgeSet::none(graph.edge_count());
    for &node in dag.reverse_topological().iter().rev() {
        if !from_entry[node.position()] {
            continue;
        }
        for &edge in graph.out_edges(node) {
            let target = graph.target(edge).position();
            if set.contains(edge) && to_exit[target] {
                from_entry[target] = true;
                kept.insert(edge);
            }
        }
    }
    kept
}

/// The edges from which EXIT can be reached without an edge of `uncounted`.
pub fn edges_that_may_be_counted(dag: &PathDag, uncounted: &EdgeSet) -> EdgeSet {
    let graph = dag.graph();
    let mut counted = EdgeSet::none(graph.edge_count());
    let mut reaches = vec![false; graph.node_count()];
    reaches[dag.exit().position()] = true;
    for &node in dag.reverse_topological().iter().skip(1) {
        for &edge in graph.out_edges(node) {
            if !uncounted.contains(edge) && reaches[graph.target(edge).position()] {
                reaches[node.position()] = true;
                counted.insert(edge);
            }
        }
    }
    counted
}

/// Step 1, and how many paths there are.
fn compute_values(
    dag: &PathDag,
    interesting: &EdgeSet,
    counted: &EdgeSet,
) -> Option<(Vec<u64>, u64)> {
    let graph = dag.graph();
    let mut values = vec![0u64; graph.edge_count()];
    let mut counts = vec![0u64; graph.node_count()];
    let mut least = vec![u64::MAX; graph.node_count()];
    counts[dag.exit().position()] = 1;
    least[dag.exit().position()] = 0;
    // A node's interesting edges, each with the least value behind it.
    let mut chosen: Vec<(Edge, u64)> = Vec::new();
    for &node in dag.reverse_topological().iter().skip(1) {
        let mut before = 0u64;
        chosen.clear();
        for &edge in graph.out_edges(node).iter().filter(|&&edge| counted.contains(edge)) {
            let target = graph.target(edge).position();
            if interesting.contains(edge) {
                chosen.push((edge, least[target]));
            } else {
                values[edge.position()] = before;
                before = before.checked_add(counts[target])?;
            }
        }
        chosen.sort_by_key(|&(_, behind)| Reverse(behind));
        for &(edge, behind) in &chosen {
            values[edge.position()] = before;
            let here = &mut least[node.position()];
            *here = (*here).min(behind.saturating_add(before));
            before = before.checked_add(counts[graph.target(edge).position()])?;
        }
        counts[node.position()] = before;
    }
    let count = counts[dag.entry().position()];
    (count <= 1 << 63).then_some((values, count))
}

/// Steps 2 and 3.
fn move_and_absorb(
    dag: &PathDag,
    interesting: &EdgeSet,
    counted: &EdgeSet,
    mut labels: Vec<u64>,
) -> Vec<u64> {
    let graph = dag.graph();
    for &node in dag.reverse_topological().iter().rev() {
        let mut into = graph.in_edges(node).iter().filter(|&&edge| counted.contains(edge));
        let (Some(&only), None) = (into.next(), into.next()) else { continue };
        if node == dag.exit() {
            continue;
        }
        let moved = std::mem::take(&mut labels[only.position()]);
        for edge in graph.out_edges(node) {
            labels[edge.position()] += moved;
        }
    }
    for edge in graph.edges().filter(|&edge| !interesting.contains(edge)) {
        labels[edge.position()] = 0;
    }
    labels
}
