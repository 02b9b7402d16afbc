//! The plan of a unit: the probes of its traced functions, and what their
//! records mean.
//!
//! An autopsy says of every function whether it can have run, also of those of which
//! nothing is recorded. Of some it says so by the model of the program alone: nothing is
//! known to call them ([`Code::unreachable`]). Whether one of these was entered is recorded
//! whatever the scheme asks for, so that an autopsy can tell if the model is wrong; as long
//! as it is not, that costs nothing.

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_ir::program::Program;
use backtrail_ir::{Func, Linkage, Unit};
use backtrail_plan::{FrameRecord, FunctionPlan, LeftOut, UnitPlan};
use serde::{Deserialize, Serialize};

use crate::active::Code;
use crate::covered::{Covered, CoveredMeaning};
use crate::evidence::FunctionId;
use crate::placement::Wanted;
use crate::scheme::{Mechanisms, Scheme};
use crate::traced::{FunctionMeaning, TracedPaths};
use backtrail_analysis::LeavingCalls;

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
    leaving: LeavingCalls,
    /// The functions of the module that nothing is known to call.
    unreachable: BTreeSet<FunctionId>,
    /// Gives the names by which people choose functions.
    pub demangle: &'a dyn Fn(&str) -> String,
}

impl<'a> Planning<'a> {
    /// What has to be known of the module that is `program`, whose units have these
    /// `ids`, in order. Of the names in `preemptible`, other modules may have definitions
    /// that are meant.
    pub fn new(
        scheme: &'a Scheme,
        program: &Program<'_>,
        ids: &[[u8; 16]],
        preemptible: &BTreeSet<String>,
        demangle: &'a dyn Fn(&str) -> String,
    ) -> Self {
        let leaving = LeavingCalls::new(program, preemptible);
        let unreachable = Code::new(program, ids, preemptible).unreachable();
        Self { scheme, leaving, unreachable, demangle }
    }
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
            let Some(mut wanted) = choose(function, own) else { continue };
            wanted.coverage.entered |= self.unreachable.contains(&(id, function));
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

#[cfg(test)]
mod tests {
    use backtrail_testkit::joined;

    use super::*;

    /// The probes of each function, by name, and how many bytes of coverage there are.
    fn planned(scheme: &str) -> (Vec<(String, usize)>, u32) {
        let text = r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = function f1 "called" internal
            s2 = function f2 "left" internal
            s3 = function f3 "left_too" internal
            function f0 s0 parameters 1 { b0: i0 = call s1 () i1 return (0) }
            function f1 s1 parameters 0 { b0: i0 return (0) }
            function f2 s2 parameters 0 { b0: i0 = call s3 () i1 return (0) }
            function f3 s3 parameters 0 { b0: i0 return (0) }
            "#;
        let unit = backtrail_ir::text::parse(text).unwrap();
        let scheme = Scheme::parse(scheme, 3, &[]).unwrap();
        let (program, none) = (joined([&unit]), BTreeSet::new());
        let demangle = |name: &str| name.to_owned();
        let planning = Planning::new(&scheme, &program, &[[7; 16]], &none, &demangle);
        let (plan, _) = planning.plan([7; 16], &unit, 0);
        let probes = plan.functions.iter().map(|it| (it.name.clone(), it.probes.len()));
        (probes.collect(), plan.covered)
    }

    #[test]
    fn what_nobody_is_known_to_call_is_watched_by_every_scheme() {
        let of = |list: &[(&str, usize)]| -> Vec<(String, usize)> {
            list.iter().map(|&(name, probes)| (name.to_owned(), probes)).collect()
        };
        assert_eq!(planned("none"), (of(&[("left", 1), ("left_too", 1)]), 2));
        assert_eq!(
            planned("fc"),
            (of(&[("main", 1), ("called", 1), ("left", 1), ("left_too", 1)]), 4)
        );
        // Of what is called, calls tell; a leaf has no probe of its own.
        let (probes, _) = planned("cc");
        assert_eq!(probes[1..2], of(&[("called", 0)]));
        assert_eq!(probes[3..], of(&[("left_too", 1)]));
        // What `pt` records itself has no bytes.
        let (probes, covered) = planned("pt");
        assert_eq!((probes.len(), covered), (4, 2));
    }
}
