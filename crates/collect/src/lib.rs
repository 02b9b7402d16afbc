//! Running variants and keeping what they record.
//!
//! This crate owns the folders records are in; what the records mean is for
//! decoders, which take bytes.

#![deny(unsafe_code)]

mod bystander;
pub mod copies;
pub mod counts;
pub mod handing_on;
pub mod local;
pub mod packing;
pub mod records;

use std::path::PathBuf;

/// What can go wrong.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no folder of records.
    #[error("there is no folder {}: run the variant first, or say where its records are", .0.display())]
    Missing(PathBuf),
    /// A file or folder could not be read.
    #[error("{} cannot be read: {source}", path.display())]
    Read {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program could not be started.
    #[error("{} cannot be started: {source}", path.display())]
    Start {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// A program that may not be executed.
    #[error("{} is not executable; give the program, or chmod +x it", .0.display())]
    NotExecutable(PathBuf),
    /// A program with rights that its variants have not.
    #[error(
        "{} is set-user-id or set-group-id, or has capabilities, and what is run in its place has \
         no such rights: give a copy, or run it as its owner",
        .0.display()
    )]
    Privileged(PathBuf),
    /// A file of counters that was never written.
    #[error(
        "it holds no counts: its process was stopped, or could go no further, before it counted"
    )]
    NoCounts,
    /// A file of counters that is not as long as it was.
    #[error(
        "it has {found} bytes where {expected} were written: it was cut or changed, and cannot be used"
    )]
    CutCounts {
        /// How long it is.
        found: u64,
        /// How long it should be.
        expected: u64,
    },
    /// A file of counters that was packed.
    #[error("what is packed in it is not what was: it was cut or changed, and cannot be used")]
    DamagedCounts,
    /// Something else than a file of counters.
    #[error("it is not a file of counters")]
    NotCounts,
    /// A file of counters of another version.
    #[error("it has format version {found}, this backtrail reads version {known}")]
    CountsVersion {
        /// The file's.
        found: u32,
        /// The one that can be read.
        known: u32,
    },
    /// A file of counters whose header cannot be true.
    #[error(
        "its header says that it has {bytes} bytes, which no file of counters has: it was changed"
    )]
    CorruptCounts {
        /// What the header says.
        bytes: u64,
    },
    /// A file or folder could not be written.
    #[error("{} cannot be written: {source}", path.display())]
    Write {
        /// Which one.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// Copies of a program did not do the same.
    #[error(
        "copies 1 and {copy} of {of} differ: {difference}; what differs from run to run (time, \
         random numbers, process numbers, addresses) has to be the same in all copies"
    )]
    Diverged {
        /// The copy that differs from the first, counted from 1.
        copy: usize,
        /// How many there are.
        of: usize,
        /// The first difference.
        difference: copies::Difference,
    },
    /// Copies were asked to end before they did so by themselves.
    #[error(
        "interrupted by signal {signal}, which copies get at different places: they have not done \
         the same, and nothing is merged"
    )]
    Interrupted {
        /// By which signal.
        signal: i32,
    },
    /// What runs copies could not.
    #[error("{engine}: {what}")]
    Engine {
        /// `local`, `isolation` or `slurm`.
        engine: &'static str,
        /// What it said, and what to do.
        what: String,
    },
}
