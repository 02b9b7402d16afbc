//! What all instances of the runtime in a process share: the modules that count and
//! the copies of their areas, and the process's records.
//!
//! Whoever sets a thread's `%gs` base must have mapped every module's area at
//! that distance, so all instances of the runtime in a process have to know of
//! all modules, also when a library hides its instance from the others or an
//! instance is unloaded and leaves threads with their bases behind. No symbol
//! can promise that. The registry is therefore at a fixed address: the first
//! instance maps it there, the others find it, recognised by its first word.
//!
//! Two kinds of memory, as in [`crate::process`]: the tables are inherited by
//! a fork's child; the lock, and what belongs to one process, is wiped there
//! ([`Own`]), so that a child knows that it is one. The tables are changed under
//! the lock, in such an order that a child finds no mapping in them that is not
//! there, however far a change had come.

use core::cell::UnsafeCell;
use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::counts::Module;
use backtrail_abi::log::Incomplete;

use crate::file::Failure;
use crate::lock::{Guard, Lock};
use crate::process::{Control, Kept};
use crate::sys::{self, Auxiliary, PAGE};
use crate::variants::Variants;

/// Modules at once in a process.
pub(crate) const MODULES: usize = 512;

/// Copies of areas, and so threads at once that count apart.
pub(crate) const COPIES: usize = 4096;

/// Threads known to count in the copies of others.
const SHARERS: usize = 64;

/// Where the registry is, the first that is free: far from where the kernel
/// puts anything by itself, and the later ones for programs with sanitizers,
/// which keep large parts of the address space for themselves.
const PLACES: [usize; 4] = [0x4254_0000_0000, 0x0254_0000_0000, 0x7054_0000_0000, 0x5654_0000_0000];

/// What fits into a process's room to work in.
pub(crate) const SCRATCH_WORDS: usize = 64;

/// How long to wait for another instance that has just mapped the registry.
const PATIENCE_MILLISECONDS: u64 = 50;

/// One bit per module.
pub(crate) struct Bits([AtomicU64; MODULES / 64]);

impl Bits {
    fn word(&self, bit: usize) -> Option<(&AtomicU64, u64)> {
        Some((self.0.get(bit / 64)?, 1 << (bit % 64)))
    }

    pub(crate) fn has(&self, bit: usize) -> bool {
        self.word(bit).is_some_and(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    pub(crate) fn set(&self, bit: usize) {
        if let Some((word, mask)) = self.word(bit) {
            word.store(word.load(Ordering::Relaxed) | mask, Ordering::Release);
        }
    }

    pub(crate) fn clear_all(&self) {
        self.0.iter().for_each(|word| word.store(0, Ordering::Release));
    }

    /// Clears a bit; gives whether it was set.
    pub(crate) fn clear(&self, bit: usize) -> bool {
        self.word(bit).is_some_and(|(word, mask)| {
            let before = word.load(Ordering::Relaxed);
            word.store(before & !mask, Ordering::Release);
            before & mask != 0
        })
    }
}

/// A module that is registered, or was: then the next one with the same layout
/// gets its number, and goes on in its files.
pub(crate) struct Entry {
    /// Its [`Module`]; 0 if this entry is free.
    pub(crate) module: AtomicUsize,
    pub(crate) area: AtomicUsize,
    pub(crate) bytes: AtomicUsize,
    pub(crate) layout: [AtomicU64; 2],
    /// Its number in the names of files.
    pub(crate) number: AtomicU32,
}

impl Entry {
    // Inlined, as rustc would else make it a global symbol.
    #[inline]
    fn is_used(&self) -> bool {
        self.module.load(Ordering::Acquire) != 0
    }

    pub(crate) fn area(&self) -> usize {
        self.area.load(Ordering::Relaxed)
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn number(&self) -> u32 {
        self.number.load(Ordering::Relaxed)
    }

    /// What [`Module::state`] is while this entry is at `index`.
    pub(crate) fn state(&self, index: usize) -> u64 {
        (index as u64 + 1) << 32 | u64::from(self.number())
    }
}

/// A copy of all areas. The first one is the areas themselves.
pub(crate) struct ThreadCopy {
    /// The distance, which is the `%gs` base of its thread. 0 in all but the
    /// first: this copy does not exist.
    pub(crate) distance: AtomicUsize,
    /// The pointer of its thread; 0: none.
    pub(crate) thread: AtomicUsize,
    /// Nonzero while its thread forks by way of the C library.
    pub(crate) forking: AtomicU32,
    /// Modules whose area is mapped here; none in the first copy, where all are.
    pub(crate) present: Bits,
    /// Modules whose owner's page is wiped on fork.
    pub(crate) owned: Bits,
    /// Modules whose counters here are those of a file.
    pub(crate) filed: Bits,
    /// Modules that have a file for this copy, mapped or not.
    pub(crate) made: Bits,
}

impl ThreadCopy {
    #[inline]
    pub(crate) fn distance(&self) -> usize {
        self.distance.load(Ordering::Relaxed)
    }

    pub(crate) fn thread(&self) -> usize {
        self.thread.load(Ordering::Acquire)
    }
}

/// What belongs to one process.
pub(crate) struct Own {
    lock: Lock,
    /// Nonzero: the tables are this process's, and not those of one it is a
    /// fork of.
    pub(crate) adopted: AtomicU32,
    /// A failure from before there was a process file to note it in.
    why: AtomicU32,
    error: AtomicU32,
    control: Control,
    /// The same of the log.
    log: Control,
    /// Room to work in, under the lock: stacks may be small.
    scratch: UnsafeCell<[u64; SCRATCH_WORDS]>,
}

/// All of it. All zero, but for the first word, is a process without modules.
#[repr(C)]
pub(crate) struct Registry {
    magic: AtomicU64,
    kept: Kept,
    /// The same of the log.
    log_kept: Kept,
    /// The number of the next module.
    next_number: AtomicU32,
    /// Entries and copies up to here are or were used.
    entries_end: AtomicUsize,
    copies_end: AtomicUsize,
    /// What the kernel told, with 1 added to the first; 0 if nobody asked.
    base_instructions: AtomicU32,
    linker: AtomicUsize,
    stack: AtomicUsize,
    /// Where to look for the next distance, and for the next dead thread.
    pub(crate) next_distance: AtomicU64,
    pub(crate) hand: AtomicUsize,
    /// The pointers of threads that count in the copies of others.
    sharers: [AtomicUsize; SHARERS],
    entries: [Entry; MODULES],
    copies: [ThreadCopy; COPIES],
    /// What the process is made of.
    pub(crate) variants: Variants,
    /// Wiped on fork, and on pages of its own.
    own: Wiped,
}

#[repr(C, align(4096))]
struct Wiped(UnsafeCell<Own>);

// SAFETY: what is inside is shared by atomics, or as `Control` says.
unsafe impl Sync for Registry {}

const MAGIC: u64 = u64::from_le_bytes(*b"BTREGSTR")
    .wrapping_add((VERSION as u64) << 32 ^ size_of::<Registry>() as u64);
const OWN_OFFSET: usize = core::mem::offset_of!(Registry, own);

/// The registry as this instance has found it; 1: there can be none.
static FOUND: AtomicPtr<Registry> = AtomicPtr::new(ptr::null_mut());
const HOPELESS: usize = 1;

impl Registry {
    /// The process's registry if this instance has found it already.
    pub(crate) fn known() -> Option<&'static Self> {
        let found = FOUND.load(Ordering::Acquire);
        // SAFETY: never unmapped, and shared as described.
        (found.addr() > HOPELESS).then(|| unsafe { &*found })
    }

    /// The process's registry, made if it is the first instance that asks.
    pub(crate) fn get() -> Option<&'static Self> {
        if FOUND.load(Ordering::Acquire).is_null() {
            let found = PLACES.iter().find_map(|&place| Self::at(place));
            let found = found.unwrap_or(ptr::without_provenance_mut(HOPELESS));
            FOUND.store(found, Ordering::Release);
        }
        Self::known()
    }

    /// The registry at an address: mapped there now, or by another instance.
    fn at(place: usize) -> Option<*mut Self> {
        let registry: *mut Self = ptr::with_exposed_provenance_mut(place);
        match sys::map_where_free(place, size_of::<Self>()) {
            Ok(()) => {
                if sys::wipe_on_fork(place + OWN_OFFSET, size_of::<Wiped>()).is_err() {
                    // SAFETY: nobody has recognised it yet.
                    unsafe { sys::unmap(place, size_of::<Self>()) };
                    return None;
                }
                // SAFETY: just mapped; all zero is valid.
                unsafe { &*registry }.magic.store(MAGIC, Ordering::Release);
                Some(registry)
            }
            Err(sys::EEXIST) => {
                let patience = AtomicU32::new(0);
                for _ in 0..PATIENCE_MILLISECONDS {
                    match sys::read_word(place)? {
                        MAGIC => return Some(registry),
                        0 => drop(sys::wait(&patience, 0, 1)),
                        _ => return None,
                    }
                }
                None
            }
            Err(_) => None,
        }
    }

    /// What belongs to this process.
    pub(crate) fn own(&self) -> &Own {
        // SAFETY: shared only.
        unsafe { &*self.own.0.get() }
    }

    /// Takes the lock; the caller has all signals blocked.
    pub(crate) fn lock(&self) -> Guard<'_> {
        self.own().lock.take()
    }

    /// What logs share in this process.
    pub(crate) fn log(&'static self) -> &'static Control {
        let own = self.own();
        own.log.keep_in(&self.log_kept);
        &own.log
    }

    /// What this process inherited of where it records.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    /// The process's folder and file, made unless they were.
    pub(crate) fn record(&'static self) -> Result<&'static Control, Failure> {
        let own = self.own();
        own.control.keep_in(&self.kept);
        own.control.begin()?;
        if let Some(why) = Incomplete::from_number(own.why.swap(0, Ordering::Relaxed)) {
            let error = sys::Error(own.error.load(Ordering::Relaxed));
            own.control.note(Failure::new(why, error));
        }
        Ok(&own.control)
    }

    /// Has those records that there are list the variants that they do not have. Under the
    /// lock.
    pub(crate) fn list_variants(&'static self) {
        let own = self.own();
        for (control, kept) in [(&own.control, &self.kept), (&own.log, &self.log_kept)] {
            control.keep_in(kept);
            control.list_variants();
        }
    }

    /// Notes why the record is incomplete, now or when there is one.
    pub(crate) fn note(&self, failure: Failure) {
        let own = self.own();
        if own.control.is_recording() {
            own.control.note(failure);
        } else if own.why.load(Ordering::Relaxed) == 0 {
            own.error.store(failure.error.0, Ordering::Relaxed);
            own.why.store(failure.why as u32, Ordering::Relaxed);
        }
    }

    /// Room to work in.
    ///
    /// # Safety
    /// The caller holds the lock, and nobody it was called by uses this.
    #[expect(clippy::mut_from_ref, reason = "the lock makes it exclusive")]
    pub(crate) unsafe fn scratch(&self) -> &mut [u64; SCRATCH_WORDS] {
        // SAFETY: as the caller vouches for.
        unsafe { &mut *self.own().scratch.get() }
    }

    /// What the kernel told this program. Under the lock.
    pub(crate) fn auxiliary(&self) -> Auxiliary {
        if self.base_instructions.load(Ordering::Relaxed) == 0 {
            // SAFETY: under the lock, and not used by whoever asks.
            let scratch = unsafe { self.scratch() };
            // Read by a system call, which may fail.
            scratch.iter_mut().for_each(|word| *word = 0);
            let found = sys::auxiliary(scratch);
            self.linker.store(found.linker, Ordering::Relaxed);
            self.stack.store(found.stack, Ordering::Relaxed);
            self.base_instructions.store(1 + u32::from(found.base_instructions), Ordering::Relaxed);
        }
        Auxiliary {
            base_instructions: self.base_instructions.load(Ordering::Relaxed) == 2,
            linker: self.linker.load(Ordering::Relaxed),
            stack: self.stack.load(Ordering::Relaxed),
            privileged: None,
        }
    }

    /// The entries in use.
    pub(crate) fn entries(&self) -> impl Iterator<Item = (usize, &Entry)> {
        let end = self.entries_end.load(Ordering::Acquire);
        self.entries.iter().take(end).enumerate().filter(|(_, entry)| entry.is_used())
    }

    /// The entry a module's state names.
    pub(crate) fn entry_of(&self, module: &Module) -> Option<(usize, &Entry)> {
        let state = module.state.load(Ordering::Acquire);
        let index = (state >> 32).checked_sub(1)? as usize;
        let entry = self.entries.get(index)?;
        let is_it = entry.module.load(Ordering::Acquire) == ptr::from_ref(module).addr()
            && entry.state(index) == state;
        is_it.then_some((index, entry))
    }

    /// The entry for a module that is not registered, with the number it gets:
    /// that of one with the same layout which was unloaded, or a new one. It is
    /// used when its module is stored.
    pub(crate) fn free_entry(&self, layout: [u64; 2], bytes: usize) -> Option<(usize, &Entry)> {
        let end = self.entries_end.load(Ordering::Relaxed);
        let is_same = |entry: &Entry| {
            entry.bytes() == bytes
                && entry
                    .layout
                    .iter()
                    .zip(layout)
                    .all(|(old, new)| old.load(Ordering::Relaxed) == new)
        };
        let mut unloaded =
            self.entries.iter().take(end).enumerate().filter(|(_, entry)| !entry.is_used());
        if let Some(found) = unloaded.find(|(_, entry)| is_same(entry)) {
            return Some(found);
        }
        // Those of unloaded modules last.
        let index = if end < MODULES {
            end
        } else {
            self.entries.iter().position(|entry| !entry.is_used())?
        };
        let entry = self.entries.get(index)?;
        for (_, copy) in self.copies() {
            copy.made.clear(index);
        }
        let number = self.next_number.fetch_add(1, Ordering::Relaxed);
        entry.number.store(number, Ordering::Relaxed);
        entry.bytes.store(bytes, Ordering::Relaxed);
        for (old, new) in entry.layout.iter().zip(layout) {
            old.store(new, Ordering::Relaxed);
        }
        self.entries_end.fetch_max(index + 1, Ordering::Release);
        Some((index, entry))
    }

    /// The copies in use and the areas themselves, with their numbers.
    pub(crate) fn copies(&self) -> impl Iterator<Item = (usize, &ThreadCopy)> {
        let end = self.copies_end.load(Ordering::Acquire).max(1);
        let copies = self.copies.iter().take(end).enumerate();
        copies.filter(|(number, copy)| *number == 0 || copy.distance() != 0)
    }

    /// A copy that does not exist yet; it does when its distance is stored.
    pub(crate) fn free_copy(&self) -> Option<(usize, &ThreadCopy)> {
        let number = 1 + self.copies.iter().skip(1).position(|copy| copy.distance() == 0)?;
        self.copies_end.fetch_max(number + 1, Ordering::Release);
        let copy = self.copies.get(number)?;
        // A fork may have happened while it was made.
        copy.present.clear_all();
        copy.owned.clear_all();
        copy.filed.clear_all();
        copy.made.clear_all();
        Some((number, copy))
    }

    /// The copy of the thread with this pointer.
    pub(crate) fn copy_of(&self, thread: usize) -> Option<(usize, &ThreadCopy)> {
        self.copies().find(|(_, copy)| copy.thread() == thread)
    }

    /// Whether there is nothing to do for a thread that enters a module: it
    /// counts in the areas themselves, the module's has been seen to, and the
    /// process is not a fork's child that does not know yet.
    pub(crate) fn is_known_sharer(&self, thread: usize, module: &Module) -> bool {
        self.own().adopted.load(Ordering::Acquire) != 0
            && self.is_sharer(thread)
            && self.entry_of(module).is_some_and(|(index, _)| self.originals().owned.has(index))
    }

    /// The areas themselves.
    pub(crate) fn originals(&self) -> &ThreadCopy {
        let [originals, ..] = &self.copies;
        originals
    }

    fn is_sharer(&self, thread: usize) -> bool {
        self.sharers
            .iter()
            .map(|sharer| sharer.load(Ordering::Relaxed))
            .take_while(|&sharer| sharer != 0)
            .any(|sharer| sharer == thread)
    }

    /// Remembers that a thread has no copy of its own.
    pub(crate) fn add_sharer(&self, thread: usize) {
        if !self.is_sharer(thread)
            && let Some(free) =
                self.sharers.iter().find(|sharer| sharer.load(Ordering::Relaxed) == 0)
        {
            free.store(thread, Ordering::Relaxed);
        }
    }

    /// Forgets all of them.
    pub(crate) fn clear_sharers(&self) {
        self.sharers.iter().for_each(|sharer| sharer.store(0, Ordering::Relaxed));
    }
}

const _: () = assert!(OWN_OFFSET.is_multiple_of(PAGE));
