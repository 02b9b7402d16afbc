//! Files that appear whole or not at all.

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
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
