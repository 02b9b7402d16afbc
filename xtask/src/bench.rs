//! `cargo xtask bench`: what Backtrail costs.
//!
//! Everything is decided on CPU time ([`cost`]) or on instructions
//! ([`profile`]), and what is compared is run in
//! turns, several times, and the least is taken: other work on the machine can
//! only add to it.

pub mod anatomy;
pub mod autofdo;
pub mod breakpoints;
pub mod build;
pub mod commands;
pub mod cost;
pub mod crash;
pub mod partition;
pub mod profile;
pub mod report;
pub mod trace;

use anyhow::Result;
use clap::Subcommand;

/// What is measured.
#[derive(Debug, Subcommand)]
pub enum Bench {
    /// Compiling against plain clang, what is carried, deriving a variant
    Build(build::Options),
    /// Breakpoints a second, with a stop for each and with a handler in the program
    Breakpoints(breakpoints::Options),
    /// Path profiles against clang's counters: instructions, time, memory
    Profile(profile::Options),
    /// The build that a profile makes possible: instructions and time
    Autofdo(autofdo::Options),
    /// Records and coverage for crashes: instructions, time, memory, size
    Crash(crash::Options),
    /// Path profiles from several copies: hits of the worst, computed; instructions
    Partition(partition::Options),
    /// Traces by probes: time, size, and what several runs save
    Trace(trace::Options),
}

/// Measures it.
pub fn run(bench: &Bench) -> Result<()> {
    match bench {
        Bench::Build(options) => build::run(options),
        Bench::Breakpoints(options) => breakpoints::run(options),
        Bench::Profile(options) => profile::run(options),
        Bench::Autofdo(options) => autofdo::run(options),
        Bench::Crash(options) => crash::run(options),
        Bench::Partition(options) => partition::run(options),
        Bench::Trace(options) => trace::run(options),
    }
}
