//! The words of the command line.

pub mod copies;
pub mod files;
pub mod plan;
pub mod program;
pub mod trace;
pub mod tune;

use std::ffi::OsString;
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
    /// Run a program and keep which blocks it executed, in order.
    Trace(trace::Trace),
    /// Run a variant, or what starts variants (a test suite), and pack what they record in
    /// $BACKTRAIL_DIR meanwhile.
    Run {
        /// The variant, or another program.
        program: program::Program,
        /// Its own arguments.
        #[arg(last = true)]
        arguments: Vec<OsString>,
    },
    /// Walk a trace, or the blocks that a run logged.
    Show(Show),
    /// Run a program and count its paths.
    Profile(Profile),
    /// Show what counting with several copies would cost.
    Plan(plan::Plan),
    /// Show, add up and compare path profiles.
    Paths(Paths),
    /// Hand a path profile to other tools.
    Export(Export),
    /// Tell what led to a crash, from the core dump it left.
    Autopsy(Autopsy),
    /// Switch what functions of a shipped executable record.
    Tune(tune::Tune),
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
    /// Show names in full.
    #[arg(long)]
    pub full: bool,
    /// List all of what is listed, also on a terminal that it does not fit on.
    #[arg(long)]
    pub all: bool,
    /// The side file, if it is not where it would be found.
    #[arg(long, value_name = "FILE")]
    pub side: Option<PathBuf>,
}

/// `backtrail instrument`
#[derive(Debug, Args)]
pub struct Instrument {
    /// What to insert: `empty` (rebuilt from its IR), `log` (every executed block
    /// is logged into $BACKTRAIL_DIR), `profile` (every process counts its paths
    /// in $BACKTRAIL_DIR), or what crashes are to tell of functions: `pt` (the
    /// last paths of each live activation), `fc` (whether it was entered), `cc`
    /// (which calls were made), `bc` (which blocks were entered), several with +;
    /// for some functions `pt:GLOB` or `GLOB=cc+pt`, several with commas, the last
    /// that matches counts; `none`; `realistic` (cc, and pt for the functions of
    /// --pt-list), `full` (bc+cc+pt).
    #[arg(long, value_parser = scheme)]
    pub scheme: Scheme,
    /// How many of its last paths an activation holds, at least (pt).
    #[arg(long, value_name = "N", default_value_t = backtrail_crash::scheme::DEFAULT_PATHS)]
    #[arg(value_parser = clap::value_parser!(u32).range(1..=i64::from(backtrail_crash::scheme::MOST_PATHS)))]
    pub ring: u32,
    /// Which functions to trace if the scheme is `realistic`: a file with a name
    /// on each line (# begins a comment), or what `autopsy --json` wrote, of which
    /// the functions on stacks are taken. May be given several times.
    #[arg(long, value_name = "FILE")]
    pub pt_list: Vec<PathBuf>,
    /// Let `backtrail tune` switch the functions with such names later, between what
    /// the scheme says and this list [default: none,cc,cc+pt]. May be given several
    /// times; the last that matches counts.
    #[arg(long, value_name = "GLOB[=SCHEME,…]")]
    pub tunable: Vec<String>,
    /// Where to write the variant [default: PROG.SCHEME].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Carry out the recipe of an executable that was not built here as it is, whatever
    /// it runs.
    #[arg(long)]
    pub trust: bool,
    /// What to count.
    #[command(flatten)]
    pub counting: Counting,
    /// An executable or shared library built by Backtrail.
    pub program: PathBuf,
}

/// `backtrail profile`.
#[derive(Debug, Args)]
pub struct Profile {
    /// What to count.
    #[command(flatten)]
    pub counting: Counting,
    /// How it is run.
    #[command(flatten)]
    pub copies: copies::Copies,
    /// Where to write the profile [default: PROG.btprof].
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Write how it went to this file: a line `backtrail CODE` and a line
    /// `program CODE` or `program signal NUMBER`.
    #[arg(long, value_name = "FILE")]
    pub status: Option<PathBuf>,
    /// Carry out the recipe of an executable that was not built here as it is, whatever
    /// it runs.
    #[arg(long)]
    pub trust: bool,
    /// An executable built by Backtrail.
    pub program: program::Program,
    /// The program's own arguments.
    #[arg(last = true)]
    pub arguments: Vec<std::ffi::OsString>,
}

/// Which functions count their paths, and how.
#[derive(Debug, Args)]
pub struct Counting {
    /// Put probes where this profile of the same build says that they cost
    /// least (profile).
    #[arg(long, value_name = "FILE")]
    pub weights: Option<PathBuf>,
    /// Count only in functions whose name matches (profile).
    #[arg(long, value_name = "GLOB")]
    pub only: Vec<globset::Glob>,
    /// Do not count in functions whose name matches (profile).
    #[arg(long, value_name = "GLOB")]
    pub skip: Vec<globset::Glob>,
    /// The most paths a function keeps before it is cut into pieces (profile).
    #[arg(long, value_name = "N", hide = true)]
    pub limit: Option<u64>,
}

/// What can be inserted.
#[derive(Debug, Clone)]
pub enum Scheme {
    /// Nothing.
    Empty,
    /// Every executed block is logged.
    Log,
    /// Every process counts its paths.
    Profile,
    /// Frames hold records, by this scheme.
    Tracing(String),
}

impl Scheme {
    /// What the name of a variant ends with.
    pub fn suffix(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Log => "log",
            Self::Profile => "profile",
            Self::Tracing(_) => "traced",
        }
    }
}

fn scheme(word: &str) -> Result<Scheme, String> {
    match word {
        "empty" => Ok(Scheme::Empty),
        "log" => Ok(Scheme::Log),
        "profile" => Ok(Scheme::Profile),
        _ => match backtrail_crash::scheme::Scheme::parse(word, 1, &[]) {
            Ok(_) => Ok(Scheme::Tracing(word.to_owned())),
            Err(why) => Err(format!("{why} (or empty, log or profile)")),
        },
    }
}

/// `backtrail show`
#[derive(Debug, Args)]
pub struct Show {
    /// A trace (PROG.bttrace), a folder of records of a block log
    /// ($BACKTRAIL_DIR), or one process's folder in it.
    #[arg(value_name = "FILE|DIR")]
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
    /// Show names in full, and lines of libraries where they were inlined.
    #[arg(long)]
    pub full: bool,
    /// Show only blocks of functions with such names.
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["html", "to"])]
    pub function: Option<globset::Glob>,
    /// A variant that ran, program or library, if it is not found by itself (DIR).
    #[arg(long, value_name = "EXE")]
    pub exe: Vec<PathBuf>,
    /// Print JSON, a line each (schema backtrail.show/1).
    #[arg(long)]
    pub json: bool,
    /// Show who was called by whom, how often, and the blocks executed there
    /// (FILE).
    #[arg(long, conflicts_with_all = ["json", "last", "from", "count"])]
    pub tree: bool,
    /// Leave out of the tree what has a smaller share of the blocks.
    #[arg(long, value_name = "PERCENT", requires = "tree")]
    #[arg(default_value = "0.1", value_parser = percent)]
    pub least_share: f64,
    /// Write the call tree as a page to DIR/index.html, complete in itself (FILE).
    #[arg(long, value_name = "DIR", conflicts_with_all = ["json", "tree", "last"])]
    pub html: Option<PathBuf>,
    /// Hand the calls of the trace to other tools (FILE).
    #[arg(long, value_enum, conflicts_with_all = ["json", "tree", "html", "last"])]
    pub to: Option<TraceTarget>,
    /// Where to [default: standard output].
    #[arg(short, long, value_name = "OUT", requires = "to")]
    pub output: Option<PathBuf>,
}

/// What a trace can be turned into.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum TraceTarget {
    /// The JSON that Perfetto and Chrome's about:tracing read; a block takes a
    /// microsecond.
    Perfetto,
}

/// `backtrail paths`
#[derive(Debug, Args)]
pub struct Paths {
    /// Profiles (PROG.btprof) or folders of records of one build, which are added
    /// up.
    #[arg(required_unless_present = "compare", value_name = "FILE|DIR")]
    pub files: Vec<PathBuf>,
    /// A variant that ran, program or library, if it is not found by itself; or the
    /// one that is meant, if records of several programs are in one folder.
    #[arg(long, value_name = "EXE")]
    pub exe: Vec<PathBuf>,
    /// Write the sum to this file, and print nothing unless asked to.
    #[arg(short, long, value_name = "MERGED")]
    pub output: Option<PathBuf>,
    /// Show at most this many paths and twice as many functions [default: 10;
    /// in HTML 20000 paths].
    #[arg(long, value_name = "N")]
    pub top: Option<usize>,
    /// Show only functions with such names, mangled or not.
    #[arg(long, value_name = "GLOB")]
    pub function: Option<globset::Glob>,
    /// What paths are sorted by.
    #[arg(long, value_enum, default_value_t = Measure::Blocks)]
    pub by: Measure,
    /// Show names in full, and long paths from beginning to end, with their steps in
    /// libraries.
    #[arg(long)]
    pub full: bool,
    /// Print JSON (schema backtrail.paths/1, or backtrail.compare/1).
    #[arg(long, conflicts_with_all = ["top", "full"])]
    pub json: bool,
    /// Write a page to DIR/index.html, complete in itself.
    #[arg(long, value_name = "DIR")]
    pub html: Option<PathBuf>,
    /// Show what changed from one profile to another.
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    #[arg(conflicts_with_all = ["files", "output", "html", "by"])]
    pub compare: Option<Vec<PathBuf>>,
    /// Leave with 1 if a function's executions changed by more than PERCENT, or
    /// if more than PERCENT of them take other paths.
    #[arg(long, value_name = "PERCENT", requires = "compare", value_parser = percent)]
    pub fail_over: Option<f64>,
    /// Judge no function with a smaller share of the executed blocks in both.
    #[arg(long, value_name = "PERCENT", requires = "compare")]
    #[arg(default_value = "0.1", value_parser = percent)]
    pub least_share: f64,
}

/// What paths can be sorted by.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Measure {
    /// The blocks they executed: how often they were taken, times their length.
    Blocks,
    /// How often they were taken.
    Executions,
}

/// A number that is not negative.
fn percent(word: &str) -> Result<f64, String> {
    let value: f64 = word.trim_end_matches('%').parse().map_err(|_| "not a number".to_owned())?;
    if value >= 0.0 { Ok(value) } else { Err("not a percentage".to_owned()) }
}

/// `backtrail export`
#[derive(Debug, Args)]
pub struct Export {
    /// A profile (PROG.btprof).
    pub file: PathBuf,
    /// What to write.
    #[arg(long, value_enum)]
    pub to: Target,
    /// Where to [default: standard output].
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
    /// Only functions with such names, mangled or not.
    #[arg(long, value_name = "GLOB")]
    pub function: Option<globset::Glob>,
}

/// What a profile can be turned into.
#[derive(Debug, Clone, Copy, clap::ValueEnum)]
pub enum Target {
    /// A tracefile: genhtml and others.
    Lcov,
    /// callgrind_annotate, KCachegrind.
    Callgrind,
    /// llvm-profdata merge --sample, clang -fprofile-sample-use.
    Autofdo,
    /// pprof.
    Pprof,
    /// Graphviz.
    Dot,
}

/// `backtrail autopsy`
#[derive(Debug, Args)]
pub struct Autopsy {
    /// Core dumps, as the kernel or gcore wrote them, or compressed with zstd or
    /// lz4.
    #[arg(required_unless_present = "pid", value_name = "CORE")]
    pub cores: Vec<PathBuf>,
    /// A live process instead, which is stopped for a moment.
    #[arg(long, value_name = "PID", conflicts_with = "cores")]
    pub pid: Option<u32>,
    /// The executable that ran, if it is no longer where it was.
    #[arg(long, value_name = "EXE")]
    pub exe: Option<PathBuf>,
    /// Sources that were below A when the program was built are below B now.
    #[arg(long, value_name = "A=B")]
    pub source_map: Vec<crate::verbs::autopsy::SourceMap>,
    /// A folder with separate debug files, besides /usr/lib/debug.
    #[arg(long, value_name = "DIR")]
    pub debug_dir: Vec<PathBuf>,
    /// Print JSON (schema backtrail.autopsy/1); for several cores, a line each, and
    /// one of what they have in common.
    #[arg(long)]
    pub json: bool,
    /// Show names in full, and paths and frames with their steps in libraries.
    #[arg(long)]
    pub full: bool,
    /// List all of what is listed, also on a terminal that it does not fit on.
    #[arg(long)]
    pub all: bool,
    /// List every block and edge, and whether it can have run.
    #[arg(long, requires = "json")]
    pub blocks: bool,
    /// Write a page to DIR/index.html, complete in itself; for several cores,
    /// DIR/1.html and so on.
    #[arg(long, value_name = "DIR")]
    pub html: Option<PathBuf>,
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
