//! Opening what should be a file.
//!
//! A name that was given, or that stands in a file, can be that of a pipe that
//! nobody writes to, of a terminal, or of a device without an end: who opens it
//! waits for ever, or reads until memory ends. Regular files have an end, so only
//! these are read. What it is, is asked for twice: before it is opened, since
//! opening a device can do something, and of what was opened, since the name may
//! be another file's by then; between the two nothing waits.
//!
//! Short lists that people write (`--pt-list`, which functions to trace) may come
//! from a pipe, `<(nm …)`: [`read_list`] takes these, up to a size that no list has.

use std::fs::{self, File, Metadata};
use std::io::{self, Read as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;
use rustix::process::{getegid, geteuid};

/// The longest list.
const LONGEST_LIST: u64 = 64 << 20;

fn check(data: &Metadata) -> io::Result<()> {
    if data.is_file() {
        return Ok(());
    }
    if data.is_dir() {
        return Err(Errno::ISDIR.into());
    }
    Err(io::Error::new(io::ErrorKind::InvalidInput, "is not a regular file"))
}

/// Opens a regular file for reading.
pub fn open(path: &Path) -> io::Result<File> {
    check(&fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::options().read(true).custom_flags(flags.bits() as i32).open(path)?;
    check(&file.metadata()?)?;
    Ok(file)
}

/// The contents of a regular file.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let length = file.metadata()?.len();
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(usize::try_from(length).unwrap_or(usize::MAX))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The text of a regular file or of a pipe, for lists that people write.
pub fn read_list(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    match fs::metadata(path)?.file_type().is_fifo() {
        true => File::open(path)?.take(LONGEST_LIST + 1).read_to_string(&mut text)?,
        false => open(path)?.take(LONGEST_LIST + 1).read_to_string(&mut text)?,
    };
    if text.len() as u64 > LONGEST_LIST {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, "is too long for a list"));
    }
    Ok(text)
}

/// Whether the program at `path` has rights that we have not, if it is started as it is.
pub fn gains_privileges(path: &Path) -> bool {
    let Ok(data) = fs::metadata(path) else { return false };
    let (user, group) = (geteuid(), getegid());
    let capabilities = || rustix::fs::getxattr(path, "security.capability", &mut [0; 64]).is_ok();
    !user.is_root()
        && (data.mode() & 0o4000 != 0 && data.uid() != user.as_raw()
            || data.mode() & 0o2000 != 0 && data.gid() != group.as_raw()
            || capabilities())
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    #[test]
    fn only_files_are_read_and_nothing_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("file"), "text").unwrap();
        std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
        mknodat(CWD, path("pipe"), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        std::os::unix::fs::symlink(path("pipe"), path("link to pipe")).unwrap();
        let _socket = UnixListener::bind(path("socket")).unwrap();
        for name in ["file", "link"] {
            assert_eq!(read(&path(name)).unwrap(), b"text");
            assert_eq!(read_list(&path(name)).unwrap(), "text");
        }
        for name in ["pipe", "link to pipe", "socket", "/dev/zero", "/dev/null"] {
            let error = read(&path(name)).unwrap_err();
            assert_eq!(error.to_string(), "is not a regular file", "{name}");
        }
        assert_eq!(open(folder.path()).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        assert_eq!(read(&path("none")).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert!(read_list(Path::new("/dev/zero")).is_err());
        // The kernel's files say that they are empty.
        assert!(!read(Path::new("/proc/self/status")).unwrap().is_empty());
        let writer = std::thread::spawn({
            let pipe = path("pipe");
            move || fs::write(pipe, "listed")
        });
        assert_eq!(read_list(&path("pipe")).unwrap(), "listed");
        writer.join().unwrap().unwrap();
    }
}
