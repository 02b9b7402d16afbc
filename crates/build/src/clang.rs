//! Which clang, and which libLLVM belongs to it.

use std::env;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_machine::elf::Elf;

use crate::Error;

/// The environment variable that chooses the compiler.
pub const CLANG_VARIABLE: &str = "BACKTRAIL_CLANG";

/// The versions of LLVM whose bitcode a worker can treat.
pub const VERSIONS: std::ops::RangeInclusive<u32> = 19..=22;

/// "No such file or directory", as Linux numbers it.
const ENOENT: i32 = 2;

/// The names tried when nothing is chosen, best first.
const CANDIDATES: [&str; 5] = ["clang-19", "clang-20", "clang-21", "clang-22", "clang"];

/// The file that `name` would start.
pub fn find_program(name: &str) -> Option<PathBuf> {
    if name.contains('/') {
        return Path::new(name).is_file().then(|| PathBuf::from(name));
    }
    let path = env::var_os("PATH")?;
    let can_start = |file: &PathBuf| {
        file.metadata().is_ok_and(|data| data.is_file() && data.permissions().mode() & 0o111 != 0)
    };
    env::split_paths(&path).map(|folder| folder.join(name)).find(can_start)
}

/// The compiler driver to use.
pub fn find() -> Result<PathBuf, Error> {
    let Some(chosen) = env::var(CLANG_VARIABLE).ok().filter(|chosen| !chosen.is_empty()) else {
        return CANDIDATES.into_iter().find_map(find_program).ok_or(Error::NoClang);
    };
    let not_runnable =
        |error: std::io::Error| Error::ClangNotRunnable { program: chosen.clone(), error };
    let found = find_program(&chosen)
        .ok_or_else(|| not_runnable(std::io::Error::from_raw_os_error(ENOENT)))?;
    let own = env::current_exe().and_then(|own| own.canonicalize()).ok();
    let folder = |file: &Path| file.parent().map(Path::to_owned);
    let real = found.canonicalize().ok();
    // It would ask itself for ever.
    let is_backtrail = |real: &PathBuf| {
        let named =
            real.file_name().is_some_and(|name| name.to_string_lossy().contains("backtrail"));
        named && folder(real) == own.as_deref().and_then(folder)
    };
    if real.as_ref().is_some_and(is_backtrail) {
        return Err(not_runnable(std::io::Error::other("it is Backtrail itself")));
    }
    Ok(found)
}

/// A compiler driver in the way it is started for one language.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Driver {
    /// The program.
    pub program: PathBuf,
    /// The option that makes it a C++ compiler, if its name does not.
    pub mode: Option<&'static str>,
}

impl Driver {
    /// The driver for C.
    pub fn for_c(clang: PathBuf) -> Self {
        Self { program: clang, mode: None }
    }

    /// The driver for C++: `clang++-19` beside `clang-19`, because messages
    /// begin with its name, or else `clang-19` told to behave so.
    pub fn for_cxx(clang: PathBuf) -> Self {
        let name = clang.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let beside = clang.with_file_name(name.replacen("clang", "clang++", 1));
        match !name.contains("clang++") && name.contains("clang") && beside.is_file() {
            true => Self { program: beside, mode: None },
            false => Self { program: clang, mode: Some("--driver-mode=g++") },
        }
    }

    /// The name that its messages begin with.
    pub fn name(&self) -> String {
        self.program.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// A command that starts it.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(self.mode);
        command
    }
}

/// The error of failing to start `clang`.
pub fn not_runnable(clang: &Path, error: std::io::Error) -> Error {
    Error::ClangNotRunnable { program: clang.display().to_string(), error }
}

/// Why `clang`, which does not answer as clang does, is refused.
pub fn refuse(clang: &Path) -> Error {
    let output = match Command::new(clang).arg("--version").output() {
        Ok(output) => output,
        Err(error) => return not_runnable(clang, error),
    };
    let first = |text: &[u8]| {
        let text = String::from_utf8_lossy(text);
        text.lines().find(|line| !line.trim().is_empty()).unwrap_or_default().to_owned()
    };
    if !output.status.success() {
        let said = first(&output.stderr);
        let why = if said.is_empty() { output.status.to_string() } else { said };
        return not_runnable(clang, std::io::Error::other(why));
    }
    let version = match first(&output.stdout) {
        version if version.is_empty() => clang.display().to_string(),
        version => version,
    };
    Error::UnsupportedClang { version, why: "it is not clang".into() }
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

/// Fails, by name, unless a worker can treat what the clang that calls itself
/// `version` writes.
pub fn check_version(version: &str) -> Result<(), Error> {
    let why = match major_version(version) {
        Some(major) if VERSIONS.contains(&major) => return Ok(()),
        Some(major) => format!("it is version {major}"),
        None => "its version is unknown".to_owned(),
    };
    Err(Error::UnsupportedClang { version: version.to_owned(), why })
}

impl Compiler {
    /// The compiler `program` that calls itself `version`, with its libLLVM.
    pub fn new(program: &Path, version: &str) -> Result<Self, Error> {
        check_version(version)?;
        let unsupported =
            |why: String| Error::UnsupportedClang { version: version.to_owned(), why };
        let library = match library_of(program)? {
            Library::Found(library) => library,
            Library::Gone(name) => return Err(unsupported(format!("its {name} is not found"))),
            Library::None => {
                return Err(unsupported(
                    "it has no shared libLLVM (it is linked statically)".into(),
                ));
            }
        };
        Ok(Self { program: program.to_owned(), version: version.to_owned(), library })
    }
}

/// The libLLVM of a program.
enum Library {
    Found(PathBuf),
    /// It asks for this one, which is nowhere.
    Gone(String),
    None,
}

/// The libLLVM that the ELF executable `program` loads.
fn library_of(program: &Path) -> Result<Library, Error> {
    let real = program.canonicalize().map_err(Error::read(program))?;
    let bytes = std::fs::read(&real).map_err(Error::read(&real))?;
    let elf = Elf::parse(&bytes).map_err(Error::machine(&real))?;
    let Some(name) = elf.needed().into_iter().find(|name| name.starts_with("libLLVM")) else {
        return Ok(Library::None);
    };
    let origin = real.parent().unwrap_or(Path::new("/")).to_string_lossy().into_owned();
    let own = elf.run_path().into_iter().map(|path| path.replace("$ORIGIN", &origin));
    let own = own.map(PathBuf::from).collect::<Vec<_>>();
    let variable = env::var_os("LD_LIBRARY_PATH").unwrap_or_default();
    let chosen = env::split_paths(&variable).filter(|folder| folder.is_absolute());
    let beside = [Path::new(&origin).join("../lib")];
    let system = [
        "/usr/lib/x86_64-linux-gnu",
        "/lib/x86_64-linux-gnu",
        "/usr/lib64",
        "/usr/lib",
        "/usr/local/lib",
    ];
    // As the loader looks: the variable comes before the newer kind of run path.
    let folders = chosen.chain(own).chain(beside).chain(system.map(PathBuf::from));
    Ok(match folders.map(|folder| folder.join(&name)).find(|file| file.is_file()) {
        Some(file) => Library::Found(file.canonicalize().unwrap_or(file)),
        None => Library::Gone(name),
    })
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
