//! What was derived before, by content.
//!
//! One folder of files named by the hash of everything that went into them.
//! When it passes its limit, the files used longest ago go first.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use crate::Error;
use crate::carry::file::hex;
use crate::output::{self, Mode};

/// The environment variable that names the folder.
pub const CACHE_VARIABLE: &str = "BACKTRAIL_CACHE";

/// The environment variable that sets the limit, in MiB.
pub const LIMIT_VARIABLE: &str = "BACKTRAIL_CACHE_MIB";

const DEFAULT_LIMIT_MIB: u64 = 4096;

/// The cache.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

/// What the cache holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many files.
    pub files: u64,
    /// How many bytes.
    pub bytes: u64,
}

impl Cache {
    /// The user's cache; its folder is made when something is kept.
    pub fn open() -> Self {
        let chosen = env::var_os(CACHE_VARIABLE).filter(|chosen| !chosen.is_empty());
        let folder = chosen.map(PathBuf::from).unwrap_or_else(|| {
            let home = || {
                PathBuf::from(env::var_os("HOME").unwrap_or_else(|| "/tmp".into())).join(".cache")
            };
            env::var_os("XDG_CACHE_HOME").map(PathBuf::from).unwrap_or_else(home).join("backtrail")
        });
        Self { folder }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The limit in bytes.
    pub fn limit(&self) -> u64 {
        let chosen = env::var(LIMIT_VARIABLE).ok().and_then(|limit| limit.parse().ok());
        chosen.unwrap_or(DEFAULT_LIMIT_MIB) << 20
    }

    fn path(&self, key: &[u8; 16]) -> PathBuf {
        let name = hex(key);
        self.folder.join(&name[..2]).join(&name[2..])
    }

    /// What is kept under `key`.
    pub fn get(&self, key: &[u8; 16]) -> Option<Vec<u8>> {
        let path = self.path(key);
        let bytes = fs::read(&path).ok()?;
        let (checksum, contents) = bytes.split_at_checked(16)?;
        if checksum != crate::carry::frame::hash(&[contents]) {
            return None;
        }
        // Only a hint for eviction: a read-only cache still serves.
        let _ = fs::File::options()
            .append(true)
            .open(&path)
            .and_then(|file| file.set_modified(SystemTime::now()));
        Some(contents.to_vec())
    }

    /// Keeps `contents` under `key`.
    pub fn put(&self, key: &[u8; 16], contents: &[u8]) -> Result<(), Error> {
        let path = self.path(key);
        let folder = path.parent().expect("a cached file is in a folder");
        fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let checksum = crate::carry::frame::hash(&[contents]);
        output::write_whole(&path, &[&checksum, contents].concat(), Mode::Data)
    }

    /// Fails now, with one message, if nothing could be kept.
    pub fn check_writable(&self) -> Result<(), Error> {
        let write = || {
            fs::create_dir_all(&self.folder)?;
            tempfile::tempfile_in(&self.folder).map(drop)
        };
        write().map_err(|error| {
            let hint = format!("{error}; name a writable folder for the cache in {CACHE_VARIABLE}");
            Error::write(&self.folder)(std::io::Error::new(error.kind(), hint))
        })
    }

    fn files(&self) -> Vec<(SystemTime, u64, PathBuf)> {
        let entries = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let is_ours = |path: &Path| path.file_name().is_some_and(|name| name.len() == 2);
        entries(&self.folder)
            .map(|entry| entry.path())
            .filter(|path| is_ours(path) && path.is_dir())
            .flat_map(|folder| entries(&folder).collect::<Vec<_>>())
            .filter_map(|entry| {
                let data = entry.metadata().ok()?;
                Some((data.modified().ok()?, data.len(), entry.path()))
            })
            .collect()
    }

    /// What the cache holds.
    pub fn usage(&self) -> Usage {
        let files = self.files();
        Usage { files: files.len() as u64, bytes: files.iter().map(|(_, size, _)| size).sum() }
    }

    /// Removes everything.
    pub fn clear(&self) -> Result<Usage, Error> {
        let usage = self.usage();
        for (_, _, path) in self.files() {
            fs::remove_file(&path).map_err(Error::write(&path))?;
        }
        Ok(usage)
    }

    /// Removes what was used longest ago, until the limit holds.
    pub fn trim(&self) {
        let mut files = self.files();
        files.sort();
        let mut bytes: u64 = files.iter().map(|(_, size, _)| size).sum();
        for (_, size, path) in files {
            if bytes <= self.limit() {
                break;
            }
            // Another process may have removed it already.
            let _ = fs::remove_file(path);
            bytes -= size;
        }
    }
}
