//! Records in stack frames: the last paths of each activation.
//!
//! A function that is traced has a record in its frame, which says at every
//! instruction what the activation did last. Nothing reads it while the program
//! runs; a debugger or a core dump does.
//!
//! A record is one or more words of eight bytes, the newest first. Together they
//! are a number of so many bits, divided into fields. The lowest field is the sum
//! of the path under way; above it are those of the paths that have ended, the
//! newest lowest. When a path ends, the whole number is shifted up by a field,
//! and the oldest path falls out at the top. Sums are added to the first word
//! alone, modulo 2^64. How wide fields are, and what they mean, is the business
//! of the scheme that planned the probes.
//!
//! Behind these words a record may have others, for marks: bytes or bits that are 0
//! when the function is entered, and set as the activation comes to what they stand
//! for.
//!
//! A ring of numbers and an index was tried first: the end of a path took four to
//! six instructions and the entry of a function two. Here the end of a path takes
//! one, if the record has one word, and five for two; the entry takes one or none.

/// Bytes of a word.
pub const WORD_BYTES: u64 = 8;

/// The section of a variant that says where functions and their records are.
/// Not allocated.
pub const FRAMES_SECTION: &str = ".backtrail.frames";
