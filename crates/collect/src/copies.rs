//! Copies of one program on the same input: k variants, one run.
//!
//! ```no_run
//! use std::ffi::OsStr;
//! use backtrail_collect::copies::{Copies, Engine, Event, Isolation, Variant, run_copies};
//!
//! # fn variants() -> Vec<Variant> { Vec::new() }
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let outcome = run_copies(&Copies {
//!     variants: &variants(),
//!     name: OsStr::new("gzip"),
//!     arguments: &["-9".into(), "notes.txt".into()],
//!     environment: &[],
//!     is_trial: false,
//!     inputs: false,
//!     isolation: Isolation::Auto,
//!     engine: Engine::Local,
//!     entry: &std::env::current_exe()?,
//!     listener: &|event| match event {
//!         Event::Notice(text) => eprintln!("backtrail: {text}"),
//!         Event::Progress { done, of, what } => eprintln!("{done}/{of} {what}"),
//!     },
//! })?;
//! // Each `Variant::records` now holds what that copy recorded.
//! println!("{}", outcome.status);
//! # Ok(()) }
//! ```
//!
//! **Who calls what.** A copy is made ready by a process of our own, which then
//! becomes the program: it enters a mount namespace, which a process with
//! threads cannot do for an ordinary user, and takes the program's name as its
//! own. So the executable named by [`Copies::entry`] calls
//! [`process::main`] first of all when its first argument is
//! [`process::VERB`].
//!
//! **What the copies share.** All have the same name, arguments, environment and
//! standard input, and, where the kernel allows it, see the same paths:
//! [`process`] says how. Standard output and error are pipes for each of them.
//! Those of the first copy are passed through as they come; nothing of the
//! others is shown. Standard input is read once: if it is a file, each copy has
//! it open on its own; if not, it is read as the fastest copy asks for it, kept,
//! and given to all. So programs that ask and are answered work.
//!
//! **What must agree**: how they end, what they print on standard output and on
//! standard error, and what they leave in the working directory (names, kinds,
//! modes, owners, contents; not times). Otherwise the result is
//! [`Error::Diverged`] with the first difference.
//!
//! **What is left.** Whatever the isolation, the working directory is in the end
//! as after one run of the program: the first copy's files are kept, also when
//! copies diverged or were interrupted. After an error of the engine it is as it
//! was, or, without overlays, as the first copy left it. Nothing else remains.
//!
//! **Signals** that ask this process to end are handed on to all copies, which
//! decide what they mean. If copies differ after that, they were interrupted at
//! different places, and the result is
//! [`Error::Interrupted`]; if not, [`Outcome::interrupted`] says that there was one.
//!
//! **Cores.** If there are at least as many as copies, each copy has its own,
//! the same number of them; if not, as many copies run at once as there are
//! cores, and wherever the kernel puts them.
//!
//! With [`Engine::Slurm`], copies are tasks of a job array: see [`slurm`].

mod divergence;
mod duplicate;
mod input;
mod local;
mod output;
mod overlay;
pub mod process;
mod run;
mod signals;
pub mod slurm;
mod staging;
mod task;
mod tree;
mod view;
mod watched;

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use crate::Error;
pub use divergence::{Difference, Stream};
pub use slurm::SlurmOptions;

/// What to run.
pub struct Copies<'a> {
    /// One variant for each copy, at least one.
    pub variants: &'a [Variant],
    /// The name they are started under: the program's.
    pub name: &'a OsStr,
    /// Their arguments.
    pub arguments: &'a [OsString],
    /// Variables to set in addition to this process's own. The folder for
    /// records is set for each copy.
    pub environment: &'a [(OsString, OsString)],
    /// How they are kept apart. The working directory is this process's.
    pub isolation: Isolation,
    /// Where they run.
    pub engine: Engine,
    /// Whether this is a trial: nothing is shown of what the copies print, and
    /// nothing is left of what they do but their records. Not with Slurm, and not
    /// with [`Isolation::None`], where what they do stays done. Standard input that
    /// is not a file must not be read: it could not be read again.
    pub is_trial: bool,
    /// Whether what comes into the copies from outside is compared
    /// ([`backtrail_machine::tracee::inputs`]). They are traced then, in a namespace of
    /// processes of their own. On this machine only.
    pub inputs: bool,
    /// The executable that calls [`process::main`]: this process's own.
    pub entry: &'a Path,
    /// Is told what happens, from any thread.
    pub listener: &'a (dyn Fn(Event) + Sync),
}

impl Copies<'_> {
    fn notice(&self, text: &str) {
        (self.listener)(Event::Notice(text.to_owned()));
    }
}

/// What one copy runs.
#[derive(Debug, Clone)]
pub struct Variant {
    /// The executable. Where all have the same file name and each is in a folder
    /// of its own, the programs see themselves at the same path.
    pub executable: PathBuf,
    /// The folder for what it records. Made if it is not there; nothing else
    /// should be in it. It is not there afterwards if nothing was recorded.
    pub records: PathBuf,
}

/// How copies are kept from seeing each other's files.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Isolation {
    /// Overlays if the kernel allows them, copies if not.
    #[default]
    Auto,
    /// Each copy but the first has a copy of the working directory, at the
    /// working directory's own path if the kernel allows it, and elsewhere if
    /// not, which a [`Event::Notice`] then says. The cost is that of copying.
    Copy,
    /// Each copy sees the working directory through an overlay of its own, and
    /// what the first one changed is put in place at the end. The cost is that
    /// of what is changed. A folder that was there before cannot be renamed:
    /// the kernel says that it is on another device, which `mv` and others
    /// know how to handle.
    Overlay,
    /// All run in the working directory itself. What they leave is not compared.
    None,
}

/// Where copies run.
#[derive(Debug, Clone, Default)]
pub enum Engine {
    /// As processes on this machine.
    #[default]
    Local,
    /// As tasks of a job array.
    Slurm(SlurmOptions),
}

/// Something a user may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Worth a line in any case: something is not as it could be.
    Notice(String),
    /// For a progress bar: so many copies have finished.
    Progress {
        /// Copies that have finished.
        done: usize,
        /// All of them.
        of: usize,
        /// What the rest does: `2 running`, or the queue's own words.
        what: String,
    },
}

/// How it went. The records are where [`Variant::records`] says.
#[derive(Debug, Clone, Default)]
pub struct Outcome {
    /// How the program ended, in every copy.
    pub status: ExitStatus,
    /// The node that each copy ran on; empty for local ones.
    pub nodes: Vec<String>,
    /// How often a copy was run again because its task failed.
    pub repeated: usize,
    /// A signal that copies got while they ran, and did not ignore. They get it at
    /// different places, so what they recorded need not fit together, even where they
    /// print and leave the same.
    pub interrupted: Option<i32>,
    /// What could differ in what came into the copies, or did, and was not compared; if
    /// the rest was compared.
    pub unseen_inputs: Option<Vec<String>>,
}

impl Outcome {
    /// Fails if copies got a signal: what they recorded is not put together.
    pub fn uninterrupted(self) -> Result<Self, Error> {
        match self.interrupted {
            Some(signal) => Err(Error::Interrupted { signal }),
            None => Ok(self),
        }
    }
}

/// Runs all copies to their end and compares them.
pub fn run_copies(copies: &Copies<'_>) -> Result<Outcome, Error> {
    for variant in copies.variants {
        crate::local::check_executable(&variant.executable)?;
    }
    match &copies.engine {
        Engine::Local => local::run(copies),
        Engine::Slurm(options) => slurm::run(copies, options),
    }
}
