//! `backtrail export`: hands a profile to the tools people already use.

use std::io::{self, IsTerminal as _, Write as _};

use backtrail_profile::export::{Format, Options, export};
use backtrail_profile::model::Function;
use globset::Glob;

use super::paths::{load, write};
use crate::args;
use crate::exit::Unreadable;
use crate::style::demangle;

/// Runs the verb.
pub fn run(args: &args::Export, quiet: bool) -> anyhow::Result<u8> {
    let profile = load(&args.file)?;
    let format = match args.to {
        args::Target::Lcov => Format::Lcov,
        args::Target::Callgrind => Format::Callgrind,
        args::Target::Autofdo => Format::Autofdo,
        args::Target::Pprof => Format::Pprof,
        args::Target::Dot => Format::Dot,
    };
    let glob = args.function.as_deref().map(Glob::new).transpose();
    let glob = glob.map_err(|error| Unreadable(error.to_string()))?;
    let glob = glob.map(|glob| glob.compile_matcher());
    let wanted = |function: &Function| {
        glob.as_ref().is_none_or(|glob| {
            glob.is_match(&function.name) || glob.is_match(demangle(&function.name))
        })
    };
    let options = Options { wanted: &wanted, demangle: &demangle };
    let exported = export(&profile, format, &options)
        .map_err(|error| Unreadable(format!("{}: {error}", args.file.display())))?;
    match &args.output {
        Some(path) => write(path, &exported.bytes)?,
        None if format == Format::Pprof && io::stdout().is_terminal() => {
            anyhow::bail!(Unreadable("pprof's format is binary; give a file with -o".to_owned()));
        }
        None => {
            let mut out = io::stdout().lock();
            out.write_all(&exported.bytes)?;
            out.flush()?;
        }
    }
    if !quiet {
        for remark in &exported.remarks {
            eprintln!("backtrail: {remark}");
        }
    }
    Ok(0)
}
