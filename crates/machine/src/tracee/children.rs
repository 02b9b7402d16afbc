//! What a traced program starts, and what it becomes.
//!
//! A process that it forks has a copy of its memory, breakpoints included: they
//! are taken out of the copy, and the child goes its own way, untraced. A child of
//! `vfork` has the very memory of its parent, which waits: it is led past every
//! breakpoint until it becomes another program or ends. Threads are refused: one
//! trace per thread needs to know whose stop a stop is from the start.

use std::collections::HashMap;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt as _;

use nix::errno::Errno;
use nix::sys::ptrace::{self, Event};
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use super::{Tracee, sys};
use crate::Error;

/// What became of the program at an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// It goes on.
    None,
    /// It is about to end; its memory is still there.
    Ending,
    /// It is another program now.
    Replaced,
}

/// Deals with an event of the program, whose memory has these breakpoints: by
/// address, the byte that belongs there.
pub(super) fn on_event(
    tracee: &mut Tracee,
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
    if is(Event::PTRACE_EVENT_CLONE) {
        if let Ok(thread) = ptrace::getevent(tracee.pid) {
            tracee.threads.push(Pid::from_raw(thread as i32));
        }
        return Err(Error::Threads { path: tracee.executable().to_owned() });
    }
    if is(Event::PTRACE_EVENT_FORK) || is(Event::PTRACE_EVENT_VFORK) {
        let failed = |error| tracee.failed(error);
        let child = ptrace::getevent(tracee.pid).map_err(failed)?;
        let child = Pid::from_raw(child as i32);
        // Its first stop.
        match wait(child) {
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) | Err(Errno::ECHILD) => {
                return Ok(Change::None);
            }
            other => other.map_err(failed)?,
        };
        if is(Event::PTRACE_EVENT_FORK) {
            let memory = OpenOptions::new().write(true).open(format!("/proc/{child}/mem"));
            if let Ok(memory) = memory {
                for (&address, &byte) in breakpoints {
                    let _ = memory.write_all_at(&[byte], address);
                }
            }
            let _ = ptrace::detach(child, None);
        } else {
            lead_past(tracee, child, breakpoints).map_err(failed)?;
        }
    }
    Ok(Change::None)
}

fn wait(process: Pid) -> Result<WaitStatus, Errno> {
    loop {
        match waitpid(process, Some(WaitPidFlag::__WALL)) {
            Err(Errno::EINTR) => {}
            other => return other,
        }
    }
}

/// Runs a child in its parent's memory until it has its own.
fn lead_past(tracee: &Tracee, child: Pid, breakpoints: &HashMap<u64, u8>) -> Result<(), Errno> {
    let mut signal = None;
    loop {
        ptrace::cont(child, signal.take())?;
        match wait(child)? {
            WaitStatus::Exited(..) | WaitStatus::Signaled(..) => return Ok(()),
            WaitStatus::PtraceEvent(_, _, event) if event == Event::PTRACE_EVENT_EXEC as i32 => {
                return ptrace::detach(child, None);
            }
            WaitStatus::Stopped(_, Signal::SIGTRAP) => {
                let address = sys::program_counter(child)?.wrapping_sub(1);
                let Some(&byte) = breakpoints.get(&address) else {
                    signal = Some(Signal::SIGTRAP);
                    continue;
                };
                let put = |byte: u8| tracee.memory.write_all_at(&[byte], address);
                put(byte).map_err(|_| Errno::EIO)?;
                sys::set_program_counter(child, address)?;
                ptrace::step(child, None)?;
                let status = wait(child)?;
                put(super::launch::BREAKPOINT).map_err(|_| Errno::EIO)?;
                if let WaitStatus::Exited(..) | WaitStatus::Signaled(..) = status {
                    return Ok(());
                }
            }
            WaitStatus::Stopped(_, other) => signal = Some(other),
            _ => {}
        }
    }
}
