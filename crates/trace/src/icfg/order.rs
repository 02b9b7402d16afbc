//! In which order sets are computed that depend on what follows: callees before their
//! callers, and in a routine what is behind before what leads there.

use backtrail_graph::{Components, Digraph, Index, IndexMap};

use super::{Fans, Node, NodeData, Routine, RoutineData, Way, WayData, WayKind};

/// An order of nodes, and one of routines and fans.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    pub nodes: Vec<Node>,
    /// By node: its position.
    pub rank_of_node: Vec<u32>,
    /// Callees first; a fan has the number of routines added to its own.
    pub routines: Vec<u32>,
    /// By routine or fan: its position.
    pub rank_of_routine: Vec<u32>,
}

impl Order {
    pub fn new(
        routines: &IndexMap<Routine, RoutineData>,
        nodes: &IndexMap<Node, NodeData>,
        ways: &IndexMap<Way, WayData>,
        fans: &Fans,
    ) -> Self {
        let count = routines.len();
        let fan_number = |fan: super::Fan| Node::new(count + fan.position());
        let number = |routine: Routine| Node::new(routine.position());
        let mut calls: Vec<(Node, Node)> = Vec::new();
        for way in ways.values() {
            if let WayKind::Call { callee, .. } | WayKind::Tail(callee) = way.kind {
                let caller = number(nodes[way.from].routine);
                if !fans.contains(way.from) {
                    calls.push((caller, number(callee)));
                }
            }
        }
        for (fan, data) in fans.iter() {
            let callers = data.nodes.iter().map(|(node, _)| number(nodes[*node].routine));
            calls.extend(callers.map(|caller| (caller, fan_number(fan))));
            calls.extend(data.callees.iter().map(|&callee| (fan_number(fan), number(callee))));
        }
        calls.sort_unstable();
        calls.dedup();
        let components = Components::new(&Digraph::new(count + fans.len(), calls));
        let members = components.indices().flat_map(|it| components.members(it));
        let order: Vec<u32> = members.map(|it| it.position() as u32).collect();
        let of_routines = order.iter().filter(|&&number| (number as usize) < count);
        let in_order: Vec<Node> = of_routines
            .flat_map(|&number| routines[Routine::new(number as usize)].nodes.iter().rev())
            .copied()
            .collect();
        let ranks = |order: &mut dyn Iterator<Item = usize>, length: usize| {
            let mut ranks = vec![0; length];
            order.enumerate().for_each(|(rank, number)| ranks[number] = rank as u32);
            ranks
        };
        Self {
            rank_of_node: ranks(&mut in_order.iter().map(|it| it.position()), nodes.len()),
            rank_of_routine: ranks(&mut order.iter().map(|&it| it as usize), count + fans.len()),
            nodes: in_order,
            routines: order,
        }
    }
}
