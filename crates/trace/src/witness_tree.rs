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

use backtrail_graph::{Component, Components, Digraph, Edge, Index, SpanningTree};

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
        let local = |node: Node| Node::new(icfg.position_in_routine(node));
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
    let mut search = Search::new(flow);
    let mut short_cuts: Vec<Edge> = Vec::new();
    for fork in flow.nodes().filter(|&node| is_fork(node)) {
        let edges = flow.out_edges(fork).iter().copied();
        let into_joins: Vec<Edge> = edges.filter(|&edge| is_join(flow.target(edge))).collect();
        short_cuts.extend(search.reached_otherwise(fork, &into_joins));
    }
    short_cuts.sort_unstable();
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

/// By which edges out of a node others can be reached, on ways that do not come back to
/// it. It does not matter by which, if it is by two: so no node is looked at more often
/// than that.
struct Search<'a> {
    flow: &'a Digraph<Node>,
    components: Components<Node>,
    /// By node: up to two edges.
    by: Vec<[Option<Edge>; 2]>,
    /// The nodes that have any.
    seen: Vec<Node>,
    /// By node: whether it is asked for.
    is_wanted: Vec<bool>,
}

impl<'a> Search<'a> {
    fn new(flow: &'a Digraph<Node>) -> Self {
        let (components, count) = (Components::new(flow), flow.node_count());
        let (by, is_wanted) = (vec![[None; 2]; count], vec![false; count]);
        Self { flow, components, by, seen: Vec::new(), is_wanted }
    }

    /// Notes that a node is reached by an edge; whether that matters.
    fn note(&mut self, node: Node, edge: Edge) -> bool {
        match &mut self.by[node.position()] {
            [first @ None, _] => {
                *first = Some(edge);
                self.seen.push(node);
                true
            }
            [Some(first), second @ None] if *first != edge => {
                *second = Some(edge);
                true
            }
            _ => false,
        }
    }

    /// Those of some edges out of `fork` whose targets can be reached by another edge.
    fn reached_otherwise(&mut self, fork: Node, edges: &[Edge]) -> Vec<Edge> {
        let flow = self.flow;
        let (mut found, mut wanted) = (Vec::new(), edges.to_vec());
        wanted.iter().for_each(|&it| self.is_wanted[flow.target(it).position()] = true);
        let out = flow.out_edges(fork).iter();
        let mut waiting: Vec<(Node, Edge)> = out.map(|&it| (flow.target(it), it)).collect();
        let mut lowest = self.lowest(&wanted);
        while let (Some((node, edge)), Some(last)) = (waiting.pop(), lowest) {
            // No edge leads to a component of a higher number.
            if self.components.of(node) < last || !self.note(node, edge) {
                continue;
            }
            if self.is_wanted[node.position()] {
                let before = found.len();
                let is_found = |it: &mut Edge| flow.target(*it) == node && *it != edge;
                found.extend(wanted.extract_if(.., is_found));
                if found.len() > before {
                    lowest = self.lowest(&wanted);
                }
            }
            if node != fork {
                waiting.extend(flow.successors(node).map(|next| (next, edge)));
            }
        }
        edges.iter().for_each(|&it| self.is_wanted[flow.target(it).position()] = false);
        for node in self.seen.drain(..) {
            self.by[node.position()] = [None; 2];
        }
        found
    }

    /// The lowest component that any of some edges leads to.
    fn lowest(&self, edges: &[Edge]) -> Option<Component> {
        edges.iter().map(|&edge| self.components.of(self.flow.target(edge))).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether the target of `edge` can be reached from its source by another edge.
    fn reaches_otherwise(flow: &Digraph<Node>, edge: Edge) -> bool {
        let (source, target) = (flow.source(edge), flow.target(edge));
        let mut seen = vec![false; flow.node_count()];
        let others = flow.out_edges(source).iter().filter(|&&other| other != edge);
        let mut waiting: Vec<Node> = others.map(|&other| flow.target(other)).collect();
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

    #[test]
    fn short_cuts_are_found_as_by_a_search_for_each_edge() {
        let mut random = fastrand::Rng::with_seed(31);
        for _ in 0..4000 {
            let nodes = random.usize(1..9);
            let mut node = |_| Node::new(random.usize(0..nodes));
            let edges: Vec<(Node, Node)> = (0..nodes * 2).map(|it| (node(it), node(it))).collect();
            let flow = Digraph::new(nodes, edges.into_iter().take(random.usize(0..nodes * 2)));
            let mut search = Search::new(&flow);
            for fork in flow.nodes() {
                let edges: Vec<Edge> =
                    flow.out_edges(fork).iter().copied().filter(|_| random.bool()).collect();
                let mut found = search.reached_otherwise(fork, &edges);
                found.sort_unstable();
                let mut wanted: Vec<Edge> =
                    edges.into_iter().filter(|&edge| reaches_otherwise(&flow, edge)).collect();
                wanted.sort_unstable();
                assert_eq!(found, wanted, "from {fork} of {flow:?}");
            }
        }
    }
}
