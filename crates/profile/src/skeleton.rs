//! A profile without counts: what a program's functions look like.
//!
//! Made from the program models and the layouts of the counters alone, so that
//! every record of one variant, and every log of the same program, is decoded
//! into the same functions, blocks, edges and locations.

use std::cell::OnceCell;
use std::collections::{BTreeMap, HashMap};

use backtrail_abi::UnitId;
use backtrail_analysis::calls::is_call;
use backtrail_graph::Index;
use backtrail_ir::program::{Object, Program, Surroundings};
use backtrail_ir::{Block as IrBlock, Func, Inst, Loc, Op, Unit};
use backtrail_plan::counters::Layout;

use crate::model::{Block, Decision, Edge, Function, Instrumented, Location, PathTotal, Profile};
use crate::path_plan::PathPlan;
use crate::unit_plan::{FunctionMeaning, UnitMeaning};

/// An executable or shared library whose counters are known.
pub struct Module<'a> {
    /// Identifies the layout.
    pub id: [u8; 16],
    /// Where its counters are.
    pub layout: Layout,
    /// The program models of its units, in link order.
    pub units: Vec<(UnitId, &'a Unit)>,
    /// What else was linked into it.
    pub surroundings: Surroundings,
}

/// Where a function of the profile comes from.
pub(crate) struct Source<'a> {
    pub(crate) unit_id: UnitId,
    pub(crate) object: Object,
    pub(crate) unit: &'a Unit,
    pub(crate) function: Func,
    /// Where its counters are: the module, bytes into the area, what they mean.
    pub(crate) counters: Option<(usize, u64, FunctionMeaning)>,
    plan: OnceCell<Option<PathPlan>>,
}

impl Source<'_> {
    /// The paths of the function, if it counts them.
    pub(crate) fn plan(&self) -> Option<&PathPlan> {
        let make = || {
            let (_, _, meaning) = self.counters.as_ref()?;
            PathPlan::with_cuts(self.unit, self.function, &meaning.cuts).ok()
        };
        self.plan.get_or_init(make).as_ref()
    }
}

impl Source<'_> {
    /// How many positions of a block ([`Block::locations`]) are come to up to an
    /// instruction in it.
    pub(crate) fn positions_up_to(&self, block: IrBlock, last: Inst) -> u32 {
        let body = &self.unit.functions[self.function];
        let (mut count, mut before) = (0, None);
        for inst in body.blocks[block].insts().take_while(|inst| *inst <= last) {
            let Some(location) = body.insts[inst].location else { continue };
            if self.unit.locations[location].line == 0 {
                continue;
            }
            if !before.is_some_and(|before| is_same_place(self.unit, before, location)) {
                count += 1;
            }
            before = Some(location);
        }
        count
    }

    /// How many positions of a block are come to if it is begun: up to the first call,
    /// which need not return.
    pub(crate) fn positions_begun(&self, block: IrBlock) -> u32 {
        let body = &self.unit.functions[self.function];
        let insts = body.blocks[block].insts();
        let mut calls = insts.filter(|&inst| is_call(&body.insts[inst].op));
        let last = calls.next().unwrap_or_else(|| body.blocks[block].terminator());
        self.positions_up_to(block, last)
    }
}

/// Whether two positions of a unit are one of a profile.
fn is_same_place(unit: &Unit, left: Loc, right: Loc) -> bool {
    let (mut left, mut right) = (Some(left), Some(right));
    while left != right {
        let (Some(a), Some(b)) = (left, right) else { return false };
        let (a, b) = (&unit.locations[a], &unit.locations[b]);
        let is_same = (a.file, a.line, a.column, &a.scope, a.scope_line)
            == (b.file, b.line, b.column, &b.scope, b.scope_line);
        if !is_same {
            return false;
        }
        (left, right) = (a.inlined_at, b.inlined_at);
    }
    true
}

/// A profile without counts, and where each of its functions comes from.
pub(crate) struct Skeleton<'a> {
    pub(crate) profile: Profile,
    pub(crate) sources: Vec<Source<'a>>,
    pub(crate) program: Program<'a>,
}

impl<'a> Skeleton<'a> {
    /// The functions of `modules` that have code.
    pub(crate) fn new(program: &str, build_id: &str, modules: &[Module<'a>]) -> Self {
        let mut locations = Locations::default();
        let mut functions = Vec::new();
        let mut sources = Vec::new();
        let mut identity = blake3::Hasher::new();
        let units = |module: &Module<'a>| module.units.iter().map(|(_, unit)| *unit).collect();
        let joined = modules.iter().map(|module| (units(module), &module.surroundings));
        let joined: Program<'a> = Program::linked(joined);
        let objects: Vec<Object> = joined.units().map(|(object, _)| object).collect();
        let mut objects = objects.into_iter();
        for (number, module) in modules.iter().enumerate() {
            identity.update(&module.id);
            for ((unit_id, unit), object) in module.units.iter().zip(objects.by_ref()) {
                let counters = module.layout.units.iter().find(|it| it.unit == unit_id.0);
                let meaning = counters.and_then(|it| UnitMeaning::from_bytes(&it.meaning));
                let meaning = meaning.unwrap_or_default();
                let offset = counters.map_or(0, |it| it.offset);
                let by_function: BTreeMap<u32, &FunctionMeaning> =
                    meaning.functions.iter().map(|it| (it.function, it)).collect();
                let mut place = locations.of_unit(unit);
                for function in unit.functions.indices() {
                    if !joined.kept(object, function) {
                        continue;
                    }
                    let position = function.position() as u32;
                    let source = Source {
                        unit_id: *unit_id,
                        object,
                        unit,
                        function,
                        counters: by_function
                            .get(&position)
                            .map(|it| (number, offset, (*it).clone())),
                        plan: OnceCell::new(),
                    };
                    let why = meaning.left_out.iter().find(|(it, _)| *it == position);
                    let why = why.map_or("not planned".to_owned(), |(_, why)| why.to_string());
                    functions.push(describe(&source, why, &mut place));
                    sources.push(source);
                }
            }
        }
        let mut layout = [0; 16];
        layout.copy_from_slice(&identity.finalize().as_bytes()[..16]);
        let (files, locations) = (locations.files, locations.list);
        let (program, build_id) = (program.to_owned(), build_id.to_owned());
        let profile = Profile {
            program,
            build_id,
            layout,
            files,
            locations,
            functions,
            ..Profile::default()
        };
        Self { profile, sources, program: joined }
    }
}

/// The function without counts.
fn describe(source: &Source<'_>, why: String, place: &mut UnitLocations<'_>) -> Function {
    let unit = source.unit;
    let body = &unit.functions[source.function];
    let count = body.acyclic_paths();
    let exact = count.is_at_most(count.lower_bound());
    let acyclic_paths = PathTotal { count: count.lower_bound(), exact };
    let instrumented = match source.plan() {
        Some(plan) if plan.is_cut() => Instrumented::Cut,
        Some(_) => Instrumented::Whole,
        None => Instrumented::No(why),
    };
    let mut blocks = Vec::new();
    let mut edges = Vec::new();
    for (block, data) in body.blocks.iter() {
        let mut lines = Vec::new();
        for inst in data.insts() {
            let Some(location) = body.insts[inst].location else { continue };
            if unit.locations[location].line == 0 {
                continue;
            }
            let number = place.number(location);
            if lines.last() != Some(&number) {
                lines.push(number);
            }
        }
        blocks.push(Block { locations: lines });
        let terminator = &body.insts[data.terminator()].op;
        let mut targets: BTreeMap<u32, Decision> = BTreeMap::new();
        for (index, target) in data.successors.iter().enumerate() {
            let decision = decision(terminator, index);
            let target = target.position() as u32;
            match targets.get_mut(&target) {
                None => {
                    targets.insert(target, decision);
                }
                Some(known) => join(known, decision),
            }
        }
        let from = block.position() as u32;
        edges.extend(targets.into_iter().map(|(to, decision)| Edge { from, to, decision }));
    }
    Function {
        name: unit.symbols[body.symbol].name.clone(),
        unit: unit.name.clone(),
        location: body.location.map(|location| place.number(location)),
        acyclic_paths,
        instrumented,
        entries: 0,
        inherited: 0,
        unfinished: 0,
        edges_exact: true,
        blocks,
        edges,
        paths: Vec::new(),
    }
}

/// When a terminator's successor is taken.
fn decision(terminator: &Op, successor: usize) -> Decision {
    match (terminator, successor) {
        (Op::Branch, 0) => Decision::True,
        (Op::Branch, _) => Decision::False,
        (Op::Switch { .. }, 0) => Decision::Cases { values: Vec::new(), default: true },
        (Op::Switch { cases }, _) => {
            let values = cases.get(successor - 1).copied().into_iter().collect();
            Decision::Cases { values, default: false }
        }
        (Op::Invoke(_), 0) => Decision::Returned,
        (Op::Invoke(_), _) => Decision::Unwound,
        (Op::IndirectJump | Op::AsmGoto(_), _) => Decision::Computed,
        _ => Decision::Always,
    }
}

/// Another way over the same edge.
fn join(known: &mut Decision, other: Decision) {
    match (known, other) {
        (Decision::Cases { values, default }, Decision::Cases { values: more, default: also }) => {
            values.extend(more);
            *default |= also;
        }
        // Both ways of a branch.
        (known @ (Decision::True | Decision::False), _) => *known = Decision::Always,
        _ => {}
    }
}

/// The files and positions of the profile.
#[derive(Default)]
struct Locations {
    files: Vec<String>,
    list: Vec<Location>,
    file_numbers: HashMap<String, u32>,
    numbers: HashMap<Location, u32>,
}

impl Locations {
    fn of_unit<'l>(&'l mut self, unit: &'l Unit) -> UnitLocations<'l> {
        UnitLocations { all: self, unit, known: HashMap::new() }
    }

    fn file(&mut self, name: &str) -> u32 {
        if let Some(&number) = self.file_numbers.get(name) {
            return number;
        }
        let number = self.files.len() as u32;
        self.files.push(name.to_owned());
        self.file_numbers.insert(name.to_owned(), number);
        number
    }
}

/// The positions of one unit.
struct UnitLocations<'l> {
    all: &'l mut Locations,
    unit: &'l Unit,
    known: HashMap<Loc, u32>,
}

impl UnitLocations<'_> {
    /// The profile's number of a position, after those of the calls that it was
    /// inlined by.
    fn number(&mut self, location: Loc) -> u32 {
        let mut chain = vec![location];
        while let Some(outer) = chain.last().and_then(|&it| self.unit.locations[it].inlined_at) {
            chain.push(outer);
        }
        let mut number = None;
        for &it in chain.iter().rev() {
            number = Some(match self.known.get(&it) {
                Some(&known) => known,
                None => {
                    let data = &self.unit.locations[it];
                    let place = Location {
                        file: self.all.file(&self.unit.files[data.file]),
                        line: data.line,
                        column: data.column,
                        scope: data.scope.clone(),
                        scope_line: data.scope_line,
                        inlined_at: number,
                    };
                    let next = self.all.list.len() as u32;
                    let number = *self.all.numbers.entry(place.clone()).or_insert(next);
                    if number == next {
                        self.all.list.push(place);
                    }
                    self.known.insert(it, number);
                    number
                }
            });
        }
        number.unwrap_or_default()
    }
}
