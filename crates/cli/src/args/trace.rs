//! `backtrail trace`, as it is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::copies::Running;

/// `backtrail trace`
#[derive(Debug, Args)]
pub struct Trace {
    /// What each run records.
    #[arg(long, value_enum, default_value_t = Strategy::Log)]
    pub strategy: Strategy,
    /// How it is run.
    #[command(flatten)]
    pub running: Running,
    /// Where to write the trace [default: PROG.bttrace].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write how it went to this file: a line `backtrail CODE` and a line
    /// `program CODE` or `program signal NUMBER`.
    #[arg(long, value_name = "FILE")]
    pub status: Option<PathBuf>,
    /// An executable built by Backtrail.
    pub program: PathBuf,
    /// The program's own arguments.
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}

/// What runs can record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Strategy {
    /// One run logs every block.
    Log,
}
