//! The tools of this machine: linkers by name, compilers by version.
//!
//! They are looked for on the user's path, in the system's folders and in the
//! toolchains of Rust that are installed. Where the path that a recipe names is in one
//! of these, it is taken, since it is the closest to how the program was made; else its
//! last part alone counts. A relative part of the path does not count: it is another
//! folder wherever one stands.

use std::collections::BTreeMap;
use std::env;
use std::path::{Component, Path, PathBuf};
use std::process::{Command, Stdio};

use crate::cargo::units::find_library;
use crate::clang::{self, Compiler};
use crate::link::SYSTEM_FOLDERS;

/// Linkers, apart from those whose names have a version or a target in them.
const LINKERS: [&str; 10] =
    ["ld", "ld.bfd", "ld.gold", "ld.lld", "ld.mold", "ld.wild", "gold", "lld", "mold", "rust-lld"];

/// Compiler drivers, likewise.
const DRIVERS: [&str; 6] = ["cc", "c++", "gcc", "g++", "clang", "clang++"];

/// Targets that the names of tools may begin with.
const TARGETS: [&str; 5] = [
    "x86_64-linux-gnu-",
    "x86_64-pc-linux-gnu-",
    "x86_64-linux-musl-",
    "x86_64-redhat-linux-",
    "x86_64-unknown-linux-gnu-",
];

/// What this machine has.
pub struct Installed {
    /// Where programs are looked for, in order.
    folders: Vec<PathBuf>,
    /// The toolchains of Rust.
    toolchains: Vec<PathBuf>,
    clangs: BTreeMap<(String, PathBuf), Option<Compiler>>,
    rust_libraries: BTreeMap<(String, PathBuf), Option<PathBuf>>,
}

/// Whether `name` is one of `names`, with a version behind it or a target before it.
fn is_called(name: &str, names: &[&str]) -> bool {
    let bare = TARGETS.iter().find_map(|target| name.strip_prefix(target)).unwrap_or(name);
    let is_version = |rest: &str| {
        rest.strip_prefix('-').is_some_and(|version| {
            !version.is_empty() && version.bytes().all(|it| it.is_ascii_digit() || it == b'.')
        })
    };
    names.iter().any(|it| bare.strip_prefix(it).is_some_and(|it| it.is_empty() || is_version(it)))
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.path()).collect();
    paths.sort();
    paths
}

impl Installed {
    /// Looks around.
    pub fn find() -> Self {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut folders: Vec<PathBuf> =
            env::split_paths(&path).filter(|folder| folder.is_absolute()).collect();
        folders.extend(["/usr/local/bin", "/usr/bin", "/bin"].map(PathBuf::from));
        let is_llvm = |path: &PathBuf| {
            path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("llvm"))
        };
        let llvm = entries(Path::new("/usr/lib")).into_iter().filter(is_llvm);
        folders.extend(llvm.map(|folder| folder.join("bin")));
        let home = || Some(PathBuf::from(env::var_os("HOME")?).join(".rustup"));
        let rustup = env::var_os("RUSTUP_HOME").map(PathBuf::from).or_else(home);
        let rustup = rustup.filter(|folder| folder.is_absolute());
        let rustup = rustup.map(|folder| entries(&folder.join("toolchains"))).unwrap_or_default();
        let beside = folders.iter().filter_map(|folder| folder.parent());
        let has_rustc =
            |root: &Path| root.join("bin/rustc").is_file() && root.join("lib/rustlib").is_dir();
        let mut toolchains: Vec<PathBuf> = beside
            .map(Path::to_owned)
            .chain(rustup)
            .filter(|root| has_rustc(root))
            .filter_map(|root| root.canonicalize().ok())
            .collect();
        toolchains.sort();
        toolchains.dedup();
        folders.extend(
            toolchains
                .iter()
                .flat_map(|root| ["bin", "bin/gcc-ld"].map(|bin| root.join(RUST_TOOLS).join(bin))),
        );
        Self { folders, toolchains, clangs: BTreeMap::new(), rust_libraries: BTreeMap::new() }
    }

    /// Whether `path` is one of the programs that are looked for.
    fn is_program(&self, path: &Path) -> bool {
        let is_plain = path.components().all(|it| !matches!(it, Component::ParentDir));
        let folder = path.parent().unwrap_or(Path::new(""));
        is_plain && self.folders.iter().any(|it| it == folder) && path.is_file()
    }

    /// The linker, or the compiler driver that calls one, for which `carried` stands.
    pub fn linker(&self, carried: &Path, is_driver: bool) -> Result<PathBuf, String> {
        let name = carried.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let (names, what) = match is_driver {
            true => (&DRIVERS[..], "compiler"),
            false => (&LINKERS[..], "linker"),
        };
        if !is_called(&name, names) {
            return Err(format!("'{name}' is not known as a {what}"));
        }
        if self.is_program(carried) {
            return Ok(carried.to_owned());
        }
        let found = self.folders.iter().map(|folder| folder.join(&name)).find(|it| it.is_file());
        found.ok_or_else(|| format!("the {what} {name} is not on this machine"))
    }

    /// Whether `path` is a file of the system or of a toolchain.
    pub fn holds(&self, path: &Path) -> bool {
        let Ok(real) = path.canonicalize() else { return false };
        let toolchains = self.toolchains.iter().map(|root| root.join("lib"));
        let system = SYSTEM_FOLDERS.iter().map(PathBuf::from);
        system.chain(toolchains).any(|it| real.starts_with(it))
    }

    /// Whether `folder` is where a toolchain has its own linkers.
    pub fn is_rust_tools(&self, folder: &Path) -> bool {
        let Ok(real) = folder.canonicalize() else { return false };
        self.toolchains.iter().any(|root| real.starts_with(root.join(RUST_TOOLS).join("bin")))
    }

    /// The clang that calls itself `version`, or else one of the same major version;
    /// `carried` is where it was.
    pub fn clang(&mut self, version: &str, carried: &Path) -> Option<Compiler> {
        let key = (version.to_owned(), carried.to_owned());
        if let Some(found) = self.clangs.get(&key) {
            return found.clone();
        }
        let found = self.find_clang(version, carried);
        self.clangs.insert(key, found.clone());
        found
    }

    fn find_clang(&self, version: &str, carried: &Path) -> Option<Compiler> {
        let major = clang::major_version(version)?;
        let chosen = env::var(clang::CLANG_VARIABLE).ok().and_then(|it| clang::find_program(&it));
        let is_clang =
            carried.file_name().is_some_and(|name| is_called(&name.to_string_lossy(), &["clang"]));
        let carried = Some(carried.to_owned()).filter(|it| is_clang && self.is_program(it));
        let names = [format!("clang-{major}"), "clang".to_owned()];
        let named = names.iter().flat_map(|name| self.folders.iter().map(move |it| it.join(name)));
        let candidates =
            carried.into_iter().chain(chosen.filter(|it| it.is_absolute())).chain(named);
        let mut similar = None;
        for program in candidates.filter(|it| it.is_file()) {
            let said = ask(&program, "--version").unwrap_or_default();
            let own = said.lines().next().unwrap_or_default();
            if clang::major_version(own) != Some(major) {
                continue;
            }
            let Ok(compiler) = Compiler::new(&program, own) else { continue };
            if own == version {
                return Some(compiler);
            }
            similar = similar.or(Some(compiler));
        }
        similar
    }

    /// The libLLVM of the rustc that calls itself `version`; `carried` is where it was.
    pub fn rust_library(&mut self, version: &str, carried: &Path) -> Option<PathBuf> {
        let key = (version.to_owned(), carried.to_owned());
        if let Some(found) = self.rust_libraries.get(&key) {
            return found.clone();
        }
        let own = self.toolchains.iter().filter(|root| carried.starts_with(root));
        let found = own.chain(&self.toolchains).find_map(|root| {
            let said = ask(&root.join("bin/rustc"), "-vV")?;
            let is_it = said.lines().next() == Some(version);
            is_it.then(|| find_library(root, &said).ok()).flatten()
        });
        self.rust_libraries.insert(key, found.clone());
        found
    }
}

/// Where a toolchain of Rust has its own tools.
const RUST_TOOLS: &str = "lib/rustlib/x86_64-unknown-linux-gnu";

/// What `program` answers to `question`. It is asked where no file of a stranger's can
/// tell it what to be.
fn ask(program: &Path, question: &str) -> Option<String> {
    let mut command = Command::new(program);
    command.arg(question).current_dir("/").stdin(Stdio::null()).stderr(Stdio::null());
    let output = command.output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_are_known_by_name() {
        for name in ["ld", "ld.lld-19", "x86_64-linux-gnu-ld.bfd", "rust-lld", "gold"] {
            assert!(is_called(name, &LINKERS) && !is_called(name, &DRIVERS), "{name}");
        }
        for name in ["cc", "clang-19", "x86_64-linux-gnu-gcc-12", "g++", "clang++-19"] {
            assert!(is_called(name, &DRIVERS) && !is_called(name, &LINKERS), "{name}");
        }
        for name in ["", "sh", "ld.evil", "ldd", "ld-", "cc1", "clang-19-evil", "evil-ld", "-ld"] {
            assert!(!is_called(name, &DRIVERS) && !is_called(name, &LINKERS), "{name}");
        }
    }

    #[test]
    fn a_path_that_is_brought_along_is_not_gone_by() {
        let folder = tempfile::tempdir().unwrap();
        let brought = folder.path().join("ld");
        std::fs::write(&brought, "#!/bin/sh\n").unwrap();
        let installed = Installed::find();
        let found = installed.linker(&brought, false).unwrap();
        assert_ne!(found, brought);
        assert!(installed.is_program(&found));
        let around = format!("/usr/bin/../..{}", brought.display());
        assert_ne!(installed.linker(Path::new(&around), false).unwrap(), Path::new(&around));
        assert!(installed.linker(Path::new("/usr/bin/env"), false).is_err());
        assert!(installed.linker(Path::new("/usr/bin/ld"), true).is_err());
        assert!(!installed.holds(&brought) && installed.holds(Path::new("/usr/lib/os-release")));
    }
}
