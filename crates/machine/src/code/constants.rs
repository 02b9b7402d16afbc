//! Whether what is mentioned among code is data.
//!
//! Assembly written by hand keeps constants between its functions, and takes their
//! addresses as it takes those of functions. Only code may have breakpoints: one in a
//! constant would change what the program computes. So what has neither a symbol nor
//! unwind information is believed to be code only if
//!
//! - no instruction reads or writes memory there: none that names the address, and none
//!   that the address gets to in a register, through sums, copies,
//!   the stack and calls;
//! - it can be decoded on every way, to an end, without privileged instructions, and
//!   does not run into another function or into the middle of an instruction.
//!
//! *Assumed*: that data of which neither is seen does not exist. Where code is taken for
//! data, a function is not seen.

use std::collections::{BTreeSet, HashSet};

use iced_x86::{
    Code as Opcode, ConditionCode, FlowControl, Instruction, InstructionInfoFactory, Mnemonic,
    OpAccess, OpKind, Register,
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

/// Where an address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Held {
    registers: Registers,
    /// Pushed, and perhaps not popped.
    pushed: bool,
    /// In memory, by a register of the stack and the distance from where it points.
    stored: Option<(Register, u64)>,
}

impl Held {
    fn is_nowhere(self) -> bool {
        self.registers == 0 && !self.pushed && self.stored.is_none()
    }
}

/// The place on the stack that an operand names.
fn on_stack(instruction: &Instruction, operand: u32) -> Option<(Register, u64)> {
    let base = instruction.memory_base();
    let is_place = instruction.op_kind(operand) == OpKind::Memory
        && matches!(base, Register::RSP | Register::RBP)
        && instruction.memory_index() == Register::None;
    is_place.then(|| (base, instruction.memory_displacement64()))
}

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

/// Follows an address through registers and the stack.
struct Follower<'a, 'd> {
    descent: &'a Descent<'d>,
    info: InstructionInfoFactory,
    seen: HashSet<(u64, Held)>,
    waiting: Vec<(u64, Held)>,
}

impl Follower<'_, '_> {
    /// Whether memory is accessed by what an instruction at `site` puts somewhere.
    fn is_accessed(&mut self, site: u64) -> bool {
        let Some(mention) = decode(self.descent.loaded, site) else { return false };
        let registers = match mention.op0_kind() {
            OpKind::Register => bit(mention.op0_register()),
            _ => 0,
        };
        let pushed = mention.mnemonic() == Mnemonic::Push;
        let stored = on_stack(&mention, 0).filter(|_| mention.op_count() > 1);
        self.waiting.push((mention.next_ip(), Held { registers, pushed, stored }));
        while let Some((address, held)) = self.waiting.pop() {
            if held.is_nowhere() || self.seen.len() > ENOUGH || !self.seen.insert((address, held)) {
                continue;
            }
            let Some((flow, next)) = self.descent.flow_at(address) else { continue };
            let Some(instruction) = decode(self.descent.loaded, address) else { continue };
            let Some(held) = self.pass(&instruction, held) else { return true };
            let mut go = |to: u64, held: Held| self.waiting.push((to, held));
            match flow {
                Flow::Next => go(next, held),
                Flow::Jump(Goto::Code(target)) => go(*target, held),
                Flow::Jump(_) => {
                    let targets = self.descent.tables.get(&address).into_iter().flatten();
                    targets.for_each(|&target| go(target, held));
                }
                Flow::Branch(target) => {
                    if let Goto::Code(target) = target {
                        go(*target, held);
                    }
                    go(next, held);
                }
                Flow::Call(target) => {
                    if let Goto::Code(target) = target {
                        go(*target, Held { stored: None, ..held });
                    }
                    let registers = held.registers & PRESERVED;
                    go(next, Held { registers, ..held });
                }
                Flow::Return | Flow::Stop => {}
            }
        }
        false
    }

    /// Where it is behind an instruction; nothing if that accesses memory there.
    fn pass(&mut self, instruction: &Instruction, held: Held) -> Option<Held> {
        let mnemonic = instruction.mnemonic();
        let is_move = mnemonic == Mnemonic::Mov;
        // One that is conditional reads what it may write.
        let is_conditional = instruction.condition_code() != ConditionCode::None;
        let keeps = is_move
            || is_conditional
            || matches!(
                mnemonic,
                Mnemonic::Lea
                    | Mnemonic::Add
                    | Mnemonic::Sub
                    | Mnemonic::Inc
                    | Mnemonic::Dec
                    | Mnemonic::And
                    | Mnemonic::Xchg
            );
        let info = self.info.info(instruction);
        let is_held = |register: Register| bit(register) & held.registers != 0;
        let accesses = info.used_memory().iter().filter(|it| it.access() != OpAccess::NoMemAccess);
        if accesses.into_iter().any(|it| is_held(it.base()) || is_held(it.index())) {
            return None;
        }
        let (mut read, mut written, mut changed) = (0, 0, 0);
        for used in info.used_registers() {
            let register = bit(used.register());
            // Writing a part leaves the rest.
            let whole = if used.register().size() >= 4 { register } else { 0 };
            match used.access() {
                OpAccess::Read | OpAccess::CondRead => read |= register,
                OpAccess::Write => written |= whole,
                OpAccess::ReadWrite => {
                    read |= register;
                    written |= whole;
                }
                OpAccess::CondWrite | OpAccess::ReadCondWrite => changed |= whole,
                _ => {}
            }
        }
        let mut next = held;
        next.registers &= !written;
        let gets = if keeps && read & held.registers != 0 { written } else { 0 };
        let may_get = if read & held.registers != 0 { changed } else { 0 };
        next.registers |= gets | may_get;
        let from_stack = (is_move || is_conditional) && on_stack(instruction, 1) == held.stored;
        if from_stack && held.stored.is_some() || held.pushed && mnemonic == Mnemonic::Pop {
            next.registers |= bit(instruction.op0_register());
        }
        if mnemonic == Mnemonic::Push && is_held(instruction.op0_register()) {
            next.pushed = true;
        }
        if is_move && let Some(place) = on_stack(instruction, 0) {
            match is_held(instruction.op1_register()) {
                true => next.stored = Some(place),
                false if held.stored == Some(place) => next.stored = None,
                false => {}
            }
        }
        Some(next)
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
        while !descent.decoded.contains(address) && seen.insert(address) {
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
