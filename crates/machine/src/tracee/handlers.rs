//! Handlers of signals, as far as the executable's own functions handle them.
//!
//! A handler is called by the kernel: its frame begins with an address that returns to the
//! kernel (`rt_sigreturn`), and behind it are the registers of what was interrupted
//! (`struct rt_sigframe` of the kernel, whose layout does not change). Functions whose
//! address is taken have a breakpoint where they begin, so it is seen there that one is
//! called in this way; only where a signal was delivered that is caught. That it returns
//! is seen by a breakpoint in the code that it returns to, whose first instruction is not
//! run but done.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use nix::errno::Errno;
use nix::libc::user_regs_struct;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::Tracee;
use super::breakpoints::Breakpoints;
use crate::Error;
use crate::code::Code;

/// `mov $15, %rax; syscall`, in both ways to write it, and how long the first of them is.
const RESTORERS: [(&[u8], u64); 2] =
    [(&[0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05], 7), (&[0xb8, 0x0f, 0, 0, 0, 0x0f, 0x05], 5)];

/// `SYS_rt_sigreturn`.
const SIGRETURN: u64 = 15;

/// Where the registers are in a handler's frame, and how many: `gregs` of `mcontext_t`.
const REGISTERS: u64 = 48;
const COUNT: usize = 18;

pub(super) struct Handlers {
    /// By number of the breakpoint: whether a handler can begin there.
    can_begin: Vec<bool>,
    /// By thread: how many signals were delivered that are caught, and whose handlers have
    /// not been seen.
    expected: HashMap<Pid, u32>,
    /// Where handlers return to, and where the second instruction is there.
    restorers: Vec<(u64, u64)>,
    interrupted: Option<user_regs_struct>,
}

impl Handlers {
    pub fn new(breakpoints: &Breakpoints<'_>) -> Self {
        let code = breakpoints.code;
        let is_taken = |&block: &usize| {
            let routine = &code.routines[code.blocks[block].routine];
            routine.taken && routine.head == block
        };
        Self {
            can_begin: breakpoints.blocks.iter().map(is_taken).collect(),
            expected: HashMap::new(),
            restorers: Vec::new(),
            interrupted: None,
        }
    }

    /// A signal will be delivered.
    #[cold]
    pub fn expect(&mut self, thread: Pid, signal: i32) {
        if self.expected.contains_key(&thread) || is_caught(thread, signal).unwrap_or(true) {
            *self.expected.entry(thread).or_default() += 1;
        }
    }

    /// Whether a handler may begin at a breakpoint.
    #[inline]
    pub fn may_begin(&self, thread: Pid, number: usize) -> bool {
        !self.expected.is_empty() && self.can_begin[number] && self.expected.contains_key(&thread)
    }

    /// The frame of the handler that begins, if one does: what it interrupted is known
    /// then, and that it returns will be seen.
    pub fn begins(
        &mut self,
        tracee: &Tracee,
        thread: Pid,
        breakpoints: &mut HashMap<u64, u8>,
    ) -> Result<Option<u64>, Error> {
        // It may be gone.
        let Ok(mut registers) = tracee.registers_of(thread) else { return Ok(None) };
        let frame = registers.rsp;
        let Some([restorer]) = words(tracee, frame) else { return Ok(None) };
        if !self.restorers.iter().any(|it| it.0 == restorer) {
            let Some(length) = first_of_restorer(tracee, restorer, breakpoints) else {
                return Ok(None);
            };
            if let Entry::Vacant(place) = breakpoints.entry(restorer) {
                place.insert(tracee.put_breakpoint(restorer)?);
            }
            self.restorers.push((restorer, restorer + length));
        }
        let Some(saved) = words::<COUNT>(tracee, frame + REGISTERS) else { return Ok(None) };
        let [r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip, _] =
            saved;
        registers = user_regs_struct {
            r8,
            r9,
            r10,
            r11,
            r12,
            r13,
            r14,
            r15,
            rdi,
            rsi,
            rbp,
            rbx,
            rdx,
            rax,
            rcx,
            rsp,
            rip,
            ..registers
        };
        self.interrupted = Some(registers);
        match self.expected.get_mut(&thread) {
            Some(count) if *count > 1 => *count -= 1,
            _ => _ = self.expected.remove(&thread),
        }
        Ok(Some(frame))
    }

    /// The registers of what the last handler interrupted.
    ///
    /// # Panics
    /// If none began.
    pub fn interrupted(&self) -> &user_regs_struct {
        self.interrupted.as_ref().expect("a handler began")
    }

    /// Whether that was in code that is seen, or between a handler that returned and what
    /// that had interrupted.
    pub fn was_within(&self, tracee: &Tracee, code: &Code) -> bool {
        let address = self.interrupted().rip;
        let is_code = tracee.layout.place(address).is_some_and(|place| !code.is_stub(place));
        let returns = self.restorers.iter().any(|it| it.0 == address || it.1 == address);
        is_code || returns || tracee.is_in_scratch(address)
    }

    /// The frame of the handler that returns, if a thread stopped where one does; the
    /// thread is led on.
    pub fn returned(
        &self,
        tracee: &Tracee,
        thread: Pid,
        address: u64,
    ) -> Result<Option<u64>, Error> {
        let Some(&(_, next)) = self.restorers.iter().find(|it| it.0 == address) else {
            return Ok(None);
        };
        // It may be gone.
        let Ok(mut registers) = tracee.registers_of(thread) else { return Ok(None) };
        (registers.rax, registers.rip) = (SIGRETURN, next);
        match ptrace::setregs(thread, registers) {
            Err(Errno::ESRCH) => Ok(None),
            other => {
                other.map_err(|error| tracee.failed(error))?;
                Ok(Some(registers.rsp.wrapping_sub(8)))
            }
        }
    }
}

/// How long the first instruction is of code that handlers return to; nothing if it is
/// other code.
fn first_of_restorer(tracee: &Tracee, address: u64, breakpoints: &HashMap<u64, u8>) -> Option<u64> {
    RESTORERS.iter().find_map(|&(wanted, length)| {
        let mut code = vec![0; wanted.len()];
        tracee.read(address, &mut code).ok()?;
        for (place, byte) in (address..).zip(&mut code) {
            *byte = breakpoints.get(&place).copied().unwrap_or(*byte);
        }
        (code == wanted).then_some(length)
    })
}

/// Words of the program's memory.
fn words<const N: usize>(tracee: &Tracee, address: u64) -> Option<[u64; N]> {
    let mut bytes = vec![0; 8 * N];
    tracee.read(address, &mut bytes).ok()?;
    let mut words = bytes.as_chunks().0.iter().map(|&it| u64::from_le_bytes(it));
    Some(std::array::from_fn(|_| words.next().unwrap_or(0)))
}

/// Whether a thread handles a signal, if that can be found out.
pub(super) fn is_caught(thread: Pid, signal: i32) -> Option<bool> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("SigCgt:"))?;
    let caught = u64::from_str_radix(line.trim(), 16).ok()?;
    Some(caught.checked_shr(signal.unsigned_abs().wrapping_sub(1)).unwrap_or(0) & 1 == 1)
}
