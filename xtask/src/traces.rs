//! `cargo xtask fuzz trace`: random programs and executions, put together again.
//!
//! The tests of `trace` take their graphs by number; here it is a large one, in
//! release mode. For each graph a plan is made and verified, all its executions up
//! to a length and some longer ones are recorded under it and rebuilt; and random
//! distributions are judged, and those that are accepted tried in the same way. Then
//! programs are traced by every strategy, kind of witness, limit and number of runs, and
//! compared with logs of every block.

use anyhow::Result;
use clap::Args;

use crate::{command, workspace};

/// The tests that take a number of graphs.
const TESTS: &[&str] = &["planning", "realizability", "program_graph"];

/// What `cargo xtask fuzz trace` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// How many graphs
    #[arg(long, default_value_t = 100_000)]
    count: u64,
}

/// Runs the tests.
pub fn run(options: &Options) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-trace"]);
    cargo.args(TESTS.iter().flat_map(|test| ["--test", test]));
    cargo.args(["--", "--nocapture"]).env("BACKTRAIL_ICFGS", options.count.to_string());
    command::run(&mut cargo)?;
    // Whole programs, in all ways there are.
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-cli", "--test", "trace_equals_log"]);
    cargo.args(["--", "--nocapture", "all_ways"]).env("BACKTRAIL_WAYS", "all");
    command::run(&mut cargo)
}
