//! What a traced program starts, and what it becomes.
//!
//! A process that it forks has a copy of its memory, breakpoints included: they
//! are taken out of the copy, and the child goes its own way, untraced. A child of
//! `vfork` has the very memory of its parent, which waits: it is led past every
//! breakpoint until it becomes another program or ends. Threads are followed. A
//! program that becomes another runs on untraced, to its end.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace::{self, Event};
use nix::unistd::Pid;

use super::sys::{self, Status};
use super::threads::Threads;
use super::{Ended, Tracee};
use crate::Error;

/// What became of the program at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It goes on.
    None,
    /// It has another thread, of this number.
    Thread(usize),
    /// The thread is about to end; its memory is still there.
    Ending,
    /// It is another program now.
    Replaced,
    /// It started a process, which is not traced.
    Process,
}

/// Deals with an event of a thread of the program, whose memory has these breakpoints:
/// by address, the byte that belongs there.
pub(super) fn on_event(
    tracee: &mut Tracee,
    threads: &mut Threads,
    thread: Pid,
    event: i32,
    breakpoints: &HashMap<u64, u8>,
) -> Result<Change, Error> {
    let is = |it: Event| event == it as i32;
    if is(Event::PTRACE_EVENT_EXIT) {
        return Ok(Change::Ending);
    }
    if is(Event::PTRACE_EVENT_EXEC) {
        return Ok(Change::Replaced);
    }
    let is_clone = is(Event::PTRACE_EVENT_CLONE);
    if !is_clone && !is(Event::PTRACE_EVENT_FORK) && !is(Event::PTRACE_EVENT_VFORK) {
        return Ok(Change::None);
    }
    let child = ptrace::getevent(thread).map_err(|error| tracee.failed(error))?;
    let child = Pid::from_raw(child as i32);
    // Its first stop, which may have been seen before this event.
    if !threads.recall(child) {
        match wait(child) {
            Ok(Status::Exited(..) | Status::Killed(..)) | Err(Errno::ECHILD) => {
                return Ok(Change::None);
            }
            other => other.map_err(|error| tracee.failed(error))?,
        };
    }
    let is_thread = Path::new(&format!("/proc/{}/task/{child}", tracee.pid)).exists();
    if is_clone && is_thread {
        tracee.threads.push(child);
        let number = threads.add(child);
        threads.go_on(tracee, child, None)?;
        return Ok(Change::Thread(number));
    }
    let failed = |error| tracee.failed(error);
    if is(Event::PTRACE_EVENT_VFORK) || (is_clone && shares_memory(tracee.pid, child)) {
        lead_past(tracee, child, breakpoints).map_err(failed)?;
    } else {
        let memory = OpenOptions::new().write(true).open(format!("/proc/{child}/mem"));
        if let Ok(memory) = memory {
            for (&address, &byte) in breakpoints {
                let _ = memory.write_all_at(&[byte], address);
            }
        }
        let _ = ptrace::detach(child, None);
    }
    Ok(Change::Process)
}

/// Whether two processes have one memory (`kcmp(2)`); not if that cannot be asked.
fn shares_memory(one: Pid, other: Pid) -> bool {
    sys::compare_memory(one, other)
}

/// Lets a program that has become another go its way; how that ended.
pub(super) fn see_out(tracee: &mut Tracee) -> Result<Ended, Error> {
    ptrace::detach(tracee.pid, None).map_err(|error| tracee.failed(error))?;
    loop {
        match tracee.wait()? {
            Status::Exited(_, status) => {
                tracee.is_gone = true;
                return Ok(Ended::Exited(status));
            }
            Status::Killed(_, signal) => {
                tracee.is_gone = true;
                return Ok(Ended::Killed(signal));
            }
            _ => {}
        }
    }
}

pub(super) fn wait(process: Pid) -> Result<Status, Errno> {
    sys::wait(Some(process), libc::__WALL)
}

/// Runs a child in its parent's memory until it has its own.
fn lead_past(tracee: &Tracee, child: Pid, breakpoints: &HashMap<u64, u8>) -> Result<(), Errno> {
    let mut signal = None;
    loop {
        sys::go_on(child, signal.take())?;
        match wait(child)? {
            Status::Exited(..) | Status::Killed(..) => return Ok(()),
            Status::Event(_, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                return ptrace::detach(child, None);
            }
            Status::Stopped(_, libc::SIGTRAP) => {
                let address = sys::program_counter(child)?.wrapping_sub(1);
                if !breakpoints.contains_key(&address) {
                    signal = Some(libc::SIGTRAP);
                } else if !pass(tracee, child, address, breakpoints)? {
                    return Ok(());
                }
            }
            Status::Stopped(_, other) => signal = Some(other),
            Status::Event(..) => {}
        }
    }
}

/// Leads a thread past the breakpoint that it has stopped behind, with a second stop;
/// whether it is still there.
pub(super) fn pass(
    tracee: &Tracee,
    thread: Pid,
    address: u64,
    breakpoints: &HashMap<u64, u8>,
) -> Result<bool, Errno> {
    let Some(&byte) = breakpoints.get(&address) else { return Ok(true) };
    let put = |byte: u8| tracee.memory.write_all_at(&[byte], address);
    put(byte).map_err(|_| Errno::EIO)?;
    sys::set_program_counter(thread, address)?;
    sys::step(thread, None)?;
    let status = wait(thread)?;
    put(super::launch::BREAKPOINT).map_err(|_| Errno::EIO)?;
    Ok(!status.is_end())
}
