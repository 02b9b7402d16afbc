//! Breakpoints at many places, one stop for each hit.
//!
//! At a stop the program counter says which breakpoint it was, and is set to the
//! slot where the displaced instruction is run (`displaced`); then the
//! program goes on. Breakpoints stay where they are.
//!
//! Where frames were left and one resumes, and where the program ends, the stack is
//! unwound: these are the *landings* and the end.

use std::collections::HashMap;

use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitStatus;

use super::children::{self, Change};
use super::frames::Frames;
use super::scratch::SLOT;
use super::{Ended, Tracee, displaced, sys};
use crate::Error;
use crate::code::Code;

/// Places to stop at.
pub struct Breakpoints<'a> {
    /// The code they are in.
    pub code: &'a Code,
    /// Their blocks, in any order, none twice: a stop is named by its number here.
    pub blocks: &'a [usize],
    /// By number: whether frames are wanted there.
    pub is_landing: &'a [bool],
}

/// A stop, or the end.
#[derive(Debug)]
pub enum Stop<'a> {
    /// At the breakpoint of this number.
    At(usize),
    /// At a landing: its number, and where the frames are, innermost first, by the
    /// addresses of the file. Frames elsewhere are left out.
    Landing(usize, &'a [u64]),
    /// The program is about to end; frames as above, as far as it called.
    Ending(&'a [u64]),
}

/// How a run went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// How many stops there were.
    pub stops: u64,
}

const NONE: u32 = u32::MAX;

impl Breakpoints<'_> {
    /// Runs the program to its end and gives each stop to `visit`.
    pub fn run(
        &self,
        tracee: &mut Tracee,
        mut visit: impl FnMut(Stop<'_>) -> Result<(), Error>,
    ) -> Result<Ran, Error> {
        let placed = self.place(tracee)?;
        let mut frames = Frames::new();
        let mut deliver = None;
        let mut stops = 0;
        loop {
            ptrace::cont(tracee.pid, deliver.take()).map_err(|error| tracee.failed(error))?;
            match tracee.wait()? {
                WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                    let counter = sys::program_counter(tracee.pid);
                    let counter = counter.map_err(|error| tracee.failed(error))?;
                    let Some(number) = placed.number(counter.wrapping_sub(1)) else {
                        deliver = Some(Signal::SIGTRAP);
                        continue;
                    };
                    stops += 1;
                    if self.is_landing[number] {
                        let mut registers = tracee.registers()?;
                        registers.rip = counter - 1;
                        let found = frames.of(tracee, &registers)?;
                        visit(Stop::Landing(number, found))?;
                    } else {
                        visit(Stop::At(number))?;
                    }
                    sys::set_program_counter(tracee.pid, placed.slots[number])
                        .map_err(|error| tracee.failed(error))?;
                }
                WaitStatus::Stopped(_, signal) => deliver = Some(signal),
                WaitStatus::Exited(_, status) => {
                    tracee.is_gone = true;
                    return Ok(Ran { ended: Ended::Exited(status), stops });
                }
                WaitStatus::Signaled(_, signal, _) => {
                    tracee.is_gone = true;
                    return Ok(Ran { ended: Ended::Killed(signal as i32), stops });
                }
                WaitStatus::PtraceEvent(_, _, event) => {
                    match children::on_event(tracee, event, &placed.bytes)? {
                        Change::None => {}
                        Change::Replaced => return Ok(Ran { ended: Ended::Replaced, stops }),
                        Change::Ending => {
                            let registers = tracee.registers()?;
                            let found = frames.of(tracee, &registers)?;
                            visit(Stop::Ending(found))?;
                        }
                    }
                }
                _ => {}
            }
        }
    }

    /// Writes slots and breakpoints.
    pub(super) fn place(&self, tracee: &Tracee) -> Result<Placed, Error> {
        let (Some(first), Some(last)) = (self.code.blocks.first(), self.code.blocks.last()) else {
            return Err(tracee.wrong("it has no code"));
        };
        let start = first.start.wrapping_add(tracee.bias);
        let end = last.end.wrapping_add(tracee.bias);
        let at = tracee.scratch;
        let mut placed = Placed {
            start,
            numbers: vec![NONE; (end - start) as usize],
            slots: Vec::with_capacity(self.blocks.len()),
            bytes: HashMap::with_capacity(self.blocks.len()),
        };
        let mut slots = vec![0; self.blocks.len() * SLOT as usize];
        for (number, &block) in self.blocks.iter().enumerate() {
            let address = self.code.blocks[block].start.wrapping_add(tracee.bias);
            let mut original = [0; 15];
            let length = (end - address).min(15) as usize;
            tracee.read(address, &mut original[..length])?;
            let original = &original[..length];
            let mut decoder =
                iced_x86::Decoder::with_ip(64, original, address, iced_x86::DecoderOptions::NONE);
            let instruction = decoder.decode();
            let slot = at + SLOT * number as u64;
            let original = original.get(..instruction.len()).unwrap_or_default();
            let bytes = displaced::slot(&instruction, original, slot).ok_or_else(|| {
                tracee.wrong(format!(
                    "the instruction at {:#x} cannot be run elsewhere",
                    self.code.blocks[block].start
                ))
            })?;
            let within = (slot - at) as usize;
            slots[within..within + bytes.len()].copy_from_slice(&bytes);
            placed.slots.push(slot);
            placed.numbers[(address - start) as usize] = number as u32;
            placed.bytes.insert(address, original[0]);
        }
        tracee.write(at, &slots)?;
        for &address in placed.bytes.keys() {
            tracee.write(address, &[super::launch::BREAKPOINT])?;
        }
        Ok(placed)
    }
}

pub(super) struct Placed {
    /// Where code begins.
    start: u64,
    /// By distance from there: the breakpoint.
    numbers: Vec<u32>,
    slots: Vec<u64>,
    /// By address: the byte that belongs there.
    bytes: HashMap<u64, u8>,
}

impl Placed {
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.numbers.iter().copied()
    }

    #[inline]
    fn number(&self, address: u64) -> Option<usize> {
        let number = *self.numbers.get(usize::try_from(address.checked_sub(self.start)?).ok()?)?;
        (number != NONE).then_some(number as usize)
    }
}
