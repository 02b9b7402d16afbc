//! Witnesses of one profile by spanning trees, routine by routine.
//!
//! *Edges* (Ball and Larus, *Optimally Profiling and Tracing Programs*, TOPLAS
//! 1994): if the edges without witness contain neither a diamond nor a directed
//! cycle, the way through the routine is known. A spanning tree has no cycle of
//! any kind, so the edges outside of one of greatest weight will do, and cheaply.
//!
//! *Nodes* ([`crate::first_witness`] names the source): edges from a fork to the
//! join of its diamond go into the tree first. For each edge s→t outside, the
//! witness is t if s is a fork, else s if t is a join, else the lighter of them.
//!
//! A call is an edge to where it returns, and what leaves the routine is an edge
//! to a node of its own. Neither rule is enough for a program: a callee may pass
//! without a witness, and for nodes a chord may end in the join of another
//! diamond. What comes out is a first draft, to be verified and repaired
//! ([`crate::planning`]).

use backtrail_graph::{Digraph, Edge, Index, SpanningTree};

use crate::distribution::Costs;
use crate::icfg::{Icfg, Node, Place, Routine, Way, WayKind};

struct RoutineGraph {
    flow: Digraph<Node>,
    ways: Vec<Way>,
    nodes: Vec<Node>,
}

impl RoutineGraph {
    /// Nodes by position in the routine; the last one stands for outside.
    fn new(icfg: &Icfg, routine: Routine) -> Self {
        let nodes = icfg.routines()[routine].nodes.clone();
        let local = |node: Node| {
            let found = nodes.binary_search(&node);
            Node::new(found.expect("steps stay in the routine"))
        };
        let outside = Node::new(nodes.len());
        let mut ways = Vec::new();
        let mut ends = Vec::new();
        for &node in nodes.iter().filter(|&&node| icfg.is_reachable(node)) {
            for way in icfg.ways_of(node) {
                let to = match icfg.ways()[way].kind {
                    WayKind::Step(to) | WayKind::Call { back: to, .. } => local(to),
                    _ => outside,
                };
                ways.push(way);
                ends.push((local(node), to));
            }
        }
        Self { flow: Digraph::new(nodes.len() + 1, ends), ways, nodes }
    }
}

/// Edges, of one routine.
pub fn edge_witnesses_of(icfg: &Icfg, costs: &Costs, routine: Routine) -> Vec<Place> {
    let graph = RoutineGraph::new(icfg, routine);
    let place = |edge: Edge| icfg.place_of_way(graph.ways[edge.position()]);
    let hidden: Vec<Edge> =
        graph.flow.edges().filter(|&edge| !costs.is_observable(place(edge))).collect();
    let weights: Vec<u64> = graph.flow.edges().map(|edge| costs.weight(place(edge))).collect();
    let tree = SpanningTree::new(&graph.flow, &weights, &[], &hidden);
    let chords = graph.flow.edges().filter(|&edge| !tree.contains(edge));
    chords.map(place).filter(|&place| costs.is_observable(place)).collect()
}

/// Nodes, of one routine.
pub fn node_witnesses_of(icfg: &Icfg, costs: &Costs, routine: Routine) -> Vec<Place> {
    let graph = RoutineGraph::new(icfg, routine);
    let flow = &graph.flow;
    let is_fork = |node: Node| flow.out_edges(node).len() > 1;
    let is_join = |node: Node| flow.in_edges(node).len() > 1;
    let short_cuts: Vec<Edge> = flow
        .edges()
        .filter(|&edge| {
            let (fork, join) = (flow.source(edge), flow.target(edge));
            is_fork(fork) && is_join(join) && reaches_otherwise(flow, edge)
        })
        .collect();
    let place_of_node =
        |node: Node| graph.nodes.get(node.position()).map(|&node| icfg.place_of_node(node));
    let weight = |edge: Edge| costs.weight(icfg.place_of_way(graph.ways[edge.position()]));
    let weights: Vec<u64> = flow.edges().map(weight).collect();
    let tree = SpanningTree::new(flow, &weights, &[], &short_cuts);
    let mut witnesses = Vec::new();
    for edge in flow.edges().filter(|&edge| !tree.contains(edge)) {
        let (source, target) = (flow.source(edge), flow.target(edge));
        let [from, to] = [source, target]
            .map(|node| place_of_node(node).filter(|&place| costs.is_observable(place)));
        let chosen = if is_fork(source) {
            to.or(from)
        } else if is_join(target) {
            from.or(to)
        } else {
            [from, to].into_iter().flatten().min_by_key(|&place| costs.weight(place))
        };
        witnesses.extend(chosen);
    }
    witnesses.sort_unstable();
    witnesses.dedup();
    witnesses
}

/// Whether the target of `edge` can be reached from its source by another edge.
fn reaches_otherwise(flow: &Digraph<Node>, edge: Edge) -> bool {
    let (source, target) = (flow.source(edge), flow.target(edge));
    let mut seen = vec![false; flow.node_count()];
    let mut waiting: Vec<Node> = flow
        .out_edges(source)
        .iter()
        .filter(|&&other| other != edge)
        .map(|&other| flow.target(other))
        .collect();
    while let Some(node) = waiting.pop() {
        if node == target {
            return true;
        }
        if node != source && !std::mem::replace(&mut seen[node.position()], true) {
            waiting.extend(flow.successors(node));
        }
    }
    false
}
