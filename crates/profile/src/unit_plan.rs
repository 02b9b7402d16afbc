//! The plan of a whole module: every unit's probes, and what its counters mean.
//!
//! A function's counters are next to each other: first how often it was entered,
//! where that is counted, then how often its calls that can return twice have
//! returned, if it has some, then its paths by number.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::{Index, IndexMap};
use backtrail_ir::{Callee, Func, Inst, Linkage, Sym, SymbolKind, Unit, Value, Visibility};
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
    /// Whether the module is an executable: nothing outside calls what it does
    /// not export, and nothing replaces its functions.
    pub is_executable: bool,
    /// Symbols that code without probes refers to; `None` if that is not known.
    pub referred_to: Option<&'a BTreeSet<String>>,
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

impl Share<'_> {
    /// All there is.
    pub const ALL: Share<'static> = Share { interest: &Interest::Whole, entries: true };
}

impl<'a> UnitPaths<'a> {
    /// Finds the paths that are asked for.
    pub fn new(id: [u8; 16], unit: &'a Unit, choice: &Choice<'_>) -> Self {
        let resolving = called_by_resolvers(unit);
        let why_not = |function: Func| {
            let name = &unit.symbols[unit.functions[function].symbol].name;
            block_log::left_out(unit, function)
                .or_else(|| (!(choice.wants)(name)).then_some(LeftOut::NotChosen))
                .or_else(|| resolving.contains(&function).then_some(LeftOut::IFuncResolver))
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
    plan_shares(&paths, choice, &|_, _| Some(Share::ALL))
}

/// The same for a variant that counts of each function, by unit and number, the
/// share that `share` says, or nothing.
pub fn plan_shares<'s>(
    units: &[UnitPaths<'_>],
    choice: &Choice<'_>,
    share: &dyn Fn(usize, Func) -> Option<Share<'s>>,
) -> Vec<(UnitPlan, UnitMeaning)> {
    let mut addressed = BTreeSet::new();
    for unit in units {
        let taken = addressed_symbols(unit);
        addressed.extend(taken.iter().map(|&symbol| unit.unit.symbols[symbol].name.clone()));
    }
    let outside = if choice.is_executable { choice.referred_to.cloned() } else { None };
    let entered = EnteredFromOutside { addressed, outside };
    let of_unit = |(number, unit)| plan_unit(unit, &entered, &|function| share(number, function));
    units.iter().enumerate().map(of_unit).collect()
}

fn plan_unit<'s>(
    paths: &UnitPaths<'_>,
    entered: &EnteredFromOutside,
    share: &dyn Fn(Func) -> Option<Share<'s>>,
) -> (UnitPlan, UnitMeaning) {
    let unit = paths.unit;
    let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
    let mut plan = UnitPlan { unit: paths.id, blocks, ..UnitPlan::default() };
    let mut meaning = UnitMeaning::default();
    let addressed = addressed_symbols(paths);
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
        if entered.may_enter(unit, data.symbol, &addressed) {
            probes.push(Probe { at: Place::Entry, action: Action::Enter });
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

/// Which functions code without probes may call: those that something refers to
/// other than by calling it, and those that are known outside.
struct EnteredFromOutside {
    /// Names of other units' symbols whose address is taken somewhere.
    addressed: BTreeSet<String>,
    /// Names that are referred to from outside, if that is known.
    outside: Option<BTreeSet<String>>,
}

impl EnteredFromOutside {
    fn may_enter(&self, unit: &Unit, symbol: Sym, addressed: &BTreeSet<Sym>) -> bool {
        let data = &unit.symbols[symbol];
        if data.linkage == Linkage::Internal {
            return addressed.contains(&symbol);
        }
        if self.addressed.contains(&data.name) {
            return true;
        }
        match &self.outside {
            Some(outside) => outside.contains(&data.name) || data.name == "main",
            // Of a library only what is hidden is not entered from outside.
            None => data.visibility != Visibility::Hidden,
        }
    }
}

/// Symbols that a unit refers to in another way than by calling them, or that
/// functions without probes call.
fn addressed_symbols(paths: &UnitPaths<'_>) -> BTreeSet<Sym> {
    let unit = paths.unit;
    let mut found = BTreeSet::new();
    for (function, data) in unit.functions.iter() {
        let why = paths.functions[function].as_ref().err();
        if why == Some(&LeftOut::AvailableExternally) {
            continue;
        }
        for operand in &data.operands {
            match operand {
                Value::Symbol(symbol, _) => found.extend([*symbol]),
                Value::Expr(symbols) => found.extend(symbols),
                _ => {}
            }
        }
        if why.is_some() {
            found.extend(direct_callees(unit, function));
        }
    }
    for symbol in unit.symbols.values() {
        match &symbol.kind {
            SymbolKind::Data { refers_to, .. } => found.extend(refers_to),
            SymbolKind::Alias { target } => found.extend(*target),
            SymbolKind::IFunc { resolver } => found.extend(*resolver),
            _ => {}
        }
    }
    found
}

fn direct_callees(unit: &Unit, function: Func) -> impl Iterator<Item = Sym> {
    unit.functions[function].insts.values().filter_map(|inst| match inst.op.call()?.callee {
        Callee::Direct(symbol) => Some(symbol),
        _ => None,
    })
}

/// Functions that resolvers of ifuncs call within the unit, at any depth: they
/// may run before threads have a pointer.
fn called_by_resolvers(unit: &Unit) -> BTreeSet<Func> {
    let function_of = |symbol: Sym| match unit.symbols[symbol].kind {
        SymbolKind::Function(function) => Some(function),
        _ => None,
    };
    let resolver = |symbol: &backtrail_ir::Symbol| match symbol.kind {
        SymbolKind::IFunc { resolver } => resolver,
        _ => None,
    };
    let mut pending: Vec<Func> =
        unit.symbols.values().filter_map(resolver).filter_map(function_of).collect();
    let mut found = BTreeSet::new();
    while let Some(function) = pending.pop() {
        if found.insert(function) {
            pending.extend(direct_callees(unit, function).filter_map(function_of));
        }
    }
    found
}
