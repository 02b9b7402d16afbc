//! What a core tells, as the analysis of what can have run wants it.

use std::collections::BTreeMap;

use backtrail_crash::evidence::{Activation, Coverage, Evidence, Position, Stack, StackFrame};
use backtrail_crash::{Frame, Frames, Known, Recovered, Unread};
use backtrail_ir::Block;
use backtrail_machine::modules::Module;
use backtrail_machine::process::Process;
use backtrail_machine::unwind::{self, End};

use super::records::{Records, Recovery, Walk};

/// What the threads of a process tell about the functions of one of its modules, the
/// executable or a library.
pub fn gather(
    process: &Process,
    module: &Module,
    records: &mut Records<'_>,
    walks: &[Walk<'_>],
) -> Evidence {
    let mut evidence = Evidence::default();
    for walk in walks {
        evidence.threads.push(stack(records, walk, &module.path));
    }
    // A core that is cut off lacks memory, not threads: notes come first.
    evidence.threads_missing = walks.is_empty();
    if let Some(table) = records.table(&module.path).filter(|table| table.has_coverage()) {
        add_coverage(process, module, table, walks, &mut evidence);
    }
    evidence
}

fn add_coverage(
    process: &Process,
    module: &Module,
    table: &Frames,
    walks: &[Walk<'_>],
    evidence: &mut Evidence,
) {
    let memory = |at: u64, bytes: &mut [u8]| process.memory.read(at, bytes).is_ok();
    let registers: Vec<Vec<_>> = walks
        .iter()
        .map(|walk| {
            let frames = walk.backtrace.frames.iter();
            frames.map(|frame| |number| frame.registers.get(number)).collect()
        })
        .collect();
    let mut asked = BTreeMap::new();
    for (thread, walk) in walks.iter().enumerate() {
        let known = evidence.threads[thread].frames.len();
        for (place, frame) in walk.backtrace.frames.iter().enumerate().take(known) {
            let is_known = matches!(evidence.threads[thread].frames[place], StackFrame::Known(_));
            let Some(end) = frame.end.filter(|_| is_known) else { continue };
            asked.insert(
                (thread, place),
                Frame {
                    address: frame.instruction().wrapping_sub(module.bias),
                    is_call: !frame.interrupted,
                    frame_address: end,
                    register: &registers[thread][place],
                    memory: &memory,
                },
            );
        }
    }
    // What the file says now is not what it said then.
    let bytes = |at: u64, bytes: &mut [u8]| {
        let at = at.wrapping_add(module.bias);
        process.memory.is_dumped(at, bytes.len() as u64) && memory(at, bytes)
    };
    table.add_coverage(evidence, &asked, &bytes);
}

fn stack(records: &mut Records<'_>, walk: &Walk<'_>, module: &str) -> Stack {
    let mut stack = Stack { complete: walk.backtrace.end == End::Outermost, ..Stack::default() };
    for (frame, recovery) in walk.backtrace.frames.iter().zip(&walk.recoveries) {
        if frame.uncertain || (frame.remark.is_some() && frame.end.is_none()) {
            stack.complete = false;
            break;
        }
        let unreadable = recovery.as_ref().is_some_and(|it| {
            it.module == module
                && matches!(it.found, Err(Unread::NoModel(_) | Unread::Damaged { .. }))
        });
        stack.complete &= !unreadable;
        stack.frames.push(stack_frame(frame, recovery.as_ref(), module));
    }
    let Some(gap) = &walk.backtrace.gap else { return stack };
    for &address in gap.instructions.keys() {
        let Some(recovery) = records.at(address).filter(|it| it.module == module) else { continue };
        match recovery.found {
            Ok(found) => stack.folded.push(activation(&found, Position::SomeCall)),
            Err(Unread::NotOurs) => {}
            Err(_) => stack.complete = false,
        }
    }
    stack
}

fn stack_frame(frame: &unwind::Frame, recovery: Option<&Recovery>, module: &str) -> StackFrame {
    let Some(recovery) = recovery.filter(|it| it.module == module && !frame.signal) else {
        return StackFrame::Unseen;
    };
    let position = if frame.interrupted { Position::Within } else { Position::SomeCall };
    match &recovery.found {
        Ok(found) => StackFrame::Known(activation(found, position)),
        Err(_) => StackFrame::Unseen,
    }
}

/// What was recovered of an activation, as far as it is certain.
pub fn activation(found: &Recovered, position: Position) -> Activation {
    // A thread that was stopped between two blocks, in a probe, has been told of
    // by a guess.
    let guessed = found.known == Known::Inferred && position == Position::Within;
    let at = found.block.filter(|_| !guessed);
    let older = found.older.iter().rev().flat_map(|path| &path.blocks);
    let mut suffix: Vec<Block> = older.chain(&found.path).copied().collect();
    let is_sound = found.known != Known::No && found.note.is_none() && !guessed;
    let mut complete = is_sound && !found.truncated;
    if !is_sound || suffix.last().copied() != at {
        suffix = at.into_iter().collect();
        complete = false;
    }
    Activation {
        function: (found.unit, found.function),
        at,
        position,
        suffix,
        complete,
        coverage: Coverage::default(),
    }
}
