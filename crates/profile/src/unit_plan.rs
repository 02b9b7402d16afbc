//! The plan of a whole module: every unit's probes, and what its counters mean.
//!
//! A function's counters are next to each other: first how often it was entered,
//! where that is counted, then how often its calls that can return twice have
//! returned, if it has some, then its paths by number.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::CallTargets;
use backtrail_analysis::calls::direct_callees;
use backtrail_graph::{Index, IndexMap};
use backtrail_ir::program::{Object, Program, Surroundings};
use backtrail_ir::{Func, Inst, Linkage, Unit, Visibility};
use backtrail_plan::order::{Turn, Turns};
use backtrail_plan::{Action, FunctionPlan, LeftOut, Place, Probe, UnitPlan, block_log};
use serde::{Deserialize, Serialize};

use crate::derived::Counts;
use crate::frequency::GUESSED_ENTRIES;
use crate::function_graph::can_be_left_early;
use crate::model::Profile;
use crate::partition::interest::{Interest, PartMeaning};
use crate::path_plan::{BlockEdges, PathPlan};

/// The most paths a function keeps, if that is possible.
pub const DEFAULT_LIMIT: u64 = 1 << 12;

/// What the counters of a unit count.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitMeaning {
    /// The functions that count, by number.
    pub functions: Vec<FunctionMeaning>,
    /// Those that do not, and why.
    pub left_out: Vec<(u32, LeftOut)>,
}

impl UnitMeaning {
    /// The meaning as bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("serialising into memory does not fail")
    }

    /// The inverse of [`Self::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        postcard::from_bytes(bytes).ok()
    }
}

/// What the counters of a function count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionMeaning {
    /// The function's number in its unit.
    pub function: u32,
    /// The counter of its entries, if they are counted.
    pub entries: Option<u32>,
    /// The counter of returns from calls that can return twice, if it has some.
    /// More of them than paths that begin there says that paths were lost.
    pub returns: Option<u32>,
    /// The counter of its path 0.
    pub first: u32,
    /// How many paths have counters.
    pub paths: u32,
    /// Where paths were cut: see [`PathPlan::cuts`].
    pub cuts: Vec<u32>,
    /// Which paths they are, if not all.
    pub part: Option<PartMeaning>,
}

/// How often edges were taken, by unit and function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    /// Entries and edges.
    by_function: BTreeMap<(String, String), (u64, BlockEdges)>,
}

impl Weights {
    /// The weights that a profile gives.
    pub fn of(profile: &Profile) -> Self {
        let mut by_function = BTreeMap::new();
        for function in &profile.functions {
            let counts = Counts::of(function).edges;
            let edges = function.edges.iter().map(|edge| (edge.from, edge.to)).zip(counts);
            let name = (function.unit.clone(), function.name.clone());
            by_function.insert(name, (function.entries, edges.collect()));
        }
        Self { by_function }
    }

    /// Those of a function; a function that the profile does not have is taken
    /// not to have run.
    pub fn get(&self, unit: &Unit, function: Func) -> (u64, BlockEdges) {
        let name = &unit.symbols[unit.functions[function].symbol].name;
        let found = self.by_function.get(&(unit.name.clone(), name.clone()));
        found.cloned().unwrap_or_default()
    }
}

/// What is asked for.
pub struct Choice<'a> {
    /// Whether a function, by linkage name, is wanted.
    pub wants: &'a dyn Fn(&str) -> bool,
    /// The most paths of a function.
    pub limit: u64,
    /// How often edges were taken in an earlier run of the same program.
    pub weights: Option<&'a Weights>,
    /// What else was linked into the module; `None` if that is not known.
    pub surroundings: Option<&'a Surroundings>,
}

/// The paths of one function, and how often its edges are taken.
#[derive(Debug, Clone)]
pub struct FunctionPaths {
    /// The paths.
    pub plan: PathPlan,
    /// How often each edge of [`PathPlan::graph`] is taken: as `--weights` say,
    /// or guessed.
    pub weights: Vec<u64>,
    /// How often it is entered, in the same way.
    pub entries: u64,
}

/// The paths of a unit's functions.
#[derive(Debug, Clone)]
pub struct UnitPaths<'a> {
    /// The unit's id.
    pub id: [u8; 16],
    /// The unit.
    pub unit: &'a Unit,
    /// Those of each function, or why they are not counted.
    pub functions: IndexMap<Func, Result<FunctionPaths, LeftOut>>,
}

/// What one variant counts of a function.
#[derive(Debug, Clone, Copy)]
pub struct Share<'a> {
    /// Which paths.
    pub interest: &'a Interest,
    /// Whether it counts entries, and returns from calls that can return twice.
    pub entries: bool,
}

/// Whether functions say in which order they are entered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// They do, also those of which nothing is counted.
    Told,
    /// They do not.
    Untold,
}

impl Share<'_> {
    /// All there is.
    pub const ALL: Share<'static> = Share { interest: &Interest::Whole, entries: true };
}

impl<'a> UnitPaths<'a> {
    /// Finds the paths that are asked for.
    pub fn new(id: [u8; 16], unit: &'a Unit, choice: &Choice<'_>) -> Self {
        let why_not = |function: Func| {
            let name = &unit.symbols[unit.functions[function].symbol].name;
            block_log::left_out(unit, function)
                .or_else(|| (!(choice.wants)(name)).then_some(LeftOut::NotChosen))
        };
        let paths = |function: Func| {
            if let Some(why) = why_not(function) {
                return Err(why);
            }
            let taken = choice.weights.map(|weights| weights.get(unit, function));
            let entries = taken.as_ref().map_or(GUESSED_ENTRIES, |(entries, _)| *entries);
            let taken = taken.as_ref().map(|(_, edges)| edges);
            let plan = PathPlan::new(unit, function, choice.limit, taken)?;
            let weights = plan.weights(unit, function, taken);
            // Whether they can be counted at all.
            plan.probes(&weights, 0)?;
            Ok(FunctionPaths { plan, weights, entries })
        };
        Self { id, unit, functions: unit.functions.indices().map(paths).collect() }
    }
}

/// The plans of a module's units and what their counters mean, in order.
pub fn plan_module(
    units: &[([u8; 16], &Unit)],
    choice: &Choice<'_>,
) -> Vec<(UnitPlan, UnitMeaning)> {
    let paths: Vec<UnitPaths<'_>> =
        units.iter().map(|(id, unit)| UnitPaths::new(*id, unit, choice)).collect();
    plan_shares(&paths, choice, Order::Untold, &|_, _| Some(Share::ALL))
}

/// The same for a variant that counts of each function, by unit and number, the
/// share that `share` says, or nothing.
pub fn plan_shares<'s>(
    units: &[UnitPaths<'_>],
    choice: &Choice<'_>,
    order: Order,
    share: &dyn Fn(usize, Func) -> Option<Share<'s>>,
) -> Vec<(UnitPlan, UnitMeaning)> {
    let entered: Vec<BTreeSet<Func>> = entered_from_outside(units, choice);
    let turns = match order {
        Order::Told => told_in_order(units, choice).into_iter().map(Some).collect(),
        Order::Untold => vec![None; units.len()],
    };
    let of_unit = |(number, unit): (usize, &UnitPaths<'_>)| {
        let is_entered = |function: Func| entered[number].contains(&function);
        let turns = turns[number].as_ref();
        plan_unit(unit, &is_entered, turns, &|function| share(number, function))
    };
    units.iter().enumerate().map(of_unit).collect()
}

fn plan_unit<'s>(
    paths: &UnitPaths<'_>,
    is_entered: &dyn Fn(Func) -> bool,
    turns: Option<&BTreeMap<Func, Turn>>,
    share: &dyn Fn(Func) -> Option<Share<'s>>,
) -> (UnitPlan, UnitMeaning) {
    let unit = paths.unit;
    let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
    let mut plan = UnitPlan { unit: paths.id, blocks, ..UnitPlan::default() };
    let mut meaning = UnitMeaning::default();
    for (function, data) in unit.functions.iter() {
        let its_paths = match &paths.functions[function] {
            Ok(paths) => paths,
            Err(why) => {
                meaning.left_out.push((function.position() as u32, *why));
                plan.left_out.push((function, *why));
                continue;
            }
        };
        let mut probes = Vec::new();
        // Also where nothing is counted: what it calls relies on it.
        if is_entered(function) {
            probes.push(Probe { at: Place::Entry, action: Action::Enter });
        }
        if let Some(&turn) = turns.and_then(|turns| turns.get(&function)) {
            probes.push(Probe { at: Place::Entry, action: Action::Order(turn) });
        }
        if let Some(share) = share(function) {
            let its_meaning = plan_function(unit, function, its_paths, share, plan.counters);
            plan.counters = its_meaning.1.first + its_meaning.1.paths;
            probes.extend(its_meaning.0);
            meaning.functions.push(its_meaning.1);
        }
        if !probes.is_empty() {
            let name = unit.symbols[data.symbol].name.clone();
            let blocks = data.blocks.len() as u32;
            plan.functions.push(FunctionPlan { function, name, blocks, probes });
        }
    }
    (plan, meaning)
}

fn plan_function(
    unit: &Unit,
    function: Func,
    paths: &FunctionPaths,
    share: Share<'_>,
    next: u32,
) -> (Vec<Probe>, FunctionMeaning) {
    let plan = &paths.plan;
    let counts_entries = share.entries && can_be_left_early(&unit.functions[function]);
    let entries = counts_entries.then_some(next);
    let next = next + u32::from(entries.is_some());
    let mut twice: Vec<Inst> = plan.graph().calls_that_return_twice().collect();
    if !share.entries {
        twice.clear();
    }
    let returns = (!twice.is_empty()).then_some(next);
    let first = next + u32::from(returns.is_some());
    let at = Place::Entry;
    let mut probes = Vec::new();
    probes.extend(entries.map(|counter| Probe { at, action: Action::Count { counter } }));
    let returned =
        |counter| move |inst| Probe { at: Place::After(inst), action: Action::Count { counter } };
    probes.extend(returns.into_iter().flat_map(|it| twice.iter().copied().map(returned(it))));
    let counting = plan.probes_of(share.interest, &paths.weights, first);
    probes.extend(counting.expect("whether paths can be counted was tried"));
    let part = match share.interest {
        Interest::Whole => None,
        Interest::Part(selection) => Some(selection.meaning()),
    };
    let paths = plan.slots(share.interest) as u32;
    let (function, cuts) = (function.position() as u32, plan.cuts());
    (probes, FunctionMeaning { function, entries, returns, first, paths, cuts, part })
}

/// What the functions of each unit do as they are entered.
fn told_in_order(units: &[UnitPaths<'_>], choice: &Choice<'_>) -> Vec<BTreeMap<Func, Turn>> {
    let all: Vec<&Unit> = units.iter().map(|unit| unit.unit).collect();
    let unknown = Surroundings::default();
    let program = Program::linked([(all, choice.surroundings.unwrap_or(&unknown))]);
    let turns = match choice.surroundings {
        Some(_) => Turns::new(&program, &CallTargets::new(&program)),
        None => Turns::default(),
    };
    let of_unit = |((object, _), unit): ((Object, &Unit), &UnitPaths<'_>)| {
        let functions = unit.unit.functions.indices();
        functions.map(|function| (function, turns.of(unit.id, (object, function)))).collect()
    };
    program.units().zip(units).map(of_unit).collect()
}

/// Which functions of each unit code without probes may call: those that are entered from
/// outside, and those that functions without probes call.
fn entered_from_outside(units: &[UnitPaths<'_>], choice: &Choice<'_>) -> Vec<BTreeSet<Func>> {
    let unknown = Surroundings::default();
    let surroundings = choice.surroundings.unwrap_or(&unknown);
    let all: Vec<&Unit> = units.iter().map(|unit| unit.unit).collect();
    let program = Program::linked([(all, surroundings)]);
    let targets = CallTargets::new(&program);
    let mut entered = targets.entered_from_outside();
    if choice.surroundings.is_none() {
        let is_visible = |&(object, function): &(Object, Func)| {
            let unit = program.unit(object).expect("bodies are of units");
            let symbol = &unit.symbols[unit.functions[function].symbol];
            (symbol.linkage, symbol.visibility) != (Linkage::Internal, Visibility::Default)
        };
        let bodies = targets.bodies().iter();
        entered.extend(bodies.filter(|(_, place)| is_visible(place)).map(|(body, _)| body));
    }
    let objects: Vec<Object> = program.units().map(|(object, _)| object).collect();
    for (unit, &object) in units.iter().zip(&objects) {
        for (function, paths) in unit.functions.iter() {
            if paths.as_ref().is_err_and(|why| *why != LeftOut::AvailableExternally) {
                let callees = direct_callees(unit.unit, function);
                entered.extend(callees.filter_map(|it| targets.body_of_symbol(object, it)));
            }
        }
    }
    let mut by_unit = vec![BTreeSet::new(); units.len()];
    for body in entered {
        let (object, function) = targets.bodies()[body];
        if let Some(unit) = objects.iter().position(|it| *it == object) {
            by_unit[unit].insert(function);
        }
    }
    by_unit
}
