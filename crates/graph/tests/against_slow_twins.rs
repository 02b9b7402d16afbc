//! Every algorithm against its slow twin, on random graphs of every shape.

use std::collections::BTreeSet;

use backtrail_graph::path_dag::{DagEdge, DagNode};
use backtrail_graph::{
    Components, DepthFirst, Digraph, Dominators, Edge, EdgeKind, Index, PathCount, PathDag,
};
use backtrail_testkit::random_graph::{Node, SHAPES, Shape, graph};
use backtrail_testkit::slow_graph;
use proptest::prelude::*;

fn any_graph(nodes: usize) -> impl Strategy<Value = Digraph<Node>> {
    (any::<u64>(), 0..SHAPES.len(), 1..nodes)
        .prop_map(|(seed, shape, size)| graph(seed, SHAPES[shape], size))
}

const ROOT: usize = 0;

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, failure_persistence: None, ..Default::default() })]

    #[test]
    fn depth_first_search_tells_what_each_edge_is(graph in any_graph(24)) {
        let root = Node::new(ROOT);
        let search = DepthFirst::new(&graph, root);
        let reached = slow_graph::reached(&graph, root, None);
        prop_assert_eq!(search.preorder().iter().copied().collect::<BTreeSet<_>>(), reached.clone());
        prop_assert_eq!(search.preorder().len(), search.postorder().len());
        prop_assert!(search.reverse_postorder().next() == Some(root));
        for node in graph.nodes() {
            prop_assert_eq!(search.is_reached(node), reached.contains(&node));
            if let Some(number) = search.preorder_number(node) {
                prop_assert_eq!(search.preorder()[number], node);
            }
            let tree_edge = search.tree_edge(node);
            prop_assert_eq!(tree_edge.is_some(), reached.contains(&node) && node != root);
            prop_assert!(tree_edge.is_none_or(|edge| search.kind(edge) == EdgeKind::Tree));
        }
        for edge in graph.edges() {
            let (from, to) = (graph.source(edge), graph.target(edge));
            // The nodes above `from` in the tree, `from` included.
            let tree_edge = |&node: &Node| search.tree_edge(node).map(|edge| graph.source(edge));
            let above = |node| std::iter::successors(Some(node), tree_edge).collect::<Vec<_>>();
            let expected = if !reached.contains(&from) {
                EdgeKind::Unreached
            } else if search.tree_edge(to) == Some(edge) {
                EdgeKind::Tree
            } else if above(from).contains(&to) {
                EdgeKind::Retreating
            } else if above(to).contains(&from) {
                EdgeKind::Forward
            } else {
                EdgeKind::Cross
            };
            prop_assert_eq!(search.kind(edge), expected, "{}", edge);
            if let (Some(from), Some(to)) = (search.postorder_number(from), search.postorder_number(to)) {
                prop_assert_eq!(to >= from, expected == EdgeKind::Retreating, "{}", edge);
            }
        }
    }

    #[test]
    fn without_retreating_edges_nothing_is_cyclic(graph in any_graph(16)) {
        let root = Node::new(ROOT);
        let retreating = DepthFirst::new(&graph, root).retreating_edges().collect();
        prop_assert!(!slow_graph::has_cycle(&graph, root, &retreating));
    }

    #[test]
    fn dominators_agree_with_the_definition(graph in any_graph(20)) {
        let root = Node::new(ROOT);
        let dominators = Dominators::new(&graph, root);
        for a in graph.nodes() {
            prop_assert_eq!(dominators.immediate(a), slow_graph::immediate_dominator(&graph, root, a), "{}", a);
            prop_assert_eq!(dominators.is_reached(a), slow_graph::reached(&graph, root, None).contains(&a));
            for b in graph.nodes() {
                let expected = slow_graph::dominates(&graph, root, a, b);
                prop_assert_eq!(dominators.dominates(a, b), expected, "{} {}", a, b);
            }
        }
    }

    #[test]
    fn components_agree_with_the_definition(graph in any_graph(20)) {
        let components = Components::new(&graph);
        for a in graph.nodes() {
            prop_assert!(components.members(components.of(a)).contains(&a));
            for b in graph.nodes() {
                let same = components.of(a) == components.of(b);
                prop_assert_eq!(same, slow_graph::connected(&graph, a, b), "{} {}", a, b);
            }
        }
        prop_assert_eq!(components.indices().map(|c| components.members(c).len()).sum::<usize>(), graph.node_count());
        for edge in graph.edges() {
            prop_assert!(components.of(graph.target(edge)) <= components.of(graph.source(edge)));
        }
    }

    #[test]
    fn path_counts_agree_with_enumeration(graph in any_graph(12)) {
        let dag = PathDag::new(&graph, Node::new(ROOT));
        let Some(paths) = slow_graph::paths(&dag, 5_000) else {
            prop_assert!(!dag.path_count().is_at_most(5_000));
            return Ok(());
        };
        prop_assert_eq!(dag.path_count(), PathCount::Exact(paths.len() as u128));
        // Every node that takes part is on a path, and no other.
        let on_paths: BTreeSet<DagNode> = paths.iter().flatten()
            .flat_map(|&edge| [dag.graph().source(edge), dag.graph().target(edge)]).collect();
        prop_assert_eq!(on_paths, dag.reverse_topological().iter().copied().collect());
        for (node, count) in dag.graph().nodes().zip(dag.path_counts()) {
            let takes_part = dag.reverse_topological().contains(&node);
            prop_assert_eq!(count != PathCount::Exact(0), takes_part, "{}", node);
        }
    }

    /// The paths of the acyclic graph are the pieces of the walks: built from
    /// the control-flow graph without any acyclic graph.
    #[test]
    fn paths_are_the_pieces_of_walks(graph in any_graph(10)) {
        let first = Node::new(ROOT);
        let dag = PathDag::new(&graph, first);
        prop_assume!(dag.path_count().is_at_most(2_000));
        let retreating = DepthFirst::new(&graph, first).retreating_edges().collect();
        let mut pieces = BTreeSet::new();
        for path in slow_graph::paths(&dag, 2_000).unwrap() {
            let kinds: Vec<DagEdge> = path.iter().map(|&edge| dag.kind(edge)).collect();
            let start = Node::new(dag.graph().target(path[0]).position());
            let at_entry = match kinds[0] {
                DagEdge::Enter => true,
                DagEdge::LoopStart => false,
                other => panic!("a path begins with {other:?}"),
            };
            let end = match kinds[kinds.len() - 1] {
                DagEdge::Leave => None,
                DagEdge::LoopEnd(edge) => Some(edge),
                other => panic!("a path ends with {other:?}"),
            };
            let flow = |kind: &DagEdge| match kind {
                DagEdge::Flow(edge) => *edge,
                other => panic!("{other:?} within a path"),
            };
            let between: Vec<Edge> = kinds[1..kinds.len() - 1].iter().map(flow).collect();
            prop_assert!(pieces.insert((at_entry, start, between, end)), "a path twice");
        }
        prop_assert_eq!(pieces, slow_graph::walked_pieces(&graph, first, &retreating));
    }
}

/// The generators make what they promise: without this, a test could pass for
/// lack of anything interesting.
#[test]
fn random_graphs_are_varied() {
    let is_reducible = |graph: &Digraph<Node>| {
        let dominators = Dominators::new(graph, Node::new(ROOT));
        let search = DepthFirst::new(graph, Node::new(ROOT));
        search
            .retreating_edges()
            .all(|edge| dominators.dominates(graph.target(edge), graph.source(edge)))
    };
    let all = |shape| (0..200).map(move |seed| graph(seed, shape, 12));
    assert!(all(Shape::Reducible).all(|graph| is_reducible(&graph)));
    assert!(all(Shape::Any).filter(|graph| !is_reducible(graph)).count() > 20);
    let edge_pairs = |graph: &Digraph<Node>| {
        graph.edges().map(|edge| (graph.source(edge), graph.target(edge))).collect::<Vec<_>>()
    };
    for shape in SHAPES {
        let parallel = |graph: &Digraph<Node>| {
            edge_pairs(graph).iter().collect::<BTreeSet<_>>().len() < graph.edge_count()
        };
        let unreached = |graph: &Digraph<Node>| {
            slow_graph::reached(graph, Node::new(ROOT), None).len() < graph.node_count()
        };
        assert!(all(shape).filter(parallel).count() > 10, "{shape:?}");
        assert!(all(shape).filter(unreached).count() > 10, "{shape:?}");
    }
    for shape in [Shape::Reducible, Shape::Any] {
        let self_loop = |graph: &Digraph<Node>| edge_pairs(graph).iter().any(|(a, b)| a == b);
        assert!(all(shape).filter(self_loop).count() > 10, "{shape:?}");
    }
    assert!(all(Shape::Acyclic).all(|graph| !slow_graph::has_cycle(
        &graph,
        Node::new(ROOT),
        &BTreeSet::new()
    )));
}

/// Deep graphs must not exhaust the stack, and take linear time.
#[test]
fn a_long_chain_needs_no_recursion() {
    let length = 500_000;
    let forward = (1..length).map(|i| (Node::new(i - 1), Node::new(i)));
    let backward = (1..length).map(|i| (Node::new(i), Node::new(i - 1)));
    let graph = Digraph::new(length, forward.chain(backward));
    let dominators = Dominators::new(&graph, Node::new(ROOT));
    assert_eq!(dominators.immediate(Node::new(length - 1)), Some(Node::new(length - 2)));
    assert_eq!(Components::new(&graph).count(), 1);
    // Enter, or one of `length - 1` loop heads; from n the ends are the
    // `length - 1 - n` retreating edges at or below, n's own included.
    let dag = PathDag::new(&graph, Node::new(ROOT));
    let from = |n: usize| (length - n.max(1)) as u128;
    let expected = from(0) + (0..length - 1).map(from).sum::<u128>();
    assert_eq!(dag.path_count(), PathCount::Exact(expected));
}
