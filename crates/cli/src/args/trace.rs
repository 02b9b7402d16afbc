//! `backtrail trace`, as it is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::copies::Running;

/// `backtrail trace`
#[derive(Debug, Args)]
pub struct Trace {
    /// Over how many runs on the same input the places that are observed are
    /// spread.
    #[arg(long, value_name = "M", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub runs: u8,
    /// How they are spread [default: single for one run, fine for several].
    #[arg(long, value_enum)]
    pub strategy: Option<Strategy>,
    /// What is observed.
    #[arg(long, value_enum, default_value_t = Witness::Edge)]
    pub witness: Witness,
    /// The most places that are observed in a run, or breakpoints that are set;
    /// there are more runs if M do not suffice.
    #[arg(long, value_name = "W")]
    pub limit: Option<usize>,
    /// Choose places by this path profile of the same build; breakpoints by an
    /// earlier trace of the same executable.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
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
    /// Let the program take breakpoints itself, by a handler that is put into it:
    /// several times as fast; not for programs that use SIGTRAP.
    #[arg(long)]
    pub in_process: bool,
    /// Tell on standard error what was planned and what it cost.
    #[arg(long)]
    pub explain: bool,
    /// Run nothing: print what plans of one to six runs, and with limits, would
    /// cost on the run that FILE profiles, and what none can stay below.
    #[arg(long, requires = "weights")]
    pub costs: bool,
    /// Keep the variants of the runs in this folder.
    #[arg(long, value_name = "DIR", hide = true)]
    pub keep: Option<PathBuf>,
    /// An executable built by Backtrail, or any at all with breakpoints.
    pub program: PathBuf,
    /// The program's own arguments.
    #[arg(last = true)]
    pub arguments: Vec<OsString>,
}

/// How places can be spread over runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Strategy {
    /// Each decision by itself, to the run that is least loaded.
    Fine,
    /// All of a function in one run.
    Function,
    /// Decisions of a common loop, or next to each other, in one run.
    Grouped,
    /// One run observes enough for everything.
    Single,
    /// One run logs every block.
    Log,
}

/// What can be observed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Witness {
    /// Edges between blocks, by probes.
    Edge,
    /// Blocks, by probes.
    Node,
    /// Blocks, by breakpoints in any x86-64 executable, which is not changed.
    Breakpoint,
}
