//! Calls that may go to the same many routines.
//!
//! An indirect call has a way for each routine whose address is taken, and so has
//! unseen code that may call back: a large program has thousands of such places and
//! a million such ways. What they can meet next is the same for all of them, as far
//! as it is inside the callee. So nodes with the same callees form a *fan*, for
//! which that is computed once ([`crate::first_witness`]).

use std::collections::BTreeMap;

use backtrail_graph::{Index, IndexMap, define_index};

use super::{Node, Routine, WayKind};

define_index!(
    /// Nodes that call the same routines.
    Fan, "f"
);

/// Nodes with one callee are looked at by themselves.
const FEWEST: usize = 2;

#[derive(Debug, Clone)]
pub(crate) struct FanData {
    /// In order.
    pub callees: Vec<Routine>,
    /// Who calls them, and where they return to.
    pub nodes: Vec<(Node, Node)>,
}

/// All fans of a graph.
#[derive(Debug, Clone)]
pub(crate) struct Fans {
    fans: IndexMap<Fan, FanData>,
    /// By node.
    of_node: Vec<Option<Fan>>,
    /// By routine: where it is a callee.
    of_callee: Vec<Vec<Fan>>,
}

impl Fans {
    /// By node: its ways.
    pub fn new(ways_by_node: &[Vec<WayKind>], routines: usize) -> Self {
        let mut fans = IndexMap::<Fan, FanData>::new();
        let mut known: BTreeMap<Vec<Routine>, Fan> = BTreeMap::new();
        let mut of_node = vec![None; ways_by_node.len()];
        let mut of_callee = vec![Vec::new(); routines];
        for (number, ways) in ways_by_node.iter().enumerate() {
            let calls = || {
                ways.iter().filter_map(|way| match *way {
                    WayKind::Call { callee, back } => Some((callee, back)),
                    _ => None,
                })
            };
            let Some((_, back)) = calls().next() else { continue };
            let mut callees: Vec<Routine> = calls().map(|(callee, _)| callee).collect();
            let are_known = callees.iter().all(|callee| callee.position() < routines);
            if callees.len() < FEWEST || !are_known || calls().any(|(_, it)| it != back) {
                continue;
            }
            callees.sort_unstable();
            let fan = *known.entry(callees).or_insert_with_key(|callees| {
                let fan = fans.push(FanData { callees: callees.clone(), nodes: Vec::new() });
                callees.iter().for_each(|callee| of_callee[callee.position()].push(fan));
                fan
            });
            fans[fan].nodes.push((Node::new(number), back));
            of_node[number] = Some(fan);
        }
        Self { fans, of_node, of_callee }
    }

    pub fn iter(&self) -> impl Iterator<Item = (Fan, &FanData)> {
        self.fans.iter()
    }

    pub fn len(&self) -> usize {
        self.fans.len()
    }

    pub fn get(&self, fan: Fan) -> &FanData {
        &self.fans[fan]
    }

    /// The fan of a node.
    pub fn of(&self, node: Node) -> Option<Fan> {
        self.of_node[node.position()]
    }

    pub fn contains(&self, node: Node) -> bool {
        self.of(node).is_some()
    }

    /// The fans that a routine is a callee of.
    pub fn of_callee(&self, routine: Routine) -> &[Fan] {
        &self.of_callee[routine.position()]
    }
}
