//! Calls that may not come back to the activation that made them, although it is
//! over: because of `longjmp`, of an exception that passes through, or of the end
//! of a thread.
//!
//! A call of a function of the program may leave if its body has such a call. A
//! call of something that is not seen may, unless its name is that of a function
//! of the C library of which it is known that it returns or ends the process
//! ([`RETURNING`]). A call by address may if anything unseen is called at all, and
//! so may a function of the C library that calls back ([`CALLING_BACK`]).
//!
//! Two things are everywhere, as they come with a signal: threads that are
//! cancelled, and handlers that jump. Where a program mentions both handlers and
//! jumps, activations may end anywhere. A library that does this behind the
//! program's back is not thought of.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::Index;
use backtrail_ir::{Callee, Func, Inst, Linkage, Sym, SymbolKind, Unit, Visibility};

use crate::points::{Leaving, is_call};

mod known;

pub use known::{CALLING_BACK, RETURNING};

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
        let everywhere = mentions(&["pthread_cancel"]) || mentions(&JUMPS) && mentions(&HANDLERS);
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
                && !is_known(&it.name)
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
            None if CALLING_BACK.binary_search(&&data.name[..]).is_ok() => self.has_unseen,
            None => RETURNING.binary_search(&&data.name[..]).is_err(),
        }
    }
}

fn is_known(name: &str) -> bool {
    RETURNING.binary_search(&name).is_ok() || CALLING_BACK.binary_search(&name).is_ok()
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
