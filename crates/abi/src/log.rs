//! The block log: every executed block, per thread, in order.
//!
//! Each instrumented unit holds one hidden [`Descriptor`]. An executed block is
//! a call of [`LOG_FUNCTION`] with the descriptor and the block's number within
//! the unit (blocks of all functions counted through, in order). The first call
//! finds [`Descriptor::base`] zero and registers the unit, which gives it a
//! range of event numbers; from then on an event is `base + block`. So there is
//! no constructor to wait for, and only units that run are registered. A unit
//! that is in the process twice (an executable and a library, a library loaded
//! again) has one range.
//!
//! A process writes into a folder of its own, `PID-NONCE` (decimal, then
//! sixteen hexadecimal digits that grow with time), below `$BACKTRAIL_DIR`
//! (default [`DEFAULT_DIR`]):
//!
//! - [`PROCESS_FILE`]: a [`ProcessHeader`], then a [`Registration`] per unit;
//! - `thread-TID-N` ([`THREAD_FILE_PREFIX`]): a [`ThreadHeader`], then events of
//!   four bytes each; `N` is [`ThreadHeader::ordinal`].
//!
//! All numbers are little-endian. Event 0 means "nothing yet": a file is
//! allocated ahead of what is written, so the zeros at its end are not events.
//! A zero with an event behind it is an event that was begun and never
//! finished: its thread left a signal handler by `longjmp` at that moment.
//!
//! A thread's file has only the lengths that [`next_thread_length`] gives,
//! starting from 0; any other length means that something cut it.

/// `void __backtrail_log(struct descriptor *, uint32_t block)`
pub const LOG_FUNCTION: &str = "__backtrail_log";

/// `void __backtrail_land(struct descriptor *, uint32_t number, uint32_t depths,
/// uint64_t depth)`: sets the thread's [`DEPTH_VARIABLE`] to `depth`, and logs
/// `number` and `depths + depth - 1`.
pub const LAND_FUNCTION: &str = "__backtrail_land";

/// Where numbers of units are given before the program runs, probes take slots by
/// themselves. They find the state of their thread by this pointer, which is in
/// thread storage and seen in its own module only: 0, or the address of
///
/// ```text
/// uint64_t word;        // STATE_WORD
/// char *ends[];         // STATE_ENDS
/// ```
///
/// Adding 4 to `word` in one instruction takes a slot, if what it was has a lower
/// half that is negative: so far before the end of a window, whose number is the
/// upper half. Otherwise they call [`NOTE_FUNCTION`].
pub const THREAD_VARIABLE: &str = "__backtrail_thread";

/// See [`THREAD_VARIABLE`].
pub const STATE_WORD: usize = 0;

/// See [`THREAD_VARIABLE`].
pub const STATE_ENDS: usize = 8;

/// `void __backtrail_note(uint32_t event)`, hidden: logs an event when a probe
/// cannot. It changes no register but the flags.
pub const NOTE_FUNCTION: &str = "__backtrail_note";

/// How many bits of a sum are the number of a path, where the rest counts
/// iterations. A count is logged before its path, if it is not 0: in words with
/// the bit [`COUNT`] and 31 bits of the count each, the lowest first.
pub const PATH_BITS: u32 = 16;

/// See [`PATH_BITS`]. Where counts are logged, no event has this bit.
pub const COUNT: u32 = 1 << 31;

/// `_Thread_local uint64_t __backtrail_depth`: how many frames a thread has that
/// may be come back to from deeper ones.
pub const DEPTH_VARIABLE: &str = "__backtrail_depth";

/// How many depths a log tells apart; deeper frames all have the last.
pub const DEPTHS: u32 = 1 << 16;

/// The environment variable that names the folder for records.
pub const DIR_VARIABLE: &str = "BACKTRAIL_DIR";

/// The environment variable that says how many bytes the logs of a process may
/// take, in decimal; none or 0 is no bound. What is in [`ProcessHeader`]'s file does
/// not count.
pub const DISK_VARIABLE: &str = "BACKTRAIL_DISK";

/// The folder for records when nothing else is said.
pub const DEFAULT_DIR: &str = "./backtrail-records";

/// The name of the per-process file.
pub const PROCESS_FILE: &str = "process";

/// How the names of thread files begin.
pub const THREAD_FILE_PREFIX: &str = "thread-";

/// The first bytes of the per-process file.
pub const PROCESS_MAGIC: [u8; 8] = *b"BTPROC\x01\n";

/// The first bytes of a thread's file.
pub const THREAD_MAGIC: [u8; 8] = *b"BTEVNT\x01\n";

/// The lowest event number a unit can get.
pub const FIRST_BASE: u32 = 1;

/// What every instrumented unit holds, in its writable data.
#[repr(C)]
pub struct Descriptor {
    /// The unit.
    pub unit: [u8; 16],
    /// How many blocks it has in all its functions.
    pub blocks: u32,
    /// The event number of its block 0; 0 until the unit is registered. Where it
    /// is given before the program runs, the unit is not registered.
    pub base: core::sync::atomic::AtomicU32,
}

/// The longest path kept in a process header, with its final zero.
pub const PATH_BYTES: usize = 4096;

/// The start of the per-process file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ProcessHeader {
    /// [`PROCESS_MAGIC`]; written last, so a header that has it is whole.
    pub magic: [u8; 8],
    /// [`crate::VERSION`].
    pub version: u32,
    /// The process.
    pub pid: u32,
    /// Its parent when the folder was made.
    pub parent: u32,
    /// The process it is a fork of, if that one had a record too: then its
    /// events start in the middle of a function. 0 after an `exec`.
    pub forked_from: u32,
    /// Nonzero: the record is incomplete; see [`Incomplete`].
    pub incomplete: u32,
    /// The error number that goes with it.
    pub error: u32,
    /// How many [`Registration`]s follow.
    pub registrations: u32,
    /// Zero.
    pub reserved: u32,
    /// The executable, as the kernel names it, ended by a zero.
    pub executable: [u8; PATH_BYTES],
}

/// Why a record is incomplete.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u32)]
pub enum Incomplete {
    /// A file could not be created or opened again.
    Create = 1,
    /// A file could not be extended: the disk is full or a limit was reached.
    Extend = 2,
    /// A file could not be mapped.
    Map = 3,
    /// More units, threads or events than the format can number.
    Limit = 4,
    /// A thread got no counters of its own and shares another's.
    Shared = 5,
    /// A process was made behind the C library's back and counted, for a while,
    /// in its parent's record.
    RawFork = 6,
    /// The logs may take no more space ([`DISK_VARIABLE`]).
    Bound = 7,
}

impl Incomplete {
    /// The reason with this number.
    pub const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Create),
            2 => Some(Self::Extend),
            3 => Some(Self::Map),
            4 => Some(Self::Limit),
            5 => Some(Self::Shared),
            6 => Some(Self::RawFork),
            7 => Some(Self::Bound),
            _ => None,
        }
    }
}

/// A unit's range of event numbers.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
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
#[derive(Clone, Copy, Debug)]
pub struct ThreadHeader {
    /// [`THREAD_MAGIC`]; written last, so a header that has it is whole.
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

/// The length of a thread's file after its first allocation.
pub const FIRST_THREAD_LENGTH: u64 = 4 << 10;

/// The most a thread's file grows by at once.
pub const LARGEST_GROWTH: u64 = 16 << 20;

/// The length a thread's file of `length` bytes grows to: it doubles, so that a
/// short thread costs a page and a long one few system calls.
pub const fn next_thread_length(length: u64) -> u64 {
    if length == 0 {
        FIRST_THREAD_LENGTH
    } else if length < LARGEST_GROWTH {
        length * 2
    } else {
        length.saturating_add(LARGEST_GROWTH)
    }
}

/// Whether a thread's file that nothing has cut can be `length` bytes long.
pub const fn is_thread_length(length: u64) -> bool {
    if length < LARGEST_GROWTH {
        length == 0 || (length >= FIRST_THREAD_LENGTH && length.is_power_of_two())
    } else {
        length.is_multiple_of(LARGEST_GROWTH)
    }
}

/// Why bytes are not the header they should be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HeaderError {
    /// There are fewer bytes than a header has.
    Short(usize),
    /// All zero: the process was stopped before it wrote the header.
    Unwritten,
    /// They begin with something else.
    Magic([u8; 8]),
    /// A version this code cannot read.
    Version(u32),
}

/// Reads little-endian fields one after another from bytes known to be enough.
pub(crate) struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    pub(crate) fn take<const N: usize>(&mut self) -> [u8; N] {
        let (field, rest) = self.0.split_first_chunk().unwrap_or((&[0; N], &[]));
        self.0 = rest;
        *field
    }

    pub(crate) fn number(&mut self) -> u32 {
        u32::from_le_bytes(self.take())
    }
}

/// Checks length, magic and version, and leaves the fields behind them.
pub(crate) fn open_header(
    bytes: &[u8],
    size: usize,
    magic: [u8; 8],
) -> Result<(Fields<'_>, u32), HeaderError> {
    if bytes.len() < size {
        return Err(HeaderError::Short(bytes.len()));
    }
    let mut fields = Fields(bytes);
    let found = fields.take();
    if found == [0; 8] {
        return Err(HeaderError::Unwritten);
    }
    if found != magic {
        return Err(HeaderError::Magic(found));
    }
    let version = fields.number();
    if version != crate::VERSION {
        return Err(HeaderError::Version(version));
    }
    Ok((fields, version))
}

impl ProcessHeader {
    /// Bytes of a header in a file.
    pub const BYTES: usize = size_of::<Self>();

    /// Reads the header `bytes` start with.
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        let (mut fields, version) = open_header(bytes, Self::BYTES, PROCESS_MAGIC)?;
        Ok(Self {
            magic: PROCESS_MAGIC,
            version,
            pid: fields.number(),
            parent: fields.number(),
            forked_from: fields.number(),
            incomplete: fields.number(),
            error: fields.number(),
            registrations: fields.number(),
            reserved: fields.number(),
            executable: fields.take(),
        })
    }

    /// The executable's path, without the zeros behind it.
    pub fn executable(&self) -> &[u8] {
        self.executable.split(|&byte| byte == 0).next().unwrap_or_default()
    }
}

impl Registration {
    /// Bytes of a registration in a file.
    pub const BYTES: usize = size_of::<Self>();

    /// Reads one registration.
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let mut fields = Fields(bytes);
        Self { unit: fields.take(), base: fields.number(), blocks: fields.number() }
    }
}

impl ThreadHeader {
    /// Bytes of a header in a file.
    pub const BYTES: usize = size_of::<Self>();

    /// Reads the header `bytes` start with.
    pub fn read(bytes: &[u8]) -> Result<Self, HeaderError> {
        let (mut fields, version) = open_header(bytes, Self::BYTES, THREAD_MAGIC)?;
        Ok(Self {
            magic: THREAD_MAGIC,
            version,
            tid: fields.number(),
            ordinal: fields.number(),
            reserved: fields.number(),
        })
    }
}
