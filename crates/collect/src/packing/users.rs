//! Whether anybody uses a file: has it open for writing, or mapped.
//!
//! Asked by a read lease (`F_SETLEASE` in fcntl(2)), which the kernel gives only if nobody
//! has the file open for writing; a mapping keeps it open. It is given back at once.
//! Somebody who opens the file for writing in between waits so long, and we get a signal
//! (`SIGIO`), which must not end us.
#![allow(unsafe_code)]

use std::fs::OpenOptions;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use nix::libc;
use nix::sys::statfs::{
    BTRFS_SUPER_MAGIC, EXT4_SUPER_MAGIC, FsType, TMPFS_MAGIC, XFS_SUPER_MAGIC, fstatfs,
};
use signal_hook::consts::SIGIO;

/// Where a mapping is known to be one of the file that was opened. An overlay maps a file
/// below it, and what is far away is not known here.
const KNOWN: [FsType; 4] = [EXT4_SUPER_MAGIC, TMPFS_MAGIC, XFS_SUPER_MAGIC, BTRFS_SUPER_MAGIC];

/// What the kernel says of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    Nobody,
    Somebody,
    /// It does not say.
    Untold,
}

/// Who can be asked.
pub(super) struct Users {
    can_ask: bool,
}

impl Default for Users {
    fn default() -> Self {
        let flag = Arc::new(AtomicBool::new(false));
        Self { can_ask: signal_hook::flag::register(SIGIO, flag).is_ok() }
    }
}

impl Users {
    /// Nobody is asked.
    pub(super) const NONE: Self = Self { can_ask: false };

    /// Whether anybody uses the file at `path`, which must not be a link.
    pub(super) fn of(&self, path: &Path) -> Use {
        if !self.can_ask {
            return Use::Untold;
        }
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let Ok(file) = OpenOptions::new().read(true).custom_flags(flags).open(path) else {
            return Use::Untold;
        };
        if !fstatfs(&file).is_ok_and(|it| KNOWN.contains(&it.filesystem_type())) {
            return Use::Untold;
        }
        // SAFETY: numbers in, a number out; the lease ends with the descriptor at the latest.
        let result = unsafe { libc::fcntl(file.as_raw_fd(), libc::F_SETLEASE, libc::F_RDLCK) };
        match (result, nix::errno::Errno::last()) {
            (0, _) => Use::Nobody,
            (_, nix::errno::Errno::EAGAIN) => Use::Somebody,
            _ => Use::Untold,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that maps a file and closes it, for as long as its input is open.
    const MAPS: &str = "import mmap,sys; file = open('file', 'r+b'); it = mmap.mmap(file.fileno(), \
                        0); file.close(); print(flush=True); sys.stdin.read()";

    #[test]
    fn a_file_is_used_as_long_as_it_is_mapped() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        std::fs::write(&path, [1; 8192]).unwrap();
        let users = Users::default();
        if users.of(&path) == Use::Untold {
            // Another file system.
            return;
        }
        assert_eq!(users.of(&path), Use::Nobody);
        let mut command = Command::new("python3");
        command.args(["-c", MAPS]).current_dir(folder.path());
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        std::io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        assert_eq!(users.of(&path), Use::Somebody);
        drop(child.stdin.take());
        assert!(child.wait().unwrap().success());
        assert_eq!(users.of(&path), Use::Nobody);
        assert_eq!(users.of(&folder.path().join("none")), Use::Untold);
    }
}
