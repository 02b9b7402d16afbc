//! The drop-in compiler: `backtrail cc` and `backtrail c++`.
//!
//! Clang is asked what it would do ([`crate::jobs`]); compilations of units are
//! done in two steps, links are recorded, and every other job is run as it is.
//! A command line that neither compiles nor links is handed to clang untouched.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io::{self, IsTerminal as _, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::clang::{self, Compiler};
use crate::jobs::{Job, Jobs};
use crate::output::{self, Mode};
use crate::{Error, compile, job_templates, link};

/// The language a driver assumes for linking, as `clang` and `clang++` do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// C: `clang`.
    C,
    /// C++: `clang++`.
    Cxx,
}

/// Options with which clang makes neither object nor executable.
const NOT_OURS: [&str; 12] = [
    "-E",
    "-M",
    "-MM",
    "-S",
    "-###",
    "--version",
    "-fsyntax-only",
    "-dumpversion",
    "-dumpmachine",
    "--help",
    "--precompile",
    "--analyze",
];

/// Runs the compiler on `arguments`; the result is the status to leave with.
pub fn run(language: Language, arguments: Vec<OsString>) -> Result<i32, Error> {
    let clang = clang::find()?;
    let mode = match language {
        Language::C => None,
        Language::Cxx => Some("--driver-mode=g++".to_owned()),
    };
    let texts: Option<Vec<String>> =
        arguments.iter().map(|argument| argument.to_str().map(str::to_owned)).collect();
    let hand_over = || Err(exec(&clang, mode.as_deref(), &arguments));
    let Some(texts) = texts else { return hand_over() };
    if texts.iter().any(|text| NOT_OURS.contains(&text.as_str()) || text.starts_with("-print-")) {
        return hand_over();
    }
    let all: Vec<String> = mode.iter().cloned().chain(texts).collect();
    match job_templates::ask(&clang, &all)? {
        Some(jobs) => Build::new(&clang, &jobs)?.run(jobs),
        None => hand_over(),
    }
}

/// Becomes clang. Returns only if that fails.
fn exec(clang: &Path, mode: Option<&str>, arguments: &[OsString]) -> Error {
    let error = Command::new(clang).args(mode).args(arguments).exec();
    Error::ClangNotRunnable { program: clang.display().to_string(), error }
}

/// One command line's work.
struct Build {
    clang: PathBuf,
    version: String,
    scratch: tempfile::TempDir,
    /// Outputs of failed jobs: what needs them is not run.
    failed: BTreeSet<String>,
    status: i32,
}

impl Build {
    fn new(clang: &Path, jobs: &Jobs) -> Result<Self, Error> {
        let scratch = tempfile::Builder::new().prefix("backtrail-cc-").tempdir();
        let scratch = scratch.map_err(Error::write(&std::env::temp_dir()))?;
        let version = jobs.version.clone();
        Ok(Self { clang: clang.to_owned(), version, scratch, failed: BTreeSet::new(), status: 0 })
    }

    fn run(mut self, mut jobs: Jobs) -> Result<i32, Error> {
        let _ = io::stderr().write_all(jobs.diagnostics.as_bytes());
        self.rename_intermediates(&mut jobs.jobs);
        let count = jobs.jobs.len();
        for (index, job) in jobs.jobs.iter().enumerate() {
            if job.arguments.iter().any(|argument| self.failed.contains(argument)) {
                self.fail(job, self.status);
                continue;
            }
            let status = self.run_job(job, index, index + 1 == count)?;
            if status != 0 {
                self.fail(job, status);
            }
        }
        Ok(self.status)
    }

    fn fail(&mut self, job: &Job, status: i32) {
        self.failed.extend(job.value("-o").map(str::to_owned));
        if self.status == 0 {
            self.status = status;
        }
    }

    /// Clang names temporary files that it would have made; ours are in a
    /// folder of our own.
    fn rename_intermediates(&self, jobs: &mut [Job]) {
        let temporary = std::env::temp_dir();
        for index in 0..jobs.len() {
            let Some(output) = jobs[index].value("-o").map(str::to_owned) else { continue };
            let later = &jobs[index + 1..];
            let is_consumed = later.iter().any(|job| job.has(&output));
            if !is_consumed || Path::new(&output).parent() != Some(&temporary) {
                continue;
            }
            let name = Path::new(&output).file_name().unwrap_or_default();
            let renamed = self.scratch.path().join(name).display().to_string();
            let all = jobs.iter_mut().flat_map(|job| &mut job.arguments);
            all.filter(|argument| **argument == output)
                .for_each(|argument| *argument = renamed.clone());
        }
    }

    fn run_job(&self, job: &Job, index: usize, last: bool) -> Result<i32, Error> {
        if job.is_cc1() {
            return self.run_compiler(job, index);
        }
        let assembles = job.arguments.first().is_some_and(|first| first == "-cc1as");
        if assembles {
            return self.assemble(job);
        }
        if last && job.program.file_name().is_some_and(is_linker) {
            return link::link(job, &self.clang, self.scratch.path());
        }
        compile::run(&job.program, &job.arguments)
    }

    fn run_compiler(&self, job: &Job, index: usize) -> Result<i32, Error> {
        let job = &coloured(job);
        let output = job.value("-o").filter(|output| *output != "-");
        let (Some(source), Some(output)) = (compile::source_of(job), output) else {
            return compile::run(&job.program, &job.arguments);
        };
        let source = match source {
            Ok(source) => source,
            Err(why) => {
                let name = job.value("-main-file-name").unwrap_or("a unit");
                compile::warn(&format!("the IR of {name} is not carried: {why}"));
                return compile::run(&job.program, &job.arguments);
            }
        };
        let compiler = Compiler::new(&job.program, &self.version)?;
        let scratch = self.scratch.path().join(format!("unit-{index}"));
        std::fs::create_dir(&scratch).map_err(Error::write(&scratch))?;
        compile::compile(&compiler, job, &source, Path::new(output), &scratch)
    }

    /// Assembles, and notes in the object that there is no IR to carry.
    fn assemble(&self, job: &Job) -> Result<i32, Error> {
        let status = compile::run(&job.program, &job.arguments)?;
        let Some(output) = job.value("-o").map(Path::new).filter(|output| output.is_file()) else {
            return Ok(status);
        };
        if status == 0 {
            let bytes = std::fs::read(output).map_err(Error::read(output))?;
            let name = job.value("-main-file-name").unwrap_or("assembly");
            let meta = compile::meta_without_ir(name, "assembler", &self.version, "assembly");
            let bytes = compile::attach(&bytes, meta, None).map_err(Error::machine(output))?;
            output::write_whole(output, &bytes, Mode::Data)?;
        }
        Ok(status)
    }
}

/// Asked through a pipe, the driver found no terminal: colours are up to us.
fn coloured(job: &Job) -> Job {
    let mut job = job.clone();
    let dumb = std::env::var("TERM").is_ok_and(|term| term == "dumb");
    let chosen = job.has_prefix("-fcolor-diagnostics") || job.has_prefix("-fno-color-diagnostics");
    if !chosen && !dumb && std::env::var_os("NO_COLOR").is_none() && io::stderr().is_terminal() {
        job.arguments.insert(1, "-fcolor-diagnostics".to_owned());
    }
    job
}

fn is_linker(name: &std::ffi::OsStr) -> bool {
    let name = name.to_string_lossy();
    ["ld", "lld", "mold", "gold"].iter().any(|linker| {
        name == *linker
            || name.ends_with(&format!(".{linker}"))
            || name.starts_with(&format!("{linker}."))
            || name.starts_with(&format!("{linker}-"))
    }) || name.ends_with("-ld")
}
