//! The ways in which one program is measured, and how each executable is made.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};

use super::run::{Bench, Finished};
use super::subject::Subject;
use crate::command;
use crate::corpus::program::{PROGRAMS, Program, Source};
use crate::corpus::tree::{Compiler, Workshop};
use crate::workspace;

/// One way in which a program is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Variant {
    /// Plain clang.
    Original,
    /// Derived by Backtrail, without probes.
    Empty,
    /// Path profile.
    Paths,
    /// Path profile, its probes placed by a training run.
    Weighted,
    /// clang's counters on edges, without value profiles.
    Edges,
    /// clang's counters on regions of the source.
    Regions,
    /// clang's counters for gcov.
    Gcov,
}

impl Variant {
    /// All of them.
    pub const ALL: [Variant; 7] = [
        Variant::Original,
        Variant::Empty,
        Variant::Paths,
        Variant::Weighted,
        Variant::Edges,
        Variant::Regions,
        Variant::Gcov,
    ];

    /// Its name in tables.
    pub fn title(self) -> &'static str {
        match self {
            Variant::Original => "original",
            Variant::Empty => "empty plan",
            Variant::Paths => "paths",
            Variant::Weighted => "paths, weights",
            Variant::Edges => "edges",
            Variant::Regions => "regions",
            Variant::Gcov => "gcov",
        }
    }

    /// The name of its folder.
    fn folder(self) -> &'static str {
        match self {
            Variant::Original => "original",
            Variant::Empty => "empty",
            Variant::Paths => "paths",
            Variant::Weighted => "weighted",
            Variant::Edges => "edges",
            Variant::Regions => "regions",
            Variant::Gcov => "gcov",
        }
    }

    /// What its instructions are compared with.
    pub fn baseline(self) -> Variant {
        match self {
            Variant::Paths | Variant::Weighted => Variant::Empty,
            _ => Variant::Original,
        }
    }

    /// What clang is told, when clang alone makes it.
    pub fn clang_options(self) -> Option<&'static str> {
        match self {
            Variant::Original => Some(""),
            Variant::Edges => Some(" -fprofile-generate -mllvm -disable-vp=true"),
            Variant::Regions => Some(" -fprofile-instr-generate"),
            Variant::Gcov => Some(" --coverage"),
            Variant::Empty | Variant::Paths | Variant::Weighted => None,
        }
    }
}

/// An executable for each variant, in their order.
pub type Executables = [PathBuf; Variant::ALL.len()];

/// A subject as a program of the corpus, whose folder and source it shares.
pub fn program(subject: &Subject) -> Program {
    // The corpus has some of these under the same name; the folder is the package's.
    Program {
        name: subject.package,
        source: Source::Debian(subject.package),
        build: subject.build,
        ..PROGRAMS[0]
    }
}

/// Makes all executables of a subject; returns them and the package's version.
pub fn make(
    workshop: &Workshop,
    bench: &Bench,
    subject: &Subject,
) -> Result<(Executables, String)> {
    let (carried, version) = carried(workshop, subject)?;
    let program = program(subject);
    let mut executables = Executables::default();
    for (variant, executable) in Variant::ALL.into_iter().zip(&mut executables) {
        *executable = match variant.clang_options() {
            Some(options) => build(workshop, &program, subject, variant.folder(), Some(options))?,
            None => derive(workshop, bench, subject, &carried, variant)?,
        };
    }
    Ok((executables, version))
}

/// The executable of a subject that carries its IR, and the package's version.
pub fn carried(workshop: &Workshop, subject: &Subject) -> Result<(PathBuf, String)> {
    let program = program(subject);
    let version = workshop.fetch(&program)?;
    prepare(workshop, &program, subject)?;
    Ok((build(workshop, &program, subject, "carried", None)?, version))
}

/// Copies the source and does what is done once.
pub fn prepare(workshop: &Workshop, program: &Program, subject: &Subject) -> Result<()> {
    let folder = place(workshop, subject, "prepared");
    if is_made(&folder, subject.prepare) {
        return Ok(());
    }
    println!("prepare");
    copy_tree(&workshop.of(program).join("source"), &folder)?;
    let log = folder.with_extension("log");
    let ran = workshop.script(program, Compiler::Plain, &folder, subject.prepare, &log, &[])?;
    ensure!(
        ran.success,
        "{} cannot be prepared (see {}): {}",
        subject.name,
        workspace::shown(&log),
        command::tail(&ran.output, 12)
    );
    Ok(std::fs::write(folder.with_extension("stamp"), subject.prepare)?)
}

/// Builds with clang and these options, or with Backtrail.
pub fn build(
    workshop: &Workshop,
    program: &Program,
    subject: &Subject,
    name: &str,
    clang_options: Option<&str>,
) -> Result<PathBuf> {
    build_at(workshop, program, subject, name, clang_options, "-O2")
}

/// The same at a level of optimisation.
pub fn build_at(
    workshop: &Workshop,
    program: &Program,
    subject: &Subject,
    name: &str,
    clang_options: Option<&str>,
    level: &str,
) -> Result<PathBuf> {
    let mut stamp = format!("{clang_options:?}");
    if level != "-O2" {
        stamp.push_str(level);
    }
    if clang_options.is_none() {
        stamp.push_str(&workshop.tool_stamp()?);
    }
    let (c, cxx) = match clang_options {
        Some(options) => (format!("clang-19{options}"), format!("clang++-19{options}")),
        None => ("backtrail cc".to_owned(), "backtrail c++".to_owned()),
    };
    build_by(workshop, program, subject, name, &Compilers { c, cxx, flags: level, stamp })
}

/// What a program is built by.
pub struct Compilers<'a> {
    /// Compiles C.
    pub c: String,
    /// Compiles C++.
    pub cxx: String,
    /// What both are told for every unit.
    pub flags: &'a str,
    /// What changes when the build would.
    pub stamp: String,
}

/// Builds in a folder of this name, unless that has been done.
pub fn build_by(
    workshop: &Workshop,
    program: &Program,
    subject: &Subject,
    name: &str,
    by: &Compilers<'_>,
) -> Result<PathBuf> {
    let folder = place(workshop, subject, name);
    let executable = folder.join(subject.executable);
    let stamp = format!("{}\n{}\n{}", subject.prepare, subject.build, by.stamp);
    if is_made(&folder, &stamp) && executable.is_file() {
        return Ok(executable);
    }
    println!("build: {name}");
    copy_tree(&place(workshop, subject, "prepared"), &folder)?;
    let log = folder.with_extension("log");
    // Some builds run what they have built: what that records is for nobody.
    let nobody = workshop.folder.join("temporary").join("profile-build");
    let variables = [
        ("CC", Path::new(&by.c)),
        ("CXX", Path::new(&by.cxx)),
        ("CFLAGS", Path::new(by.flags)),
        ("CXXFLAGS", Path::new(by.flags)),
        ("LLVM_PROFILE_FILE", &nobody),
        ("GCOV_PREFIX", &nobody),
    ];
    let ran =
        workshop.script(program, Compiler::Plain, &folder, subject.build, &log, &variables)?;
    ensure!(
        ran.success && executable.is_file(),
        "{} does not build with {} (see {}): {}",
        subject.name,
        by.c,
        workspace::shown(&log),
        command::tail(&ran.output, 12)
    );
    std::fs::write(folder.with_extension("stamp"), stamp)?;
    Ok(executable)
}

/// Derives a variant from the executable that carries its IR.
fn derive(
    workshop: &Workshop,
    bench: &Bench,
    subject: &Subject,
    carried: &Path,
    variant: Variant,
) -> Result<PathBuf> {
    let folder = place(workshop, subject, "derived");
    std::fs::create_dir_all(&folder)?;
    let output = folder.join(variant.folder());
    let mut instrument = workshop.backtrail();
    instrument.args(["instrument", "--quiet", "--scheme"]);
    instrument.arg(if variant == Variant::Empty { "empty" } else { "profile" });
    if variant == Variant::Weighted {
        let weights = folder.join("training.btprof");
        train(workshop, bench, subject, carried, &weights)?;
        instrument.arg("--weights").arg(&weights);
    }
    command::output(instrument.arg("-o").arg(&output).arg(carried))?;
    Ok(output)
}

/// Profiles the training run.
pub fn train(
    workshop: &Workshop,
    bench: &Bench,
    subject: &Subject,
    carried: &Path,
    weights: &Path,
) -> Result<()> {
    let mut profile = workshop.backtrail();
    profile.args(["profile", "-o"]).arg(weights).arg(carried).arg("--");
    let Finished { status, .. } = bench.run_as(&profile, &subject.training)?;
    ensure!(status == 0, "the training run of {} fails ({status})", subject.name);
    ensure!(weights.is_file(), "the training run of {} left no profile", subject.name);
    Ok(())
}

/// The folder of what is made of a subject.
pub fn place(workshop: &Workshop, subject: &Subject, name: &str) -> PathBuf {
    workshop.folder.join(subject.package).join(format!("profile-{name}"))
}

fn is_made(folder: &Path, stamp: &str) -> bool {
    folder.is_dir()
        && std::fs::read_to_string(folder.with_extension("stamp")).is_ok_and(|made| made == stamp)
}

fn copy_tree(from: &Path, to: &Path) -> Result<()> {
    let _ = std::fs::remove_file(to.with_extension("stamp"));
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    command::output(Command::new("cp").arg("-a").arg(from).arg(to))
        .map(drop)
        .with_context(|| format!("cannot copy {}", from.display()))
}
