//! What is left behind when somebody interrupts us: nothing.
//!
//! A compiler is stopped often (`^C` in the middle of `make`). Clang removes its
//! temporary files then, and so do we: a thread waits for the signals that ask a
//! process to end, removes our folder, and lets the signal do what it does by
//! default. Signals that are ignored stay ignored (`nohup`).

use std::path::PathBuf;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

/// From now on, removes `folder` before an interruption ends this process.
pub fn removes(folder: PathBuf) {
    let ignored = ignored_signals();
    let asked =
        [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|signal| ignored >> (signal - 1) & 1 == 0);
    // Without it there is only more to tidy up.
    let Ok(mut signals) = Signals::new(asked) else { return };
    std::thread::spawn(move || {
        if let Some(signal) = signals.forever().next() {
            let _ = std::fs::remove_dir_all(&folder);
            let _ = emulate_default_handler(signal);
        }
    });
}

/// The set of ignored signals, as Linux shows it.
fn ignored_signals() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
