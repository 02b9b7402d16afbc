//! Whether counts of different copies fit together: calls against entries.
//!
//! Copies may count different functions, and then there is no path that two of
//! them count. But a direct call enters its callee: the executions of the blocks
//! with such calls, which follow from one copy's counts, cannot exceed the
//! entries that another counted; and where nothing else can enter the callee,
//! they are as many. If not, the runs were not the same.
//!
//! Used are calls of functions with internal linkage, and calls of functions that
//! the executable itself defines, which nothing replaces. A function with
//! internal linkage is entered by its calls alone if its address is not taken.
//!
//! It holds for one process with one thread that ended by itself: others may
//! stop between a call and its callee's entry, and a fork counts the end of a
//! path whose calls its parent made.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::Index;
use backtrail_ir::{Callee, Func, Linkage, Sym, SymbolKind, Value};

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
    /// The calls of the functions of `skeleton`; its first module is the
    /// executable.
    pub(crate) fn new(skeleton: &Skeleton<'_>) -> Self {
        let mut places: BTreeMap<([u8; 16], Func), usize> = BTreeMap::new();
        let mut strong: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        for (place, source) in skeleton.sources.iter().enumerate() {
            // A unit that is in two modules has its functions twice.
            if places.insert((source.unit_id.0, source.function), place).is_some() {
                return Self::default();
            }
            let symbol = &source.unit.symbols[source.unit.functions[source.function].symbol];
            let is_in_executable = source.counters.as_ref().is_some_and(|it| it.0 == 0);
            if symbol.linkage == Linkage::External && is_in_executable {
                let known = strong.entry(&symbol.name).or_insert(Some(place));
                if *known != Some(place) {
                    *known = None;
                }
            }
        }
        let mut calls = Vec::new();
        let mut closed = BTreeSet::new();
        for (caller, source) in skeleton.sources.iter().enumerate() {
            let unit = source.unit;
            let find = |symbol: Sym| {
                let data = &unit.symbols[symbol];
                match (&data.kind, data.linkage) {
                    (SymbolKind::Function(function), Linkage::Internal) => {
                        places.get(&(source.unit_id.0, *function)).copied()
                    }
                    (SymbolKind::Function(_), Linkage::External)
                    | (SymbolKind::ExternalFunction(_), _)
                        if source.counters.as_ref().is_some_and(|it| it.0 == 0) =>
                    {
                        strong.get(&data.name[..]).copied().flatten()
                    }
                    _ => None,
                }
            };
            let body = &unit.functions[source.function];
            for (block, data) in body.blocks.iter() {
                for inst in data.insts() {
                    let Some(call) = body.insts[inst].op.call() else { continue };
                    if let Callee::Direct(symbol) = call.callee {
                        calls.extend(find(symbol).map(|it| (caller, block.position(), it)));
                    }
                }
            }
            let symbol = body.symbol;
            if unit.symbols[symbol].linkage == Linkage::Internal {
                closed.insert((source.unit_id.0, symbol, caller));
            }
        }
        let mut addressed: BTreeSet<([u8; 16], Sym)> = BTreeSet::new();
        let mut seen = BTreeSet::new();
        for source in &skeleton.sources {
            if seen.insert(source.unit_id.0) {
                let symbols = addressed_symbols(source.unit);
                addressed.extend(symbols.into_iter().map(|it| (source.unit_id.0, it)));
            }
        }
        let closed = closed.into_iter().filter(|(unit, it, _)| !addressed.contains(&(*unit, *it)));
        Self { calls, closed: closed.map(|(_, _, place)| place).collect() }
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

/// The symbols of a unit that are referred to in another way than by calling.
fn addressed_symbols(unit: &backtrail_ir::Unit) -> BTreeSet<Sym> {
    let mut found = BTreeSet::new();
    for body in unit.functions.values() {
        for operand in &body.operands {
            match operand {
                Value::Symbol(symbol, _) => found.extend([*symbol]),
                Value::Expr(symbols) => found.extend(symbols.iter().copied()),
                _ => {}
            }
        }
    }
    for symbol in unit.symbols.values() {
        match &symbol.kind {
            SymbolKind::Data { refers_to, .. } => found.extend(refers_to.iter().copied()),
            SymbolKind::Alias { target } => found.extend(*target),
            SymbolKind::IFunc { resolver } => found.extend(*resolver),
            _ => {}
        }
    }
    found
}
