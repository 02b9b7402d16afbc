//! Whether an address is one that a call returns to.
//!
//! Words on a stack that look like addresses of code are many: function
//! pointers, what earlier calls left behind. Only those behind a call
//! instruction can be return addresses.

use iced_x86::{Decoder, DecoderOptions};

/// The longest call: a prefix, REX, opcode, ModRM, SIB and a displacement of
/// 32 bits.
pub(crate) const LONGEST: usize = 9;

/// Whether the bytes before an address end with a call. What is before the
/// call is not looked at: instructions cannot be decoded backwards, so some
/// bytes that are part of another one pass for a call, too.
pub(crate) fn ends_with_call(before: &[u8]) -> bool {
    (2..=before.len().min(LONGEST)).any(|length| {
        let bytes = &before[before.len() - length..];
        let instruction = Decoder::new(64, bytes, DecoderOptions::NONE).decode();
        let call = instruction.is_call_near() || instruction.is_call_near_indirect();
        call && instruction.len() == length
    })
}

#[cfg(test)]
mod tests {
    use super::ends_with_call;

    #[test]
    fn calls_of_every_form_are_told_from_other_instructions() {
        let calls: [&[u8]; 8] = [
            &[0x90, 0xe8, 1, 2, 3, 4],                   // call rel32
            &[0xff, 0xd0],                               // call rax
            &[0x41, 0xff, 0xd7],                         // call r15
            &[0xff, 0x10],                               // call [rax]
            &[0xff, 0x50, 0x18],                         // call [rax+0x18]
            &[0xff, 0x15, 1, 2, 3, 4],                   // call [rip+…]
            &[0x41, 0xff, 0x94, 0xc4, 1, 2, 3, 4],       // call [r12+rax*8+…]
            &[0x3e, 0x41, 0xff, 0x94, 0xc4, 1, 2, 3, 4], // notrack
        ];
        assert!(calls.iter().all(|bytes| ends_with_call(bytes)));
        let others: [&[u8]; 6] = [
            &[],
            &[0xe8],
            &[0xe9, 1, 2, 3, 4],       // jmp
            &[0xff, 0xe0],             // jmp rax
            &[0x48, 0x89, 0xe5, 0x90], // mov rbp, rsp; nop
            &[0x0f, 0x05],             // syscall
        ];
        assert!(others.iter().all(|bytes| !ends_with_call(bytes)));
    }
}
