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
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _};
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

/// The contents of a regular file. Where it has holes, memory has them too: a file takes
/// no more of it than of the disk, however long it says it is.
pub fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut file = open(path)?;
    let mut bytes = zeros(usize::try_from(file.metadata()?.len()).unwrap_or(usize::MAX))?;
    let mut at = 0;
    while let Some(data) = next_data(&file, at..bytes.len() as u64) {
        let wanted = &mut bytes[data.start as usize..data.end as usize];
        let length = wanted.len();
        let read = read_at(&file, wanted, data.start)?;
        if read < length {
            // It was cut meanwhile, or is one of the kernel's.
            bytes.truncate(data.start as usize + read);
            return Ok(bytes);
        }
        at = data.end;
    }
    // It grew meanwhile, or is one of the kernel's, which say that they are empty.
    file.seek(SeekFrom::Start(bytes.len() as u64))?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// The beginning of a regular file, so many bytes at most.
pub fn read_head(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Memory that is not touched before it is used.
fn zeros(length: usize) -> io::Result<Vec<u8>> {
    // Asked for first, since `vec!` ends the process where there is none.
    Vec::<u8>::new().try_reserve_exact(length)?;
    Ok(vec![0; length])
}

/// The next part of some bytes of a file that is no hole.
fn next_data(file: &File, bytes: Range<u64>) -> Option<Range<u64>> {
    if bytes.is_empty() {
        return None;
    }
    let start = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(bytes.start)) {
        Ok(start) => start,
        Err(Errno::NXIO) => return None,
        // The file system knows of no holes.
        Err(_) => return Some(bytes),
    };
    let end = rustix::fs::seek(file, rustix::fs::SeekFrom::Hole(start)).unwrap_or(bytes.end);
    Some(start..end.min(bytes.end)).filter(|data| !data.is_empty())
}

/// Reads until the end of `into` or of the file; says how much that was.
fn read_at(file: &File, into: &mut [u8], from: u64) -> io::Result<usize> {
    let mut read = 0;
    while read < into.len() {
        match file.read_at(&mut into[read..], from + read as u64) {
            Ok(0) => break,
            Ok(more) => read += more,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(read)
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

    /// Pages of memory of this process.
    fn resident() -> u64 {
        let text = fs::read_to_string("/proc/self/statm").unwrap();
        text.split(' ').nth(1).unwrap().parse().unwrap()
    }

    #[test]
    fn holes_take_no_memory() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("sparse");
        let file = File::create(&path).unwrap();
        file.set_len(2 << 30).unwrap();
        file.write_all_at(b"first", 5).unwrap();
        file.write_all_at(b"second", 1 << 30).unwrap();
        let before = resident();
        let bytes = read(&path).unwrap();
        assert!(resident() - before < (64 << 20) / 4096);
        assert_eq!(bytes.len(), 2 << 30);
        assert_eq!(&bytes[..11], b"\0\0\0\0\0first\0");
        assert_eq!(&bytes[(1 << 30) - 1..(1 << 30) + 7], b"\0second\0");
        assert_eq!(read_head(&path, 7).unwrap(), b"\0\0\0\0\0fi");
    }

    #[test]
    fn a_file_is_read_whatever_holes_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        // By rule, with holes of all kinds: at both ends, between, none, all.
        for kind in 0..64u64 {
            let file = File::create(&path).unwrap();
            let mut expected = vec![0u8; 6 * 8192 + (kind as usize % 3) * 100];
            file.set_len(expected.len() as u64).unwrap();
            for part in (0..6).filter(|part| kind >> part & 1 > 0) {
                let from = part * 8192 + (kind * 37 % 5000);
                let bytes = vec![b'a' + part as u8; 3000];
                file.write_all_at(&bytes, from).unwrap();
                expected[from as usize..][..3000].copy_from_slice(&bytes);
            }
            assert_eq!(read(&path).unwrap(), expected, "{kind}");
        }
    }

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
