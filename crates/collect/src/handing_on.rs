//! Signals that ask this process to end, while a program runs in its place: they are the
//! program's, which decides what they mean. It gets each of them once: from us if it did
//! not get it already (the module `bystander` tells).
//!
//! What the group gets after the bystander is there and before the program is, the copy of
//! this process gives itself that becomes the program ([`HandingOn::catch_up`]).
//!
//! So the program ends, or not, as it would have by itself; we wait, keep what it
//! recorded, and leave as it did. Before it starts, the signals mean us.
//!
//! After it has ended, what it left is not lost by one signal too many: people press `^C`
//! twice, `timeout` sends what it sends to its child and then to the group. So
//!
//! 1. what the group got while the program was there was the program's, however late this
//!    process hears of it: a busy machine may take seconds;
//! 2. the first that comes later is remembered, and obeyed when the result is written whole
//!    (the end of `main` does, and so does whoever starts the next program);
//! 3. the next ends this process at once.

use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt as _;
use std::process::Command;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use backtrail_foreign::say;
use backtrail_interruption::signals::ASKED;
use backtrail_interruption::{Taken, give_back, obey, remember, take};
use nix::libc;
use nix::sys::signal::{SigSet, Signal, raise};
use nix::unistd::{getpgrp, setpgid};
use rustix::process::{Pid, PidfdFlags, pidfd_open, pidfd_send_signal};
use signal_hook::consts::SIGTSTP;
use signal_hook::low_level::emulate_default_handler;

use crate::bystander::{Bystander, Inherited, bit};
use crate::local::signal_name;

/// What the bystander has not got after this long it does not get.
const PAUSE: Duration = Duration::from_millis(10);

/// A program's signals are handed on to it, as long as this is kept.
pub struct HandingOn {
    shared: Arc<Mutex<State>>,
    /// Not behind the lock, which is held while the program is started: then nobody else
    /// asks the bystander.
    inherited: Option<Inherited>,
    taken: Taken,
}

/// How far the program is.
enum Program {
    /// It is not there yet.
    Awaited,
    /// Behind a descriptor: its number may be somebody else's when it has ended.
    Runs(OwnedFd),
    Ended,
}

struct State {
    /// Until the program has ended.
    bystander: Option<Bystander>,
    program: Program,
    /// What the group got and we did not hear of yet.
    unheard: u64,
}

fn lock(shared: &Mutex<State>) -> MutexGuard<'_, State> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Deals with a signal, unless it means this process.
fn hear(shared: &Mutex<State>, signal: i32) -> bool {
    let mut state = lock(shared);
    match state.program {
        Program::Awaited => return false,
        Program::Ended => return state.hear_late(signal),
        Program::Runs(_) => {}
    }
    let is_for_all = state.reached_the_group(signal);
    state.unheard &= !bit(signal);
    if !is_for_all {
        state.send(signal);
    }
    drop(state);
    if signal == SIGTSTP {
        // We pause as well, until somebody continues us.
        let _ = emulate_default_handler(SIGTSTP);
        if !is_for_all {
            lock(shared).send(Signal::SIGCONT as i32);
        }
    }
    true
}

impl State {
    fn reached_the_group(&mut self, signal: i32) -> bool {
        self.ask();
        if self.unheard & bit(signal) == 0 {
            thread::sleep(PAUSE);
            self.ask();
        }
        self.unheard & bit(signal) != 0
    }

    /// What has the group got?
    fn ask(&mut self) {
        settle_the_group();
        self.unheard |= self.bystander.as_mut().map_or(0, Bystander::ask);
    }

    /// Deals with a signal when the program has ended.
    fn hear_late(&mut self, signal: i32) -> bool {
        if self.unheard & bit(signal) != 0 {
            self.unheard &= !bit(signal);
            return true;
        }
        let is_first = signal != SIGTSTP && remember(signal);
        if is_first {
            let name = signal_name(signal);
            say!("backtrail: {name}: what ran is written first; another signal ends that, too");
        }
        is_first
    }

    fn send(&self, signal: i32) {
        let signal = rustix::process::Signal::from_named_raw(signal);
        if let (Program::Runs(program), Some(signal)) = (&self.program, signal) {
            // It may have ended.
            let _ = pidfd_send_signal(program, signal);
        }
    }
}

/// Comes back when a signal that is being sent to our group has reached all of it. Its
/// members are signalled one after another, under a lock of the kernel's that whoever
/// changes a group needs (`tasklist_lock`); also where nothing is changed, as here. A
/// machine that is busy elsewhere may take its time between two of them.
fn settle_the_group() {
    let _ = setpgid(nix::unistd::Pid::from_raw(0), getpgrp());
}

/// The signals that wait until this process takes them.
fn own_pending() -> std::io::Result<SigSet> {
    let mut pending = std::mem::MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: a set is written, whose memory it is.
    #[allow(unsafe_code)]
    let pending = unsafe {
        nix::errno::Errno::result(libc::sigpending(pending.as_mut_ptr()))?;
        SigSet::from_sigset_t_unchecked(pending.assume_init())
    };
    Ok(pending)
}

impl HandingOn {
    /// For a program that is about to be started.
    pub fn prepare() -> std::io::Result<Self> {
        // The program before it was no reason to start this one.
        obey();
        let bystander = Bystander::start()?;
        let inherited = bystander.inherited();
        let state = State { bystander: Some(bystander), program: Program::Awaited, unheard: 0 };
        let shared = Arc::new(Mutex::new(state));
        let taken = take({
            let shared = Arc::clone(&shared);
            move |signal| hear(&shared, signal)
        });
        Ok(Self { shared, inherited, taken })
    }

    /// To be done before the program is started, with the asked signals blocked meanwhile:
    /// what was sent to the group before it was there, it gets all the same. And it ignores
    /// what it would ignore without us.
    ///
    /// The bystander is asked first. What it has and the copy has not was sent before the
    /// fork; what is sent later the copy has, too.
    #[allow(unsafe_code)]
    pub fn catch_up(&self, command: &mut Command) {
        give_back(command);
        let Some(bystander) = self.inherited else { return };
        let catch_up = move || {
            settle_the_group();
            let sent = bystander.ask()?;
            settle_the_group();
            let own = own_pending()?;
            for signal in ASKED.into_iter().filter(|&it| sent & bit(it) != 0) {
                let signal = Signal::try_from(signal)?;
                if !own.contains(signal) {
                    raise(signal)?;
                }
            }
            Ok(())
        };
        // SAFETY: between fork and exec only what is safe in a handler of signals is
        // allowed: these are system calls, and nothing is allocated or locked.
        unsafe { command.pre_exec(catch_up) };
    }

    /// Starts the program; `id` is its number. Signals that come meanwhile wait.
    pub fn start<T, E>(
        &self,
        start: impl FnOnce() -> Result<T, E>,
        id: impl FnOnce(&T) -> u32,
    ) -> Result<T, E> {
        let mut state = lock(&self.shared);
        let program = start()?;
        // Nobody has waited for it: the number is its own.
        let number = Pid::from_raw(id(&program) as i32);
        if let Some(it) = number.and_then(|it| pidfd_open(it, PidfdFlags::empty()).ok()) {
            state.program = Program::Runs(it);
        }
        Ok(program)
    }

    /// The program has ended. Signals are dealt with in the rest of this process's life.
    pub fn finish(self) {
        let mut state = lock(&self.shared);
        state.ask();
        state.bystander = None;
        state.program = Program::Ended;
        self.taken.for_good();
    }
}

/// Ends this process by a signal, as the program ended.
pub fn end_by(signal: i32) {
    // There may be a handler of ours, or of Rust's, which has one for `SIGSEGV` and
    // `SIGBUS` and ignores `SIGPIPE`. What it does not know nobody has a handler for.
    if emulate_default_handler(signal).is_err()
        && let Ok(signal) = Signal::try_from(signal)
    {
        let _ = raise(signal);
    }
}
