//! From a thread's registers to its frames.
//!
//! Each step goes from a frame to its caller, by the first of these that can:
//!
//! 1. *unwind tables*: exact. The full set of registers that calls preserve is
//!    carried along, so that variables can be read out of any frame;
//! 2. a return address on top of the stack, where the program jumped to what
//!    is no code: the call pushed it and nothing else happened since;
//! 3. *frame pointer*: the chain that `rbp` begins;
//! 4. *scan*: the next word on the stack that is behind a call instruction in
//!    code.
//!
//! A frame that was not found by tables says so, and so does every frame that
//! rests on one: it is *uncertain*. A return address that leads to no code was
//! overwritten; that is said of the frame whose it is.
//!
//! Invariants: the end of each frame is above the end of the one it called,
//! unless a signal came between and changed stacks, which may happen
//! `MOST_STACKS` times; so a walk ends. There is no recursion and nothing is
//! kept of frames that were left: a million of them take time alone (about
//! 0.2 µs each, where few functions take part).
//!
//! A return address is that of the instruction behind the call, and may belong
//! to another line or function. So what a frame was doing is looked up one byte
//! before, unless the frame was interrupted: the innermost, and those that a
//! signal interrupted. What a handler returns to was never called either.

mod apply;
mod guess;
pub(crate) mod tables;

use std::ops::ControlFlow;

use crate::process::Process;
use crate::registers::Registers;
use apply::{Stuck, apply};

/// How often a signal may have changed stacks.
const MOST_STACKS: usize = 64;

/// The most frames that are walked.
pub const MOST_FRAMES: usize = 8 << 20;

/// How a frame was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FoundBy {
    /// It is the innermost: its registers are in the core.
    Registers,
    /// By the unwind tables of the function it called.
    UnwindTables,
    /// By the frame pointer.
    FramePointer,
    /// By looking for a return address on the stack.
    Scan,
}

/// A function's activation; functions that were inlined into it have none of
/// their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// Its registers, as far as they are known.
    pub registers: Registers,
    /// Its end (the canonical frame address): the stack pointer before the
    /// call, if it is known.
    pub end: Option<u64>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Whether this frame, or one that led to it, was not found by tables.
    pub uncertain: bool,
    /// Whether it was interrupted, and not calling.
    pub interrupted: bool,
    /// Whether it is no function but what a signal handler returns to.
    pub signal: bool,
    /// What is odd about it.
    pub remark: Option<String>,
}

impl Frame {
    fn innermost(registers: Registers) -> Self {
        Self {
            registers,
            end: None,
            found_by: FoundBy::Registers,
            uncertain: false,
            interrupted: true,
            signal: false,
            remark: None,
        }
    }

    /// The program counter: of the next instruction to execute.
    pub fn program_counter(&self) -> u64 {
        self.registers.program_counter().unwrap_or(0)
    }

    /// An address of the instruction that was being executed, for what is
    /// looked up about it.
    pub fn instruction(&self) -> u64 {
        let called = !self.interrupted && !self.signal;
        self.program_counter().wrapping_sub(u64::from(called))
    }
}

/// Why there is no further frame.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum End {
    /// The last is the outermost: tables say that nothing called it.
    Outermost,
    /// No caller was found, for this reason.
    Lost(String),
    /// There are more than are walked.
    TooMany,
    /// The caller had enough.
    Left,
}

/// Walks the frames of a thread, innermost first.
pub fn walk(
    process: &Process,
    registers: &Registers,
    mut visit: impl FnMut(Frame) -> ControlFlow<()>,
) -> End {
    let mut frame = Frame::innermost(*registers);
    let mut floor = registers.stack_pointer();
    let mut stacks = 0;
    for _ in 0..MOST_FRAMES {
        let step = step(process, &mut frame, floor);
        let (signal, own_end) = (frame.signal, frame.end);
        let stack = frame.registers.stack_pointer();
        if visit(frame).is_break() {
            return End::Left;
        }
        frame = match step {
            Ok(Some(caller)) => caller,
            Ok(None) => return End::Outermost,
            Err(why) => return End::Lost(why),
        };
        let next = frame.registers.stack_pointer();
        floor = if signal { next } else { own_end.max(next) };
        if signal && next < stack {
            stacks += 1;
            if stacks > MOST_STACKS {
                return End::Lost("signals changed stacks too often to be true".to_owned());
            }
        }
    }
    End::TooMany
}

/// Completes a frame by its end, and finds its caller; nothing if it has none.
fn step(process: &Process, frame: &mut Frame, floor: Option<u64>) -> Result<Option<Frame>, String> {
    let address = frame.instruction();
    let module = process.modules.of(address);
    let tables = module.and_then(|it| Some((it, it.tables(&process.folders)?)));
    let rule = tables.and_then(|(it, tables)| tables.rule(address.wrapping_sub(it.bias)));
    let stuck = match rule {
        None => Stuck::NoTables,
        Some(rule) => {
            frame.signal = rule.signal;
            match apply(&rule, &frame.registers, &process.memory) {
                Ok((end, caller)) => {
                    frame.end = Some(end);
                    let Some(registers) = caller else { return Ok(None) };
                    let target = registers.program_counter().unwrap_or(0);
                    if !rule.signal && floor.is_some_and(|floor| end <= floor) {
                        Stuck::Circular
                    } else if target == 0 && !rule.signal {
                        return Err("its return address is 0: it is the outermost, or the stack \
                                    is damaged"
                            .to_owned());
                    } else if rule.signal || process.memory.is_executable(target) {
                        return Ok(Some(Frame {
                            registers,
                            end: None,
                            found_by: FoundBy::UnwindTables,
                            uncertain: frame.uncertain,
                            interrupted: rule.signal,
                            signal: false,
                            remark: None,
                        }));
                    } else {
                        Stuck::Overwritten { target, registers: Box::new(registers) }
                    }
                }
                Err((end, stuck)) => {
                    frame.end = end;
                    stuck
                }
            }
        }
    };
    guess::caller(process, frame, stuck, floor).map(Some)
}
