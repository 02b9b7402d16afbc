//! `backtrail export`: hands a profile to the tools people already use.

use std::path::Path;

use backtrail_foreign::say;
use backtrail_profile::export::{Format, Options, export};
use backtrail_profile::model::Function;

use super::paths::{load, write};
use crate::args;
use crate::exit::Unreadable;
use crate::named::Named;
use crate::own_code::Owner;
use crate::stdout;
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
    let named = args.function.as_ref().map(Named::by);
    if let Some(named) = &named {
        named.check(&profile.program, profile.functions.iter().map(|it| &*it.name))?;
    }
    let wanted = |function: &Function| named.as_ref().is_none_or(|it| it.has(&function.name));
    // A user's own that are not there are missed by whoever reads it; of a library that was
    // built elsewhere nobody has them.
    let left_out = |file: &str| Owner::of(file) != Owner::User && !Path::new(file).is_file();
    let options = Options { wanted: &wanted, demangle: &demangle, left_out: &left_out };
    let exported = export(&profile, format, &options)
        .map_err(|error| Unreadable(format!("{}: {error}", args.file.display())))?;
    match &args.output {
        Some(path) => write(path, &exported.bytes)?,
        None if format == Format::Pprof && stdout::is_terminal() => {
            anyhow::bail!(Unreadable("pprof's format is binary; give a file with -o".to_owned()));
        }
        None => stdout::document(&exported.bytes)?,
    }
    if !quiet {
        for remark in &exported.remarks {
            say!("backtrail: {remark}");
        }
    }
    Ok(0)
}
