//! A function's paths in parts, none of which costs much.
//!
//! The paths of a part are parted at a node: those that leave it by some of its
//! edges, and all others. Of the former, the edges that are on a path over one
//! of the chosen edges are the new part's; a path made of such edges goes
//! through the node (an edge that leads to the node, followed by one that comes
//! from it, would close a cycle anywhere but at the node). The others are the
//! paths without the chosen edges. So each path is in one of both.
//!
//! Which node is best is estimated by the labels as they are, where what lies on
//! one side only is saved by the other, and by how often edges are taken: the
//! hottest case of a `switch` may have no label now, and has one once it is
//! parted from the others. The most promising of both kinds are priced.
//!
//! Cost O(parts · edges · (tried nodes + log edges)).

use std::collections::BTreeSet;

use backtrail_graph::path_dag::DagNode;
use backtrail_graph::selective_labels::whole_paths;
use backtrail_graph::{Edge, EdgeSet, Index, PathDag};

use crate::partition::interest::{Interest, Placing, Selection};
use crate::partition::price::{Price, Rate, executions};
use crate::partition::program::CountedFunction;

/// The most nodes that are looked at, and that are priced.
const LOOKED_AT: usize = 64;
const PRICED: usize = 4;

/// The most edges that are visited in looking at nodes.
const MOST_VISITS: usize = 4_000_000;

/// A part and what it costs.
struct Part {
    edges: EdgeSet,
    price: Price,
    is_final: bool,
}

/// When to stop.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// A part that costs no more is not split.
    pub small: u64,
    /// The most parts.
    pub parts: usize,
    /// What the larger half has to cost at most, of what was split.
    pub half: f64,
}

/// The paths of `function` in parts: edges of each.
pub fn split(function: &CountedFunction<'_>, rate: Rate, limits: Limits) -> Vec<EdgeSet> {
    let dag = function.dag();
    let all = EdgeSet::all(dag.graph().edge_count());
    let Some(price) = Price::of(function, &Interest::Whole) else { return vec![all] };
    let mut parts = vec![Part { edges: all, price, is_final: false }];
    while parts.len() < limits.parts {
        let open = parts.iter().enumerate().filter(|(_, part)| !part.is_final);
        let largest = open.max_by_key(|(_, part)| part.price.total(rate));
        let Some((place, part)) = largest.filter(|(_, part)| part.price.total(rate) > limits.small)
        else {
            break;
        };
        match best_split(function, rate, limits.half, part) {
            Some((one, other)) => {
                parts[place] = one;
                parts.push(other);
            }
            None => parts[place].is_final = true,
        }
    }
    parts.into_iter().map(|part| part.edges).collect()
}

/// The two parts that the largest of which costs least, if that is worth it.
fn best_split(
    function: &CountedFunction<'_>,
    rate: Rate,
    half: f64,
    part: &Part,
) -> Option<(Part, Part)> {
    let mut best: Option<(u64, (Part, Part))> = None;
    let mut options = Vec::new();
    for mut kind in estimate_splits(function, part) {
        kind.sort_by(|a, b| a.estimate.total_cmp(&b.estimate));
        kind.truncate(PRICED);
        options.extend(kind);
    }
    for Parting { through, others, .. } in options {
        let priced = |edges: EdgeSet| {
            let selection = Selection::new(function.plan(), &edges, Placing::Moved);
            let price = Price::of(function, &Interest::Part(selection))?;
            Some(Part { edges, price, is_final: false })
        };
        let (Some(one), Some(other)) = (priced(through), priced(others)) else { continue };
        let larger = one.price.total(rate).max(other.price.total(rate));
        if best.as_ref().is_none_or(|(known, _)| larger < *known) {
            best = Some((larger, (one, other)));
        }
    }
    let (larger, parts) = best?;
    (larger as f64 <= part.price.total(rate) as f64 * half).then_some(parts)
}

/// A way to split a part.
struct Parting {
    /// What the larger one is thought to cost.
    estimate: f64,
    through: EdgeSet,
    others: EdgeSet,
}

/// Ways to split a part, by the labels as they are, and by how often edges are
/// taken.
fn estimate_splits(function: &CountedFunction<'_>, part: &Part) -> [Vec<Parting>; 2] {
    let (dag, graph) = (function.dag(), function.dag().graph());
    let hits: Vec<f64> = graph.edges().map(|edge| part.price.hits_at(function, edge)).collect();
    let out = |node: DagNode| {
        graph.out_edges(node).iter().copied().filter(|&edge| part.edges.contains(edge))
    };
    // Nodes with much to part: what arrives there.
    let arriving = |node: DagNode| {
        let into = graph.in_edges(node).iter().filter(|&&edge| part.edges.contains(edge));
        let flow: f64 = into.map(|&edge| executions(function, edge)).sum();
        // Paths begin at loop heads, too: what leaves counts as well.
        flow.max(out(node).map(|edge| executions(function, edge)).sum())
    };
    let mut nodes: Vec<(f64, DagNode)> = dag
        .reverse_topological()
        .iter()
        .rev()
        .filter(|&&node| out(node).count() > 1)
        .map(|&node| if node == dag.entry() { (f64::MAX, node) } else { (arriving(node), node) })
        .filter(|&(weight, _)| weight > 0.0)
        .collect();
    nodes.sort_by(|a, b| b.0.total_cmp(&a.0));
    nodes.truncate(LOOKED_AT);
    let mut visits = 0;
    let mut options = [Vec::new(), Vec::new()];
    for (_, node) in nodes {
        let edges: Vec<Edge> = out(node).collect();
        visits += (edges.len() + 4) * part.edges.len();
        if visits > MOST_VISITS && !options[0].is_empty() {
            break;
        }
        let behind: Vec<(f64, Edge)> =
            edges.iter().map(|&edge| (hits_behind(dag, part, edge, &hits), edge)).collect();
        let taken = |edge: Edge| {
            let next = graph.target(edge);
            if node == dag.entry() { arriving(next) } else { executions(function, edge) }
        };
        let taken = edges.iter().map(|&edge| (taken(edge), edge)).collect();
        for (kind, costs) in [behind, taken].into_iter().enumerate() {
            for (estimate, chosen) in sides(costs) {
                let chosen = with_computed(function, part, chosen);
                let (through, others) = part_at(dag, &part.edges, &chosen);
                if through.is_empty() || others.is_empty() {
                    continue;
                }
                let cost =
                    |set: &EdgeSet| set.iter().map(|edge| hits[edge.position()]).sum::<f64>();
                let as_is = cost(&through).max(cost(&others));
                let estimate = if kind == 0 { as_is } else { estimate };
                options[kind].push(Parting { estimate, through, others });
            }
        }
    }
    options
}

/// Edges to part from the others so that both sides cost about the same, and
/// what the larger one costs: two sides that are filled up evenly, and the most
/// costly edges up to the half.
fn sides(mut costs: Vec<(f64, Edge)>) -> Vec<(f64, Vec<Edge>)> {
    costs.sort_by(|a, b| b.0.total_cmp(&a.0));
    let total: f64 = costs.iter().map(|(cost, _)| cost).sum();
    let mut even = [(0.0, Vec::new()), (0.0, Vec::new())];
    let mut first = (0.0, Vec::new());
    for &(cost, edge) in &costs {
        let side = usize::from(even[1].0 < even[0].0);
        even[side].0 += cost;
        even[side].1.push(edge);
        if first.1.is_empty() || 2.0 * first.0 + cost <= total {
            first.0 += cost;
            first.1.push(edge);
        }
    }
    let larger = |cost: f64| f64::max(cost, total - cost);
    let sides = even.into_iter().chain([first]).filter(|(_, side)| !side.is_empty());
    let mut sides: Vec<_> = sides.map(|(cost, side)| (larger(cost), side)).collect();
    if costs.len() == 2 {
        sides.truncate(2);
    }
    sides
}

/// The hits on `edge` and on what can be reached behind it.
fn hits_behind(dag: &PathDag, part: &Part, edge: Edge, hits: &[f64]) -> f64 {
    let graph = dag.graph();
    let mut is_reached = vec![false; graph.node_count()];
    let mut pending = vec![graph.target(edge)];
    is_reached[graph.target(edge).position()] = true;
    let mut sum = hits[edge.position()];
    while let Some(node) = pending.pop() {
        for &edge in graph.out_edges(node).iter().filter(|&&edge| part.edges.contains(edge)) {
            sum += hits[edge.position()];
            let next = graph.target(edge);
            if !std::mem::replace(&mut is_reached[next.position()], true) {
                pending.push(next);
            }
        }
    }
    sum
}

/// The edges of `chosen`; and where these are the targets of computed gotos, so
/// are the edges of others to the same targets: edges that have no place for a
/// label can be told apart only if they are labelled alike.
fn with_computed(function: &CountedFunction<'_>, part: &Part, chosen: Vec<Edge>) -> Vec<Edge> {
    let graph = function.dag().graph();
    let computed = function.plan().forced();
    if !chosen.iter().any(|edge| computed.binary_search(edge).is_ok()) {
        return chosen;
    }
    let targets: BTreeSet<DagNode> = chosen.iter().map(|&edge| graph.target(edge)).collect();
    let alike = computed.into_iter().filter(|&edge| targets.contains(&graph.target(edge)));
    let all: BTreeSet<Edge> = alike.chain(chosen).collect();
    all.into_iter().filter(|&edge| part.edges.contains(edge)).collect()
}

/// The paths within `edges` that take one of `chosen`, and the others: each as
/// the edges they are made of. The former may be more.
pub fn part_at(dag: &PathDag, edges: &EdgeSet, chosen: &[Edge]) -> (EdgeSet, EdgeSet) {
    let graph = dag.graph();
    let mut others = edges.clone();
    let mut through = EdgeSet::none(edges.edge_count());
    // Down and up from the chosen edges.
    let mut is_reached = vec![false; graph.node_count()];
    let mut leads_there = vec![false; graph.node_count()];
    for &edge in chosen {
        others.remove(edge);
        through.insert(edge);
        is_reached[graph.target(edge).position()] = true;
        leads_there[graph.source(edge).position()] = true;
    }
    for &at in dag.reverse_topological().iter().rev() {
        if !is_reached[at.position()] {
            continue;
        }
        for &edge in graph.out_edges(at).iter().filter(|&&edge| edges.contains(edge)) {
            through.insert(edge);
            is_reached[graph.target(edge).position()] = true;
        }
    }
    for &at in dag.reverse_topological() {
        for &edge in graph.out_edges(at).iter().filter(|&&edge| edges.contains(edge)) {
            if leads_there[graph.target(edge).position()] {
                through.insert(edge);
                leads_there[at.position()] = true;
            }
        }
    }
    (whole_paths(dag, &through), whole_paths(dag, &others))
}
