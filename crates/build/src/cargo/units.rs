//! From what rustc left behind to the records of a crate's units.
//!
//! Each object `STEM.UNIT.rcgu.o` has its optimised bitcode beside it, as
//! `STEM.UNIT.rcgu.bc`. The unit is lowered by rustc's own libLLVM, and its
//! record goes into the object, as `backtrail cc` does it. If that fails, the
//! record says why and the object stays as rustc made it.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_ir::Unit;
use backtrail_machine::elf::Elf;
use backtrail_plan::worker::{Codegen, DebugKept, Request, Response};
use serde::{Deserialize, Serialize};

use super::debug_sections;
use super::rustc_args::RustcArgs;
use crate::carry::unit::{Damaged, Generator, IrState, UnitMeta};
use crate::{Error, clang, compile, worker};

/// The environment variable by which the linker learns of the compilation.
pub const ORIGIN_VARIABLE: &str = "BACKTRAIL_COMPILATION";

/// What the ends of objects and their bitcode have in common.
const OBJECT_END: &str = ".rcgu.o";

/// One call of rustc: what its units have in common.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Compilation {
    /// The folder rustc writes into.
    pub folder: PathBuf,
    /// What the names of its files begin with.
    stem: String,
    /// The crate.
    crate_name: String,
    /// What people call the crate: package, version and root file.
    label: String,
    /// The linker that rustc would have called.
    pub linker: PathBuf,
    /// Whether the standard library's units are wanted.
    pub with_std: bool,
    /// Where the compiler's own files are.
    pub sysroot: PathBuf,
    /// What the compiler calls itself.
    compiler: String,
    /// Its libLLVM, or why there is none to use.
    library: Result<PathBuf, String>,
    codegen: Codegen,
    debug_wanted: bool,
}

/// How an object was made.
pub struct Made {
    /// The name of its unit.
    pub name: String,
    /// How code was generated.
    pub codegen: Codegen,
    /// Whether its debug information is to stay.
    pub debug_wanted: bool,
}

/// What a compiler says when asked.
fn ask(compiler: &Path, question: &[&str]) -> Result<String, Error> {
    let program = compiler.display().to_string();
    let output = Command::new(compiler).args(question).output();
    let output = output.map_err(|error| Error::NotStarted { program, error })?;
    Ok(String::from_utf8_lossy(&output.stdout).trim_end().to_owned())
}

/// The libLLVM of the compiler that describes itself as `description`, or why
/// it cannot be used.
pub(crate) fn find_library(sysroot: &Path, description: &str) -> Result<PathBuf, String> {
    let version = description.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let major = version.and_then(|version| version.split('.').next()?.parse().ok());
    match major {
        Some(major) if clang::VERSIONS.contains(&major) => {}
        Some(major) => return Err(format!("its compiler has LLVM {major}, not 19 to 22")),
        None => return Err("its compiler does not say which LLVM it has".into()),
    }
    let folder = sysroot.join("lib");
    let mut names: Vec<PathBuf> = fs::read_dir(&folder)
        .map(|entries| entries.filter_map(|entry| Some(entry.ok()?.path())).collect())
        .unwrap_or_default();
    names.sort();
    let begins = |path: &Path, with: &str| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with(with))
    };
    // A name without version may be a linker script.
    let own = names.iter().find(|path| begins(path, "libLLVM") && is_elf(path));
    if let Some(library) = own {
        return Ok(library.clone());
    }
    // A distribution's rustc uses the distribution's LLVM.
    let driver = names.iter().find(|path| begins(path, "librustc_driver"));
    let shared = driver.and_then(|driver| system_library(driver));
    shared.ok_or_else(|| "its compiler has no shared libLLVM".into())
}

/// The libLLVM of the system that the library `driver` asks for.
fn system_library(driver: &Path) -> Option<PathBuf> {
    let bytes = fs::read(driver).ok()?;
    let needed = Elf::parse(&bytes).ok()?.needed();
    let name = needed.into_iter().find(|name| name.starts_with("libLLVM"))?;
    let folders = ["/usr/lib/x86_64-linux-gnu", "/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib"];
    folders.iter().map(|folder| Path::new(folder).join(&name)).find(|path| path.is_file())
}

fn is_elf(path: &Path) -> bool {
    use std::io::Read as _;
    let mut magic = [0; 4];
    let read = fs::File::open(path).and_then(|mut file| file.read_exact(&mut magic));
    read.is_ok() && magic == *b"\x7fELF"
}

/// Why the allocator shim is not carried.
const SHIM: &str = "rustc's allocator shim, carried with the standard library (BACKTRAIL_STD=1)";

/// Whether the object holds what rustc adds to a program to choose its allocator.
fn is_allocator_shim(bytes: &[u8]) -> bool {
    Elf::parse(bytes).is_ok_and(|elf| {
        let mut symbols = elf.defined_symbols().into_iter();
        symbols.any(|symbol| symbol.name.contains("__rust_no_alloc_shim_is_unstable"))
    })
}

/// Package, version and root file, as cargo's environment has them.
fn label(args: &RustcArgs) -> String {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let source = args.source.clone().unwrap_or_else(|| args.crate_name.clone());
    let root = std::path::absolute(&source).unwrap_or_else(|_| PathBuf::from(&source));
    let source = match root.strip_prefix(variable("CARGO_MANIFEST_DIR")) {
        Ok(inner) => inner.display().to_string(),
        Err(_) => source,
    };
    let package = variable("CARGO_PKG_NAME");
    if package.is_empty() {
        return source;
    }
    format!("{package}-{}/{source}", variable("CARGO_PKG_VERSION"))
}

impl Compilation {
    /// The compilation that `args` ask `compiler` for, into `folder`.
    pub fn of(args: &RustcArgs, compiler: PathBuf, folder: &Path) -> Result<Self, Error> {
        let description = ask(&compiler, &["-vV"])?;
        let sysroot = PathBuf::from(ask(&compiler, &["--print", "sysroot"])?);
        Ok(Self {
            folder: folder.to_owned(),
            stem: args.stem(),
            crate_name: args.crate_name.clone(),
            label: label(args),
            linker: args.linker().to_owned(),
            with_std: false,
            library: find_library(&sysroot, &description),
            sysroot,
            compiler: description.lines().next().unwrap_or("rustc").to_owned(),
            codegen: args.generator(),
            debug_wanted: args.debug_wanted(),
        })
    }

    /// For another process of this program.
    pub fn to_bytes(&self) -> Vec<u8> {
        postcard::to_stdvec(self).expect("serialising into memory does not fail")
    }

    /// The inverse of [`Compilation::to_bytes`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, Damaged> {
        postcard::from_bytes(bytes).map_err(|error| Damaged(error.to_string()))
    }

    /// The unit part of `STEM.UNIT.rcgu.o`, if `name` is of that form.
    pub fn unit_of<'a>(&self, name: &'a str) -> Option<&'a str> {
        name.strip_prefix(&self.stem)?.strip_prefix('.')?.strip_suffix(OBJECT_END)
    }

    /// The name of the object of `unit`, without the part that is another in
    /// every session of an incremental build.
    pub fn lasting_name(&self, unit: &str) -> String {
        let lasting = match unit.split_once('.') {
            Some((lasting, session)) if !session.contains(['.', '-']) => lasting,
            _ => unit,
        };
        format!("{}.{lasting}{OBJECT_END}", self.stem)
    }

    /// The name of the unit for people. Units of thin LTO may come from other
    /// crates; those of incremental builds have names that end differently in
    /// every session.
    fn unit_name(&self, unit: &str) -> String {
        let short = match unit.rsplit_once("-cgu.") {
            Some((path, number)) => {
                let number = number.trim_end_matches(OBJECT_END);
                let from = path.split('.').rev().nth(1).unwrap_or(&self.crate_name);
                match from == self.crate_name {
                    true => number.to_owned(),
                    false => format!("{from}.{number}"),
                }
            }
            None => unit.split('.').next().unwrap_or(unit).to_owned(),
        };
        format!("{}[{short}]", self.label)
    }

    /// The object `bytes` of `unit` with its record; `None` if it is to stay as
    /// it is: not ELF (bitcode for the linker's own LTO), or with a record
    /// already.
    pub fn attach(&self, unit: &str, bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let bitcode = self.folder.join(format!("{}.{unit}.rcgu.bc", self.stem));
        let shim = is_allocator_shim(bytes);
        let made = Made {
            name: match shim {
                true => format!("{}[allocator]", self.label),
                false => self.unit_name(unit),
            },
            codegen: self.codegen.clone(),
            debug_wanted: self.debug_wanted,
        };
        match shim && !self.with_std {
            true => self.attach_parts(made, bytes, Err(SHIM.to_owned())),
            false => self.attach_made(made, bytes, &bitcode),
        }
    }

    /// As [`Compilation::attach`], for an object made otherwise.
    pub fn attach_made(
        &self,
        made: Made,
        bytes: &[u8],
        bitcode: &Path,
    ) -> Result<Option<Vec<u8>>, Error> {
        let Ok(elf) = Elf::parse(bytes) else { return Ok(None) };
        let record = elf.section(backtrail_abi::UNIT_SECTION);
        if record.map_err(Error::machine(Path::new(&made.name)))?.is_some() {
            return Ok(None);
        }
        let parts = self.lower(&made.name, bitcode);
        if let Err(why) = &parts {
            compile::warn(&format!("the IR of {} is not carried: {why}", made.name));
        }
        self.attach_parts(made, bytes, parts)
    }

    /// The object `bytes` with a record of its bitcode and model, or of why it
    /// has none.
    fn attach_parts(
        &self,
        made: Made,
        bytes: &[u8],
        parts: Result<(Vec<u8>, Unit), String>,
    ) -> Result<Option<Vec<u8>>, Error> {
        let name = made.name;
        let machine = |error| Error::machine(Path::new(&name))(error);
        let (state, parts) = match parts {
            Ok(parts) => (IrState::Carried, Some(parts)),
            Err(why) => (IrState::Missing { why }, None),
        };
        let meta = UnitMeta {
            id: [0; 16],
            language: "rust".to_owned(),
            compiler: self.compiler.clone(),
            library: self.library.clone().unwrap_or_default(),
            generator: match parts {
                Some(_) => Generator::Library(made.codegen),
                None => Generator::None,
            },
            debug_wanted: made.debug_wanted,
            symbols: Vec::new(),
            sections: Vec::new(),
            state,
            name: name.clone(),
        };
        let stripped = match made.debug_wanted {
            true => None,
            false => debug_sections::empty(bytes).map_err(machine)?,
        };
        let parts = parts.as_ref().map(|(bitcode, model)| (&bitcode[..], model));
        compile::attach(stripped.as_deref().unwrap_or(bytes), meta, parts)
            .map(Some)
            .map_err(machine)
    }

    /// The bitcode of a unit and its program model, or why there is none.
    fn lower(&self, name: &str, bitcode: &Path) -> Result<(Vec<u8>, Unit), String> {
        let library = self.library.clone()?;
        let bytes = fs::read(bitcode).map_err(|_| "rustc left no bitcode of it".to_owned())?;
        let request = Request {
            library,
            bitcode: bitcode.to_owned(),
            name: name.to_owned(),
            lower: true,
            files_in_assembly: true,
            plan: None,
            debug: DebugKept::All,
            output: None,
        };
        match worker::call(&request) {
            Ok(Response::Done { unit: Some(model), .. }) => Ok((bytes, *model)),
            Ok(_) => Err("the LLVM worker gave no program model".to_owned()),
            Err(error) => Err(error.to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compilation() -> Compilation {
        Compilation {
            folder: "/t".into(),
            stem: "a-abc".into(),
            crate_name: "a".into(),
            label: "a-1.0.0/src/main.rs".into(),
            linker: "cc".into(),
            with_std: false,
            sysroot: "/s".into(),
            compiler: "rustc".into(),
            library: Err("none".into()),
            codegen: Codegen::default(),
            debug_wanted: false,
        }
    }

    #[test]
    fn units_are_named_alike_in_every_session() {
        let compilation = compilation();
        let name = |file: &str| compilation.unit_name(compilation.unit_of(file).unwrap());
        assert_eq!(name("a-abc.a.4c2f-cgu.07.rcgu.o"), "a-1.0.0/src/main.rs[07]");
        assert_eq!(name("a-abc.06jd.0tp9nky.rcgu.o"), "a-1.0.0/src/main.rs[06jd]");
        assert_eq!(name("a-abc.0mn0.rcgu.o"), "a-1.0.0/src/main.rs[0mn0]");
        assert_eq!(
            name("a-abc.core-120c.core.c1f1-cgu.0.rcgu.o.rcgu.o"),
            "a-1.0.0/src/main.rs[core.0]"
        );
        for (file, lasting) in [
            ("a-abc.a.4c2f-cgu.07.rcgu.o", "a-abc.a.4c2f-cgu.07.rcgu.o"),
            ("a-abc.06jd.0tp9nky.rcgu.o", "a-abc.06jd.rcgu.o"),
            ("a-abc.0mn0.rcgu.o", "a-abc.0mn0.rcgu.o"),
        ] {
            assert_eq!(compilation.lasting_name(compilation.unit_of(file).unwrap()), lasting);
        }
        assert_eq!(compilation.unit_of("b-abc.x.rcgu.o"), None);
        assert_eq!(compilation.unit_of("symbols.o"), None);
    }

    #[test]
    fn a_compilation_survives_its_way_to_the_linker() {
        let compilation = compilation();
        let bytes = compilation.to_bytes();
        assert_eq!(Compilation::from_bytes(&bytes), Ok(compilation));
        assert!(Compilation::from_bytes(&bytes[..bytes.len() / 2]).is_err());
    }
}
