//! What a run did that is in no trace and no profile of it, as far as probes tell: code of
//! libraries without IR, and what ran behind calls that start programs, replace this one
//! or open libraries.
//!
//! A launcher does its work there, and what is told of it alone is little. Libraries are
//! those that the program asks for, directly or through others; of calls it is known that
//! the run came to them, not what became of them.

use std::collections::BTreeSet;

use backtrail_build::carry::Carried;
use backtrail_build::libraries::libraries_of;
use backtrail_foreign::say;
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Block, Func};
use backtrail_machine::tracee::is_everybodys;
use backtrail_outside as outside;
use backtrail_trace::unfollowed::{OutsideCall, calls_outside};

use crate::style::{counted, demangle};

/// How many calls are named.
const MOST_NAMED: usize = 3;

/// Whether a run came to a block.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Came {
    /// It did.
    Yes,
    /// It may have: a profile does not know all of a function that was not left.
    Maybe,
    /// It did not.
    No,
}

/// Tells it in a line, of the run of a program that came to some blocks.
pub fn tell(
    carried: &Carried,
    program: &Program<'_>,
    came_to: impl Fn(Object, Func, Block) -> Came,
) -> anyhow::Result<()> {
    let mut parts = Vec::new();
    let libraries = libraries_of(carried)?;
    let without = libraries.iter().filter(|it| it.carried.is_none() && !is_everybodys(&it.name));
    match without.count() {
        0 => {}
        count => parts
            .push(format!("{} without IR besides the C library", counted(count as u64, "library"))),
    }
    let goes_elsewhere = |callee: &str| {
        let row = outside::of(callee)?;
        (row.execs || row.spawns || row.loads).then_some(row.loads)
    };
    let calls: Vec<(OutsideCall, bool, Came)> = calls_outside(program, goes_elsewhere)
        .into_iter()
        .map(|(call, loads)| {
            let came = came_to(call.function.0, call.function.1, call.block);
            (call, loads, came)
        })
        .collect();
    for (opens, wanted, what) in [
        (false, Came::Yes, "what ran"),
        (false, Came::Maybe, "what may have run"),
        // What was opened may be a variant, which records by itself.
        (true, Came::Yes, "libraries without IR, if any, that were opened"),
        (true, Came::Maybe, "libraries without IR, if any, that may have been opened"),
    ] {
        let came = calls.iter().filter(|(_, loads, came)| (*loads, *came) == (opens, wanted));
        let names: BTreeSet<String> = came.map(|(call, ..)| name(call, program)).collect();
        if names.is_empty() {
            continue;
        }
        let by = if opens { "by" } else { "behind" };
        let calls = if names.len() == 1 { "the call of" } else { "calls of" };
        let more = names.len().saturating_sub(MOST_NAMED);
        let named: Vec<String> = names.into_iter().take(MOST_NAMED).collect();
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        parts.push(format!("{what} {by} {calls} {}{more}", named.join(", ")));
    }
    if !parts.is_empty() {
        say!("backtrail: not recorded: {}", parts.join(", and "));
    }
    Ok(())
}

/// `execvp in main (a.c:7)`
fn name(call: &OutsideCall, program: &Program<'_>) -> String {
    let (object, function) = call.function;
    let unit = program.unit(object).expect("calls are of units");
    let caller = demangle(&unit.symbols[unit.functions[function].symbol].name);
    let place = call.line.as_ref().map(|(file, line)| {
        let file = file.rsplit('/').next().unwrap_or(file);
        format!(" ({file}:{line})")
    });
    format!("{} in {caller}{}", call.callee, place.unwrap_or_default())
}
