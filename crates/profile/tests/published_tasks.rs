//! The tasks of P3 on random graphs: no path is forgotten, and conditionals in a
//! row stay together.

use backtrail_graph::{Digraph, Index, PathDag};
use backtrail_profile::partition::published::compute_tasks;
use backtrail_testkit::random_graph::{Node, SHAPES, graph};
use backtrail_testkit::slow_graph;
use fastrand::Rng;

#[test]
fn every_path_lies_within_a_task() {
    let (mut split, mut all) = (0, 0);
    for seed in 0..4000 {
        let mut rng = Rng::with_seed(seed);
        let cfg = graph(rng.u64(..), SHAPES[rng.usize(..SHAPES.len())], rng.usize(1..16));
        let dag = PathDag::new(&cfg, Node::new(0));
        let Some(paths) = slow_graph::paths(&dag, 2000) else { continue };
        for copies in [1, 2, 4, 8] {
            let tasks = compute_tasks(&dag, copies);
            for path in &paths {
                let has = tasks.iter().any(|task| path.iter().all(|&edge| task.contains(edge)));
                assert!(has, "seed {seed}, {copies} copies: {path:?}");
            }
            split += usize::from(tasks.len() > 1);
            all += 1;
        }
    }
    assert!(split * 4 > all && split < all, "{split} of {all}");
}

/// Nodes by number, entered at the first.
fn dag(nodes: usize, edges: &[(usize, usize)]) -> PathDag {
    let edges = edges.iter().map(|&(from, to)| (Node::new(from), Node::new(to)));
    PathDag::new(&Digraph::new(nodes, edges), Node::new(0))
}

#[test]
fn a_run_of_conditionals_is_one_task() {
    // 0 → {1, 2} → 3 → {4} → 5, and 3 → 5: a diamond, then a triangle.
    let edges = [(0, 1), (0, 2), (1, 3), (2, 3), (3, 4), (3, 5), (4, 5)];
    assert_eq!(compute_tasks(&dag(6, &edges), 4).len(), 1);
    // A branch with a branch in it is none: its paths are tasks.
    let nested = [(0, 1), (0, 2), (1, 3), (1, 4), (3, 5), (4, 5), (5, 6), (2, 6)];
    assert_eq!(compute_tasks(&dag(7, &nested), 4).len(), 2);
    // Cases that return are tasks each.
    assert_eq!(compute_tasks(&dag(5, &[(0, 1), (0, 2), (0, 3), (0, 4)]), 4).len(), 4);
}
