//! Running variants and keeping what they record.
//!
//! This crate owns the folders records are in; what the records mean is for
//! decoders, which take bytes.

#![forbid(unsafe_code)]

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
}
