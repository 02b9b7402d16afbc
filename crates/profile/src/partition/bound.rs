//! What no partition of a program's paths can do without, on a given run.
//!
//! Let a copy count a set of a function's paths, by any labels on the edges of
//! its graph such that each path of the set has a sum of its own, and let a hit
//! be the execution of an edge whose label is not 0. Edges from ENTRY, to EXIT
//! and to a last block that is counted early are free: their labels are part of
//! an initial value or of a count.
//!
//! **The worst copy has at least total / k hits**, total being the least that
//! one copy which counts everything can do with. *Proof.* Let L₁ … L_k be the
//! labels of the copies, and M larger than any sum. Under L₁ + M·L₂ + M²·L₃ …
//! any two paths differ: one of them is counted by some copy i, where its sum is
//! its own, so Lᵢ tells them apart. So these labels would do for one copy, and
//! they are not 0 only where one of the Lᵢ is not. ∎ As total we take what the
//! plan for one copy does, whose labels are on the chords of the heaviest
//! spanning tree. *Assumption:* that no labels do better. (It can be wrong in
//! graphs in which different nodes branch to the same several nodes, where a
//! lucky choice of labels may do without one.)
//!
//! **Some copy has at least c(p) hits of a function, for each of its paths p**,
//! where c(p) is this: let p go through nodes u₁ ≤ v₁ ≤ u₂ ≤ v₂ …, and let there
//! be, besides p's, other ways from uᵢ to vᵢ, no two with an edge in common. Let
//! the width of a way be how often its least executed edge was executed, 0 if
//! one is free, aᵢ the width of p's way and bᵢ the sum of those of the others.
//! Then c(p) = Σ min(aᵢ, bᵢ). *Proof.* Some copy counts p, and tells it from the
//! path that takes another way between uᵢ and vᵢ. So either an edge of p in
//! between has a label, and was executed aᵢ times or more, or one of each other
//! way has: together these were executed bᵢ times or more. For different i these
//! are different edges, because all edges between uᵢ and vᵢ lie before vᵢ ≤ uⱼ
//! in the order of the graph. ∎ So a chain of conditionals cannot be divided:
//! the path through all of them has to be counted somewhere. A `switch` can,
//! down to its hottest case.
//!
//! For the paths over the most executed edges, the least is computed exactly
//! (module `alone`), which is more where ways cross.
//!
//! **Functions are such things to be packed.** Each has its c = max c(p), which
//! lies in one copy: of the k + 1 largest, two are in one.
//!
//! **A `switch` that is divided costs its hottest case, too.** Let W be the sum
//! of the widths of several ways between two nodes, no two with an edge in
//! common, and a the greatest. Then some copy has at least W − a hits between
//! the two, or all copies together at least W. *Proof.* Choose a path over each
//! way that is the same before and behind; some copy counts it. Of the ways
//! that have no label in a copy, none has its path counted there unless there is
//! only one: their paths have the same sum. So in a copy either all ways but one
//! have a label, or all whose paths it counts; in the second case for all
//! copies, each way has a label somewhere. ∎ With h the hits of the function in
//! a copy that counts everything, the worst copy has at least
//! min(max(W − a, total / k), (total − h + max(h, W)) / k) hits.
//!
//! Finding all this costs O(nodes · edges) of what was executed, and
//! `REGIONS` times `WAYS` searches for a way in a function.

use std::cmp::Reverse;

use backtrail_graph::path_dag::{DagEdge, DagNode};
use backtrail_graph::{Edge, Index, PathDag};
use backtrail_plan::Place;

use crate::partition::alone;
use crate::partition::cost::{Executed, Run, cost_of, saved};
use crate::partition::interest::Interest;
use crate::partition::program::{CountedFunction, ProgramPaths};

/// The most pairs of nodes of a function between which ways are looked for, and
/// the most ways.
const REGIONS: usize = 128;
const WAYS: usize = 128;

/// What no partition can do without on a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bound {
    /// The hits of one copy that counts everything.
    pub total: u64,
    /// The functions that were executed and have something that cannot be
    /// divided, the largest first.
    pub functions: Vec<Indivisible>,
}

/// What a function cannot be without.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Indivisible {
    /// The function's place in the program.
    pub function: usize,
    /// Its hits in a copy that counts everything.
    pub whole: u64,
    /// c = max c(p).
    pub hits: u64,
    /// W and a of the ways between two of its nodes.
    pub parted: (u64, u64),
}

impl Bound {
    /// The bound for `program` on `run`.
    pub fn new(program: &ProgramPaths<'_>, run: &Run) -> Self {
        let (mut total, mut functions) = (0u64, Vec::new());
        for (number, function) in program.functions().iter().enumerate() {
            let Some(executed) = run.executed(function) else { continue };
            let whole = cost_of(function, &Interest::Whole, executed).hits;
            total = total.saturating_add(whole);
            if whole > 0 {
                let found = indivisible(function, executed);
                functions.push(Indivisible { function: number, whole, ..found });
            }
        }
        functions.sort_by_key(|it| (Reverse(it.hits), it.function));
        Self { total, functions }
    }

    /// The least hits of the worst of `copies`.
    pub fn worst_copy(&self, copies: usize) -> u64 {
        let share = |total: u64| total.div_ceil(copies as u64);
        let at = |place: usize| self.functions.get(place).map_or(0, |it| it.hits);
        let packed = at(0).max(at(copies - 1) + at(copies));
        let parted = self.functions.iter().map(|it| {
            let (sum, widest) = it.parted;
            let divided = share(self.total - it.whole + it.whole.max(sum));
            divided.min(share(self.total).max(sum - widest))
        });
        share(self.total).max(packed).max(parted.max().unwrap_or(0)).min(self.total)
    }

    /// The greatest share of the hits of one copy that can be saved.
    pub fn saving(&self, copies: usize) -> f64 {
        saved(self.total, self.worst_copy(copies))
    }
}

/// What a function cannot be without.
pub fn indivisible(function: &CountedFunction<'_>, executed: &Executed) -> Indivisible {
    let plan = function.plan();
    let (dag, graph) = (plan.dag(), plan.dag().graph());
    let body = &function.unit.functions[function.function];
    let flow = plan.graph();
    let count = |edge: Edge| match dag.kind(edge) {
        DagEdge::Flow(_) if plan.is_where_paths_are_counted(edge) => 0,
        DagEdge::Flow(it) => {
            let (from, to) = (flow.flow.source(it), flow.flow.target(it));
            let place = Place::Edge { from: flow.block(from), to: flow.block(to) };
            executed.at(body, place)
        }
        _ => 0,
    };
    let counts: Vec<u64> = graph.edges().map(count).collect();
    if counts.iter().all(|&count| count == 0) {
        return Indivisible::default();
    }
    let topological: Vec<_> = dag.reverse_topological().iter().rev().copied().collect();
    // By node, the greatest sum of what was passed on a path so far.
    let mut best = vec![0u64; graph.node_count()];
    let mut regions = REGIONS;
    let mut indivisible = Indivisible::default();
    for (place, &node) in topological.iter().enumerate() {
        let here = best[node.position()];
        for &edge in graph.out_edges(node) {
            let there = &mut best[graph.target(edge).position()];
            *there = (*there).max(here);
        }
        let taken = graph.out_edges(node).iter().filter(|edge| counts[edge.position()] > 0);
        if taken.count() < 2 {
            continue;
        }
        let ways = widest_ways(dag, &topological[place..], &counts);
        let mut joins: Vec<(u64, u64, DagNode)> = Vec::new();
        for &at in &topological[place..] {
            let [(first, _), (second, _)] = ways[at.position()];
            if second > 0 {
                let there = &mut best[at.position()];
                *there = (*there).max(here + second);
                joins.push((first, second, at));
            }
        }
        // Where there may be more than one other way.
        joins.sort_by_key(|&(first, second, at)| (Reverse(first + second), at));
        for &(_, _, at) in joins.iter().take(3) {
            if regions == 0 {
                break;
            }
            regions -= 1;
            let widths = disjoint_ways(dag, &counts, &topological[place..], at);
            let (widest, sum) = (widths[0], widths.iter().sum::<u64>());
            let there = &mut best[at.position()];
            *there = (*there).max(here + widest.min(sum - widest));
            let worth = |(sum, widest): (u64, u64)| (sum - widest).min(sum / 2);
            if worth((sum, widest)) > worth(indivisible.parted) {
                indivisible.parted = (sum, widest);
            }
        }
    }
    indivisible.hits = best[dag.exit().position()].max(alone::dearest(dag, &counts));
    indivisible
}

/// A way from a node: how often its least executed edge was executed, and its
/// first edge.
type Way = (u64, Option<Edge>);

/// By node, the two widest ways from the first of `nodes`, which are in
/// topological order, that begin with different edges.
fn widest_ways(dag: &PathDag, nodes: &[DagNode], counts: &[u64]) -> Vec<[Way; 2]> {
    let graph = dag.graph();
    let mut ways: Vec<[Way; 2]> = vec![[(0, None); 2]; graph.node_count()];
    let start = nodes[0];
    let mut open = 1usize;
    let mut is_reached = vec![false; graph.node_count()];
    is_reached[start.position()] = true;
    for &at in nodes {
        if open == 0 {
            break;
        }
        if !is_reached[at.position()] {
            continue;
        }
        open -= 1;
        for &edge in graph.out_edges(at) {
            let width = counts[edge.position()];
            if width == 0 {
                continue;
            }
            let next = graph.target(edge).position();
            let arriving = match at == start {
                true => [(width, Some(edge)), (0, None)],
                false => ways[at.position()].map(|(way, first)| (way.min(width), first)),
            };
            for way in arriving.into_iter().filter(|way| way.0 > 0) {
                insert_way(&mut ways[next], way);
            }
            if !std::mem::replace(&mut is_reached[next], true) {
                open += 1;
            }
        }
    }
    ways
}

/// The widths of ways between two nodes, no two with an edge in common: the
/// widest, then the widest without its edges, and so on.
fn disjoint_ways(dag: &PathDag, counts: &[u64], nodes: &[DagNode], to: DagNode) -> Vec<u64> {
    let graph = dag.graph();
    let from = nodes[0];
    let nodes = &nodes[..nodes.iter().position(|&it| it == to).map_or(nodes.len(), |it| it + 1)];
    let mut left = counts.to_vec();
    let mut widths = Vec::new();
    while widths.len() < WAYS {
        let mut width = vec![0u64; graph.node_count()];
        let mut came_by: Vec<Option<Edge>> = vec![None; graph.node_count()];
        width[from.position()] = u64::MAX;
        for &at in nodes.iter().filter(|&&at| at != to) {
            for &edge in graph.out_edges(at) {
                let through = left[edge.position()].min(width[at.position()]);
                let next = graph.target(edge).position();
                if through > width[next] {
                    width[next] = through;
                    came_by[next] = Some(edge);
                }
            }
        }
        if width[to.position()] == 0 {
            break;
        }
        widths.push(width[to.position()]);
        let mut at = to;
        while let Some(edge) = came_by[at.position()].filter(|_| at != from) {
            left[edge.position()] = 0;
            at = graph.source(edge);
        }
    }
    widths
}

/// Keeps the two widest ways that begin differently.
fn insert_way(ways: &mut [Way; 2], way: Way) {
    if ways[0].1 == way.1 {
        ways[0].0 = ways[0].0.max(way.0);
    } else if way.0 > ways[0].0 {
        ways[1] = ways[0];
        ways[0] = way;
    } else if ways[1].1 == way.1 || way.0 > ways[1].0 {
        ways[1] = (ways[1].0.max(way.0), way.1);
    }
}
