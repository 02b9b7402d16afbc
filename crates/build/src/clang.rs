//! Which clang, and which libLLVM belongs to it.

use std::env;
use std::path::{Path, PathBuf};

use backtrail_machine::elf::Elf;

use crate::Error;

/// The environment variable that chooses the compiler.
pub const CLANG_VARIABLE: &str = "BACKTRAIL_CLANG";

/// The versions of LLVM whose bitcode a worker can treat.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 19..=22;

/// The names tried when nothing is chosen, best first.
const CANDIDATES: [&str; 5] = ["clang-19", "clang-20", "clang-21", "clang-22", "clang"];

/// The file that `name` would start.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = env::var_os("PATH")?;
    env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
}

/// The compiler driver to use.
pub fn find() -> Result<PathBuf, Error> {
    if let Some(chosen) = env::var(CLANG_VARIABLE).ok().filter(|chosen| !chosen.is_empty()) {
        let missing = || Error::ClangNotRunnable {
            program: chosen.clone(),
            error: std::io::ErrorKind::NotFound.into(),
        };
        return find_program(&chosen).ok_or_else(missing);
    }
    CANDIDATES.into_iter().find_map(find_program).ok_or(Error::NoClang)
}

/// A compiler proper: what `-###` names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Compiler {
    /// The program that takes `-cc1`.
    pub program: PathBuf,
    /// What it calls itself.
    pub version: String,
    /// Its libLLVM.
    pub library: PathBuf,
}

/// The major version in what a clang calls itself.
pub fn major_version(version: &str) -> Option<u32> {
    let (_, behind) = version.split_once("version ")?;
    behind.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

impl Compiler {
    /// The compiler `program` that calls itself `version`, with its libLLVM.
    pub fn new(program: &Path, version: &str) -> Result<Self, Error> {
        let unsupported =
            |why: String| Error::UnsupportedClang { version: version.to_owned(), why };
        match major_version(version) {
            Some(major) if VERSIONS.contains(&major) => {}
            Some(major) => return Err(unsupported(format!("LLVM {major}"))),
            None => return Err(unsupported("its version is unknown".into())),
        }
        let library = library_of(program)?.ok_or_else(|| {
            unsupported("it has no shared libLLVM (it is linked statically)".into())
        })?;
        Ok(Self { program: program.to_owned(), version: version.to_owned(), library })
    }
}

/// The libLLVM that the ELF executable `program` loads.
fn library_of(program: &Path) -> Result<Option<PathBuf>, Error> {
    let real = program.canonicalize().map_err(Error::read(program))?;
    let bytes = std::fs::read(&real).map_err(Error::read(&real))?;
    let elf = Elf::parse(&bytes).map_err(Error::machine(&real))?;
    let Some(name) = elf.needed().into_iter().find(|name| name.starts_with("libLLVM")) else {
        return Ok(None);
    };
    let origin = real.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let own = elf.run_path().into_iter().map(|path| path.replace("$ORIGIN", &origin));
    let beside = [format!("{origin}/../lib")];
    let system = [
        "/usr/lib/x86_64-linux-gnu",
        "/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    let folders = own.chain(beside).chain(system.map(str::to_owned));
    Ok(folders.map(|folder| Path::new(&folder).join(&name)).find(|file| file.is_file()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_what_clang_prints() {
        assert_eq!(major_version("Debian clang version 19.1.7 (3~deb12u1)"), Some(19));
        assert_eq!(major_version("clang version 20.0.0git"), Some(20));
        assert_eq!(major_version("gcc (Debian 12.2.0) 12.2.0"), None);
    }
}
