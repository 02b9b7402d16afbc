//! The plan of a whole module: every unit's probes, and what its counters mean.
//!
//! A function's counters are next to each other: first how often it was entered,
//! where that is counted, then how often its calls that can return twice have
//! returned, if it has some, then its paths by number.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::Index;
use backtrail_ir::{Callee, Func, Inst, Linkage, Sym, SymbolKind, Unit, Value, Visibility};
use backtrail_plan::{Action, FunctionPlan, LeftOut, Place, Probe, UnitPlan, block_log};
use serde::{Deserialize, Serialize};

use crate::derived::Counts;
use crate::function_graph::can_be_left_early;
use crate::model::Profile;
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
}

/// How often edges were taken, by unit and function.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Weights {
    by_function: BTreeMap<(String, String), BlockEdges>,
}

impl Weights {
    /// The weights that a profile gives.
    pub fn of(profile: &Profile) -> Self {
        let mut by_function: BTreeMap<(String, String), BlockEdges> = BTreeMap::new();
        for function in &profile.functions {
            let counts = Counts::of(function).edges;
            let edges = function.edges.iter().map(|edge| (edge.from, edge.to)).zip(counts);
            by_function.insert((function.unit.clone(), function.name.clone()), edges.collect());
        }
        Self { by_function }
    }

    /// Those of a function; a function that the profile does not have is taken
    /// not to have run.
    fn get(&self, unit: &Unit, function: Func) -> BlockEdges {
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

/// The plans of a module's units and what their counters mean, in order.
pub fn plan_module(
    units: &[([u8; 16], &Unit)],
    choice: &Choice<'_>,
) -> Vec<(UnitPlan, UnitMeaning)> {
    let unprobed: Vec<Unprobed> =
        units.iter().map(|(_, unit)| find_unprobed(unit, choice)).collect();
    let with_unprobed = || units.iter().zip(&unprobed);
    let mut addressed = BTreeSet::new();
    for ((_, unit), unprobed) in with_unprobed() {
        let taken = addressed_symbols(unit, unprobed);
        addressed.extend(taken.iter().map(|&symbol| unit.symbols[symbol].name.clone()));
    }
    let outside = if choice.is_executable { choice.referred_to.cloned() } else { None };
    let entered = EnteredFromOutside { addressed, outside };
    with_unprobed()
        .map(|((id, unit), unprobed)| plan_unit(*id, unit, choice, unprobed, &entered))
        .collect()
}

/// The functions of a unit that get no probes, and why.
type Unprobed = BTreeMap<Func, LeftOut>;

fn find_unprobed(unit: &Unit, choice: &Choice<'_>) -> Unprobed {
    let resolving = called_by_resolvers(unit);
    let why = |function: Func| {
        let data = &unit.functions[function];
        let name = &unit.symbols[data.symbol].name;
        block_log::left_out(unit, function)
            .or_else(|| (!(choice.wants)(name)).then_some(LeftOut::NotChosen))
            .or_else(|| resolving.contains(&function).then_some(LeftOut::IFuncResolver))
            .or_else(|| plan_function(unit, function, choice, 0, false).err())
    };
    unit.functions.indices().filter_map(|it| Some((it, why(it)?))).collect()
}

fn plan_unit(
    id: [u8; 16],
    unit: &Unit,
    choice: &Choice<'_>,
    unprobed: &Unprobed,
    entered: &EnteredFromOutside,
) -> (UnitPlan, UnitMeaning) {
    let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
    let mut plan = UnitPlan { unit: id, blocks, ..UnitPlan::default() };
    let mut meaning = UnitMeaning::default();
    let addressed = addressed_symbols(unit, unprobed);
    for (function, data) in unit.functions.iter() {
        let check = entered.may_enter(unit, data.symbol, &addressed);
        let planned = match unprobed.get(&function) {
            Some(why) => Err(*why),
            None => plan_function(unit, function, choice, plan.counters, check),
        };
        match planned {
            Ok((probes, its_meaning)) => {
                plan.counters = its_meaning.first + its_meaning.paths;
                meaning.functions.push(its_meaning);
                let name = unit.symbols[data.symbol].name.clone();
                let blocks = data.blocks.len() as u32;
                plan.functions.push(FunctionPlan { function, name, blocks, probes });
            }
            Err(why) => {
                meaning.left_out.push((function.position() as u32, why));
                plan.left_out.push((function, why));
            }
        }
    }
    (plan, meaning)
}

fn plan_function(
    unit: &Unit,
    function: Func,
    choice: &Choice<'_>,
    next: u32,
    check: bool,
) -> Result<(Vec<Probe>, FunctionMeaning), LeftOut> {
    let taken = choice.weights.map(|weights| weights.get(unit, function));
    let plan = PathPlan::new(unit, function, choice.limit, taken.as_ref())?;
    let entries = can_be_left_early(&unit.functions[function]).then_some(next);
    let next = next + u32::from(entries.is_some());
    let twice: Vec<Inst> = plan.graph().calls_that_return_twice().collect();
    let returns = (!twice.is_empty()).then_some(next);
    let first = next + u32::from(returns.is_some());
    let at = Place::Entry;
    let mut probes = Vec::new();
    probes.extend(check.then_some(Probe { at, action: Action::Enter }));
    probes.extend(entries.map(|counter| Probe { at, action: Action::Count { counter } }));
    let returned =
        |counter| move |inst| Probe { at: Place::After(inst), action: Action::Count { counter } };
    probes.extend(returns.into_iter().flat_map(|it| twice.iter().copied().map(returned(it))));
    probes.extend(plan.probes(&plan.weights(unit, function, taken.as_ref()), first)?);
    let paths = plan.count() as u32;
    let function = function.position() as u32;
    Ok((probes, FunctionMeaning { function, entries, returns, first, paths, cuts: plan.cuts() }))
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
fn addressed_symbols(unit: &Unit, unprobed: &Unprobed) -> BTreeSet<Sym> {
    let mut found = BTreeSet::new();
    for (function, data) in unit.functions.iter() {
        let why = unprobed.get(&function);
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
