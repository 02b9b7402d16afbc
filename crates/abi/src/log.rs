//! The block log: every executed block, per thread, in order.
//!
//! Each instrumented unit holds one hidden [`Descriptor`]. An executed block is
//! a call of [`LOG_FUNCTION`] with the descriptor and the block's number within
//! the unit (blocks of all functions counted through, in order). The first call
//! finds [`Descriptor::base`] zero and registers the unit, which gives it a
//! range of event numbers; from then on an event is `base + block`. So there is
//! no constructor to wait for, and only units that run are registered. A unit
//! that is in the process twice (an executable and a library, a library loaded
//! again) has one range. What else is in such a log says which activation each
//! block is of: [`crate::frames`].
//!
//! A process writes into a folder of its own, `PID-NONCE` (decimal, then
//! sixteen hexadecimal digits that grow with time), below `$BACKTRAIL_DIR`
//! (default [`DEFAULT_DIR`]):
//!
//! - [`PROCESS_FILE`]: a [`ProcessHeader`], then a [`Registration`] per unit, and in
//!   between those the modules that the process is made of ([`crate::modules`]);
//! - `thread-TID-N` ([`THREAD_FILE_PREFIX`]): a [`ThreadHeader`], then events of
//!   four bytes each; `N` is [`ThreadHeader::ordinal`]. Behind the first [`SEGMENT`]
//!   bytes come segments of that size, each with a [`SegmentHeader`] before its
//!   events;
//! - `packed-TID-N` ([`PACKED_FILE_PREFIX`]), if somebody packed while the program
//!   ran: events of segments that were full, compressed, a [`PackedHeader`] before
//!   each.
//!
//! # Segments
//! A thread fills one segment after the other. [`SegmentHeader::sequence`] says in
//! which order. When all slots of a segment are filled, its state becomes [`FULL`]:
//! from then on the thread leaves it alone until it is [`FREE`]. Whoever runs the
//! program may pack a full segment: append its events to the packed file, zero them,
//! and then make it free. The thread takes a free segment if there is one, and
//! extends the file if there is none: it never waits. So what is logged is in the
//! file or in the packed file at any moment, for a moment in both, and whoever is
//! stopped loses nothing; without a packer the file just grows. A segment that the
//! thread will not take again has [`SegmentHeader::left`] set, and may become a hole
//! once it is packed; holes, and segments that were made and not taken, have sequence
//! number 0. Files are extended by more than a segment at a time.
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
/// uint64_t depth)`: sets the thread's depth ([`STATE_DEPTH`]) to `depth`, and logs
/// `number` and `depths + depth - 1`.
pub const LAND_FUNCTION: &str = "__backtrail_land";

/// `void __backtrail_interrupt(struct descriptor *, uint32_t number, void **return_address)`,
/// with where the return address of the caller is: logs `number` if that was called
/// by the kernel, as the handler of a signal that the process did not send itself.
pub const INTERRUPT_FUNCTION: &str = "__backtrail_interrupt";

/// The state of a thread, by a pointer in thread storage that each module has for
/// itself: 0, or the address of what all modules share for this thread,
///
/// ```text
/// uint64_t word;        // STATE_WORD
/// void **frame;         // frames::STATE_FRAME
/// uint64_t depth;       // STATE_DEPTH
/// ```
///
/// Where numbers of units are given before the program runs, probes take slots by
/// themselves. Adding 4 to `word` in one instruction takes the slot at the address that
/// it was, if that has the bit [`SEGMENT`]; memory that is logged to ends where that bit
/// changes. Otherwise, and if there is no state yet, they call [`NOTE_FUNCTION`].
pub const THREAD_VARIABLE: &str = "__backtrail_thread";

/// See [`THREAD_VARIABLE`].
pub const STATE_WORD: usize = 0;

/// How many frames a thread has that may be come back to from deeper ones. It is on a
/// page that the child of a fork keeps.
pub const STATE_DEPTH: usize = crate::frames::STATE_FRAME + 8;

/// `void __backtrail_note(uint32_t event)`: logs an event when a probe cannot. With 0
/// it logs nothing, and sees to it that the thread has a state, if it can have one. It
/// changes no register but the flags.
pub const NOTE_FUNCTION: &str = "__backtrail_note";

/// How many bits of a sum are the number of a path, where the rest counts
/// iterations. A count is logged before its path, if it is not 0: in words with
/// the bit [`COUNT`] and 31 bits of the count each, the lowest first.
pub const PATH_BITS: u32 = 16;

/// See [`PATH_BITS`]. Where counts are logged, no event has this bit.
pub const COUNT: u32 = 1 << 31;

/// How many depths a log tells apart; deeper frames all have the last.
pub const DEPTHS: u32 = 1 << 16;

/// The environment variable that names the folder for records.
pub const DIR_VARIABLE: &str = "BACKTRAIL_DIR";

/// The environment variable that says how many bytes the logs or the counters of a
/// process may take, in decimal, with `k`, `M` or `G` behind it or without: the lengths
/// of threads' files with [`ProcessHeader::packed_kibibytes`], or those of files of
/// counters. None, or an empty one, is no bound; 0 is room for nothing, and so is what
/// cannot be read. What is in [`ProcessHeader`]'s file does not count.
pub const DISK_VARIABLE: &str = "BACKTRAIL_DISK";

/// The folder for records when nothing else is said.
pub const DEFAULT_DIR: &str = "./backtrail-records";

/// The name of the per-process file.
pub const PROCESS_FILE: &str = "process";

/// How the names of thread files begin.
pub const THREAD_FILE_PREFIX: &str = "thread-";

/// How the names of files begin that hold packed segments of a thread.
pub const PACKED_FILE_PREFIX: &str = "packed-";

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
    /// How many [`Registration`]s follow, the rows of modules included.
    pub registrations: u32,
    /// What packed files of its threads take; written by whoever packs.
    pub packed_kibibytes: u32,
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
    /// Logs or counters may take no more space ([`DISK_VARIABLE`]).
    Bound = 7,
    /// The folder or a file of the record was replaced or changed by somebody.
    Changed = 8,
    /// [`DISK_VARIABLE`] was no size, and nothing was recorded.
    NoSize = 9,
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
            8 => Some(Self::Changed),
            9 => Some(Self::NoSize),
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
    /// Of the thread that a fork's child began with: how many slots for events the
    /// thread of [`ProcessHeader::forked_from`] had taken that forked, and one more.
    /// 0: that is not known, because nobody told the C library; or the thread did not
    /// begin so.
    pub forked_at: u32,
    /// The ordinal of the thread that forked, if `forked_at` is not 0.
    pub forked_by: u32,
}

/// The length of a thread's file after its first allocation.
pub const FIRST_THREAD_LENGTH: u64 = 4 << 10;

/// The most a thread's file grows by at once.
pub const LARGEST_GROWTH: u64 = 16 << 20;

/// The size of a segment: small enough for caches when a few are in use. A power of
/// two.
pub const SEGMENT: u64 = 256 << 10;

/// [`SegmentHeader::state`]: not in use, and all slots are zero.
pub const FREE: u32 = 0;

/// [`SegmentHeader::state`]: a thread logs there, or may still fill a slot.
pub const USED: u32 = 1;

/// [`SegmentHeader::state`]: all slots are filled.
pub const FULL: u32 = 2;

/// The start of each segment.
#[repr(C, align(64))]
#[derive(Clone, Copy, Debug)]
pub struct SegmentHeader {
    /// The how manieth segment of its thread it is, from 1; 0: it never was one.
    pub sequence: u64,
    /// [`FREE`], [`USED`] or [`FULL`].
    pub state: u32,
    /// Not 0: the thread will not take it again.
    pub left: u32,
}

impl SegmentHeader {
    /// Bytes of a header in a file.
    pub const BYTES: usize = size_of::<Self>();

    /// Where the state is in a header.
    pub const STATE_OFFSET: usize = core::mem::offset_of!(Self, state);

    /// Reads a header.
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let mut fields = Fields(bytes);
        Self {
            sequence: u64::from_le_bytes(fields.take()),
            state: fields.number(),
            left: fields.number(),
        }
    }
}

/// Bytes of events in a segment.
pub const SEGMENT_EVENTS: usize = SEGMENT as usize - SegmentHeader::BYTES;

/// What is before each packed segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PackedHeader {
    /// The segment's.
    pub sequence: u64,
    /// How many bytes follow: a zstd frame, or, if they are [`SEGMENT_EVENTS`], the
    /// events as they are.
    pub bytes: u32,
}

impl PackedHeader {
    /// Bytes of a header in a file.
    pub const BYTES: usize = 12;

    /// Reads a header.
    pub fn read(bytes: &[u8; Self::BYTES]) -> Self {
        let mut fields = Fields(bytes);
        Self { sequence: u64::from_le_bytes(fields.take()), bytes: fields.number() }
    }

    /// The header as it is in a file.
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let (sequence, length) = bytes.split_at_mut(8);
        sequence.copy_from_slice(&self.sequence.to_le_bytes());
        length.copy_from_slice(&self.bytes.to_le_bytes());
        bytes
    }
}

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

/// Where memory ends that a thread logs to, if it begins at `start` in its file: small
/// at first, then a segment.
pub const fn window_end(start: u64) -> u64 {
    if start < SEGMENT { next_thread_length(start) } else { start.saturating_add(SEGMENT) }
}

/// Whether the events of a thread and its header can be so many bytes, without the
/// headers of segments, if nothing has cut them.
pub const fn is_log_length(length: u64) -> bool {
    if length < SEGMENT {
        is_thread_length(length)
    } else {
        (length - SEGMENT).is_multiple_of(SEGMENT_EVENTS as u64)
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
            packed_kibibytes: fields.number(),
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
            forked_at: fields.number(),
            forked_by: fields.number(),
        })
    }
}
