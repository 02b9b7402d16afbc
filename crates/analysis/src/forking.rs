//! Which functions may be under way when the program forks.
//!
//! What a fork's child does in activations that it has from its parent is seen only where
//! they get to something that is counted. So whoever counts has to know in which functions
//! there may be more: those that ran, and from which a chain of calls of functions that ran
//! leads to a fork. Code of which nothing is known may fork; what changes stacks is such
//! code, so functions that are suspended on another stack are among them.
//!
//! If a handler of signals may fork, or what code generation calls by itself, any function
//! that ran may be under way.
//!
//! Cost: O(instructions + pairs of indirect calls and functions they may reach).

use std::collections::BTreeSet;

use backtrail_graph::IndexMap;
use backtrail_ir::SymbolKind;
use backtrail_ir::program::{Object, Program};
use backtrail_outside::{self as outside, Class};

use crate::calls::traits_of;
use crate::external::mentioned;
use crate::{Body, CallTargets, CalledBack, External, Externals, Target};

/// Whom a function may call, as far as that may lead to a fork.
#[derive(Default)]
struct Calls {
    /// Whether it calls what may fork by itself.
    forks: bool,
    bodies: BTreeSet<Body>,
    /// By how many arguments pointers are called with.
    taken: BTreeSet<Option<u32>>,
    /// Whether it calls what may call anyone.
    anyone: bool,
}

/// By body: whether an activation of it may be under way when the program forks. `ran` says
/// which functions ran, or may have.
pub fn under_way_at_forks(
    program: &Program<'_>,
    targets: &CallTargets<'_, '_>,
    externals: &Externals<'_, '_>,
    ran: impl Fn(Body) -> bool,
) -> IndexMap<Body, bool> {
    let pointers = pointers_fork(program, targets);
    let of_body = |&(object, _): &(Object, _), body| {
        calls_of(program, targets, externals, pointers, object, body)
    };
    let calls: IndexMap<Body, Calls> =
        targets.bodies().iter().map(|(body, place)| of_body(place, body)).collect();
    let mut found: IndexMap<Body, bool> = calls.values().map(|_| false).collect();
    let mut changed = true;
    while changed {
        changed = false;
        let anyone = externals.anyone().iter().any(|&it| found[it]);
        let arguments: BTreeSet<Option<u32>> =
            calls.values().flat_map(|it| it.taken.iter().copied()).collect();
        let taken: BTreeSet<Option<u32>> = arguments
            .into_iter()
            .filter(|&arguments| targets.taken_with(arguments).any(|it| found[it]))
            .collect();
        for body in targets.bodies().indices() {
            let it = &calls[body];
            let leads = || {
                it.forks
                    || (it.anyone && anyone)
                    || it.bodies.iter().any(|&it| found[it])
                    || !it.taken.is_disjoint(&taken)
            };
            if !found[body] && ran(body) && leads() {
                found[body] = true;
                changed = true;
            }
        }
    }
    let mut anywhere = externals.hooks(Class::Signal);
    anywhere.extend(externals.by_code_generation());
    if anywhere.into_iter().any(|it| found[it]) {
        return targets.bodies().indices().map(ran).collect();
    }
    found
}

fn calls_of(
    program: &Program<'_>,
    targets: &CallTargets<'_, '_>,
    externals: &Externals<'_, '_>,
    pointers: bool,
    object: Object,
    body: Body,
) -> Calls {
    let mut calls = Calls::default();
    let unit = program.unit(object).expect("bodies are of units");
    let function = targets.function(body);
    for (inst, data) in function.insts.iter() {
        let Some(call) = data.op.call() else { continue };
        let target = targets.target(object, function, inst, call);
        match &target {
            Target::Body(body) => drop(calls.bodies.insert(*body)),
            Target::Taken { arguments } => drop(calls.taken.insert(*arguments)),
            Target::Unseen(symbol) => {
                calls.forks |= may_fork(&program.external_name(object, *symbol));
            }
            Target::Native(_) => calls.forks = true,
            Target::Inline => {}
        }
        let traits = traits_of(unit, call);
        let Some(external) = externals.of_call(object, function, inst, &target, traits) else {
            continue;
        };
        let is_pointer = matches!(target, Target::Taken { .. });
        calls.forks |= is_pointer && (pointers || is_unknown(&external));
        match external.calls {
            CalledBack::These(these) => calls.bodies.extend(these),
            CalledBack::Anyone => calls.anyone = true,
        }
    }
    calls
}

/// Whether a function of a library may fork.
fn may_fork(name: &str) -> bool {
    !name.starts_with("llvm.") && outside::of(name).is_none_or(|row| row.forks || row.anything)
}

fn is_unknown(external: &External) -> bool {
    external.calls == CalledBack::Anyone && external.ends && external.leaves
}

/// Whether the address of a function that may fork is taken.
fn pointers_fork(program: &Program<'_>, targets: &CallTargets<'_, '_>) -> bool {
    program.units().any(|(object, unit)| {
        mentioned(unit).into_iter().any(|symbol| {
            matches!(unit.symbols[symbol].kind, SymbolKind::ExternalFunction(_))
                && match targets.of_symbol(object, symbol) {
                    Target::Unseen(symbol) => may_fork(&program.external_name(object, symbol)),
                    Target::Native(_) => true,
                    _ => false,
                }
        })
    })
}

#[cfg(test)]
mod tests {
    use backtrail_graph::Index;
    use backtrail_ir::{Unit, text};
    use backtrail_testkit::joined;

    use super::*;

    /// `main` calls `outer`, which calls `inner` through a pointer of one argument; that
    /// calls what is declared. `aside` calls nothing.
    fn unit(external: &str) -> Unit {
        text::parse(&format!(
            r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = function f1 "outer" internal
            s2 = function f2 "inner" internal
            s3 = function f3 "aside" internal
            s4 = declare "{external}" external
            function f0 s0 parameters 0 {{ b0: i0 = call s1 (s2) i1 = call s3 () i2 return (0) }}
            function f1 s1 parameters 1 {{ b0: i0 = call indirect (p0, 1) i1 return (0) }}
            function f2 s2 parameters 1 {{ b0: i0 = call s4 () i1 return (0) }}
            function f3 s3 parameters 0 {{ b0: i0 return (0) }}
            "#
        ))
        .unwrap()
    }

    fn under_way(unit: &Unit, ran: &[bool; 4]) -> Vec<bool> {
        let program = joined([unit]);
        let targets = CallTargets::new(&program);
        let externals = Externals::new(&program, &targets);
        let ran = |body: Body| ran[body.position()];
        under_way_at_forks(&program, &targets, &externals, ran).values().copied().collect()
    }

    #[test]
    fn chains_of_calls_that_ran_lead_to_forks() {
        let all = [true; 4];
        assert_eq!(under_way(&unit("fork"), &all), [true, true, true, false]);
        assert_eq!(under_way(&unit("getpid"), &all), [false; 4]);
        // What is not known may fork.
        assert_eq!(under_way(&unit("frobnicate"), &all), [true, true, true, false]);
        let without_inner = [true, true, false, true];
        assert_eq!(under_way(&unit("fork"), &without_inner), [false; 4]);
    }

    #[test]
    fn handlers_of_signals_come_anywhere() {
        let text = r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = function f1 "handler" internal
            s2 = function f2 "aside" internal
            s3 = declare "signal" external
            s4 = declare "fork" external
            function f0 s0 parameters 0 { b0: i0 = call s3 (10, s1) i1 = call s2 () i2 return (0) }
            function f1 s1 parameters 1 { b0: i0 = call s4 () i1 return () }
            function f2 s2 parameters 0 { b0: i0 return (0) }
        "#;
        let unit = text::parse(text).unwrap();
        assert_eq!(under_way(&unit, &[true, true, true, true]), [true; 3]);
        assert_eq!(under_way(&unit, &[true, false, true, true]), [false; 3]);
    }
}
