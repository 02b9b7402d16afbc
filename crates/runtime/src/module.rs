//! Modules come and go: what is registered, and what is mapped for it.
//!
//! A module must be mapped in every copy before a thread runs its code, so each
//! one registers in a constructor of its own. Where its place in a copy is taken,
//! the copy's thread has to go elsewhere: its next check is made to fail. What a module says of itself has
//! the place of its entry in it; when the memory says otherwise, or is gone, the
//! module was unloaded, and its areas in the copies go too. A module that is
//! loaded again, wherever it is then, goes on in the files it had.

use core::ptr;
use core::sync::atomic::Ordering;

use backtrail_abi::VERSION;
use backtrail_abi::counts::Module;
use backtrail_abi::log::Incomplete;

use crate::area::Area;
use crate::file::Failure;
use crate::registry::{Entry, Registry};
use crate::sys::{self, PAGE};

/// Where the area of a module is, if it is one we know how to map.
fn area_of(module: &Module) -> Option<(usize, usize)> {
    let start = ptr::from_ref(module).addr().wrapping_add_signed(module.area as isize);
    let bytes = module.bytes as usize;
    let is_good = module.version == VERSION
        && start.is_multiple_of(PAGE)
        && bytes.is_multiple_of(PAGE)
        && bytes >= 2 * PAGE
        && start.checked_add(bytes).is_some();
    is_good.then_some((start, bytes))
}

/// The module's entry, made if there is none. Under the lock.
pub(crate) fn register(
    registry: &'static Registry,
    module: &Module,
) -> Option<(usize, &'static Entry)> {
    if let Some(found) = registry.entry_of(module) {
        return Some(found);
    }
    let (start, bytes) = area_of(module)?;
    forget_unloaded(registry);
    let [low, high] = *module.layout.as_chunks::<8>().0 else { return None };
    let layout = [u64::from_ne_bytes(low), u64::from_ne_bytes(high)];
    let Some((index, entry)) = registry.free_entry(layout, bytes) else {
        registry.note(Failure::new(Incomplete::Limit, sys::ENOMEM));
        return None;
    };
    entry.area.store(start, Ordering::Relaxed);
    entry.module.store(ptr::from_ref(module).addr(), Ordering::Release);
    for (number, copy) in registry.copies().skip(1) {
        let area = Area::new(registry, (index, entry), (number, copy));
        if area.reserve(copy.distance()).is_err() {
            area.reserve_owner(copy.distance());
            for entry in registry.entries() {
                Area::new(registry, entry, (number, copy)).disown();
            }
        }
    }
    module.state.store(entry.state(index), Ordering::Release);
    Some((index, entry))
}

/// Whether a registered module is known to be no longer there.
fn is_unloaded(index: usize, entry: &Entry) -> bool {
    let state = core::mem::offset_of!(Module, state);
    let address = entry.module.load(Ordering::Relaxed) + state;
    sys::read_word(address) != Some(entry.state(index))
}

/// Forgets the modules that are no longer there. Under the lock.
pub(crate) fn forget_unloaded(registry: &'static Registry) {
    for (index, entry) in registry.entries() {
        if is_unloaded(index, entry) {
            forget(registry, index, entry);
        }
    }
}

/// Unmaps the copies of an unloaded module's area, whose code is gone.
fn forget(registry: &'static Registry, index: usize, entry: &Entry) {
    for (number, copy) in registry.copies() {
        if number == 0 {
            // The original went with its module.
            copy.filed.clear(index);
            copy.owned.clear(index);
        } else {
            Area::new(registry, (index, entry), (number, copy)).release(copy.distance());
        }
    }
    entry.module.store(0, Ordering::Release);
}
