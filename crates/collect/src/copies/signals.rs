//! Signals that ask this process to end or to pause, while copies run.
//!
//! Each copy is a process group of its own, so the keyboard reaches none of
//! them: the signal comes to us, and is handed on to each copy once. A thread
//! waits for signals from the first run on. A handler cannot be taken away
//! again without unsafe code, so when nothing runs, the thread does what the
//! kernel would have done.

use std::collections::BTreeSet;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

#[derive(Default)]
struct State {
    /// How many runs are under way.
    runs: usize,
    /// The process groups of copies that run.
    groups: BTreeSet<i32>,
    /// The first signal since the first of these runs began.
    received: Option<i32>,
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// The first signal that came since the run under way began.
pub(super) fn received() -> Option<i32> {
    let state = state();
    state.received.filter(|_| state.runs > 0)
}

/// A run during which signals are handed on.
pub(super) struct Watch(());

impl Watch {
    /// From now on.
    pub fn begin() -> Self {
        static THREAD: OnceLock<()> = OnceLock::new();
        THREAD.get_or_init(start);
        let mut state = state();
        if state.runs == 0 {
            state.received = None;
        }
        state.runs += 1;
        Self(())
    }

    /// A copy has begun, as the process group `group`. It may have missed a
    /// signal.
    pub fn add(&self, group: i32) {
        let mut state = state();
        state.groups.insert(group);
        if let Some(signal) = state.received {
            hand_on(group, signal);
        }
    }

    /// The process group is about to be no more.
    pub fn remove(&self, group: i32) {
        state().groups.remove(&group);
    }

    /// The first signal that came, if one came.
    pub fn received(&self) -> Option<i32> {
        received()
    }

    /// Ends all copies, because something else failed.
    pub fn kill_all(&self) {
        state().groups.iter().for_each(|&group| hand_on(group, Signal::SIGKILL as i32));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        state().runs -= 1;
    }
}

fn hand_on(group: i32, signal: i32) {
    if let Ok(signal) = Signal::try_from(signal) {
        // It may have ended.
        let _ = killpg(Pid::from_raw(group), signal);
    }
}

fn start() {
    let ignored = ignored_signals();
    let asked = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP];
    let asked = asked.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Without it, copies are killed when we are: they ask the kernel for that.
    let Ok(mut signals) = Signals::new(asked) else { return };
    std::thread::spawn(move || signals.forever().for_each(handle));
}

fn handle(signal: i32) {
    let mut state = state();
    if state.runs == 0 {
        drop(state);
        let _ = emulate_default_handler(signal);
    } else if signal == SIGTSTP {
        // All pause, then we do, until somebody continues us.
        let groups = state.groups.clone();
        drop(state);
        groups.iter().for_each(|&group| hand_on(group, Signal::SIGSTOP as i32));
        let _ = emulate_default_handler(SIGTSTP);
        groups.iter().for_each(|&group| hand_on(group, Signal::SIGCONT as i32));
    } else {
        state.received.get_or_insert(signal);
        state.groups.iter().for_each(|&group| hand_on(group, signal));
    }
}

/// The set of ignored signals, as Linux shows it. They stay ignored (`nohup`).
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
