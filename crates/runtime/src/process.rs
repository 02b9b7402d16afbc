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
//!
//! Both are in the [`Registry`], so that all instances of the runtime log into one
//! record. Where there can be no registry, each instance has its own, and a process as
//! many records as modules that log.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::log::{
    DEFAULT_DIR, Descriptor as Unit, Incomplete, PATH_BYTES, PROCESS_MAGIC, ProcessHeader,
    Registration,
};
use backtrail_abi::modules::ModuleRow;

use crate::environment::{self, Variable};
use crate::file::{Failure, Request};
use crate::folder::{self, Folder, Place};
use crate::lasting::States;
use crate::lock::{Guard, Lock};
use crate::mapped;
use crate::name::Text;
use crate::registry::Registry;
use crate::sys::{self, Path};
use crate::table::Table;
use crate::thread::State;
use crate::variants::{self, Listed};

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
    place: UnsafeCell<Option<Place>>,
    /// What tells the process file from others.
    inode: AtomicU64,
    piece: UnsafeCell<[u8; PIECE_BYTES]>,
    path: UnsafeCell<[u8; PATH_BYTES]>,
}

// SAFETY: `folder`, `place`, `piece` and `path` are written only under the lock, the first
// two in phase `New`, and these are read only after phase `Recording` was seen.
unsafe impl Sync for Control {}

/// What is inherited by a fork's child. All zero is a process without events.
pub(crate) struct Kept {
    /// The path of the folder for records, absolute, ended by a zero.
    root: UnsafeCell<[u8; PATH_BYTES]>,
    /// Its length with the zero; 0 until it is known.
    root_length: AtomicUsize,
    /// Nonzero: nobody said where records go.
    is_default: AtomicU32,
    /// Where the process file is mapped, and how many bytes of it.
    pub(crate) table: AtomicUsize,
    pub(crate) table_bytes: AtomicUsize,
    /// Registrations in it (high half) and the next free event number (low).
    pub(crate) numbers: AtomicU64,
    /// How many of the variants that the process is made of are in it.
    listed: AtomicUsize,
    /// The process it belongs to.
    pid: AtomicU32,
    /// How many bytes logs or counters may take, and one more; 0 is any number.
    disk: AtomicU64,
    /// Nonzero: what was said of it cannot be read, and nothing is recorded.
    disk_is_no_size: AtomicU32,
    /// The states of threads.
    states: States,
    /// What [`crate::inheritance`] notes: how many slots, and one more; and the ordinal
    /// of the thread whose they are.
    forked_at: AtomicU32,
    forked_by: AtomicU32,
}

// SAFETY: `root` is written only under the lock while `root_length` is 0.
unsafe impl Sync for Kept {}

static KEPT: Kept = Kept {
    root: UnsafeCell::new([0; PATH_BYTES]),
    root_length: AtomicUsize::new(0),
    is_default: AtomicU32::new(0),
    table: AtomicUsize::new(0),
    table_bytes: AtomicUsize::new(0),
    numbers: AtomicU64::new(0),
    listed: AtomicUsize::new(0),
    pid: AtomicU32::new(0),
    disk: AtomicU64::new(0),
    disk_is_no_size: AtomicU32::new(0),
    states: States::new(),
    forked_at: AtomicU32::new(0),
    forked_by: AtomicU32::new(0),
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

/// The control as this instance has found it.
static CONTROL: AtomicPtr<Control> = AtomicPtr::new(ptr::null_mut());

/// Set when there is not even memory for a [`Control`].
static HOPELESS: AtomicU32 = AtomicU32::new(0);

fn create(error: sys::Error) -> Failure {
    Failure::new(Incomplete::Create, error)
}

impl Control {
    /// The process's control, made if this is the first event of all.
    pub(crate) fn get() -> Option<&'static Self> {
        let Some(registry) = Registry::get() else { return Self::of_instance() };
        let control = registry.log();
        CONTROL.store(ptr::from_ref(control).cast_mut(), Ordering::Release);
        Some(control)
    }

    /// The process's control if this instance has had to do with it.
    pub(crate) fn known() -> Option<&'static Self> {
        if CONTROL.load(Ordering::Acquire).is_null() { None } else { Self::get() }
    }

    /// The control where there is no registry.
    fn of_instance() -> Option<&'static Self> {
        let mut control = CONTROL.load(Ordering::Acquire);
        if control.is_null() {
            if HOPELESS.load(Ordering::Relaxed) != 0 {
                return None;
            }
            let Ok(address) = sys::map_wiped_on_fork(size_of::<Self>(), size_of::<Self>()) else {
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

    /// Makes this control use `kept` instead of what this instance keeps. Does
    /// nothing new when it is called again, as it must be after a fork.
    pub(crate) fn keep_in(&self, kept: &'static Kept) {
        self.kept.store(ptr::from_ref(kept).cast_mut(), Ordering::Relaxed);
    }

    fn kept(&self) -> &'static Kept {
        // SAFETY: null, or what `keep_in` was given.
        unsafe { self.kept.load(Ordering::Relaxed).as_ref() }.unwrap_or(&KEPT)
    }

    /// The states of all threads, and what is left of those of a process that this
    /// is a fork of.
    pub(crate) fn all_states(&self) -> &'static States {
        &self.kept().states
    }

    /// Notes where the calling thread is that forks, by how many slots and one more,
    /// and by its ordinal.
    pub(crate) fn note_fork(&self, forked_at: u32, forked_by: u32) {
        self.kept().forked_at.store(forked_at, Ordering::Relaxed);
        self.kept().forked_by.store(forked_by, Ordering::Relaxed);
    }

    /// Takes what was noted where the process that this is a fork of forked.
    pub(crate) fn take_inherited(&self) -> (u32, u32) {
        let kept = self.kept();
        let take = |note: &AtomicU32| note.swap(0, Ordering::Relaxed);
        (take(&kept.forked_at), take(&kept.forked_by))
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

    /// Notes that files grow by so many bytes; an error if they may not.
    pub(crate) fn take_space(&self, bytes: u64) -> Result<(), Failure> {
        let Some(bound) = self.kept().disk.load(Ordering::Relaxed).checked_sub(1) else {
            return Ok(());
        };
        let before = self.space.fetch_add(bytes, Ordering::Relaxed);
        if before.saturating_add(bytes).saturating_add(self.packed()) > bound {
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
    pub(crate) fn folder(&self) -> Result<Folder<'_>, Failure> {
        // SAFETY: not written any more.
        let (path, place) = unsafe { (&*self.folder.get(), &*self.place.get()) };
        let length = self.folder_length.load(Ordering::Relaxed);
        path.get(..length)
            .and_then(Path::new)
            .zip(place.as_ref())
            .map(|(path, place)| Folder { path, place })
            .ok_or(create(sys::ENOENT))
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
        #[cfg(feature = "log")]
        variants::attend();
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
        let table = self.with_room(table, 1)?;
        // SAFETY: there is room for this entry and it is ours under the lock.
        unsafe {
            table.entry(count).write(Registration { unit: unit.unit, base, blocks: unit.blocks });
        }
        self.count_rows(count + 1, next);
        Ok(base)
    }

    /// Makes rows of the table count that were written. First the entry, then its count in
    /// the file, then the count children inherit, then, of a unit, the descriptor: each
    /// step is true without the next.
    fn count_rows(&self, count: u32, next: u32) {
        let header = self.header.load(Ordering::Relaxed);
        // SAFETY: the header is mapped and the field aligned.
        unsafe { AtomicU32::from_ptr(&raw mut (*header).registrations) }
            .store(count, Ordering::Release);
        self.kept().numbers.store(u64::from(count) << 32 | u64::from(next), Ordering::Release);
    }

    /// The table with room for so many more rows.
    fn with_room(&self, mut table: Table, rows: u32) -> Result<Table, Failure> {
        while table.capacity() < table.count.saturating_add(rows) {
            table = self.grow(&table)?;
        }
        Ok(table)
    }

    /// Lists the variants of the process that are not in its record, if it has one.
    pub(crate) fn list_variants(&self) {
        if self.is_recording() {
            let _guard = self.lock();
            self.list_variants_locked();
        }
    }

    fn list_variants_locked(&self) {
        let kept = self.kept();
        let registry = Registry::known();
        loop {
            let place = kept.listed.load(Ordering::Relaxed);
            let next = match registry {
                Some(registry) => registry.variants.at(place),
                None => variants::own().filter(|_| place == 0),
            };
            let Some(next) = next else { return };
            if let Err(failure) = self.list(next) {
                return self.note_locked(failure);
            }
            kept.listed.store(place + 1, Ordering::Relaxed);
        }
    }

    /// Adds a variant to the table.
    fn list(&self, variant: Listed) -> Result<(), Failure> {
        let Listed { id, is_executable, address } = variant;
        // SAFETY: under the lock, and nobody else who is under it uses these now.
        let (piece, path) = unsafe { (&mut *self.piece.get(), &mut *self.path.get()) };
        let length = if is_executable { 0 } else { mapped::path_at(address, piece, path) };
        let row = ModuleRow { id, is_executable, path_bytes: length as u32 };
        let table = Table::kept(self.kept());
        let table = self.with_room(table, row.rows())?;
        let count = table.count + row.rows();
        // SAFETY: there is room for these rows, which are ours under the lock; those of
        // the path, behind the first one, are zero. Byte by byte, as a copy would be a call
        // of a function that the program may have.
        unsafe {
            table.entry(table.count).write(row.to_registration());
            let to: *mut u8 = table.entry(table.count + 1).cast();
            path.iter().take(length).enumerate().for_each(|(at, byte)| to.add(at).write(*byte));
        }
        self.count_rows(count, table.next);
        Ok(())
    }

    /// Doubles the process file.
    fn grow(&self, table: &Table) -> Result<Table, Failure> {
        let from = table.bytes as u64;
        let name = Path::new(PROCESS_NAME).ok_or(create(sys::ENOENT))?;
        let (folder, inode, to) = (self.folder()?, &self.inode, from * 2);
        let request = Request { folder, name, inode, from, to, mapped_from: 0 };
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
            let (length, is_default) = find_root(root, folder, piece)?;
            kept.is_default.store(is_default.into(), Ordering::Relaxed);
            let (bound, is_size) = match find_bound(folder, piece) {
                Ok(bound) => (bound.map_or(0, |bytes| bytes.saturating_add(1)), true),
                Err(NoSize) => (1, false),
            };
            kept.disk.store(bound, Ordering::Relaxed);
            kept.disk_is_no_size.store((!is_size).into(), Ordering::Relaxed);
            kept.root_length.store(length, Ordering::Release);
        }
        // SAFETY: written no more once the length is known.
        let root = unsafe { &*kept.root.get() };
        let root = root.get(..kept.root_length.load(Ordering::Relaxed)).unwrap_or_default();
        let pid = sys::process_id();
        let is_default = kept.is_default.load(Ordering::Relaxed) != 0;
        // SAFETY: as above.
        let place = unsafe { &mut *self.place.get() };
        let length = folder::make(root, is_default, pid, folder, place).map_err(create)?;
        self.folder_length.store(length, Ordering::Relaxed);

        let inherited = Table::kept(kept);
        let mut to = FIRST_PROCESS_LENGTH;
        while (Table { bytes: to as usize, ..inherited }).capacity() <= inherited.count {
            to *= 2;
        }
        let name = Path::new(PROCESS_NAME).ok_or(create(sys::ENOENT))?;
        let folder = self.folder()?;
        let request = Request { folder, name, inode: &self.inode, from: 0, to, mapped_from: 0 };
        let address = request.map().inspect_err(|failure| {
            if failure.error == sys::EPERM {
                // It is not ours, and nothing is left there.
                sys::remove_folder(folder.path);
            }
        })?;
        let table = Table { address, bytes: request.bytes(), ..inherited };
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
        if kept.disk_is_no_size.load(Ordering::Relaxed) != 0 {
            note_in(header, Failure::new(Incomplete::NoSize, sys::Error(0)));
        }
        Table::keep(kept, table.address, table.bytes);
        kept.pid.store(pid, Ordering::Relaxed);
        self.list_variants_locked();
        if inherited.address != 0 && inherited.bytes != 0 {
            // SAFETY: the parent's file; nothing in this process refers to it.
            unsafe { sys::unmap(inherited.address, inherited.bytes) };
        }
        Ok(())
    }
}

static PROC_EXE: [u8; 15] = *b"/proc/self/exe\0";

/// Reads a variable, whatever descriptors the program has left.
fn read_variable(prefix: &[u8], piece: &mut [u8], value: &mut [u8]) -> Variable {
    let mut variable = environment::read(prefix, piece, value);
    if variable == Variable::NoDescriptor {
        let mut again = || variable = environment::read(prefix, piece, value);
        let _ = sys::with_free_descriptors(&mut again);
    }
    variable
}

/// Finds the absolute path of the folder for records; gives its length with
/// the final zero, and whether it is the default. `value` and `piece` are room to
/// work in.
///
/// There is none for a program with rights that whoever started it has not: these would
/// choose, by the environment or where they start it, what it makes with its rights.
fn find_root(
    root: &mut [u8],
    value: &mut [u8],
    piece: &mut [u8],
) -> Result<(usize, bool), Failure> {
    if sys::is_privileged(piece) {
        return Err(create(sys::EPERM));
    }
    let variable = read_variable(DIR_PREFIX, piece, value);
    let is_default = matches!(variable, Variable::Unset | Variable::Value(0));
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
    let length = text.push(folder).push_byte(0).length();
    Ok((length.ok_or(create(sys::ENAMETOOLONG))?, is_default))
}

/// A bound that cannot be read.
struct NoSize;

/// How many bytes logs or counters may take, if the environment says it.
fn find_bound(value: &mut [u8], piece: &mut [u8]) -> Result<Option<u64>, NoSize> {
    match read_variable(DISK_PREFIX, piece, value) {
        Variable::Value(0) | Variable::Unset => Ok(None),
        Variable::Value(length) => {
            size(value.get(..length).unwrap_or_default()).map(Some).ok_or(NoSize)
        }
        Variable::TooLong | Variable::NoDescriptor => Err(NoSize),
    }
}

/// A number of bytes, with a unit behind it or without.
fn size(text: &[u8]) -> Option<u64> {
    let (digits, shift) = match text.split_last()? {
        (b'k' | b'K', digits) => (digits, 10),
        (b'm' | b'M', digits) => (digits, 20),
        (b'g' | b'G', digits) => (digits, 30),
        _ => (text, 0),
    };
    if digits.is_empty() {
        return None;
    }
    let number = digits.iter().try_fold(0u64, |number, digit| {
        let digit = digit.checked_sub(b'0').filter(|&digit| digit < 10)?;
        number.checked_mul(10)?.checked_add(digit.into())
    });
    number?.checked_mul(1 << shift)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        for (text, bytes) in [("0", 0), ("70000", 70_000), ("64K", 64 << 10), ("64k", 64 << 10)] {
            assert_eq!(size(text.as_bytes()), Some(bytes));
        }
        assert_eq!(size(b"3M"), Some(3 << 20));
        assert_eq!(size(b"2g"), Some(2 << 30));
        for bad in
            ["", "K", "-1", "abc", "1T", "1KB", "1 M", "99999999999G", "99999999999999999999"]
        {
            assert_eq!(size(bad.as_bytes()), None, "{bad}");
        }
    }
}
