//! `__backtrail_log`: the fast path, and what it falls back to;
//! `__backtrail_land`, which logs where a frame resumes, and
//! `__backtrail_interrupt`, which logs that the kernel called a handler; and what says
//! which activations blocks are of ([`backtrail_abi::frames`]).
//!
//! The fast path is assembly because each of its steps matters: the thread's
//! pointer is initial-exec (one load, no call, works before and without libc's
//! dynamic thread storage), and the slot is taken by a single `xadd` without a
//! lock prefix, which nothing on the same thread can split. See
//! [`crate::thread`] for what the word means.
//!
//! Nothing is visible outside of its module: each has its own instance, and what they
//! share they find by the registry and [`crate::lasting`], whatever is done to symbols
//! (`-Bsymbolic`, a version script) and in which scope a library is.

use core::arch::global_asm;
use core::sync::atomic::{AtomicPtr, Ordering};

use backtrail_abi::frames::{self, Word};
use backtrail_abi::log::Descriptor as Unit;

use crate::file::Failure;
use crate::process::Control;
use crate::sys::{self, own_call};
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
    ".hidden __backtrail_land",
    ".type __backtrail_land,@function",
    ".p2align 5",
    "__backtrail_land:",
    ".cfi_startproc",
    "movq __backtrail_thread@gottpoff(%rip), %rax",
    "movq %fs:(%rax), %rax",
    "testq %rax, %rax",
    "je 1f",
    "movq %rcx, {depth}(%rax)",
    "1:",
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
    "call __backtrail_log",
    "addq $8, %rsp",
    ".cfi_adjust_cfa_offset -8",
    "popq %rsi",
    ".cfi_adjust_cfa_offset -8",
    "popq %rdi",
    ".cfi_adjust_cfa_offset -8",
    "jmp __backtrail_log",
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
    ".hidden __backtrail_interrupt",
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
    own_call!(),
    "cmpl %eax, 112(%rdx)",
    "je 2f",
    "4:",
    "jmp __backtrail_log",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size __backtrail_interrupt, . - __backtrail_interrupt",
    ".popsection",
    ".pushsection .text.__backtrail_log,\"ax\",@progbits",
    ".weak __backtrail_log",
    ".hidden __backtrail_log",
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
    // The words of one record take their slots at once, so that what a handler logs is
    // before or behind all of them. While the log and the variable do not say the same,
    // the variable is what no frame compares equal to that a handler may jump to: 1, or
    // a frame that only begins.
    ".pushsection .text.__backtrail_begin,\"ax\",@progbits",
    ".weak __backtrail_begin",
    ".hidden __backtrail_begin",
    ".type __backtrail_begin,@function",
    ".p2align 5",
    "__backtrail_begin:",
    ".cfi_startproc",
    "movq __backtrail_thread@gottpoff(%rip), %rcx",
    "movq %fs:(%rcx), %rcx",
    "testq %rcx, %rcx",
    "je 3f",
    "movq {frame}(%rcx), %rax",
    "movq %rax, (%rdx)",
    "movq %rdx, {frame}(%rcx)",
    "movl {base}(%rdi), %eax",
    "testl %eax, %eax",
    "je 2f",
    "movl $12, %r8d",
    "xaddq %r8, {word}(%rcx)",
    "testl ${segment}, %r8d",
    "je 2f",
    "leaq 8(%r8), %r9",
    "testl ${segment}, %r9d",
    "je 1f",
    "addl %esi, %eax",
    "movl %eax, (%r8)",
    "movq %rdx, %rax",
    "shrq ${upper}, %rax",
    "andl ${payload}, %eax",
    "orl ${a_frame}, %eax",
    "movl %eax, 4(%r8)",
    "shrq ${lower}, %rdx",
    "andl ${payload}, %edx",
    "orl ${a_frame}, %edx",
    "movl %edx, 8(%r8)",
    "ret",
    "1:",
    "movl ${nothing}, (%r8)",
    "addq $4, %r8",
    "testl ${segment}, %r8d",
    "je 2f",
    "movl ${nothing}, (%r8)",
    "2:",
    "movq %fs:0, %rcx",
    "addq __backtrail_thread@gottpoff(%rip), %rcx",
    "jmp {begin}",
    "3:",
    "movq %fs:0, %rcx",
    "addq __backtrail_thread@gottpoff(%rip), %rcx",
    "jmp {begin_first}",
    ".cfi_endproc",
    ".size __backtrail_begin, . - __backtrail_begin",
    ".popsection",
    ".pushsection .text.__backtrail_resume,\"ax\",@progbits",
    ".weak __backtrail_resume",
    ".hidden __backtrail_resume",
    ".type __backtrail_resume,@function",
    ".p2align 5",
    "__backtrail_resume:",
    ".cfi_startproc",
    "movq __backtrail_thread@gottpoff(%rip), %rcx",
    "movq %fs:(%rcx), %rcx",
    "testq %rcx, %rcx",
    "je 5f",
    "cmpq %rdi, {frame}(%rcx)",
    "jne 1f",
    "ret",
    "1:",
    "movq $1, {frame}(%rcx)",
    "movl $8, %r8d",
    "xaddq %r8, {word}(%rcx)",
    "testl ${segment}, %r8d",
    "je 3f",
    "leaq 4(%r8), %r9",
    "testl ${segment}, %r9d",
    "je 2f",
    "movq %rdi, %rax",
    "shrq ${upper}, %rax",
    "andl ${payload}, %eax",
    "orl ${resumes}, %eax",
    "movl %eax, (%r8)",
    "movq %rdi, %rax",
    "shrq ${lower}, %rax",
    "andl ${payload}, %eax",
    "orl ${a_frame}, %eax",
    "movl %eax, 4(%r8)",
    "4:",
    "movq %rdi, {frame}(%rcx)",
    "ret",
    "2:",
    "movl ${nothing}, (%r8)",
    "3:",
    "pushq %rdi",
    ".cfi_adjust_cfa_offset 8",
    "movq %fs:0, %rsi",
    "addq __backtrail_thread@gottpoff(%rip), %rsi",
    "call {resume}",
    "popq %rdi",
    ".cfi_adjust_cfa_offset -8",
    "movq __backtrail_thread@gottpoff(%rip), %rcx",
    "movq %fs:(%rcx), %rcx",
    "jmp 4b",
    "5:",
    "movq %fs:0, %rsi",
    "addq __backtrail_thread@gottpoff(%rip), %rsi",
    "jmp {resume_first}",
    ".cfi_endproc",
    ".size __backtrail_resume, . - __backtrail_resume",
    ".popsection",
    ".pushsection .text.__backtrail_end,\"ax\",@progbits",
    ".weak __backtrail_end",
    ".hidden __backtrail_end",
    ".type __backtrail_end,@function",
    ".p2align 5",
    "__backtrail_end:",
    ".cfi_startproc",
    "pushq %rdi",
    ".cfi_adjust_cfa_offset 8",
    "call __backtrail_resume",
    "movq __backtrail_thread@gottpoff(%rip), %rax",
    "movq %fs:(%rax), %rax",
    "testq %rax, %rax",
    "je 1f",
    "movq $1, {frame}(%rax)",
    "movl ${ends}, %edi",
    "call __backtrail_say",
    "1:",
    "popq %rdi",
    ".cfi_adjust_cfa_offset -8",
    "movq __backtrail_thread@gottpoff(%rip), %rax",
    "movq %fs:(%rax), %rax",
    "testq %rax, %rax",
    "je 2f",
    "movq (%rdi), %rcx",
    "movq %rcx, {frame}(%rax)",
    "2:",
    "ret",
    ".cfi_endproc",
    ".size __backtrail_end, . - __backtrail_end",
    ".popsection",
    ".pushsection .text.__backtrail_say,\"ax\",@progbits",
    ".weak __backtrail_say",
    ".hidden __backtrail_say",
    ".type __backtrail_say,@function",
    ".p2align 5",
    "__backtrail_say:",
    ".cfi_startproc",
    "movq __backtrail_thread@gottpoff(%rip), %rcx",
    "movq %fs:(%rcx), %rcx",
    "testq %rcx, %rcx",
    "je 1f",
    "movl $4, %edx",
    "xaddq %rdx, {word}(%rcx)",
    "testl ${segment}, %edx",
    "je 1f",
    "movl %edi, (%rdx)",
    "ret",
    "1:",
    "movq %fs:0, %rsi",
    "addq __backtrail_thread@gottpoff(%rip), %rsi",
    "jmp {note}",
    ".cfi_endproc",
    ".size __backtrail_say, . - __backtrail_say",
    ".popsection",
    deepest = const backtrail_abi::log::DEPTHS - 1,
    upper = const frames::ALIGNMENT_BITS + frames::PAYLOAD_BITS,
    lower = const frames::ALIGNMENT_BITS,
    payload = const (1u32 << frames::PAYLOAD_BITS) - 1,
    a_frame = const Word::Frame(0).number(),
    resumes = const Word::Resumes(0).number(),
    ends = const Word::Ends.number(),
    nothing = const Word::Nothing.number(),
    base = const core::mem::offset_of!(Unit, base),
    word = const thread::WORD_OFFSET,
    frame = const frames::STATE_FRAME,
    depth = const backtrail_abi::log::STATE_DEPTH,
    segment = const backtrail_abi::log::SEGMENT,
    slow = sym log_slowly,
    note = sym note_slowly,
    begin = sym begin_slowly,
    begin_first = sym begin_first,
    resume = sym resume_slowly,
    resume_first = sym resume_first,
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
    unless_stopped(slot, |control| {
        append_blocked(control, slot, |control| Ok([control.base_of(unit)?.wrapping_add(block)]));
    });
}

/// Logs that an activation begins, when the fast path cannot.
///
/// # Safety
/// `unit` is the descriptor of an instrumented unit, `slot` the address of the
/// calling thread's pointer.
#[cold]
unsafe extern "C" fn begin_slowly(
    unit: *const Unit,
    block: u32,
    frame: usize,
    slot: *const AtomicPtr<State>,
) {
    // SAFETY: as promised by the caller.
    let (unit, slot) = unsafe { (&*unit, &*slot) };
    let (upper, lower) = frames::parts(frame as u64);
    unless_stopped(slot, |control| {
        append_blocked(control, slot, |control| {
            let event = control.base_of(unit)?.wrapping_add(block);
            Ok([event, Word::Frame(upper).number(), Word::Frame(lower).number()])
        });
    });
}

/// Logs that an activation begins, in a thread that may have no state yet.
///
/// # Safety
/// As of [`begin_slowly`], and at `frame` are the activation's eight bytes.
#[cold]
unsafe extern "C" fn begin_first(
    unit: *const Unit,
    block: u32,
    frame: *mut usize,
    slot: *const AtomicPtr<State>,
) {
    // SAFETY: as promised by the caller.
    let running = attend(unsafe { &*slot }).map(|state| &state.lasting().frame);
    // SAFETY: as promised by the caller.
    unsafe { frame.write(running.map_or(0, |it| it.load(Ordering::Relaxed))) };
    if let Some(running) = running {
        running.store(frame.expose_provenance(), Ordering::Relaxed);
        // SAFETY: as promised by the caller.
        unsafe { begin_slowly(unit, block, frame.addr(), slot) };
    }
}

/// Logs that an activation goes on, when the fast path cannot.
///
/// # Safety
/// `slot` is the address of the calling thread's pointer.
#[cold]
unsafe extern "C" fn resume_slowly(frame: usize, slot: *const AtomicPtr<State>) {
    // SAFETY: as promised by the caller.
    let slot = unsafe { &*slot };
    let (upper, lower) = frames::parts(frame as u64);
    let words = [Word::Resumes(upper).number(), Word::Frame(lower).number()];
    unless_stopped(slot, |control| append_blocked(control, slot, |_| Ok(words)));
}

/// Logs that an activation goes on, in a thread that may have no state yet.
///
/// # Safety
/// `slot` is the address of the calling thread's pointer.
#[cold]
unsafe extern "C" fn resume_first(frame: usize, slot: *const AtomicPtr<State>) {
    // SAFETY: as promised by the caller.
    let Some(state) = attend(unsafe { &*slot }) else { return };
    let running = &state.lasting().frame;
    if running.load(Ordering::Relaxed) == frame {
        return;
    }
    running.store(1, Ordering::Relaxed);
    // SAFETY: as promised by the caller.
    unsafe { resume_slowly(frame, slot) };
    running.store(frame, Ordering::Relaxed);
}

/// Logs an event whose number is known, when a probe cannot take a slot by itself. 0
/// is none: then the thread only gets its state.
///
/// # Safety
/// `slot` is the address of the calling thread's pointer.
#[cold]
unsafe extern "C" fn note_slowly(event: u32, slot: *const AtomicPtr<State>) {
    // SAFETY: as promised by the caller.
    let slot = unsafe { &*slot };
    if event == 0 {
        attend(slot);
        return;
    }
    unless_stopped(slot, |control| append_blocked(control, slot, |_| Ok([event])));
}

/// The calling thread's state, made if it has none and can have one.
fn attend(slot: &AtomicPtr<State>) -> Option<&'static State> {
    if let Some(state) = State::at(slot) {
        return Some(state);
    }
    if Control::known_to_be_stopped() {
        return None;
    }
    let signals = sys::block_signals();
    let state = Control::get().and_then(|control| State::attend(control, slot).ok());
    sys::restore_signals(signals);
    state
}

/// Does something with all signals blocked, unless the thread has stopped recording.
fn unless_stopped(slot: &AtomicPtr<State>, append: impl FnOnce(&Control)) {
    let stopped = match State::at(slot) {
        Some(state) => state.is_stopped(),
        None => Control::known_to_be_stopped(),
    };
    if stopped {
        return;
    }
    let signals = sys::block_signals();
    if let Some(control) = Control::get() {
        append(control);
    }
    sys::restore_signals(signals);
}

/// Appends events, with all signals blocked.
fn append_blocked<const COUNT: usize>(
    control: &Control,
    slot: &AtomicPtr<State>,
    events: impl FnOnce(&Control) -> Result<[u32; COUNT], Failure>,
) {
    // A process that cannot record notes that itself: no header, no thread.
    if control.begin().is_err() {
        State::at(slot).inspect(|state| state.stop());
        return;
    }
    let Ok(state) = State::own(control, slot) else { return };
    // Another instance may have stopped it.
    if state.is_stopped() {
        return;
    }
    let append = |events: [u32; COUNT]| {
        events.into_iter().try_for_each(|event| state.append(control, event))
    };
    if let Err(failure) = events(control).and_then(append) {
        // From here on the thread's log would have holes: it ends here.
        state.stop();
        control.note(failure);
    }
}
