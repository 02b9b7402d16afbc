//! Files that appear whole or not at all.
//!
//! A file has no name until it is finished (`O_TMPFILE` in open(2)), so that nothing is
//! left of it when this process is ended, however that is done. Where the file system
//! cannot do that, it has a name beside its own, which an interruption removes.
//!
//! What is not a regular file is written to directly, and so is what this process was
//! given open, by whatever name: who says `-o /dev/stdout` wants it behind what is there
//! already, and goes on writing there.

use std::fs::{self, File, Permissions};
use std::io::{self, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, fchown};
use std::path::{Path, PathBuf};

use backtrail_interruption::{Leftover, uninterrupted};
use rustix::fs::{AtFlags, CWD, OFlags, linkat};
use rustix::process::{PidfdFlags, PidfdGetfdFlags, getpid, pidfd_getfd, pidfd_open};
use tempfile::TempPath;

use crate::Error;

/// Who may do what with a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Readable and writable as the umask allows.
    Data,
    /// Executable as well.
    Program,
}

fn mode_bits(mode: Mode) -> u32 {
    let wanted = match mode {
        Mode::Data => 0o666,
        Mode::Program => 0o777,
    };
    wanted & !umask()
}

/// The process's umask, from where it can be read without being changed.
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    line.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

/// A file on its way to its name.
struct Unfinished {
    file: File,
    /// Where it goes: what a link points to.
    target: PathBuf,
    /// The name it has until then, if it has to have one.
    place: Option<(TempPath, Leftover)>,
}

impl Unfinished {
    /// A file that will be at `path`.
    fn at(path: &Path) -> io::Result<Self> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
        match rustix::fs::open(folder_of(&target), flags, rustix::fs::Mode::from_raw_mode(0o600)) {
            Ok(file) => Ok(Self { file: file.into(), target, place: None }),
            // It says more about why, if that cannot be done either.
            Err(_) => Self::named(target),
        }
    }

    /// The same with a name.
    fn named(target: PathBuf) -> io::Result<Self> {
        let make = || names().tempfile_in(folder_of(&target));
        let (made, leftover) = Leftover::make(make)?;
        let (file, place) = made.into_parts();
        Ok(Self { file, target, place: Some((place, leftover)) })
    }

    /// Gives it its name.
    fn finish(self) -> io::Result<()> {
        let Self { file, target, place } = self;
        let own = format!("/proc/self/fd/{}", file.as_raw_fd());
        let link = |path: &Path| Ok(linkat(CWD, &own, CWD, path, AtFlags::SYMLINK_FOLLOW)?);
        // A file without a name cannot replace another: it has one for a moment.
        uninterrupted(|| match &place {
            Some((place, _)) => fs::rename(place, &target),
            None => {
                let linked = names().make_in(folder_of(&target), link)?;
                linked.persist(&target).map(drop).map_err(|error| error.error)
            }
        })
    }
}

fn names() -> tempfile::Builder<'static, 'static> {
    let mut names = tempfile::Builder::new();
    names.prefix(".backtrail-");
    names
}

fn folder_of(target: &Path) -> &Path {
    target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// What is written to directly, if `path` names such a thing: no regular file
/// (`/dev/null`, a pipe), or what this process was given open.
fn direct(path: &Path) -> io::Result<Option<File>> {
    if let Some(number) = descriptor(path) {
        return duplicate(number).map(|it| Some(it.into()));
    }
    match fs::metadata(path) {
        Ok(existing) if !existing.is_file() => File::options().write(true).open(path).map(Some),
        _ => Ok(None),
    }
}

/// The descriptor of this process that `path` names: `/dev/stdout`, `/dev/fd/3`.
fn descriptor(path: &Path) -> Option<i32> {
    /// As many links as the kernel follows.
    const MOST: usize = 40;
    let own = fs::canonicalize("/proc/self/fd").ok()?;
    let mut path = path.to_owned();
    for _ in 0..MOST {
        let folder = folder_of(&path).canonicalize().ok()?;
        let name = path.file_name()?;
        if folder == own {
            return name.to_str()?.parse().ok();
        }
        path = folder.join(fs::read_link(folder.join(name)).ok()?);
    }
    None
}

/// Another descriptor of what this process was given open as `number`.
fn duplicate(number: i32) -> io::Result<OwnedFd> {
    match number {
        0 => return io::stdin().as_fd().try_clone_to_owned(),
        1 => return io::stdout().as_fd().try_clone_to_owned(),
        2 => return io::stderr().as_fd().try_clone_to_owned(),
        _ => {}
    }
    // What it opened itself is nobody else's affair, and not given to programs.
    let flags = fs::read_to_string(format!("/proc/self/fdinfo/{number}"))?;
    let flags = flags.lines().find_map(|line| line.strip_prefix("flags:"));
    let flags = flags.and_then(|it| u32::from_str_radix(it.trim(), 8).ok()).unwrap_or_default();
    if flags & OFlags::CLOEXEC.bits() != 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    let own = pidfd_open(getpid(), PidfdFlags::empty())?;
    Ok(pidfd_getfd(own, number, PidfdGetfdFlags::empty())?)
}

/// Fails if `path` cannot be written to, as far as that is known before it is.
pub fn check_writable(path: &Path) -> Result<(), Error> {
    let check = || -> io::Result<()> {
        match descriptor(path) {
            Some(number) => duplicate(number).map(drop),
            // To open a pipe is to wait for whoever reads it.
            None if fs::metadata(path).is_ok_and(|existing| !existing.is_file()) => Ok(()),
            None => Unfinished::at(path).map(drop),
        }
    };
    check().map_err(Error::write(path))
}

/// Writes `bytes` to `path`: without a name first, then under its own, unless it is
/// written to directly.
pub fn write_whole(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), Error> {
    let write = || -> io::Result<()> {
        if let Some(mut file) = direct(path)? {
            return file.write_all(bytes);
        }
        let mut unfinished = Unfinished::at(path)?;
        unfinished.file.write_all(bytes)?;
        unfinished.file.set_permissions(Permissions::from_mode(mode_bits(mode)))?;
        unfinished.finish()
    };
    write().map_err(Error::write(path))
}

/// Writes `bytes` to `path` with the permissions of the program `like`; and if that
/// is what is replaced, with its owner as well.
pub fn write_like(path: &Path, bytes: &[u8], like: &Path) -> Result<(), Error> {
    let model = fs::metadata(like).map_err(Error::read(like))?;
    let is_model = |it: fs::Metadata| (it.dev(), it.ino()) == (model.dev(), model.ino());
    let write = || -> io::Result<()> {
        let replaces = fs::metadata(path).is_ok_and(is_model);
        if !replaces && let Some(mut file) = direct(path)? {
            return file.write_all(bytes);
        }
        let mut unfinished = Unfinished::at(path)?;
        let file = &mut unfinished.file;
        file.write_all(bytes)?;
        let mut mode = model.mode() & 0o7777;
        if replaces {
            let own = file.metadata()?;
            if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
                fchown(&*file, Some(model.uid()), Some(model.gid()))?;
            }
        } else {
            // Whoever makes a copy owns it.
            mode &= 0o777;
        }
        file.set_permissions(Permissions::from_mode(mode))?;
        file.sync_all()?;
        unfinished.finish()
    };
    write().map_err(Error::write(path))
}

/// A file that is written bit by bit and appears under its name when it is
/// finished, unless it is written to directly.
pub struct WholeFile {
    file: io::BufWriter<Destination>,
    mode: Mode,
    path: PathBuf,
}

enum Destination {
    /// What is written to directly.
    Direct(File),
    Whole(Unfinished),
}

impl Destination {
    fn file(&self) -> &File {
        match self {
            Destination::Direct(file) | Destination::Whole(Unfinished { file, .. }) => file,
        }
    }
}

impl io::Write for Destination {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file().flush()
    }
}

impl WholeFile {
    /// Begins a file.
    pub fn create(path: &Path, mode: Mode) -> Result<Self, Error> {
        let create = || -> io::Result<Destination> {
            Ok(match direct(path)? {
                Some(file) => Destination::Direct(file),
                None => Destination::Whole(Unfinished::at(path)?),
            })
        };
        let file = create().map_err(Error::write(path))?;
        let file = io::BufWriter::with_capacity(1 << 16, file);
        Ok(Self { file, mode, path: path.to_owned() })
    }

    /// An error of writing that says to which file.
    fn named(&self, error: std::io::Error) -> std::io::Error {
        match error.kind() {
            // Whoever writes tries again.
            std::io::ErrorKind::Interrupted => error,
            kind => std::io::Error::new(kind, Error::write(&self.path)(error)),
        }
    }

    /// Puts the file in its place.
    pub fn finish(self) -> Result<(), Error> {
        let finish = || -> io::Result<()> {
            match self.file.into_inner().map_err(io::IntoInnerError::into_error)? {
                Destination::Direct(_) => Ok(()),
                Destination::Whole(unfinished) => {
                    let permissions = Permissions::from_mode(mode_bits(self.mode));
                    unfinished.file.set_permissions(permissions)?;
                    unfinished.finish()
                }
            }
        };
        finish().map_err(Error::write(&self.path))
    }
}

impl io::Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes).map_err(|error| self.named(error))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush().map_err(|error| self.named(error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<std::ffi::OsString> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name()).collect()
    }

    #[test]
    fn with_and_without_a_name_it_is_whole_or_not_there() {
        for is_named in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("file");
            for text in ["first", "second"] {
                let mut unfinished = match is_named {
                    true => Unfinished::named(path.clone()).unwrap(),
                    false => Unfinished::at(&path).unwrap(),
                };
                unfinished.file.write_all(text.as_bytes()).unwrap();
                let before = fs::read_to_string(&path).ok();
                assert_eq!(before.as_deref(), (text == "second").then_some("first"));
                unfinished.finish().unwrap();
                assert_eq!(fs::read_to_string(&path).unwrap(), text);
                assert_eq!(names(folder.path()), ["file"]);
            }
            let unfinished = Unfinished::named(path.clone()).unwrap();
            assert_eq!(names(folder.path()).len(), 2);
            drop(unfinished);
            assert_eq!(names(folder.path()), ["file"]);
        }
    }
}
