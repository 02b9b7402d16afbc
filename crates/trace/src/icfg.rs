//! The traced graph: what can follow what, through calls and returns.
//!
//! Plain data: built by hand in tests, from a program's units by
//! [`from_program`], and by whoever else knows a program's code.
//!
//! - A *routine* is a function that is seen. A *node* is a place in it that is
//!   passed as a whole: a block, or a piece of one behind a call that matters
//!   ([`Role`]).
//! - A *way* is what can follow a node ([`WayKind`]): a step to a node of the
//!   same routine, a call, a return, the end of the run, or leaving frames for a
//!   landing. **A node with several ways is a predicate**, whatever these are: a
//!   branch, an indirect call (one way per possible callee), unseen code that may
//!   call back.
//! - *Unseen code that may call back* is a node of its own, a [`Role::Hub`]
//!   behind the piece that ends with the call: it calls any of the routines it
//!   can reach and comes back *to itself*, or goes on, or ends the run, or leaves.
//!   That is also how a program's start is written: a routine that is a hub, from
//!   which constructors and `main` are called.
//! - A *landing* is a node where frames that were left resume: a landing pad, the
//!   piece behind a call that returns twice. Wherever a way says
//!   [`WayKind::Leave`], any landing of any frame on the stack may follow.
//! - A *place* is a node or a way: what can be observed. Observing a block is a
//!   place of its node; an edge, the callee of an indirect call and the site at
//!   which the run ended are places of their ways.
//!
//! Runs of code that nothing leads out of are killed; [`Icfg`] knows such loops,
//! and what is in them is told apart like anything else.
//!
//! An execution begins at the entry of a root and ends with a way that is an
//! [`WayKind::End`], or when the root returns. It passes the place of each way
//! it takes and of each node it comes to, in this order.
//!
//! # Depth
//! A frame is named by its depth: how many frames *of routines with landings*
//! are below it. Only such routines have to keep count at run time; a tracer that
//! stops at a landing can count frames by unwinding.

mod endless;
mod fans;
pub mod from_program;
mod order;

use std::collections::HashSet;
use std::sync::Arc;

use backtrail_graph::{Index, IndexMap, define_index};

use crate::Error;
pub(crate) use fans::{Fan, Fans};
pub(crate) use order::Order;

define_index!(
    /// A function that is seen.
    Routine, "r"
);
define_index!(
    /// A block or a piece of one.
    Node, "n"
);
define_index!(
    /// What can follow a node.
    Way, "w"
);
define_index!(
    /// What can be observed: nodes first, then ways.
    Place, "p"
);

/// What a node is in the code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Where this block begins, by a number of the caller's choice.
    Block(u32),
    /// Within a block, behind a call.
    Piece,
    /// Unseen code that runs on behalf of a call: no place in the code.
    Hub,
}

/// What can follow a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum WayKind {
    /// This node of the same routine.
    Step(Node),
    /// The entry of a routine, and when it returns this node.
    Call {
        /// Who is called.
        callee: Routine,
        /// Where it returns to.
        back: Node,
    },
    /// The entry of a routine, which returns to this one's caller.
    Tail(Routine),
    /// Where the caller goes on.
    Return,
    /// A landing of this frame or of one below.
    Leave,
    /// Nothing: the run ends.
    End,
}

/// A node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeData {
    /// Whose it is.
    pub routine: Routine,
    /// What it is in the code.
    pub role: Role,
    /// Whether frames that were left resume here.
    pub landing: bool,
    ways: (u32, u32),
}

/// A way.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WayData {
    /// The node it follows.
    pub from: Node,
    /// What follows.
    pub kind: WayKind,
}

/// A routine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutineData {
    /// Where it begins.
    pub entry: Node,
    /// Its nodes, in order.
    pub nodes: Vec<Node>,
    /// Whether one of them is a landing.
    pub has_landings: bool,
    /// The ways that call it, of nodes that can be reached.
    pub callers: Vec<Way>,
}

/// A place, spelled out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PlaceKind {
    /// A node.
    Node(Node),
    /// A way.
    Way(Way),
}

/// The traced graph.
#[derive(Debug, Clone)]
pub struct Icfg {
    routines: IndexMap<Routine, RoutineData>,
    nodes: IndexMap<Node, NodeData>,
    /// By node: where it is in the list of its routine.
    positions: Vec<u32>,
    ways: IndexMap<Way, WayData>,
    roots: Vec<Routine>,
    landings: Vec<Node>,
    reachable: Vec<bool>,
    /// Where runs that do not end by themselves count as ending.
    stops: Vec<bool>,
    /// By node: the nodes whose first witnesses depend on its own, but through fans.
    dependents: Vec<Vec<Node>>,
    fans: Fans,
    order: Order,
    /// By way: what follows, and whose it is.
    onward: Arc<[(WayKind, Routine)]>,
}

impl Icfg {
    /// The routines.
    pub fn routines(&self) -> &IndexMap<Routine, RoutineData> {
        &self.routines
    }

    /// The nodes.
    pub fn nodes(&self) -> &IndexMap<Node, NodeData> {
        &self.nodes
    }

    /// The ways, those of a node next to each other.
    pub fn ways(&self) -> &IndexMap<Way, WayData> {
        &self.ways
    }

    /// The ways of `node`.
    pub fn ways_of(
        &self,
        node: Node,
    ) -> impl DoubleEndedIterator<Item = Way> + ExactSizeIterator + use<> {
        let (first, end) = self.nodes[node].ways;
        (first as usize..end as usize).map(Way::new)
    }

    /// The nodes with several ways, of those that can be reached.
    pub fn predicates(&self) -> impl Iterator<Item = Node> + '_ {
        let is_predicate = |&node: &Node| self.is_reachable(node) && self.ways_of(node).len() > 1;
        self.nodes.indices().filter(is_predicate)
    }

    /// Whether an execution can come to `node`, if every call returns.
    pub fn is_reachable(&self, node: Node) -> bool {
        self.reachable[node.position()]
    }

    /// Where runs, or the threads of a run, begin.
    pub fn roots(&self) -> &[Routine] {
        &self.roots
    }

    /// The landings of all routines.
    pub fn landings(&self) -> &[Node] {
        &self.landings
    }

    /// How many places there are.
    pub fn place_count(&self) -> usize {
        self.nodes.len() + self.ways.len()
    }

    /// The place that a node is.
    pub fn place_of_node(&self, node: Node) -> Place {
        Place::new(node.position())
    }

    /// The place that a way is.
    pub fn place_of_way(&self, way: Way) -> Place {
        Place::new(self.nodes.len() + way.position())
    }

    /// What a place is.
    pub fn place(&self, place: Place) -> PlaceKind {
        match place.position().checked_sub(self.nodes.len()) {
            None => PlaceKind::Node(Node::new(place.position())),
            Some(way) => PlaceKind::Way(Way::new(way)),
        }
    }

    /// The routine a place is in.
    pub fn routine_of_place(&self, place: Place) -> Routine {
        match self.place(place) {
            PlaceKind::Node(node) => self.nodes[node].routine,
            PlaceKind::Way(way) => self.nodes[self.ways[way].from].routine,
        }
    }

    /// Whether a run counts as ending at `node`, because it would go round for
    /// ever.
    pub(crate) fn is_stop(&self, node: Node) -> bool {
        self.stops[node.position()]
    }

    pub(crate) fn dependents(&self, node: Node) -> &[Node] {
        &self.dependents[node.position()]
    }

    pub(crate) fn order(&self) -> &Order {
        &self.order
    }

    /// How many nodes of its routine are before a node.
    pub(crate) fn position_in_routine(&self, node: Node) -> usize {
        self.positions[node.position()] as usize
    }

    pub(crate) fn fans(&self) -> &Fans {
        &self.fans
    }

    /// By way: what follows, and the routine it is in.
    pub(crate) fn onward(&self) -> &Arc<[(WayKind, Routine)]> {
        &self.onward
    }

    /// Whether a call comes back to the node that makes it: unseen code calls.
    pub fn is_callback(&self, way: Way) -> bool {
        let data = self.ways[way];
        matches!(data.kind, WayKind::Call { back, .. } if back == data.from)
    }
}

/// Puts an [`Icfg`] together.
#[derive(Debug, Clone, Default)]
pub struct Builder {
    routines: Vec<Vec<Node>>,
    nodes: Vec<(Routine, Role, bool)>,
    ways: Vec<(Node, WayKind)>,
    roots: Vec<Routine>,
}

impl Builder {
    /// Nothing yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Another routine. Its first node is its entry.
    pub fn routine(&mut self) -> Routine {
        self.routines.push(Vec::new());
        Routine::new(self.routines.len() - 1)
    }

    /// Another node of `routine`.
    pub fn node(&mut self, routine: Routine, role: Role) -> Node {
        let node = Node::new(self.nodes.len());
        self.nodes.push((routine, role, false));
        self.routines[routine.position()].push(node);
        node
    }

    /// Makes `node` a landing.
    pub fn landing(&mut self, node: Node) {
        self.nodes[node.position()].2 = true;
    }

    /// Adds a way. One that is there already is not added again: which of two
    /// was taken makes no difference to the nodes that are passed.
    pub fn way(&mut self, from: Node, kind: WayKind) {
        self.ways.push((from, kind));
    }

    /// Makes `routine` one where runs or threads begin.
    pub fn root(&mut self, routine: Routine) {
        if !self.roots.contains(&routine) {
            self.roots.push(routine);
        }
    }

    /// The graph.
    pub fn build(self) -> Result<Icfg, Error> {
        let wrong = |why: String| Err(Error::Graph(why));
        if self.roots.is_empty() {
            return wrong("it has no root".into());
        }
        let mut ways_by_node: Vec<Vec<WayKind>> = vec![Vec::new(); self.nodes.len()];
        for (from, kind) in self.ways {
            ways_by_node[from.position()].push(kind);
        }
        ways_by_node.iter_mut().filter(|ways| ways.len() > 1).for_each(keep_first);
        let routine_of = |node: Node| self.nodes.get(node.position()).map(|data| data.0);
        let mut routines = IndexMap::<Routine, RoutineData>::new();
        for (number, nodes) in self.routines.iter().enumerate() {
            let Some(&entry) = nodes.first() else {
                return wrong(format!("routine r{number} has no entry"));
            };
            let has_landings = nodes.iter().any(|node| self.nodes[node.position()].2);
            routines.push(RoutineData {
                entry,
                nodes: nodes.clone(),
                has_landings,
                callers: Vec::new(),
            });
        }
        let fans = Fans::new(&ways_by_node, routines.len());
        let mut nodes = IndexMap::<Node, NodeData>::new();
        let mut ways = IndexMap::<Way, WayData>::new();
        let mut dependents = vec![Vec::new(); self.nodes.len()];
        for (number, kinds) in ways_by_node.into_iter().enumerate() {
            let from = Node::new(number);
            let (routine, role, landing) = self.nodes[number];
            let first = ways.len() as u32;
            for kind in kinds {
                let target = match kind {
                    WayKind::Step(to) | WayKind::Call { back: to, .. } => Some(to),
                    _ => None,
                };
                if let Some(to) = target {
                    if routine_of(to) != Some(routine) {
                        return wrong(format!("{from} of {routine} leads to {to} of another"));
                    }
                    dependents[to.position()].push(from);
                }
                let way = ways.push(WayData { from, kind });
                if let WayKind::Call { callee, .. } | WayKind::Tail(callee) = kind {
                    if callee.position() >= routines.len() {
                        return wrong(format!("{from} calls {callee}, which is not there"));
                    }
                    routines[callee].callers.push(way);
                    if !fans.contains(from) {
                        dependents[routines[callee].entry.position()].push(from);
                    }
                }
            }
            nodes.push(NodeData { routine, role, landing, ways: (first, ways.len() as u32) });
        }
        for list in &mut dependents {
            list.sort_unstable();
            list.dedup();
        }
        let landings = nodes.indices().filter(|&node| nodes[node].landing).collect();
        let roots = self.roots;
        let (reachable, stops) = (Vec::new(), vec![false; nodes.len()]);
        let order = Order::new(&routines, &nodes, &ways, &fans);
        let onward = ways.values().map(|way| (way.kind, nodes[way.from].routine)).collect();
        let mut positions = vec![0; nodes.len()];
        for routine in routines.values() {
            let all = routine.nodes.iter().enumerate();
            all.for_each(|(position, node)| positions[node.position()] = position as u32);
        }
        let mut icfg = Icfg {
            routines,
            nodes,
            positions,
            ways,
            roots,
            landings,
            reachable,
            stops,
            dependents,
            fans,
            order,
            onward,
        };
        icfg.find_reachable();
        for node in endless::find_stops(&icfg) {
            icfg.stops[node.position()] = true;
        }
        Ok(icfg)
    }
}

/// Leaves the first of ways that are the same.
fn keep_first(ways: &mut Vec<WayKind>) {
    // One may call whatever has its address taken; most have two.
    if ways.len() > 16 {
        let mut known = HashSet::new();
        ways.retain(|&way| known.insert(way));
        return;
    }
    let mut kept = 0;
    for at in 0..ways.len() {
        if !ways[..kept].contains(&ways[at]) {
            ways[kept] = ways[at];
            kept += 1;
        }
    }
    ways.truncate(kept);
}

impl Icfg {
    fn find_reachable(&mut self) {
        let mut reachable = vec![false; self.nodes.len()];
        let mut has_landed = vec![false; self.routines.len()];
        let entry = |routine: Routine| self.routines[routine].entry;
        let mut waiting: Vec<Node> = self.roots.iter().map(|&root| entry(root)).collect();
        while let Some(node) = waiting.pop() {
            if std::mem::replace(&mut reachable[node.position()], true) {
                continue;
            }
            let routine = self.nodes[node].routine;
            if !std::mem::replace(&mut has_landed[routine.position()], true) {
                let nodes = self.routines[routine].nodes.iter();
                waiting.extend(nodes.filter(|&&node| self.nodes[node].landing));
            }
            for way in self.ways_of(node) {
                match self.ways[way].kind {
                    WayKind::Step(to) => waiting.push(to),
                    WayKind::Call { callee, back } => waiting.extend([entry(callee), back]),
                    WayKind::Tail(callee) => waiting.push(entry(callee)),
                    WayKind::Return | WayKind::Leave | WayKind::End => {}
                }
            }
        }
        for number in 0..self.routines.len() {
            let ways = &self.ways;
            let callers = &mut self.routines[Routine::new(number)].callers;
            callers.retain(|&way| reachable[ways[way].from.position()]);
        }
        self.reachable = reachable;
    }
}
