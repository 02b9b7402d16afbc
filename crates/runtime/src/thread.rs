//! A thread's log: its state and the windows of its file that are mapped.
//!
//! # Slots
//! The fast path must take a slot and fill it in a way that a signal handler,
//! which logs too, may interrupt anywhere. So the word it adds to is the address
//! of the next slot, and says at once whether there is one: windows lie in memory
//! so that all their addresses have the bit [`SEGMENT`] and the next ones do not.
//! Behind the end of a window the word is unusable, however often it is added to
//! before somebody gives it a new one. Zero, which the child of a fork finds, is
//! unusable, too.
//!
//! A thread may be interrupted between taking a slot and filling it, and the
//! handler may log so much that the window is replaced. The old window must
//! then stay where it is. Whether this is so can be seen in the window itself:
//! events are never zero, so a zero in a window whose slots were all taken is one
//! that somebody may still fill. Such a window is *held* until its zeros are gone.
//! A slot given up for ever (the handler left by `longjmp`) holds its window for
//! ever; if there are [`WINDOWS`] such windows, the thread stops with
//! [`Incomplete::Limit`].
//!
//! # Windows
//! A file begins with windows of a page and more, so that a short thread costs a
//! page; they are unmapped when they are filled. Behind them come segments, which
//! stay mapped, as many as [`RING`]: whoever packs them gives them back, and they
//! are used again, with pages that are in memory and on the disk already. If none
//! was given back, the file grows, and the segment that was filled first leaves
//! the ring for ever. [`backtrail_abi::log`] says who may do what to a segment.
//!
//! # One state for a thread
//! A state is two pages: the first is wiped in the child of a fork, the other stays
//! ([`crate::lasting`], which says how instances of the runtime share a thread's
//! state). A thread *attends* when it has a state, and begins to log later, if ever.

use core::ptr;
use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::VERSION;
use backtrail_abi::log::{
    FREE, FULL, SEGMENT, SEGMENT_EVENTS, USED, next_thread_length, window_end,
};
use backtrail_abi::log::{
    Incomplete, SegmentHeader, THREAD_FILE_PREFIX, THREAD_MAGIC, ThreadHeader,
};

use crate::file::{Failure, Request};
use crate::lasting::Lasting;
use crate::name::Text;
use crate::process::Control;
use crate::sys::{self, PAGE, Path};

/// Windows a thread can have at once.
const WINDOWS: usize = 128;

/// How many of them are segments that are not held.
const RING: usize = 64;

/// How many states a new thread looks at for one whose thread has ended.
const PROBES: usize = 8;

const NAME_BYTES: usize = 40;

const HEADER_BYTES: u64 = SegmentHeader::BYTES as u64;

/// A window that is mapped.
struct Window {
    /// Its address; 0: there is none.
    address: AtomicUsize,
    bytes: AtomicUsize,
    /// Where to look for a slot that is not filled, if some may not be; 0: the
    /// window is a segment, all of whose slots are.
    open: AtomicUsize,
}

impl Window {
    fn is_there(&self) -> bool {
        self.address.load(Ordering::Relaxed) != 0
    }

    fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) != 0
    }

    /// The header, if the window is a segment.
    fn segment(&self) -> Option<Segment<'_>> {
        let is_segment = self.bytes.load(Ordering::Relaxed) == SEGMENT as usize;
        if !is_segment || !self.is_there() {
            return None;
        }
        let header: *mut SegmentHeader =
            ptr::with_exposed_provenance_mut(self.address.load(Ordering::Relaxed));
        // SAFETY: the window is mapped and begins with a header, which is shared
        // with another process.
        unsafe {
            Some(Segment {
                sequence: AtomicU64::from_ptr(&raw mut (*header).sequence),
                state: AtomicU32::from_ptr(&raw mut (*header).state),
                left: AtomicU32::from_ptr(&raw mut (*header).left),
            })
        }
    }

    /// Unmaps it. Nobody may use it any more.
    fn unmap(&self) {
        let bytes = self.bytes.load(Ordering::Relaxed);
        let address = self.address.swap(0, Ordering::Relaxed);
        if address != 0 {
            // SAFETY: as the caller vouches for.
            unsafe { sys::unmap(address, bytes) };
        }
        self.open.store(0, Ordering::Relaxed);
    }

    /// Looks whether all slots are filled, of a window that is not in use any
    /// more: then a segment is for whoever packs, and another window goes.
    fn settle(&self) {
        let (address, open) =
            (self.address.load(Ordering::Relaxed), self.open.load(Ordering::Relaxed));
        if address == 0 || open == 0 {
            return;
        }
        if let Some(zero) = first_zero(open, address + self.bytes.load(Ordering::Relaxed)) {
            self.open.store(zero, Ordering::Relaxed);
        } else if let Some(segment) = self.segment() {
            self.open.store(0, Ordering::Relaxed);
            segment.state.store(FULL, Ordering::Release);
        } else {
            self.unmap();
        }
    }
}

/// The header of a segment.
struct Segment<'a> {
    sequence: &'a AtomicU64,
    state: &'a AtomicU32,
    left: &'a AtomicU32,
}

/// What a thread knows. All zero is a thread without events. Only its thread
/// uses it, with signals blocked except on the fast path; a new thread takes it
/// over when its thread is known to have ended.
#[repr(C)]
pub(crate) struct State {
    /// The fast path's word; see the module.
    word: AtomicU64,
    windows: [Window; WINDOWS],
    /// What tells the file from others.
    inode: AtomicU64,
    /// The length of the file.
    length: AtomicU64,
    /// Where the last window in it ends.
    windows_end: AtomicU64,
    /// How many segments were begun.
    segments: AtomicU64,
    /// The thread; 0 in a state that was wiped by a fork.
    tid: AtomicU32,
    ordinal: AtomicU32,
    /// See [`ThreadHeader::forked_at`].
    forked_at: AtomicU32,
    forked_by: AtomicU32,
    /// Nonzero: nothing is recorded any more.
    stopped: AtomicU32,
    /// Nonzero: the thread is of the process that made the record, so that its
    /// end can be found out.
    mortal: AtomicU32,
    /// Nonzero: the thread has logged, and has an ordinal.
    has_begun: AtomicU32,
    /// The next state of the process.
    next: AtomicPtr<State>,
    /// Up to here all is wiped on fork.
    lasting: Lasting,
}

const _: () = assert!(core::mem::offset_of!(State, lasting) == PAGE);
const _: () = assert!(
    PAGE + core::mem::offset_of!(Lasting, frame) == backtrail_abi::frames::STATE_FRAME
        && PAGE + core::mem::offset_of!(Lasting, depth) == backtrail_abi::log::STATE_DEPTH
);

/// The offset the fast path relies on, and probes.
pub(crate) const WORD_OFFSET: usize = core::mem::offset_of!(State, word);
const _: () = assert!(WORD_OFFSET == backtrail_abi::log::STATE_WORD);

impl State {
    /// The state behind a thread's pointer.
    pub(crate) fn at(slot: &AtomicPtr<Self>) -> Option<&'static Self> {
        // SAFETY: the pointer is null or a state mapped by `new`, never unmapped.
        unsafe { slot.load(Ordering::Relaxed).as_ref() }
    }

    /// What is not wiped on fork.
    pub(crate) fn lasting(&self) -> &Lasting {
        &self.lasting
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

    /// Orders the threads of a process by their first event.
    pub(crate) fn ordinal(&self) -> u32 {
        self.ordinal.load(Ordering::Relaxed)
    }

    /// How many slots were taken. Nothing if the thread has stopped.
    pub(crate) fn slots(&self) -> Option<u64> {
        if self.stopped.load(Ordering::Relaxed) != 0 {
            return None;
        }
        let word = self.word.load(Ordering::Relaxed) as usize;
        // The slots of a window that is full end where it does.
        let window = self.windows.iter().find(|window| {
            let start = window.address.load(Ordering::Relaxed);
            let end = start + window.bytes.load(Ordering::Relaxed);
            window.is_there() && window.is_open() && start < word && word <= end
        })?;
        let inside = (word - window.address.load(Ordering::Relaxed)) as u64;
        let bytes = if window.segment().is_some() {
            let before = self.segments.load(Ordering::Relaxed).checked_sub(1)?;
            SEGMENT + before * SEGMENT_EVENTS as u64 + inside.checked_sub(HEADER_BYTES)?
        } else {
            let end = self.windows_end.load(Ordering::Relaxed);
            end - window.bytes.load(Ordering::Relaxed) as u64 + inside
        };
        Some(bytes.checked_sub(ThreadHeader::BYTES as u64)? / 4)
    }

    /// Whether the state is of no thread, as a fork's child finds it.
    pub(crate) fn is_wiped(&self) -> bool {
        self.tid() == 0
    }

    /// The calling thread's state, if it has one.
    pub(crate) fn find(control: &Control, slot: &AtomicPtr<Self>) -> Option<&'static Self> {
        Self::at(slot).or_else(|| {
            let _guard = control.lock();
            Self::join(control, slot)
        })
    }

    /// The calling thread's state, made if it has none.
    pub(crate) fn attend(
        control: &Control,
        slot: &AtomicPtr<Self>,
    ) -> Result<&'static Self, Failure> {
        if let Some(state) = Self::at(slot) {
            return Ok(state);
        }
        let _guard = control.lock();
        match Self::join(control, slot) {
            Some(state) => Ok(state),
            None => Self::new(control, slot),
        }
    }

    /// The calling thread's state, with its number in the record, given now if it has
    /// none.
    pub(crate) fn own(control: &Control, slot: &AtomicPtr<Self>) -> Result<&'static Self, Failure> {
        let state = Self::attend(control, slot)?;
        if state.has_begun.load(Ordering::Relaxed) != 0 {
            return Ok(state);
        }
        let _guard = control.lock();
        if state.is_wiped() {
            state.enlist(control);
            let (slots, thread) = control.take_inherited();
            state.forked_at.store(slots, Ordering::Relaxed);
            state.forked_by.store(thread, Ordering::Relaxed);
        }
        state.tid.store(sys::thread_id(), Ordering::Relaxed);
        state.mortal.store(control.is_own_process().into(), Ordering::Relaxed);
        state.ordinal.store(control.next_ordinal(), Ordering::Relaxed);
        state.has_begun.store(1, Ordering::Relaxed);
        Ok(state)
    }

    /// What another instance has found or made for the calling thread is this one's,
    /// too. Under the lock.
    fn join(control: &Control, slot: &AtomicPtr<Self>) -> Option<&'static Self> {
        let tid = sys::thread_id();
        let is_first = |state: &Self| tid == control.pid() && tid == state.tid();
        let state = control.all_states().find(sys::thread_pointer(), is_first)?;
        state.lead_here(slot);
        Some(state)
    }

    /// A state for the calling thread, which has none. Under the lock.
    fn new(control: &Control, slot: &AtomicPtr<Self>) -> Result<&'static Self, Failure> {
        let tid = sys::thread_id();
        let own_process = control.is_own_process();
        let state = match own_process.then(|| Self::take_over(control, tid)).flatten() {
            Some(state) => {
                control.all_states().remove(state);
                state
            }
            None => {
                let pages = sys::map_wiped_on_fork(size_of::<Self>(), PAGE).map_err(|error| {
                    // Without a state the thread could not remember that it
                    // stopped, so the process does.
                    let failure = Failure::new(Incomplete::Map, error);
                    control.stop_locked(failure);
                    failure
                })?;
                // SAFETY: new pages, aligned, zero, never unmapped.
                let state = unsafe { &*ptr::with_exposed_provenance::<Self>(pages) };
                state.enlist(control);
                state
            }
        };
        state.tid.store(tid, Ordering::Relaxed);
        state.mortal.store(own_process.into(), Ordering::Relaxed);
        control.all_states().add(state, sys::thread_pointer());
        state.lead_here(slot);
        Ok(state)
    }

    fn lead_here(&self, slot: &AtomicPtr<Self>) {
        self.lasting.add_slot(slot);
        slot.store(ptr::from_ref(self).cast_mut(), Ordering::Relaxed);
    }

    fn tid(&self) -> u32 {
        self.tid.load(Ordering::Relaxed)
    }

    /// Appends an event. The caller has all signals blocked.
    pub(crate) fn append(&self, control: &Control, event: u32) -> Result<(), Failure> {
        let mut word = self.word.load(Ordering::Relaxed);
        if word & SEGMENT == 0 {
            self.extend(control)?;
            word = self.word.load(Ordering::Relaxed);
        }
        // SAFETY: the slot is in the window in use and nobody else has it.
        unsafe { AtomicU32::from_ptr(ptr::with_exposed_provenance_mut(word as usize)) }
            .store(event, Ordering::Relaxed);
        self.word.store(word + 4, Ordering::Relaxed);
        Ok(())
    }

    /// Begins another window, when all slots of the one in use are taken: a
    /// segment that was given back, or the next part of the file, which is made if
    /// this is the first.
    fn extend(&self, control: &Control) -> Result<(), Failure> {
        self.windows.iter().for_each(Window::settle);
        let is_free = |segment: &Segment<'_>| segment.state.load(Ordering::Acquire) == FREE;
        let given_back = self
            .windows
            .iter()
            .find(|window| !window.is_open() && window.segment().as_ref().is_some_and(is_free));
        if let Some(window) = given_back {
            control.check_space()?;
            self.begin_window(window);
            return Ok(());
        }
        let (start, from) =
            (self.windows_end.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
        let end = window_end(start);
        let to = if end > from { next_thread_length(from) } else { from };
        if to > from {
            control.take_space(to - from)?;
        }
        let mut buffer = [0; NAME_BYTES];
        let name = self.name(&mut buffer)?;
        let (folder, inode) = (control.folder()?, &self.inode);
        let request = Request { folder, name, inode, from, to, mapped_from: start };
        let window = self.vacant().ok_or(Failure::new(Incomplete::Limit, sys::ENOMEM))?;
        let bytes = end.saturating_sub(start) as usize;
        let address =
            request.extend(|file| sys::map_window(file, start, bytes, SEGMENT as usize))?;
        if start == 0 {
            self.write_header(address);
        }
        window.bytes.store(bytes, Ordering::Relaxed);
        window.address.store(address, Ordering::Relaxed);
        self.length.store(to, Ordering::Relaxed);
        self.windows_end.store(end, Ordering::Relaxed);
        self.begin_window(window);
        Ok(())
    }

    /// Gives slots of a window, all of which are zero.
    fn begin_window(&self, window: &Window) {
        let address = window.address.load(Ordering::Relaxed);
        let mut header = 0;
        if let Some(segment) = window.segment() {
            let number = self.segments.load(Ordering::Relaxed) + 1;
            self.segments.store(number, Ordering::Relaxed);
            segment.sequence.store(number, Ordering::Relaxed);
            segment.state.store(USED, Ordering::Release);
            header = SegmentHeader::BYTES;
        } else if self.windows_end.load(Ordering::Relaxed) == window_end(0) {
            header = ThreadHeader::BYTES;
        }
        window.open.store(address + header, Ordering::Relaxed);
        self.word.store((address + header) as u64, Ordering::Relaxed);
    }

    /// Room for another window, after the ring has shrunk if it is full.
    fn vacant(&self) -> Option<&Window> {
        let filled = || {
            let windows = self.windows.iter().filter(|window| !window.is_open());
            windows.filter_map(|window| Some((window, window.segment()?)))
        };
        let vacant = self.windows.iter().find(|window| !window.is_there());
        if let Some(vacant) = vacant
            && filled().count() < RING
        {
            return Some(vacant);
        }
        let first = filled().min_by_key(|(_, segment)| segment.sequence.load(Ordering::Relaxed));
        match first {
            Some((window, segment)) => {
                segment.left.store(1, Ordering::Release);
                window.unmap();
                Some(window)
            }
            None => vacant,
        }
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
            (&raw mut (*header).forked_at).write(self.forked_at.load(Ordering::Relaxed));
            (&raw mut (*header).forked_by).write(self.forked_by.load(Ordering::Relaxed));
            AtomicU64::from_ptr(header.cast())
                .store(u64::from_le_bytes(THREAD_MAGIC), Ordering::Release);
        }
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
        self.windows.iter().for_each(Window::unmap);
        self.word.store(0, Ordering::Relaxed);
        self.length.store(0, Ordering::Relaxed);
        self.windows_end.store(0, Ordering::Relaxed);
        self.segments.store(0, Ordering::Relaxed);
        self.forked_at.store(0, Ordering::Relaxed);
        self.forked_by.store(0, Ordering::Relaxed);
        self.stopped.store(0, Ordering::Relaxed);
        self.has_begun.store(0, Ordering::Relaxed);
        self.lasting.clear();
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
