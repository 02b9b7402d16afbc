//! The plan of a unit: the probes of its traced functions, and what their
//! records mean.

use backtrail_graph::Index;
use backtrail_ir::{Func, Linkage, Unit};
use backtrail_plan::{FunctionPlan, LeftOut, UnitPlan};
use serde::{Deserialize, Serialize};

use crate::scheme::Scheme;
use crate::traced::{FunctionMeaning, TracedPaths};

/// What the records of a unit mean.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnitMeaning {
    /// The traced functions, by number.
    pub traced: Vec<FunctionMeaning>,
    /// Those that are not, and why.
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

/// The plan of `unit`, which is known by `id`, under `scheme`. `demangle` gives
/// the names by which people choose functions.
pub fn plan_unit(
    id: [u8; 16],
    unit: &Unit,
    scheme: &Scheme,
    demangle: &dyn Fn(&str) -> String,
) -> (UnitPlan, UnitMeaning) {
    let blocks = unit.functions.values().map(|data| data.blocks.len() as u32).sum();
    let mut plan = UnitPlan { unit: id, blocks, ..UnitPlan::default() };
    let mut meaning = UnitMeaning::default();
    let mut splits = Vec::new();
    for (function, data) in unit.functions.iter() {
        let name = &unit.symbols[data.symbol].name;
        let traced = match left_out(unit, function) {
            Some(why) => Err(why),
            None if !scheme.of(name, &demangle(name)).paths => Err(LeftOut::NotChosen),
            None => TracedPaths::new(unit, function, scheme.ended()),
        };
        let paths = match traced {
            Ok(paths) => paths,
            Err(why) => {
                plan.left_out.push((function, why));
                meaning.left_out.push((function.position() as u32, why));
                continue;
            }
        };
        plan.functions.push(FunctionPlan {
            function,
            name: name.clone(),
            blocks: data.blocks.len() as u32,
            probes: paths.probes(),
        });
        plan.records.extend(paths.record().map(|record| (function, record)));
        let own = paths.graph().splits();
        if !own.is_empty() {
            splits.push((function, own));
        }
        meaning.traced.push(paths.meaning(function));
    }
    plan.block_lines = Some(splits);
    plan.distinct_calls = true;
    (plan, meaning)
}

/// Why a function cannot have a record, if it cannot. What chooses functions
/// while the program is loaded can: frames are there.
fn left_out(unit: &Unit, function: Func) -> Option<LeftOut> {
    let data = &unit.functions[function];
    if unit.symbols[data.symbol].linkage == Linkage::AvailableExternally {
        Some(LeftOut::AvailableExternally)
    } else {
        data.traits.naked.then_some(LeftOut::Naked)
    }
}
