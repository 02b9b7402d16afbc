//! A thread's log: its state and the window of its file that is mapped.
//!
//! # Slots
//! The fast path must take a slot and fill it in a way that a signal handler,
//! which logs too, may interrupt anywhere. So the word it adds to says all at
//! once: in its high half the number of a window, in its low half, as a signed
//! number, the distance from the window's end. Counting up from `-length`, the
//! word is usable as long as the low half is negative, however often it is
//! added to beyond that. The address of a slot is the end of its window, from a
//! table by window number, plus the (negative) distance.
//!
//! A thread may be interrupted between taking a slot and filling it, and the
//! handler may log so much that the window is replaced. The old window must
//! then stay where it is, and so must its entry of the table. Whether this is
//! so can be seen in the window itself: events are never zero, so a zero in a
//! window whose slots were all taken is one that somebody may still fill. Such
//! a window is *held*: the pages before its first zero and behind its last are
//! unmapped, the rest when the zeros are gone. A slot given up for ever (the
//! handler left by `longjmp`) holds its window for ever, which costs a page and
//! a table entry; if the table is full, the thread stops with
//! [`Incomplete::Limit`], after at least [`WINDOWS`] windows.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::log::next_thread_length;
use backtrail_abi::log::{Incomplete, THREAD_FILE_PREFIX, THREAD_MAGIC, ThreadHeader};

use crate::file::{Failure, Request};
use crate::name::Text;
use crate::process::Control;
use crate::sys::{self, PAGE, Path};

/// Windows a thread can have at once, all but one of them held.
const WINDOWS: usize = 128;

/// How many states a new thread looks at for one whose thread has ended.
const PROBES: usize = 8;

const NAME_BYTES: usize = 40;

/// What a thread knows. All zero is a thread without events. Only its thread
/// uses it, with signals blocked except on the fast path; a new thread takes it
/// over when its thread is known to have ended.
#[repr(C)]
pub(crate) struct State {
    /// The fast path's word; see the module.
    word: AtomicU64,
    /// The end of each window, 0 if there is none of this number.
    ends: [AtomicUsize; WINDOWS],
    /// The first zero of each held window, where it was last seen, 0 if it is
    /// not held.
    zeros: [AtomicUsize; WINDOWS],
    /// Where the mapping of each held window ends.
    limits: [AtomicUsize; WINDOWS],
    /// The window in use: its number, its mapping, its first slot.
    window: AtomicUsize,
    mapping: AtomicUsize,
    first_slot: AtomicUsize,
    /// The length of the file.
    length: AtomicU64,
    /// The thread; 0 in a state that was wiped by a fork.
    tid: AtomicU32,
    ordinal: AtomicU32,
    /// Nonzero: nothing is recorded any more.
    stopped: AtomicU32,
    /// Nonzero: the thread is of the process that made the record, so that its
    /// end can be found out.
    mortal: AtomicU32,
    /// The next state of the process.
    next: AtomicPtr<State>,
}

const _: () = assert!(size_of::<State>() <= PAGE);

/// The offsets the fast path relies on.
pub(crate) const WORD_OFFSET: usize = core::mem::offset_of!(State, word);
pub(crate) const ENDS_OFFSET: usize = core::mem::offset_of!(State, ends);

// And those that probes rely on.
const _: () = assert!(WORD_OFFSET == backtrail_abi::log::STATE_WORD);
const _: () = assert!(ENDS_OFFSET == backtrail_abi::log::STATE_ENDS);

impl State {
    /// The state behind a thread's pointer.
    pub(crate) fn at(slot: &AtomicPtr<Self>) -> Option<&'static Self> {
        // SAFETY: the pointer is null or a page mapped by `own`, never unmapped.
        unsafe { slot.load(Ordering::Relaxed).as_ref() }
    }

    /// Whether the thread has stopped recording. Keeps the word from ever
    /// counting up to where it would be usable again.
    pub(crate) fn is_stopped(&self) -> bool {
        let stopped = self.stopped.load(Ordering::Relaxed) != 0;
        if stopped {
            self.word.store(0, Ordering::Relaxed);
        }
        stopped
    }

    /// Stops recording for this thread.
    pub(crate) fn stop(&self) {
        self.stopped.store(1, Ordering::Relaxed);
        self.word.store(0, Ordering::Relaxed);
    }

    /// The calling thread's state, with a file, made if it has none.
    pub(crate) fn own(control: &Control, slot: &AtomicPtr<Self>) -> Result<&'static Self, Failure> {
        if let Some(state) = Self::at(slot)
            && state.tid.load(Ordering::Relaxed) != 0
        {
            return Ok(state);
        }
        let _guard = control.lock();
        let tid = sys::thread_id();
        let own_process = control.is_own_process();
        let state = match Self::at(slot) {
            Some(wiped) => {
                wiped.enlist(control);
                wiped
            }
            None => match own_process.then(|| Self::take_over(control, tid)).flatten() {
                Some(state) => state,
                None => {
                    let page = sys::map_wiped_on_fork(PAGE).map_err(|error| {
                        // Without a state the thread could not remember that it
                        // stopped, so the process does.
                        let failure = Failure::new(Incomplete::Map, error);
                        control.stop_locked(failure);
                        failure
                    })?;
                    // SAFETY: a new page, aligned, zero, never unmapped.
                    let state = unsafe { &*ptr::with_exposed_provenance::<Self>(page) };
                    state.enlist(control);
                    state
                }
            },
        };
        state.tid.store(tid, Ordering::Relaxed);
        state.mortal.store(own_process.into(), Ordering::Relaxed);
        state.ordinal.store(control.next_ordinal(), Ordering::Relaxed);
        slot.store(ptr::from_ref(state).cast_mut(), Ordering::Relaxed);
        Ok(state)
    }

    /// Appends an event. The caller has all signals blocked.
    pub(crate) fn append(&self, control: &Control, event: u32) -> Result<(), Failure> {
        let mut word = self.word.load(Ordering::Relaxed);
        if word as i32 >= 0 {
            self.extend(control)?;
            word = self.word.load(Ordering::Relaxed);
        }
        let end = self.ends.get((word >> 32) as usize).map_or(0, |end| end.load(Ordering::Relaxed));
        let place = end.wrapping_add_signed(word as i32 as isize);
        // SAFETY: the slot is in the window in use and nobody else has it.
        unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(place)) }
            .store(event, Ordering::Relaxed);
        self.word.store(word + 4, Ordering::Relaxed);
        Ok(())
    }

    /// Maps the next window of the file, which is made if this is the first.
    fn extend(&self, control: &Control) -> Result<(), Failure> {
        let mut buffer = [0; NAME_BYTES];
        let name = self.name(&mut buffer)?;
        let from = self.length.load(Ordering::Relaxed);
        let to = next_thread_length(from);
        let request = Request { folder: control.folder()?, name, from, to, mapped_from: from };
        control.take_space(to.saturating_sub(from))?;
        self.release();
        let window = self
            .ends
            .iter()
            .position(|end| end.load(Ordering::Relaxed) == 0)
            .ok_or(Failure::new(Incomplete::Limit, sys::ENOMEM))?;
        let mapping = request.map()?;
        let header = if from == 0 { ThreadHeader::BYTES } else { 0 };
        if from == 0 {
            self.write_header(mapping);
        }
        let room = request.bytes().saturating_sub(header);
        if let Some(end) = self.ends.get(window) {
            end.store(mapping + request.bytes(), Ordering::Relaxed);
        }
        self.window.store(window, Ordering::Relaxed);
        self.mapping.store(mapping, Ordering::Relaxed);
        self.first_slot.store(mapping + header, Ordering::Relaxed);
        self.length.store(to, Ordering::Relaxed);
        let distance = (room as u32).wrapping_neg();
        self.word.store((window as u64) << 32 | u64::from(distance), Ordering::Relaxed);
        Ok(())
    }

    fn name<'a>(&self, buffer: &'a mut [u8; NAME_BYTES]) -> Result<Path<'a>, Failure> {
        let mut text = Text::after(buffer, 0);
        text.push(THREAD_FILE_PREFIX.as_bytes()).push_decimal(self.tid.load(Ordering::Relaxed));
        text.push_byte(b'-').push_decimal(self.ordinal.load(Ordering::Relaxed)).push_byte(0);
        text.length()
            .and_then(|length| buffer.get(..length))
            .and_then(Path::new)
            .ok_or(Failure::new(Incomplete::Create, sys::ENAMETOOLONG))
    }

    fn write_header(&self, mapping: usize) {
        let header: *mut ThreadHeader = ptr::with_exposed_provenance_mut(mapping);
        // SAFETY: a new mapping of at least a page, aligned to a page, ours.
        unsafe {
            (&raw mut (*header).version).write(VERSION);
            (&raw mut (*header).tid).write(self.tid.load(Ordering::Relaxed));
            (&raw mut (*header).ordinal).write(self.ordinal.load(Ordering::Relaxed));
            AtomicU64::from_ptr(header.cast())
                .store(u64::from_le_bytes(THREAD_MAGIC), Ordering::Release);
        }
    }

    /// Unmaps the window in use, whose slots are all taken, or holds it; and
    /// lets go of held windows that are filled by now.
    fn release(&self) {
        let window = self.window.load(Ordering::Relaxed);
        let mapping = self.mapping.swap(0, Ordering::Relaxed);
        if mapping != 0
            && let (Some(end), Some(zero), Some(limit)) =
                (self.ends.get(window), self.zeros.get(window), self.limits.get(window))
        {
            let last = end.load(Ordering::Relaxed);
            self.settle(mapping, self.first_slot.load(Ordering::Relaxed), last, (end, zero, limit));
        }
        for ((end, zero), limit) in self.ends.iter().zip(&self.zeros).zip(&self.limits) {
            let from = zero.load(Ordering::Relaxed);
            if from != 0 {
                let first_page = from / PAGE * PAGE;
                self.settle(first_page, from, limit.load(Ordering::Relaxed), (end, zero, limit));
            }
        }
    }

    /// Unmaps what nobody can still write to in the mapping `from..to` of a
    /// window, all of whose slots before `scan` are filled.
    fn settle(
        &self,
        from: usize,
        scan: usize,
        to: usize,
        (end, zero, limit): (&AtomicUsize, &AtomicUsize, &AtomicUsize),
    ) {
        let Some(first) = first_zero(scan, to) else {
            // SAFETY: every slot of the window is filled: nobody has one.
            unsafe { sys::unmap(from, to - from) };
            end.store(0, Ordering::Relaxed);
            zero.store(0, Ordering::Relaxed);
            return;
        };
        let kept_from = first / PAGE * PAGE;
        if kept_from > from {
            // SAFETY: every slot before the first zero is filled.
            unsafe { sys::unmap(from, kept_from - from) };
        }
        let mut kept_to = to;
        while kept_to - PAGE > kept_from && first_zero(kept_to - PAGE, kept_to).is_none() {
            kept_to -= PAGE;
        }
        if kept_to < to {
            // SAFETY: every slot of these pages is filled.
            unsafe { sys::unmap(kept_to, to - kept_to) };
        }
        zero.store(first, Ordering::Relaxed);
        limit.store(kept_to, Ordering::Relaxed);
    }

    /// Adds a state to the process's list. Under the lock.
    fn enlist(&self, control: &Control) {
        self.next.store(control.states.load(Ordering::Relaxed), Ordering::Relaxed);
        control.states.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }

    /// Looks at a few states for one whose thread has ended and empties it.
    /// Under the lock, in the process that made the record.
    ///
    /// A thread number is used again only after its thread has ended, so a
    /// state with the caller's number, who has none yet, is a dead one's. A
    /// number taken over by a thread that does not log looks alive: then the
    /// state waits.
    fn take_over(control: &Control, tid: u32) -> Option<&'static Self> {
        for _ in 0..PROBES {
            let hand = control.hand.load(Ordering::Relaxed);
            let head = control.states.load(Ordering::Relaxed);
            // SAFETY: states are never unmapped.
            let state = unsafe { (if hand.is_null() { head } else { hand }).as_ref() }?;
            control.hand.store(state.next.load(Ordering::Relaxed), Ordering::Relaxed);
            let owner = state.tid.load(Ordering::Relaxed);
            if state.mortal.load(Ordering::Relaxed) != 0
                && (owner == tid || sys::has_ended(control.pid(), owner))
            {
                state.clear();
                return Some(state);
            }
        }
        None
    }

    /// Unmaps everything a dead thread left and makes its state a new one's.
    fn clear(&self) {
        let mapping = self.mapping.swap(0, Ordering::Relaxed);
        let window = self.window.load(Ordering::Relaxed);
        for (number, ((end, zero), limit)) in
            self.ends.iter().zip(&self.zeros).zip(&self.limits).enumerate()
        {
            let end = end.swap(0, Ordering::Relaxed);
            let zero = zero.swap(0, Ordering::Relaxed);
            let (from, to) = if zero != 0 {
                (zero / PAGE * PAGE, limit.load(Ordering::Relaxed))
            } else if number == window && mapping != 0 {
                (mapping, end)
            } else {
                continue;
            };
            // SAFETY: its only user has ended.
            unsafe { sys::unmap(from, to - from) };
        }
        self.word.store(0, Ordering::Relaxed);
        self.length.store(0, Ordering::Relaxed);
        self.stopped.store(0, Ordering::Relaxed);
    }
}

/// The first zero word in a mapped range of whole words.
fn first_zero(from: usize, to: usize) -> Option<usize> {
    const AT_ONCE: usize = 16;
    let word = |address: usize| {
        // SAFETY: the caller's range is mapped and aligned.
        unsafe { ptr::with_exposed_provenance::<u32>(address).read_volatile() }
    };
    let mut at = from;
    while at < to && !at.is_multiple_of(AT_ONCE * 4) {
        if word(at) == 0 {
            return Some(at);
        }
        at += 4;
    }
    while to - at >= AT_ONCE * 4 {
        // SAFETY: the range is mapped, aligned, and written by nobody while
        // signals are blocked.
        let block: [u32; AT_ONCE] =
            unsafe { ptr::with_exposed_provenance::<[u32; AT_ONCE]>(at).read() };
        if block.iter().fold(false, |found, &word| found | (word == 0)) {
            break;
        }
        at += AT_ONCE * 4;
    }
    while at < to {
        if word(at) == 0 {
            return Some(at);
        }
        at += 4;
    }
    None
}
