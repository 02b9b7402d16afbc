//! The command line: arguments, files, exit codes.
//!
//! One program under several names: `backtrail` with its verbs, `backtrail-cc`
//! and `backtrail-c++` for build systems that want a compiler without a space,
//! `cargo-backtrail` for `cargo backtrail …`.

#![forbid(unsafe_code)]
// What is said goes through `stdout` and `say!`.
#![deny(clippy::print_stdout, clippy::print_stderr)]

mod alike;
mod args;
mod exit;
mod forked_logs;
mod json;
pub mod launcher;
mod named;
mod own_code;
mod path_counting;
mod progress;
mod recorded;
mod script;
mod source;
mod stdout;
mod style;
mod untraced;
mod variants;
mod verbs;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use backtrail_build::cargo::role_of;
use backtrail_build::driver::{self, Language};
use backtrail_foreign::text::shown;
use clap::Parser as _;

use crate::args::{Command, Line};

/// The whole program.
pub fn main() -> ExitCode {
    exit::guard(start)
}

fn start() -> ExitCode {
    let mut words: Vec<OsString> = std::env::args_os().collect();
    // First: a compiler starts itself again as its worker, whatever its name.
    if words.get(1).is_some_and(|verb| verb == backtrail_build::worker::VERB) {
        return backtrail_llvm::worker::main();
    }
    if words.get(1).is_some_and(|verb| verb == backtrail_collect::copies::process::VERB) {
        return backtrail_collect::copies::process::main();
    }
    if let Some(job) = words.get(1).and_then(verbs::trace::breakpoint::job_of) {
        // Behind the name of the script.
        return verbs::trace::breakpoint::copy::main(&job, words.get(3..).unwrap_or_default());
    }
    if let Some(role) = words.first().and_then(|word| role_of(Path::new(word))) {
        return verbs::cargo::part(role, words);
    }
    let name = words.first().map(Path::new).and_then(Path::file_name);
    match name.and_then(|name| name.to_str()) {
        Some("backtrail-cc") => return compiler(Language::C, words.split_off(1)),
        Some("backtrail-c++" | "backtrail-cxx") => {
            return compiler(Language::Cxx, words.split_off(1));
        }
        _ => {}
    }
    // The words behind these verbs are not ours to interpret.
    match words.get(1).and_then(|verb| verb.to_str()) {
        Some("cc") => return compiler(Language::C, words.split_off(2)),
        Some("c++") => return compiler(Language::Cxx, words.split_off(2)),
        Some("cargo") => return verbs::cargo::run(&words[2..]),
        _ => {}
    }
    match Line::try_parse_from(&words) {
        Ok(line) => exit::report(run(line)),
        Err(error) if error.use_stderr() => {
            // Errors quote words: what is odd in these is shown. The form is clap's own.
            let words = words.iter().map(|word| shown(&word.to_string_lossy()));
            let _ = Line::try_parse_from(words).err().unwrap_or(error).print();
            ExitCode::from(exit::USAGE)
        }
        Err(help) => exit::report(stdout::help(&help).map(|()| 0).map_err(Into::into)),
    }
}

fn compiler(language: Language, words: Vec<OsString>) -> ExitCode {
    match driver::run(language, words) {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => exit::report(Err(error.into())),
    }
}

fn run(line: Line) -> anyhow::Result<u8> {
    args::files::check(&line.command)?;
    script::check(&line.command)?;
    match line.command {
        Command::Info(args) => verbs::info::run(&args, line.quiet),
        Command::Instrument(args) => verbs::instrument::run(&args, line.quiet),
        Command::Trace(args) => verbs::trace::run(&args, line.quiet),
        Command::Run { program, arguments } => verbs::run::run(&program, &arguments, line.quiet),
        Command::Show(args) => verbs::show::run(&args),
        Command::Profile(args) => verbs::profile::run(&args, line.quiet),
        Command::Plan(args) => verbs::plan::run(&args, line.quiet),
        Command::Paths(args) => verbs::paths::run(&args, line.quiet),
        Command::Export(args) => verbs::export::run(&args, line.quiet),
        Command::Autopsy(args) => verbs::autopsy::run(&args, line.quiet),
        Command::Tune(args) => verbs::tune::run(&args, line.quiet),
        Command::Detach(args) => verbs::detach::run(&args),
        Command::Extract(args) => verbs::extract::run(&args),
        Command::Cache(args) => verbs::cache::run(&args),
        Command::Completions { shell } => verbs::generate::completions(shell),
        Command::Manual { folder } => verbs::generate::manual(&folder),
        Command::Cc { .. } | Command::Cxx { .. } | Command::Cargo { .. } => {
            unreachable!("handled before the words are read")
        }
    }
}
