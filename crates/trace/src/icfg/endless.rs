//! Code that no run leaves by itself: a server's loop, whose runs are killed.
//!
//! From there the end of the run cannot be reached, so nothing would have to be
//! told apart, and a trace would stop at the first predicate. Instead, one node of
//! each loop that nothing leads out of counts as one where the run may end, as if
//! the loop could be left there: what is in the loop is then told apart like
//! anything else. Code that never runs on (`unreachable`) stays without an end.

use backtrail_graph::{Components, Digraph, Index};

use super::{Icfg, Node, Routine, WayKind};
use crate::distribution::Profile;
use crate::first_witness::FirstWitnesses;

/// The nodes at which a run that does not end is thought to.
pub(super) fn find_stops(icfg: &Icfg) -> Vec<Node> {
    // Without witnesses there is nothing to meet but landings and the end.
    let firsts = FirstWitnesses::new(icfg, &Profile::new(icfg, []));
    let is_lost = |node: Node| {
        icfg.is_reachable(node) && !icfg.ways_of(node).any(|way| firsts.meets_anything(way))
    };
    let lost: Vec<bool> = icfg.nodes().indices().map(is_lost).collect();
    if !lost.contains(&true) {
        return Vec::new();
    }
    let is_lost = |node: Node| lost[node.position()];
    let entry = |routine: Routine| icfg.routines()[routine].entry;
    let mut edges: Vec<(Node, Node)> = Vec::new();
    for way in icfg.ways().values().filter(|way| is_lost(way.from)) {
        match way.kind {
            WayKind::Step(to) => edges.push((way.from, to)),
            WayKind::Call { callee, back } => {
                edges.extend([(way.from, entry(callee)), (way.from, back)]);
            }
            WayKind::Tail(callee) => edges.push((way.from, entry(callee))),
            WayKind::Return => {
                for &caller in &icfg.routines()[icfg.nodes()[way.from].routine].callers {
                    if let WayKind::Call { back, .. } = icfg.ways()[caller].kind {
                        edges.push((way.from, back));
                    }
                }
            }
            WayKind::Leave | WayKind::End => {}
        }
    }
    let components = Components::new(&Digraph::new(icfg.nodes().len(), edges.iter().copied()));
    let mut is_loop = vec![false; components.count()];
    let mut leads_on = vec![false; components.count()];
    for (from, to) in edges {
        let (one, other) = (components.of(from), components.of(to));
        let leads_to_a_loop = |node: Node| icfg.ways_of(node).len() > 0;
        if one == other {
            is_loop[one.position()] = true;
        } else if leads_to_a_loop(to) {
            leads_on[one.position()] = true;
        }
    }
    let stops =
        components.indices().filter(|it| is_loop[it.position()] && !leads_on[it.position()]);
    stops.filter_map(|it| components.members(it).iter().copied().find(|&it| is_lost(it))).collect()
}
