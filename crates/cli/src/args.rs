//! The words of the command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand};

/// Tells exactly which way a program went.
#[derive(Debug, Parser)]
#[command(name = "backtrail", version, propagate_version = true)]
#[command(
    after_help = "Exit codes: 0 done; 1 a finding you asked to be told about; 2 wrong usage; \
    3 the input is missing, not ours, corrupt or of an unreadable version; 4 the runs diverged; \
    5 the engine failed; 6 cannot write; 70 a bug in Backtrail; 127 no usable clang."
)]
pub struct Line {
    /// Show no progress.
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// The verbs.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Compile and link as clang does, carrying the IR (CC="backtrail cc").
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Cc {
        /// clang's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Compile and link as clang++ does, carrying the IR (CXX="backtrail c++").
    #[command(name = "c++", disable_help_flag = true, disable_version_flag = true)]
    Cxx {
        /// clang's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Build, run and test as cargo does, carrying the IR.
    #[command(disable_help_flag = true, disable_version_flag = true)]
    Cargo {
        /// cargo's own arguments.
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        arguments: Vec<String>,
    },
    /// Show what an executable carries.
    Info(Info),
    /// Derive an executable with probes.
    Instrument(Instrument),
    /// Walk the blocks that a run logged.
    Show(Show),
    /// Move what an executable carries into a side file, found by build id.
    Detach(Detach),
    /// Write out the plain bitcode and the program model.
    Extract(Extract),
    /// Show or clear the cache of derived objects.
    Cache(Cache),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write manual pages.
    Manual {
        /// The folder to write them to.
        folder: PathBuf,
    },
}

/// `backtrail info`
#[derive(Debug, Args)]
pub struct Info {
    /// An executable, shared library or object built by Backtrail.
    pub program: PathBuf,
    /// Print JSON (schema backtrail.info/1).
    #[arg(long)]
    pub json: bool,
    /// List every function.
    #[arg(long)]
    pub functions: bool,
    /// The side file, if it is not where it would be found.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
}

/// `backtrail instrument`
#[derive(Debug, Args)]
pub struct Instrument {
    /// What to insert.
    #[arg(long, value_enum)]
    pub scheme: Scheme,
    /// Where to write the variant [default: PROG.SCHEME].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// An executable or shared library built by Backtrail.
    pub program: PathBuf,
}

/// What can be inserted.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Scheme {
    /// Nothing: rebuilt from its IR.
    Empty,
    /// Every executed block is logged into $BACKTRAIL_DIR.
    Log,
}

/// `backtrail show`
#[derive(Debug, Args)]
pub struct Show {
    /// A folder of records ($BACKTRAIL_DIR), or one process's folder in it.
    pub record: PathBuf,
    /// Begin with this event of each thread.
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub from: u64,
    /// Show at most this many events of each thread.
    #[arg(long, value_name = "N")]
    pub count: Option<u64>,
    /// Show the last events of each thread only.
    #[arg(long, value_name = "N", conflicts_with = "count")]
    pub last: Option<u64>,
    /// Show only blocks of functions with such names.
    #[arg(long, value_name = "GLOB")]
    pub function: Option<String>,
    /// The variant that ran, if it is no longer where it was.
    #[arg(long, value_name = "EXE")]
    pub exe: Option<PathBuf>,
    /// Print JSON, a line each (schema backtrail.show/1).
    #[arg(long)]
    pub json: bool,
}

/// `backtrail detach`
#[derive(Debug, Args)]
pub struct Detach {
    /// An executable or shared library built by Backtrail.
    pub program: PathBuf,
    /// The side file; a folder gets BUILD-ID.backtrail [default: beside PROG].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `backtrail extract`
#[derive(Debug, Args)]
pub struct Extract {
    /// An executable, shared library or object built by Backtrail.
    pub program: PathBuf,
    /// The folder to write to.
    #[arg(short, long, value_name = "DIR")]
    pub output: PathBuf,
}

/// `backtrail cache`
#[derive(Debug, Args)]
pub struct Cache {
    /// Remove everything from it.
    #[arg(long)]
    pub clear: bool,
}
