//! The executables that are compared.

use std::path::{Path, PathBuf};

use anyhow::Result;
use object::{Object as _, ObjectSection as _, SectionFlags, SectionKind, elf};
use serde::{Deserialize, Serialize};

use super::subject::Traced;
use crate::bench::profile::variant::{build_at, place, prepare, program};
use crate::command;
use crate::corpus::tree::Workshop;

/// What is built or derived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Variant {
    /// By clang.
    Original,
    /// Derived without any probe.
    Empty,
    /// Coverage of functions.
    Functions,
    /// Coverage of calls.
    Calls,
    /// Coverage of blocks.
    Blocks,
    /// The last paths of all functions.
    Paths,
    /// Coverage of calls, and the last paths of some functions.
    Realistic,
    /// The same, where every function can be switched later.
    Tunable,
    /// Everything.
    Full,
}

impl Variant {
    /// All, in the order of the tables.
    pub const ALL: [Variant; 9] = [
        Variant::Original,
        Variant::Empty,
        Variant::Functions,
        Variant::Calls,
        Variant::Blocks,
        Variant::Paths,
        Variant::Realistic,
        Variant::Tunable,
        Variant::Full,
    ];

    /// How it is called.
    pub fn title(self) -> &'static str {
        match self {
            Variant::Original => "original",
            Variant::Empty => "empty",
            Variant::Functions => "fc",
            Variant::Calls => "cc",
            Variant::Blocks => "bc",
            Variant::Paths => "pt",
            Variant::Realistic => "realistic",
            Variant::Tunable => "realistic, tunable",
            Variant::Full => "full",
        }
    }

    /// The scheme that it is derived with.
    fn scheme(self) -> &'static str {
        match self {
            Variant::Tunable => Variant::Realistic.title(),
            other => other.title(),
        }
    }
}

/// Makes all executables of a program at a level; returns them and the package's
/// version.
pub fn make(workshop: &Workshop, traced: &Traced, level: &str) -> Result<(Vec<PathBuf>, String)> {
    let subject = traced.subject;
    let source = program(subject);
    let version = workshop.fetch(&source)?;
    prepare(workshop, &source, subject)?;
    let named = |kind: &str| format!("crash-{kind}{level}");
    let build =
        |kind: &str, options| build_at(workshop, &source, subject, &named(kind), options, level);
    let original = build("original", Some(""))?;
    let carried = build("carried", None)?;
    let folder = place(workshop, subject, &named("derived"));
    std::fs::create_dir_all(&folder)?;
    let list = folder.join("functions");
    std::fs::write(&list, traced.functions.join("\n"))?;
    let mut executables = vec![original];
    for variant in Variant::ALL.into_iter().skip(1) {
        let output = folder.join(variant.title().replace(", ", "-"));
        let mut instrument = workshop.backtrail();
        instrument.args(["instrument", "--quiet", "--scheme", variant.scheme()]);
        if variant.scheme() == Variant::Realistic.title() {
            instrument.arg("--pt-list").arg(&list);
        }
        if variant == Variant::Tunable {
            instrument.args(["--tunable", "*=none,cc,cc+pt"]);
        }
        command::output(instrument.arg("-o").arg(&output).arg(&carried))?;
        executables.push(output);
    }
    Ok((executables, version))
}

/// Bytes of an executable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// Of code.
    pub code: u64,
    /// Of all that is loaded, what is only made there included.
    pub loaded: u64,
    /// Of the table that tells frames, which is not loaded.
    pub table: u64,
}

/// How large an executable is.
pub fn bytes(path: &Path) -> Result<Bytes> {
    let content = std::fs::read(path)?;
    let file = object::File::parse(&content[..])?;
    let mut found = Bytes { code: 0, loaded: 0, table: 0 };
    for section in file.sections() {
        let size = section.size();
        let loaded = match section.flags() {
            SectionFlags::Elf { sh_flags, .. } => sh_flags.0 & elf::SHF_ALLOC.0 != 0,
            _ => false,
        };
        found.loaded += if loaded { size } else { 0 };
        found.code += if section.kind() == SectionKind::Text { size } else { 0 };
        found.table += if section.name() == Ok(".backtrail.frames") { size } else { 0 };
    }
    Ok(found)
}
