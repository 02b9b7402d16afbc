//! Labels for paths of interest, against enumeration.
//!
//! `BACKTRAIL_DAGS` sets how many random graphs are tried
//! (`cargo xtask fuzz partition` tries 100,000).

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{
    Edge, EdgeSet, Index, PathDag, PathIncrements, PathNumbering, SelectiveLabels,
};
use backtrail_testkit::random_graph::{Node, SHAPES, graph};
use backtrail_testkit::slow_graph;
use fastrand::Rng;

/// More paths are not enumerated.
const ENUMERATED: usize = 600;

/// How many graphs the suite tries.
const GRAPHS: u64 = 3000;

struct Case {
    dag: PathDag,
    paths: Vec<Vec<Edge>>,
    interesting: EdgeSet,
    uncounted: EdgeSet,
    weights: Vec<u64>,
}

impl Case {
    /// A random graph, perhaps with cuts, and random edges of interest: mostly
    /// those of some paths, sometimes any. `None` if it has too many paths.
    fn new(seed: u64) -> Option<Self> {
        let mut rng = Rng::with_seed(seed);
        let shape = SHAPES[rng.usize(..SHAPES.len())];
        let cfg = graph(rng.u64(..), shape, rng.usize(1..14));
        let mut cuts = BTreeSet::new();
        if rng.u8(..4) == 0 {
            cuts = cfg.edges().filter(|_| rng.u8(..6) == 0).collect();
        }
        let dag = PathDag::with_cuts(&cfg, Node::new(0), &cuts);
        let paths = slow_graph::paths(&dag, ENUMERATED)?;
        let edges = dag.graph().edge_count();
        let mut interesting = EdgeSet::none(edges);
        match rng.u8(..8) {
            0 => interesting = EdgeSet::all(edges),
            1 => {
                let share = rng.u8(1..10);
                dag.graph()
                    .edges()
                    .filter(|_| rng.u8(..10) < share)
                    .for_each(|it| interesting.insert(it));
            }
            _ => {
                for _ in 0..rng.usize(1..5) {
                    paths[rng.usize(..paths.len())].iter().for_each(|&it| interesting.insert(it));
                }
            }
        }
        // Edges to EXIT that are not of interest need not be counted, nor
        // others that are not.
        let mut uncounted = EdgeSet::none(edges);
        if rng.bool() {
            let share = rng.u8(1..10);
            let free = dag.graph().edges().filter(|&edge| !interesting.contains(edge));
            for edge in free.filter(|_| rng.u8(..10) < share) {
                uncounted.insert(edge);
            }
        }
        let weights = (0..edges).map(|_| rng.u64(..1000)).collect();
        Some(Self { dag, paths, interesting, uncounted, weights })
    }

    fn is_interesting(&self, path: &[Edge]) -> bool {
        path.iter().all(|&edge| self.interesting.contains(edge))
    }

    fn is_counted(&self, path: &[Edge]) -> bool {
        !path.iter().any(|&edge| self.uncounted.contains(edge))
    }

    /// Whether a sum tells every path of interest from every counted path.
    fn tells_apart(&self, sum: impl Fn(&[Edge]) -> u64) -> bool {
        let mut sums: BTreeMap<u64, (usize, bool)> = BTreeMap::new();
        for path in self.paths.iter().filter(|path| self.is_counted(path)) {
            let entry = sums.entry(sum(path)).or_default();
            entry.0 += 1;
            entry.1 |= self.is_interesting(path);
        }
        sums.values().all(|&(paths, any)| paths == 1 || !any)
    }
}

fn sum_of(labels: &[u64]) -> impl Fn(&[Edge]) -> u64 {
    |path| path.iter().map(|edge| labels[edge.position()]).sum()
}

/// Brings the interesting edges of a node into an order.
type Order<'a> = &'a dyn Fn(&mut Vec<(Edge, u64)>);

/// The three steps as they are published, the interesting edges of a node in
/// the order that `order` brings them into: (edge, least value behind it).
fn published(case: &Case, order: Order<'_>) -> Vec<u64> {
    let (dag, graph) = (&case.dag, case.dag.graph());
    let mut values = vec![0u64; graph.edge_count()];
    let mut paths = BTreeMap::from([(dag.exit(), 1u64)]);
    let mut least = BTreeMap::from([(dag.exit(), 0u64)]);
    for &node in &dag.reverse_topological()[1..] {
        let (mut chosen, mut sorted): (Vec<Edge>, Vec<Edge>) =
            graph.out_edges(node).iter().partition(|&&edge| case.interesting.contains(edge));
        let mut with_least: Vec<(Edge, u64)> = chosen
            .drain(..)
            .map(|edge| (edge, least.get(&graph.target(edge)).copied().unwrap_or(u64::MAX)))
            .collect();
        order(&mut with_least);
        sorted.extend(with_least.iter().map(|(edge, _)| edge));
        let mut before = 0;
        for edge in sorted {
            values[edge.position()] = before;
            if let Some(behind) = least.get(&graph.target(edge)).copied()
                && case.interesting.contains(edge)
            {
                let here = least.entry(node).or_insert(u64::MAX);
                *here = (*here).min(behind + before);
            }
            before += paths[&graph.target(edge)];
        }
        paths.insert(node, before);
    }
    for &node in dag.reverse_topological().iter().rev() {
        if let &[only] = graph.in_edges(node)
            && node != dag.exit()
        {
            let moved = std::mem::take(&mut values[only.position()]);
            graph.out_edges(node).iter().for_each(|edge| values[edge.position()] += moved);
        }
    }
    let others = graph.edges().filter(|&edge| !case.interesting.contains(edge));
    others.for_each(|edge| values[edge.position()] = 0);
    values
}

/// Everything that must hold of one case.
fn check(case: &Case) {
    let labels = SelectiveLabels::new(&case.dag, &case.interesting, &case.uncounted).unwrap();
    let sum = sum_of(labels.labels());
    assert!(case.tells_apart(&sum), "an interesting path shares its sum");
    let mut sums_of_interest = BTreeSet::new();
    for path in &case.paths {
        let its = sum(path);
        if case.is_interesting(path) {
            assert_eq!(labels.path(&case.dag, its).as_ref(), Some(path));
            assert!(sums_of_interest.insert(its));
        } else if case.is_counted(path) {
            assert_eq!(labels.path(&case.dag, its), None, "an uninteresting path is taken for one");
        }
        assert!(its < labels.count() || !case.is_counted(path), "a sum is out of bounds");
    }
    for number in 0..labels.count() + 3 {
        let found = labels.path(&case.dag, number).is_some();
        assert_eq!(found, sums_of_interest.contains(&number));
    }
    // Labels are on interesting edges alone.
    for edge in case.dag.graph().edges() {
        assert!(labels.label(edge) == 0 || case.interesting.contains(edge));
    }
    if case.interesting.is_all() {
        let numbering = PathNumbering::new(&case.dag).unwrap();
        assert_eq!(labels.count(), numbering.count());
        assert_eq!(sums_of_interest.len() as u64, numbering.count());
    }
    check_moved(case, labels.labels());
    let unpropagated = labels.unpropagated();
    assert!(case.tells_apart(sum_of(&unpropagated)), "an interesting path shares its sum");
    for path in case.paths.iter().filter(|path| case.is_counted(path)) {
        let its = sum_of(&unpropagated)(path);
        assert!(its < labels.count());
        assert!(its == sum(path) || !case.is_interesting(path));
        assert_eq!(labels.path(&case.dag, its).is_some(), case.is_interesting(path));
    }
    check_moved(case, &unpropagated);
}

/// Moved labels keep the sum of every path, and the forced edges' zeros.
fn check_moved(case: &Case, labels: &[u64]) {
    let graph = case.dag.graph();
    let tree = PathIncrements::along_tree(&case.dag, labels, &case.weights, &[]);
    let flow = |edge: &Edge| matches!(case.dag.kind(*edge), DagEdge::Flow(_));
    let forced: Vec<Edge> =
        graph.edges().filter(flow).filter(|&edge| tree.increment(edge) == 0).step_by(3).collect();
    let agreed = PathIncrements::by_agreement(&case.dag, labels, &case.weights, &[]);
    for mut moved in [PathIncrements::unmoved(labels), tree, agreed] {
        let before = moved.weight(&case.weights);
        let kept: Vec<Edge> =
            forced.iter().copied().filter(|&it| moved.increment(it) == 0).collect();
        moved.improve(&case.dag, &case.weights, &kept);
        assert!(moved.weight(&case.weights) <= before);
        assert!(kept.iter().all(|&edge| moved.increment(edge) == 0));
        assert!(moved.keeps_sums(&case.dag, labels));
        for path in &case.paths {
            let add = |sum: i64, edge: &Edge| sum.wrapping_add(moved.increment(*edge));
            assert_eq!(path.iter().fold(0, add) as u64, sum_of(labels)(path));
        }
    }
}

fn amount() -> u64 {
    let wanted = std::env::var("BACKTRAIL_DAGS").ok();
    wanted.map_or(GRAPHS, |it| it.parse().expect("BACKTRAIL_DAGS is a number"))
}

/// So many cases, by seed.
fn cases(amount: u64) -> impl Iterator<Item = (u64, Case)> {
    (0..).filter_map(|seed| Some((seed, Case::new(seed)?))).take(amount as usize)
}

#[test]
fn every_interesting_path_has_a_sum_of_its_own_and_is_found_by_it() {
    for (seed, case) in cases(amount()) {
        let checked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| check(&case)));
        checked.unwrap_or_else(|_| panic!("seed {seed}"));
    }
}

#[test]
fn the_labels_are_the_published_ones_where_everything_is_counted() {
    for (_, mut case) in cases(amount() / 4) {
        case.uncounted = EdgeSet::none(case.uncounted.edge_count());
        // Edges that are on no interesting path are none, in ours.
        case.interesting =
            backtrail_graph::selective_labels::whole_paths(&case.dag, &case.interesting);
        let labels = SelectiveLabels::new(&case.dag, &case.interesting, &case.uncounted).unwrap();
        let expected = published(&case, &|edges| edges.sort_by_key(|it| std::cmp::Reverse(it.1)));
        assert_eq!(labels.labels(), expected);
    }
}

/// Selective path profiling takes the interesting edges in any order; if this
/// could not be seen, nothing above would mean much.
#[test]
fn the_older_selective_path_profiling_is_caught() {
    let caught = |order: Order<'_>| {
        let mut found = 0;
        for (_, mut case) in cases(1000) {
            case.uncounted = EdgeSet::none(case.uncounted.edge_count());
            found += u32::from(!case.tells_apart(sum_of(&published(&case, order))));
        }
        found
    };
    assert!(caught(&|_| ()) > 0, "the order of the graph");
    assert!(caught(&|edges| edges.reverse()) > 0, "the opposite order");
    assert!(caught(&|edges| edges.sort_by_key(|it| it.1)) > 0, "the order turned round");
    assert_eq!(caught(&|edges| edges.sort_by_key(|it| std::cmp::Reverse(it.1))), 0);
}
