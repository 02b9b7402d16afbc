//! Whether counts of different copies fit together: calls against entries.
//!
//! Copies may count different functions, and then there is no path that two of
//! them count. But a direct call enters its callee: the executions of the blocks
//! with such calls, which follow from one copy's counts, cannot exceed the
//! entries that another counted; and where nothing else can enter the callee,
//! they are as many. If not, the runs were not the same.
//!
//! Who calls whom is what the linker and the loader made of it
//! ([`backtrail_ir::program`]). A function is entered by its calls alone if its address is
//! not taken and no code that is not of the units refers to it by name.
//!
//! It holds for one process with one thread that ended by itself: others may
//! stop between a call and its callee's entry, and a fork counts the end of a
//! path whose calls its parent made.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::CallTargets;
use backtrail_graph::Index;
use backtrail_ir::program::Object;
use backtrail_ir::{Callee, Func};

use crate::Error;
use crate::derived::Counts;
use crate::model::{Instrumented, Profile, Start};
use crate::skeleton::Skeleton;

/// The direct calls of a program, by place of functions in its profile.
#[derive(Debug, Default)]
pub(crate) struct Calls {
    /// Caller, block, callee.
    calls: Vec<(usize, usize, usize)>,
    /// Functions that nothing but these calls enters.
    closed: BTreeSet<usize>,
}

impl Calls {
    /// The calls of the functions of `skeleton`.
    pub(crate) fn new(skeleton: &Skeleton<'_>) -> Self {
        let program = &skeleton.program;
        let targets = CallTargets::new(program);
        let mut places: BTreeMap<(Object, Func), usize> = BTreeMap::new();
        for (place, source) in skeleton.sources.iter().enumerate() {
            places.insert((source.object, source.function), place);
        }
        let entered = targets.entered_from_outside();
        let mut calls = Vec::new();
        let mut closed = BTreeSet::new();
        for (caller, source) in skeleton.sources.iter().enumerate() {
            let body = &source.unit.functions[source.function];
            for (block, data) in body.blocks.iter() {
                for inst in data.insts() {
                    let call = body.insts[inst].op.call();
                    let Some(Callee::Direct(symbol)) = call.map(|call| &call.callee) else {
                        continue;
                    };
                    let callee = targets.body_of_symbol(source.object, *symbol);
                    let callee = callee.and_then(|it| places.get(&targets.bodies()[it]));
                    calls.extend(callee.map(|&it| (caller, block.position(), it)));
                }
            }
            let body = targets.body(source.object, source.function);
            let is_closed = body.is_some_and(|body| !entered.contains(&body));
            closed.extend(is_closed.then_some(caller));
        }
        Self { calls, closed }
    }

    /// Whether the counts of `profile` fit together.
    pub(crate) fn check(&self, profile: &Profile) -> Result<(), Error> {
        let mut made = vec![0u64; profile.functions.len()];
        let mut exact = vec![true; profile.functions.len()];
        let counted: Vec<Counts> = profile.functions.iter().map(Counts::of).collect();
        for &(caller, block, callee) in &self.calls {
            let count = counted[caller].blocks.get(block).copied().unwrap_or(0);
            made[callee] = made[callee].saturating_add(count);
            let function = &profile.functions[caller];
            // A block is counted once, however often a call in it returned.
            let returned = function.paths.iter().any(|path| path.starts == Start::ReturnTwice);
            exact[callee] &=
                counted[caller].exact && function.instrumented.is_counted() && !returned;
        }
        for (place, function) in profile.functions.iter().enumerate() {
            if !function.instrumented.is_counted() || function.inherited > 0 {
                continue;
            }
            let (calls, entries) = (made[place], function.entries);
            let is_closed = self.closed.contains(&place) && exact[place];
            if calls > entries || (is_closed && calls < entries) {
                let what = format!(
                    "{} was entered {entries} times in one copy and called {calls} times in others",
                    function.name
                );
                return Err(Error::Diverged { what });
            }
        }
        Ok(())
    }
}

impl Instrumented {
    fn is_counted(&self) -> bool {
        !matches!(self, Self::No(_))
    }
}
