//! The frames of a stopped program.

use std::ops::ControlFlow;

use nix::libc::user_regs_struct;

use super::Tracee;
use crate::Error;
use crate::modules::Options;
use crate::process::Process;
use crate::registers::Registers;
use crate::unwind;

/// Unwinds a program time and again; what is known of its files is kept.
pub(super) struct Frames {
    process: Option<Process>,
    found: Vec<u64>,
}

impl Frames {
    pub fn new() -> Self {
        Self { process: None, found: Vec::new() }
    }

    /// Where the frames of the executable are, innermost first, by the addresses of
    /// its file. Frames of libraries are left out, and all behind one that cannot
    /// be unwound.
    pub fn of(&mut self, tracee: &Tracee, registers: &user_regs_struct) -> Result<&[u64], Error> {
        let process = match self.process.take() {
            Some(process) => process,
            None => Process::of_tracee(tracee.id(), &Options::default())?,
        };
        process.memory.forget();
        let (low, high) = tracee.range;
        let registers = Registers::of_thread(registers);
        self.found.clear();
        unwind::walk(&process, &registers, |frame| {
            let place = frame.program_counter().wrapping_sub(tracee.bias);
            if frame.uncertain {
                return ControlFlow::Break(());
            }
            if low <= place && place <= high {
                self.found.push(place);
            }
            ControlFlow::Continue(())
        });
        self.process = Some(process);
        Ok(&self.found)
    }
}
