//! How often the witnesses of a single profile are passed, at least: by folding
//! routines.
//!
//! Take a routine as a graph whose edges are its places: a node is an edge from
//! where it is entered to where it is left, ways join these. What a profile needs
//! is that no directed cycle, and no two different paths from a node to another,
//! are free of witnesses ([`crate::realizability`]; with one profile, that two
//! ways share only the end of the run does not help). Let `opt` be the weight of
//! the cheapest set that does it. Then
//!
//! - *two edges u→v*, of weights *x* ≤ *y*: one of them is in the set. Put one edge
//!   of weight *y* in their place, which is in the set if both were: what remains is
//!   a solution there, and costs at least *x* less. So `opt ≥ x + opt'`.
//! - *an edge u→u* is in the set: `opt = x + opt'` without it.
//! - *u→v→w*, where nothing else is at *v*: every cycle and every path has both or
//!   none, so one edge of the smaller weight does for both.
//! - *any vertex v*, with edges into it and out of it: in its place, an edge for each
//!   pair of these, which weighs the smaller of the shares that fall to it of both,
//!   as they are dealt out by how often edges are passed. Who takes an edge pays
//!   all its shares. Paths of the new graph are paths of the old one, and where two
//!   part or meet again at *v*, what has to be broken in the old one is less: so
//!   what solves the old one solves the new one.
//! - *any edge can be left out*: what has to be broken in the rest, has to be.
//!
//! With the first three alone, what structured code becomes is one edge, and the
//! sum is the optimum. Where code is not structured, the fourth one loses
//! something; vertices are taken in the order of how many pairs they have.
//!
//! The edge that is left of a routine, from its entry to its return, weighs what it
//! costs *in addition* to have a witness on all paths through it. That is what a
//! call of it weighs as an edge, dealt out to its call sites as they are passed:
//! whoever pays it pays all shares, and who does not leaves a path through the
//! routine free, for all sites. Calls within a recursion are left out.
//!
//! Cost: O(log) per edge that is made, a bounded number of them per vertex.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::Index;

use crate::distribution::Costs;
use crate::icfg::{Icfg, Place, Routine, Way, WayKind};

/// What cannot be a witness.
const NEVER: u64 = u64::MAX / 4;

/// The least weight of the witnesses of any plan with one profile.
pub(crate) fn least_weight(icfg: &Icfg, costs: &Costs) -> u64 {
    let order = callees_first(icfg, costs);
    let mut rank = vec![0; order.len()];
    for (number, routine) in order.iter().enumerate() {
        rank[routine.position()] = number;
    }
    let weight = |place: Place| match costs.is_observable(place) {
        true => costs.weight(place),
        false if costs.forced().binary_search(&place).is_ok() => costs.weight(place),
        false => NEVER,
    };
    let is_within = |way: Way, callee: Routine| {
        let caller = icfg.nodes()[icfg.ways()[way].from].routine;
        rank[caller.position()] <= rank[callee.position()]
    };
    // By routine: what its call sites pay together, and how often they are passed.
    let mut through = vec![0u64; icfg.routines().len()];
    let mut passed = vec![0u128; icfg.routines().len()];
    for (routine, data) in icfg.routines().iter() {
        let sites = data.callers.iter().filter(|&&way| !is_within(way, routine));
        let times = sites.map(|&way| u128::from(costs.weight(icfg.place_of_way(way))));
        passed[routine.position()] = times.sum();
    }
    let mut total = 0u64;
    // Callees come before callers.
    for routine in order {
        let data = &icfg.routines()[routine];
        let local = |node| data.nodes.binary_search(&node).ok();
        // A node is entered at an even vertex and left at the next.
        let exit = 2 * data.nodes.len();
        let entry = exit + 1;
        let mut folding = Folding::new(exit + 2, [entry, exit]);
        if let Some(first) = local(data.entry) {
            let count = costs.weight(icfg.place_of_node(data.entry));
            folding.insert(entry, 2 * first, Edge { weight: NEVER, flow: count.max(1) });
        }
        for (number, &node) in data.nodes.iter().enumerate() {
            if !icfg.is_reachable(node) {
                continue;
            }
            let place = icfg.place_of_node(node);
            let own = Edge { weight: weight(place), flow: costs.weight(place) };
            folding.insert(2 * number, 2 * number + 1, own);
            for way in icfg.ways_of(node) {
                let place = icfg.place_of_way(way);
                let flow = costs.weight(place);
                let share = |callee: Routine| -> u64 {
                    let sum = passed[callee.position()].max(1);
                    let all = u128::from(through[callee.position()]);
                    (all * u128::from(flow) / sum).try_into().unwrap_or(NEVER)
                };
                let (to, inside) = match icfg.ways()[way].kind {
                    WayKind::Step(to) => (local(to).map(|it| 2 * it), NEVER),
                    WayKind::Call { callee, .. } | WayKind::Tail(callee)
                        if is_within(way, callee) =>
                    {
                        continue;
                    }
                    WayKind::Call { callee, back } => (local(back).map(|it| 2 * it), share(callee)),
                    WayKind::Tail(callee) => (Some(exit), share(callee)),
                    WayKind::Return => (Some(exit), NEVER),
                    WayKind::Leave | WayKind::End => continue,
                };
                if let Some(to) = to.filter(|_| flow > 0) {
                    let weight = weight(place).min(inside);
                    folding.insert(2 * number + 1, to, Edge { weight, flow });
                }
            }
        }
        folding.fold();
        total = total.saturating_add(folding.total);
        through[routine.position()] =
            folding.edges.get(&(entry, exit)).map_or(0, |edge| edge.weight);
    }
    total
}

/// The routines, callees before callers; where they call each other, as a search
/// finds them that follows calls passed most often first.
fn callees_first(icfg: &Icfg, costs: &Costs) -> Vec<Routine> {
    let mut callees: Vec<Vec<(u64, Routine)>> = vec![Vec::new(); icfg.routines().len()];
    for (way, data) in icfg.ways().iter() {
        if let WayKind::Call { callee, .. } | WayKind::Tail(callee) = data.kind {
            let caller = icfg.nodes()[data.from].routine;
            callees[caller.position()].push((costs.weight(icfg.place_of_way(way)), callee));
        }
    }
    // What was pushed last is followed first.
    callees.iter_mut().for_each(|list| list.sort_unstable());
    let mut order = Vec::new();
    let mut seen = vec![false; icfg.routines().len()];
    let all = icfg.roots().iter().copied().chain(icfg.routines().indices());
    for root in all {
        if seen[root.position()] {
            continue;
        }
        let mut path = vec![root];
        while let Some(&routine) = path.last() {
            seen[routine.position()] = true;
            let list = &mut callees[routine.position()];
            match list.pop() {
                Some((_, callee)) if !seen[callee.position()] => path.push(callee),
                Some(_) => {}
                None => {
                    path.pop();
                    order.push(routine);
                }
            }
        }
    }
    order
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    weight: u64,
    /// How often it is passed, to choose what is left out.
    flow: u64,
}

/// A graph under reduction: no two edges between the same vertices, none from a
/// vertex to itself.
struct Folding {
    edges: BTreeMap<(usize, usize), Edge>,
    after: Vec<BTreeSet<usize>>,
    before: Vec<BTreeSet<usize>>,
    /// The vertices that are not kept, by how many paths lead through them.
    by_paths: BTreeSet<(usize, usize)>,
    total: u64,
}

/// Vertices with more paths through them lose edges.
const MOST_PATHS: usize = 100;

impl Folding {
    fn new(vertices: usize, kept: [usize; 2]) -> Self {
        let by_paths = (0..vertices).filter(|it| !kept.contains(it)).map(|it| (0, it)).collect();
        Self {
            edges: BTreeMap::new(),
            after: vec![BTreeSet::new(); vertices],
            before: vec![BTreeSet::new(); vertices],
            by_paths,
            total: 0,
        }
    }

    fn paths(&self, vertex: usize) -> usize {
        self.before[vertex].len() * self.after[vertex].len()
    }

    /// Changes what is before or after two vertices.
    fn change(&mut self, ends: [usize; 2], change: impl FnOnce(&mut Self)) {
        let ends = ends.map(|end| (end, self.by_paths.remove(&(self.paths(end), end))));
        change(self);
        for (end, is_there) in ends {
            if is_there {
                self.by_paths.insert((self.paths(end), end));
            }
        }
    }

    fn pay(&mut self, weight: u64) {
        if weight < NEVER {
            self.total = self.total.saturating_add(weight);
        }
    }

    fn insert(&mut self, from: usize, to: usize, edge: Edge) {
        if from == to {
            self.pay(edge.weight);
            return;
        }
        if let Some(other) = self.edges.get(&(from, to)).copied() {
            self.pay(edge.weight.min(other.weight));
            let weight = edge.weight.max(other.weight);
            let flow = edge.flow.saturating_add(other.flow);
            self.edges.insert((from, to), Edge { weight, flow });
            return;
        }
        self.edges.insert((from, to), edge);
        self.change([from, to], |graph| {
            graph.after[from].insert(to);
            graph.before[to].insert(from);
        });
    }

    /// Removes all edges of a vertex.
    fn remove(&mut self, vertex: usize) {
        for from in std::mem::take(&mut self.before[vertex]) {
            self.edges.remove(&(from, vertex));
            self.change([from, vertex], |graph| {
                graph.after[from].remove(&vertex);
            });
        }
        for to in std::mem::take(&mut self.after[vertex]) {
            self.edges.remove(&(vertex, to));
            self.change([vertex, to], |graph| {
                graph.before[to].remove(&vertex);
            });
        }
    }

    fn fold(&mut self) {
        while let Some((paths, vertex)) = self.by_paths.pop_first() {
            let (mut before, mut after) = (self.edges_before(vertex), self.edges_after(vertex));
            if paths > MOST_PATHS {
                let most = (MOST_PATHS as f64).sqrt() as usize;
                before.truncate(most.max(MOST_PATHS / after.len()));
                after.truncate(MOST_PATHS / before.len());
            }
            self.remove(vertex);
            let into: u64 = before.iter().map(|(_, edge)| edge.flow).sum();
            let out_of: u64 = after.iter().map(|(_, edge)| edge.flow).sum();
            for &(from, first) in &before {
                for &(to, second) in &after {
                    let weight =
                        first.share(second.flow, out_of).min(second.share(first.flow, into));
                    let flow = part(first.flow.min(out_of), second.flow, out_of);
                    self.insert(from, to, Edge { weight, flow });
                }
            }
        }
    }

    /// Those that are passed most often first.
    fn edges_before(&self, vertex: usize) -> Vec<(usize, Edge)> {
        let edges = self.before[vertex].iter().map(|&from| (from, self.edges[&(from, vertex)]));
        let mut edges: Vec<(usize, Edge)> = edges.collect();
        edges.sort_by_key(|(_, edge)| std::cmp::Reverse(edge.flow));
        edges
    }

    fn edges_after(&self, vertex: usize) -> Vec<(usize, Edge)> {
        let edges = self.after[vertex].iter().map(|&to| (to, self.edges[&(vertex, to)]));
        let mut edges: Vec<(usize, Edge)> = edges.collect();
        edges.sort_by_key(|(_, edge)| std::cmp::Reverse(edge.flow));
        edges
    }
}

/// What falls to `flow` of `all`.
fn part(amount: u64, flow: u64, all: u64) -> u64 {
    let part = u128::from(amount) * u128::from(flow) / u128::from(all.max(1));
    part.try_into().unwrap_or(amount)
}

impl Edge {
    fn share(self, flow: u64, all: u64) -> u64 {
        if self.weight >= NEVER { NEVER } else { part(self.weight, flow, all) }
    }
}
