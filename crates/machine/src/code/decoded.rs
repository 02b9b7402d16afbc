//! One instruction at a time: what it does to the flow of control.

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, OpKind, Register,
};

use super::loaded::{Loaded, Slot};

/// Where control goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Goto {
    /// An address of this file.
    Code(u64),
    /// A function of another file.
    External(String),
    /// Somewhere that is computed.
    Computed,
}

/// What an instruction does to the flow of control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Flow {
    Next,
    Jump(Goto),
    Branch(Goto),
    Call(Goto),
    Return,
    Stop,
}

/// The instruction at an address, if there is one.
pub(crate) fn decode(loaded: &Loaded, address: u64) -> Option<Instruction> {
    if !loaded.is_code(address) {
        return None;
    }
    let bytes = loaded.bytes(address);
    let bytes = &bytes[..bytes.len().min(15)];
    let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
    let instruction = decoder.decode();
    (!instruction.is_invalid()).then_some(instruction)
}

/// What `instruction` does.
pub(crate) fn flow(loaded: &Loaded, instruction: &Instruction) -> Flow {
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => Flow::Jump(near(loaded, instruction)),
        FlowControl::ConditionalBranch => Flow::Branch(near(loaded, instruction)),
        FlowControl::IndirectBranch => Flow::Jump(through_slot(loaded, instruction)),
        FlowControl::IndirectCall => Flow::Call(through_slot(loaded, instruction)),
        FlowControl::Return => Flow::Return,
        FlowControl::Exception => Flow::Stop,
        FlowControl::Call => match instruction.op0_kind() {
            OpKind::NearBranch64 => Flow::Call(near(loaded, instruction)),
            // The run may end in it.
            _ if instruction.code() == Opcode::Syscall => {
                Flow::Call(Goto::External(super::KERNEL.to_owned()))
            }
            _ => Flow::Next,
        },
        FlowControl::Interrupt if instruction.code() == Opcode::Int3 => Flow::Stop,
        FlowControl::Next if instruction.code() == Opcode::Hlt => Flow::Stop,
        _ => Flow::Next,
    }
}

fn near(loaded: &Loaded, instruction: &Instruction) -> Goto {
    let target = instruction.near_branch_target();
    stub(loaded, target).unwrap_or(Goto::Code(target))
}

/// Where a jump or call through memory goes to, if that is written at start.
fn through_slot(loaded: &Loaded, instruction: &Instruction) -> Goto {
    let is_fixed = instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RIP
        && instruction.memory_index() == Register::None;
    if !is_fixed {
        return Goto::Computed;
    }
    match loaded.slots.get(&instruction.ip_rel_memory_address()) {
        Some(Slot::External(name)) => Goto::External(name.clone()),
        Some(Slot::Linked(target)) => Goto::Code(*target),
        _ => Goto::Computed,
    }
}

/// What the stub at an address leads to, if it is one: a jump through a word that
/// the dynamic linker fills in, with or without a marker before it.
pub(crate) fn stub(loaded: &Loaded, address: u64) -> Option<Goto> {
    let mut instruction = decode(loaded, address)?;
    if instruction.code() == Opcode::Endbr64 {
        instruction = decode(loaded, instruction.next_ip())?;
    }
    let is_jump = instruction.flow_control() == FlowControl::IndirectBranch
        && instruction.op0_kind() == OpKind::Memory
        && instruction.memory_base() == Register::RIP
        && instruction.memory_index() == Register::None;
    if !is_jump {
        return None;
    }
    match loaded.slots.get(&instruction.ip_rel_memory_address())? {
        Slot::External(name) => Some(Goto::External(name.clone())),
        Slot::Linked(target) => Some(Goto::Code(*target)),
        Slot::Resolver(_) => Some(Goto::Computed),
        Slot::Address(_) => None,
    }
}
