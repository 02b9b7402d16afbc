//! A file that is changed in place: read, and replaced by what was made of it.
//!
//! It is replaced as a whole by renaming, so whoever opens it finds the old file or the
//! new one, and a program that runs goes on with the old. Of two that change it at once
//! one waits for the other: the file is locked from before it is read until it is
//! replaced. The lock is on the file and not on its name, so whoever has waited looks
//! whether the name still means the file it locked, and begins again if not.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use rustix::fs::{FlockOperation, flock};

use crate::{Error, output};

/// A file that nobody else changes until this is dropped.
pub struct InPlace {
    path: PathBuf,
    /// Holds the lock.
    file: File,
}

impl InPlace {
    /// Waits until nobody else is changing `path`.
    pub fn begin(path: &Path) -> Result<Self, Error> {
        loop {
            let file = file::open(path).map_err(Error::read(path))?;
            flock(&file, FlockOperation::LockExclusive)
                .map_err(|error| Error::Write { path: path.to_owned(), error: error.into() })?;
            let [locked, named] =
                [file.metadata(), path.metadata()].map(|it| it.map_err(Error::read(path)));
            let [locked, named] = [locked?, named?];
            if (locked.dev(), locked.ino()) == (named.dev(), named.ino()) {
                return Ok(Self { path: path.to_owned(), file });
            }
        }
    }

    /// Puts `bytes` in its place, with its owner and its permissions. What there is to
    /// say of that is returned.
    pub fn replace(self, bytes: &[u8]) -> Result<Option<String>, Error> {
        let names = self.file.metadata().map_err(Error::read(&self.path))?.nlink();
        output::write_like(&self.path, bytes, &self.path)?;
        let path = self.path.display();
        Ok(match names {
            0 | 1 => None,
            2 => Some(format!("{path} has another name (a hard link), which stays as it was")),
            _ => {
                let others = names - 1;
                Some(format!(
                    "{path} has {others} other names (hard links), which stay as they were"
                ))
            }
        })
    }
}
