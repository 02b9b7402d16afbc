//! Finding a caller where unwind tables do not lead to one.
//!
//! What is found here may be wrong, and is labelled. A frame pointer counts if
//! it points into the same stack, further out, and to a return address. A word
//! on the stack counts if it is a return address: behind a call instruction,
//! in a mapping that could be executed, and covered by unwind tables where the
//! file has some. Where the code itself is not there, the mapping has to do.

use super::apply::Stuck;
use super::{FoundBy, Frame};
use crate::call_site::{LONGEST, ends_with_call};
use crate::process::Process;
use crate::registers::{RBP, RIP, RSP, Registers};

/// How far a return address is looked for.
const FARTHEST: u64 = 256 << 10;
/// How far below its mapping a stack pointer may be: programs that overflow
/// their stack leave it behind by a frame.
const GAP: u64 = 1 << 20;

/// The caller of a frame, guessed; or why there is none. A remark is left at
/// the frame.
pub(super) fn caller(
    process: &Process,
    frame: &mut Frame,
    stuck: Stuck,
    floor: Option<u64>,
) -> Result<Frame, String> {
    let address = frame.program_counter();
    let mut registers = frame.registers;
    let mut from = frame.registers.stack_pointer();
    let mut why = match stuck {
        Stuck::NoTables if !process.memory.is_executable(address) => {
            frame.remark = Some(wild(process, address));
            if frame.interrupted
                && let Some(caller) = on_top(process, frame)
            {
                return Ok(caller);
            }
            "what called it is not known".to_owned()
        }
        Stuck::NoTables => no_tables(process, frame.instruction()),
        Stuck::Unknown(what) => what.to_owned(),
        Stuck::Absent(place, absent) => {
            format!("its return address, at {place:#x}, is not known: {absent}")
        }
        Stuck::Overwritten { target, registers: callers } => {
            registers = *callers;
            from = frame.end;
            if process.memory.complete {
                format!("its return address was overwritten: {target:#x} is no code")
            } else {
                format!(
                    "its return address is {target:#x}, and the core does not tell what is there"
                )
            }
        }
        Stuck::Circular => "its frame would end within the frame that it called".to_owned(),
    };
    if frame.remark.is_none() {
        frame.remark = Some(why.clone());
    }
    let least = from.max(floor);
    let found = by_frame_pointer(process, &registers, least)
        .or_else(|| by_scan(process, &registers, least));
    if let Some((registers, found_by)) = found {
        return Ok(Frame {
            registers,
            end: None,
            found_by,
            uncertain: true,
            interrupted: false,
            signal: false,
            remark: None,
        });
    }
    why.push_str(", and neither the frame pointer nor the stack leads on");
    Err(why)
}

/// What is odd about a program counter outside of code.
fn wild(process: &Process, address: u64) -> String {
    let what = match process.memory.segment(address) {
        Some(_) => "memory that is not code",
        None => "what is not mapped",
    };
    format!("the program jumped to {address:#x}: {what}")
}

fn no_tables(process: &Process, address: u64) -> String {
    match process.modules.of(address) {
        Some(module) if module.image.is_none() => {
            let name = module.path.rsplit('/').next().unwrap_or_default();
            format!("the unwind tables of {name} are not there")
        }
        Some(_) => "there is no unwind table for this address".to_owned(),
        None => "the code is of no file, and has no unwind table".to_owned(),
    }
}

/// The return address that a call through a bad pointer has just pushed.
fn on_top(process: &Process, frame: &Frame) -> Option<Frame> {
    let stack = frame.registers.stack_pointer()?;
    let target = process.memory.word(stack).ok()?;
    if !is_return_address(process, target) {
        return None;
    }
    let mut registers = frame.registers.after_call();
    registers.set(RSP, Some(stack.wrapping_add(8)));
    registers.set(RIP, Some(target));
    Some(Frame {
        registers,
        end: None,
        found_by: FoundBy::Scan,
        uncertain: true,
        interrupted: false,
        signal: false,
        remark: None,
    })
}

fn by_frame_pointer(
    process: &Process,
    registers: &Registers,
    least: Option<u64>,
) -> Option<(Registers, FoundBy)> {
    let pointer = registers.get(RBP)?;
    let low = least?;
    let stack = stack_segment(process, low)?;
    if pointer % 8 != 0 || pointer < low || !stack.contains(pointer) {
        return None;
    }
    let target = process.memory.word(pointer.checked_add(8)?).ok()?;
    if !is_return_address(process, target) {
        return None;
    }
    let mut caller = Registers::default();
    caller.set(RBP, process.memory.word(pointer).ok());
    caller.set(RSP, pointer.checked_add(16));
    caller.set(RIP, Some(target));
    Some((caller, FoundBy::FramePointer))
}

fn by_scan(
    process: &Process,
    registers: &Registers,
    least: Option<u64>,
) -> Option<(Registers, FoundBy)> {
    let low = least?;
    let stack = stack_segment(process, low)?;
    let start = low.max(stack.start).checked_next_multiple_of(8)?;
    let end = stack.end().min(start.saturating_add(FARTHEST));
    let mut place = start;
    while place < end {
        let word = process.memory.word(place).ok()?;
        if is_return_address(process, word) {
            let mut caller = Registers::default();
            caller.set(RSP, Some(place + 8));
            caller.set(RIP, Some(word));
            // A function with a frame pointer has pushed its caller's just
            // below; one without has left it alone.
            let pushed = place.checked_sub(8).and_then(|below| process.memory.word(below).ok());
            let plausible = |&pointer: &u64| pointer > place && stack.contains(pointer);
            let kept = registers.get(RBP).filter(plausible);
            caller.set(RBP, pushed.filter(plausible).or(kept));
            return Some((caller, FoundBy::Scan));
        }
        place += 8;
    }
    None
}

/// The stack that a stack pointer belongs to, or is just below.
fn stack_segment(process: &Process, pointer: u64) -> Option<crate::core_file::Segment> {
    if let Some(segment) = process.memory.segment(pointer).filter(|it| it.writable) {
        return Some(*segment);
    }
    let segments = process.memory.segments();
    let behind = segments.partition_point(|segment| segment.start <= pointer);
    let next = segments.get(behind)?;
    (next.writable && next.start - pointer <= GAP).then_some(*next)
}

fn is_return_address(process: &Process, address: u64) -> bool {
    if !process.memory.is_executable(address) {
        return false;
    }
    let mut before = [0; LONGEST];
    let start = address.wrapping_sub(LONGEST as u64);
    if process.memory.read(start, &mut before).is_ok() && !ends_with_call(&before) {
        return false;
    }
    let Some(module) = process.modules.of(address) else { return true };
    let tables = module.tables(&process.folders);
    tables.is_none_or(|tables| {
        tables.rule(address.wrapping_sub(1).wrapping_sub(module.bias)).is_some()
    })
}
