//! What a thread keeps when its process forks, and how its state is found again.
//!
//! A process can have several instances of the runtime: every module has one, and
//! nobody sees that of another module, since no symbol can promise that (version
//! scripts, `-Bsymbolic`, libraries in a scope of their own). Each has a pointer in
//! thread storage, its *slot*, that leads a thread to its state; an instance whose slot
//! is empty looks for what others have made for the thread.
//!
//! States are found by the thread's pointer. A thread that has ended may have had the
//! same one, and even the same number, so what is found is the caller's only if one of
//! the slots that lead to it still does: in a new thread they are zero. The first
//! thread of a process is known by its number, which no other one gets. So only a
//! thread that is not the first, and that nothing but unloaded modules have logged in,
//! is taken for a new one.
//!
//! The list is in memory that the child of a fork inherits, and changes under the lock
//! by single stores: whatever a child finds, each state in it is one.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU64, AtomicUsize, Ordering};

use crate::thread::State;

const BUCKETS: usize = 256;

/// Instances of the runtime by which a thread is known to be the same.
const SLOTS: usize = 8;

/// The page of a state that is not wiped in the child of a fork.
#[repr(C, align(4096))]
pub(crate) struct Lasting {
    /// See [`backtrail_abi::frames::STATE_FRAME`].
    pub(crate) frame: AtomicUsize,
    /// See [`backtrail_abi::log::STATE_DEPTH`].
    pub(crate) depth: AtomicU64,
    /// The thread's pointer.
    thread: AtomicUsize,
    /// Where pointers to the state are in the thread's storage.
    slots: [AtomicUsize; SLOTS],
    /// The next state in the same bucket.
    next: AtomicPtr<State>,
}

impl Lasting {
    /// Whether a slot of the calling thread, whose pointer this has, leads to `state`.
    fn is_led_to(&self, state: *const State) -> bool {
        let leads = |slot: &AtomicUsize| {
            let slot = slot.load(Ordering::Relaxed);
            // SAFETY: the slot is in the static part of the storage of a thread with
            // the caller's pointer, which is laid out alike for all threads and lives
            // as long as they do, whatever is unloaded.
            let leads_to =
                || unsafe { AtomicPtr::from_ptr(ptr::with_exposed_provenance_mut(slot)) };
            slot != 0 && ptr::eq(leads_to().load(Ordering::Relaxed), state)
        };
        self.slots.iter().any(leads)
    }

    /// Notes a slot that leads here. Under the lock.
    pub(crate) fn add_slot(&self, slot: &AtomicPtr<State>) {
        // The last ones are those that most likely stay.
        let mut added = ptr::from_ref(slot).expose_provenance();
        for place in &self.slots {
            let before = place.swap(added, Ordering::Relaxed);
            if before == 0 {
                break;
            }
            added = before;
        }
    }

    /// Makes this a new thread's. Under the lock.
    pub(crate) fn clear(&self) {
        self.frame.store(0, Ordering::Relaxed);
        self.depth.store(0, Ordering::Relaxed);
        self.slots.iter().for_each(|slot| slot.store(0, Ordering::Relaxed));
    }
}

/// The states of threads, by their pointers.
pub(crate) struct States([AtomicPtr<State>; BUCKETS]);

impl States {
    /// Without any.
    pub(crate) const fn new() -> Self {
        Self([const { AtomicPtr::new(ptr::null_mut()) }; BUCKETS])
    }

    fn bucket(&self, thread: usize) -> &AtomicPtr<State> {
        // Pointers of threads differ by the sizes of stacks.
        let spread = (thread as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let [first, ..] = &self.0;
        self.0.get(spread as usize % BUCKETS).unwrap_or(first)
    }

    /// The states of threads that have or had this pointer, and some others.
    fn near(&self, thread: usize) -> impl Iterator<Item = &'static State> {
        let following = |place: &AtomicPtr<State>| {
            // SAFETY: null or a state, which is never unmapped.
            unsafe { place.load(Ordering::Acquire).as_ref() }
        };
        let next = move |state: &&'static State| following(&state.lasting().next);
        core::iter::successors(following(self.bucket(thread)), next)
    }

    /// The state of the calling thread, which has this pointer. Under the lock.
    pub(crate) fn find(
        &self,
        thread: usize,
        is_first: impl Fn(&State) -> bool,
    ) -> Option<&'static State> {
        self.near(thread).find(|&state| {
            let lasting = state.lasting();
            lasting.thread.load(Ordering::Relaxed) == thread
                && (lasting.is_led_to(state) || is_first(state))
        })
    }

    /// Adds the state of the thread with this pointer. Under the lock.
    pub(crate) fn add(&self, state: &'static State, thread: usize) {
        let (lasting, bucket) = (state.lasting(), self.bucket(thread));
        lasting.thread.store(thread, Ordering::Relaxed);
        lasting.next.store(bucket.load(Ordering::Relaxed), Ordering::Relaxed);
        bucket.store(ptr::from_ref(state).cast_mut(), Ordering::Release);
    }

    /// Takes a state out. Under the lock.
    pub(crate) fn remove(&self, state: &State) {
        let lasting = state.lasting();
        let thread = lasting.thread.load(Ordering::Relaxed);
        let next = lasting.next.load(Ordering::Relaxed);
        let bucket = self.bucket(thread);
        if ptr::eq(bucket.load(Ordering::Relaxed), state) {
            bucket.store(next, Ordering::Release);
            return;
        }
        let before = |other: &&State| ptr::eq(other.lasting().next.load(Ordering::Relaxed), state);
        if let Some(other) = self.near(thread).find(|other| before(other)) {
            other.lasting().next.store(next, Ordering::Release);
        }
    }
}
