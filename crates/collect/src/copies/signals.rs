//! Signals that ask this process to end or to pause, while copies run.
//!
//! Each copy is a process group of its own, so the keyboard reaches none of
//! them: the signal comes to us, and is handed on to each copy once.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use backtrail_interruption::{Taken, take};
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use signal_hook::consts::{SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::low_level::emulate_default_handler;

#[derive(Default)]
struct State {
    /// How many runs are under way.
    runs: usize,
    /// The process groups of copies that run.
    groups: BTreeSet<i32>,
    /// The first signal since the first of these runs began.
    received: Option<i32>,
    /// The first of them that a copy got and did not ignore.
    heeded: Option<i32>,
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
pub(super) struct Watch {
    _taken: Taken,
}

impl Watch {
    /// From now on.
    pub fn begin() -> Self {
        let mut state = state();
        if state.runs == 0 {
            (state.received, state.heeded) = (None, None);
        }
        state.runs += 1;
        drop(state);
        Self { _taken: take(handle) }
    }

    /// A copy has begun, as the process group `group`. It may have missed a
    /// signal.
    pub fn add(&self, group: i32) {
        let mut state = state();
        state.groups.insert(group);
        if let Some(signal) = state.received {
            if !ignores(group, signal) {
                state.heeded.get_or_insert(signal);
            }
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

    /// The first signal that a copy got while it ran and did not ignore.
    pub fn heeded(&self) -> Option<i32> {
        state().heeded
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

fn handle(signal: i32) -> bool {
    let mut state = state();
    if state.runs == 0 {
        return false;
    }
    if signal == SIGTSTP {
        // All pause, then we do, until somebody continues us.
        let groups = state.groups.clone();
        drop(state);
        groups.iter().for_each(|&group| hand_on(group, Signal::SIGSTOP as i32));
        let _ = emulate_default_handler(SIGTSTP);
        groups.iter().for_each(|&group| hand_on(group, Signal::SIGCONT as i32));
        return true;
    }
    if ![SIGUSR1, SIGUSR2].contains(&signal) {
        state.received.get_or_insert(signal);
    }
    if state.groups.iter().any(|&group| !ignores(group, signal)) {
        state.heeded.get_or_insert(signal);
    }
    state.groups.iter().for_each(|&group| hand_on(group, signal));
    true
}

/// Whether the program in a group ignores a signal: all of the group that is not this
/// tool, which may trace the program. If there is no program yet, somebody heeds it.
fn ignores(group: i32, signal: i32) -> bool {
    let identity =
        |process: &Path| fs::metadata(process.join("exe")).map(|it| (it.dev(), it.ino()));
    let own = identity(Path::new("/proc/self")).ok();
    let Ok(entries) = fs::read_dir("/proc") else { return false };
    let mut found = false;
    for process in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let stat = fs::read_to_string(process.join("stat")).unwrap_or_default();
        // Behind the name, which may have anything in it: the state, the parent, the group.
        let its_group = stat.rsplit_once(") ").and_then(|(_, rest)| rest.split(' ').nth(2));
        if its_group.and_then(|it| it.parse().ok()) != Some(group) {
            continue;
        }
        if own.is_some() && identity(&process).ok() == own {
            continue;
        }
        let status = fs::read_to_string(process.join("status")).unwrap_or_default();
        let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let ignored = line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        if ignored >> (signal - 1) & 1 == 0 {
            return false;
        }
        found = true;
    }
    found
}
