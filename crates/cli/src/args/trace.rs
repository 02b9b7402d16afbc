//! `backtrail trace`, as it is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use super::copies::Running;
use super::program::Program;

/// `backtrail trace`
#[derive(Debug, Args)]
pub struct Trace {
    /// Over how many runs on the same input the places that are observed are
    /// spread.
    #[arg(long, value_name = "M", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub runs: u8,
    /// How they are spread [default: single for one run; for several the cheapest of
    /// all if there are weights, and fine if not].
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
    /// earlier trace of the same executable. `first`: the first of several runs
    /// tells how often places are passed, and the others are planned by that.
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// The most disk space that the log of a run may take while it runs, such as
    /// 500M or 2G; behind that the trace is unknown.
    #[arg(long, value_name = "SIZE", value_parser = read_size)]
    pub disk: Option<u64>,
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
    /// With breakpoints: trace the libraries whose file names match, too, such as
    /// 'libz*'. Those that the program loads while it runs are not traced.
    #[arg(long, value_name = "GLOB")]
    pub library: Vec<globset::Glob>,
    /// Log every block in one run if the program calls what witnesses may not follow:
    /// functions that change stacks, threads that are cancelled anywhere.
    #[arg(long)]
    pub fallback: bool,
    /// Tell on standard error what was planned and what it cost.
    #[arg(long)]
    pub explain: bool,
    /// Run nothing: print what plans of one to six runs, and with limits, would
    /// cost on the run that FILE profiles, and what none can stay below.
    #[arg(long, requires = "weights")]
    pub costs: bool,
    /// Carry out the recipe of an executable that was not built here as it is, whatever
    /// it runs.
    #[arg(long)]
    pub trust: bool,
    /// Keep the variants of the runs in this folder.
    #[arg(long, value_name = "DIR", hide = true)]
    pub keep: Option<PathBuf>,
    /// An executable built by Backtrail, or any at all with breakpoints.
    pub program: Program,
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

/// Reads a number of bytes, with K, M or G behind it or without.
fn read_size(text: &str) -> Result<u64, String> {
    let (digits, unit) = match text.strip_suffix(['K', 'M', 'G']) {
        Some(digits) => (digits, 1 << (10 * (1 + "KMG".find(&text[digits.len()..]).unwrap_or(0)))),
        None => (text, 1u64),
    };
    let number: u64 = digits.parse().map_err(|_| "give a number, such as 500M or 2G".to_owned())?;
    match number.checked_mul(unit) {
        Some(bytes) if bytes >= SMALLEST => Ok(bytes),
        Some(_) => Err("give at least 64K".to_owned()),
        None => Err("that is more than there can be".to_owned()),
    }
}

/// The least that is of any use.
const SMALLEST: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read() {
        assert_eq!(read_size("70000"), Ok(70_000));
        assert_eq!(read_size("64K"), Ok(64 << 10));
        assert_eq!(read_size("3M"), Ok(3 << 20));
        assert_eq!(read_size("2G"), Ok(2 << 30));
        for bad in ["", "G", "-1", "1T", "10", "99999999999999999999", "99999999999G"] {
            assert!(read_size(bad).is_err(), "{bad}");
        }
    }
}
