//! What can be wrong with a machine-level file.

use std::io;
use std::path::{Path, PathBuf};

/// What is wrong with a machine-level file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not ELF at all.
    #[error("not an ELF file")]
    NotElf,
    /// ELF, but of a kind Backtrail does not handle.
    #[error("unsupported ELF file: {0}")]
    Unsupported(String),
    /// ELF by its first bytes, damaged further on.
    #[error("damaged ELF file: {0}")]
    Corrupt(String),
    /// A file that cannot be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that is no core dump, or none of which anything can be told.
    #[error("{}: {what}", path.display())]
    Core {
        /// Which.
        path: PathBuf,
        /// What it is instead, or what is wrong with it.
        what: String,
    },
    /// The executable that was given is not the one that left the core.
    #[error(
        "{} has build id {found}, and the core was left by build id {expected} ({}); \
         without --exe, a backtrace of what else is there is still possible",
        given.display(),
        ran.display()
    )]
    OtherBuild {
        /// The executable that was given.
        given: PathBuf,
        /// Its build id.
        found: String,
        /// The path of the one that ran.
        ran: PathBuf,
        /// Its build id.
        expected: String,
    },
    /// A program that could not be started.
    #[error("cannot start {}: {source}", path.display())]
    Start {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file that cannot be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A program that cannot be traced.
    #[error("{} cannot be traced: {what}", path.display())]
    Trace {
        /// Which.
        path: PathBuf,
        /// Why not, and what to do.
        what: String,
    },
    /// A program that a signal ended while it was loaded.
    #[error("{} was ended by signal {signal} before its own code began", path.display())]
    EndedBySignal {
        /// Which.
        path: PathBuf,
        /// By which signal.
        signal: i32,
    },
    /// A program with several threads.
    #[error(
        "{} starts a thread, which single steps do not follow: trace it with breakpoints",
        path.display()
    )]
    Threads {
        /// Which.
        path: PathBuf,
    },
    /// A live process that cannot be looked at.
    #[error("process {pid}: {what}")]
    Live {
        /// Which.
        pid: u32,
        /// Why not, and what to do.
        what: String,
    },
}

impl Error {
    /// For `map_err`: a file that cannot be read.
    pub(crate) fn read(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        |source| Self::Read { path: path.to_owned(), source }
    }
}

impl From<object::Error> for Error {
    fn from(error: object::Error) -> Self {
        Self::Corrupt(error.to_string().to_lowercase())
    }
}
