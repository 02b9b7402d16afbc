//! Which variants this process is made of ([`backtrail_abi::modules`]).
//!
//! Each instance of the runtime adds its own module to a list in the registry, when the
//! module is loaded, or earlier, when something in it records. The records of the process
//! ([`crate::process`]) copy what they do not have of it: the list only grows, and is the
//! same in the child of a fork, so how far a record is in it is a number.

use core::arch::asm;
use core::ptr;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use backtrail_abi::log::Incomplete;
use backtrail_abi::modules::Variant;

use crate::file::Failure;
use crate::registry::{MODULES, Registry};
use crate::sys;

/// Nonzero: this instance's module is in the list.
static IS_LISTED: AtomicU32 = AtomicU32::new(0);

/// A module that is loaded, or was.
struct Module {
    id: [AtomicU64; 2],
    is_executable: AtomicU32,
    /// Where its [`Variant`] is, or was when it was loaded last.
    address: AtomicUsize,
}

/// What a record says of a module.
#[derive(Clone, Copy)]
pub(crate) struct Listed {
    pub(crate) id: [u8; 16],
    pub(crate) is_executable: bool,
    pub(crate) address: usize,
}

impl Listed {
    fn of(variant: &'static Variant) -> Self {
        Self {
            id: variant.id,
            is_executable: variant.is_executable != 0,
            address: ptr::from_ref(variant).addr(),
        }
    }

    fn halves(&self) -> [u64; 2] {
        let [low, high] = *self.id.as_chunks::<8>().0 else { return [0; 2] };
        [u64::from_ne_bytes(low), u64::from_ne_bytes(high)]
    }
}

/// The modules of a process. All zero is none.
pub(crate) struct Variants {
    end: AtomicUsize,
    modules: [Module; MODULES],
}

impl Variants {
    fn known(&self) -> impl Iterator<Item = &Module> {
        self.modules.iter().take(self.end.load(Ordering::Acquire))
    }

    /// Adds a module, unless there is one of its id. Under the registry's lock.
    fn add(&self, new: Listed) -> Result<(), Failure> {
        let halves = new.halves();
        let is_same = |module: &&Module| {
            module.id.iter().zip(halves).all(|(id, half)| id.load(Ordering::Relaxed) == half)
        };
        if let Some(module) = self.known().find(is_same) {
            module.address.store(new.address, Ordering::Relaxed);
            return Ok(());
        }
        let end = self.end.load(Ordering::Relaxed);
        let full = Failure::new(Incomplete::Limit, sys::ENOMEM);
        let module = self.modules.get(end).ok_or(full)?;
        for (id, half) in module.id.iter().zip(halves) {
            id.store(half, Ordering::Relaxed);
        }
        module.is_executable.store(new.is_executable.into(), Ordering::Relaxed);
        module.address.store(new.address, Ordering::Relaxed);
        self.end.store(end + 1, Ordering::Release);
        Ok(())
    }

    /// The module at a place in the list.
    pub(crate) fn at(&self, place: usize) -> Option<Listed> {
        let module = self.known().nth(place)?;
        let [low, high] = &module.id;
        let mut id = [0; 16];
        for (to, half) in id.as_chunks_mut::<8>().0.iter_mut().zip([low, high]) {
            *to = half.load(Ordering::Relaxed).to_ne_bytes();
        }
        Some(Listed {
            id,
            is_executable: module.is_executable.load(Ordering::Relaxed) != 0,
            address: module.address.load(Ordering::Relaxed),
        })
    }
}

/// The module that this instance is linked into, if it says which variant it is.
pub(crate) fn own() -> Option<Listed> {
    let variant: *const Variant;
    // SAFETY: the address of a weak symbol, 0 if there is none.
    unsafe {
        asm!(
            ".weak __backtrail_variant",
            ".hidden __backtrail_variant",
            "mov {}, qword ptr [rip + __backtrail_variant@GOTPCREL]",
            out(reg) variant,
            options(nostack, readonly),
        );
    }
    // SAFETY: null, or what whoever linked the module has put there, which nobody changes.
    unsafe { variant.as_ref() }.map(Listed::of)
}

/// Sees to it that this instance's module is in the records of the process. Under the
/// registry's lock.
pub(crate) fn list_own(registry: &'static Registry) {
    if IS_LISTED.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Some(own) = own() {
        match registry.variants.add(own) {
            Ok(()) => registry.list_variants(),
            Err(failure) => registry.note(failure),
        }
    }
    IS_LISTED.store(1, Ordering::Relaxed);
}

/// The same, of whoever holds no lock. All signals are blocked.
#[cfg(feature = "log")]
pub(crate) fn attend() {
    if IS_LISTED.load(Ordering::Relaxed) == 0
        && let Some(registry) = Registry::get()
    {
        let _guard = registry.lock();
        list_own(registry);
    }
}
