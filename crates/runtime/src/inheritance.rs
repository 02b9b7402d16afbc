//! How far a thread's log was when the thread forked.
//!
//! What a fork's child does begins in the middle of what its parent did. The child's
//! log says where ([`ThreadHeader::forked_at`]): a handler that the C library calls
//! before it forks notes which thread does, and how many slots it had taken, in memory
//! that the child inherits, and the child's first event takes the note. A child that has logged nothing is, to
//! its own children, as if it were its parent.
//!
//! Of handlers of the program itself, those that run before a fork run before this one,
//! which is registered earlier. A fork that goes around the C library finds no note,
//! since the note is taken back behind each fork. Each instance of the runtime that
//! has logged notes the same.
//!
//! [`ThreadHeader::forked_at`]: backtrail_abi::log::ThreadHeader::forked_at

use core::arch::asm;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::fork::{self, Handlers};
use crate::process::Control;
use crate::sys;
use crate::thread::State;

/// Nonzero: this instance's handlers are registered.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

/// Registers this instance's handlers. Called while its module is loaded.
pub(crate) fn register_handlers() {
    if REGISTERED.swap(1, Ordering::Relaxed) == 0 {
        fork::register(&Handlers { before, after_in_parent, after_in_child });
    }
}

/// The process's control and the calling thread's state, if it has one. Nothing if
/// this instance has had nothing to do with logs: if others have, they note.
fn state() -> Option<(&'static Control, Option<&'static State>)> {
    let slot: *const AtomicPtr<State>;
    // SAFETY: the address of a variable in thread storage of this module.
    unsafe {
        asm!(
            "mov {0}, qword ptr [rip + __backtrail_thread@GOTTPOFF]",
            "add {0}, qword ptr fs:[0]",
            out(reg) slot,
            options(nostack, readonly),
        );
    }
    let control = Control::known()?;
    let signals = sys::block_signals();
    // SAFETY: as above.
    let state = State::find(control, unsafe { &*slot });
    sys::restore_signals(signals);
    Some((control, state))
}

/// The C library lets no two threads fork at the same time.
extern "C" fn before() {
    match state() {
        // As its parent was.
        Some((_, Some(state))) if state.is_wiped() => {}
        Some((control, Some(state))) => {
            let slots = state.slots().and_then(|it| u32::try_from(it + 1).ok());
            control.note_fork(slots.unwrap_or(0), state.ordinal());
        }
        Some((control, None)) => control.note_fork(0, 0),
        None => {}
    }
}

extern "C" fn after_in_parent() {
    if let Some((control, state)) = state()
        && state.is_none_or(|state| !state.is_wiped())
    {
        control.note_fork(0, 0);
    }
}

extern "C" fn after_in_child() {}
