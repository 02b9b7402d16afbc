//! What can go wrong while building, reading what a file carries, or deriving
//! a variant.

use std::io;
use std::path::{Path, PathBuf};

/// What went wrong. Each message is one line that names the file and says what
/// to do where something can be done.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no clang to be found.
    #[error("no clang found: install clang-19, or name one in BACKTRAIL_CLANG")]
    NoClang,
    /// `$BACKTRAIL_CLANG` cannot be started.
    #[error("cannot start the compiler '{program}': {error}; correct BACKTRAIL_CLANG")]
    ClangNotRunnable {
        /// What was tried.
        program: String,
        /// Why it failed.
        error: io::Error,
    },
    /// A program that should be there cannot be started.
    #[error("cannot start '{program}': {error}")]
    NotStarted {
        /// What was tried.
        program: String,
        /// Why it failed.
        error: io::Error,
    },
    /// A compiler whose IR we cannot treat.
    #[error(
        "{version} is not supported: {why}; use clang 19 to 22 with a shared libLLVM (BACKTRAIL_CLANG)"
    )]
    UnsupportedClang {
        /// What the compiler calls itself.
        version: String,
        /// Why not.
        why: String,
    },
    /// A file cannot be read.
    #[error("cannot read {}: {error}", path.display())]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// A file cannot be written.
    #[error("cannot write {}: {error}", path.display())]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// Not an ELF file, or a damaged or unsupported one.
    #[error("{}: {error}", path.display())]
    Machine {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        error: backtrail_machine::Error,
    },
    /// A libtool wrapper script was given instead of the program.
    #[error("{} is a libtool wrapper script, not the program; use {}", path.display(), program.display())]
    LibtoolWrapper {
        /// The script.
        path: PathBuf,
        /// The program it starts.
        program: PathBuf,
    },
    /// An ELF file without our data.
    #[error("{} carries no IR: build it with 'backtrail cc', 'backtrail c++' or 'backtrail cargo'{hint}", path.display())]
    NotCarried {
        /// Which file.
        path: PathBuf,
        /// More, if more is known.
        hint: String,
    },
    /// Carried data that is damaged.
    #[error("{}: what it carries is damaged: {what}; build it again", path.display())]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong.
        what: String,
    },
    /// Carried data of a version we cannot read.
    #[error("{}: what it carries was written by another version of Backtrail (format {found}, this one reads {read}); build it again", path.display())]
    Version {
        /// Which file.
        path: PathBuf,
        /// The version found.
        found: u32,
        /// The version this build reads.
        read: u32,
    },
    /// The side file belongs to another build.
    #[error("{} belongs to build id {found}, not to {} with build id {wanted}; give the file made from this build", side.display(), path.display())]
    OtherBuild {
        /// The executable.
        path: PathBuf,
        /// The side file.
        side: PathBuf,
        /// The executable's build id.
        wanted: String,
        /// The side file's.
        found: String,
    },
    /// There is no recipe to link a variant with.
    #[error("{}: it carries units but no link recipe: it was not linked by 'backtrail cc'; link it with that", path.display())]
    NoRecipe {
        /// Which file.
        path: PathBuf,
    },
    /// The file is itself a variant.
    #[error("{} is a variant ({scheme}) already; give the executable it was derived from", path.display())]
    IsVariant {
        /// Which file.
        path: PathBuf,
        /// What it was derived as.
        scheme: String,
    },
    /// Nothing of the file can be switched.
    #[error("{}: no function of it can be switched; derive it with 'backtrail instrument --tunable'", path.display())]
    NotTunable {
        /// Which file.
        path: PathBuf,
    },
    /// The LLVM that made a unit is not on this machine.
    #[error("{unit} was compiled by {version}, whose library {} is not on this machine; install that compiler", library.display())]
    LibraryGone {
        /// The unit.
        unit: String,
        /// The compiler.
        version: String,
        /// The library that is missing.
        library: PathBuf,
    },
    /// What a file from elsewhere would have done is not known to be harmless.
    #[error("{}: it was not built here, and {what}, which may run code or touch other files; if you trust it, say --trust", path.display())]
    Untrusted {
        /// Which file.
        path: PathBuf,
        /// What it is, as a clause.
        what: String,
    },
    /// A worker failed.
    #[error("{unit}: {why}")]
    Worker {
        /// The unit.
        unit: String,
        /// What the worker, or its end, said.
        why: String,
    },
    /// Carried bitcode that its own compiler cannot treat, with probes or without.
    #[error("{}: the bitcode that it carries of {unit} is not usable, with or without probes: {why}; build it again", path.display())]
    Unusable {
        /// Which file.
        path: PathBuf,
        /// The unit.
        unit: String,
        /// What the worker or the compiler said.
        why: String,
    },
    /// The linker refuses what the recipe and the objects are.
    #[error("linking a variant of {} failed ({status}): {said}", path.display())]
    Link {
        /// The program.
        path: PathBuf,
        /// How the linker ended.
        status: String,
        /// What it said is wrong.
        said: String,
    },
    /// A disk is full.
    #[error("no space left under {}; make room there, or set TMPDIR to a folder that has some", folder.display())]
    NoSpace {
        /// What is full.
        folder: PathBuf,
    },
    /// A file the link needs is gone.
    #[error("{} was linked with {}, which is gone; put it back or rebuild", program.display(), path.display())]
    InputGone {
        /// The executable.
        program: PathBuf,
        /// The missing file.
        path: PathBuf,
    },
    /// Two libraries of a program would be one file of a variant.
    #[error("{} and {} have one file name, and a variant has its libraries in one folder; rename one of them", one.display(), other.display())]
    SameFileName {
        /// One of them.
        one: PathBuf,
        /// The other.
        other: PathBuf,
    },
}

impl Error {
    /// An error of reading `path`.
    pub fn read(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Read { path, error }
    }

    /// An error of writing `path`.
    pub fn write(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Write { path, error }
    }

    /// An error in the machine-level file `path`.
    pub fn machine(path: &Path) -> impl FnOnce(backtrail_machine::Error) -> Self {
        let path = path.to_owned();
        |error| Self::Machine { path, error }
    }
}
