//! The order in which functions are entered, in runs that log a part each.
//!
//! Every run notes it in the same way ([`backtrail_plan::order`]), in memory where variants
//! that count have their counters. So functions that code without probes may call see to it
//! that their thread has such memory.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_abi::UnitId;
use backtrail_analysis::CallTargets;
use backtrail_analysis::calls::direct_callees;
use backtrail_build::Error;
use backtrail_collect::counts::order_in;
use backtrail_collect::records::{CountsPath, Descendant};
use backtrail_foreign::file;
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Func, Unit};
use backtrail_plan::block_log::left_out;
use backtrail_plan::order::{ProcessEntries, Turns};
use backtrail_plan::{Action, FunctionPlan, Place, Probe, UnitPlan};

use super::TracedProgram;
use crate::exit::Unreadable;

/// Which functions note that they are entered, and which of them check that they can.
pub struct OrderProbes {
    /// By unit, those that code without probes may call; `None`: all.
    entered: Option<BTreeMap<UnitId, BTreeSet<Func>>>,
    turns: Turns,
}

impl OrderProbes {
    /// Of a program. What its modules call of each other is not told from what others call.
    pub fn new(
        traced: &TracedProgram,
        program: &Program<'_>,
        ids: &BTreeMap<Object, UnitId>,
    ) -> Self {
        let targets = CallTargets::new(program);
        let turns = Turns::new(program, &targets);
        if !traced.is_one_module {
            return Self { entered: None, turns };
        }
        let mut bodies = targets.entered_from_outside();
        for (object, unit) in program.units() {
            let silent = unit.functions.indices().filter(|it| left_out(unit, *it).is_some());
            let callees = silent.flat_map(|function| direct_callees(unit, function));
            bodies.extend(callees.filter_map(|it| targets.body_of_symbol(object, it)));
        }
        let mut entered: BTreeMap<UnitId, BTreeSet<Func>> = BTreeMap::new();
        for (object, function) in bodies.into_iter().map(|body| targets.bodies()[body]) {
            if let Some(id) = ids.get(&object) {
                entered.entry(*id).or_default().insert(function);
            }
        }
        Self { entered: Some(entered), turns }
    }

    /// Adds the probes to the plan of a unit.
    pub fn add(&self, id: UnitId, (object, unit): (Object, &Unit), plan: &mut UnitPlan) {
        let entered = self.entered.as_ref().map(|by_unit| by_unit.get(&id));
        let checks = |function: Func| match entered {
            None => true,
            Some(these) => these.is_some_and(|these| these.contains(&function)),
        };
        for (function, data) in unit.functions.iter() {
            if left_out(unit, function).is_some() {
                continue;
            }
            let at = Place::Entry;
            let check = checks(function).then_some(Probe { at, action: Action::Enter });
            let turn = self.turns.of(id.0, (object, function));
            let order = Probe { at, action: Action::Order(turn) };
            let probes = check.into_iter().chain([order]);
            match plan.functions.iter_mut().find(|it| it.function == function) {
                Some(known) => drop(known.probes.splice(0..0, probes)),
                None => plan.functions.push(FunctionPlan {
                    function,
                    name: unit.symbols[data.symbol].name.clone(),
                    blocks: data.blocks.len() as u32,
                    probes: probes.collect(),
                }),
            }
        }
        plan.functions.sort_by_key(|it| it.function);
    }
}

/// The orders of entries that the processes of a run noted.
pub fn entries_of(processes: &[Descendant]) -> anyhow::Result<Vec<ProcessEntries>> {
    let of_process = |Descendant { record, parent }: &Descendant| {
        let mut entered = Vec::new();
        for CountsPath { module, path, .. } in &record.counts {
            let bytes = file::read(path).map_err(Error::read(path))?;
            let order = order_in(bytes)
                .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
            entered.extend(order.map(|order| (*module as usize, order)));
        }
        Ok(ProcessEntries { forked_by: *parent, entered })
    };
    processes.iter().map(of_process).collect()
}
