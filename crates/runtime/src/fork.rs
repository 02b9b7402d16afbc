//! A fork's child gets counters of its own before it counts.
//!
//! The child inherits its parent's counters as shared mappings, and the code it
//! continues in may count without another check. So a handler is registered
//! with the C library that puts new files in their place before `fork` returns.
//! A fork that goes around the C library is found at the child's next check,
//! for the owner's page is wiped: until then the child has counted in its
//! parent's files, where counts of both may be lost, so both records say so.
//!
//! Whether the C library knows of the fork is noted in the copy of the thread
//! that forks, by a handler that runs before it. A thread without a copy has no
//! function of the program's under way that could count.

use core::arch::asm;
use core::sync::atomic::{AtomicU32, Ordering};

use backtrail_abi::log::Incomplete;

use crate::area::Area;
use crate::file::Failure;
use crate::registry::Registry;
use crate::{copy, module, sys};

pub(crate) type Handler = extern "C" fn();

/// What the C library calls: before a fork, behind it in the parent, and in the child.
pub(crate) struct Handlers {
    pub(crate) before: Handler,
    pub(crate) after_in_parent: Handler,
    pub(crate) after_in_child: Handler,
}

/// Nonzero: this instance's handlers are registered.
static REGISTERED: AtomicU32 = AtomicU32::new(0);

/// Registers this instance's handlers.
/// Called while the module is loaded, when no lock of the C library is held.
pub(crate) fn register_handlers() {
    if REGISTERED.swap(1, Ordering::Relaxed) == 0 {
        register(&Handlers { before, after_in_parent, after_in_child });
    }
}

/// Registers handlers, if the C library takes any: with the handle of the module they
/// are in, so that they go when it is unloaded.
pub(crate) fn register(handlers: &Handlers) {
    let Handlers { before, after_in_parent, after_in_child } = *handlers;
    let (with_handle, without, handle): (usize, usize, usize);
    // SAFETY: the addresses of weak symbols, 0 where there is none. A linker
    // may turn the loads into immediates.
    unsafe {
        asm!(
            ".weak __register_atfork",
            ".weak pthread_atfork",
            ".weak __dso_handle",
            ".hidden __dso_handle",
            "mov {}, qword ptr [rip + __register_atfork@GOTPCREL]",
            "mov {}, qword ptr [rip + pthread_atfork@GOTPCREL]",
            "mov {}, qword ptr [rip + __dso_handle@GOTPCREL]",
            out(reg) with_handle,
            out(reg) without,
            out(reg) handle,
            options(nostack, readonly),
        );
    }
    if with_handle != 0 {
        // SAFETY: glibc's function of that name, which copies its arguments.
        let register: extern "C" fn(Handler, Handler, Handler, usize) -> i32 =
            unsafe { core::mem::transmute(with_handle) };
        register(before, after_in_parent, after_in_child, handle);
    } else if without != 0 {
        // SAFETY: the POSIX function.
        let register: extern "C" fn(Handler, Handler, Handler) -> i32 =
            unsafe { core::mem::transmute(without) };
        register(before, after_in_parent, after_in_child);
    }
}

fn set_forking(forking: u32) {
    let thread = sys::thread_pointer();
    if let Some((_, copy)) = Registry::known().and_then(|registry| registry.copy_of(thread)) {
        copy.forking.store(forking, Ordering::Release);
    }
}

extern "C" fn before() {
    set_forking(1);
}

extern "C" fn after_in_parent() {
    set_forking(0);
}

extern "C" fn after_in_child() {
    let Some(registry) = Registry::known() else { return };
    let signals = sys::block_signals();
    let guard = registry.lock();
    adopt(registry, sys::thread_pointer());
    drop(guard);
    sys::restore_signals(signals);
}

/// Makes the tables this process's, unless they are. Under the lock.
///
/// The calling thread is the only one of a new process. What others counted in
/// is unmapped or made zero; what this thread counts in gets new files, if it
/// has counted, and is left for its first check otherwise.
pub(crate) fn adopt(registry: &'static Registry, thread: usize) {
    let own = registry.own();
    if own.adopted.load(Ordering::Relaxed) != 0 {
        return;
    }
    let base = sys::segment_base().unwrap_or(0);
    // Where an unloaded module was, there may be something else by now.
    module::forget_unloaded(registry);
    for (number, copy) in registry.copies() {
        let is_here = copy.distance() == base;
        let has_counted = is_here && copy.thread() == thread;
        let raw = has_counted && copy.forking.swap(0, Ordering::Relaxed) == 0;
        let behind_libc = Failure::new(Incomplete::RawFork, sys::Error(0));
        if raw {
            registry.kept().note_in_inherited(behind_libc);
            registry.note(behind_libc);
        }
        if !has_counted {
            copy.thread.store(0, Ordering::Relaxed);
        }
        // Files are the parent's.
        copy.made.clear_all();
        if number != 0 && !is_here {
            copy::unmap(registry, (number, copy), copy.distance());
            copy.distance.store(0, Ordering::Relaxed);
            continue;
        }
        for entry in registry.entries() {
            let area = Area::new(registry, entry, (number, copy));
            if area.reset() && has_counted {
                area.open(thread);
            }
        }
    }
    registry.clear_sharers();
    registry.next_distance.store(0, Ordering::Relaxed);
    own.adopted.store(1, Ordering::Release);
}
