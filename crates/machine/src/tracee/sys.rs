//! What takes unsafe code: a child that asks to be traced before it becomes the
//! program, and words of its registers one at a time.
#![allow(unsafe_code)]

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::unistd::Pid;

/// Starts a program that stops before its first instruction, where all other signals are
/// blocked. What it is to block comes second, for [`set_mask`].
///
/// A signal before that would stop a copy of this process, which waits until the copy has
/// become the program.
///
/// It dies with the thread that traces it. `PTRACE_O_EXITKILL` sees to that only when it
/// can be asked for, at that first stop: who is let go of there would run on.
pub(super) fn spawn_traced(command: &mut Command) -> io::Result<(Child, u64)> {
    let parent = std::process::id();
    let trace_me = move || {
        let signal = libc::SIGKILL as libc::c_ulong;
        // SAFETY: a number; no memory takes part.
        Errno::result(unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, signal) })?;
        // It may have died before it was asked.
        if std::os::unix::process::parent_id() != parent {
            return Err(Errno::ESRCH.into());
        }
        ptrace::traceme().map_err(io::Error::from)
    };
    // SAFETY: between fork and exec only system calls are allowed, and these are
    // such; nothing is allocated or locked.
    unsafe { command.pre_exec(trace_me) };
    let mut blocked = SigSet::all();
    // It is what stops the program.
    blocked.remove(Signal::SIGTRAP);
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_SETMASK)?;
    let child = command.spawn();
    before.thread_set_mask()?;
    // SAFETY: a set of signals begins with what the kernel knows of it, which is 64 bits.
    let mask = unsafe { std::ptr::from_ref(before.as_ref()).cast::<u64>().read() };
    Ok((child?, mask))
}

/// The signals that a stopped thread blocks.
pub(super) fn mask(thread: Pid) -> Result<u64, Errno> {
    let mut mask = 0;
    ask_mask(libc::PTRACE_GETSIGMASK, thread, &mut mask)?;
    Ok(mask)
}

/// Sets which signals a stopped thread blocks.
pub(super) fn set_mask(thread: Pid, mut mask: u64) -> Result<(), Errno> {
    ask_mask(libc::PTRACE_SETSIGMASK, thread, &mut mask)
}

fn ask_mask(how: libc::c_uint, thread: Pid, mask: &mut u64) -> Result<(), Errno> {
    // SAFETY: the kernel reads or writes as many bytes as it is told, of a number of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(how),
            libc::c_long::from(thread.as_raw()),
            size_of::<u64>(),
            &raw mut *mask,
        )
    };
    Errno::result(result).map(drop)
}

/// The bit of a signal in a mask.
pub(super) fn bit(signal: i32) -> u64 {
    1 << (signal - 1)
}

/// What happened to a thread. Signals are numbers: those of real time have no names.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Status {
    /// It ended, with this status.
    Exited(Pid, i32),
    /// It was killed, by this signal.
    Killed(Pid, i32),
    /// It stopped, by this signal.
    Stopped(Pid, i32),
    /// It stopped, and says of what (`PTRACE_EVENT_…`).
    Event(Pid, i32),
}

impl Status {
    pub fn pid(self) -> Pid {
        let (Self::Exited(pid, _)
        | Self::Killed(pid, _)
        | Self::Stopped(pid, _)
        | Self::Event(pid, _)) = self;
        pid
    }

    pub fn is_end(self) -> bool {
        matches!(self, Self::Exited(..) | Self::Killed(..))
    }
}

/// Waits for what happens next to a process, or to any.
pub(super) fn wait(process: Option<Pid>, flags: i32) -> Result<Status, Errno> {
    let process = process.map_or(-1, Pid::as_raw);
    loop {
        let mut status = 0;
        // SAFETY: the status is stored in a number of ours.
        let found = unsafe { libc::waitpid(process, &raw mut status, flags) };
        let pid = match Errno::result(found) {
            Err(Errno::EINTR) => continue,
            other => Pid::from_raw(other?),
        };
        if libc::WIFEXITED(status) {
            return Ok(Status::Exited(pid, libc::WEXITSTATUS(status)));
        }
        if libc::WIFSIGNALED(status) {
            return Ok(Status::Killed(pid, libc::WTERMSIG(status)));
        }
        if libc::WIFSTOPPED(status) {
            return Ok(match (libc::WSTOPSIG(status), status >> 16) {
                (libc::SIGTRAP, event) if event != 0 => Status::Event(pid, event),
                (signal, _) => Status::Stopped(pid, signal),
            });
        }
    }
}

/// Lets a stopped thread go on, with a signal.
#[inline]
pub(super) fn go_on(thread: Pid, signal: Option<i32>) -> Result<(), Errno> {
    resume(libc::PTRACE_CONT, thread, signal)
}

/// Lets a stopped thread go on for one instruction.
pub(super) fn step(thread: Pid, signal: Option<i32>) -> Result<(), Errno> {
    resume(libc::PTRACE_SINGLESTEP, thread, signal)
}

#[inline]
fn resume(how: libc::c_uint, thread: Pid, signal: Option<i32>) -> Result<(), Errno> {
    // SAFETY: no memory of this process takes part.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(how),
            libc::c_long::from(thread.as_raw()),
            0,
            libc::c_long::from(signal.unwrap_or(0)),
        )
    };
    Errno::result(result).map(drop)
}

/// Lets a stopped thread go on to its next system call, or to what is behind that.
pub(super) fn go_on_to_call(thread: Pid, signal: Option<i32>) -> Result<(), Errno> {
    resume(libc::PTRACE_SYSCALL, thread, signal)
}

/// Leaves a thread stopped that was stopped by a signal to its process, until that goes on.
pub(super) fn leave_stopped(thread: Pid) -> Result<(), Errno> {
    resume(libc::PTRACE_LISTEN, thread, None)
}

/// Traces a process that did not ask for it, and that does not outlive its tracer.
pub(super) fn seize(process: Pid, options: i32) -> Result<(), Errno> {
    // SAFETY: no memory of this process takes part.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_SEIZE),
            libc::c_long::from(process.as_raw()),
            0,
            libc::c_long::from(options),
        )
    };
    Errno::result(result).map(drop)
}

/// Waits for what happens next to any thread: its status as `wait` gives it.
pub(super) fn wait_any() -> Result<(Pid, i32), Errno> {
    loop {
        let mut status = 0;
        // SAFETY: the status is stored in a number of ours.
        let found = unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL) };
        match Errno::result(found) {
            Err(Errno::EINTR) => {}
            other => return Ok((Pid::from_raw(other?), status)),
        }
    }
}

/// What a thread does that stopped at a system call.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallInfo {
    /// Whether it is about to make it (1), has made it (2), or neither.
    pub stage: u8,
    /// For which architecture (`AUDIT_ARCH_…`).
    pub architecture: u32,
    /// The address behind the instruction.
    pub address: u64,
    /// The number and the arguments, or the result.
    pub words: [u64; 7],
}

/// Asks it (`PTRACE_GET_SYSCALL_INFO` in ptrace(2)).
pub(super) fn call_info(thread: Pid) -> Result<CallInfo, Errno> {
    const PTRACE_GET_SYSCALL_INFO: libc::c_long = 0x420e;
    let mut words = [0u64; 11];
    // SAFETY: the kernel writes at most as many bytes as it is told, to numbers of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            PTRACE_GET_SYSCALL_INFO,
            libc::c_long::from(thread.as_raw()),
            size_of_val(&words),
            words.as_mut_ptr(),
        )
    };
    Errno::result(result)?;
    let mut call = [0; 7];
    call.copy_from_slice(&words[3..10]);
    let (stage, architecture) = (words[0] as u8, (words[0] >> 32) as u32);
    Ok(CallInfo { stage, architecture, address: words[1], words: call })
}

/// Why a thread stopped by a signal: `siginfo_t` as it is.
pub(super) fn signal_info(thread: Pid) -> Result<[u8; 128], Errno> {
    let mut info = [0; 128];
    // SAFETY: the kernel writes a `siginfo_t`, which has 128 bytes, to as many of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_GETSIGINFO as i32),
            libc::c_long::from(thread.as_raw()),
            0,
            info.as_mut_ptr(),
        )
    };
    Errno::result(result).map(|_| info)
}

/// The processor's clock.
pub(super) fn clock() -> u64 {
    // SAFETY: any process may read it that did not ask not to.
    unsafe { std::arch::x86_64::_rdtsc() }
}

/// Where the program counter is in `struct user`.
const RIP: usize = std::mem::offset_of!(libc::user_regs_struct, rip);

/// The program counter of a stopped thread.
#[inline]
pub(super) fn program_counter(thread: Pid) -> Result<u64, Errno> {
    let mut word: libc::c_long = 0;
    // SAFETY: with glibc's `ptrace` the kernel's word is the result; with the
    // system call itself, as here, it is stored where the last argument points,
    // which is a word of ours.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_PEEKUSER as i32),
            libc::c_long::from(thread.as_raw()),
            RIP,
            &raw mut word,
        )
    };
    Errno::result(result).map(|_| word as u64)
}

/// Sets the program counter of a stopped thread.
#[inline]
pub(super) fn set_program_counter(thread: Pid, address: u64) -> Result<(), Errno> {
    // SAFETY: no memory of this process takes part.
    let result = unsafe {
        libc::syscall(
            libc::SYS_ptrace,
            libc::c_long::from(libc::PTRACE_POKEUSER as i32),
            libc::c_long::from(thread.as_raw()),
            RIP,
            address,
        )
    };
    Errno::result(result).map(drop)
}

/// Whether two processes have one memory; not if that cannot be asked.
pub(super) fn compare_memory(one: Pid, other: Pid) -> bool {
    // `KCMP_VM` of <linux/kcmp.h>.
    const KCMP_VM: libc::c_long = 1;
    let [one, other] = [one, other].map(|it| libc::c_long::from(it.as_raw()));
    // SAFETY: numbers in, a number out; no memory of this process takes part.
    let result = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    result == 0
}
