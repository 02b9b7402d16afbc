//! What no plan of so many runs can stay below.
//!
//! Weights are how often places were passed in one execution that ended, and a
//! plan is one that the check accepts ([`crate::realizability`]), with one profile
//! per run. (With weights that were guessed, this is arithmetic on guesses.) The
//! bound is the greater of two.
//!
//! # What one predicate takes
//! Let *p* be a node of a loop *Z* (a strongly connected part of a routine that
//! never runs twice at once), and *B* those of its ways, passed at least once,
//! that stay in *Z*; `c(i)` how often way *i* was taken, *T* their sum, *E* how
//! often *Z* was entered.
//!
//! *For any two ways of B there is a profile in which every passage from either
//! of them back to p meets a witness.* If some profile *k* has
//! `W_k(a) ∩ W_k(b) = ∅`, it is *k*: a passage from *a* to *p* without a witness
//! would give `W_k(a) ⊇ W_k(b)`, which is not empty. Otherwise the two share END
//! and nothing else in every profile. In a profile where one of them comes back
//! to *p* without a witness, its set includes the other's, which is thus {END};
//! so the other meets no witness before *p* either, and both sets are {END}. That
//! cannot be so in all profiles, or both would come to the end unseen.
//!
//! So the pairs of *B* are dealt out to profiles; a profile that has the ways
//! `Q_k` is hit at least `Σ_{i ∈ Q_k} c(i) − E` times, since passages do not
//! overlap, and a way that was taken comes back but for the last time after each
//! entry of *Z*. Let `L = max Σ_{i ∈ Q_k} c(i)`. Way *i* has to meet all others in
//! the `r(i)` profiles it is in, hence `r(i) ≥ (T − c(i)) / (L − c(i))`, rounded
//! up; and `Σ r(i) · c(i) ≤ runs · L`. The least *L* for which this holds, less
//! *E*, is the bound. For a loop around a uniform dispatch to four it is 1 of what
//! one run costs with two runs, 0.67 with three, 0.5 with six: what brute force
//! finds.
//!
//! # What all runs take together
//! *All witnesses of a plan in one profile are a plan*: where a pair is told apart
//! in *k*, no place is reached from both ways without a witness of *k* (its own
//! first witnesses would be shared), so no added witness can be met first on both;
//! and where a pair shares only END, the same holds for the witnesses of all
//! profiles. So the runs together are hit at least as often as that one profile,
//! for which `obstacle_packing` has a bound; divided by the number of
//! runs.
//!
//! The cost of the best single run divided by the number of runs is a bound, too,
//! if that run is optimal; which is not proven, and not used here.
//!
//! Cost: a binary search per predicate, O(nodes) per loop and depth of nesting,
//! and the packing.

use backtrail_graph::{Components, Digraph, Index};

use crate::distribution::Costs;
use crate::icfg::{Icfg, Node, Routine, Way, WayKind};
use crate::obstacle_packing;

/// The least that the worst of `runs` runs can cost.
pub fn lower_bound(icfg: &Icfg, costs: &Costs, runs: usize) -> u64 {
    let runs = runs.max(1) as u64;
    let choices = find_choices(icfg, costs);
    let by_predicate = choices.iter().map(|ways| least_load(ways, runs)).max().unwrap_or(0);
    by_predicate.max(obstacle_packing::least_weight(icfg, costs).div_ceil(runs))
}

/// The ways of a predicate that stay in its loop.
struct Choices {
    counts: Vec<u64>,
    /// How often the loop was entered, at most.
    entries: u64,
}

fn local_target(icfg: &Icfg, way: Way) -> Option<Node> {
    match icfg.ways()[way].kind {
        WayKind::Step(to) | WayKind::Call { back: to, .. } => Some(to),
        _ => None,
    }
}

/// Routines that can be active more than once at a time.
fn recursive_routines(icfg: &Icfg) -> Vec<bool> {
    let calls = icfg.ways().values().filter_map(|way| match way.kind {
        WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
            Some((icfg.nodes()[way.from].routine, callee))
        }
        _ => None,
    });
    let calls: Vec<(Routine, Routine)> = calls.collect();
    let components = Components::new(&Digraph::new(icfg.routines().len(), calls.iter().copied()));
    let mut recursive = vec![false; icfg.routines().len()];
    for (caller, callee) in calls {
        if components.of(caller) == components.of(callee) {
            recursive[caller.position()] = true;
            recursive[callee.position()] = true;
        }
    }
    recursive
}

/// The predicates of all loops, each strongly connected part of a routine being
/// one, and each that is left of it without the nodes it is entered by.
fn find_choices(icfg: &Icfg, costs: &Costs) -> Vec<Choices> {
    let recursive = recursive_routines(icfg);
    let count = |node: Node| costs.weight(icfg.place_of_node(node));
    // Frames that are left, and the one that the run ended in, do not come back.
    let dropped = 1 + icfg.landings().iter().map(|&node| count(node)).sum::<u64>();
    let mut found = Vec::new();
    let mut waiting: Vec<Vec<Node>> = icfg
        .routines()
        .iter()
        .filter(|(routine, _)| !recursive[routine.position()])
        .map(|(_, data)| data.nodes.clone())
        .collect();
    while let Some(nodes) = waiting.pop() {
        for nodes in strong_parts(icfg, &nodes) {
            let is_inside = |way: Way| {
                local_target(icfg, way).is_some_and(|to| nodes.binary_search(&to).is_ok())
            };
            let ways = || nodes.iter().flat_map(|&node| icfg.ways_of(node));
            let weight = |way: Way| costs.weight(icfg.place_of_way(way));
            let arrivals: u64 = nodes.iter().map(|&node| count(node)).sum();
            let within: u64 = ways().filter(|&way| is_inside(way)).map(weight).sum();
            let entries = arrivals.saturating_sub(within) + dropped;
            let choices = |&node: &Node| {
                let inside = icfg.ways_of(node).filter(|&way| is_inside(way));
                let counts: Vec<u64> = inside.map(weight).filter(|&count| count > 0).collect();
                (counts.len() > 1).then_some(Choices { counts, entries })
            };
            found.extend(nodes.iter().filter_map(choices));
            // What is left without the nodes it is entered by are inner loops.
            let enters = |node: Node| {
                let routine = &icfg.routines()[icfg.nodes()[node].routine];
                let from_outside = routine.nodes.iter().any(|&from| {
                    nodes.binary_search(&from).is_err()
                        && icfg.ways_of(from).any(|way| local_target(icfg, way) == Some(node))
                });
                routine.entry == node || from_outside || icfg.nodes()[node].landing
            };
            let inner: Vec<Node> = nodes.iter().copied().filter(|&node| !enters(node)).collect();
            if inner.len() < nodes.len() {
                waiting.push(inner);
            }
        }
    }
    found
}

/// The parts of these nodes, of one routine, whose nodes can all reach each other
/// and themselves.
fn strong_parts(icfg: &Icfg, nodes: &[Node]) -> Vec<Vec<Node>> {
    let local = |node: Node| nodes.binary_search(&node).ok().map(Node::new);
    let edges: Vec<(Node, Node)> = nodes
        .iter()
        .enumerate()
        .flat_map(|(from, &node)| {
            let targets = icfg.ways_of(node).filter_map(|way| local(local_target(icfg, way)?));
            targets.map(move |to| (Node::new(from), to)).collect::<Vec<_>>()
        })
        .collect();
    let components = Components::new(&Digraph::new(nodes.len(), edges.iter().copied()));
    let mut has_edge = vec![false; components.count()];
    for (from, to) in edges {
        if components.of(from) == components.of(to) {
            has_edge[components.of(from).position()] = true;
        }
    }
    let parts = components.indices().filter(|part| has_edge[part.position()]);
    parts
        .map(|part| components.members(part).iter().map(|it| nodes[it.position()]).collect())
        .collect()
}

/// The least load of the worst run that tells these ways apart.
fn least_load(choices: &Choices, runs: u64) -> u64 {
    let counts = &choices.counts;
    let total: u64 = counts.iter().sum();
    let mut sorted = counts.clone();
    sorted.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let suffices = |load: u64| {
        let needed: u128 = counts
            .iter()
            .map(|&count| {
                let times = (total - count).div_ceil(load - count).max(1);
                u128::from(times) * u128::from(count)
            })
            .sum();
        needed <= u128::from(runs) * u128::from(load)
    };
    // The two heaviest meet somewhere; one run has them all.
    let (mut low, mut high) = (sorted[0] + sorted[1], total);
    while low < high {
        let middle = low + (high - low) / 2;
        if suffices(middle) { high = middle } else { low = middle + 1 }
    }
    low.saturating_sub(choices.entries)
}
