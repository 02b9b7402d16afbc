//! Small random traced graphs, and all their executions up to a length: the slow
//! and obvious twin of rebuilding.
#![allow(dead_code)] // Each test uses its part.

use std::collections::BTreeMap;

use backtrail_graph::Index;
use backtrail_trace::distribution::Profile;
use backtrail_trace::icfg::{Builder, Icfg, Node, Place, Role, Routine, WayKind};
use backtrail_trace::rebuild::{Ending, Event, Outcome, Rebuild, Tables};
use fastrand::Rng;

/// How large graphs are.
#[derive(Clone, Copy)]
pub struct Size {
    pub routines: usize,
    pub nodes: usize,
}

/// What may be in a graph, beside steps and direct calls.
#[derive(Clone, Copy)]
pub struct Features {
    pub hubs: bool,
    pub leaves: bool,
}

/// A random graph with several executions, which depends on the seed alone.
pub fn graph(rng: &mut Rng, size: Size, features: Features) -> Icfg {
    loop {
        let icfg = any_graph(rng, size, features);
        if executions(&icfg, 8, 5).len() > 2 {
            return icfg;
        }
    }
}

fn any_graph(rng: &mut Rng, size: Size, features: Features) -> Icfg {
    let mut builder = Builder::new();
    let count = rng.usize(1..=size.routines);
    let routines: Vec<Routine> = (0..count).map(|_| builder.routine()).collect();
    let mut nodes: Vec<Vec<Node>> = Vec::new();
    let mut has_landings = vec![false; count];
    let mut number = 0;
    for &routine in &routines {
        let least = if number == 0 { size.nodes / 2 + 1 } else { 1 };
        let length = rng.usize(least..=size.nodes);
        let mut own = Vec::new();
        for _ in 0..length {
            own.push(builder.node(routine, Role::Block(number)));
            number += 1;
        }
        if features.leaves && length > 1 && rng.usize(0..3) == 0 {
            // No landing pad is where a routine begins.
            let landing = own[rng.usize(1..length)];
            builder.landing(landing);
            has_landings[routine.position()] = true;
        }
        nodes.push(own);
    }
    let may_leave = has_landings.iter().any(|&it| it);
    for &routine in &routines {
        let own = nodes[routine.position()].clone();
        for (at, &node) in own.iter().enumerate() {
            let any = |rng: &mut Rng| own[rng.usize(0..own.len())];
            // Mostly forward, so that executions end.
            let next = |rng: &mut Rng| match own.get(at + 1..) {
                Some(later) if !later.is_empty() && rng.usize(0..3) > 0 => {
                    later[rng.usize(0..later.len())]
                }
                _ => any(rng),
            };
            let callee = |rng: &mut Rng| routines[rng.usize(0..count)];
            if at + 1 == own.len() && rng.usize(0..4) > 0 {
                builder.way(node, WayKind::Return);
                continue;
            }
            match rng.usize(0..17) {
                0 => builder.way(node, WayKind::Return),
                1..=2 => builder.way(node, WayKind::Step(next(rng))),
                3..=7 | 16 => {
                    builder.way(node, WayKind::Step(next(rng)));
                    builder.way(node, WayKind::Step(any(rng)));
                }
                8 => {
                    for _ in 0..3 {
                        builder.way(node, WayKind::Step(next(rng)));
                    }
                }
                9..=10 => builder.way(node, WayKind::Call { callee: callee(rng), back: next(rng) }),
                11 => {
                    let back = next(rng);
                    for _ in 0..2 {
                        builder.way(node, WayKind::Call { callee: callee(rng), back });
                    }
                }
                12 => builder.way(node, WayKind::Tail(callee(rng))),
                13 if features.hubs => builder.way(node, WayKind::End),
                14 if may_leave => builder.way(node, WayKind::Leave),
                _ if features.hubs => {
                    let hub = builder.node(routine, Role::Hub);
                    builder.way(node, WayKind::Step(hub));
                    let behind = builder.node(routine, Role::Piece);
                    builder.way(hub, WayKind::Step(behind));
                    builder.way(behind, WayKind::Step(next(rng)));
                    for _ in 0..rng.usize(0..=2) {
                        builder.way(hub, WayKind::Call { callee: callee(rng), back: hub });
                    }
                    if rng.bool() {
                        builder.way(hub, WayKind::End);
                    }
                    if may_leave && rng.bool() {
                        builder.way(hub, WayKind::Leave);
                    }
                }
                _ => builder.way(node, WayKind::Step(next(rng))),
            }
        }
    }
    builder.root(routines[0]);
    builder.build().expect("what was made is right")
}

/// What happened, from the start to the end of a run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    pub nodes: Vec<Node>,
    /// The places passed, with the depth of the frame.
    pub places: Vec<(Place, u32)>,
}

impl Execution {
    /// What a run with this profile records.
    pub fn partial_trace(&self, icfg: &Icfg, profile: &Profile) -> Vec<Event> {
        let events = self.places.iter().filter_map(|&(place, depth)| {
            let is_landing = icfg.landings().iter().any(|&it| icfg.place_of_node(it) == place);
            let depth = if is_landing { depth } else { 0 };
            Some(Event { witness: profile.witness(place)?, depth })
        });
        events.collect()
    }

    /// What runs with these profiles record.
    pub fn partial_traces(&self, icfg: &Icfg, profiles: &[Profile]) -> Vec<Vec<Event>> {
        profiles.iter().map(|profile| self.partial_trace(icfg, profile)).collect()
    }
}

/// An execution under way.
#[derive(Clone)]
struct Walk {
    execution: Execution,
    /// Each activation's routine and where it returns to.
    stack: Vec<(Routine, Option<Node>)>,
}

impl Walk {
    fn new(icfg: &Icfg) -> Self {
        let root = icfg.roots()[0];
        let mut walk = Self {
            execution: Execution { nodes: Vec::new(), places: Vec::new() },
            stack: vec![(root, None)],
        };
        walk.pass_node(icfg, icfg.routines()[root].entry);
        walk
    }

    fn pass_node(&mut self, icfg: &Icfg, node: Node) {
        let has = |routine: Routine| icfg.routines()[routine].has_landings;
        let below = self.stack.iter().filter(|(routine, _)| has(*routine)).count();
        self.execution.nodes.push(node);
        self.execution.places.push((icfg.place_of_node(node), (below as u32).saturating_sub(1)));
    }

    /// All that can come next: going on, or the end of the run.
    fn successors(&self, icfg: &Icfg) -> Vec<(Walk, bool)> {
        let mut found = Vec::new();
        let node = *self.execution.nodes.last().expect("a walk has a node");
        for way in icfg.ways_of(node) {
            let mut walk = self.clone();
            walk.execution.places.push((icfg.place_of_way(way), 0));
            match icfg.ways()[way].kind {
                WayKind::Step(to) => {
                    walk.pass_node(icfg, to);
                    found.push((walk, false));
                }
                WayKind::Call { callee, back } => {
                    walk.stack.push((callee, Some(back)));
                    walk.pass_node(icfg, icfg.routines()[callee].entry);
                    found.push((walk, false));
                }
                WayKind::Tail(callee) => {
                    let (_, back) = walk.stack.pop().expect("a frame");
                    walk.stack.push((callee, back));
                    walk.pass_node(icfg, icfg.routines()[callee].entry);
                    found.push((walk, false));
                }
                WayKind::Return => match walk.stack.pop().expect("a frame").1 {
                    Some(back) => {
                        walk.pass_node(icfg, back);
                        found.push((walk, false));
                    }
                    None => found.push((walk, true)),
                },
                WayKind::End => found.push((walk, true)),
                WayKind::Leave => {
                    for height in 1..=walk.stack.len() {
                        let routine = walk.stack[height - 1].0;
                        for &node in &icfg.routines()[routine].nodes {
                            if icfg.nodes()[node].landing {
                                let mut walk = walk.clone();
                                walk.stack.truncate(height);
                                walk.pass_node(icfg, node);
                                found.push((walk, false));
                            }
                        }
                    }
                }
            }
        }
        found
    }
}

/// All executions of at most `length` nodes; fewer if there are more than
/// `most`, the shorter ones.
pub fn executions(icfg: &Icfg, length: usize, most: usize) -> Vec<Execution> {
    let mut ended = Vec::new();
    let mut under_way = vec![Walk::new(icfg)];
    for _ in 0..length {
        let mut next = Vec::new();
        for walk in &under_way {
            for (walk, is_end) in walk.successors(icfg) {
                match is_end {
                    true => ended.push(walk.execution),
                    false => next.push(walk),
                }
                if ended.len() >= most || next.len() >= 4 * most {
                    return ended;
                }
            }
        }
        under_way = next;
    }
    ended
}

/// A random execution of at most `length` nodes, if it ended.
pub fn random_execution(icfg: &Icfg, rng: &mut Rng, length: usize) -> Option<Execution> {
    let (execution, is_end) = random_walk(icfg, rng, length);
    is_end.then_some(execution)
}

/// A random execution of at most `length` nodes, and whether it ended.
pub fn random_walk(icfg: &Icfg, rng: &mut Rng, length: usize) -> (Execution, bool) {
    let mut walk = Walk::new(icfg);
    for _ in 0..length {
        let mut next = walk.successors(icfg);
        if next.is_empty() {
            break;
        }
        let (chosen, is_end) = next.swap_remove(rng.usize(0..next.len()));
        if is_end {
            return (chosen.execution, true);
        }
        walk = chosen;
    }
    (walk.execution, false)
}

/// The nodes that come out of partial traces, and how it ended.
pub fn rebuild(
    tables: &Tables,
    icfg: &Icfg,
    traces: &[Vec<Event>],
    ending: Ending,
) -> (Vec<Node>, Result<Outcome, backtrail_trace::Error>) {
    let traces = traces.iter().map(|events| (events.iter().copied(), ending));
    let mut rebuild = Rebuild::new(tables, icfg.roots()[0], traces);
    let mut nodes = Vec::new();
    for node in &mut rebuild {
        match node {
            Ok(node) => nodes.push(node),
            Err(error) => return (nodes, Err(error)),
        }
        if nodes.len() > 100_000 {
            panic!("it does not end");
        }
    }
    let outcome = rebuild.outcome().expect("it ended");
    (nodes, Ok(outcome))
}

/// Fails unless `execution` comes out of its own partial traces.
pub fn check_rebuilt(tables: &Tables, icfg: &Icfg, profiles: &[Profile], execution: &Execution) {
    let traces = execution.partial_traces(icfg, profiles);
    let (nodes, outcome) = rebuild(tables, icfg, &traces, Ending::Whole);
    assert!(
        nodes == execution.nodes && matches!(outcome, Ok(Outcome::Whole)),
        "{:?} came out as {nodes:?} ({outcome:?})\nprofiles {profiles:?}\n{icfg:#?}",
        execution.nodes
    );
}

/// Partial traces that can be compared.
type Traces = Vec<Vec<(usize, u32)>>;

/// Whether two of the executions have the same partial traces.
pub fn has_twins(icfg: &Icfg, profiles: &[Profile], executions: &[Execution]) -> bool {
    let mut seen: BTreeMap<Traces, &[Node]> = BTreeMap::new();
    executions.iter().any(|execution| {
        let traces = execution.partial_traces(icfg, profiles);
        let key = traces.iter().map(|trace| {
            trace.iter().map(|event| (event.witness.position(), event.depth)).collect()
        });
        let other = seen.entry(key.collect()).or_insert(&execution.nodes);
        *other != execution.nodes
    })
}

/// How many graphs to try: what the environment says, or `few`.
pub fn graph_count(few: u64) -> u64 {
    std::env::var("BACKTRAIL_ICFGS")
        .ok()
        .map_or(few, |count| count.parse().expect("BACKTRAIL_ICFGS is a number of graphs"))
}

/// A graph of one routine from its edges; the last node returns.
pub fn loop_free_standing(nodes: usize, edges: &[(usize, usize)]) -> Icfg {
    let mut builder = Builder::new();
    let routine = builder.routine();
    let own: Vec<Node> =
        (0..nodes).map(|number| builder.node(routine, Role::Block(number as u32))).collect();
    for &(from, to) in edges {
        builder.way(own[from], WayKind::Step(own[to]));
    }
    builder.way(own[nodes - 1], WayKind::Return);
    builder.root(routine);
    builder.build().expect("a graph of edges")
}
