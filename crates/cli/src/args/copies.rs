//! Running copies of a program, as it is asked for.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;

use crate::exit::Usage;

/// How many copies of a program run on the same input, and where.
#[derive(Debug, Args)]
pub struct Copies {
    /// Run K copies on the same input, each of which counts a part of the paths;
    /// together they give the same profile.
    #[arg(long, value_name = "K", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u8).range(1..=64))]
    pub copies: u8,
    /// How the paths are divided among them.
    #[arg(long, value_enum, default_value_t = Strategy::Adaptive)]
    pub strategy: Strategy,
    /// How they run.
    #[command(flatten)]
    pub running: Running,
    /// Keep the variants of the copies in this folder.
    #[arg(long, value_name = "DIR", hide = true)]
    pub keep: Option<PathBuf>,
}

/// How several runs of a program are kept apart, and where they are.
#[derive(Debug, Args)]
pub struct Running {
    /// How copies are kept from seeing each other's files.
    #[arg(long, value_enum, default_value_t = Isolate::Auto)]
    pub isolate: Isolate,
    /// Compare more than what they print, leave and enter. `inputs`: run them under ptrace
    /// and compare what system calls return and write, signals, and what programs are
    /// started with.
    #[arg(long, value_enum, value_name = "WHAT")]
    pub check: Option<Check>,
    /// Where they run.
    #[arg(long, value_enum, default_value_t = Engine::Local)]
    pub engine: Engine,
    /// An option for sbatch (slurm); may be given again.
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub slurm_arg: Vec<OsString>,
    /// A folder that all nodes see, for what is staged (slurm) [default: beside
    /// the working directory].
    #[arg(long, value_name = "DIR")]
    pub slurm_dir: Option<PathBuf>,
}

/// How paths can be divided among copies.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Strategy {
    /// One copy counts everything.
    Sbl,
    /// Whole functions are spread.
    Pbl,
    /// Functions with one call site are split, as published.
    P3,
    /// By frequency (--weights, or guessed), wherever splitting pays.
    Adaptive,
}

/// How copies can be kept apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Isolate {
    /// By overlay if the kernel allows it, by copy if not.
    Auto,
    /// Each has a copy of the working directory.
    Copy,
    /// Each sees the working directory through an overlay.
    Overlay,
    /// All run in the working directory itself.
    None,
}

/// What can be compared besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Check {
    /// What comes into them from outside.
    Inputs,
}

impl Running {
    /// Whether inputs are compared, of so many runs; an error if that cannot be.
    pub fn check_inputs(&self, runs: u8, option: &str) -> Result<bool, Usage> {
        if self.check.is_none() {
            return Ok(false);
        }
        if runs < 2 {
            let what = format!("--check inputs compares runs: give {option} 2 or more");
            return Err(Usage(what));
        }
        if self.engine != Engine::Local {
            return Err(Usage("--check inputs is for runs on this machine".to_owned()));
        }
        Ok(true)
    }
}

/// Where copies can run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Engine {
    /// As processes of this machine.
    Local,
    /// As tasks of a Slurm job array.
    Slurm,
}
