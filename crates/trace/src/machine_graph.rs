//! The traced graph of an executable, from its machine code.
//!
//! Each routine of the code is one of the graph, each block a node. What an
//! executable does not tell is who a pointer points to and what libraries do, so
//! there is one kind of node for both: a *hub*, behind a call through a pointer or
//! into a library. While a hub runs, it may call back any routine whose address is
//! taken, as often as it likes; then it goes on behind the call. A call through a
//! pointer to a routine that is seen is thus a hub that calls back once. All hubs
//! call through one routine, `anyone`, which hands over to whoever it is: as many
//! ways as there are such routines, not as many for each call.
//!
//! Library functions that do nothing but return ([`backtrail_analysis::unseen`])
//! have no hub, unless a library that is seen replaces functions of one that is not.
//! Nor has a *jump* through a pointer or into a library: it counts as a
//! return, and what it does is the business of a hub behind the call that it
//! returns to. There is one behind every call of a routine that may end in such a
//! jump. (With a hub of its own, a jump in a routine that was called back could not
//! be told from the return to the hub that called it.)
//!
//! Landings are landing pads and what follows a call that returns twice. A jump to
//! another function gives up the frame; one to code that several functions share
//! keeps it, on the walk's stack as on the machine's.
//!
//! A program that can start threads has a second root, which calls those whose address is
//! taken: one of them is what a thread begins with, and others, when that has returned,
//! are destructors of the thread's own data ([`MachineGraph::thread_root`]). So has one that
//! can handle signals: a handler that runs where nothing is called is not called back by a
//! hub, and what follows its return is not what follows one ([`Recorder`]).
//!
//! Breakpoints can be at the first instruction of a block that no other overlaps
//! ([`Code`] knows). Heads of routines whose address is taken always have one: a
//! hub is told from what follows it by who it calls. So have those where a call goes
//! on if that is another routine. Where the run ends is seen
//! when it does, by the call that was active ([`MachineGraph::end_of`]).

mod counts;
mod recorder;
mod weights;

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::unseen::{Behaviour, CallsBack};
use backtrail_graph::{Index, IndexMap};
use backtrail_ir::Traits;
use backtrail_machine::code::{Callee, Code, Exit, KERNEL};
use backtrail_outside::{self as outside, Class, Set};

use crate::Error;
use crate::distribution::Costs;
use crate::icfg::{Builder, Icfg, Node, Place, PlaceKind, Role, Routine, Way, WayKind};

pub use counts::Counts;
pub use recorder::{Recorded, Recorder};
pub use weights::Weights;

/// The traced graph of an executable.
#[derive(Debug, Clone)]
pub struct MachineGraph {
    /// The graph. The number of a [`Role::Block`] is that of the block.
    pub icfg: Icfg,
    /// By block: its node.
    pub nodes: Vec<Node>,
    /// By block that ends in a call: the node that stands for what happens unseen.
    hubs: BTreeMap<usize, Node>,
    always: Vec<Node>,
    observable: Vec<bool>,
    thread_root: Option<Routine>,
    is_interruptible: bool,
}

/// The function of a library that is called, if it is one and listed.
fn row(callee: &Callee) -> Option<&'static outside::Function> {
    match callee {
        Callee::External(name) => outside::of(name),
        _ => None,
    }
}

/// All that calls, or jumps for good, by name.
fn callees(code: &Code) -> impl Iterator<Item = &Callee> {
    code.blocks.iter().filter_map(|block| match &block.exit {
        Exit::Call(callee, _) | Exit::Tail(callee) | Exit::BlocksOrTail(_, callee) => Some(callee),
        _ => None,
    })
}

/// Whether a function returns a second time, for a landing.
fn is_twice(row: &outside::Function) -> bool {
    row.returns_twice && !row.vforks
}

/// Whether the code asks a library for threads.
fn starts_threads(code: &Code) -> bool {
    callees(code).filter_map(row).any(|row| row.starts_threads)
}

/// The kinds of hooks that the code leaves, as far as it is known. The kernel may be asked
/// to have signals handled.
fn hooks(code: &Code) -> Set<Class> {
    let is_kernel = |callee: &Callee| matches!(callee, Callee::External(name) if name == KERNEL);
    let kernel = callees(code).any(is_kernel).then_some(Class::Signal);
    let installs = callees(code).filter_map(row).flat_map(|row| &row.installs);
    installs.map(|it| it.class).chain(kernel).collect()
}

fn behaviour(code: &Code, hooks: Set<Class>, callee: &Callee) -> Behaviour {
    let name = match callee {
        Callee::External(name) if name == KERNEL => {
            return Behaviour { ends: true, ..Behaviour::PLAIN };
        }
        Callee::External(name) => name,
        Callee::Routine(_) | Callee::Pointer => "",
    };
    let known = Behaviour::of(name, Traits::default(), hooks);
    // Whatever it is known to do without, it may do by calling what was replaced.
    let anything = code.replaces_unseen.then(|| Behaviour::of("", Traits::default(), hooks));
    anything.map_or(known, |anything| unite(Some(known), anything))
}

struct Maker<'a> {
    code: &'a Code,
    hooks: Set<Class>,
    builder: Builder,
    nodes: Vec<Node>,
    hubs: BTreeMap<usize, Node>,
    /// Nodes that hubs lead to by way of others.
    shared: Vec<Node>,
    /// By routine: what it may jump into.
    jumps_into: Vec<Option<Behaviour>>,
    /// The routine that hands over to any whose address is taken.
    anyone: Option<Routine>,
    landings: BTreeSet<Node>,
    /// By routine.
    has_landings: Vec<bool>,
    /// By routine: a node that returns, one that nothing follows.
    returning: BTreeMap<usize, Node>,
    dead: BTreeMap<usize, Node>,
}

impl MachineGraph {
    /// The graph of an executable's code.
    pub fn new(code: &Code) -> Result<Self, Error> {
        let mut builder = Builder::new();
        for _ in &code.routines {
            builder.routine();
        }
        let mut nodes = vec![None; code.blocks.len()];
        let heads = code.routines.iter().map(|routine| routine.head);
        for block in heads.chain(0..code.blocks.len()) {
            let routine = Routine::new(code.blocks[block].routine);
            nodes[block].get_or_insert_with(|| builder.node(routine, Role::Block(block as u32)));
        }
        let nodes: Vec<Node> = nodes.into_iter().flatten().collect();
        let mut landings: Vec<usize> =
            (0..code.blocks.len()).filter(|&block| code.blocks[block].pad).collect();
        landings.extend(code.blocks.iter().filter_map(|block| match &block.exit {
            Exit::Call(callee @ Callee::External(_), back) if row(callee).is_some_and(is_twice) => {
                *back
            }
            // In an executable that holds its C library.
            Exit::Call(Callee::Routine(routine), back) => {
                let name = code.routines[*routine].name.as_deref();
                name.and_then(outside::of).is_some_and(is_twice).then_some(*back)?
            }
            _ => None,
        }));
        let mut has_landings = vec![false; code.routines.len()];
        for &landing in &landings {
            builder.landing(nodes[landing]);
            has_landings[code.blocks[landing].routine] = true;
        }
        let taken: Vec<Routine> = (0..code.routines.len())
            .filter(|&routine| code.routines[routine].taken)
            .map(Routine::new)
            .collect();
        let anyone = (!taken.is_empty()).then(|| builder.routine());
        if let Some(anyone) = anyone {
            let node = builder.node(anyone, Role::Hub);
            taken.iter().for_each(|&routine| builder.way(node, WayKind::Tail(routine)));
        }
        builder.root(Routine::new(code.entry));
        let hooks = hooks(code);
        let (has_threads, has_handlers) = (starts_threads(code), hooks.has(Class::Signal));
        let root = anyone.filter(|_| has_threads || has_handlers).map(|anyone| {
            let root = builder.routine();
            let hub = builder.node(root, Role::Hub);
            builder.way(hub, WayKind::Call { callee: anyone, back: hub });
            builder.way(hub, WayKind::Return);
            builder.root(root);
            root
        });
        let landings = landings.iter().map(|&block| nodes[block]).collect();
        let mut maker = Maker {
            code,
            builder,
            nodes,
            hubs: BTreeMap::new(),
            shared: Vec::new(),
            jumps_into: jumps_into_the_unseen(code, hooks),
            hooks,
            anyone,
            landings,
            has_landings,
            returning: BTreeMap::new(),
            dead: BTreeMap::new(),
        };
        (0..code.blocks.len()).for_each(|block| maker.add_block(block));
        let Maker { builder, nodes, hubs, shared, .. } = maker;
        let mut always: Vec<Node> =
            taken.iter().map(|it| nodes[code.routines[it.position()].head]).collect();
        always.extend(shared);
        let icfg = builder.build()?;
        let mut observable = vec![false; icfg.nodes().len()];
        for (block, &node) in nodes.iter().enumerate() {
            observable[node.position()] = code.blocks[block].plain;
        }
        if let Some(&landing) = icfg.landings().iter().find(|it| !observable[it.position()]) {
            return Err(Error::Graph(format!("code overlaps at a landing, {landing}")));
        }
        let thread_root = root.filter(|_| has_threads);
        let is_interruptible = root.is_some();
        Ok(Self { icfg, nodes, hubs, always, observable, thread_root, is_interruptible })
    }

    /// What can be observed with breakpoints, and how often it is passed.
    pub fn costs(&self, code: &Code, weights: &Weights<'_>) -> Costs {
        let by_place = weights::by_place(self, code, weights);
        let seen = self.always.iter().filter(|node| self.observable[node.position()]);
        let mut forced: Vec<Place> = seen.map(|&node| self.icfg.place_of_node(node)).collect();
        let ends = self.icfg.ways().iter().filter(|(_, way)| way.kind == WayKind::End);
        forced.extend(ends.map(|(way, _)| self.icfg.place_of_way(way)));
        let observable = |place| match self.icfg.place(place) {
            PlaceKind::Node(node) => self.observable[node.position()],
            PlaceKind::Way(_) => false,
        };
        Costs::new(&self.icfg, by_place, observable, forced)
    }

    /// Everything that can be observed, and what always is.
    pub fn every_place(&self, costs: &Costs) -> Vec<Place> {
        let all = (0..self.icfg.place_count()).map(Place::new);
        let seen = all.filter(|&place| costs.is_observable(place));
        seen.chain(costs.forced().iter().copied()).collect()
    }

    /// Weights by the shape of the code alone.
    pub fn guessed_weights(&self, code: &Code) -> Weights<'static> {
        Weights::Guessed(weights::guess(code))
    }

    /// How many breakpoints every run has, whatever else it observes.
    pub fn breakpoints_of_every_run(&self, costs: &Costs) -> usize {
        costs.forced().iter().filter(|&&place| self.block_of(place).is_some()).count()
    }

    /// The block at whose start a witness is; none if it is an end of the run.
    pub fn block_of(&self, place: Place) -> Option<usize> {
        let PlaceKind::Node(node) = self.icfg.place(place) else { return None };
        match self.icfg.nodes()[node].role {
            Role::Block(block) => Some(block as usize),
            _ => None,
        }
    }

    /// The way by which the run ended, if it ended in a call that this block ends
    /// with.
    pub fn end_of(&self, block: usize) -> Option<Way> {
        let hub = *self.hubs.get(&block)?;
        self.icfg.ways_of(hub).find(|&way| self.icfg.ways()[way].kind == WayKind::End)
    }

    /// Whether what happens unseen in a call that this block ends with may call back.
    fn may_call_back(&self, block: usize) -> bool {
        let is_call = |way: Way| matches!(self.icfg.ways()[way].kind, WayKind::Call { .. });
        self.hubs.get(&block).is_some_and(|&hub| self.icfg.ways_of(hub).any(is_call))
    }

    /// What calls all that a thread runs, if the program can start any.
    pub fn thread_root(&self) -> Option<Routine> {
        self.thread_root
    }

    /// By routine: whether frames that were left resume in it.
    pub fn has_landings(&self, routine: usize) -> bool {
        self.icfg.routines()[Routine::new(routine)].has_landings
    }
}

impl Maker<'_> {
    fn routine(&self, block: usize) -> Routine {
        Routine::new(self.code.blocks[block].routine)
    }

    fn has_landings_anywhere(&self) -> bool {
        !self.landings.is_empty()
    }

    /// A node of a block's routine that returns to the caller.
    fn returning(&mut self, block: usize) -> Node {
        let routine = self.routine(block);
        let builder = &mut self.builder;
        *self.returning.entry(routine.position()).or_insert_with(|| {
            let node = builder.node(routine, Role::Hub);
            builder.way(node, WayKind::Return);
            node
        })
    }

    /// A node of a block's routine that no run comes to.
    fn dead(&mut self, block: usize) -> Node {
        let routine = self.routine(block);
        let builder = &mut self.builder;
        *self.dead.entry(routine.position()).or_insert_with(|| builder.node(routine, Role::Hub))
    }

    /// A jump from `block` to the head of another routine.
    fn hand_over(&mut self, block: usize, routine: usize) {
        let keeps_landings = self.has_landings[self.code.blocks[block].routine]
            && self.code.routines[routine].shared;
        let kind = if keeps_landings {
            let back = self.returning(block);
            WayKind::Call { callee: Routine::new(routine), back }
        } else {
            WayKind::Tail(Routine::new(routine))
        };
        self.builder.way(self.nodes[block], kind);
    }

    fn jump(&mut self, block: usize, to: usize) {
        let own = self.code.blocks[block].routine;
        let other = self.code.blocks[to].routine;
        if own == other {
            self.builder.way(self.nodes[block], WayKind::Step(self.nodes[to]));
        } else {
            self.hand_over(block, other);
        }
    }

    fn add_block(&mut self, block: usize) {
        let code = self.code;
        let node = self.nodes[block];
        match &code.blocks[block].exit {
            Exit::Blocks(next) => next.iter().for_each(|&to| self.jump(block, to)),
            Exit::BlocksOrTail(next, callee) => {
                next.iter().for_each(|&to| self.jump(block, to));
                match callee {
                    Callee::Routine(routine) => self.hand_over(block, *routine),
                    _ => self.builder.way(node, WayKind::Return),
                }
            }
            Exit::Call(Callee::Routine(routine), back) => {
                let back = back.map(|back| self.back(block, back));
                let back = match self.jumps_into[*routine] {
                    Some(behaviour) if !self.is_plain(behaviour) => {
                        self.hub(block, behaviour, back)
                    }
                    _ => back.unwrap_or_else(|| self.dead(block)),
                };
                let callee = Routine::new(*routine);
                self.builder.way(node, WayKind::Call { callee, back });
            }
            Exit::Call(callee, back) => {
                let behaviour = behaviour(code, self.hooks, callee);
                let back = back.map(|back| self.back(block, back));
                let next = match back {
                    Some(back) if self.is_plain(behaviour) => back,
                    _ => self.hub(block, behaviour, back),
                };
                self.builder.way(node, WayKind::Step(next));
            }
            Exit::Tail(Callee::Routine(routine)) => self.hand_over(block, *routine),
            Exit::Tail(_) | Exit::Return => self.builder.way(node, WayKind::Return),
            Exit::Nothing => {}
        }
    }

    /// Where a call comes back to: a block behind it, or one that hands over if
    /// another routine begins there.
    fn back(&mut self, block: usize, back: usize) -> Node {
        let (own, other) = (self.code.blocks[block].routine, self.code.blocks[back].routine);
        if own == other {
            return self.nodes[back];
        }
        let node = self.builder.node(Routine::new(own), Role::Hub);
        self.shared.push(self.nodes[back]);
        let kind = if self.has_landings[own] {
            let back = self.returning(block);
            WayKind::Call { callee: Routine::new(other), back }
        } else {
            WayKind::Tail(Routine::new(other))
        };
        self.builder.way(node, kind);
        node
    }

    fn is_plain(&self, behaviour: Behaviour) -> bool {
        behaviour.returns
            && !behaviour.ends
            && (behaviour.calls_back == CallsBack::Nobody || self.anyone.is_none())
            && (!behaviour.leaves || !self.has_landings_anywhere())
    }

    /// What happens unseen during a call, which may go on at `back`.
    fn hub(&mut self, block: usize, behaviour: Behaviour, back: Option<Node>) -> Node {
        let hub = self.builder.node(self.routine(block), Role::Hub);
        self.hubs.insert(block, hub);
        let leaves = behaviour.leaves && self.has_landings_anywhere();
        // What leaves frames may land in this one, too: a landing behind the call is
        // told by its frame, whichever way led there.
        if let Some(back) = back.filter(|it| !(leaves && self.landings.contains(it))) {
            self.builder.way(hub, WayKind::Step(back));
        }
        if let (Some(anyone), true) = (self.anyone, behaviour.calls_back != CallsBack::Nobody) {
            self.builder.way(hub, WayKind::Call { callee: anyone, back: hub });
        }
        if leaves {
            self.builder.way(hub, WayKind::Leave);
        }
        if behaviour.ends {
            self.builder.way(hub, WayKind::End);
        }
        hub
    }
}

/// By routine: what the code may do that it, or a routine that it hands over to,
/// jumps into, if there is such a jump.
fn jumps_into_the_unseen(code: &Code, hooks: Set<Class>) -> Vec<Option<Behaviour>> {
    let mut found: Vec<Option<Behaviour>> = vec![None; code.routines.len()];
    let mut handed_over = vec![Vec::new(); code.routines.len()];
    let mut waiting = Vec::new();
    for block in &code.blocks {
        let own = block.routine;
        match &block.exit {
            Exit::Tail(Callee::Routine(other)) | Exit::BlocksOrTail(_, Callee::Routine(other)) => {
                handed_over[*other].push(own);
            }
            Exit::Tail(callee) | Exit::BlocksOrTail(_, callee) => {
                found[own] = Some(unite(found[own], behaviour(code, hooks, callee)));
                waiting.push(own);
            }
            _ => {}
        }
        let next = match &block.exit {
            Exit::Blocks(next) | Exit::BlocksOrTail(next, _) => &next[..],
            Exit::Call(_, Some(next)) => std::slice::from_ref(next),
            _ => &[],
        };
        let others = next.iter().map(|&to| code.blocks[to].routine).filter(|&it| it != own);
        others.for_each(|other| handed_over[other].push(own));
    }
    while let Some(routine) = waiting.pop() {
        let Some(own) = found[routine] else { continue };
        for &before in &handed_over[routine] {
            let united = unite(found[before], own);
            if found[before] != Some(united) {
                found[before] = Some(united);
                waiting.push(before);
            }
        }
    }
    found
}

/// What either may do.
fn unite(one: Option<Behaviour>, other: Behaviour) -> Behaviour {
    one.map_or(other, |one| Behaviour {
        calls_back: one.calls_back.max(other.calls_back),
        ends: one.ends || other.ends,
        leaves: one.leaves || other.leaves,
        returns: one.returns || other.returns,
    })
}

/// The graph's nodes by block, for readers of traces.
pub fn blocks_of_nodes(graph: &MachineGraph) -> IndexMap<Node, Option<u32>> {
    let role = |role: Role| match role {
        Role::Block(block) => Some(block),
        Role::Piece | Role::Hub => None,
    };
    graph.icfg.nodes().values().map(|node| role(node.role)).collect()
}
