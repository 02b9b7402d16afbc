//! Counters: how often each path of each function was taken.
//!
//! # Where counters are
//! A module (an executable or a shared library) that counts has one *area*:
//! zero bytes in memory and none in the file, aligned and padded to pages, so
//! that no page of it holds anything of the program's. Its first page begins
//! with the *owner* word ([`OWNER_SYMBOL`]) and holds nothing else. The second page
//! begins with the *order* word ([`ORDER_SYMBOL`]), which functions change as they are
//! entered, where that is asked for. Counters of eight bytes follow, those of a unit
//! next to each other behind the unit's symbol ([`UNIT_SYMBOL_PREFIX`] and its id).
//!
//! # How code finds them
//! Injected code reaches all of this through the `%gs` segment: what is added
//! to is `counter + gs base`. Linux leaves the base to the program, and it is
//! zero when a program starts. So the first thread counts in the area itself,
//! with one instruction and no register; every further thread gets a copy of
//! all areas at one distance from the originals, and that distance is its gs
//! base. Nothing is shared between threads, nothing needs to be atomic.
//!
//! A function that code without probes may call begins with a check: if the
//! owner word is not the thread pointer (`%fs:0`), it calls [`ENTER_FUNCTION`].
//! That is so for the first such call in a process (the owner is 0), in a new
//! thread (which inherits the base of the thread that made it) and in the child
//! of a fork (the owner's page is wiped there). Functions that are called by
//! probed code alone need no check, and neither does code that runs before
//! threads have a pointer: it counts in the area, which is at that time
//! ordinary memory, and the runtime keeps what it finds there.
//!
//! # What is recorded
//! In the folder of the process (see [`crate::log`], whose process file and
//! whose rules for folders hold here, too), one file per module and copy of its
//! area, `counts-MODULE-COPY` ([`COUNTS_FILE_PREFIX`], both decimal): a
//! [`CountsHeader`] in a page of its own, then the pages of the area but its
//! first. A counter's place in the file is its place in the area.
//!
//! A thread that begins may take over the copy of one that has ended, and a
//! library that is unloaded and loaded again goes on in its files: counts add up.

/// `void __backtrail_enter(struct module *)`, called by the calling convention
/// `preserve_all`: it changes no register, vector registers included. Nor must
/// the way to it: a procedure linkage table that is bound late changes `r10` and
/// `r11`, so the call goes through `__backtrail_enter@GOTPCREL(%rip)`.
pub const ENTER_FUNCTION: &str = "__backtrail_enter";

/// `void __backtrail_load(void)`, hidden: makes the module known to the runtime.
/// The runtime has itself called by a module's first constructor. Whoever links
/// an executable puts its address into `.preinit_array` as well, which is before
/// constructors of libraries can start threads.
pub const LOAD_FUNCTION: &str = "__backtrail_load";

/// The module's own [`Module`], hidden.
pub const MODULE_SYMBOL: &str = "__backtrail_module";

/// The first word of the module's area, hidden.
pub const OWNER_SYMBOL: &str = "__backtrail_owner";

/// The word of the module's area that says in which order functions were entered, hidden.
pub const ORDER_SYMBOL: &str = "__backtrail_order";

/// Where it is in the area.
pub const ORDER_OFFSET: u64 = PAGE_BYTES;

/// Where the first counter may be.
pub const FIRST_COUNTER: u64 = ORDER_OFFSET + 8;

/// How the symbols of units' counters begin; 32 hexadecimal digits follow.
pub const UNIT_SYMBOL_PREFIX: &str = "__backtrail_counts_";

/// The section of a variant that holds the layout of its counters. Not
/// allocated.
pub const LAYOUT_SECTION: &str = ".backtrail.layout";

/// How the names of files with counters begin.
pub const COUNTS_FILE_PREFIX: &str = "counts-";

/// The first bytes of a file with counters.
pub const COUNTS_MAGIC: [u8; 8] = *b"BTCNTS\x01\n";

/// How the names of files begin that hold the counters of a process that has ended,
/// packed: what is behind is as in the name of the file that they were in. While that
/// is there, it counts.
pub const ENDED_FILE_PREFIX: &str = "ended-";

/// The first bytes of such a file: a [`CountsHeader`] with these, and then a zstd frame of
/// the pages behind the header's that are not zero, in order, each behind its number in
/// the file (eight bytes).
pub const PACKED_COUNTS_MAGIC: [u8; 8] = *b"BTPCNT\x02\n";

/// Bytes of a page: what the area is aligned and padded to.
pub const PAGE_BYTES: u64 = 4096;

/// What a module says of itself. Written by whoever links the module; only
/// [`Module::state`] changes.
#[repr(C)]
pub struct Module {
    /// [`crate::VERSION`].
    pub version: u32,
    /// Zero.
    pub reserved: u32,
    /// Identifies the layout of the counters.
    pub layout: [u8; 16],
    /// The distance from this structure to the area.
    pub area: i64,
    /// Bytes of the area, a multiple of [`PAGE_BYTES`], at least two pages.
    pub bytes: u64,
    /// For the runtime; 0 at first.
    pub state: core::sync::atomic::AtomicU64,
}

/// The start of a file with counters.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CountsHeader {
    /// [`COUNTS_MAGIC`]; written last, so a header that has it is whole.
    pub magic: [u8; 8],
    /// [`crate::VERSION`].
    pub version: u32,
    /// The number of the module within its process.
    pub module: u32,
    /// The number of the copy; 0 is the area itself.
    pub copy: u32,
    /// Zero.
    pub reserved: u32,
    /// [`Module::layout`].
    pub layout: [u8; 16],
    /// [`Module::bytes`].
    pub bytes: u64,
}

impl CountsHeader {
    /// Bytes of a header in a file; the rest of its page is zero.
    pub const BYTES: usize = size_of::<Self>();

    /// Reads the header `bytes` start with.
    pub fn read(bytes: &[u8]) -> Result<Self, crate::log::HeaderError> {
        let (mut fields, version) = crate::log::open_header(bytes, Self::BYTES, COUNTS_MAGIC)?;
        Ok(Self {
            magic: COUNTS_MAGIC,
            version,
            module: fields.number(),
            copy: fields.number(),
            reserved: fields.number(),
            layout: fields.take(),
            bytes: u64::from_le_bytes(fields.take()),
        })
    }

    /// The length of a file with this header.
    pub const fn file_bytes(&self) -> u64 {
        self.bytes
    }
}
