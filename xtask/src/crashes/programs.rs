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
use crate::corpus::tree::Workshop;
use crate::{command, terminal, workspace};

/// The programs, in the order in which they die.
pub const NAMES: [&str; 7] = ["bzip2", "gzip", "lua5.4", "sed", "flex", "ninja", "sqlite3"];

/// The levels at which they are built.
const LEVELS: [&str; 3] = ["-O2", "-O0", "-O3"];

const STOP: &str = "crates/cli/tests/crash_truth/fixtures/stop.c";

/// A program, as the test reads it.
#[derive(Debug, Serialize)]
pub struct Listed {
    name: &'static str,
    level: &'static str,
    executable: PathBuf,
    plain: Option<PathBuf>,
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

/// Builds programs, and writes the list of them.
pub fn list(workshop: &Workshop, names: &[String], path: &Path) -> Result<()> {
    let mut listed = Vec::new();
    let stop = workshop.folder.join("stop.o");
    let mut clang = Command::new("clang-19");
    clang.args(["-O2", "-c", "-o"]).arg(&stop).arg(workspace::root().join(STOP));
    command::output(&mut clang)?;
    for name in NAMES.into_iter().filter(|it| names.is_empty() || names.iter().any(|n| n == it)) {
        terminal::heading(name);
        let subject = subject(name)?;
        let source = program(subject);
        workshop.fetch(&source)?;
        prepare(workshop, &source, subject)?;
        let file = place(workshop, subject, "crash-input");
        let (arguments, input) = inputs(&subject.counted, &file)?;
        let functions = find(name).map_or(&[][..], |it| it.functions);
        let functions: Vec<String> = functions.iter().map(|it| it.to_string()).collect();
        for level in LEVELS {
            // Of a program of the page about costs, the same build is measured.
            let plain = match level == LEVELS[0] && !functions.is_empty() {
                true => Some(build(workshop, &source, subject, "crash-carried-O2", None)?),
                false => None,
            };
            let more = format!("-g -fsanitize-coverage=trace-pc-guard -Wl,{}", stop.display());
            let by = Compilers {
                c: format!("backtrail cc {more}"),
                cxx: format!("backtrail c++ {more}"),
                flags: level,
                stamp: format!("{level} {more} {}", workshop.tool_stamp()?),
            };
            let folder = format!("crash-stoppable{level}");
            let executable = build_by(workshop, &source, subject, &folder, &by)?;
            listed.push(Listed {
                name,
                level,
                executable,
                plain,
                functions: functions.clone(),
                arguments: arguments.clone(),
                input: input.clone(),
            });
        }
    }
    std::fs::write(path, serde_json::to_string_pretty(&listed)?).context("cannot write the list")
}
