//! Files that appear whole or not at all.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::Path;

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

/// Writes `bytes` to `path`: beside it first, then under its name. What is not
/// a regular file (`/dev/null`, a pipe) is written to directly.
pub fn write_whole(path: &Path, bytes: &[u8], mode: Mode) -> Result<(), Error> {
    let write = || -> std::io::Result<()> {
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|existing| !existing.is_file()) {
            return fs::write(path, bytes);
        }
        // Writing through a link must change the file it points to.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .prefix(".backtrail-")
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        file.as_file().set_permissions(Permissions::from_mode(mode_bits(mode)))?;
        file.persist(&target).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(Error::write(path))
}

/// Writes `bytes` to `path` with the permissions of the program `like`; and if that
/// is what is replaced, with its owner as well.
pub fn write_like(path: &Path, bytes: &[u8], like: &Path) -> Result<(), Error> {
    let model = fs::metadata(like).map_err(Error::read(like))?;
    let write = || -> std::io::Result<()> {
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        let replaces = fs::metadata(&target).is_ok_and(|it| it.ino() == model.ino());
        let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
        let mut file = tempfile::Builder::new()
            .prefix(".backtrail-")
            .tempfile_in(folder.unwrap_or(Path::new(".")))?;
        file.write_all(bytes)?;
        let mut mode = model.mode() & 0o7777;
        if replaces {
            let own = file.as_file().metadata()?;
            if (own.uid(), own.gid()) != (model.uid(), model.gid()) {
                chown(file.path(), Some(model.uid()), Some(model.gid()))?;
            }
        } else {
            // Whoever makes a copy owns it.
            mode &= 0o777;
        }
        file.as_file().set_permissions(Permissions::from_mode(mode))?;
        file.as_file().sync_all()?;
        file.persist(&target).map_err(|error| error.error)?;
        Ok(())
    };
    write().map_err(Error::write(path))
}

/// A file that is written bit by bit and appears under its name when it is
/// finished. What is not a regular file is written to directly.
pub struct WholeFile {
    file: std::io::BufWriter<fs::File>,
    /// Where it is until then, and where it goes.
    waiting: Option<(tempfile::TempPath, std::path::PathBuf)>,
    mode: Mode,
    path: std::path::PathBuf,
}

impl WholeFile {
    /// Begins a file.
    pub fn create(path: &Path, mode: Mode) -> Result<Self, Error> {
        let create = || -> std::io::Result<Self> {
            let existing = fs::metadata(path).ok();
            let (file, waiting) = if existing.is_some_and(|existing| !existing.is_file()) {
                (fs::File::options().write(true).open(path)?, None)
            } else {
                let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
                let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty());
                let file = tempfile::Builder::new()
                    .prefix(".backtrail-")
                    .tempfile_in(folder.unwrap_or(Path::new(".")))?;
                let (file, place) = file.into_parts();
                (file, Some((place, target)))
            };
            let file = std::io::BufWriter::with_capacity(1 << 16, file);
            Ok(Self { file, waiting, mode, path: path.to_owned() })
        };
        create().map_err(Error::write(path))
    }

    /// Puts the file in its place.
    pub fn finish(mut self) -> Result<(), Error> {
        let mut finish = || -> std::io::Result<()> {
            self.file.flush()?;
            if let Some((place, target)) = self.waiting.take() {
                let permissions = Permissions::from_mode(mode_bits(self.mode));
                self.file.get_ref().set_permissions(permissions)?;
                place.persist(target).map_err(|error| error.error)?;
            }
            Ok(())
        };
        let result = finish();
        result.map_err(Error::write(&self.path))
    }
}

impl std::io::Write for WholeFile {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.file.flush()
    }
}
