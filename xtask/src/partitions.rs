//! `cargo xtask fuzz partition`: paths of interest, told from all others.
//!
//! The test of `graph` takes its number of graphs from the environment; here it
//! is a large one. For each, a random control-flow graph with random edges of
//! interest: every interesting path has a sum of its own, decoding inverts, sums
//! of others decode to nothing, moved labels keep every sum.

use anyhow::Result;
use clap::Args;

use crate::{command, workspace};

/// What `cargo xtask fuzz partition` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// How many graphs
    #[arg(long, default_value_t = 100_000)]
    count: u64,
}

/// Runs the test.
pub fn run(options: &Options) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-graph", "--test", "selective_labels"]);
    cargo.env("BACKTRAIL_DAGS", options.count.to_string());
    command::run(&mut cargo)
}
