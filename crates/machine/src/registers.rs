//! The registers of one frame.
//!
//! Numbered as the DWARF tables of x86-64 number them (System V ABI, AMD64
//! supplement, figure 3.36): what unwind tables say of register 12 is said of
//! r12. A register is known or not: a caller's scratch registers are lost, and
//! a wrong value is worse than none.

/// How many registers are kept: sixteen of general purpose and the program
/// counter.
pub const COUNT: usize = 17;

/// `rbx`
pub const RBX: u16 = 3;
/// `rbp`, the frame pointer where there is one.
pub const RBP: u16 = 6;
/// `rsp`, the stack pointer.
pub const RSP: u16 = 7;
/// The program counter; in unwind tables, the return address.
pub const RIP: u16 = 16;

/// What a call leaves as it was.
const CALLEE_SAVED: [u16; 6] = [RBX, RBP, 12, 13, 14, 15];

/// The registers of a frame, as far as they are known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Registers {
    values: [u64; COUNT],
    known: u32,
}

impl Registers {
    /// A register's value, if it is known and one of those that are kept.
    pub fn get(&self, register: u16) -> Option<u64> {
        let value = self.values.get(usize::from(register))?;
        (self.known >> register & 1 == 1).then_some(*value)
    }

    /// Sets a register; one that is not kept is ignored.
    pub fn set(&mut self, register: u16, value: Option<u64>) {
        let Some(slot) = self.values.get_mut(usize::from(register)) else { return };
        *slot = value.unwrap_or(0);
        self.known &= !(1 << register);
        self.known |= u32::from(value.is_some()) << register;
    }

    /// The program counter.
    pub fn program_counter(&self) -> Option<u64> {
        self.get(RIP)
    }

    /// The stack pointer.
    pub fn stack_pointer(&self) -> Option<u64> {
        self.get(RSP)
    }

    /// What a caller has of them, before anything that was saved is restored:
    /// those that calls leave as they were.
    pub fn after_call(&self) -> Self {
        let mut kept = Self::default();
        for register in CALLEE_SAVED {
            kept.set(register, self.get(register));
        }
        kept
    }

    /// Of a thread that is stopped.
    pub(crate) fn of_thread(r: &nix::libc::user_regs_struct) -> Self {
        Self::from_user(&[
            r.r15, r.r14, r.r13, r.r12, r.rbp, r.rbx, r.r11, r.r10, r.r9, r.r8, r.rax, r.rcx,
            r.rdx, r.rsi, r.rdi, r.orig_rax, r.rip, r.cs, r.eflags, r.rsp, r.ss, r.fs_base,
            r.gs_base, r.ds, r.es, r.fs, r.gs,
        ])
    }

    /// From the kernel's order (`struct user_regs_struct`), of which the first
    /// 27 words are in a core.
    pub fn from_user(words: &[u64; 27]) -> Self {
        // r15 r14 r13 r12 rbp rbx r11 r10 r9 r8 rax rcx rdx rsi rdi (orig_rax)
        // rip (cs eflags) rsp
        const ORDER: [(usize, u16); COUNT] = [
            (0, 15),
            (1, 14),
            (2, 13),
            (3, 12),
            (4, RBP),
            (5, RBX),
            (6, 11),
            (7, 10),
            (8, 9),
            (9, 8),
            (10, 0),
            (11, 2),
            (12, 1),
            (13, 4),
            (14, 5),
            (16, RIP),
            (19, RSP),
        ];
        let mut registers = Self::default();
        for (place, register) in ORDER {
            registers.set(register, Some(words[place]));
        }
        registers
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_register_has_its_place() {
        let words: [u64; 27] = std::array::from_fn(|place| place as u64);
        let registers = Registers::from_user(&words);
        assert!((0..COUNT as u16).all(|register| registers.get(register).is_some()));
        assert_eq!(registers.program_counter(), Some(16));
        assert_eq!(registers.stack_pointer(), Some(19));
        assert_eq!((registers.get(RBP), registers.get(0)), (Some(4), Some(10)));
        assert_eq!(registers.get(17), None);
    }

    #[test]
    fn scratch_registers_are_lost_with_a_call() {
        let mut registers = Registers::default();
        (0..COUNT as u16).for_each(|register| registers.set(register, Some(1)));
        registers.set(12, None);
        let kept = registers.after_call();
        let known: Vec<u16> = (0..40).filter(|&register| kept.get(register).is_some()).collect();
        assert_eq!(known, [3, 6, 13, 14, 15]);
    }
}
