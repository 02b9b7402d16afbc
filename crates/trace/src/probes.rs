//! Witnesses as probes: where in the code each place of the traced graph is, and
//! what is logged there.
//!
//! A unit's witnesses are numbered through, in the order of the profile, and a
//! probe logs the number ([`backtrail_abi::log`]). At a landing a second number
//! follows, which says how deep the frame is that resumes: behind the numbers of
//! witnesses, [`DEPTHS`] more stand for depths. Functions with landings count
//! their frames.
//!
//! | place | probe |
//! | --- | --- |
//! | entry of a routine | at the start of its function |
//! | piece behind a call | behind the call, or on the edge by which it returns |
//! | landing pad, target of a computed jump, any block (nodes) | at its start |
//! | step between blocks | on the edge |
//! | return | before it |
//! | call of one function, call that does not return | before it |
//!
//! Where a pointer leads is seen at the entry of the function it leads to; that
//! unseen code has returned, behind the call.
//!
//! Forced, so that a trace tells by itself how its thread began and whether it came
//! to an end: the entries and returns of `main` and of functions that threads begin
//! with, and calls that end the run; where there may be threads, or children of whom
//! nobody says how they ended, also those of what runs behind `main`
//! ([`ProgramGraph::announced`]). Threads are
//! numbered by their first event, and so are in the same order in all runs. That they
//! began is logged at once, also where whole paths are: one may sleep until it is killed.
//!
//! What the graph knows no way to is watched: if such a function is entered, the graph is
//! wrong, and so would be the trace ([`crate::Error::Impossible`]).

use std::cell::RefCell;
use std::collections::BTreeMap;

use backtrail_abi::UnitId;
use backtrail_abi::log::{COUNT, DEPTHS, FIRST_BASE};
use backtrail_graph::{Index, IndexMap};
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Block, Func, Function, Inst, Op, Tail};
use backtrail_plan::block_log::left_out;
use backtrail_plan::{Action, FunctionPlan, Place as CodePlace, Probe, UnitPlan};

use crate::block_log::Range;
use crate::distribution::{Costs, Profile, Witness};
use crate::icfg::from_program::{Begin, ProgramGraph};
use crate::icfg::{Icfg, Node, Place, PlaceKind, Role, Routine, Way, WayKind};
use crate::path_events::PathEvents;

/// Which places are observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Edges between blocks, mostly.
    Edges,
    /// Blocks.
    Nodes,
}

/// Where the places of a program's graph are in its code.
pub struct ProbePlaces<'a, 'u> {
    graph: &'a ProgramGraph,
    /// By routine: the function, if it can have probes.
    functions: IndexMap<Routine, Option<(Object, Func, &'u Function)>>,
}

impl<'a, 'u> ProbePlaces<'a, 'u> {
    /// Of the graph of this program.
    pub fn new(program: &Program<'u>, graph: &'a ProgramGraph) -> Self {
        let function = |of: &Option<(Object, Func)>| {
            let (object, func) = (*of)?;
            let unit = program.unit(object)?;
            left_out(unit, func).is_none().then(|| (object, func, &unit.functions[func]))
        };
        Self { graph, functions: graph.functions.values().map(function).collect() }
    }

    pub(crate) fn icfg(&self) -> &'a Icfg {
        &self.graph.icfg
    }

    /// Where a node begins in the code.
    pub(crate) fn begin(&self, node: Node) -> Begin {
        self.graph.begins[node]
    }

    pub(crate) fn function(&self, routine: Routine) -> Option<(Object, Func, &'u Function)> {
        self.functions[routine]
    }

    /// Where a probe for `place` goes, if one can.
    pub fn code_place(&self, place: Place) -> Option<CodePlace> {
        let (_, _, function) = self.function(self.icfg().routine_of_place(place))?;
        match self.icfg().place(place) {
            PlaceKind::Node(node) => match self.graph.begins[node] {
                Begin::Block(block) if block.position() == 0 => Some(CodePlace::Entry),
                Begin::Block(block) => Some(CodePlace::Block(block)),
                Begin::After(inst) if function.insts[inst].op.is_terminator() => {
                    let from = block_of(function, inst);
                    Some(CodePlace::Edge { from, to: *function.blocks[from].successors.first()? })
                }
                Begin::After(inst) => Some(CodePlace::After(inst)),
                Begin::Unseen(_) => None,
            },
            PlaceKind::Way(way) => self.code_place_of_way(function, way),
        }
    }

    fn code_place_of_way(&self, function: &Function, way: Way) -> Option<CodePlace> {
        let data = self.icfg().ways()[way];
        let is_only = self.icfg().ways_of(data.from).len() == 1;
        match data.kind {
            WayKind::Step(to) => match self.graph.begins[to] {
                Begin::Block(to) => {
                    let from = self.block(function, data.from)?;
                    let last = function.blocks[from].insts().next_back()?;
                    let is_computed = matches!(function.insts[last].op, Op::IndirectJump);
                    (!is_computed).then_some(CodePlace::Edge { from, to })
                }
                Begin::Unseen(Some(inst)) if is_only => Some(CodePlace::Before(inst)),
                _ => None,
            },
            WayKind::Call { back, .. } if is_only => match self.graph.begins[back] {
                Begin::After(inst) => Some(CodePlace::Before(inst)),
                _ => None,
            },
            WayKind::Return => {
                let block = self.block(function, data.from)?;
                Some(CodePlace::Before(function.blocks[block].insts().next_back()?))
            }
            _ => None,
        }
    }

    /// What can be observed by probes, and what is needed in any case.
    pub fn costs(&self, weights: Vec<u64>, kind: Kind) -> Costs {
        let icfg = self.icfg();
        let observable = |place: Place| {
            let is_there = self.code_place(place).is_some();
            is_there
                && match (icfg.place(place), kind) {
                    (PlaceKind::Node(node), Kind::Edges) => self.is_node_for_edges(node),
                    (PlaceKind::Node(node), Kind::Nodes) => icfg.nodes()[node].role != Role::Hub,
                    (PlaceKind::Way(_), Kind::Edges) => true,
                    (PlaceKind::Way(way), Kind::Nodes) => self.is_way_for_nodes(way),
                }
        };
        let mut forced = Vec::new();
        let mut seeds = Vec::new();
        let mut into_hubs: BTreeMap<Node, Vec<Place>> = BTreeMap::new();
        for (way, data) in icfg.ways().iter() {
            if let WayKind::Step(to) = data.kind
                && icfg.nodes()[to].role == Role::Hub
            {
                into_hubs.entry(to).or_default().push(icfg.place_of_way(way));
            }
        }
        for (node, data) in icfg.nodes().iter().filter(|(node, _)| icfg.is_reachable(*node)) {
            let ways: Vec<Way> = icfg.ways_of(node).collect();
            let kinds = || ways.iter().map(|&way| icfg.ways()[way].kind);
            if data.role == Role::Hub {
                let ends = kinds().any(|kind| kind == WayKind::End);
                // What goes on as another program is last seen before it does.
                let is_turn = |to: Node| self.graph.turns.binary_search(&to).is_ok();
                let returns = kinds().any(|kind| matches!(kind, WayKind::Step(to) if !is_turn(to)));
                if ends && !returns {
                    forced.extend(into_hubs.get(&node).into_iter().flatten());
                }
            }
            // That a handler begins is told of one that interrupts and of one that is called.
            // The program got here if it is called.
            let calls_handler = |kind: WayKind| match kind {
                WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                    self.graph.handlers.contains(&callee)
                }
                _ => false,
            };
            if data.role != Role::Hub && !ways.is_empty() && kinds().all(calls_handler) {
                forced.push(icfg.place_of_node(node));
            }
            if ways.len() > 1 {
                for kind in kinds() {
                    match kind {
                        WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                            seeds.push(icfg.place_of_node(icfg.routines()[callee].entry));
                        }
                        WayKind::Step(to) if data.role == Role::Hub => {
                            seeds.push(icfg.place_of_node(to));
                        }
                        _ => {}
                    }
                }
            }
        }
        for routine in self.graph.announced.iter().copied() {
            let nodes = &icfg.routines()[routine].nodes;
            let ways = nodes.iter().flat_map(|&node| icfg.ways_of(node));
            let returns = ways.filter(|&way| icfg.ways()[way].kind == WayKind::Return);
            forced.extend(returns.map(|way| icfg.place_of_way(way)));
        }
        let entry = |routine: Routine| icfg.place_of_node(icfg.routines()[routine].entry);
        forced.extend(self.graph.announced.iter().copied().map(entry));
        let turns = self.graph.turns.iter().filter(|&&turn| icfg.is_reachable(turn));
        forced.extend(turns.map(|&turn| icfg.place_of_node(turn)));
        forced.retain(|&place| self.code_place(place).is_some());
        seeds.sort_unstable();
        seeds.dedup();
        seeds.retain(|&place| observable(place));
        Costs::new(icfg, weights, observable, forced).with_seeds(seeds)
    }

    /// Whether a witness there is logged by itself, not with a path.
    pub(crate) fn is_logged_alone(&self, node: Node) -> bool {
        let data = &self.icfg().nodes()[node];
        let is_entry = self.icfg().routines()[data.routine].entry == node;
        data.landing || (is_entry && self.graph.announced.binary_search(&data.routine).is_ok())
    }

    /// Whether a node is needed where edges are observed: what no edge stands for.
    fn is_node_for_edges(&self, node: Node) -> bool {
        let icfg = self.icfg();
        let data = &icfg.nodes()[node];
        data.role == Role::Piece
            || icfg.routines()[data.routine].entry == node
            || self.follows_computed_jump(node)
    }

    fn follows_computed_jump(&self, node: Node) -> bool {
        let Begin::Block(block) = self.graph.begins[node] else { return false };
        let Some((_, _, function)) = self.function(self.icfg().nodes()[node].routine) else {
            return false;
        };
        let jumps = function.blocks.values().filter(|data| {
            let last = data.insts().next_back();
            last.is_some_and(|inst| matches!(function.insts[inst].op, Op::IndirectJump))
        });
        jumps.into_iter().any(|data| data.successors.contains(&block))
    }

    /// Whether a way is needed where nodes are observed: calls that do not return.
    fn is_way_for_nodes(&self, way: Way) -> bool {
        let data = self.icfg().ways()[way];
        matches!(data.kind, WayKind::Return)
            || matches!(data.kind, WayKind::Step(to) if self.icfg().nodes()[to].role == Role::Hub)
    }

    /// The probes of a profile, each of which logs its witness.
    pub fn probes(&self, profile: &Profile) -> ProbePlan {
        self.plan(profile, BTreeMap::new())
    }

    /// The same witnesses, with whole paths as events ([`crate::path_events`]).
    /// Only for a profile that suffices by itself.
    pub fn path_probes(&self, profile: &Profile, costs: &Costs) -> ProbePlan {
        let mut paths = BTreeMap::new();
        for routine in self.icfg().routines().indices() {
            let Some((object, func, _)) = self.function(routine) else { continue };
            let events = PathEvents::new(self, routine, profile, costs);
            paths.extend(events.map(|events| ((object, func), events)));
        }
        self.plan(profile, paths)
    }

    fn plan(
        &self,
        profile: &Profile,
        mut paths: BTreeMap<(Object, Func), PathEvents>,
    ) -> ProbePlan {
        let icfg = self.icfg();
        let mut units: BTreeMap<Object, UnitProbes> = BTreeMap::new();
        for (number, &place) in profile.places().iter().enumerate() {
            let Some((object, func, function)) = self.function(icfg.routine_of_place(place)) else {
                continue;
            };
            let Some(at) = self.code_place(place) else { continue };
            let unit = units.entry(object).or_default();
            let node = match icfg.place(place) {
                PlaceKind::Node(node) => Some(node),
                PlaceKind::Way(_) => None,
            };
            let is_landing = node.is_some_and(|node| icfg.nodes()[node].landing);
            let is_alone = node.is_some_and(|node| self.is_logged_alone(node));
            unit.places += 1;
            let probes = unit.probes.entry(func).or_default();
            if is_alone || !paths.contains_key(&(object, func)) {
                let kind = if is_landing { EventKind::Landing } else { EventKind::Witness };
                probes.push((at, unit.witnesses.len() as u32, kind));
                unit.witnesses.push(Witness::new(number));
            }
            unit.has_landings |= is_landing;
            if is_landing && !unit.deep.contains_key(&func) {
                unit.deep.insert(func, returns(function));
            }
        }
        for &handler in &self.graph.handlers {
            let Some((object, func, _)) = self.function(handler) else { continue };
            let unit = units.entry(object).or_default();
            let number = unit.witnesses.len() as u32;
            // Before whatever is observed at its beginning.
            let probe = (CodePlace::Entry, number, EventKind::Interrupt(handler));
            unit.probes.entry(func).or_default().insert(0, probe);
            unit.witnesses.push(Witness::new(0));
        }
        for (routine, data) in icfg.routines().iter() {
            let Some((object, func, _)) = self.function(routine) else { continue };
            if icfg.is_reachable(data.entry) {
                continue;
            }
            let unit = units.entry(object).or_default();
            let number = unit.witnesses.len() as u32;
            let probe = (CodePlace::Entry, number, EventKind::Impossible(routine));
            unit.probes.entry(func).or_default().insert(0, probe);
            unit.witnesses.push(Witness::new(0));
        }
        for (&object, unit) in &mut units {
            let of_unit =
                (object, Func::new(0))..(Object::new(object.position() + 1), Func::new(0));
            let functions: Vec<(Object, Func)> = paths.range(of_unit).map(|(it, _)| *it).collect();
            for function in functions {
                let Some(events) = paths.remove(&function) else { continue };
                let first = unit.path_numbers;
                let count = u32::try_from(events.count()).unwrap_or(u32::MAX);
                unit.path_numbers = first.saturating_add(count);
                unit.paths.push(FunctionPaths { function: function.1, first, events });
            }
        }
        ProbePlan { units, are_numbered: false }
    }
}

/// What is called at the end of a node, and where it returns to.
/// The block that an instruction is in.
pub(crate) fn block_of(function: &Function, inst: Inst) -> Block {
    let number = inst.position() as u32;
    let behind = function.blocks.values().as_slice().partition_point(|block| block.end <= number);
    Block::new(behind)
}

/// Where a function's frame ends by returning.
fn returns(function: &Function) -> Vec<CodePlace> {
    let mut places = Vec::new();
    for block in function.blocks.values() {
        let Some(last) = block.insts().next_back() else { continue };
        if !matches!(function.insts[last].op, Op::Return) {
            continue;
        }
        // Nothing may stand between such a call and the return.
        let before = last.position().checked_sub(1).map(Inst::new).filter(|inst| {
            inst.position() as u32 >= block.first
                && matches!(&function.insts[*inst].op, Op::Call(call) if call.tail == Tail::Must)
        });
        places.push(CodePlace::Before(before.unwrap_or(last)));
    }
    places
}

/// A function whose paths are logged.
#[derive(Debug, Clone)]
struct FunctionPaths {
    function: Func,
    /// The number of its path 0.
    first: u32,
    events: PathEvents,
}

/// What a number that is logged stands for, besides paths and depths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventKind {
    Witness,
    Landing,
    Interrupt(Routine),
    Impossible(Routine),
}

#[derive(Debug, Clone, Default)]
struct UnitProbes {
    /// By function: where, the number that is logged, and what that is.
    probes: BTreeMap<Func, Vec<(CodePlace, u32, EventKind)>>,
    /// By number, behind those of paths: the witness, if it is one.
    witnesses: Vec<Witness>,
    has_landings: bool,
    /// How many witnesses there are, those on paths included.
    places: usize,
    /// Functions whose paths are logged, by their first number.
    paths: Vec<FunctionPaths>,
    /// How many numbers these take.
    path_numbers: u32,
    /// Functions that count their frames, and where these end.
    deep: BTreeMap<Func, Vec<CodePlace>>,
}

impl UnitProbes {
    /// How many numbers there are.
    fn events(&self) -> u32 {
        let depths = if self.has_landings { DEPTHS } else { 0 };
        let others = (self.witnesses.len() as u32).saturating_add(depths);
        self.path_numbers.saturating_add(others)
    }
}

/// The probes of a profile.
#[derive(Debug, Clone)]
pub struct ProbePlan {
    units: BTreeMap<Object, UnitProbes>,
    are_numbered: bool,
}

/// In the place of a unit: counts of iterations, which come before their paths.
pub const COUNTS: UnitId = UnitId([0xff; 16]);

/// What a number in a unit's log means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Meaning {
    /// A witness.
    Witness(Witness),
    /// The witnesses on a path, by their positions ([`UnitMeaning::on_path`]).
    Path(PathWitnesses),
    /// A landing: its depth follows.
    Landing(Witness),
    /// The depth of a landing.
    Depth(u32),
    /// The kernel called this, as the handler of a signal.
    Interrupt(Routine),
    /// This ran, which the graph does not know a way to.
    Impossible(Routine),
}

impl ProbePlan {
    /// Gives all units their events before the program runs, which is possible if
    /// all probes are in one module and there are not too many; whether it was.
    pub fn number_units(&mut self) -> bool {
        let events = self.units.values().map(|unit| u64::from(unit.events())).sum::<u64>();
        self.are_numbered = events < u64::from(COUNT - FIRST_BASE);
        self.are_numbered
    }

    /// By object: the first event of its numbers, and how many it has.
    fn numbered(&self) -> BTreeMap<Object, (u32, u32)> {
        let mut next = FIRST_BASE;
        let mut ranges = BTreeMap::new();
        for (&object, unit) in self.units.iter().filter(|_| self.are_numbered) {
            ranges.insert(object, (next, unit.events()));
            next += unit.events();
        }
        ranges
    }

    /// The events that were given to units before the program ran, if they were.
    pub fn ranges(&self, ids: &BTreeMap<Object, UnitId>) -> Option<Vec<Range>> {
        let range = |(object, (base, blocks)): (Object, (u32, u32))| {
            Some(Range { base, blocks, unit: *ids.get(&object)? })
        };
        let counts = Range { base: COUNT, blocks: COUNT, unit: COUNTS };
        let ranges = || self.numbered().into_iter().filter_map(range).chain([counts]).collect();
        self.are_numbered.then(ranges)
    }

    /// What to insert into a unit of the program.
    pub fn unit_plan(&self, object: Object, id: [u8; 16], unit: &backtrail_ir::Unit) -> UnitPlan {
        let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
        let mut plan = UnitPlan { unit: id, blocks, ..UnitPlan::default() };
        let Some(probes) = self.units.get(&object) else { return plan };
        let first_witness = probes.path_numbers;
        let depths = first_witness + probes.witnesses.len() as u32;
        let first_event = self.numbered().get(&object).map_or(0, |range| range.0);
        plan.events = Some(probes.events());
        plan.first_event = self.are_numbered.then_some(first_event);
        let paths: BTreeMap<Func, &FunctionPaths> =
            probes.paths.iter().map(|it| (it.function, it)).collect();
        for (&function, wanted) in &probes.probes {
            let data = &unit.functions[function];
            let mut inserted = Vec::new();
            if let Some(returns) = probes.deep.get(&function) {
                inserted.push(Probe { at: CodePlace::Entry, action: Action::Deepen });
                inserted.extend(returns.iter().map(|&at| Probe { at, action: Action::Surface }));
            }
            inserted.extend(wanted.iter().map(|&(at, number, kind)| {
                let number = first_witness + number;
                let action = match kind {
                    EventKind::Landing => Action::Land { number, depths },
                    EventKind::Witness | EventKind::Impossible(_) => Action::Log { number },
                    EventKind::Interrupt(_) => Action::Interrupt { number },
                };
                Probe { at, action }
            }));
            if let Some(paths) = paths.get(&function) {
                let first = first_event + paths.first;
                inserted.extend(paths.events.probes(first));
            }
            plan.functions.push(FunctionPlan {
                function,
                name: unit.symbols[data.symbol].name.clone(),
                blocks: data.blocks.len() as u32,
                probes: inserted,
            });
        }
        plan
    }

    /// What the numbers in the logs of units mean; `ids` are the units' by object.
    pub fn meanings(&self, ids: &BTreeMap<Object, UnitId>) -> BTreeMap<UnitId, UnitMeaning> {
        let meaning = |(object, unit): (&Object, &UnitProbes)| {
            let mut kinds = vec![EventKind::Witness; unit.witnesses.len()];
            for &(_, number, kind) in unit.probes.values().flatten() {
                kinds[number as usize] = kind;
            }
            let meaning = UnitMeaning {
                witnesses: unit.witnesses.clone(),
                kinds,
                paths: unit.paths.clone(),
                path_numbers: unit.path_numbers,
                expanded: RefCell::default(),
            };
            Some((*ids.get(object)?, meaning))
        };
        self.units.iter().filter_map(meaning).collect()
    }

    /// How many witnesses there are.
    pub fn count(&self) -> usize {
        self.units.values().map(|unit| unit.places).sum()
    }
}

/// What the numbers in a unit's log mean.
#[derive(Debug, Clone, Default)]
pub struct UnitMeaning {
    witnesses: Vec<Witness>,
    kinds: Vec<EventKind>,
    paths: Vec<FunctionPaths>,
    path_numbers: u32,
    expanded: RefCell<Expanded>,
}

/// Paths that were met, and the witnesses on them.
#[derive(Debug, Clone, Default)]
struct Expanded {
    /// By number: where its witnesses are.
    paths: Vec<PathWitnesses>,
    witnesses: Vec<Witness>,
}

/// Where the witnesses of a path are ([`UnitMeaning::on_path`]): from the first of
/// these positions to the second, then to the third for each iteration that was
/// counted, then to the fourth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathWitnesses(pub [u32; 4]);

/// A path that was not met yet.
const UNKNOWN: PathWitnesses = PathWitnesses([u32::MAX; 4]);

impl UnitMeaning {
    /// What a number means.
    #[inline]
    pub fn of(&self, number: u32) -> Meaning {
        let Some(number) = number.checked_sub(self.path_numbers) else {
            return Meaning::Path(self.expand(number));
        };
        match self.witnesses.get(number as usize) {
            Some(&witness) => match self.kinds[number as usize] {
                EventKind::Witness => Meaning::Witness(witness),
                EventKind::Landing => Meaning::Landing(witness),
                EventKind::Interrupt(routine) => Meaning::Interrupt(routine),
                EventKind::Impossible(routine) => Meaning::Impossible(routine),
            },
            None => Meaning::Depth(number - self.witnesses.len() as u32),
        }
    }

    /// The witness at a position that [`Meaning::Path`] has.
    #[inline]
    pub fn on_path(&self, position: u32) -> Witness {
        self.expanded.borrow().witnesses[position as usize]
    }

    fn expand(&self, number: u32) -> PathWitnesses {
        match self.expanded.borrow().paths.get(number as usize) {
            Some(&path) if path != UNKNOWN => return path,
            _ => {}
        }
        let mut expanded = self.expanded.borrow_mut();
        if expanded.paths.is_empty() {
            expanded.paths = vec![UNKNOWN; self.path_numbers as usize];
        }
        let function = self.paths.partition_point(|paths| paths.first <= number) - 1;
        let FunctionPaths { first, events, .. } = &self.paths[function];
        let on_path = events.expand(u64::from(number - first)).unwrap_or_default();
        let mut path = PathWitnesses([expanded.witnesses.len() as u32; 4]);
        let parts = [on_path.first, on_path.iteration, on_path.last];
        for (part, end) in parts.into_iter().zip(&mut path.0[1..]) {
            expanded.witnesses.extend(part);
            *end = expanded.witnesses.len() as u32;
        }
        expanded.paths[number as usize] = path;
        path
    }
}
