//! Calls behind which a trace from witnesses may not follow a run.
//!
//! A trace from witnesses has one stack of frames for each thread, which only grows and
//! shrinks, and a thread's log ends where the thread or the run does. There are functions
//! with which a program can leave that: it goes on in another stack, ends a thread
//! anywhere, replaces what runs while other threads are on their way, or runs two flows
//! in one memory. Such a program may still be traced, where it does not make use of that.
//! So these calls decide nothing by themselves; where a run does not fit together and has
//! come to one, it is the reason to name.
//!
//! Nor does a trace follow calls that code generation inserts where functions begin and
//! end, which the IR does not show (`-finstrument-functions-after-inlining`, `-pg`), if
//! what they call is the program's own.

use std::fmt;

use backtrail_graph::Index;
use backtrail_ir::program::{Object, Program, Resolution};
use backtrail_ir::{Block, Callee, Func, Linkage, Loc, Unit};
use backtrail_outside::{self as outside, Class};

/// Why a trace from witnesses may not follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Why {
    /// Another stack is gone on with.
    Stacks,
    /// What begins shares memory, and is no thread of the C library.
    Memory,
    /// A thread may be cancelled at any instruction.
    Cancelled,
    /// The program is replaced, with threads that are on their way.
    Replaced,
    /// A handler of a signal may run at any instruction.
    Interrupted,
    /// It is called where functions begin or end, by nothing that is in the IR.
    Inserted,
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Stacks => "goes on with another stack",
            Self::Memory => "begins what shares memory and is no thread of the C library",
            Self::Cancelled => "lets a thread be cancelled at any instruction",
            Self::Replaced => "replaces the program while its other threads are on their way",
            Self::Interrupted => "lets a handler of a signal run at any instruction",
            Self::Inserted => "may run wherever functions begin or end",
        })
    }
}

impl Why {
    /// What a call of the function outside of this name means to probes, and to
    /// breakpoints that the tracer takes.
    pub fn of(callee: &str) -> Option<Self> {
        let row = outside::of(callee)?;
        let all = [
            (row.switches_stacks, Self::Stacks),
            (row.shares_memory, Self::Memory),
            (row.allows_cancelling, Self::Cancelled),
            (row.execs && row.ends, Self::Replaced),
        ];
        all.into_iter().find_map(|(is_it, why)| is_it.then_some(why))
    }

    /// The same to a handler within the program, which does not see signals.
    pub fn within(callee: &str) -> Option<Self> {
        let installs =
            |row: &&outside::Function| row.installs.iter().any(|it| it.class == Class::Signal);
        let interrupted = || outside::of(callee).filter(installs).map(|_| Self::Interrupted);
        Self::of(callee).or_else(interrupted)
    }
}

/// A call of a function that is not the program's own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OutsideCall {
    /// The function that calls.
    pub function: (Object, Func),
    /// The block of the call.
    pub block: Block,
    /// Where that is in the source, if it is known.
    pub line: Option<(String, u32)>,
    /// Who is called.
    pub callee: String,
}

/// A call of such a function, or a function whose calls are inserted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unfollowed {
    /// The function that calls, or that is called.
    pub function: (Object, Func),
    /// The block of the call, or the first.
    pub block: Block,
    /// Where that is in the source, if it is known.
    pub line: Option<(String, u32)>,
    /// Who is called.
    pub callee: String,
    /// What that means.
    pub why: Why,
    /// Whether a run tells that it came there: nothing can be put into a naked function.
    pub is_seen: bool,
}

/// All such calls of a program, in the order of its code.
pub fn unfollowed(program: &Program<'_>) -> Vec<Unfollowed> {
    let mut starts_threads = false;
    let calls = calls_outside(program, |callee| {
        starts_threads |= outside::of(callee).is_some_and(|row| row.starts_threads);
        Why::of(callee)
    });
    let unfollowed = calls.into_iter().map(|(call, why)| {
        let OutsideCall { function, block, line, callee } = call;
        Unfollowed { function, block, line, callee, why, is_seen: true }
    });
    let mut found: Vec<_> =
        unfollowed.filter(|it| it.why != Why::Replaced || starts_threads).collect();
    found.extend(inserted(program));
    found.sort_by_key(|it| (it.function, it.block));
    found
}

/// The functions whose calls code generation inserts.
fn inserted(program: &Program<'_>) -> Vec<Unfollowed> {
    let mut found = Vec::new();
    for (object, unit) in program.units() {
        for (func, function) in unit.functions.iter() {
            let symbol = &unit.symbols[function.symbol];
            let mut names = program.names(object, func);
            let is_inserted =
                |name: &str| outside::of(name).is_some_and(|it| it.inserted && it.returns);
            if symbol.linkage != Linkage::Internal && names.any(is_inserted) {
                found.push(Unfollowed {
                    function: (object, func),
                    block: function.entry(),
                    line: function.insts.values().find_map(|inst| line_of(unit, inst.location)),
                    callee: symbol.name.clone(),
                    why: Why::Inserted,
                    is_seen: !function.traits.naked,
                });
            }
        }
    }
    found
}

fn line_of(unit: &Unit, at: Option<Loc>) -> Option<(String, u32)> {
    let at = unit.locations.get(at?)?;
    Some((unit.files[at.file].clone(), at.line))
}

/// The calls of functions that are not the program's own and of which `of` says something
/// by their names, in the order of its code.
pub fn calls_outside<T>(
    program: &Program<'_>,
    mut of: impl FnMut(&str) -> Option<T>,
) -> Vec<(OutsideCall, T)> {
    let mut found = Vec::new();
    for (object, unit) in program.units() {
        for (func, function) in unit.functions.iter() {
            for (block, data) in function.blocks.iter() {
                for inst in data.first..data.end {
                    let inst = &function.insts[Index::new(inst as usize)];
                    let Some(call) = inst.op.call() else { continue };
                    let Callee::Direct(symbol) = call.callee else { continue };
                    if let Some(Resolution::Function(..)) = program.callee(object, call) {
                        continue;
                    }
                    let callee = program.external_name(object, symbol);
                    let Some(said) = of(&callee) else { continue };
                    let callee = callee.into_owned();
                    let line = line_of(unit, inst.location);
                    let function = (object, func);
                    found.push((OutsideCall { function, block, line, callee }, said));
                }
            }
        }
    }
    found
}
