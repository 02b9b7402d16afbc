//! Which copy of the areas a thread counts in.
//!
//! A copy belongs to a thread *pointer*, not to a kernel's thread: the check in
//! the program's functions compares pointers, and threads that live at the same
//! time have different ones. So a thread may always go on in the copy that has
//! its pointer, for whoever had it before is dead; that is the common case, as C
//! libraries use the stacks of dead threads again. And a copy may be given to
//! another thread when no thread with its pointer can exist: the first word of
//! thread storage is the pointer itself, so its absence is proof. Nothing less
//! is: that the thread which made a copy has ended does not mean that nobody
//! counts there, since a new thread with the same pointer passes the check
//! unseen if it inherited the base.

use core::sync::atomic::Ordering;

use backtrail_abi::log::Incomplete;

use crate::area::Area;
use crate::distance::{self, Range};
use crate::file::Failure;
use crate::module;
use crate::registry::{Registry, ThreadCopy};
use crate::sys::{self, Error};

/// How many copies a new thread looks at for one nobody can use.
const PROBES: usize = 8;

/// Areas mapped in all copies, at most. Each is one mapping, and two when it is
/// used, of which Linux gives a process 65,530 by default, and the program needs
/// some, too.
const MOST_AREAS: usize = 8192;

/// More than the dynamic linker takes in memory.
const LINKER_BYTES: usize = 1 << 20;

type Numbered<'a> = (usize, &'a ThreadCopy);

/// The copy for the calling thread, at which its `%gs` base points afterwards.
/// Without one it counts with others in the areas themselves, which are always
/// there, unless its base is not ours. Under the lock.
pub(crate) fn own(
    registry: &'static Registry,
    thread: usize,
) -> Result<Numbered<'static>, Failure> {
    let failed = |error| Failure::new(Incomplete::Shared, error);
    let base = sys::segment_base().map_err(failed)?;
    let had = registry.copy_of(thread);
    if let Some(found) = had.filter(|found| is_whole(registry, *found)) {
        return enter(found, base).map_err(failed);
    }
    // Somebody else's base is nothing to change, nor to count at.
    let here = registry.copies().find(|(_, copy)| copy.distance() == base);
    let here = here.ok_or(failed(sys::EEXIST))?;
    let is_free = |found: &Numbered| found.1.thread() == 0 && is_whole(registry, *found);
    let free = Some(here)
        .filter(is_free)
        .or_else(|| registry.copies().find(is_free))
        .or_else(|| take_over(registry));
    let found = match free {
        Some(found) => Ok(found),
        None => make(registry),
    };
    if let Some((_, copy)) = had {
        copy.thread.store(0, Ordering::Release);
    }
    let found = found.and_then(|found| enter(found, base)).map_err(|error| {
        // SAFETY: every module's area is at no distance from itself.
        let _ = unsafe { sys::set_segment_base(0) };
        failed(error)
    })?;
    found.1.forking.store(0, Ordering::Relaxed);
    found.1.thread.store(thread, Ordering::Release);
    if let Some((_, had)) = had {
        // Functions that are under way count there without another check.
        for entry in registry.entries().filter(|(index, _)| had.filed.has(*index)) {
            Area::new(registry, entry, found).open(thread);
        }
    }
    Ok(found)
}

/// Gives the calling thread another copy if a module could not be mapped in the
/// one its base points at, whoever's that is. Under the lock.
pub(crate) fn leave_torn(registry: &'static Registry, thread: usize) {
    let base = sys::segment_base();
    let here = registry.copies().find(|(_, copy)| Ok(copy.distance()) == base);
    if here.is_some_and(|here| !is_whole(registry, here))
        && let Err(failure) = own(registry, thread)
    {
        registry.note(failure);
    }
}

/// Whether a copy has every module's area. It has not when a module was loaded
/// whose place there was taken: then its thread goes elsewhere at its next
/// check, and nobody takes it over.
fn is_whole(registry: &Registry, (number, copy): Numbered) -> bool {
    number == 0 || registry.entries().all(|(index, _)| copy.present.has(index))
}

/// Points the thread's base at a copy.
fn enter(found: Numbered<'static>, base: usize) -> Result<Numbered<'static>, Error> {
    let distance = found.1.distance();
    if distance != base {
        // SAFETY: every module's area is mapped at this distance, which is
        // negative only where that can be set.
        unsafe { sys::set_segment_base(distance) }?;
    }
    Ok(found)
}

/// Looks at a few copies for one whose thread pointer no thread has.
fn take_over(registry: &'static Registry) -> Option<Numbered<'static>> {
    let count = registry.copies().count();
    for _ in 0..PROBES.min(count) {
        let hand = registry.hand.fetch_add(1, Ordering::Relaxed) % count;
        let found = registry.copies().nth(hand)?;
        if is_nobodys(found.1.thread()) && is_whole(registry, found) {
            return Some(found);
        }
    }
    None
}

/// Whether no thread can have this pointer.
fn is_nobodys(thread: usize) -> bool {
    sys::read_word(thread) != Some(thread as u64)
}

/// Maps a new copy.
fn make(registry: &'static Registry) -> Result<Numbered<'static>, Error> {
    module::forget_unloaded(registry);
    let modules = registry.entries().count();
    if registry.copies().count().saturating_mul(modules) > MOST_AREAS {
        return Err(sys::ENOMEM);
    }
    let new = registry.free_copy().ok_or(sys::ENOMEM)?;
    let told = registry.auxiliary();
    let range = Range {
        low: registry.entries().map(|(_, entry)| entry.area()).min().unwrap_or(0),
        high: registry.entries().map(|(_, entry)| entry.area() + entry.bytes()).max().unwrap_or(0),
        libraries: if told.linker == 0 { 0 } else { told.linker.saturating_add(LINKER_BYTES) },
        highest: highest(told.stack),
        downwards: told.base_instructions,
    };
    loop {
        let from = registry.next_distance.load(Ordering::Relaxed);
        let (distance, next) = distance::next(from, range).ok_or(sys::EEXIST)?;
        registry.next_distance.store(next, Ordering::Relaxed);
        let distance = distance as usize;
        match map(registry, new, distance) {
            Ok(()) => {
                new.1.distance.store(distance, Ordering::Release);
                return Ok(new);
            }
            Err(sys::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Behind the highest address to use, from where the stack is: it must be able
/// to grow as far as it may, within reason, and a good deal when that is little.
fn highest(stack: usize) -> usize {
    const END: usize = (1 << 47) - (16 << 20);
    let room = sys::stack_limit().clamp(64 << 20, 4 << 30);
    (if stack == 0 { END } else { stack }).saturating_sub(room)
}

/// Maps every module's area at a distance, or none.
fn map(registry: &'static Registry, new: Numbered<'_>, distance: usize) -> Result<(), Error> {
    for entry in registry.entries() {
        if let Err(error) = Area::new(registry, entry, new).reserve(distance) {
            unmap(registry, new, distance);
            return Err(error);
        }
    }
    Ok(())
}

/// Unmaps a copy that nobody uses.
pub(crate) fn unmap(registry: &'static Registry, copy: Numbered<'_>, distance: usize) {
    for entry in registry.entries() {
        Area::new(registry, entry, copy).release(distance);
    }
}
