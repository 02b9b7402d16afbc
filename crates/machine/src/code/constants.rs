//! Whether what is mentioned among code is data.
//!
//! Assembly written by hand keeps constants between its functions, and takes their
//! addresses as it takes those of functions. Only code may have breakpoints: one in a
//! constant would change what the program computes. So what has neither a symbol nor
//! unwind information is believed to be code only if
//!
//! - no instruction reads or writes memory there: none that names the address, and none
//!   that the address gets to in a register, through sums, copies and calls;
//! - it can be decoded on every way, to an end, without privileged instructions, and
//!   does not run into another function or into the middle of an instruction.
//!
//! *Assumed*: that data of which neither is seen does not exist. Where code is taken for
//! data, a function is not seen.

use std::collections::{BTreeSet, HashSet};

use iced_x86::{
    Code as Opcode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind,
    Register,
};

use super::decoded::{Flow, Goto, decode, flow};
use super::descent::Descent;

/// So many instructions without a contradiction are code, and so many places where a
/// register is followed are enough.
const ENOUGH: usize = 4_000;

/// A set of general registers, by number.
type Registers = u16;

/// Those that calls preserve: rbx, rsp, rbp, r12 to r15.
const PRESERVED: Registers = 1 << 3 | 1 << 4 | 1 << 5 | 0xf << 12;

fn bit(register: Register) -> Registers {
    match register.is_gpr() {
        true => 1 << register.full_register().number(),
        false => 0,
    }
}

/// The address that an instruction reads or writes memory at, if it names one.
pub(crate) fn named_memory(instruction: &Instruction) -> Option<u64> {
    let is_access = |it: u32| instruction.op_kind(it) == OpKind::Memory;
    let is_named = (0..instruction.op_count()).any(is_access)
        && !matches!(instruction.mnemonic(), Mnemonic::Lea | Mnemonic::Nop);
    match instruction.memory_base() {
        _ if !is_named => None,
        Register::RIP => Some(instruction.ip_rel_memory_address()),
        Register::None => Some(instruction.memory_displacement64()),
        _ => None,
    }
}

/// Follows an address through registers.
struct Follower<'a, 'd> {
    descent: &'a Descent<'d>,
    info: InstructionInfoFactory,
    seen: HashSet<(u64, Registers)>,
    /// Where it is in these registers.
    waiting: Vec<(u64, Registers)>,
}

impl Follower<'_, '_> {
    /// Whether memory is accessed by what an instruction at `site` puts into a register.
    fn is_accessed(&mut self, site: u64) -> bool {
        let Some(mention) = decode(self.descent.loaded, site) else { return false };
        if mention.op0_kind() == OpKind::Register {
            self.waiting.push((mention.next_ip(), bit(mention.op0_register())));
        }
        while let Some((address, held)) = self.waiting.pop() {
            if held == 0 || self.seen.len() > ENOUGH || !self.seen.insert((address, held)) {
                continue;
            }
            let Some(decoded) = self.descent.decoded.get(&address) else { continue };
            let Some(instruction) = decode(self.descent.loaded, address) else { continue };
            let Some(held) = self.pass(&instruction, held) else { return true };
            let mut go = |to: u64, held: Registers| self.waiting.push((to, held));
            match &decoded.flow {
                Flow::Next => go(decoded.next, held),
                Flow::Jump(Goto::Code(target)) => go(*target, held),
                Flow::Jump(_) => {
                    let targets = self.descent.tables.get(&address).into_iter().flatten();
                    targets.for_each(|&target| go(target, held));
                }
                Flow::Branch(target) => {
                    if let Goto::Code(target) = target {
                        go(*target, held);
                    }
                    go(decoded.next, held);
                }
                Flow::Call(target) => {
                    if let Goto::Code(target) = target {
                        go(*target, held);
                    }
                    go(decoded.next, held & PRESERVED);
                }
                Flow::Return | Flow::Stop => {}
            }
        }
        false
    }

    /// What has it behind an instruction; nothing if that accesses memory there.
    fn pass(&mut self, instruction: &Instruction, held: Registers) -> Option<Registers> {
        let keeps = matches!(
            instruction.mnemonic(),
            Mnemonic::Mov
                | Mnemonic::Lea
                | Mnemonic::Add
                | Mnemonic::Sub
                | Mnemonic::Inc
                | Mnemonic::Dec
                | Mnemonic::And
                | Mnemonic::Xchg
        );
        let info = self.info.info(instruction);
        let is_held = |register: Register| bit(register) & held != 0;
        let accesses = info.used_memory().iter().filter(|it| it.access() != OpAccess::NoMemAccess);
        if accesses.into_iter().any(|it| is_held(it.base()) || is_held(it.index())) {
            return None;
        }
        let (mut read, mut written) = (0, 0);
        for used in info.used_registers() {
            let register = bit(used.register());
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => read |= register,
                OpAccess::Write => written |= register,
                OpAccess::ReadWrite => {
                    read |= register;
                    written |= register;
                }
                _ => {}
            }
        }
        let gets = if keeps && read & held != 0 { written } else { 0 };
        Some(held & !written | gets)
    }
}

/// Whether code reads or writes memory at an address that it mentions.
pub(crate) fn is_accessed(descent: &Descent<'_>, target: u64) -> bool {
    let sites = descent.mentioned.get(&target);
    descent.accessed.contains(&target)
        || sites.is_some_and(|sites| {
            let info = InstructionInfoFactory::new();
            let (seen, waiting) = (HashSet::new(), Vec::new());
            let mut follower = Follower { descent, info, seen, waiting };
            sites.iter().any(|&site| follower.is_accessed(site))
        })
}

/// Whether what is at an address can be a function.
pub(crate) fn may_be_code(descent: &Descent<'_>, target: u64) -> bool {
    let loaded = descent.loaded;
    let begins = |address: u64| {
        descent.called.contains(&address)
            || loaded.symbols.contains_key(&address)
            || descent.frame_of(address).is_some_and(|frame| frame.start == address)
    };
    let mut seen = BTreeSet::new();
    let mut waiting = vec![target];
    while let Some(mut address) = waiting.pop() {
        while !descent.decoded.contains_key(&address) && seen.insert(address) {
            if seen.len() > ENOUGH {
                return true;
            }
            let Some(instruction) = decode(loaded, address) else { return false };
            let is_odd = instruction.is_privileged() && instruction.code() != Opcode::Hlt
                || matches!(instruction.flow_control(), FlowControl::Call)
                    && instruction.op0_kind() == OpKind::FarBranch32;
            if is_odd || descent.is_inside_an_instruction(address) {
                return false;
            }
            address = instruction.next_ip();
            let flow = flow(loaded, &instruction);
            if let Flow::Jump(Goto::Code(to))
            | Flow::Branch(Goto::Code(to))
            | Flow::Call(Goto::Code(to)) = flow
            {
                waiting.push(to);
            }
            match flow {
                Flow::Next | Flow::Branch(_) if begins(address) => return false,
                // Whether it returns is not known.
                Flow::Call(_) if begins(address) => break,
                Flow::Next | Flow::Branch(_) | Flow::Call(_) => {}
                Flow::Jump(_) | Flow::Return | Flow::Stop => break,
            }
        }
        if descent.is_inside_an_instruction(address) {
            return false;
        }
    }
    true
}
