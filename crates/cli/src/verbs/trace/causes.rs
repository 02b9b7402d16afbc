//! Why a run does not fit together, where the program did what a trace from witnesses
//! cannot follow ([`backtrail_trace::unfollowed`]).

use std::collections::BTreeSet;
use std::fmt::Display;

use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Block, Func};
use backtrail_trace::unfollowed::{Unfollowed, Why, unfollowed};

use crate::style::demangle;

/// The calls of a program that may be causes, and which of them a run has come to.
pub struct Causes {
    calls: Vec<Unfollowed>,
    came: BTreeSet<usize>,
}

impl Causes {
    /// The calls of a program; the run has come to none, but for those of which it would
    /// not tell.
    pub fn of(program: &Program<'_>) -> Self {
        let calls = unfollowed(program);
        let unseen = calls.iter().enumerate().filter(|(_, it)| !it.is_seen);
        Self { came: unseen.map(|(number, _)| number).collect(), calls }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.calls.is_empty()
    }

    /// Whether a block makes such a call.
    pub fn calls_in(&self, function: (Object, Func), block: Block) -> bool {
        self.calls.iter().any(|it| it.function == function && it.block == block)
    }

    /// Notes that the run came to a function, or to a block of it.
    pub fn note(&mut self, function: (Object, Func), block: Option<Block>) {
        let is_there = |it: &Unfollowed| {
            it.function == function && block.is_none_or(|block| it.block == block)
        };
        let calls = self.calls.iter().enumerate();
        self.came.extend(calls.filter(|(_, it)| is_there(it)).map(|(number, _)| number));
    }

    /// What the run came to, in words: of each kind, the first.
    pub fn told(&self, program: &Program<'_>) -> Option<String> {
        tell(self.came.iter().map(|&number| &self.calls[number]), program)
    }
}

/// What a program may do that a trace from witnesses cannot follow, in words.
pub fn foreseen(program: &Program<'_>) -> Option<String> {
    tell(unfollowed(program).iter(), program)
}

fn tell<'a>(calls: impl Iterator<Item = &'a Unfollowed>, program: &Program<'_>) -> Option<String> {
    let mut kinds = BTreeSet::new();
    let firsts: Vec<String> = calls
        .filter(|call| kinds.insert(call.why))
        .map(|call| {
            let (object, func) = call.function;
            let unit = program.unit(object).expect("calls are of units");
            let name = demangle(&unit.symbols[unit.functions[func].symbol].name);
            let line = call.line.as_ref().map(|(file, line)| {
                let file = file.rsplit('/').next().unwrap_or(file);
                format!(" ({file}:{line})")
            });
            let place = format!("{name}{}", line.unwrap_or_default());
            match call.why {
                Why::Inserted => sentence("code generation", &place, call.why),
                why => sentence(&place, &call.callee, why),
            }
        })
        .collect();
    (!firsts.is_empty()).then(|| firsts.join("; "))
}

/// Who calls what, and what that means.
pub fn sentence(caller: &str, callee: &str, why: impl Display) -> String {
    format!("{caller} calls {callee}, which {why}")
}
