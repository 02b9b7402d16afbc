//! The names under which cargo, build scripts and rustc start this program.
//!
//! A wrapper, a compiler and a linker are each given as one path, so the name
//! has to say what is meant. The names are links in one folder of the cache,
//! which stays where it is: build scripts run again when `CC` changes.
//!
//! The linker's name matters to rustc as well, which tells from it how to call
//! it (`cc`, `clang`, `ld.lld`): so a linker of any name has a namesake in the
//! folder `backtrail-link`.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::cache::Cache;
use crate::carry::file::hex;
use crate::carry::frame;

/// The wrapper around rustc.
pub const RUSTC: &str = "backtrail-rustc";
/// The same, for programs that carry the standard library's units too.
pub const RUSTC_WITH_STD: &str = "backtrail-rustc-std";
/// The C compiler.
pub const CC: &str = "backtrail-cc";
/// The C++ compiler.
pub const CXX: &str = "backtrail-c++";
/// The folder of linkers.
const LINKERS: &str = "backtrail-link";

/// What a process was started as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// The wrapper around rustc.
    Rustc {
        /// Whether the standard library's units take part.
        with_std: bool,
    },
    /// The linker.
    Linker,
}

/// The role that the first word of a command line stands for, if any.
pub fn role_of(word: &Path) -> Option<Role> {
    let is = |part: Option<&OsStr>, name| part == Some(OsStr::new(name));
    if is(word.file_name(), RUSTC) {
        Some(Role::Rustc { with_std: false })
    } else if is(word.file_name(), RUSTC_WITH_STD) {
        Some(Role::Rustc { with_std: true })
    } else if is(word.parent().and_then(Path::file_name), LINKERS) {
        Some(Role::Linker)
    } else {
        None
    }
}

/// Makes the folder, with a name for every role but the linker's.
pub fn prepare() -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let key = frame::hash(&[program.as_os_str().as_bytes()]);
    let folder = Cache::open().folder().join("names").join(hex(&key[..8]));
    let folder = std::path::absolute(&folder).unwrap_or(folder);
    for name in [RUSTC, RUSTC_WITH_STD, CC, CXX] {
        link(&program, &folder.join(name))?;
    }
    Ok(folder)
}

/// The path under which we stand for the linker `linker`.
pub fn linker(folder: &Path, linker: &Path) -> Result<PathBuf, Error> {
    let program = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let path = folder.join(LINKERS).join(linker.file_name().unwrap_or(OsStr::new("cc")));
    link(&program, &path)?;
    Ok(path)
}

/// Makes `path` a link to `program`; others may be doing the same.
fn link(program: &Path, path: &Path) -> Result<(), Error> {
    if fs::read_link(path).is_ok_and(|target| target == program) {
        return Ok(());
    }
    let make = || -> io::Result<()> {
        let folder = path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        let place = tempfile::Builder::new().prefix(".new-").tempdir_in(folder)?;
        let new = place.path().join("link");
        std::os::unix::fs::symlink(program, &new)?;
        fs::rename(&new, path)
    };
    make().map_err(Error::write(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_are_told_by_the_name() {
        let rustc = |with_std| Some(Role::Rustc { with_std });
        assert_eq!(role_of(Path::new("/x/backtrail-rustc")), rustc(false));
        assert_eq!(role_of(Path::new("/x/backtrail-rustc-std")), rustc(true));
        assert_eq!(role_of(Path::new("/x/backtrail-link/clang-19")), Some(Role::Linker));
        assert_eq!(role_of(Path::new("backtrail")), None);
        assert_eq!(role_of(Path::new("cc")), None);
    }
}
