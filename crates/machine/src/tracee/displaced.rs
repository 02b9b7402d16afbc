//! Running an instruction elsewhere: what a breakpoint displaces.
//!
//! A breakpoint replaces the first byte of an instruction. To go on without taking
//! it out, and without a second stop to put it back, the instruction is run from a
//! *slot* of its own: as it is where nothing in it depends on its place, encoded
//! anew where it does, followed by a jump back. A call pushes the address it would
//! have pushed, out of a word behind the slot, and jumps. No flag changes and no
//! register but the program counter.
//!
//! Slots are within 2 GiB of the code, so that everything can be reached.

use iced_x86::{Code as Opcode, Encoder, FlowControl, Instruction, OpKind, Register};

/// The bytes of the slot at `slot` for an instruction, which are `original`;
/// nothing if it cannot be run elsewhere.
pub(super) fn slot(instruction: &Instruction, original: &[u8], slot: u64) -> Option<Vec<u8>> {
    let next = instruction.next_ip();
    let mut bytes = Vec::new();
    match instruction.flow_control() {
        FlowControl::UnconditionalBranch => {
            jump(&mut bytes, slot, instruction.near_branch_target())?;
        }
        FlowControl::ConditionalBranch if instruction.is_jcc_short_or_near() => {
            let mut near = *instruction;
            near.as_near_branch();
            encode(&mut bytes, slot, &near)?;
            jump(&mut bytes, slot, next)?;
        }
        FlowControl::ConditionalBranch => {
            // `loop` and `jrcxz` have short distances only: over a jump.
            let (_, front) = original.split_last()?;
            bytes.extend_from_slice(front);
            bytes.push(5);
            jump(&mut bytes, slot, next)?;
            jump(&mut bytes, slot, instruction.near_branch_target())?;
        }
        FlowControl::Call if instruction.op0_kind() == OpKind::NearBranch64 => {
            // push [rip + 5]; jmp target; the word.
            bytes.extend_from_slice(&[0xff, 0x35, 5, 0, 0, 0]);
            jump(&mut bytes, slot, instruction.near_branch_target())?;
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        FlowControl::IndirectCall => {
            let mut away = *instruction;
            if instruction.code() != Opcode::Call_rm64 || away.op0_register() == Register::RSP {
                return None;
            }
            away.set_code(Opcode::Jmp_rm64);
            if away.op0_kind() == OpKind::Memory && away.memory_base() == Register::RSP {
                // The word that was pushed is between.
                let distance = away.memory_displacement64().wrapping_add(8);
                away.set_memory_displacement64(distance);
                away.set_memory_displ_size(8);
            }
            let mut jump = Vec::new();
            encode(&mut jump, slot + 6, &away)?;
            bytes.extend_from_slice(&[0xff, 0x35]);
            bytes.extend_from_slice(&(jump.len() as u32).to_le_bytes());
            bytes.extend_from_slice(&jump);
            bytes.extend_from_slice(&next.to_le_bytes());
        }
        FlowControl::Return => bytes.extend_from_slice(original),
        FlowControl::XbeginXabortXend => return None,
        flow => {
            if instruction.is_ip_rel_memory_operand() {
                encode(&mut bytes, slot, instruction)?;
            } else {
                bytes.extend_from_slice(original);
            }
            if flow != FlowControl::IndirectBranch {
                jump(&mut bytes, slot, next)?;
            }
        }
    }
    Some(bytes)
}

/// Appends a jump to the bytes that begin at `slot`.
fn jump(bytes: &mut Vec<u8>, slot: u64, target: u64) -> Option<()> {
    let from = slot + bytes.len() as u64 + 5;
    let distance = i32::try_from(target.wrapping_sub(from) as i64).ok()?;
    bytes.push(0xe9);
    bytes.extend_from_slice(&distance.to_le_bytes());
    Some(())
}

/// Appends an instruction, encoded for where it is going to be.
fn encode(bytes: &mut Vec<u8>, slot: u64, instruction: &Instruction) -> Option<()> {
    let mut encoder = Encoder::new(64);
    encoder.encode(instruction, slot + bytes.len() as u64).ok()?;
    bytes.extend_from_slice(&encoder.take_buffer());
    Some(())
}

#[cfg(test)]
mod tests {
    use iced_x86::{Decoder, DecoderOptions};

    use super::*;

    fn check(original: &[u8], expected: &[&str]) {
        let (from, to) = (0x40_1000, 0x10_0000);
        let instruction = Decoder::with_ip(64, original, from, DecoderOptions::NONE).decode();
        let bytes = slot(&instruction, original, to).unwrap();
        let mut decoder = Decoder::with_ip(64, &bytes, to, DecoderOptions::NONE);
        let found: Vec<String> = expected.iter().map(|_| describe(&decoder.decode())).collect();
        assert_eq!(found, expected);
    }

    /// Mnemonic, and the address it refers to.
    fn describe(instruction: &Instruction) -> String {
        let target = if instruction.is_ip_rel_memory_operand() {
            instruction.ip_rel_memory_address()
        } else if instruction.op0_kind() == OpKind::NearBranch64 {
            instruction.near_branch_target()
        } else {
            instruction.memory_displacement64()
        };
        format!("{:?} {target:x}", instruction.mnemonic())
    }

    #[test]
    fn instructions_run_elsewhere() {
        check(&[0x55], &["Push 0", "Jmp 401001"]);
        // mov rax, [rip + 0x10]
        check(&[0x48, 0x8b, 0x05, 0x10, 0, 0, 0], &["Mov 401017", "Jmp 401007"]);
        check(&[0x74, 0x10], &["Je 401012", "Jmp 401002"]);
        check(&[0xe3, 0x10], &["Jrcxz 100007", "Jmp 401002", "Jmp 401012"]);
        check(&[0xeb, 0xfe], &["Jmp 401000"]);
        check(&[0xe8, 0xfb, 0x0f, 0, 0], &["Push 10000b", "Jmp 402000"]);
        // call [rsp + 8]; call [rip + 0x20]; jmp rax
        check(&[0xff, 0x54, 0x24, 8], &["Push 10000d", "Jmp 10"]);
        check(&[0xff, 0x15, 0x20, 0, 0, 0], &["Push 10000c", "Jmp 401026"]);
        check(&[0xff, 0xe0], &["Jmp 0"]);
        check(&[0xc3], &["Ret 0"]);
    }
}
