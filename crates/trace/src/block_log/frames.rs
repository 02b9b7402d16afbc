//! Calls and returns, worked out from a log of blocks.
//!
//! A log says nothing of them. A function's first block, to which no edge leads,
//! begins an activation; any other block goes on with the innermost activation
//! that can go on with it, and those above have ended. Before an activation
//! begins, those at the top end that have left their function and cannot have
//! called it. Where a function's last block also calls unseen code, what follows
//! may be shown as called by it.

use std::collections::{BTreeMap, HashMap, HashSet};

use backtrail_abi::UnitId;
use backtrail_graph::Index;
use backtrail_ir::{Callee, Func, Function, Op, SymbolKind, Unit};

use super::Step;
use crate::file;

/// The activations of a thread, as blocks are logged.
pub struct LogFrames<'a> {
    units: BTreeMap<UnitId, &'a Unit>,
    /// The names of functions that are in a unit.
    seen: HashSet<&'a str>,
    stack: Vec<Step>,
    /// Whether an activation at this step may have called this function.
    may_call: HashMap<(Step, UnitId, Func), bool>,
}

impl<'a> LogFrames<'a> {
    /// No activation yet, of a program of these units.
    pub fn new(units: impl IntoIterator<Item = (UnitId, &'a Unit)>) -> Self {
        let units: BTreeMap<UnitId, &'a Unit> = units.into_iter().collect();
        let defined = |unit: &&'a Unit| {
            let unit = *unit;
            unit.functions.values().map(|it| unit.symbols[it.symbol].name.as_str())
        };
        let seen = units.values().flat_map(defined).collect();
        Self { units, seen, stack: Vec::new(), may_call: HashMap::new() }
    }

    /// Forgets all activations: another thread follows.
    pub fn clear(&mut self) {
        self.stack.clear();
    }

    fn body(&self, step: &Step) -> Option<(&'a Unit, &'a Function)> {
        let unit = *self.units.get(&step.unit)?;
        Some((unit, unit.functions.get(step.func)?))
    }

    /// The step at `place` that a logged block is.
    pub fn go(&mut self, step: Step, place: u32) -> file::Step {
        let enters = step.block.position() == 0;
        if enters {
            while let Some(&top) = self.stack.last() {
                let key = (top, step.unit, step.func);
                let known = self.may_call.get(&key).copied();
                let may_call = known.unwrap_or_else(|| !self.has_returned(&top, &step));
                if known.is_none() {
                    self.may_call.insert(key, may_call);
                }
                if may_call {
                    break;
                }
                self.stack.pop();
            }
            self.stack.push(step);
        } else {
            let found = self.stack.iter().rposition(|it| self.leads_to(it, &step));
            // A block of an activation that began elsewhere, by a fork or behind
            // a jump: the innermost of its function, or a new one.
            let same = |it: &Step| (it.unit, it.func) == (step.unit, step.func);
            match found.or_else(|| self.stack.iter().rposition(same)) {
                Some(at) => {
                    self.stack.truncate(at + 1);
                    self.stack[at] = step;
                }
                None => {
                    self.stack.push(step);
                    return file::Step { place, depth: self.stack.len() as u32, enters: true };
                }
            }
        }
        file::Step { place, depth: self.stack.len() as u32, enters }
    }

    fn leads_to(&self, from: &Step, to: &Step) -> bool {
        (from.unit, from.func) == (to.unit, to.func)
            && self.body(from).is_some_and(|(_, function)| {
                function.blocks[from.block].successors.contains(&to.block)
            })
    }

    /// Whether the activation at `top` has returned before `callee` was called.
    fn has_returned(&self, top: &Step, callee: &Step) -> bool {
        let (Some((unit, function)), Some((other, called))) = (self.body(top), self.body(callee))
        else {
            return false;
        };
        let block = &function.blocks[top.block];
        let name = &other.symbols[called.symbol].name;
        if !block.successors.is_empty() {
            return false;
        }
        let may_call = |op: &Op| match op.call().map(|call| &call.callee) {
            None | Some(Callee::Intrinsic(_)) => false,
            Some(Callee::Indirect | Callee::Asm) => true,
            Some(Callee::Direct(symbol)) => {
                let symbol = &unit.symbols[*symbol];
                let is_seen = matches!(symbol.kind, SymbolKind::Function(_))
                    || self.seen.contains(symbol.name.as_str());
                symbol.name == *name || !is_seen
            }
        };
        !block.insts().any(|inst| may_call(&function.insts[inst].op))
    }
}
