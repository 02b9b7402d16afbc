//! What the threads of a process share: its folder and its units.
//!
//! Two kinds of memory. [`Control`] is wiped in a fork's child: the lock, and
//! everything that belongs to one process. [`KEPT`] is inherited: where records
//! go, as an absolute path that was found at the first event (so a later
//! `chdir` or a changed environment does not matter), and which units have which
//! numbers, because their descriptors are inherited too. A child copies the
//! registrations it inherited from its parent's process file, which stays
//! mapped for that purpose, into its own; how many were there at the fork is
//! in private memory.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::log::{
    DEFAULT_DIR, Descriptor as Unit, FIRST_BASE, Incomplete, PATH_BYTES, PROCESS_MAGIC,
    ProcessHeader, Registration,
};

use crate::environment::{self, Variable};
use crate::file::{Failure, Request};
use crate::lock::{Guard, Lock};
use crate::name::Text;
use crate::sys::{self, Path};
use crate::thread::State;

/// `PID-NONCE` and its slash and zero, at most.
const FOLDER_NAME_BYTES: usize = 32;
const FOLDER_BYTES: usize = PATH_BYTES + FOLDER_NAME_BYTES;
const PIECE_BYTES: usize = 1024;
const FIRST_PROCESS_LENGTH: u64 = 8192;

const DIR_PREFIX: &[u8] = b"BACKTRAIL_DIR=";
const DISK_PREFIX: &[u8] = b"BACKTRAIL_DISK=";
const PROCESS_NAME: &[u8] = b"process\0";

/// Where a process is in its recording.
#[derive(Clone, Copy, PartialEq)]
#[repr(u32)]
enum Phase {
    /// No event yet.
    New = 0,
    /// Its folder and process file exist.
    Recording = 1,
    /// Recording failed before a thread could say so in its own state.
    Stopped = 2,
}

/// What belongs to one process. All zero is a process without events.
#[repr(C)]
pub(crate) struct Control {
    lock: Lock,
    phase: AtomicU32,
    /// The process that made the record.
    pid: AtomicU32,
    /// How many threads have logged.
    threads: AtomicU32,
    /// Bytes that their logs take.
    space: AtomicU64,
    /// What this process inherits and passes on; null: [`KEPT`].
    kept: AtomicPtr<Kept>,
    /// The process file as it is mapped now; changed under the lock.
    header: AtomicPtr<ProcessHeader>,
    /// The states of all threads, and where the next search for dead ones begins.
    pub(crate) states: AtomicPtr<State>,
    pub(crate) hand: AtomicPtr<State>,
    folder_length: AtomicUsize,
    folder: UnsafeCell<[u8; FOLDER_BYTES]>,
    piece: UnsafeCell<[u8; PIECE_BYTES]>,
}

// SAFETY: `folder` and `piece` are written only under the lock in phase `New`,
// and `folder` is read only after phase `Recording` was seen.
unsafe impl Sync for Control {}

/// What is inherited by a fork's child. All zero is a process without events.
pub(crate) struct Kept {
    /// The path of the folder for records, absolute, ended by a zero.
    root: UnsafeCell<[u8; PATH_BYTES]>,
    /// Its length with the zero; 0 until it is known.
    root_length: AtomicUsize,
    /// Where the process file is mapped, and how many bytes of it.
    table: AtomicUsize,
    table_bytes: AtomicUsize,
    /// Registrations in it (high half) and the next free event number (low).
    numbers: AtomicU64,
    /// The process it belongs to.
    pid: AtomicU32,
    /// How many bytes logs may take; 0 is any number.
    disk: AtomicU64,
}

// SAFETY: `root` is written only under the lock while `root_length` is 0.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept {
    root: UnsafeCell::new([0; PATH_BYTES]),
    root_length: AtomicUsize::new(0),
    table: AtomicUsize::new(0),
    table_bytes: AtomicUsize::new(0),
    numbers: AtomicU64::new(0),
    pid: AtomicU32::new(0),
    disk: AtomicU64::new(0),
};

impl Kept {
    /// Notes in the process file that is mapped, which in the child of a fork is
    /// its parent's until the child makes its own, that it is incomplete.
    pub(crate) fn note_in_inherited(&self, failure: Failure) {
        let table = Table::kept(self);
        if table.address != 0 && table.bytes >= ProcessHeader::BYTES {
            note_in(ptr::with_exposed_provenance_mut(table.address), failure);
        }
    }
}

/// Notes in a mapped process file why it is incomplete, unless it says so.
fn note_in(header: *mut ProcessHeader, failure: Failure) {
    // SAFETY: the caller's file is mapped; both fields are aligned and accessed
    // as atomics.
    let (incomplete, error) = unsafe {
        (
            AtomicU32::from_ptr(&raw mut (*header).incomplete),
            AtomicU32::from_ptr(&raw mut (*header).error),
        )
    };
    // The first failure is the one that explains.
    if incomplete.load(Ordering::Relaxed) == 0 {
        error.store(failure.error.0, Ordering::Release);
        incomplete.store(failure.why as u32, Ordering::Release);
    }
}

static CONTROL: AtomicPtr<Control> = AtomicPtr::new(ptr::null_mut());

/// Set when there is not even memory for a [`Control`].
static HOPELESS: AtomicU32 = AtomicU32::new(0);

fn create(error: sys::Error) -> Failure {
    Failure::new(Incomplete::Create, error)
}

impl Control {
    /// The process's control, made if this is the first event of all.
    pub(crate) fn get() -> Option<&'static Self> {
        let mut control = CONTROL.load(Ordering::Acquire);
        if control.is_null() {
            if HOPELESS.load(Ordering::Relaxed) != 0 {
                return None;
            }
            let Ok(address) = sys::map_wiped_on_fork(size_of::<Self>()) else {
                HOPELESS.store(1, Ordering::Relaxed);
                return None;
            };
            let new = ptr::with_exposed_provenance_mut(address);
            match CONTROL.compare_exchange(
                ptr::null_mut(),
                new,
                Ordering::AcqRel,
                Ordering::Acquire,
            ) {
                Ok(_) => control = new,
                Err(other) => {
                    control = other;
                    // SAFETY: nobody has seen this mapping.
                    unsafe { sys::unmap(address, size_of::<Self>()) };
                }
            }
        }
        // SAFETY: the mapping is never unmapped, large enough, aligned, and all
        // zero is a valid `Control`.
        Some(unsafe { &*control })
    }

    /// Makes this control use `kept` instead of what the log part keeps. Does
    /// nothing new when it is called again, as it must be after a fork.
    pub(crate) fn keep_in(&self, kept: &'static Kept) {
        self.kept.store(ptr::from_ref(kept).cast_mut(), Ordering::Relaxed);
    }

    fn kept(&self) -> &'static Kept {
        // SAFETY: null, or what `keep_in` was given.
        unsafe { self.kept.load(Ordering::Relaxed).as_ref() }.unwrap_or(&KEPT)
    }

    /// Whether there is a process file.
    pub(crate) fn is_recording(&self) -> bool {
        self.phase.load(Ordering::Acquire) == Phase::Recording as u32
    }

    /// Whether no thread without a state can record any more.
    pub(crate) fn is_stopped(&self) -> bool {
        self.phase.load(Ordering::Relaxed) == Phase::Stopped as u32
    }

    /// Whether no thread could ever record, found out without changing anything.
    pub(crate) fn known_to_be_stopped() -> bool {
        let control = CONTROL.load(Ordering::Acquire);
        if control.is_null() {
            return HOPELESS.load(Ordering::Relaxed) != 0;
        }
        // SAFETY: as in `get`.
        unsafe { &*control }.is_stopped()
    }

    /// Takes the lock; the caller has all signals blocked.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.lock.take()
    }

    /// Whether the caller is of the process that made the record, and not of
    /// another one that shares its memory.
    pub(crate) fn is_own_process(&self) -> bool {
        sys::process_id() == self.pid()
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid.load(Ordering::Relaxed)
    }

    /// The number of the next thread. Under the lock.
    pub(crate) fn next_ordinal(&self) -> u32 {
        let ordinal = self.threads.load(Ordering::Relaxed);
        self.threads.store(ordinal.wrapping_add(1), Ordering::Relaxed);
        ordinal
    }

    /// Notes that a log grows by so many bytes; an error if it may not.
    pub(crate) fn take_space(&self, bytes: u64) -> Result<(), Failure> {
        let bound = self.kept().disk.load(Ordering::Relaxed);
        let before = self.space.fetch_add(bytes, Ordering::Relaxed);
        if bound != 0 && before.saturating_add(bytes).saturating_add(self.packed()) > bound {
            return Err(Failure::new(Incomplete::Bound, sys::Error(0)));
        }
        Ok(())
    }

    /// An error if logs take more than they may, with what was packed meanwhile.
    pub(crate) fn check_space(&self) -> Result<(), Failure> {
        self.take_space(0)
    }

    /// What packed files take, as whoever packs says.
    fn packed(&self) -> u64 {
        let _guard = self.lock();
        let header = self.header.load(Ordering::Relaxed);
        if header.is_null() {
            return 0;
        }
        // SAFETY: the process file stays mapped while the lock is held; the field is
        // aligned, and accessed as an atomic.
        let kibibytes = unsafe { AtomicU32::from_ptr(&raw mut (*header).packed_kibibytes) };
        u64::from(kibibytes.load(Ordering::Relaxed)) << 10
    }

    /// The process's folder, once it records.
    pub(crate) fn folder(&self) -> Result<Path<'_>, Failure> {
        // SAFETY: not written any more.
        let folder = unsafe { &*self.folder.get() };
        let length = self.folder_length.load(Ordering::Relaxed);
        folder.get(..length).and_then(Path::new).ok_or(create(sys::ENOENT))
    }

    /// Makes the process's folder and file unless that was done.
    pub(crate) fn begin(&self) -> Result<(), Failure> {
        if self.is_recording() {
            return Ok(());
        }
        let _guard = self.lock();
        if self.phase.load(Ordering::Acquire) == Phase::New as u32 {
            match self.make_record() {
                Ok(()) => self.phase.store(Phase::Recording as u32, Ordering::Release),
                Err(failure) => {
                    self.stop_locked(failure);
                    return Err(failure);
                }
            }
        }
        if self.is_stopped() { Err(create(sys::EIO)) } else { Ok(()) }
    }

    /// Notes in the process header why the record is incomplete.
    pub(crate) fn note(&self, failure: Failure) {
        let _guard = self.lock();
        self.note_locked(failure);
    }

    /// Notes a failure after which no further thread can begin to record.
    pub(crate) fn stop_locked(&self, failure: Failure) {
        self.note_locked(failure);
        self.phase.store(Phase::Stopped as u32, Ordering::Release);
    }

    fn note_locked(&self, failure: Failure) {
        let header = self.header.load(Ordering::Relaxed);
        if header.is_null() {
            return;
        }
        // The process file stays mapped while the lock is held.
        note_in(header, failure);
    }

    /// The base of a unit, registered if it was not.
    pub(crate) fn base_of(&self, unit: &Unit) -> Result<u32, Failure> {
        let base = unit.base.load(Ordering::Acquire);
        if base != 0 {
            return Ok(base);
        }
        let _guard = self.lock();
        match unit.base.load(Ordering::Acquire) {
            0 => {
                let base = self.register(unit)?;
                unit.base.store(base, Ordering::Release);
                Ok(base)
            }
            base => Ok(base),
        }
    }

    fn register(&self, unit: &Unit) -> Result<u32, Failure> {
        let table = Table::kept(self.kept());
        if let Some(base) = table.find(unit) {
            return Ok(base);
        }
        let (count, base) = (table.count, table.next);
        let next =
            base.checked_add(unit.blocks).ok_or(Failure::new(Incomplete::Limit, sys::EOVERFLOW))?;
        let table = if table.capacity() > count { table } else { self.grow(&table)? };
        // SAFETY: there is room for this entry and it is ours under the lock.
        unsafe {
            table.entry(count).write(Registration { unit: unit.unit, base, blocks: unit.blocks });
        }
        // First the entry, then its count in the file, then the count children
        // inherit, then the descriptor: each step is true without the next.
        let header = self.header.load(Ordering::Relaxed);
        // SAFETY: the header is mapped and the field aligned.
        unsafe { AtomicU32::from_ptr(&raw mut (*header).registrations) }
            .store(count + 1, Ordering::Release);
        self.kept().numbers.store(u64::from(count + 1) << 32 | u64::from(next), Ordering::Release);
        Ok(base)
    }

    /// Doubles the process file.
    fn grow(&self, table: &Table) -> Result<Table, Failure> {
        let from = table.bytes as u64;
        let name = Path::new(PROCESS_NAME).ok_or(create(sys::ENOENT))?;
        let request = Request { folder: self.folder()?, name, from, to: from * 2, mapped_from: 0 };
        let address = request.map()?;
        Table::keep(self.kept(), address, request.bytes());
        self.header.store(ptr::with_exposed_provenance_mut(address), Ordering::Relaxed);
        // SAFETY: the old mapping is used under the lock only, which we hold.
        unsafe { sys::unmap(table.address, table.bytes) };
        Ok(Table { address, bytes: request.bytes(), ..*table })
    }

    /// Finds out where records go, makes the folder and the process file, and
    /// copies what was inherited. Under the lock.
    fn make_record(&self) -> Result<(), Failure> {
        let kept = self.kept();
        // SAFETY: phase `New` and the lock: nobody else uses these.
        let (folder, piece) = unsafe { (&mut *self.folder.get(), &mut *self.piece.get()) };
        if kept.root_length.load(Ordering::Acquire) == 0 {
            // SAFETY: the length is 0 and the lock is held.
            let root = unsafe { &mut *kept.root.get() };
            let length = find_root(root, folder, piece)?;
            make_root(root, length);
            kept.disk.store(find_bound(folder, piece), Ordering::Relaxed);
            kept.root_length.store(length, Ordering::Release);
        }
        // SAFETY: written no more once the length is known.
        let root = unsafe { &*kept.root.get() };
        let root = root.get(..kept.root_length.load(Ordering::Relaxed)).unwrap_or_default();
        let pid = sys::process_id();
        let length = make_folder(root, pid, folder)?;
        self.folder_length.store(length, Ordering::Relaxed);

        let inherited = Table::kept(kept);
        let mut to = FIRST_PROCESS_LENGTH;
        while (Table { bytes: to as usize, ..inherited }).capacity() <= inherited.count {
            to *= 2;
        }
        let name = Path::new(PROCESS_NAME).ok_or(create(sys::ENOENT))?;
        let request = Request { folder: self.folder()?, name, from: 0, to, mapped_from: 0 };
        let table = Table { address: request.map()?, bytes: request.bytes(), ..inherited };
        let header: *mut ProcessHeader = ptr::with_exposed_provenance_mut(table.address);
        let executable = &raw const PROC_EXE;
        // SAFETY: the mapping is new, ours, aligned to a page and larger than a
        // header with as many registrations as are inherited; the inherited
        // entries were written before they were counted.
        unsafe {
            (&raw mut (*header).version).write(VERSION);
            (&raw mut (*header).pid).write(pid);
            (&raw mut (*header).parent).write(sys::parent_id());
            (&raw mut (*header).forked_from).write(kept.pid.load(Ordering::Relaxed));
            (&raw mut (*header).registrations).write(table.count);
            if let Some(link) = Path::new(&*executable) {
                let place = (&raw mut (*header).executable).expose_provenance();
                let _ = sys::read_link(link, place, PATH_BYTES - 1);
            }
            for index in 0..table.count {
                table.entry(index).write(inherited.entry(index).read());
            }
            AtomicU64::from_ptr(header.cast())
                .store(u64::from_le_bytes(PROCESS_MAGIC), Ordering::Release);
        }
        self.pid.store(pid, Ordering::Relaxed);
        self.header.store(header, Ordering::Release);
        Table::keep(kept, table.address, table.bytes);
        kept.pid.store(pid, Ordering::Relaxed);
        if inherited.address != 0 && inherited.bytes != 0 {
            // SAFETY: the parent's file; nothing in this process refers to it.
            unsafe { sys::unmap(inherited.address, inherited.bytes) };
        }
        Ok(())
    }
}

static PROC_EXE: [u8; 15] = *b"/proc/self/exe\0";

/// The registrations in a mapped process file.
#[derive(Clone, Copy)]
struct Table {
    address: usize,
    bytes: usize,
    count: u32,
    next: u32,
}

impl Table {
    /// The table that is mapped now.
    fn kept(kept: &Kept) -> Self {
        let numbers = kept.numbers.load(Ordering::Acquire);
        Self {
            address: kept.table.load(Ordering::Acquire),
            bytes: kept.table_bytes.load(Ordering::Acquire),
            count: (numbers >> 32) as u32,
            next: (numbers as u32).max(FIRST_BASE),
        }
    }

    /// Makes a mapping the one that is kept. Whoever forks in between inherits
    /// a length that is never more than what is mapped.
    fn keep(kept: &Kept, address: usize, bytes: usize) {
        kept.table_bytes.store(0, Ordering::Release);
        kept.table.store(address, Ordering::Release);
        kept.table_bytes.store(bytes, Ordering::Release);
    }

    fn capacity(&self) -> u32 {
        let room = self.bytes.saturating_sub(ProcessHeader::BYTES);
        (room / Registration::BYTES) as u32
    }

    fn entry(&self, index: u32) -> *mut Registration {
        let offset = ProcessHeader::BYTES + index as usize * Registration::BYTES;
        ptr::with_exposed_provenance_mut(self.address + offset)
    }

    /// The base of a unit that was registered by another descriptor.
    fn find(&self, unit: &Unit) -> Option<u32> {
        (0..self.count)
            // SAFETY: entries below the count were written.
            .map(|index| unsafe { self.entry(index).read() })
            .find(|entry| entry.unit == unit.unit && entry.blocks == unit.blocks)
            .map(|entry| entry.base)
    }
}

/// Finds the absolute path of the folder for records; gives its length with
/// the final zero. `value` and `piece` are room to work in.
fn find_root(root: &mut [u8], value: &mut [u8], piece: &mut [u8]) -> Result<usize, Failure> {
    let mut variable = environment::read(DIR_PREFIX, piece, value);
    if variable == Variable::NoDescriptor {
        sys::with_free_descriptors(&mut || variable = environment::read(DIR_PREFIX, piece, value))
            .map_err(create)?;
    }
    let folder = match variable {
        Variable::Unset | Variable::Value(0) => DEFAULT_DIR.as_bytes(),
        Variable::Value(length) => value.get(..length).unwrap_or_default(),
        Variable::TooLong => return Err(create(sys::ENAMETOOLONG)),
        Variable::NoDescriptor => return Err(create(sys::EMFILE)),
    };
    let mut text = if folder.first() == Some(&b'/') {
        Text::after(root, 0)
    } else {
        let length = sys::current_folder(root).map_err(create)?;
        // A current folder outside of the root has a path that is none.
        if root.first() != Some(&b'/') {
            return Err(create(sys::ENOENT));
        }
        let mut text = Text::after(root, length.saturating_sub(1));
        text.push_byte(b'/');
        text
    };
    text.push(folder).push_byte(0).length().ok_or(create(sys::ENAMETOOLONG))
}

/// How many bytes logs may take, as the environment says it; 0 if it does not.
fn find_bound(value: &mut [u8], piece: &mut [u8]) -> u64 {
    let Variable::Value(length) = environment::read(DISK_PREFIX, piece, value) else { return 0 };
    let digits = value.get(..length).unwrap_or_default();
    let number = digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    });
    number.unwrap_or(0)
}

/// Makes the folder for records, and those above it that are missing. Whether
/// that worked shows when something is made in it.
fn make_root(root: &mut [u8], length: usize) {
    let whole = |root: &[u8]| root.get(..length).and_then(Path::new).map(sys::make_folder);
    if whole(root) != Some(Err(sys::ENOENT)) {
        return;
    }
    for end in 1..length {
        if root.get(end) == Some(&b'/') {
            if let Some(slash) = root.get_mut(end) {
                *slash = 0;
            }
            let _ = root.get(..=end).and_then(Path::new).map(sys::make_folder);
            if let Some(zero) = root.get_mut(end) {
                *zero = b'/';
            }
        }
    }
    whole(root);
}

/// Makes the process's folder and writes its path; gives its length with the
/// final zero.
fn make_folder(root: &[u8], pid: u32, folder: &mut [u8]) -> Result<usize, Failure> {
    const ATTEMPTS: u64 = 1000;
    let path_of_root = Path::new(root);
    let root = root.split_last().map_or(root, |(_, path)| path);
    let now = sys::now();
    for nonce in now..now.saturating_add(ATTEMPTS) {
        let mut text = Text::after(folder, 0);
        text.push(root).push_byte(b'/').push_decimal(pid).push_byte(b'-');
        let length = text.push_hexadecimal(nonce).push_byte(0).length();
        let length = length.ok_or(create(sys::ENAMETOOLONG))?;
        let path = folder.get(..length).and_then(Path::new).ok_or(create(sys::ENAMETOOLONG))?;
        let mut made = sys::make_folder(path);
        if made == Err(sys::ENOENT) && path_of_root.map(sys::make_folder) == Some(Ok(())) {
            // The records were removed after our parent began.
            made = sys::make_folder(path);
        }
        match made {
            Ok(()) => return Ok(length),
            Err(sys::EEXIST) => {}
            Err(error) => return Err(create(error)),
        }
    }
    Err(create(sys::EEXIST))
}
