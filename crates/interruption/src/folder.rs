//! Temporary folders.
//!
//! A folder is locked (`flock(2)`, on the folder itself) by whoever made it. The kernel
//! takes the lock back when its owner dies, however it does. So whoever gets the lock of
//! a folder with such a name knows that nobody uses it, and removes it: the first folder
//! that a process makes in a place for temporary files makes it look for others there.
//! Only folders of the same user are looked at. A folder that was just made may be taken
//! for a dead one before it is locked; then its maker makes another.
//!
//! Elsewhere (beside a working directory, in a folder that several machines see) nothing
//! is looked for: such a place may be of a file system where locks hold on one machine.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Once;

use nix::unistd::geteuid;
use rustix::fs::{FlockOperation, OFlags, flock};

use crate::signals::Leftover;

/// What the names of all temporary folders begin with.
pub const PREFIX: &str = "backtrail-scratch-";

/// How often a folder is made anew because somebody took it for a dead one.
const ATTEMPTS: usize = 100;

/// A temporary folder, removed when this is dropped, by an interruption, or else by the
/// next run.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    _leftover: Leftover,
    /// Holds the lock, where there are locks.
    _lock: File,
}

impl Folder {
    /// One for `what`, which gets into its name, where temporary files go.
    pub fn new(what: &str) -> io::Result<Self> {
        Self::within(&std::env::temp_dir(), what)
    }

    /// One in the folder `place`.
    pub fn within(place: &Path, what: &str) -> io::Result<Self> {
        static SWEPT: Once = Once::new();
        if is_for_temporary_files(place) {
            SWEPT.call_once(|| sweep(place));
        }
        for _ in 0..ATTEMPTS {
            let prefix = format!("{PREFIX}{what}-");
            let make = || tempfile::Builder::new().prefix(&prefix).tempdir_in(place);
            let (made, leftover) = Leftover::make(make)?;
            let path = std::path::absolute(made.path())?;
            let Ok(lock) = open(&path) else { continue };
            if flock(&lock, FlockOperation::NonBlockingLockExclusive)
                == Err(rustix::io::Errno::WOULDBLOCK)
                || !is_at(&lock, &path)
            {
                continue;
            }
            let _ = made.keep();
            return Ok(Self { path, _leftover: leftover, _lock: lock });
        }
        Err(io::Error::other("folders that were just made are removed by somebody"))
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = remove(&self.path);
    }
}

/// Whether `place` is one of those that this machine has for temporary files.
fn is_for_temporary_files(place: &Path) -> bool {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from);
    let own = [std::env::temp_dir(), "/var/tmp".into(), "/dev/shm".into()];
    let Ok(place) = place.canonicalize() else { return false };
    own.into_iter().chain(runtime).any(|own| own.canonicalize().is_ok_and(|own| own == place))
}

/// Removes the folders in `place` whose owners are dead.
fn sweep(place: &Path) {
    let Ok(entries) = fs::read_dir(place) else { return };
    let is_ours = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(PREFIX);
    for entry in entries.filter_map(Result::ok).filter(is_ours) {
        let path = entry.path();
        let Ok(folder) = open(&path) else { continue };
        let is_own = folder.metadata().is_ok_and(|it| it.uid() == geteuid().as_raw());
        if is_own
            && flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok()
            && is_at(&folder, &path)
        {
            let _ = remove(&path);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    let flags = (OFlags::DIRECTORY | OFlags::NOFOLLOW).bits() as i32;
    OpenOptions::new().read(true).custom_flags(flags).open(path)
}

/// Whether the open folder is the one that `path` names.
fn is_at(folder: &File, path: &Path) -> bool {
    let (Ok(folder), Ok(named)) = (folder.metadata(), fs::symlink_metadata(path)) else {
        return false;
    };
    (folder.dev(), folder.ino()) == (named.dev(), named.ino())
}

/// Removes whatever is at `path`, also folders that may not be written to.
pub fn remove(path: &Path) -> io::Result<()> {
    let Ok(metadata) = fs::symlink_metadata(path) else { return Ok(()) };
    if !metadata.is_dir() {
        return fs::remove_file(path);
    }
    if fs::remove_dir_all(path).is_ok() {
        return Ok(());
    }
    let mut pending = vec![path.to_owned()];
    while let Some(folder) = pending.pop() {
        let _ = fs::set_permissions(&folder, Permissions::from_mode(0o700));
        let entries = fs::read_dir(&folder)?.filter_map(Result::ok);
        let folders = entries.filter(|entry| entry.file_type().is_ok_and(|it| it.is_dir()));
        pending.extend(folders.map(|entry| entry.path()));
    }
    fs::remove_dir_all(path)
}

/// Removes what is at `path` while others of our threads may still write into it.
pub(crate) fn remove_for_good(path: &Path) {
    for _ in 0..1000 {
        let _ = remove(path);
        if fs::symlink_metadata(path).is_err() {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn left(place: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(place).unwrap().map(name);
        let mut names: Vec<String> = names.map(|it| it.into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn the_dead_are_removed_and_nobody_else() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let living = Folder::within(place, "living").unwrap();
        let sealed = place.join("backtrail-scratch-dead-1/work/work");
        fs::create_dir_all(&sealed).unwrap();
        fs::set_permissions(&sealed, Permissions::from_mode(0o000)).unwrap();
        for other in ["backtrail-profile-1", "else"] {
            fs::create_dir(place.join(other)).unwrap();
        }
        fs::write(place.join("backtrail-scratch-file"), "").unwrap();
        std::os::unix::fs::symlink(place.join("else"), place.join("backtrail-scratch-link"))
            .unwrap();
        sweep(place);
        let name = living.path().file_name().unwrap().to_str().unwrap().to_owned();
        let mut kept = ["backtrail-profile-1", "backtrail-scratch-file", "backtrail-scratch-link"]
            .map(str::to_owned)
            .to_vec();
        kept.extend([name, "else".to_owned()]);
        assert_eq!(left(place), kept);
        drop(living);
        assert_eq!(left(place).len(), 4);
    }

    #[test]
    fn whoever_makes_a_folder_has_it_while_others_sweep() {
        let place = tempfile::tempdir().unwrap();
        let place = place.path();
        let is_over = std::sync::atomic::AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                    sweep(place);
                }
            });
            for number in 0..500 {
                let folder = Folder::within(place, "busy").unwrap();
                let file = folder.path().join("file");
                fs::write(&file, "x").unwrap_or_else(|error| panic!("{number}: {error}"));
                assert!(file.exists());
            }
            is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        });
        sweep(place);
        assert_eq!(left(place), [""; 0]);
    }
}
