//! What whoever started us ignores is ignored by the programs that stand in our place.
//!
//! Two signals need more than to be left alone. Rust's runtime ignores `SIGPIPE` from its
//! first moment on, and lets what it starts die of it. Who ignores `SIGCHLD` never hears
//! how a child ended (`wait(2)`), so we do not. What there was before is noted before
//! `main` and before the runtime begins, when the loader calls `note`.
//!
//! A file that may not grow any more (`ulimit -f`) is an error of writing for us and no
//! reason to die (`SIGXFSZ`). A handler does not outlive `exec`, so programs die of it.
//! Where memory is bounded (`ulimit -v`), threads of ours share what they have, since each
//! would reserve 128 MB of addresses by itself (`M_ARENA_MAX` in mallopt(3)).
#![allow(unsafe_code)]

use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

use nix::sys::resource::{RLIM_INFINITY, Resource, getrlimit};
use nix::sys::signal::{SigHandler, Signal, signal};

/// Whether they were ignored.
static IGNORED: [(Signal, AtomicBool); 2] =
    [(Signal::SIGPIPE, AtomicBool::new(false)), (Signal::SIGCHLD, AtomicBool::new(false))];

// SAFETY: the loader calls what stands there, as a C function.
#[used]
#[unsafe(link_section = ".init_array")]
static NOTE: extern "C" fn() = note;

extern "C" fn note() {
    for (it, ignored) in &IGNORED {
        // SAFETY: no function is called by what the kernel does by default, and there is no
        // other thread yet.
        let before = unsafe { signal(*it, SigHandler::SigDfl) };
        ignored.store(matches!(before, Ok(SigHandler::SigIgn)), Ordering::Relaxed);
    }
    extern "C" fn nothing(_: i32) {}
    // SAFETY: what does nothing is safe in a handler.
    let before = unsafe { signal(Signal::SIGXFSZ, SigHandler::Handler(nothing)) };
    if matches!(before, Ok(SigHandler::SigIgn)) {
        // SAFETY: no function is called for what is ignored.
        let _ = unsafe { signal(Signal::SIGXFSZ, SigHandler::SigIgn) };
    }
    if getrlimit(Resource::RLIMIT_AS).is_ok_and(|(now, _)| now != RLIM_INFINITY) {
        // SAFETY: there is no other thread yet, and it takes numbers.
        unsafe { nix::libc::mallopt(nix::libc::M_ARENA_MAX, 1) };
    }
}

/// Lets what `command` starts ignore what we were to ignore.
pub fn give_back(command: &mut Command) -> &mut Command {
    let ignore = || {
        for (it, _) in IGNORED.iter().filter(|(_, ignored)| ignored.load(Ordering::Relaxed)) {
            // SAFETY: no function is called for what is ignored.
            unsafe { signal(*it, SigHandler::SigIgn) }?;
        }
        Ok(())
    };
    // SAFETY: between fork and exec only what is safe in a handler of signals is allowed:
    // these are system calls, and nothing is allocated or locked.
    unsafe { command.pre_exec(ignore) }
}
