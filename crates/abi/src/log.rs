//! The block log: every executed block, per thread, in order.
//!
//! Each instrumented unit holds one hidden [`Descriptor`]. An executed block is
//! a call of [`LOG_FUNCTION`] with the descriptor and the block's number within
//! the unit (blocks of all functions counted through, in order). The first call
//! finds [`Descriptor::base`] zero and registers the unit, which gives it a
//! range of event numbers; from then on an event is `base + block`. So there is
//! no constructor to wait for, and only units that run are registered.
//!
//! A process writes into a folder of its own, `PID-NONCE`, below
//! `$BACKTRAIL_DIR` (default [`DEFAULT_DIR`]):
//!
//! - [`PROCESS_FILE`]: a [`ProcessHeader`], then a [`Registration`] per unit;
//! - `thread-TID-N`: a [`ThreadHeader`], then events of four bytes each.
//!
//! Event 0 means "nothing yet": a file is allocated ahead of what is written,
//! so the zeros at its end are not events.

/// `void __backtrail_log(struct descriptor *, uint32_t block)`
pub const LOG_FUNCTION: &str = "__backtrail_log";

/// The environment variable that names the folder for records.
pub const DIR_VARIABLE: &str = "BACKTRAIL_DIR";

/// The folder for records when nothing else is said.
pub const DEFAULT_DIR: &str = "./backtrail-records";

/// The name of the per-process file.
pub const PROCESS_FILE: &str = "process";

/// The first bytes of the per-process file.
pub const PROCESS_MAGIC: [u8; 8] = *b"BTPROC\x01\n";

/// The first bytes of a thread's file.
pub const THREAD_MAGIC: [u8; 8] = *b"BTEVNT\x01\n";

/// What every instrumented unit holds, in its writable data.
#[repr(C)]
pub struct Descriptor {
    /// The unit.
    pub unit: [u8; 16],
    /// How many blocks it has in all its functions.
    pub blocks: u32,
    /// The event number of its block 0; 0 until the unit is registered.
    pub base: core::sync::atomic::AtomicU32,
}

/// The longest path kept in a process header, with its final zero.
pub const PATH_BYTES: usize = 4096;

/// The start of the per-process file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ProcessHeader {
    /// [`PROCESS_MAGIC`].
    pub magic: [u8; 8],
    /// [`crate::VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// Its parent when the folder was made.
    pub parent: u32,
    /// Nonzero: the record is incomplete; see [`Incomplete`].
    pub incomplete: u32,
    /// The error number that goes with it.
    pub error: u32,
    /// How many [`Registration`]s follow.
    pub registrations: u32,
    /// The executable, as the kernel names it, ended by a zero.
    pub executable: [u8; PATH_BYTES],
}

/// Why a record is incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Incomplete {
    /// A file could not be created.
    Create = 1,
    /// A file could not be extended: the disk is full or a limit was reached.
    Extend = 2,
    /// A file could not be mapped.
    Map = 3,
    /// More units, threads or events than the format can number.
    Limit = 4,
}

/// A unit's range of event numbers.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Registration {
    /// The unit.
    pub unit: [u8; 16],
    /// The event number of its block 0.
    pub base: u32,
    /// How many blocks it has.
    pub blocks: u32,
}

/// The start of a thread's file.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadHeader {
    /// [`THREAD_MAGIC`].
    pub magic: [u8; 8],
    /// [`crate::VERSION`].
    pub version: u32,
    /// The thread, as the kernel numbers it.
    pub tid: u32,
    /// Orders the threads of a process by their first event.
    pub ordinal: u32,
    /// Zero.
    pub reserved: u32,
}
