//! Calls that may not come back to the activation that made them, although it is
//! over: because of `longjmp`, of an exception that passes through, or of the end
//! of a thread.
//!
//! A call of a function of the program may leave if its body has such a call. A
//! call that leads out of the units may if what it leads to may, or whom that calls back
//! ([`crate::external`]). An indirect call may if anything may that its
//! pointer can lead to.
//!
//! Where activations may end anywhere ([`Externals::may_end_anywhere`]), any call may leave.

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Func, Inst, Unit};

use crate::calls::{is_call, traits_of};
use crate::{Body, CallTargets, CalledBack, Externals, Target};

/// Where activations of a function may end otherwise than by a return.
#[derive(Debug, Clone, Copy)]
pub enum Leaving<'a> {
    /// At these calls.
    Calls(&'a BTreeSet<Inst>),
    /// Anywhere.
    Everywhere,
}

/// What is known of a module.
#[derive(Debug, Clone)]
pub struct LeavingCalls {
    everywhere: bool,
    /// By unit and function, the calls that may leave.
    calls: Vec<Vec<BTreeSet<Inst>>>,
}

impl LeavingCalls {
    /// Looks through a module. Of the names in `preemptible`, other modules may have
    /// definitions that are meant.
    pub fn new(program: &Program<'_>, preemptible: &BTreeSet<String>) -> Self {
        let targets = CallTargets::new(program);
        let externals = Externals::new(program, &targets);
        let module = Module { targets: &targets, externals: &externals, preemptible };
        let mut leaves = vec![false; targets.bodies().len()];
        let mut changed = true;
        while changed {
            changed = false;
            for (body, &(object, function)) in targets.bodies().iter() {
                let unit = unit_of(program, object);
                if !leaves[body.position()]
                    && module.leaving(object, unit, function, &leaves).next().is_some()
                {
                    leaves[body.position()] = true;
                    changed = true;
                }
            }
        }
        let of_unit = |(object, unit): (Object, &Unit)| -> Vec<BTreeSet<Inst>> {
            let of_function = |function| module.leaving(object, unit, function, &leaves).collect();
            unit.functions.indices().map(of_function).collect()
        };
        let calls = program.units().map(of_unit).collect();
        Self { everywhere: externals.may_end_anywhere(), calls }
    }

    /// Where activations of a function of the unit at this place may end.
    pub fn of(&self, unit: usize, function: Func) -> Leaving<'_> {
        match self.everywhere {
            true => Leaving::Everywhere,
            false => Leaving::Calls(&self.calls[unit][function.position()]),
        }
    }
}

fn unit_of<'u>(program: &Program<'u>, object: Object) -> &'u Unit {
    program.unit(object).expect("bodies are of units")
}

struct Module<'a, 'u> {
    targets: &'a CallTargets<'a, 'u>,
    externals: &'a Externals<'a, 'u>,
    preemptible: &'a BTreeSet<String>,
}

impl Module<'_, '_> {
    /// The calls of a function that may leave, if these functions may.
    fn leaving<'s>(
        &'s self,
        object: Object,
        unit: &'s Unit,
        function: Func,
        leaves: &'s [bool],
    ) -> impl Iterator<Item = Inst> + 's {
        let data = &unit.functions[function];
        let insts = data.insts.iter().filter(|(_, it)| is_call(&it.op));
        let may_leave = move |(inst, it): &(Inst, &backtrail_ir::InstData)| {
            let Some(call) = it.op.call() else { return true };
            let target = self.targets.target(object, data, *inst, call);
            let traits = traits_of(unit, call);
            let is_left = |body: &Body| leaves[body.position()];
            let seen = match target {
                Target::Body(body) => {
                    is_left(&body) || self.targets.is_preemptible(body, self.preemptible)
                }
                Target::Taken { arguments } => {
                    self.targets.taken_with(arguments).any(|it| is_left(&it))
                }
                Target::Inline | Target::Unseen(_) | Target::Native(_) => false,
            };
            let external = || self.externals.of_call(object, data, *inst, &target, traits);
            seen || external().is_some_and(|external| {
                external.leaves
                    || match &external.calls {
                        CalledBack::These(these) => these.iter().any(is_left),
                        // Whatever else calls anyone does so to end the run.
                        CalledBack::Anyone => false,
                    }
            })
        };
        insts.filter(may_leave).map(|(inst, _)| inst)
    }
}

#[cfg(test)]
mod tests {
    use backtrail_testkit::joined;

    use super::*;

    /// Functions that each make one call, and `main` that calls them all.
    fn unit(extra: &str) -> Unit {
        let text = format!(
            r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = function f1 "quiet" external
            s2 = function f2 "loud" internal
            s3 = function f3 "sorting" internal
            s4 = function f4 "pointing" internal
            s5 = declare "malloc" external
            s6 = declare "{extra}" external
            s7 = declare "qsort" external
            function f0 s0 parameters 1 {{
            b0:
              i0 = call s1 ()
              i1 = call s2 ()
              i2 = call s3 ()
              i3 = call s4 ()
              i4 return (0)
            }}
            function f1 s1 parameters 0 {{ b0: i0 = call s5 (1) i1 return (0) }}
            function f2 s2 parameters 0 {{ b0: i0 = call s6 (1) i1 return (0) }}
            function f3 s3 parameters 0 {{ b0: i0 = call s7 (1) i1 return (0) }}
            function f4 s4 parameters 1 {{ b0: i0 = call indirect (p0) i1 return (0) }}
            "#
        );
        backtrail_ir::text::parse(&text).unwrap()
    }

    /// The calls of `main` that may leave; none if anything may.
    fn leaving(unit: &Unit, preemptible: &[&str]) -> Option<Vec<usize>> {
        let preemptible = preemptible.iter().map(|name| (*name).to_owned()).collect();
        let calls = LeavingCalls::new(&joined([unit]), &preemptible);
        match calls.of(0, Func::new(0)) {
            Leaving::Everywhere => None,
            Leaving::Calls(calls) => Some(calls.iter().map(|it| it.position()).collect()),
        }
    }

    #[test]
    fn what_is_not_seen_may_leave_and_the_c_library_returns() {
        let unknown = Some(vec![3]);
        // A pointer that leads to nothing that is known may lead anywhere.
        assert_eq!(leaving(&unit("printf"), &[]), unknown);
        assert_eq!(leaving(&unit("longjmp"), &[]), Some(vec![1, 3]));
        assert_eq!(leaving(&unit("something"), &[]), Some(vec![1, 3]));
        // Another module may have what leaves.
        assert_eq!(leaving(&unit("printf"), &["quiet"]), Some(vec![0, 3]));
    }

    #[test]
    fn some_things_happen_anywhere() {
        assert_eq!(leaving(&unit("pthread_cancel"), &[]), None);
        let both = [unit("siglongjmp"), unit("sigaction")];
        let of_both = LeavingCalls::new(&joined(&both), &BTreeSet::new());
        assert!(matches!(of_both.of(1, Func::new(1)), Leaving::Everywhere));
        let both = [unit("fork"), unit("pthread_create")];
        let of_both = LeavingCalls::new(&joined(&both), &BTreeSet::new());
        assert!(matches!(of_both.of(0, Func::new(1)), Leaving::Everywhere));
    }
}
