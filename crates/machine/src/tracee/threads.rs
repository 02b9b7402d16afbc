//! The threads of a traced program.
//!
//! The first is waited for by itself until there is another: most programs have one,
//! and a wait for any is slower. Only children of this thread are waited for
//! (`__WNOTHREAD`), so that several programs can be traced at a time. The first stop
//! of a new thread may come before the event that tells of it, and is remembered.
//!
//! A thread may be gone at any time, when another ends the process: what is asked of
//! it then is left undone, and its end comes next.

use std::collections::HashMap;

use nix::errno::Errno;
use nix::libc;
use nix::unistd::Pid;

use super::Tracee;
use super::sys::{self, Status};
use crate::Error;

pub(super) struct Threads {
    first: Pid,
    numbers: HashMap<Pid, usize>,
    count: usize,
    /// Stopped before they were heard of.
    early: Vec<Pid>,
}

impl Threads {
    pub fn new(first: Pid) -> Self {
        Self { first, numbers: HashMap::new(), count: 1, early: Vec::new() }
    }

    fn is_alone(&self) -> bool {
        self.count == 1
    }

    /// Whose stop it is.
    #[inline]
    pub fn number(&self, pid: Pid) -> Option<usize> {
        if pid == self.first { Some(0) } else { self.numbers.get(&pid).copied() }
    }

    /// Another thread; its number.
    pub fn add(&mut self, pid: Pid) -> usize {
        self.numbers.insert(pid, self.count);
        self.count += 1;
        self.count - 1
    }

    pub fn forget(&mut self, pid: Pid) {
        self.numbers.remove(&pid);
    }

    /// A child that nothing is known of has stopped.
    pub fn remember(&mut self, pid: Pid) {
        self.early.push(pid);
    }

    /// Whether this child has stopped already.
    pub fn recall(&mut self, pid: Pid) -> bool {
        let found = self.early.iter().position(|&it| it == pid);
        found.map(|at| self.early.swap_remove(at)).is_some()
    }

    /// Lets a thread go on, unless it is gone or has not begun.
    #[inline]
    pub fn go_on(&self, tracee: &Tracee, pid: Pid, deliver: Option<i32>) -> Result<(), Error> {
        match sys::go_on(pid, deliver) {
            Err(Errno::ESRCH) if !self.is_alone() => Ok(()),
            other => other.map_err(|error| tracee.failed(error)),
        }
    }

    /// The next thing that happens to any of them.
    #[inline]
    pub fn wait(&self, tracee: &Tracee) -> Result<Status, Error> {
        if self.is_alone() {
            return tracee.wait();
        }
        sys::wait(None, libc::__WALL | libc::__WNOTHREAD).map_err(|error| tracee.failed(error))
    }

    /// Where a thread is; nothing if it is gone.
    #[inline]
    pub fn program_counter(&self, tracee: &Tracee, pid: Pid) -> Result<Option<u64>, Error> {
        match sys::program_counter(pid) {
            Err(Errno::ESRCH) if !self.is_alone() => Ok(None),
            other => other.map(Some).map_err(|error| tracee.failed(error)),
        }
    }

    /// Sets where a thread goes on.
    #[inline]
    pub fn set_program_counter(
        &self,
        tracee: &Tracee,
        pid: Pid,
        address: u64,
    ) -> Result<(), Error> {
        match sys::set_program_counter(pid, address) {
            Err(Errno::ESRCH) if !self.is_alone() => Ok(()),
            other => other.map_err(|error| tracee.failed(error)),
        }
    }
}
