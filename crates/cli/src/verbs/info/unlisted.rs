//! The functions of libraries that a program calls and of which nothing is known: they
//! may do everything, which costs traces and autopsies.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::{CallTargets, Externals, Target};
use backtrail_ir::Unit;
use backtrail_ir::program::{Object, Program, Surroundings};
use backtrail_outside as outside;
use serde::Serialize;

/// One of them.
#[derive(Serialize)]
pub struct UnlistedRow {
    /// Its linkage name.
    pub name: String,
    /// In how many places it is called by name.
    pub calls: usize,
}

/// What is called of which nothing is known.
#[derive(Serialize)]
pub struct Unlisted {
    /// The functions, those called most first.
    pub functions: Vec<UnlistedRow>,
    /// How many functions of the program each of them may call back.
    pub reach: usize,
}

/// Finds them in the first of some modules, which run together.
pub fn find(modules: &[(&[Unit], &Surroundings)]) -> Unlisted {
    let joined =
        modules.iter().map(|(units, surroundings)| (units.iter().collect(), *surroundings));
    let program = Program::linked(joined);
    let own = modules.first().map_or(0, |(units, _)| units.len());
    let own: BTreeSet<Object> = program.units().take(own).map(|(object, _)| object).collect();
    let targets = CallTargets::new(&program);
    let mut calls: BTreeMap<String, usize> = BTreeMap::new();
    for &(object, function) in targets.bodies().values() {
        let Some(unit) = program.unit(object).filter(|_| own.contains(&object)) else { continue };
        let function = &unit.functions[function];
        for (inst, data) in function.insts.iter() {
            let Some(call) = data.op.call() else { continue };
            let Target::Unseen(symbol) = targets.target(object, function, inst, call) else {
                continue;
            };
            let name = program.external_name(object, symbol);
            if outside::of(&name).is_none_or(|row| row.anything) {
                *calls.entry(name.into_owned()).or_default() += 1;
            }
        }
    }
    let mut functions: Vec<UnlistedRow> =
        calls.into_iter().map(|(name, calls)| UnlistedRow { name, calls }).collect();
    functions.sort_by(|one, other| other.calls.cmp(&one.calls).then(one.name.cmp(&other.name)));
    let reach = match functions.is_empty() {
        true => 0,
        false => Externals::new(&program, &targets).anyone().len(),
    };
    Unlisted { functions, reach }
}
