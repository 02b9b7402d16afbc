//! The signals that ask this process to end or to pause.
//!
//! One thread waits for them, from when there first is something to tidy up. A handler
//! cannot be taken away again without unsafe code; so where nobody [`take`]s a signal, the
//! thread does what the kernel would have done, after it has ended our children and
//! removed what was to be removed. Signals that are ignored stay ignored (`nohup`).
//!
//! While it tidies up, it holds the lock of everything that can be left, and never gives
//! it back: threads that are about to make, to remove or to report something wait until
//! the process is gone. A compiler that was ended is so not reported as one that failed.
//!
//! Whoever deals with a signal may also [`remember`] it, where something has to be finished
//! first, and [`obey`] it then.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use nix::unistd::{Pid, getpgrp, setpgid};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGTSTP, SIGUSR1, SIGUSR2};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use crate::{children, folder};

/// The signals that are waited for. All but `SIGTSTP`, which asks for a pause, end a
/// process that has no handler for them.
pub const ASKED: [i32; 7] = [SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGTSTP];

/// Is told of a signal; whether it dealt with it.
type Taker = Arc<dyn Fn(i32) -> bool + Send + Sync>;

#[derive(Default)]
struct State {
    next: u64,
    /// Files and folders that an interruption removes.
    leftovers: BTreeMap<u64, PathBuf>,
    /// Who deals with signals; the last one does.
    takers: BTreeMap<u64, Taker>,
    /// What is to be obeyed when what is being done has been done.
    remembered: Option<i32>,
}

impl State {
    fn number(&mut self) -> u64 {
        self.next += 1;
        self.next
    }
}

fn state() -> MutexGuard<'static, State> {
    static STATE: OnceLock<Mutex<State>> = OnceLock::new();
    STATE.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

/// A file or folder that an interruption removes, as long as this is kept.
#[derive(Debug)]
pub struct Leftover(u64);

impl Leftover {
    /// Makes what is at a path, and sees to it from its first moment on.
    pub fn make<T: AsRef<Path>>(make: impl FnOnce() -> io::Result<T>) -> io::Result<(T, Self)> {
        begin();
        let mut state = state();
        let made = make()?;
        let path = std::path::absolute(made.as_ref())?;
        let number = state.number();
        state.leftovers.insert(number, path);
        Ok((made, Self(number)))
    }
}

impl Drop for Leftover {
    fn drop(&mut self) {
        state().leftovers.remove(&self.0);
    }
}

/// Signals are dealt with by somebody, as long as this is kept.
#[derive(Debug)]
pub struct Taken(u64);

/// From now on `taker` deals with signals, if it says so: where it returns `false`, this
/// process ends, or pauses.
pub fn take(taker: impl Fn(i32) -> bool + Send + Sync + 'static) -> Taken {
    begin();
    let mut state = state();
    let number = state.number();
    state.takers.insert(number, Arc::new(taker));
    Taken(number)
}

impl Taken {
    /// For as long as this process lives.
    pub fn for_good(self) {
        std::mem::forget(self);
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        state().takers.remove(&self.0);
    }
}

/// Notes a signal for [`obey`]. Not if there is one already: who asks again means it.
pub fn remember(signal: i32) -> bool {
    let mut state = state();
    let is_first = state.remembered.is_none();
    state.remembered.get_or_insert(signal);
    is_first
}

/// Does what a signal asks for that was remembered.
pub fn obey() {
    let remembered = state().remembered;
    if let Some(signal) = remembered {
        end(signal);
    }
}

/// Does something between whose parts no interruption comes.
pub fn uninterrupted<T>(work: impl FnOnce() -> T) -> T {
    begin();
    let _held = state();
    work()
}

/// Comes back unless this process is being ended: to be called before an error is
/// reported, which may be of what was just ended.
///
/// A signal that is sent to our group reaches its members one after another, under a lock
/// of the kernel's that whoever changes a group needs (`tasklist_lock`), also where nothing
/// is changed, as here. So what has ended a child of ours in the group has reached us.
pub fn settle() {
    let _ = setpgid(Pid::from_raw(0), getpgrp());
    let until = Instant::now() + PATIENCE;
    while ARRIVED.iter().any(|it| it.load(Ordering::SeqCst)) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(1));
    }
    drop(state());
}

/// How long a signal that has arrived may take to be dealt with.
const PATIENCE: Duration = Duration::from_secs(5);

/// By place in [`ASKED`]: whether a signal has arrived that was not dealt with yet.
static ARRIVED: LazyLock<Vec<Arc<AtomicBool>>> =
    LazyLock::new(|| ASKED.iter().map(|_| Arc::default()).collect());

fn arrived(signal: i32) -> Option<&'static Arc<AtomicBool>> {
    ASKED.iter().position(|it| *it == signal).map(|place| &ARRIVED[place])
}

/// The thread waits from now on.
pub fn begin() {
    static THREAD: OnceLock<()> = OnceLock::new();
    THREAD.get_or_init(|| {
        for signal in handled() {
            // Before the thread hears of it. Without it, an error may be told of what was
            // ended.
            if let Some(flag) = arrived(signal) {
                let _ = signal_hook::flag::register(signal, Arc::clone(flag));
            }
        }
        // Without it there is only more to tidy up.
        let Ok(mut signals) = Signals::new(handled()) else { return };
        std::thread::spawn(move || signals.forever().for_each(handle));
    });
}

/// Those of [`ASKED`] that are not ignored.
pub(crate) fn handled() -> Vec<i32> {
    static HANDLED: OnceLock<Vec<i32>> = OnceLock::new();
    // Once: it is the same in the whole life of the process, and read before handlers are
    // there.
    let read = || {
        let ignored = ignored_signals();
        ASKED.into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0).collect()
    };
    HANDLED.get_or_init(read).clone()
}

fn handle(signal: i32) {
    deal_with(signal);
    if let Some(flag) = arrived(signal) {
        flag.store(false, Ordering::SeqCst);
    }
}

fn deal_with(signal: i32) {
    let taker = state().takers.values().next_back().cloned();
    // Without the lock: a taker may take its time.
    if taker.is_some_and(|taker| taker(signal)) {
        return;
    }
    if signal == SIGTSTP {
        // Comes back when somebody continues us.
        let _ = emulate_default_handler(SIGTSTP);
        return;
    }
    end(signal);
}

/// Tidies up and ends this process, as a signal does that nobody deals with.
fn end(signal: i32) -> ! {
    let state = state();
    children::end_all();
    state.leftovers.values().for_each(|path| folder::remove_for_good(path));
    let _ = emulate_default_handler(signal);
    std::process::exit(128 + signal)
}

/// The set of ignored signals, as Linux shows it.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
