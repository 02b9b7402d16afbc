//! Records in stack frames: the last paths of each activation.
//!
//! A function that is traced has a record in its frame, which says at every
//! instruction what the activation did last. Nothing reads it while the program
//! runs; a debugger or a core dump does. A record is, aligned to eight bytes:
//!
//! | offset | bytes | what |
//! | --- | --- | --- |
//! | 0 | 4 | the sum of the path under way |
//! | 4 | 4 | nothing |
//! | 8 | 8 | how many paths have ended, times [`STEP`] |
//! | 16 | 4 each | the slots: the n-th path that ended is in slot n modulo their number |
//!
//! The number of slots is a power of two, and that of the function's plan. A
//! function without slots has the sum alone, in four bytes.

/// Where the sum is.
pub const SUM: u64 = 0;

/// Where the number of ended paths is.
pub const ENDED: u64 = 8;

/// Where the slots are.
pub const SLOTS: u64 = 16;

/// How much the number of ended paths grows with each: bytes of a slot.
pub const STEP: u64 = 4;

/// The section of a variant that says where functions and their records are.
/// Not allocated.
pub const FRAMES_SECTION: &str = ".backtrail.frames";
