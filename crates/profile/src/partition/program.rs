//! The functions of a program whose paths are counted, and who calls them.
//!
//! Modules, units and functions in order; only functions whose code is in the
//! program, as far as symbol resolution knows. Call sites are counted over the
//! whole program: a direct call is one, wherever it is; a function whose address
//! is taken may be called from any number of places, and counts as having
//! several.

use std::collections::BTreeMap;

use backtrail_graph::{Index, PathDag};
use backtrail_ir::program::{Program, Resolution};
use backtrail_ir::{Callee, Func, SymbolKind, Unit, Value};

use crate::partition::interest::Interest;
use crate::path_plan::PathPlan;
use crate::unit_plan::{Choice, FunctionPaths, UnitPaths};

/// The units of an executable or shared library, by id, in link order.
pub type ModuleUnits<'a> = Vec<([u8; 16], &'a Unit)>;

/// The functions of a program whose paths are counted.
#[derive(Debug, Clone)]
pub struct ProgramPaths<'a> {
    functions: Vec<CountedFunction<'a>>,
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
}

impl<'a> ProgramPaths<'a> {
    /// The functions of `modules` that `choice` asks for.
    pub fn new(modules: &[ModuleUnits<'a>], choice: &Choice<'_>) -> Self {
        let mut functions = Vec::new();
        let mut calls = CallSites::default();
        let programs: Vec<Program<'_>> = modules
            .iter()
            .map(|units| Program::of_units(units.iter().map(|(_, unit)| *unit)))
            .collect();
        for (module, program) in programs.iter().enumerate() {
            calls.add(module, program);
        }
        calls.join(&programs);
        for (module, (units, program)) in modules.iter().zip(&programs).enumerate() {
            let objects = program.units().map(|(object, _)| object);
            for (object, &(unit_id, unit)) in objects.zip(units) {
                for (function, paths) in UnitPaths::new(unit_id, unit, choice).functions {
                    let Ok(paths) = paths else { continue };
                    if program.kept(object, function) {
                        let place = (module, object.position(), function);
                        let call_sites = calls.of(place);
                        functions.push(CountedFunction {
                            unit_id,
                            unit,
                            function,
                            paths,
                            call_sites,
                        });
                    }
                }
            }
        }
        Self { functions }
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
}

/// More than one.
const SEVERAL: u32 = 2;

impl CallSites {
    /// Adds the calls of a module.
    fn add(&mut self, module: usize, program: &Program<'_>) {
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
                for inst in body.insts.values() {
                    if let Some(Callee::Direct(symbol)) = inst.op.call().map(|call| &call.callee) {
                        add(*symbol, 1);
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
