//! Real programs that can be ended at any block, for crashes that are forced.
//!
//! They are those of the benchmarks, with their inputs, built by Backtrail with
//! clang's `-fsanitize-coverage`, which calls a function in each block
//! (`crates/cli/tests/crash_truth/fixtures/stop.c`). Clang adds these calls behind
//! its optimisations, so blocks are those of the optimised program. The function is
//! in an object of its own, which every link is given.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};
use serde::Serialize;

use crate::bench::crash::subject::find;
use crate::bench::profile::subject::{SUBJECTS, Subject, Work};
use crate::bench::profile::variant::{Compilers, build, build_by, place, prepare, program};
use crate::corpus::program::Program;
use crate::corpus::tree::Workshop;
use crate::{command, workspace};

/// The programs, in the order in which they die.
pub const NAMES: [&str; 8] = ["bzip2", "gzip", "sed", "grep", "lua5.4", "flex", "ninja", "sqlite3"];

/// The levels at which they are built; at the first they are also built as people
/// build them.
pub const LEVELS: [&str; 3] = ["-O2", "-O0", "-O3"];

/// What the scheme `realistic` traces of the program that is not on the page about
/// costs: the way from `main` to where it reads its input and does its work.
#[rustfmt::skip]
const NINJA: [&str; 14] = [
    "main", "_ZN12_GLOBAL__N_19real_mainEiPPc",
    "_ZN12_GLOBAL__N_19NinjaMain12ToolCommandsEPKNS_7OptionsEiPPc",
    "_ZN12_GLOBAL__N_113PrintCommandsEP4EdgePSt3setIS1_7EdgeCmpSaIS1_EENS_16PrintCommandModeE",
    "_ZN6Parser4LoadERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEEPS5_P5Lexer",
    "_ZN14ManifestParser5ParseERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEES7_PS5_",
    "_ZN14ManifestParser9ParseEdgeEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN5Lexer9ReadTokenEv",
    "_ZN5Lexer14ReadEvalStringEP10EvalStringbPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN5Lexer9ReadIdentEPNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZN5State7AddEdgeEPK4Rule", "_ZN7EdgeEnv14LookupVariableERKNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEEE",
    "_ZNK10EvalString8EvaluateB5cxx11EP3Env", "_ZNK4Edge15EvaluateCommandB5cxx11Eb",
];

const STOP: &str = "crates/cli/tests/crash_truth/fixtures/stop.c";

/// A program, as the test reads it.
#[derive(Debug, Serialize)]
pub struct Listed {
    name: &'static str,
    level: &'static str,
    executable: PathBuf,
    functions: Vec<String>,
    arguments: Vec<String>,
    input: Option<PathBuf>,
}

/// The arguments of a run and its standard input, whose file is made.
pub fn inputs(work: &Work, file: &Path) -> Result<(Vec<String>, Option<PathBuf>)> {
    std::fs::write(file, work.input.make())?;
    let shown = file.to_str().context("the target folder has a name that is no text")?;
    let word = |word: &&str| if *word == "INPUT" { shown } else { word }.to_owned();
    let is_named = work.arguments.contains(&"INPUT");
    let arguments = work.arguments.iter().map(word).collect();
    Ok((arguments, (!is_named).then(|| file.to_owned())))
}

/// A program of the benchmarks.
pub fn subject(name: &str) -> Result<&'static Subject> {
    let found = SUBJECTS.iter().find(|it| it.name == name);
    found.or_else(|| Some(find(name)?.subject)).with_context(|| format!("no program {name}"))
}

/// Which functions the scheme `realistic` traces.
fn functions(name: &str) -> Vec<String> {
    let of_page = find(name).map(|it| it.functions);
    of_page.unwrap_or(&NINJA).iter().map(|it| it.to_string()).collect()
}

/// A program that was fetched, and what it is run with.
struct Prepared {
    subject: &'static Subject,
    source: Program,
    arguments: Vec<String>,
    input: Option<PathBuf>,
}

/// Fetches a program and makes its input.
fn prepared(workshop: &Workshop, name: &str) -> Result<Prepared> {
    let subject = subject(name)?;
    let source = program(subject);
    workshop.fetch(&source)?;
    prepare(workshop, &source, subject)?;
    let (arguments, input) = inputs(&subject.counted, &place(workshop, subject, "crash-input"))?;
    Ok(Prepared { subject, source, arguments, input })
}

/// How a program is built whose variants are to do the same: what of grep looks at how
/// memory is mapped, in which logs are, is compiled by clang alone, and not counted.
fn script(subject: &Subject) -> &'static str {
    const GREP: &str = r#"
        make -j$JOBS CC="$CC" CFLAGS="$CFLAGS" $AUTOTOOLS
        rm lib/libgreputils_a-stackvma.o lib/libgreputils.a src/grep
        make -C lib CC=clang-19 CFLAGS="$CFLAGS" $AUTOTOOLS
        make CC="$CC" CFLAGS="$CFLAGS" $AUTOTOOLS
    "#;
    if subject.name == "grep" { GREP } else { subject.build }
}

/// Builds a program so that it can be ended at any block.
pub fn stoppable(workshop: &Workshop, name: &'static str, level: &'static str) -> Result<Listed> {
    let Prepared { subject, source, arguments, input } = prepared(workshop, name)?;
    let stop = workshop.folder.join("stop.o");
    let mut clang = Command::new("clang-19");
    clang.args(["-O2", "-c", "-o"]).arg(&stop).arg(workspace::root().join(STOP));
    command::output(&mut clang)?;
    let more = format!("-g -fsanitize-coverage=trace-pc-guard -Wl,{}", stop.display());
    let ends = blake3::hash(&std::fs::read(&stop)?);
    let by = Compilers {
        c: format!("backtrail cc {more}"),
        cxx: format!("backtrail c++ {more}"),
        flags: level,
        stamp: format!("{level} {more} {ends} {}", workshop.tool_stamp()?),
    };
    let built = Subject { build: script(subject), ..*subject };
    let executable = build_by(workshop, &source, &built, &format!("crash-stoppable{level}"), &by)?;
    Ok(Listed { name, level, executable, functions: functions(name), arguments, input })
}

/// Builds a program as people do; of a program of the page about costs it is the
/// same build that is measured there.
pub fn plain(workshop: &Workshop, name: &'static str) -> Result<Listed> {
    let Prepared { subject, source, arguments, input } = prepared(workshop, name)?;
    let executable = build(workshop, &source, subject, "crash-carried-O2", None)?;
    Ok(Listed { name, level: LEVELS[0], executable, functions: functions(name), arguments, input })
}
