//! Numbering, chords, cutting and finding paths, against enumeration.

use std::collections::BTreeSet;

use backtrail_graph::path_cuts::compute_cuts;
use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{Digraph, Edge, Index, PathDag, PathIncrements, PathNumbering};
use backtrail_testkit::random_graph::{Node, SHAPES, graph};
use backtrail_testkit::slow_graph;
use proptest::prelude::*;

fn any_graph(nodes: usize) -> impl Strategy<Value = Digraph<Node>> {
    (any::<u64>(), 0..SHAPES.len(), 1..nodes)
        .prop_map(|(seed, shape, size)| graph(seed, SHAPES[shape], size))
}

/// Too many paths to enumerate: the case is passed over, and there are more.
const ENUMERATED: usize = 3000;

fn weights(edges: usize, seed: u64) -> Vec<u64> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % 1000
    };
    (0..edges).map(|_| next()).collect()
}

/// Everything that must hold of the numbers of `dag`, whose paths are few.
fn check(dag: &PathDag, weights: &[u64], forced: &[Edge]) -> Result<(), TestCaseError> {
    let Some(paths) = slow_graph::paths(dag, ENUMERATED) else {
        return Err(TestCaseError::reject("too many paths to enumerate"));
    };
    let numbering = PathNumbering::new(dag).expect("few paths");
    let increments = PathIncrements::new(dag, &numbering, weights, forced);
    prop_assert_eq!(numbering.count(), paths.len() as u64);
    let mut numbers = BTreeSet::new();
    for path in &paths {
        let number: u64 = path.iter().map(|&edge| numbering.value(edge)).sum();
        prop_assert!(numbers.insert(number), "two paths have number {}", number);
        prop_assert!(number < numbering.count());
        let found = numbering.path(dag, number);
        prop_assert_eq!(found.as_ref(), Some(path));
        let sum = path.iter().fold(0i64, |sum, &edge| sum.wrapping_add(increments.increment(edge)));
        prop_assert_eq!(sum as u64, number);
    }
    prop_assert_eq!(numbering.path(dag, numbering.count()), None);
    for &edge in forced {
        prop_assert_eq!(increments.increment(edge), 0);
    }
    // A tree of n nodes, two of them joined from the start, has n − 2 edges:
    // at most the other edges have an increment.
    let nodes = dag.reverse_topological().len();
    let increasing = dag.graph().edges().filter(|&edge| increments.increment(edge) != 0).count();
    prop_assert!(increasing + nodes <= dag.graph().edge_count() + 2);
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, max_global_rejects: 20_000, ..Default::default() })]

    #[test]
    fn numbers_and_increments_name_every_path_once(graph in any_graph(12), seed in any::<u64>()) {
        let dag = PathDag::new(&graph, Node::new(0));
        check(&dag, &weights(dag.graph().edge_count(), seed), &[])?;
    }

    #[test]
    fn any_cuts_leave_the_numbers_exact(graph in any_graph(12), seed in any::<u64>()) {
        let chosen = weights(graph.edge_count(), seed);
        let cuts = graph.edges().filter(|edge| chosen[edge.position()] < 300).collect();
        let dag = PathDag::with_cuts(&graph, Node::new(0), &cuts);
        check(&dag, &weights(dag.graph().edge_count(), seed ^ 5), &[])?;
        // A cut edge is on no path, but ends one.
        for edge in dag.graph().edges() {
            if let DagEdge::Flow(flow) = dag.kind(edge) {
                prop_assert!(!cuts.contains(&flow));
            }
        }
    }

    #[test]
    fn a_star_of_forced_edges_needs_no_increment(graph in any_graph(12), seed in any::<u64>()) {
        let dag = PathDag::new(&graph, Node::new(0));
        // The edges of one block to different blocks close no cycle.
        let mut seen = BTreeSet::new();
        let star: Vec<Edge> = graph.nodes().max_by_key(|&node| graph.out_edges(node).len()).into_iter()
            .flat_map(|node| dag.graph().out_edges(Index::new(node.position())).to_vec())
            .filter(|&edge| matches!(dag.kind(edge), DagEdge::Flow(_)) && seen.insert(dag.graph().target(edge)))
            .collect();
        check(&dag, &weights(dag.graph().edge_count(), seed), &star)?;
    }

    #[test]
    fn cutting_reaches_the_limit(graph in any_graph(60), seed in any::<u64>(), bits in 0u32..12) {
        let limit = 1u64 << bits;
        let cuts = compute_cuts(&graph, Node::new(0), &weights(graph.edge_count(), seed), limit, &BTreeSet::new(), &BTreeSet::new());
        let count = PathDag::with_cuts(&graph, Node::new(0), &cuts).path_count();
        // With every edge cut, a path is an edge, a block that ends the
        // function, or the entry.
        let all: BTreeSet<Edge> = graph.edges().collect();
        let least = PathDag::with_cuts(&graph, Node::new(0), &all).path_count();
        prop_assert!(count.is_at_most(u128::from(limit).max(least.lower_bound() * 2)), "{} of {}", count, limit);
        let whole = PathDag::new(&graph, Node::new(0)).path_count();
        prop_assert!(!whole.is_at_most(u128::from(limit)) || cuts.is_empty());
    }
}

#[test]
fn a_function_of_2_to_the_100_paths_is_cut_to_a_few_pieces() {
    // A hundred branches in a row.
    let mut edges = Vec::new();
    for top in (0..100).map(|i| 3 * i) {
        for (from, to) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
            edges.push((Node::new(top + from), Node::new(top + to)));
        }
    }
    let graph = Digraph::new(301, edges);
    let cuts = compute_cuts(
        &graph,
        Node::new(0),
        &vec![1; graph.edge_count()],
        1 << 16,
        &BTreeSet::new(),
        &BTreeSet::new(),
    );
    let dag = PathDag::with_cuts(&graph, Node::new(0), &cuts);
    assert!(dag.path_count().is_at_most(1 << 16), "{}", dag.path_count());
    assert!(cuts.len() <= 24, "{} cuts", cuts.len());
    assert_eq!(PathNumbering::new(&PathDag::new(&graph, Node::new(0))), None);
}
