//! A command with limits, run by a process of its own that says how it ended.
//!
//! How much memory a command took is told by the kernel to whoever waited for it, as
//! the most that any child of that process ever took. So each command that is measured
//! has a process that starts nothing else: this program again, as `xtask bounded`.

use std::ffi::OsString;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};
use clap::Args;
use nix::sys::resource::{Resource, UsageWho, getrlimit, getrusage, setrlimit};
use serde::{Deserialize, Serialize};

/// The most address space of a process.
const SPACE: u64 = 4 << 30;

/// The most seconds of processor time of a process.
pub const SECONDS: u64 = 25;

/// The longest file that a process may write: the handler inside a traced program has one
/// of 8 GiB, most of which is a hole.
const FILE: u64 = 16 << 30;

/// What `cargo xtask bounded` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// Where to write how the command ended
    #[arg(long)]
    report: PathBuf,
    /// The command
    #[arg(last = true, required = true)]
    words: Vec<OsString>,
}

/// How a command ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct End {
    /// With which code.
    pub code: Option<i32>,
    /// Or by which signal.
    pub signal: Option<i32>,
    /// The most memory that it or one of its children had, in KiB.
    pub memory: i64,
}

/// Runs the command.
pub fn run(options: &Options) -> Result<()> {
    let limits = [
        (Resource::RLIMIT_AS, SPACE),
        (Resource::RLIMIT_CPU, SECONDS),
        (Resource::RLIMIT_FSIZE, FILE),
        (Resource::RLIMIT_CORE, 0),
    ];
    for (resource, most) in limits {
        let (_, hard) = getrlimit(resource)?;
        setrlimit(resource, most.min(hard), hard)
            .with_context(|| format!("cannot limit {resource:?}"))?;
    }
    let (program, words) = options.words.split_first().context("no command")?;
    let status = Command::new(program).args(words).status().context("cannot start the command")?;
    let memory = getrusage(UsageWho::RUSAGE_CHILDREN)?.max_rss();
    let end = End { code: status.code(), signal: status.signal(), memory };
    std::fs::write(&options.report, serde_json::to_string(&end)?).context("cannot write the report")
}
