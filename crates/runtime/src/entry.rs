//! `__backtrail_log`: the fast path, and what it falls back to; and
//! `__backtrail_land`, which logs where a frame resumes, and
//! `__backtrail_interrupt`, which logs that the kernel called a handler.
//!
//! The fast path is assembly because each of its steps matters: the thread's
//! pointer is initial-exec (one load, no call, works before and without libc's
//! dynamic thread storage), and the slot is taken by a single `xadd` without a
//! lock prefix, which nothing on the same thread can split. See
//! [`crate::thread`] for what the word means.
//!
//! Only the function is visible outside its module, and it is weak: the dynamic
//! linker binds every module's calls to the first one. The thread's pointer is
//! hidden, so that it always belongs to the instance that uses it, whatever is
//! done to the function's symbol (`-Bsymbolic`, a version script).

use core::arch::global_asm;
use core::sync::atomic::AtomicPtr;

use backtrail_abi::log::Descriptor as Unit;

use crate::file::Failure;
use crate::process::Control;
use crate::sys;
use crate::thread::{self, State};

global_asm!(
    ".pushsection .tbss,\"awT\",@nobits",
    ".weak __backtrail_thread",
    ".hidden __backtrail_thread",
    ".type __backtrail_thread,@object",
    ".size __backtrail_thread,8",
    ".p2align 3",
    "__backtrail_thread:",
    ".zero 8",
    ".popsection",
    ".pushsection .tbss,\"awT\",@nobits",
    ".weak __backtrail_depth",
    ".type __backtrail_depth,@object",
    ".size __backtrail_depth,8",
    ".p2align 3",
    "__backtrail_depth:",
    ".zero 8",
    ".popsection",
    ".pushsection .text.__backtrail_note,\"ax\",@progbits",
    ".weak __backtrail_note",
    ".hidden __backtrail_note",
    ".type __backtrail_note,@function",
    ".p2align 4",
    "__backtrail_note:",
    ".cfi_startproc",
    "pushq %rbp",
    ".cfi_def_cfa_offset 16",
    ".cfi_offset %rbp, -16",
    "movq %rsp, %rbp",
    ".cfi_def_cfa_register %rbp",
    "pushq %rax",
    "pushq %rcx",
    "pushq %rdx",
    "pushq %rsi",
    "pushq %rdi",
    "pushq %r8",
    "pushq %r9",
    "pushq %r10",
    "pushq %r11",
    "subq $512, %rsp",
    "andq $-16, %rsp",
    "fxsave64 (%rsp)",
    "cld",
    "movq %fs:0, %rsi",
    "addq __backtrail_thread@gottpoff(%rip), %rsi",
    "callq {note}",
    "fxrstor64 (%rsp)",
    "leaq -72(%rbp), %rsp",
    "popq %r11",
    "popq %r10",
    "popq %r9",
    "popq %r8",
    "popq %rdi",
    "popq %rsi",
    "popq %rdx",
    "popq %rcx",
    "popq %rax",
    "popq %rbp",
    ".cfi_def_cfa %rsp, 8",
    "retq",
    ".cfi_endproc",
    ".size __backtrail_note, . - __backtrail_note",
    ".popsection",
    // Both numbers are logged by the fast path: a handler that comes between them
    // comes at a place of its own in any case.
    ".pushsection .text.__backtrail_land,\"ax\",@progbits",
    ".weak __backtrail_land",
    ".type __backtrail_land,@function",
    ".p2align 5",
    "__backtrail_land:",
    ".cfi_startproc",
    "movq __backtrail_depth@gottpoff(%rip), %rax",
    "movq %rcx, %fs:(%rax)",
    "decq %rcx",
    "movl ${deepest}, %eax",
    "cmpq %rax, %rcx",
    "cmovaq %rax, %rcx",
    "addl %edx, %ecx",
    "pushq %rdi",
    ".cfi_adjust_cfa_offset 8",
    "pushq %rcx",
    ".cfi_adjust_cfa_offset 8",
    "subq $8, %rsp",
    ".cfi_adjust_cfa_offset 8",
    "call __backtrail_log@PLT",
    "addq $8, %rsp",
    ".cfi_adjust_cfa_offset -8",
    "popq %rsi",
    ".cfi_adjust_cfa_offset -8",
    "popq %rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp __backtrail_log@PLT",
    ".cfi_endproc",
    ".size __backtrail_land, . - __backtrail_land",
    ".popsection",
    // What handlers return to is `mov $15, %rax; syscall`, in either encoding. It is
    // not looked at where it might be the end of what is mapped. Behind the return
    // address is what was interrupted: its registers from 48 on, the first argument
    // at 112, the result at 152, the next instruction at 176. Behind a system call
    // that was given the process itself and did not fail, the process sent the signal.
    ".pushsection .text.__backtrail_interrupt,\"ax\",@progbits",
    ".weak __backtrail_interrupt",
    ".type __backtrail_interrupt,@function",
    ".p2align 4",
    "__backtrail_interrupt:",
    ".cfi_startproc",
    "movq (%rdx), %rcx",
    "leal -1(%rcx), %eax",
    "andl $0xfff, %eax",
    "cmpl $0xff7, %eax",
    "ja 2f",
    "movabsq $0x0f0000000fc0c748, %rax",
    "cmpq %rax, (%rcx)",
    "je 1f",
    "cmpl $0x00000fb8, (%rcx)",
    "jne 2f",
    "cmpw $0x0f00, 4(%rcx)",
    "jne 2f",
    "cmpb $0x05, 6(%rcx)",
    "jne 2f",
    "1:",
    "movq 176(%rdx), %rcx",
    "cmpw $0x050f, -2(%rcx)",
    "jne 4f",
    "cmpq $0, 152(%rdx)",
    "jne 4f",
    // getpid
    "movl $39, %eax",
    "syscall",
    "cmpl %eax, 112(%rdx)",
    "je 2f",
    "4:",
    "jmp __backtrail_log@PLT",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size __backtrail_interrupt, . - __backtrail_interrupt",
    ".popsection",
    ".pushsection .text.__backtrail_log,\"ax\",@progbits",
    ".weak __backtrail_log",
    ".type __backtrail_log,@function",
    ".p2align 5",
    "__backtrail_log:",
    ".cfi_startproc",
    "movl {base}(%rdi), %eax",
    "testl %eax, %eax",
    "je 2f",
    "movq __backtrail_thread@gottpoff(%rip), %rcx",
    "movq %fs:(%rcx), %rcx",
    "testq %rcx, %rcx",
    "je 2f",
    "movl $4, %edx",
    "xaddq %rdx, {word}(%rcx)",
    "testl ${segment}, %edx",
    "je 2f",
    "addl %esi, %eax",
    "movl %eax, (%rdx)",
    "ret",
    "2:",
    "movq %fs:0, %rdx",
    "addq __backtrail_thread@gottpoff(%rip), %rdx",
    "jmp {slow}",
    ".cfi_endproc",
    ".size __backtrail_log, . - __backtrail_log",
    ".popsection",
    deepest = const backtrail_abi::log::DEPTHS - 1,
    base = const core::mem::offset_of!(Unit, base),
    word = const thread::WORD_OFFSET,
    segment = const backtrail_abi::log::SEGMENT,
    slow = sym log_slowly,
    note = sym note_slowly,
    options(att_syntax),
);

/// Logs a block when the fast path cannot: the unit is not registered, the
/// thread has no window, or its window is full.
///
/// # Safety
/// `unit` is the descriptor of an instrumented unit, `slot` the address of the
/// calling thread's pointer.
#[cold]
unsafe extern "C" fn log_slowly(unit: *const Unit, block: u32, slot: *const AtomicPtr<State>) {
    // SAFETY: as promised by the caller.
    let (unit, slot) = unsafe { (&*unit, &*slot) };
    let stopped = match State::at(slot) {
        Some(state) => state.is_stopped(),
        None => Control::known_to_be_stopped(),
    };
    if stopped {
        return;
    }
    let signals = sys::block_signals();
    if let Some(control) = Control::get() {
        log_blocked(control, unit, block, slot);
    }
    sys::restore_signals(signals);
}

/// Logs an event whose number is known, when a probe cannot take a slot by itself.
///
/// # Safety
/// `slot` is the address of the calling thread's pointer.
#[cold]
unsafe extern "C" fn note_slowly(event: u32, slot: *const AtomicPtr<State>) {
    // SAFETY: as promised by the caller.
    let slot = unsafe { &*slot };
    let stopped = match State::at(slot) {
        Some(state) => state.is_stopped(),
        None => Control::known_to_be_stopped(),
    };
    if stopped {
        return;
    }
    let signals = sys::block_signals();
    if let Some(control) = Control::get() {
        append_blocked(control, slot, |_| Ok(event));
    }
    sys::restore_signals(signals);
}

/// The same, with all signals blocked.
fn log_blocked(control: &Control, unit: &Unit, block: u32, slot: &AtomicPtr<State>) {
    append_blocked(control, slot, |control| Ok(control.base_of(unit)?.wrapping_add(block)));
}

/// Appends an event, with all signals blocked.
fn append_blocked(
    control: &Control,
    slot: &AtomicPtr<State>,
    event: impl FnOnce(&Control) -> Result<u32, Failure>,
) {
    // A process that cannot record notes that itself: no header, no thread.
    if control.begin().is_err() {
        State::at(slot).inspect(|state| state.stop());
        return;
    }
    let Ok(state) = State::own(control, slot) else { return };
    let logged = event(control).and_then(|event| state.append(control, event));
    if let Err(failure) = logged {
        // From here on the thread's log would have holes: it ends here.
        state.stop();
        control.note(failure);
    }
}
