//! Processes that do not outlive this one.
#![allow(unsafe_code)]

use std::collections::BTreeMap;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::prctl;
use nix::sys::signal::{SigHandler, SigSet, SigmaskHow, Signal, kill, signal};
use nix::unistd::{Pid, getpid, getppid};

use crate::signals::handled;

/// How long children have to tidy up when they are asked to end.
const PATIENCE: Duration = Duration::from_secs(2);
const PAUSE: Duration = Duration::from_millis(5);

/// What `command` starts is killed when we die. To be called by a thread that lives until
/// the child has ended: the kernel means the thread that started it
/// (`PR_SET_PDEATHSIG` in prctl(2)).
pub fn bind(command: &mut Command) -> &mut Command {
    let parent = getpid();
    let ask = move || {
        prctl::set_pdeathsig(Signal::SIGKILL)?;
        // It may have died before it was asked.
        if getppid() == parent { Ok(()) } else { Err(Errno::ESRCH.into()) }
    };
    // SAFETY: between fork and exec only what is safe in a handler of signals is allowed:
    // these are two system calls, and nothing is allocated or locked.
    unsafe { command.pre_exec(ask) }
}

/// Starts a program that stands in our place: it dies with us, and is reached by every
/// signal from its first moment on. A handler of ours does not run in it, which is a
/// copy of this process until it becomes the program.
pub fn spawn_program(command: &mut Command) -> io::Result<Child> {
    let signals = handled().into_iter().filter_map(|it| Signal::try_from(it).ok());
    let signals: Vec<Signal> = signals.collect();
    let blocked: SigSet = signals.iter().copied().collect();
    let before = blocked.thread_swap_mask(SigmaskHow::SIG_BLOCK)?;
    let mask = before;
    let prepare = move || {
        for &it in &signals {
            // SAFETY: no function is called by what the kernel does by default.
            unsafe { signal(it, SigHandler::SigDfl) }?;
        }
        Ok(mask.thread_set_mask()?)
    };
    // SAFETY: as above: system calls alone. The vector is read, not changed.
    unsafe { bind(command).pre_exec(prepare) };
    let child = command.spawn();
    before.thread_set_mask()?;
    child
}

/// Ends all that we started and that they started: asks, waits, and kills what is left.
pub(crate) fn end_all() {
    let send = |signal| {
        let found = descendants();
        for &pid in &found {
            // It may have ended by itself.
            let _ = kill(Pid::from_raw(pid), signal);
        }
        found.is_empty()
    };
    let begun = std::time::Instant::now();
    while !send(Signal::SIGTERM) && begun.elapsed() < PATIENCE {
        std::thread::sleep(PAUSE);
    }
    while !send(Signal::SIGKILL) && begun.elapsed() < 2 * PATIENCE {
        std::thread::sleep(PAUSE);
    }
}

/// The processes that live and are below us.
fn descendants() -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<(i32, bool)>> = BTreeMap::new();
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    for entry in entries.filter_map(Result::ok) {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else {
            continue;
        };
        let stat = std::fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        // Behind the name, which may have anything in it: the state and the parent.
        let Some((_, rest)) = stat.rsplit_once(") ") else { continue };
        let mut words = rest.split(' ');
        let (state, parent) = (words.next(), words.next().and_then(|word| word.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent) {
            children.entry(parent).or_default().push((pid, !["Z", "X"].contains(&state)));
        }
    }
    let (mut found, mut pending) = (Vec::new(), vec![getpid().as_raw()]);
    while let Some(parent) = pending.pop() {
        for (pid, lives) in children.remove(&parent).unwrap_or_default() {
            pending.push(pid);
            found.extend(lives.then_some(pid));
        }
    }
    found
}
