//! The least that counting one path costs.
//!
//! A copy that counts a path p tells it from every other path. Let a *detour* be
//! a way that leaves p at a node and comes back to it at a later one, with no
//! edge of p in between. A path other than p takes a detour, and if neither the
//! detour nor what it leaves out of p has a label, for no detour that the path
//! takes, then its sum is p's. On the other hand, a path that takes one detour
//! is p in everything else. So labels can do if and only if for each detour, it
//! or what it leaves out of p has one (large labels, all different, then do).
//!
//! The cheapest such labels: choose the edges of p that have one. They part p
//! into sections, and every detour within a section must have a label itself:
//! the cheapest cut between the edges that leave p there and those that come
//! back. Edges of such detours lie behind the section's first node and before
//! its last, so different sections have none in common, and costs add up. Which
//! edges of p are best follows section by section:
//!
//! F(j + 1) = min over i ≤ j of F(i) + cut(i, j) + cost of p's edge behind j
//!
//! Edges that were never executed cost nothing, and are cut first. Cost: a cut
//! for each two nodes of p at which something that was executed leaves or joins.

use backtrail_graph::min_cut::{Network, UNCUTTABLE};
use backtrail_graph::path_dag::DagNode;
use backtrail_graph::{Edge, Index, PathDag};

/// The most nodes of a path at which something leaves or joins, for its cost to
/// be computed.
const JUNCTIONS: usize = 40;

/// The most paths of a function that are looked at.
const PATHS: usize = 24;

/// The most hits that are known to be needed for counting one of the paths of
/// `dag`, where `counts` says how often each edge was executed. Any path will
/// do: those over the most executed edges are looked at.
pub fn dearest(dag: &PathDag, counts: &[u64]) -> u64 {
    let graph = dag.graph();
    let mut edges: Vec<Edge> = graph.edges().filter(|edge| counts[edge.position()] > 0).collect();
    edges.sort_by_key(|edge| (std::cmp::Reverse(counts[edge.position()]), *edge));
    let mut is_seen = vec![false; graph.edge_count()];
    let (mut most, mut looked_at) = (0, 0);
    for edge in edges {
        if looked_at == PATHS {
            break;
        }
        if is_seen[edge.position()] {
            continue;
        }
        let path = hottest_through(dag, counts, edge);
        path.iter().for_each(|edge| is_seen[edge.position()] = true);
        most = most.max(least_alone(dag, counts, &path).unwrap_or(0));
        looked_at += 1;
    }
    most
}

/// The path that takes `edge`, and from there on either way always the edge that
/// was executed most.
fn hottest_through(dag: &PathDag, counts: &[u64], edge: Edge) -> Vec<Edge> {
    let graph = dag.graph();
    let hottest = |edges: &[Edge]| {
        let key = |edge: &Edge| (counts[edge.position()], std::cmp::Reverse(*edge));
        edges.iter().copied().max_by_key(key)
    };
    let mut path = vec![edge];
    while let Some(before) = hottest(graph.in_edges(graph.source(path[path.len() - 1]))) {
        path.push(before);
    }
    path.reverse();
    while let Some(next) = hottest(graph.out_edges(graph.target(path[path.len() - 1]))) {
        path.push(next);
    }
    path
}

/// The least hits of labels that tell `path` from all others; `None` if that is
/// too much to compute.
pub fn least_alone(dag: &PathDag, counts: &[u64], path: &[Edge]) -> Option<u64> {
    let graph = dag.graph();
    let executed = |edge: &Edge| counts[edge.position()] > 0;
    let mut on_path = vec![false; graph.edge_count()];
    path.iter().for_each(|edge| on_path[edge.position()] = true);
    let leaves = |node: DagNode| {
        let edges = graph.out_edges(node).iter().copied();
        edges.filter(|edge| executed(edge) && !on_path[edge.position()])
    };
    let joins = |node: DagNode| {
        let edges = graph.in_edges(node).iter().copied();
        edges.filter(|edge| executed(edge) && !on_path[edge.position()])
    };
    // Where something leaves or joins, and the cheapest edge of the path behind.
    let mut junctions: Vec<DagNode> = Vec::new();
    let mut behind: Vec<u64> = Vec::new();
    let first = path.first().map(|&edge| graph.source(edge));
    let nodes = first.into_iter().chain(path.iter().map(|&edge| graph.target(edge)));
    let taken = path.iter().map(|edge| counts[edge.position()]).chain([0]);
    for (node, taken) in nodes.zip(taken) {
        if leaves(node).next().is_some() || joins(node).next().is_some() {
            junctions.push(node);
            behind.push(taken);
        } else if let Some(least) = behind.last_mut() {
            *least = taken.min(*least);
        }
    }
    if junctions.len() > JUNCTIONS {
        return None;
    }
    let mut place = vec![usize::MAX; graph.node_count()];
    for (at, junction) in junctions.iter().enumerate() {
        place[junction.position()] = at;
    }
    let cut = |from: usize, to: usize| -> Option<u64> {
        let is_within = |node: DagNode| (from..=to).contains(&place[node.position()]);
        let is_on_path = |node: DagNode| place[node.position()] != usize::MAX;
        const SOURCE: usize = 0;
        const SINK: usize = 1;
        // Vertices of the network, as they are reached from the section.
        let mut number = vec![0; graph.node_count()];
        let mut reached: Vec<DagNode> = Vec::new();
        let mut arcs: Vec<(usize, usize, u64)> = Vec::new();
        let mut at = 0;
        let mut visit = |edge: Edge, from: usize, reached: &mut Vec<DagNode>| {
            let next = graph.target(edge);
            let to = if is_within(next) {
                SINK
            } else if is_on_path(next) {
                return;
            } else {
                if number[next.position()] == 0 {
                    reached.push(next);
                    number[next.position()] = reached.len() + 1;
                }
                number[next.position()]
            };
            arcs.push((from, to, counts[edge.position()]));
        };
        for &junction in &junctions[from..=to] {
            leaves(junction).for_each(|edge| visit(edge, SOURCE, &mut reached));
        }
        while at < reached.len() {
            leaves(reached[at]).for_each(|edge| visit(edge, at + 2, &mut reached));
            at += 1;
        }
        let mut network = Network::new(reached.len() + 2);
        for (from, to, capacity) in arcs {
            network.add(from, to, capacity.min(UNCUTTABLE / 4));
        }
        network.min_cut(SOURCE, SINK).map(|(cost, _)| cost)
    };
    let mut least = vec![u64::MAX; junctions.len() + 1];
    least[0] = 0;
    for from in 0..junctions.len() {
        for to in from..junctions.len() {
            let is_last = to + 1 == junctions.len();
            let labelled = if is_last { 0 } else { behind[to] };
            let cost = least[from].saturating_add(cut(from, to)?).saturating_add(labelled);
            least[to + 1] = least[to + 1].min(cost);
        }
    }
    Some(least[junctions.len()])
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use backtrail_testkit::random_graph::{self, Node, SHAPES};
    use backtrail_testkit::slow_graph;

    use super::*;

    /// The cheapest labels by trying all sets of edges, each label a power of
    /// two: by path, what it costs to tell it from all others.
    fn by_brute_force(paths: &[Vec<Edge>], counts: &[u64]) -> Vec<u64> {
        let costly: Vec<usize> = (0..counts.len()).filter(|&edge| counts[edge] > 0).collect();
        let mut least = vec![u64::MAX; paths.len()];
        for chosen in 0..1u32 << costly.len() {
            let picked = costly.iter().enumerate().filter(|(bit, _)| chosen >> bit & 1 == 1);
            let cost: u64 = picked.map(|(_, &edge)| counts[edge]).sum();
            let label = |edge: &Edge| match costly.iter().position(|&it| it == edge.position()) {
                Some(bit) => u64::from(chosen >> bit & 1) << edge.position(),
                None => 1u64 << edge.position(),
            };
            let sums: Vec<u64> = paths.iter().map(|path| path.iter().map(label).sum()).collect();
            let mut times: BTreeMap<u64, usize> = BTreeMap::new();
            sums.iter().for_each(|&sum| *times.entry(sum).or_default() += 1);
            for (least, sum) in least.iter_mut().zip(&sums) {
                if times[sum] == 1 {
                    *least = cost.min(*least);
                }
            }
        }
        least
    }

    #[test]
    fn the_least_is_what_brute_force_finds() {
        let mut compared = 0;
        for seed in 0..1500 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let shape = SHAPES[seed as usize % SHAPES.len()];
            let graph = random_graph::graph(seed, shape, rng.usize(2..9));
            let dag = PathDag::new(&graph, Node::new(0));
            let edges = dag.graph().edge_count();
            let Some(paths) = slow_graph::paths(&dag, 60) else { continue };
            let mut counts: Vec<u64> = (0..edges).map(|_| rng.u64(0..9)).collect();
            let executed = |counts: &[u64]| counts.iter().filter(|&&count| count > 0).count();
            while executed(&counts) > 10 {
                counts[rng.usize(0..edges)] = 0;
            }
            if edges > 60 {
                continue;
            }
            let expected = by_brute_force(&paths, &counts);
            for (path, &expected) in paths.iter().zip(&expected) {
                assert_eq!(least_alone(&dag, &counts, path), Some(expected), "seed {seed}");
                compared += usize::from(expected > 0);
            }
            let most = expected.into_iter().max().unwrap_or(0);
            assert!(dearest(&dag, &counts) <= most, "seed {seed}");
        }
        assert!(compared > 1000, "{compared} paths cost something");
    }
}
