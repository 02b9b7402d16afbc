//! Whether a failure was for want of space.
//!
//! Linkers, compilers and workers write into a temporary folder, and say in many ways
//! that its disk is full: with a message, in the words of the user's language, or by
//! a signal where the file was mapped (lld, gold). Some remove what they wrote, so
//! that there is space again afterwards. So the disk itself is asked whether it still
//! takes what had to be written.

use std::io;
use std::path::Path;

use rustix::fs::{FallocateFlags, fallocate};
use rustix::io::Errno;

use crate::Error;

/// `error`, or that `folder` has no space left, if that is why a tool failed that had
/// about so many bytes to write there.
pub fn explain(error: Error, folder: &Path, bytes: u64) -> Error {
    let full = || Error::NoSpace { folder: folder.to_owned() };
    match &error {
        Error::Worker { .. } | Error::Unusable { .. } | Error::Link { .. } => {
            if takes(folder, bytes) { error } else { full() }
        }
        Error::Write { path, error: why } if is_full(why) && path.starts_with(folder) => full(),
        _ => error,
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether a file of that size can be made in `folder`; also where that is not known.
fn takes(folder: &Path, bytes: u64) -> bool {
    let made = tempfile::tempfile_in(folder).and_then(|file| {
        match fallocate(&file, FallocateFlags::empty(), 0, bytes.max(1)) {
            Err(Errno::OPNOTSUPP) => {
                let disk = rustix::fs::fstatvfs(&file)?;
                let free = disk.f_bavail.saturating_mul(disk.f_frsize);
                if free < bytes { Err(Errno::NOSPC.into()) } else { Ok(()) }
            }
            result => Ok(result?),
        }
    });
    !made.is_err_and(|error| is_full(&error))
}
