//! The frames of a stopped program.

use std::ops::ControlFlow;

use nix::libc::user_regs_struct;
use nix::unistd::Pid;

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
    /// Whether the last walk came to the outermost.
    is_whole: bool,
}

impl Frames {
    pub fn new() -> Self {
        Self { process: None, found: Vec::new(), is_whole: false }
    }

    /// The places of frames of a thread in code that is seen, innermost first. Frames
    /// elsewhere are left out, and all behind one that cannot be unwound.
    pub fn of(
        &mut self,
        tracee: &Tracee,
        thread: Pid,
        registers: &user_regs_struct,
    ) -> Result<&[u64], Error> {
        // The first thread may be gone.
        let thread = thread.as_raw().unsigned_abs();
        let known = self.process.take();
        let may_be_old = known.is_some();
        let mut process = match known {
            Some(process) => process,
            None => Process::of_tracee(thread, &Options::default())?,
        };
        process.memory.forget();
        let mut is_whole = self.walk(&process, tracee, registers);
        if !is_whole && may_be_old {
            // Its memory map may have changed: libraries, stacks of threads.
            process = Process::of_tracee(thread, &Options::default())?;
            is_whole = self.walk(&process, tracee, registers);
        }
        self.is_whole = is_whole;
        self.process = Some(process);
        Ok(&self.found)
    }

    /// The frames of a thread that ends in a call, or in a system call of the
    /// executable's own; nothing if it ends elsewhere, or frames were not found.
    pub fn of_ending(
        &mut self,
        tracee: &Tracee,
        thread: Pid,
        registers: &user_regs_struct,
    ) -> Result<Option<Vec<u64>>, Error> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        if tracee.layout.place_behind(registers.rip).is_some() {
            let mut code = [0; 2];
            if tracee.read(registers.rip.wrapping_sub(2), &mut code).is_err() || code != SYSCALL {
                return Ok(None);
            }
        }
        self.process = None;
        self.of(tracee, thread, registers)?;
        // What comes is not seen by this thread.
        self.process = None;
        Ok((self.is_whole || !self.found.is_empty()).then(|| self.found.clone()))
    }

    fn walk(&mut self, process: &Process, tracee: &Tracee, registers: &user_regs_struct) -> bool {
        let registers = Registers::of_thread(registers);
        self.found.clear();
        let end = unwind::walk(process, &registers, |frame| {
            if frame.uncertain {
                return ControlFlow::Break(());
            }
            self.found.extend(tracee.layout.place_behind(frame.program_counter()));
            ControlFlow::Continue(())
        });
        end == unwind::End::Outermost
    }
}

/// Where a function of the C library is, if that is a library.
pub(super) fn function_of_c_library(tracee: &Tracee, name: &str) -> Result<Option<u64>, Error> {
    let process = Process::of_tracee(tracee.id(), &Options::default())?;
    let is_wanted =
        |it: &str| it == name || it.strip_prefix(name).is_some_and(|rest| rest.starts_with('@'));
    let mut libraries = process.modules.list.iter().filter(|it| it.path.contains("/libc.so"));
    Ok(libraries.find_map(|module| {
        let symbols = module.image.as_ref()?.symbols();
        let symbol = symbols.iter().find(|it| is_wanted(&it.name))?;
        Some(symbol.address.wrapping_add(module.bias))
    }))
}
