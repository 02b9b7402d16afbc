//! What it takes to read a core of the variant that records everything.
//!
//! The program is ended by a signal in the midst of its work. Where the kernel sends
//! cores elsewhere, nothing is measured.

use std::path::Path;
use std::process::Command;

use anyhow::Result;
use serde::{Deserialize, Serialize};

use crate::bench::profile::run::Bench;
use crate::bench::profile::subject::Work;
use crate::corpus::tree::Workshop;

/// What an autopsy took.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Autopsy {
    /// Seconds of processor time.
    pub seconds: f64,
    /// The greatest resident set, in kB.
    pub memory: u64,
    /// Bytes of the core.
    pub core: u64,
}

/// Ends `"$@"` after a while, and names the core `core`.
const SCRIPT: &str = r#"
    ulimit -c unlimited
    rm -rf dying && mkdir dying && cd dying
    "$@" < "$STDIN" > /dev/null &
    sleep 0.3
    kill -ABRT $! && wait $! || true
    mv core* ../core
"#;

/// Lets an executable die at its work, and reads the core.
pub fn measure(
    workshop: &Workshop,
    bench: &Bench,
    executable: &Path,
    work: &Work,
) -> Result<Option<Autopsy>> {
    let pattern = std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default();
    if pattern.starts_with('|') || pattern.contains('/') {
        return Ok(None);
    }
    let core = bench.file("core");
    let input = bench.file("dying-input");
    std::fs::write(&input, work.input.make())?;
    let is_named = work.arguments.contains(&"INPUT");
    let mut shell = Command::new("sh");
    shell.args(["-c", SCRIPT, "sh"]).arg(executable).current_dir(bench.file(""));
    shell.env("STDIN", if is_named { Path::new("/dev/null") } else { &input });
    for word in work.arguments {
        match *word {
            "INPUT" => shell.arg(&input),
            word => shell.arg(word),
        };
    }
    // What it says is of no interest; whether there is a core is.
    let _ = shell.output()?;
    let Ok(data) = std::fs::metadata(&core) else { return Ok(None) };
    let mut autopsy = workshop.backtrail();
    autopsy.args(["autopsy", "--json"]).arg(&core);
    let finished = bench.launch(&autopsy, &[], Path::new("/dev/null"))?;
    std::fs::remove_file(&core)?;
    std::fs::remove_file(&input)?;
    let seconds = finished.usage.user + finished.usage.kernel;
    Ok(Some(Autopsy { seconds, memory: finished.usage.memory, core: data.len() }))
}
