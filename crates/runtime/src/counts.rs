//! `__backtrail_enter`: a thread that has no counters yet, and modules as they
//! are loaded.
//!
//! Injected code calls it from the start of any function, where every register
//! may hold something, so it changes none: general registers and flags are
//! saved, the others by `fxsave64`. The runtime is code for any x86-64, which
//! leaves the upper parts of vector registers alone. As with
//! [`crate::entry`], nothing is visible outside its module.
//!
//! The other way in is a constructor, the first of its module, that registers
//! the module. For executables even that is late, as constructors of libraries
//! run earlier and may start threads: whoever links one can put
//! [`backtrail_abi::counts::LOAD_FUNCTION`] into `.preinit_array`, too.

use core::arch::{asm, global_asm};
use core::ptr;
use core::sync::atomic::{AtomicUsize, Ordering};

use backtrail_abi::counts::Module;

use crate::area::Area;
use crate::registry::Registry;
use crate::{copy, fork, module, sys, variants};

global_asm!(
    ".pushsection .text.__backtrail_enter,\"ax\",@progbits",
    ".weak __backtrail_enter",
    ".hidden __backtrail_enter",
    ".type __backtrail_enter,@function",
    ".p2align 4",
    "__backtrail_enter:",
    ".cfi_startproc",
    "pushq %rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset %rbp, -16",
    "movq %rsp, %rbp",
    ".cfi_def_cfa_register %rbp",
    "pushfq",
    "pushq %rax",
    "pushq %rcx",
    "pushq %rdx",
    "pushq %rsi",
    "pushq %rdi",
    "pushq %r8",
    "pushq %r9",
    "pushq %r10",
    "pushq %r11",
    "cld",
    "subq $512, %rsp",
    "andq $-16, %rsp",
    "fxsave64 (%rsp)",
    "callq {enter}",
    "fxrstor64 (%rsp)",
    "leaq -80(%rbp), %rsp",
    "popq %r11",
    "popq %r10",
    "popq %r9",
    "popq %r8",
    "popq %rdi",
    "popq %rsi",
    "popq %rdx",
    "popq %rcx",
    "popq %rax",
    "popfq",
    "popq %rbp",
    ".cfi_def_cfa %rsp, 8",
    "retq",
    ".cfi_endproc",
    ".size __backtrail_enter, . - __backtrail_enter",
    ".popsection",
    ".pushsection .text.__backtrail_load,\"ax\",@progbits",
    ".weak __backtrail_load",
    ".hidden __backtrail_load",
    ".type __backtrail_load,@function",
    "__backtrail_load:",
    ".cfi_startproc",
    "jmp {load}",
    ".cfi_endproc",
    ".size __backtrail_load, . - __backtrail_load",
    ".popsection",
    ".pushsection .init_array.00000,\"aw\",@init_array",
    ".p2align 3",
    ".quad __backtrail_load",
    ".popsection",
    enter = sym enter,
    load = sym load,
    options(att_syntax),
);

/// Gives the calling thread counters of the module's.
///
/// # Safety
/// `module` is the module of the function that calls.
unsafe extern "C" fn enter(module: *const Module) {
    let thread = sys::thread_pointer();
    // SAFETY: as promised by the caller.
    let module = unsafe { &*module };
    if Registry::known().is_some_and(|registry| registry.is_known_sharer(thread, module)) {
        return;
    }
    let signals = sys::block_signals();
    match Registry::get() {
        Some(registry) => enter_blocked(registry, module, thread),
        None => enter_alone(module, thread),
    }
    sys::restore_signals(signals);
}

/// The same, with all signals blocked.
fn enter_blocked(registry: &'static Registry, module: &Module, thread: usize) {
    let _guard = registry.lock();
    fork::adopt(registry, thread);
    variants::list_own(registry);
    let Some(entry) = module::register(registry, module) else { return };
    match copy::own(registry, thread) {
        Ok(copy) => Area::new(registry, entry, copy).open(thread),
        Err(failure) => {
            Area::new(registry, entry, (0, registry.originals())).back();
            registry.note(failure);
            registry.add_sharer(thread);
        }
    }
}

/// Without a registry nothing is recorded, and nobody's base is ours. The area
/// is given away so that at least one thread is not asked again.
fn enter_alone(module: &Module, thread: usize) {
    if sys::segment_base() == Ok(0) {
        let owner = ptr::from_ref(module).addr().wrapping_add_signed(module.area as isize);
        // SAFETY: the first word of the module's area.
        unsafe { &*ptr::with_exposed_provenance::<AtomicUsize>(owner) }
            .store(thread, Ordering::Relaxed);
    }
}

/// Registers what is to know of forks, which variant the module is that this instance is
/// linked into, and the module, if it counts.
extern "C" fn load() {
    #[cfg(feature = "log")]
    crate::inheritance::register_handlers();
    let module: *const Module;
    // SAFETY: the address of a weak symbol, 0 if the module does not count.
    unsafe {
        asm!(
            ".weak __backtrail_module",
            ".hidden __backtrail_module",
            "mov {}, qword ptr [rip + __backtrail_module@GOTPCREL]",
            out(reg) module,
            options(nostack, readonly),
        );
    }
    // SAFETY: null or a module's description of itself.
    let module = unsafe { module.as_ref() };
    if module.is_some() {
        fork::register_handlers();
    }
    let signals = sys::block_signals();
    if let Some(registry) = Registry::get() {
        let _guard = registry.lock();
        variants::list_own(registry);
        if let Some(module) = module {
            let thread = sys::thread_pointer();
            fork::adopt(registry, thread);
            module::register(registry, module);
            copy::leave_torn(registry, thread);
        }
    }
    sys::restore_signals(signals);
}
