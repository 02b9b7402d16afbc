//! `cargo xtask fuzz crash`: crashes, forced and real, against logs of the same
//! crashes, and random executions against what is called impossible.
//!
//! The tests of `cli` and `crash` take their amounts by number; here these are
//! large. The table goes into `docs/crash-truth.md`.

use anyhow::{Context as _, Result};
use clap::Args;

use crate::{command, workspace};

/// What `cargo xtask fuzz crash` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// How many crashes at random blocks
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// How many random executions
    #[arg(long, default_value_t = 100_000)]
    executions: u64,
    /// Begins the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

const PAGE: &str = "docs/crash-truth.md";

/// Runs the tests and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-crash", "--test", "active_code"]);
    cargo.args(["--", "--nocapture"]);
    cargo.env("BACKTRAIL_EXECUTIONS", options.executions.to_string());
    cargo.env("BACKTRAIL_SEED", options.seed.to_string());
    command::run(&mut cargo)?;

    let table = workspace::target()?.join("crash-truth-table.md");
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-cli", "--test", "crash_truth"]);
    cargo.args(["--", "--nocapture"]);
    cargo.env("BACKTRAIL_CRASHES", options.count.to_string());
    cargo.env("BACKTRAIL_SEED", options.seed.to_string());
    cargo.env("BACKTRAIL_TABLE", &table);
    command::run(&mut cargo)?;
    let table = std::fs::read_to_string(&table).context("the test wrote no table")?;
    let page = page(options, &table);
    std::fs::write(workspace::root().join(PAGE), page).context("cannot write the page")
}

fn page(options: &Options, table: &str) -> String {
    format!(
        "# Crashes, against logs\n\n\
         Made by `cargo xtask fuzz crash --count {} --seed {}`. A program dies in two variants: one \
         that records for crashes, and one that logs every block. What the core of the first tells \
         must be how the log of the second ends, and no block and no edge that the log has may be \
         called impossible: the run stops at the first that is.\n\n\
         *Block* crashes are forced: the program is ended at the n-th block that it executes, for a \
         random n. The others are real: a null pointer, a stack that overflows, `abort` in what \
         `qsort` calls and in a signal handler, one of four threads, and a null pointer behind a \
         `longjmp`. *Equal* crashes are those all of whose resolved frames agree with the log; \
         *unresolved* frames are those of which no block is known; *edges left* are those that can \
         have been taken, of those that can by the stack alone.\n\n{table}",
        options.count, options.seed
    )
}
