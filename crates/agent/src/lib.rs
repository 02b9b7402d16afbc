//! The in-process breakpoint handler: code that a tracer puts into a program, where
//! it takes the program's `SIGTRAP`.
//!
//! A breakpoint that is handled inside the program costs a signal, and no switch to
//! another process. The handler looks up which breakpoint it was, appends its number
//! to a log in shared memory, and returns to the slot where the displaced
//! instruction is run. It calls nothing, uses no stack but a few words, and all
//! registers are restored when it returns.
//!
//! The contract: the tracer copies [`code`] anywhere into executable memory, with the
//! address of a [`Header`] in its last eight bytes, and makes its first byte the
//! handler and the byte at [`restorer`] the restorer (`SA_SIGINFO`, `SA_RESTORER`).
//!
//! - A child that the program forks does not record: the word at [`Header::alive`] is
//!   in a page that is wiped by `fork` (`MADV_WIPEONFORK`).
//! - Another thread is noticed by its thread pointer and noted ([`LogHeader::threads`]).
//! - At [`Header::exit`], the address of `_exit`, the program stops itself so that
//!   the tracer can look at its stack, and ends when it is continued.
//! - Any other `SIGTRAP` is the program's own: the default is restored and it
//!   happens again.
//!
//! Written in assembly because it has to be in one piece, without relocations and
//! without calls, whatever the compiler's options are.

#![no_std]

/// What the handler knows. Written by the tracer, read by the handler.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct Header {
    /// Where the code with breakpoints begins.
    pub start: u64,
    /// How long it is.
    pub length: u64,
    /// By distance from the start: the number of the breakpoint (`u32`), or
    /// [`NO_BREAKPOINT`].
    pub table: u64,
    /// A [`LogHeader`]; numbers begin [`LOG_START`] bytes behind.
    pub log: u64,
    /// A word that is not zero in the traced process.
    pub alive: u64,
    /// The thread pointer of the traced thread.
    pub thread: u64,
    /// The slot of the first breakpoint; others are [`SLOT`] bytes apart.
    pub slots: u64,
    /// How many numbers fit into the log.
    pub capacity: u64,
    /// The address of the breakpoint where the program ends.
    pub exit: u64,
    /// The process id.
    pub process: u64,
    /// Zeros: the default action, as the kernel reads it.
    pub default: [u64; 4],
}

/// The beginning of the log. Written by the handler, read by the tracer.
#[repr(C)]
#[derive(Debug, Clone, Copy, Default)]
pub struct LogHeader {
    /// How many numbers were recorded, or would have been.
    pub count: u64,
    /// Whether there was another thread.
    pub threads: u64,
    /// Where the registers are, while the program has stopped itself at its end.
    pub context: u64,
}

/// In the table: no breakpoint.
pub const NO_BREAKPOINT: u32 = u32::MAX;
/// How far behind the start of the log numbers begin.
pub const LOG_START: u64 = 4096;
/// How long a slot is.
pub const SLOT: u64 = 40;
/// Where the program counter is in what the kernel passes to a handler
/// (`ucontext_t`, `REG_RIP`).
pub const CONTEXT_RIP: u64 = 168;
/// Where the general registers begin in it.
pub const CONTEXT_REGISTERS: u64 = 40;

core::arch::global_asm!(
    ".pushsection .text.backtrail_agent,\"ax\",@progbits",
    // Other crates name them too, where the functions below are inlined.
    ".globl backtrail_agent_start, backtrail_agent_restorer, backtrail_agent_end",
    ".hidden backtrail_agent_start, backtrail_agent_restorer, backtrail_agent_end",
    ".balign 16",
    "backtrail_agent_start:",
    "    mov rcx, [rip + backtrail_agent_header]",
    "    mov rax, [rdx + {rip}]",
    "    dec rax",
    "    mov r8, rax",
    "    sub r8, [rcx + {start}]",
    "    cmp r8, [rcx + {length}]",
    "    jae 5f",
    "    mov r9, [rcx + {table}]",
    "    mov r9d, [r9 + r8 * 4]",
    "    cmp r9d, -1",
    "    je 8f",
    "    mov r10, [rcx + {alive}]",
    "    cmp qword ptr [r10], 0",
    "    je 3f",
    "    mov rsi, [rcx + {log}]",
    "    mov r11, fs:[0]",
    "    cmp r11, [rcx + {thread}]",
    "    jne 4f",
    "    mov rdi, [rsi]",
    "    cmp rdi, [rcx + {capacity}]",
    "    jae 2f",
    "    mov [rsi + rdi * 4 + {log_start}], r9d",
    "2:  inc rdi",
    "    mov [rsi], rdi",
    "3:  imul r9, r9, {slot}",
    "    add r9, [rcx + {slots}]",
    "    mov [rdx + {rip}], r9",
    "    ret",
    // Another thread.
    "4:  mov qword ptr [rsi + {threads}], 1",
    "    jmp 3b",
    // Not in the code: the end, or the program's own.
    "5:  cmp rax, [rcx + {exit}]",
    "    jne 8f",
    "    push rdx",
    "    push rcx",
    "    mov eax, 39", // getpid
    "    syscall",
    "    pop rcx",
    "    pop rdx",
    "    cmp rax, [rcx + {process}]",
    "    jne 7f",
    "    mov rsi, [rcx + {log}]",
    "    mov [rsi + {context}], rdx",
    "    push rdx",
    "    mov edi, eax",
    "    mov esi, 19", // SIGSTOP
    "    mov eax, 62", // kill
    "    syscall",
    "    pop rdx",
    "7:  mov edi, [rdx + {rdi}]",
    "    mov eax, 231", // exit_group
    "    syscall",
    "    ud2",
    // Let it happen again, by default.
    "8:  mov [rdx + {rip}], rax",
    "    lea rsi, [rcx + {default}]",
    "    mov edi, 5", // SIGTRAP
    "    xor edx, edx",
    "    mov r10d, 8",
    "    mov eax, 13", // rt_sigaction
    "    syscall",
    "    ret",
    ".balign 16",
    "backtrail_agent_restorer:",
    "    mov eax, 15", // rt_sigreturn
    "    syscall",
    "    ud2",
    ".balign 8",
    "backtrail_agent_header:",
    "    .quad 0",
    "backtrail_agent_end:",
    ".popsection",
    rip = const CONTEXT_RIP,
    rdi = const CONTEXT_REGISTERS + 8 * 8,
    start = const core::mem::offset_of!(Header, start),
    length = const core::mem::offset_of!(Header, length),
    table = const core::mem::offset_of!(Header, table),
    log = const core::mem::offset_of!(Header, log),
    alive = const core::mem::offset_of!(Header, alive),
    thread = const core::mem::offset_of!(Header, thread),
    slots = const core::mem::offset_of!(Header, slots),
    capacity = const core::mem::offset_of!(Header, capacity),
    exit = const core::mem::offset_of!(Header, exit),
    process = const core::mem::offset_of!(Header, process),
    default = const core::mem::offset_of!(Header, default),
    threads = const core::mem::offset_of!(LogHeader, threads),
    context = const core::mem::offset_of!(LogHeader, context),
    log_start = const LOG_START,
    slot = const SLOT,
);

unsafe extern "C" {
    static backtrail_agent_start: u8;
    static backtrail_agent_restorer: u8;
    static backtrail_agent_end: u8;
}

/// The handler's code. Its last eight bytes are for the address of the header.
// Inlined into another crate, it would leave the linker no reason to take the object
// that has the assembly out of this crate's archive.
#[inline(never)]
pub fn code() -> &'static [u8] {
    let (start, end) = (&raw const backtrail_agent_start, &raw const backtrail_agent_end);
    // SAFETY: both are of one section, which the assembly above makes, in this order;
    // what is between them is code that is never written.
    unsafe { core::slice::from_raw_parts(start, end as usize - start as usize) }
}

/// How far behind the start of the code the restorer is.
#[inline(never)]
pub fn restorer() -> usize {
    &raw const backtrail_agent_restorer as usize - &raw const backtrail_agent_start as usize
}

impl Header {
    /// As it is in memory.
    pub fn bytes(&self) -> [u8; core::mem::size_of::<Self>()] {
        let words = [
            self.start,
            self.length,
            self.table,
            self.log,
            self.alive,
            self.thread,
            self.slots,
            self.capacity,
            self.exit,
            self.process,
            self.default[0],
            self.default[1],
            self.default[2],
            self.default[3],
        ];
        let mut bytes = [0; core::mem::size_of::<Self>()];
        for (place, word) in bytes.chunks_exact_mut(8).zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }
}
