//! `cargo xtask fuzz crash`: crashes, forced and real, against logs of the same
//! crashes, and random executions against what is called impossible.
//!
//! The tests of `cli` and `crash` take their amounts by number; here these are
//! large. The table goes into `docs/crash-truth.md`.

pub mod programs;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::packages::Need;
use crate::{command, corpus, setup, workspace};

/// What `cargo xtask fuzz crash` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    consent: setup::Consent,
    /// Only these real programs; `none` for none
    #[arg(long, value_delimiter = ',', value_name = "NAME")]
    only: Vec<String>,
    /// How many crashes at random blocks
    #[arg(long, default_value_t = 1_000)]
    count: u64,
    /// How many crashes of each program with each scheme
    #[arg(long, default_value_t = 100)]
    by_scheme: u64,
    /// Only so many crashes by scheme, and none that are compared with logs
    #[arg(long)]
    only_schemes: bool,
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
    setup::run(Need::Corpus, &options.consent)?;
    let workshop = corpus::workshop(None, "profile-")?;
    let target = workspace::target()?;
    let list = target.join("crash-truth-programs.json");
    programs::list(&workshop, &options.only, &list)?;
    let tables = ["crash-truth-table.md", "crash-schemes-table.md"].map(|name| target.join(name));
    let test = |package: &str, test: &str, name: &str| {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--release", "--package", package, "--test", test]);
        cargo.args(["--", "--nocapture", name]);
        cargo.env("BACKTRAIL_SEED", options.seed.to_string());
        cargo.env("BACKTRAIL_EXECUTIONS", options.executions.to_string());
        cargo.env("BACKTRAIL_CRASHES", options.count.to_string());
        cargo.env("BACKTRAIL_CRASHES_BY_SCHEME", options.by_scheme.to_string());
        cargo.env("BACKTRAIL_PROGRAMS", &list).env("BACKTRAIL_TABLE", &tables[0]);
        cargo.env("BACKTRAIL_SCHEMES_TABLE", &tables[1]);
        command::run(&mut cargo)
    };
    if !options.only_schemes {
        test("backtrail-crash", "active_code", "")?;
        test("backtrail-cli", "crash_truth", "crashes_tell")?;
    }
    test("backtrail-cli", "crash_truth", "schemes_leave")?;
    let [truth, schemes] = tables.map(|path| std::fs::read_to_string(path).unwrap_or_default());
    let page = page(options, &truth, &schemes);
    std::fs::write(workspace::root().join(PAGE), page).context("cannot write the page")
}

fn page(options: &Options, table: &str, schemes: &str) -> String {
    format!(
        "# Crashes, against logs\n\n\
         Made by `cargo xtask fuzz crash --count {} --seed {}`. A program dies in two variants: one \
         that records for crashes, and one that logs every block. What the core of the first tells \
         must be how the log of the second ends, and no block and no edge that the log has may be \
         called impossible: the run stops at the first that is.\n\n\
         *Block* crashes are forced: the program is ended at the n-th block that it executes, for a \
         random n, in programs that csmith writes and in real ones. The others are real: a null pointer, a stack that overflows, `abort` in what \
         `qsort` calls and in a signal handler, one of four threads, and a null pointer behind a \
         `longjmp`. *Equal* crashes are those all of whose resolved frames agree with the log; \
         *unresolved* frames are those of which no block is known; *as gdb shows* are frames whose \
         address and function, inlined functions included, are those of gdb's backtrace of the same \
         core (in a stripped executable, of what is not inlined), and again the run stops at the first \
         that is not; *edges left* are those that can have been taken, of those that can by the stack \
         alone. Functions of one name that a program has several times are left out: the log does not \
         tell them apart.\n\n{table}\n\
         ## What each scheme leaves\n\n\
         Percent of the nodes and of the edges of a program that can have run, on average over \
         crashes: by the stack alone, and by what each scheme records ([schemes.md](schemes.md)). Here \
         a timer ends the programs, as they are shipped at -O2, wherever they are then, at random \
         fractions of the time that they take; nothing is compared with a log. `realistic` has the \
         functions of [bench-crash.md](bench-crash.md).\n\n{schemes}",
        options.count, options.seed
    )
}
