//! The functions of a program whose paths are counted, and who calls them.
//!
//! Modules, units and functions in order; only functions whose code is in the
//! program, as far as symbol resolution knows. Call sites are counted over the
//! whole program: a direct call is one, wherever it is; a function whose address
//! is taken may be called from any number of places, and counts as having
//! several.

use std::collections::BTreeMap;

use backtrail_graph::{Index, PathDag};
use backtrail_ir::program::{Program, Resolution, Surroundings};
use backtrail_ir::{Block, Callee, Func, SymbolKind, Unit, Value};

use crate::frequency::GUESSED_ENTRIES;
use crate::partition::interest::Interest;
use crate::partition::price::Price;
use crate::path_plan::PathPlan;
use crate::unit_plan::{Choice, FunctionPaths, UnitPaths};

/// The units of an executable or shared library, by id, in link order.
pub type ModuleUnits<'a> = Vec<([u8; 16], &'a Unit)>;

/// The functions of a program whose paths are counted.
#[derive(Debug, Clone)]
pub struct ProgramPaths<'a> {
    functions: Vec<CountedFunction<'a>>,
    is_weighed: bool,
}

/// One of them.
#[derive(Debug, Clone)]
pub struct CountedFunction<'a> {
    /// Its unit's id.
    pub unit_id: [u8; 16],
    /// Its unit.
    pub unit: &'a Unit,
    /// The function.
    pub function: Func,
    /// Its paths and weights.
    pub paths: FunctionPaths,
    /// How many places call it; several, if that is not known.
    pub call_sites: u32,
    /// What its weights have to be multiplied by to be comparable with those of
    /// other functions: 1 for weights from a profile, for guesses how often it
    /// is thought to be called.
    pub scale: f64,
    /// Whether its weights are from a profile, and not guessed.
    pub is_weighed: bool,
}

impl<'a> ProgramPaths<'a> {
    /// The functions of `modules` that `choice` asks for.
    pub fn new(modules: &[(ModuleUnits<'a>, &Surroundings)], choice: &Choice<'_>) -> Self {
        let mut functions = Vec::new();
        let mut places = BTreeMap::new();
        let mut calls = CallSites::default();
        let programs: Vec<Program<'_>> = modules
            .iter()
            .map(|(units, surroundings)| {
                Program::linked([(units.iter().map(|(_, unit)| *unit).collect(), *surroundings)])
            })
            .collect();
        for (module, program) in programs.iter().enumerate() {
            calls.add(module, program);
        }
        calls.join(&programs);
        for (module, ((units, _), program)) in modules.iter().zip(&programs).enumerate() {
            let objects = program.units().map(|(object, _)| object);
            for (object, &(unit_id, unit)) in objects.zip(units) {
                for (function, paths) in UnitPaths::new(unit_id, unit, choice).functions {
                    let Ok(paths) = paths else { continue };
                    if program.kept(object, function) {
                        let place = (module, object.position(), function);
                        let call_sites = calls.of(place);
                        places.insert(place, functions.len());
                        functions.push(CountedFunction {
                            unit_id,
                            unit,
                            function,
                            paths,
                            call_sites,
                            scale: 1.0,
                            is_weighed: choice.weights.is_some(),
                        });
                    }
                }
            }
        }
        if choice.weights.is_none() {
            estimate_scales(&mut functions, &places, &calls);
        }
        Self { functions, is_weighed: choice.weights.is_some() }
    }

    /// Whether weights are from a profile, and not guessed.
    pub fn is_weighed(&self) -> bool {
        self.is_weighed
    }

    /// The functions, in order.
    pub fn functions(&self) -> &[CountedFunction<'a>] {
        &self.functions
    }
}

impl CountedFunction<'_> {
    /// Its paths.
    pub fn plan(&self) -> &PathPlan {
        &self.paths.plan
    }

    /// The graph of its paths.
    pub fn dag(&self) -> &PathDag {
        self.paths.plan.dag()
    }

    /// How often a block is thought to be executed per call, by guessed weights.
    fn executions_of(&self, block: Block) -> f64 {
        let graph = self.plan().graph();
        let first = graph.pieces.iter().find(|(_, piece)| piece.block == block);
        let Some((piece, _)) = first else { return 0.0 };
        let into = graph.flow.in_edges(piece).iter().map(|it| self.paths.weights[it.position()]);
        let entered = if piece == graph.entry() { ONCE } else { 0.0 };
        (into.sum::<u64>() as f64 + entered) / ONCE
    }

    /// Its linkage name.
    pub fn name(&self) -> &str {
        &self.unit.symbols[self.unit.functions[self.function].symbol].name
    }

    /// How many edges have a label that is not 0 when `interest` is counted:
    /// what it costs, as published. Labels that cannot be placed cost
    /// everything.
    pub fn probes(&self, interest: &Interest) -> u64 {
        let Ok((increments, counted)) = self.plan().increments_of(interest, &self.paths.weights)
        else {
            return u64::MAX;
        };
        let labelled = counted.iter().filter(|&edge| increments.increment(edge) != 0);
        labelled.count() as u64
    }
}

/// A function: module, unit, number.
type Place = (usize, usize, Func);

/// How many places call each function.
#[derive(Debug, Default)]
struct CallSites {
    sites: BTreeMap<Place, u32>,
    /// Calls of what a module does not define, by name.
    elsewhere: BTreeMap<String, u32>,
    /// Direct calls within a module: caller, block, callee.
    direct: Vec<(Place, Block, Place)>,
}

/// More than one.
const SEVERAL: u32 = 2;

impl CallSites {
    /// Adds the calls of a module.
    fn add(&mut self, module: usize, program: &Program<'_>) {
        let direct = &mut self.direct;
        for (object, unit) in program.units() {
            // What other code calls has callers of which no more is known.
            let is_named = |it: &Func| program.by_name(object, *it).is_any();
            for function in unit.functions.indices().filter(is_named) {
                self.sites.insert((module, object.position(), function), SEVERAL);
            }
        }
        for (object, unit) in program.units() {
            let mut add = |symbol, sites: u32| match program.resolve(object, symbol) {
                Resolution::Function(object, function) => {
                    let known =
                        self.sites.entry((module, object.position(), function)).or_default();
                    *known = known.saturating_add(sites);
                }
                Resolution::Native(_) | Resolution::Elsewhere | Resolution::Null => {
                    let name = &unit.symbols[symbol].name;
                    let known = self.elsewhere.entry(name.clone()).or_default();
                    *known = known.saturating_add(sites);
                }
                Resolution::Data(..) | Resolution::IFunc(..) | Resolution::Discarded => {}
            };
            for (function, body) in unit.functions.iter() {
                if !program.kept(object, function) {
                    continue;
                }
                for (block, inst) in body
                    .blocks
                    .iter()
                    .flat_map(|(block, data)| data.insts().map(move |inst| (block, inst)))
                {
                    let call = body.insts[inst].op.call();
                    if let Some(Callee::Direct(symbol)) = call.map(|call| &call.callee) {
                        add(*symbol, 1);
                        if let Resolution::Function(callee, called) =
                            program.resolve(object, *symbol)
                        {
                            let caller = (module, object.position(), function);
                            let callee = (module, callee.position(), called);
                            direct.push((caller, block, callee));
                        }
                    }
                }
                for operand in &body.operands {
                    match operand {
                        Value::Symbol(symbol, _) => add(*symbol, SEVERAL),
                        Value::Expr(symbols) => symbols.iter().for_each(|it| add(*it, SEVERAL)),
                        _ => {}
                    }
                }
            }
            for symbol in unit.symbols.values() {
                if let SymbolKind::Data { refers_to, .. } = &symbol.kind {
                    refers_to.iter().for_each(|it| add(*it, SEVERAL));
                }
            }
        }
    }

    /// Gives calls from one module to another to who defines the name.
    fn join(&mut self, programs: &[Program<'_>]) {
        for (module, program) in programs.iter().enumerate() {
            for (object, unit) in program.units() {
                for symbol in unit.symbols.values() {
                    if let (SymbolKind::Function(function), Some(&sites)) =
                        (&symbol.kind, self.elsewhere.get(&symbol.name))
                    {
                        let place = (module, object.position(), *function);
                        let known = self.sites.entry(place).or_default();
                        *known = known.saturating_add(sites);
                    }
                }
            }
        }
    }

    fn of(&self, place: Place) -> u32 {
        self.sites.get(&place).copied().unwrap_or(0)
    }
}

/// How often calls are followed: deeper chains count as one of this depth.
const CALL_ROUNDS: usize = 12;

/// What a guessed weight is for something that is executed once per entry.
const ONCE: f64 = GUESSED_ENTRIES as f64;

/// The most often that a function is thought to be called.
const MOST_CALLS: f64 = 1e12;

/// Guesses how often functions are called: once from outside of what is known
/// if nothing calls them, and as often as the blocks of their direct calls are
/// executed. Calls over pointers count as one. Such guesses are products of
/// guesses, and wrong by orders of magnitude: between functions they are
/// trusted no further than by their logarithm, as a factor of the number of
/// probes.
fn estimate_scales(
    functions: &mut [CountedFunction<'_>],
    places: &BTreeMap<Place, usize>,
    calls: &CallSites,
) {
    let mut rates: Vec<(usize, usize, f64)> = Vec::new();
    let mut is_called = vec![false; functions.len()];
    for (caller, block, callee) in &calls.direct {
        let (Some(&caller), Some(&callee)) = (places.get(caller), places.get(callee)) else {
            continue;
        };
        if caller != callee {
            rates.push((caller, callee, functions[caller].executions_of(*block)));
            is_called[callee] = true;
        }
    }
    let base: Vec<f64> = is_called.iter().map(|it| if *it { 0.0 } else { 1.0 }).collect();
    let mut calls = base.clone();
    for _ in 0..CALL_ROUNDS {
        let mut next = base.clone();
        for &(caller, callee, rate) in &rates {
            next[callee] = (next[callee] + calls[caller] * rate).min(MOST_CALLS);
        }
        calls = next;
    }
    for (function, calls) in functions.iter_mut().zip(calls) {
        // In a cycle of calls that nothing leads into, something is called.
        function.scale = calls.max(1.0) / ONCE;
        let hits = Price::of(function, &Interest::Whole).map_or(0.0, |price| price.hits());
        let probes = function.probes(&Interest::Whole) as f64;
        if hits > 0.0 && probes > 0.0 {
            function.scale *= probes * (1.0 + (1.0 + hits / probes).ln()) / hits;
        }
    }
}
