//! Frames in the log of every block: which activation of a function each block is of.
//!
//! Each activation has eight bytes in its frame. Their address tells it from all others
//! that live; what is in them is the address of those of the activation that was running
//! when it began, as [`STATE_FRAME`] of the thread's state is the address of the running one's.
//! They are followed by nobody but the activation itself: where control comes back to a
//! frame, it sees by the address alone whether something else was running meanwhile that
//! did not end.
//!
//! Words of the log that have the bit [`FRAMES`] are no blocks. They are
//!
//! | what happens | words |
//! | --- | --- |
//! | an activation begins | its first block, and behind it [`Word::Frame`] twice: where its frame is |
//! | an activation goes on that was not the running one: control was unwound to it, jumped to it, or changed the stack | [`Word::Resumes`] and [`Word::Frame`]: where its frame is |
//! | the running activation ends: it returns, is unwound through, or calls something that takes its place | [`Word::Ends`] |
//! | control comes to a call that does not return, may return twice, or is before a shared return | [`Word::Comes`] |
//! | a call that may return twice returns | [`Word::Returns`] |
//!
//! The words of one line take slots next to each other. Where a window of the log ends
//! among them, [`Word::Nothing`] fills it up. A thread that leaves a signal handler by
//! `longjmp` at such a moment leaves some of them unfilled.

/// `void __backtrail_begin(struct descriptor *, uint32_t block, void **frame)`: the
/// activation with these eight bytes begins with this block.
pub const BEGIN_FUNCTION: &str = "__backtrail_begin";

/// `void __backtrail_resume(void **frame)`: says that this activation goes on, unless it
/// is the running one.
pub const RESUME_FUNCTION: &str = "__backtrail_resume";

/// `void __backtrail_end(void **frame)`: this activation ends.
pub const END_FUNCTION: &str = "__backtrail_end";

/// `void __backtrail_say(uint32_t word)`: logs a word as it is.
pub const SAY_FUNCTION: &str = "__backtrail_say";

/// Where the running activation's eight bytes are, in the state of a thread
/// ([`crate::log::THREAD_VARIABLE`]); 0 if there is none, and 1 while another one's is
/// logged. It is on a page that the child of a fork keeps.
pub const STATE_FRAME: usize = 4096;

/// In a log of every block: the word is not of a block.
pub const FRAMES: u32 = 1 << 31;

/// How many bits of a word are for what its kind says of it.
pub const PAYLOAD_BITS: u32 = 28;

const PAYLOAD: u32 = (1 << PAYLOAD_BITS) - 1;

/// A frame's eight bytes begin at a multiple of two to this many, so that two words hold
/// any address that a process can have.
pub const ALIGNMENT_BITS: u32 = 4;

/// What a word says that has the bit [`FRAMES`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Word {
    /// A part of where a frame is, the upper one first.
    Frame(u32),
    /// An activation goes on; with the upper part of where its frame is.
    Resumes(u32),
    /// The running activation ends.
    Ends,
    /// Control comes to this call of the running activation's function.
    Comes(u32),
    /// This call of the running activation's function, which may return twice, returns.
    Returns(u32),
    /// Nothing.
    Nothing,
}

impl Word {
    /// What a word says; nothing if no such word is written.
    pub const fn from_number(number: u32) -> Option<Self> {
        let payload = number & PAYLOAD;
        match number >> PAYLOAD_BITS {
            0x8 => Some(Self::Frame(payload)),
            0x9 => Some(Self::Resumes(payload)),
            0xa => Some(Self::Ends),
            0xb => Some(Self::Comes(payload)),
            0xc => Some(Self::Returns(payload)),
            0xf => Some(Self::Nothing),
            _ => None,
        }
    }

    /// The word that says this.
    pub const fn number(self) -> u32 {
        let (kind, payload) = match self {
            Self::Frame(part) => (0x8, part),
            Self::Resumes(part) => (0x9, part),
            Self::Ends => (0xa, 0),
            Self::Comes(call) => (0xb, call),
            Self::Returns(call) => (0xc, call),
            Self::Nothing => (0xf, 0),
        };
        kind << PAYLOAD_BITS | payload & PAYLOAD
    }
}

/// The two parts of where a frame is, the upper one first.
pub const fn parts(address: u64) -> (u32, u32) {
    let number = address >> ALIGNMENT_BITS;
    ((number >> PAYLOAD_BITS) as u32 & PAYLOAD, number as u32 & PAYLOAD)
}

/// Where a frame is, from its parts.
pub const fn address(upper: u32, lower: u32) -> u64 {
    ((upper as u64) << PAYLOAD_BITS | lower as u64) << ALIGNMENT_BITS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_addresses_are_what_they_were() {
        let words = [
            Word::Frame(PAYLOAD),
            Word::Resumes(7),
            Word::Ends,
            Word::Comes(0),
            Word::Returns(12),
            Word::Nothing,
        ];
        for word in words {
            assert_eq!(Word::from_number(word.number()), Some(word));
            assert_ne!(word.number() & FRAMES, 0);
        }
        for place in [16, 0x7fff_ffff_e3a0, 0x00ff_ffff_ffff_fff0] {
            let (upper, lower) = parts(place);
            assert_eq!(address(upper, lower), place);
        }
    }
}
