//! Calls that may not come back to the activation that made them, although it is
//! over: because of `longjmp`, of an exception that passes through, or of the end
//! of a thread.
//!
//! A call of a function of the program may leave if its body has such a call. A
//! call of something that is not seen may, unless its name is that of a function
//! of the C library of which it is known that it returns or ends the process
//! ([`Behaviour`]). A call by address may if anything unseen is called at all, and
//! so may a function of the C library that calls what it is given.
//!
//! Some things happen anywhere: threads are cancelled, handlers of signals jump, and
//! in the child of a `fork` there is nothing left of the other threads. Where a
//! program mentions both handlers and jumps, or both threads and forks, activations
//! may end anywhere. A library that does this behind the program's back is not
//! thought of.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::{Behaviour, CallsBack};
use backtrail_graph::Index;
use backtrail_ir::{Callee, Func, Inst, Linkage, Sym, SymbolKind, Traits, Unit, Visibility};

use crate::points::{Leaving, is_call};

/// What jumps or ends a thread.
const JUMPS: [&str; 9] = [
    "longjmp",
    "_longjmp",
    "siglongjmp",
    "__longjmp_chk",
    "setcontext",
    "swapcontext",
    "pthread_exit",
    "thrd_exit",
    "pthread_cancel",
];

/// What installs a handler of signals.
const HANDLERS: [&str; 7] =
    ["signal", "sigaction", "bsd_signal", "sysv_signal", "__sysv_signal", "sigset", "sigvec"];

/// What makes a process of one thread, and what makes a thread.
const FORKS: [&str; 5] = ["fork", "__fork", "_Fork", "daemon", "forkpty"];
const THREADS: [&str; 2] = ["pthread_create", "thrd_create"];

/// What is known of a module.
#[derive(Debug, Clone)]
pub struct LeavingCalls {
    everywhere: bool,
    /// By unit and function, the calls that may leave.
    calls: Vec<Vec<BTreeSet<Inst>>>,
}

impl LeavingCalls {
    /// Looks through the units of a module. Those of an executable are called by
    /// their own names only; of a library's functions any can be replaced.
    pub fn new(units: &[&Unit], is_executable: bool) -> Self {
        let module = Module::new(units, is_executable);
        let mentions = |names: &[&str]| {
            let mut symbols = units.iter().flat_map(|unit| unit.symbols.values());
            symbols.any(|it| names.contains(&&it.name[..]))
        };
        let everywhere = mentions(&["pthread_cancel"])
            || mentions(&JUMPS) && mentions(&HANDLERS)
            || mentions(&FORKS) && mentions(&THREADS);
        let mut leaves: Vec<Vec<bool>> =
            units.iter().map(|unit| vec![false; unit.functions.len()]).collect();
        let mut changed = true;
        while changed {
            changed = false;
            for (number, unit) in units.iter().enumerate() {
                for (function, body) in unit.functions.iter() {
                    if leaves[number][function.position()] {
                        continue;
                    }
                    let mut calls = body.insts.values().filter(|it| is_call(&it.op));
                    if calls.any(|it| module.may_leave(number, it.op.call(), &leaves)) {
                        leaves[number][function.position()] = true;
                        changed = true;
                    }
                }
            }
        }
        let calls_of = |(number, unit): (usize, &&Unit)| -> Vec<BTreeSet<Inst>> {
            let of_body = |body: &backtrail_ir::Function| {
                let calls = body.insts.iter().filter(|(_, it)| is_call(&it.op));
                let leaving =
                    calls.filter(|(_, it)| module.may_leave(number, it.op.call(), &leaves));
                leaving.map(|(inst, _)| inst).collect()
            };
            unit.functions.values().map(of_body).collect()
        };
        Self { everywhere, calls: units.iter().enumerate().map(calls_of).collect() }
    }

    /// Where activations of a function of the unit at this place may end.
    pub fn of(&self, unit: usize, function: Func) -> Leaving<'_> {
        match self.everywhere {
            true => Leaving::Everywhere,
            false => Leaving::Calls(&self.calls[unit][function.position()]),
        }
    }
}

struct Module<'a> {
    units: &'a [&'a Unit],
    is_executable: bool,
    /// The functions that a name may mean, outside of its unit.
    bodies: BTreeMap<&'a str, Vec<(usize, Func)>>,
    /// Whether something is called of which nothing is known.
    has_unseen: bool,
}

impl<'a> Module<'a> {
    fn new(units: &'a [&'a Unit], is_executable: bool) -> Self {
        let mut bodies: BTreeMap<&str, Vec<(usize, Func)>> = BTreeMap::new();
        for (number, unit) in units.iter().enumerate() {
            for (symbol, data) in unit.symbols.iter() {
                let is_own = data.linkage == Linkage::Internal;
                if let Some(function) = body_of(unit, symbol).filter(|_| !is_own) {
                    bodies.entry(&data.name).or_default().push((number, function));
                }
            }
        }
        let mut module = Self { units, is_executable, bodies, has_unseen: !is_executable };
        let mut symbols = units.iter().flat_map(|unit| unit.symbols.values());
        module.has_unseen |= symbols.any(|it| {
            matches!(it.kind, SymbolKind::ExternalFunction(_) | SymbolKind::IFunc { .. })
                && !module.bodies.contains_key(&it.name[..])
                && !it.name.starts_with("llvm.")
                && Unseen::of(&it.name) == Unseen::Leaves
        });
        module
    }

    fn may_leave(
        &self,
        unit: usize,
        call: Option<&backtrail_ir::CallData>,
        leaves: &[Vec<bool>],
    ) -> bool {
        let Some(Callee::Direct(symbol)) = call.map(|call| &call.callee) else {
            return self.has_unseen;
        };
        let data = &self.units[unit].symbols[*symbol];
        let is_left = |&(unit, function): &(usize, Func)| leaves[unit][function.position()];
        let own = body_of(self.units[unit], *symbol);
        if let (Linkage::Internal, Some(function)) = (data.linkage, own) {
            return is_left(&(unit, function));
        }
        let is_fixed = self.is_executable || data.visibility != Visibility::Default;
        // Another definition may take the place of a weak one.
        let is_only = data.linkage != Linkage::Weak;
        match self.bodies.get(&data.name[..]) {
            Some(bodies) if is_fixed && is_only => bodies.iter().any(is_left),
            Some(_) => true,
            None => match Unseen::of(&data.name) {
                Unseen::Stays => false,
                Unseen::CallsBack => self.has_unseen,
                Unseen::Leaves => true,
            },
        }
    }
}

/// What a call of something that is not seen may do to the activation that made it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unseen {
    /// It returns, or the process ends.
    Stays,
    /// What it calls decides.
    CallsBack,
    /// It may leave.
    Leaves,
}

impl Unseen {
    fn of(name: &str) -> Self {
        let behaviour = Behaviour::of(name, Traits::default());
        // A handler that jumps is one that may jump anywhere; see above.
        if !behaviour.leaves || Behaviour::may_signal(name) {
            return Self::Stays;
        }
        match behaviour.calls_back {
            CallsBack::Arguments => Self::CallsBack,
            CallsBack::Nobody | CallsBack::Anyone => Self::Leaves,
        }
    }
}

/// The function that a symbol of a unit is or stands for.
fn body_of(unit: &Unit, symbol: Sym) -> Option<Func> {
    let mut here = symbol;
    // An alias of an alias, and so on, but not round and round.
    for _ in 0..8 {
        match &unit.symbols[here].kind {
            SymbolKind::Function(function) => return Some(*function),
            SymbolKind::Alias { target: Some(target) } => here = *target,
            _ => return None,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Functions that each make one call, and `main` that calls them all.
    fn unit(extra: &str) -> Unit {
        let text = format!(
            r#"
            unit "a.c"
            s0 = function f0 "main" external
            s1 = function f1 "quiet" internal
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
    fn leaving(unit: &Unit, is_executable: bool) -> Option<Vec<usize>> {
        match LeavingCalls::new(&[unit], is_executable).of(0, Func::new(0)) {
            Leaving::Everywhere => None,
            Leaving::Calls(calls) => Some(calls.iter().map(|it| it.position()).collect()),
        }
    }

    #[test]
    fn what_is_not_seen_may_leave_and_the_c_library_returns() {
        assert_eq!(leaving(&unit("printf"), true), Some(vec![]));
        // Then so may what is called by address.
        assert_eq!(leaving(&unit("longjmp"), true), Some(vec![1, 2, 3]));
        assert_eq!(leaving(&unit("something"), true), Some(vec![1, 2, 3]));
        // Whoever uses a library may give it any address.
        assert_eq!(leaving(&unit("printf"), false), Some(vec![2, 3]));
    }

    #[test]
    fn some_things_happen_anywhere() {
        assert_eq!(leaving(&unit("pthread_cancel"), true), None);
        let both = [unit("siglongjmp"), unit("sigaction")];
        let of_both = LeavingCalls::new(&[&both[0], &both[1]], true);
        assert!(matches!(of_both.of(1, Func::new(1)), Leaving::Everywhere));
        let both = [unit("fork"), unit("pthread_create")];
        let of_both = LeavingCalls::new(&[&both[0], &both[1]], true);
        assert!(matches!(of_both.of(0, Func::new(1)), Leaving::Everywhere));
    }
}
