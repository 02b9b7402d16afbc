//! The tasks of P3, as published: parts of a function that one copy counts.
//!
//! Afraz, Saha and Kanade, *P3: Partitioned Path Profiling*, ESEC/FSE 2015,
//! algorithm 2. On a reduced graph, in which each diamond (`if` with `else`) and
//! each triangle (`if`) whose branches hold straight-line code is one vertex,
//! path prefixes are enumerated in topological order until there are enough of
//! them; each prefix, with everything behind it, is a task. Paths through a run
//! of such conditionals share their probes, so they stay together.
//!
//! Departures:
//! - A vertex is finished before the enumeration stops. Stopping in its middle,
//!   as published, leaves paths that no task has.
//! - A vertex that would make more than `MOST_TASKS` prefixes is not begun, so
//!   that planning stays near linear: the published enumeration may add the
//!   product of all prefixes and a `switch`'s cases in one step.
//!
//! Cost O(tasks · edges).

use std::collections::BTreeMap;

use backtrail_graph::path_dag::DagNode;
use backtrail_graph::{Edge, EdgeSet, Index, PathDag};

use crate::partition::assignment::assign_by_size;
use crate::partition::interest::{Interest, Placing, Selection};
use crate::partition::{ProgramPaths, Shares};

/// Who counts what, as published. Functions with more than one call site are
/// counted whole; the others' tasks and these go to the copies by the number of
/// their probes, and a copy counts the paths made of all edges it got.
pub fn divide(program: &ProgramPaths<'_>, copies: usize) -> Vec<Shares> {
    let mut tasks: Vec<(usize, Option<EdgeSet>)> = Vec::new();
    let mut costs = Vec::new();
    for (number, function) in program.functions().iter().enumerate() {
        let mut parts = Vec::new();
        if function.call_sites <= 1 && copies > 1 {
            parts = compute_tasks(function.dag(), copies);
        }
        let mut priced = Vec::new();
        for edges in parts {
            let selection = Selection::new(function.plan(), &edges, Placing::Published);
            let interest = if edges.is_all() { Interest::Whole } else { Interest::Part(selection) };
            priced.push((edges, function.probes(&interest)));
        }
        // One task is the function itself; labels that have no place cannot be.
        if priced.len() < 2 || priced.iter().any(|&(_, cost)| cost == u64::MAX) {
            tasks.push((number, None));
            costs.push(function.probes(&Interest::Whole));
            continue;
        }
        for (edges, cost) in priced {
            tasks.push((number, Some(edges)));
            costs.push(cost);
        }
    }
    let homes = assign_by_size(&costs, copies);
    let mut sets: Vec<Vec<EdgeSet>> = Vec::new();
    for function in program.functions() {
        sets.push(vec![EdgeSet::none(function.dag().graph().edge_count()); copies]);
    }
    for ((function, edges), home) in tasks.into_iter().zip(homes) {
        let set = &mut sets[function][home];
        match edges {
            Some(edges) => set.union_with(&edges),
            None => *set = EdgeSet::all(set.edge_count()),
        }
    }
    let functions = program.functions().iter();
    functions.zip(sets).map(|(it, sets)| Shares::of_edges(it, &sets, Placing::Published)).collect()
}

/// The most prefixes that are made.
const MOST_TASKS: usize = 512;

/// The edges of each task of a function whose paths are those of `dag`: every
/// path lies within one of them. `copies` is how many copies there are.
pub fn compute_tasks(dag: &PathDag, copies: usize) -> Vec<EdgeSet> {
    let reduced = Reduced::new(dag);
    let graph = dag.graph();
    let wanted = graph.out_edges(dag.entry()).len().max(copies);
    // Prefixes by the vertex they end at: edges of the reduced graph.
    let mut prefixes: BTreeMap<DagNode, Vec<EdgeSet>> = BTreeMap::new();
    prefixes.insert(dag.entry(), vec![EdgeSet::none(graph.edge_count())]);
    let mut total = 1;
    for vertex in reduced.topological(dag) {
        let out = reduced.out_edges(dag, vertex);
        if vertex == dag.exit() || total >= wanted {
            break;
        }
        let Some(here) = prefixes.get(&vertex) else { continue };
        let more = here.len() * out.len();
        if total + more > MOST_TASKS.max(2 * wanted) {
            break;
        }
        let here = prefixes.remove(&vertex).unwrap_or_default();
        total = total - here.len() + more;
        for &edge in out {
            let next = reduced.of(graph.target(edge));
            let longer = here.iter().map(|prefix| {
                let mut longer = prefix.clone();
                longer.insert(edge);
                longer
            });
            prefixes.entry(next).or_default().extend(longer);
        }
    }
    let mut tasks = Vec::new();
    for (vertex, prefixes) in prefixes {
        let behind = reduced.edges_behind(dag, vertex);
        for mut task in prefixes {
            task.union_with(&behind);
            reduced.add_inner_edges(dag, vertex, &mut task);
            tasks.push(task);
        }
    }
    tasks
}

/// The graph with diamonds and triangles collapsed. A collapsed vertex goes by
/// the name of the first node in it, and its edges out are those of the last.
struct Reduced {
    /// By node, the vertex it is in.
    vertex: Vec<DagNode>,
    /// By vertex, the last node in it.
    last: Vec<DagNode>,
    /// By vertex, the edges within it.
    inner: BTreeMap<DagNode, Vec<Edge>>,
}

impl Reduced {
    fn new(dag: &PathDag) -> Self {
        let identity: Vec<DagNode> = dag.graph().nodes().collect();
        let mut reduced = Self { vertex: identity.clone(), last: identity, inner: BTreeMap::new() };
        for &node in dag.reverse_topological().iter().rev() {
            if node == dag.entry() || node == dag.exit() || reduced.of(node) != node {
                continue;
            }
            // What was collapsed may begin another one.
            while let Some((inside, end)) = reduced.conditional_at(dag, node) {
                let begin = reduced.last[node.position()];
                let mut edges = dag.graph().out_edges(begin).to_vec();
                for &branch in &inside {
                    edges.extend_from_slice(dag.graph().out_edges(branch));
                    reduced.vertex[branch.position()] = node;
                }
                reduced.vertex[end.position()] = node;
                reduced.last[node.position()] = end;
                reduced.inner.entry(node).or_default().extend(edges);
            }
        }
        reduced
    }

    /// The vertex that a node is in.
    fn of(&self, node: DagNode) -> DagNode {
        self.vertex[node.position()]
    }

    fn out_edges<'d>(&self, dag: &'d PathDag, vertex: DagNode) -> &'d [Edge] {
        dag.graph().out_edges(self.last[vertex.position()])
    }

    fn topological<'d>(&'d self, dag: &'d PathDag) -> impl Iterator<Item = DagNode> + 'd {
        let nodes = dag.reverse_topological().iter().rev().copied();
        nodes.filter(|&node| self.of(node) == node)
    }

    /// The branches and the end of a diamond or triangle that begins where
    /// `vertex` ends.
    fn conditional_at(&self, dag: &PathDag, vertex: DagNode) -> Option<(Vec<DagNode>, DagNode)> {
        let graph = dag.graph();
        let begin = self.last[vertex.position()];
        let &[one, other] = graph.out_edges(begin) else { return None };
        let (one, other) = (graph.target(one), graph.target(other));
        // A branch of straight-line code: one edge in, one out.
        let leads_to = |branch: DagNode| match (graph.in_edges(branch), graph.out_edges(branch)) {
            (&[_], &[out]) if branch != dag.exit() => Some(graph.target(out)),
            _ => None,
        };
        let (inside, end) = match (leads_to(one), leads_to(other)) {
            (Some(end), Some(same)) if end == same => (vec![one, other], end),
            (Some(end), _) if end == other => (vec![one], end),
            (_, Some(end)) if end == one => (vec![other], end),
            _ => return None,
        };
        // Nothing else leads into it.
        (end != dag.exit() && one != other && graph.in_edges(end).len() == 2)
            .then_some((inside, end))
    }

    /// The edges that can be reached from a vertex.
    fn edges_behind(&self, dag: &PathDag, vertex: DagNode) -> EdgeSet {
        let graph = dag.graph();
        let mut behind = EdgeSet::none(graph.edge_count());
        let mut is_reached = vec![false; graph.node_count()];
        let mut pending = vec![vertex];
        is_reached[vertex.position()] = true;
        while let Some(vertex) = pending.pop() {
            for &edge in self.out_edges(dag, vertex) {
                behind.insert(edge);
                let next = self.of(graph.target(edge));
                if !std::mem::replace(&mut is_reached[next.position()], true) {
                    pending.push(next);
                }
            }
        }
        behind
    }

    /// Adds the edges within the vertices that the edges of `task` touch, and
    /// within `vertex`.
    fn add_inner_edges(&self, dag: &PathDag, vertex: DagNode, task: &mut EdgeSet) {
        let graph = dag.graph();
        let mut touched = vec![vertex];
        for edge in task.iter() {
            touched.extend([self.of(graph.source(edge)), self.of(graph.target(edge))]);
        }
        touched.sort_unstable();
        touched.dedup();
        for edge in touched.iter().filter_map(|vertex| self.inner.get(vertex)).flatten() {
            task.insert(*edge);
        }
    }
}
