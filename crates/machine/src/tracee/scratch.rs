//! Memory in the program for instructions that are run elsewhere.
//!
//! Mapped in every traced run alike, and as large, whatever is going to be in it: a
//! program that looks at its own memory map (as gnulib does to find the end of the
//! stack) sees the same in each.

use std::fs;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{Signal, kill};

use super::Tracee;
use super::sys::{self, Status};
use crate::Error;
use crate::code::Code;

/// The longest slot: an instruction of 15 bytes, two jumps and a word.
pub(super) const SLOT: u64 = backtrail_agent::SLOT;
/// Room for the handler's code.
const AGENT: u64 = 4096;

impl Tracee {
    /// Maps a slot for each block, within reach of its module.
    pub(super) fn map_scratch(&mut self, code: &Code) -> Result<(), Error> {
        let ranges: Vec<(u64, u64)> = self.layout.ranges().collect();
        for (module, (start, end)) in code.modules.iter().zip(ranges) {
            let size = (module.blocks.len() as u64 * SLOT).next_multiple_of(4096) + AGENT;
            let at = free_place(self, start, end, size)?;
            self.map(at, size)?;
            self.scratch.push((at, size));
        }
        Ok(())
    }

    /// Where the slots of a module are.
    pub(super) fn slots_of(&self, module: usize) -> u64 {
        self.scratch.get(module).map_or(0, |it| it.0)
    }

    /// Whether instructions are run there that have a breakpoint.
    pub(super) fn is_in_scratch(&self, address: u64) -> bool {
        self.scratch.iter().any(|&(at, size)| (at..at + size).contains(&address))
    }

    /// Where the handler's code goes: behind the slots of the executable.
    pub(super) fn agent_place(&self) -> u64 {
        self.scratch.first().map_or(0, |&(at, size)| at + size - AGENT)
    }

    fn map(&self, address: u64, size: u64) -> Result<(), Error> {
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_FIXED_NOREPLACE;
        let code = (libc::PROT_READ | libc::PROT_EXEC) as u64;
        let arguments = [address, size, code, flags as u64, u64::MAX, 0];
        if self.call(libc::SYS_mmap, arguments)? != address {
            return Err(self.wrong(format!("memory at {address:#x} cannot be had")));
        }
        Ok(())
    }

    /// Makes the program do a system call where it is stopped; what it returns.
    pub(super) fn call(&self, number: libc::c_long, arguments: [u64; 6]) -> Result<u64, Error> {
        const SYSCALL: [u8; 2] = [0x0f, 0x05];
        let before = self.registers()?;
        let mut code = [0; 2];
        self.read(before.rip, &mut code)?;
        self.write(before.rip, &SYSCALL)?;
        let mut registers = before;
        registers.rax = number as u64;
        registers.orig_rax = u64::MAX;
        let [rdi, rsi, rdx, r10, r8, r9] = arguments;
        (registers.rdi, registers.rsi, registers.rdx) = (rdi, rsi, rdx);
        (registers.r10, registers.r8, registers.r9) = (r10, r8, r9);
        self.set_registers(registers)?;
        // Signals wait until it is done, but for those that nobody can make wait.
        let failed = |error| self.failed(error);
        let mask = sys::mask(self.pid).map_err(failed)?;
        sys::set_mask(self.pid, !sys::bit(libc::SIGTRAP)).map_err(failed)?;
        sys::step(self.pid, None).map_err(failed)?;
        let mut is_paused = false;
        loop {
            match self.wait()? {
                Status::Stopped(_, libc::SIGTRAP) => break,
                Status::Stopped(_, libc::SIGSTOP) => {
                    is_paused = true;
                    sys::step(self.pid, None).map_err(failed)?;
                }
                Status::Killed(_, signal) => return Err(self.ended_by(signal)),
                _ => return Err(self.wrong("it was interrupted at its first instruction")),
            }
        }
        sys::set_mask(self.pid, mask).map_err(failed)?;
        if is_paused {
            kill(self.pid, Signal::SIGSTOP).map_err(failed)?;
        }
        let result = self.registers()?.rax;
        self.write(before.rip, &code)?;
        self.set_registers(before)?;
        // Errors are the last page of numbers.
        if result > u64::MAX - 4096 {
            let error = Errno::from_raw(result.wrapping_neg() as i32);
            let why = error.desc().to_lowercase();
            return Err(self.wrong(format!("system call {number} failed in it: {why}")));
        }
        Ok(result)
    }
}

/// How far slots may be from code, with room for what encodings add.
const REACH: u64 = 0x7000_0000;
/// The lowest address that may be mapped, as a rule (`vm.mmap_min_addr`).
const LOWEST: u64 = 0x1_0000;
/// Where the addresses of programs end.
const HIGHEST: u64 = 0x7fff_ffff_f000;
/// How far places are from each other that are tried.
const STRIDE: u64 = 0x400_0000;

/// Where nothing is mapped, close to the code, and where the heap does not grow to
/// soon: below it if there is room.
fn free_place(tracee: &Tracee, start: u64, end: u64, size: u64) -> Result<u64, Error> {
    let maps = fs::read_to_string(format!("/proc/{}/maps", tracee.pid))
        .map_err(|error| tracee.wrong(format!("its memory map is closed: {error}")))?;
    let mut taken: Vec<(u64, u64)> = maps
        .lines()
        .filter_map(|line| {
            let (from, to) = line.split_whitespace().next()?.split_once('-')?;
            Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
        })
        .collect();
    taken.sort_unstable();
    let is_free = |place: u64| {
        place >= LOWEST
            && place.checked_add(size).is_some_and(|end| end <= HIGHEST)
            && taken.iter().all(|&(from, to)| place + size <= from || to <= place)
    };
    let page = |address: u64| address & !0xfff;
    let below = taken.iter().map(|&(from, _)| from).filter(|&from| from <= start).max();
    let just_below = below.map(|from| page(from.saturating_sub(size + 0x10_0000)));
    let lowest = page(start.saturating_sub(REACH).max(LOWEST) + 0xfff);
    // Libraries are close to each other and to the end of all addresses: slots of one
    // may be where those of another would be.
    let further_below = (0..28).map(|step| lowest + step * STRIDE);
    let candidates = just_below
        .into_iter()
        .chain(further_below.filter(|place| place + size <= start))
        .chain((1..28).rev().map(|step| page(end) + step * STRIDE));
    let near = |&place: &u64| place + size + REACH > end && place < start + REACH;
    candidates
        .filter(near)
        .find(|&place| is_free(place))
        .ok_or_else(|| tracee.wrong("there is no free memory within reach of its code"))
}
