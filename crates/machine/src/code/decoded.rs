//! One instruction at a time: what it does to the flow of control.

use iced_x86::{
    Code as Opcode, Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register,
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

/// Whether a jump, with the two instructions before it, goes to an address on top of
/// another stack frame, which is how gcc ends a function with `__builtin_eh_return`.
pub(crate) fn leaves_frames(before: &[Option<Instruction>; 2], jump: &Instruction) -> bool {
    let [Some(exchange), Some(pop)] = before else { return false };
    exchange.mnemonic() == Mnemonic::Mov
        && exchange.op0_register() == Register::RSP
        && exchange.op1_kind() == OpKind::Register
        && exchange.op1_register() != Register::RBP
        && pop.code() == Opcode::Pop_r64
        && jump.code() == Opcode::Jmp_rm64
        && jump.op0_kind() == OpKind::Register
        && jump.op0_register() == pop.op0_register()
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
    let address = instruction.ip_rel_memory_address();
    match loaded.slots.get(&address) {
        Some(Slot::External(name)) => Goto::External(name.clone()),
        Some(Slot::Linked(target)) => Goto::Code(*target),
        _ => loaded.sealed_code(address).map_or(Goto::Computed, Goto::Code),
    }
}

/// What the stub at an address leads to, if it is one: a jump through a word that
/// the dynamic linker fills in, with or without a marker before it. What has a name is
/// a function that is no more than that.
pub(crate) fn stub(loaded: &Loaded, address: u64) -> Option<Goto> {
    if !loaded.may_be_stub(address) || loaded.symbols.contains_key(&address) {
        return None;
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(bytes: &[u8]) -> bool {
        let mut decoder = Decoder::with_ip(64, bytes, 0x1000, DecoderOptions::NONE);
        let mut next = || decoder.decode();
        let before = [Some(next()), Some(next())];
        leaves_frames(&before, &next())
    }

    #[test]
    fn a_jump_to_what_is_on_another_stack_frame_leaves_frames() {
        // mov rsp, rcx; pop rcx; jmp rcx
        assert!(leaves(&[0x48, 0x89, 0xcc, 0x59, 0xff, 0xe1]));
        // The same, to another register; after mov rsp, rbp; and after mov rbx, rcx.
        assert!(!leaves(&[0x48, 0x89, 0xcc, 0x59, 0xff, 0xe2]));
        assert!(!leaves(&[0x48, 0x89, 0xec, 0x59, 0xff, 0xe1]));
        assert!(!leaves(&[0x48, 0x89, 0xcb, 0x59, 0xff, 0xe1]));
    }
}
