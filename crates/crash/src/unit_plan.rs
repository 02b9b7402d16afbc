//! The plan of a unit: the probes of its traced functions, and what their
//! records mean.

use backtrail_graph::Index;
use backtrail_ir::{Func, Linkage, Unit};
use backtrail_plan::{FrameRecord, FunctionPlan, LeftOut, UnitPlan};
use serde::{Deserialize, Serialize};

use crate::covered::{Covered, CoveredMeaning};
use crate::leaving::LeavingCalls;
use crate::placement::Wanted;
use crate::scheme::{Mechanisms, Scheme};
use crate::traced::{FunctionMeaning, TracedPaths};

/// What the records of a unit mean.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitMeaning {
    /// The traced functions, by number.
    pub traced: Vec<FunctionMeaning>,
    /// The covered functions, by number.
    pub covered: Vec<CoveredMeaning>,
    /// Those that are not traced, and why.
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

/// What has to be known to plan a unit.
pub struct Planning<'a> {
    /// What is asked for.
    pub scheme: &'a Scheme,
    /// The calls of the module that may leave.
    pub leaving: &'a LeavingCalls,
    /// Gives the names by which people choose functions.
    pub demangle: &'a dyn Fn(&str) -> String,
}

impl Planning<'_> {
    /// The plan of `unit`, which is known by `id` and is at `place` in its module.
    pub fn plan(&self, id: [u8; 16], unit: &Unit, place: usize) -> (UnitPlan, UnitMeaning) {
        self.plan_for(id, unit, place, &|_, own| Some(own))
    }

    /// The same, where `choose` says what is recorded of a function, given what the
    /// scheme asks for; of some, it is not this plan that says it.
    pub(crate) fn plan_for(
        &self,
        id: [u8; 16],
        unit: &Unit,
        place: usize,
        choose: &dyn Fn(Func, Mechanisms) -> Option<Mechanisms>,
    ) -> (UnitPlan, UnitMeaning) {
        let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
        let mut plan = UnitPlan { unit: id, blocks, ..UnitPlan::default() };
        let mut meaning = UnitMeaning::default();
        let mut splits = Vec::new();
        for (function, data) in unit.functions.iter() {
            let name = &unit.symbols[data.symbol].name;
            let own = self.scheme.of(name, &(self.demangle)(name));
            let Some(wanted) = choose(function, own) else { continue };
            let (paths, covered) = match left_out(unit, function) {
                Some(why) => (Err(why), Err(why)),
                None => (
                    self.paths(unit, function, wanted),
                    self.coverage(unit, function, wanted, place),
                ),
            };
            let mut record = FrameRecord::default();
            let mut probes = Vec::new();
            let mut own = Vec::new();
            if let Ok(covered) = &covered {
                own = covered.points().splits();
                record.mark_words = covered.mark_words();
                probes.extend(covered.probes(plan.covered));
                meaning.covered.push(covered.meaning(function, plan.covered));
                plan.covered += covered.bytes();
            }
            match &paths {
                Ok(paths) => {
                    record.words = paths.record().map_or(0, |record| record.words);
                    probes.extend(paths.probes());
                    meaning.traced.push(paths.meaning(function));
                    if covered.is_err() {
                        own = paths.graph().splits();
                    }
                }
                Err(why) => meaning.left_out.push((function.position() as u32, *why)),
            }
            if let (Err(why), Err(_)) = (paths, &covered) {
                plan.left_out.push((function, why));
                continue;
            }
            let blocks = data.blocks.len() as u32;
            plan.functions.push(FunctionPlan { function, name: name.clone(), blocks, probes });
            if record.all_words() > 0 {
                plan.records.push((function, record));
            }
            if !own.is_empty() {
                splits.push((function, own));
            }
        }
        plan.block_lines = Some(splits);
        plan.distinct_calls = true;
        (plan, meaning)
    }

    pub(crate) fn paths(
        &self,
        unit: &Unit,
        function: Func,
        wanted: Mechanisms,
    ) -> Result<TracedPaths, LeftOut> {
        match wanted.paths {
            false => Err(LeftOut::NotChosen),
            true => TracedPaths::new(unit, function, self.scheme.ended()),
        }
    }

    pub(crate) fn coverage(
        &self,
        unit: &Unit,
        function: Func,
        wanted: Mechanisms,
        place: usize,
    ) -> Result<Covered, LeftOut> {
        match wanted.coverage {
            Wanted { entered: false, calls: false, blocks: false } => Err(LeftOut::NotChosen),
            wanted => Covered::new(unit, function, wanted, self.leaving.of(place, function)),
        }
    }
}

/// Why a function cannot have a record, if it cannot. What chooses functions
/// while the program is loaded can: frames are there.
pub(crate) fn left_out(unit: &Unit, function: Func) -> Option<LeftOut> {
    let data = &unit.functions[function];
    if unit.symbols[data.symbol].linkage == Linkage::AvailableExternally {
        Some(LeftOut::AvailableExternally)
    } else {
        data.traits.naked.then_some(LeftOut::Naked)
    }
}
