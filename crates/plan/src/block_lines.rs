//! Debug information that tells blocks instead of source lines.
//!
//! An optimised and stripped executable does not say which block an instruction
//! is of. Compilers do keep track of source lines, through every pass. So a unit
//! is compiled with lines that stand for blocks, and what the compiler wrote of
//! them becomes a table of the executable ([`crate::frames`]). Debug information
//! changes no code: a unit whose user wants their own is compiled a second time.
//!
//! - A compile unit is named by the unit's id, a function by its number.
//! - The line of an instruction is the number of its piece, and 1. Pieces are
//!   blocks; where the plan says so, a block is several, which begin with the
//!   instructions listed. They are counted through the function.
//! - Probes have the line of the piece that they leave, and a column of their own.
//! - Line 0 is what the compiler made of several blocks, or of none.
//! - The variable [`RECORD_NAME`] is the record in the frame.

/// How sections with this debug information are called in objects: linkers treat
/// what begins so as debug information, with its own rules for code that was
/// left out.
pub const SECTION_PREFIX: &str = ".debug_bt_";

/// The name of the variable that is a function's record.
pub const RECORD_NAME: &str = "record";

/// The column of the program's own code.
pub const CODE: u32 = 1;

/// The column of probes.
pub const PROBE: u32 = 2;

/// The column of the probe that begins a record: until then it is not there.
pub const BEGIN: u32 = 3;

/// The column of other probes that change the record: the frame is there, and the
/// record is where it is said to be. (A frame may be made late, where it is needed.)
pub const RECORD: u32 = 4;

/// The line where functions begin, that of the code that makes the frame.
pub const FRAME_LINE: u32 = 1 << 30;

/// The line of a piece.
pub const fn line_of(piece: u32) -> u32 {
    piece + 1
}

/// The piece of a line, if it is that of one.
pub fn piece_of(line: u64) -> Option<u32> {
    let piece = u32::try_from(line).ok()?.checked_sub(1)?;
    (piece < FRAME_LINE - 1).then_some(piece)
}
