//! `backtrail instrument`: derives a variant.

use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

use backtrail_build::carry::Carried;
use backtrail_build::variant::{self, Outcome, Scheme};
use indicatif::{ProgressBar, ProgressStyle};

use crate::args;
use crate::path_counting::PathCounting;

/// Runs the verb.
pub fn run(args: &args::Instrument, quiet: bool) -> anyhow::Result<u8> {
    let carried = Carried::read(&args.program)?;
    let counting = PathCounting::new(&args.counting, &carried)?;
    let scheme = match args.scheme {
        args::Scheme::Empty => Scheme::Empty,
        args::Scheme::Log => Scheme::Log,
        args::Scheme::Profile => Scheme::Counting(&counting),
    };
    let default = || {
        let mut name = args.program.clone().into_os_string();
        name.push(format!(".{}", scheme.name()));
        PathBuf::from(name)
    };
    let output = args.output.clone().unwrap_or_else(default);
    let outcome = derive(&carried, scheme, &output, quiet)?;
    if !quiet {
        let native = match outcome.native {
            0 => String::new(),
            count => format!(", {count} inputs linked as they are (see 'backtrail info')"),
        };
        let libraries = match outcome.libraries {
            0 => String::new(),
            count => format!(", {count} shared libraries of its own in {}.libs", output.display()),
        };
        eprintln!(
            "{}: {} units ({} from the cache){libraries}{native}",
            output.display(),
            outcome.units,
            outcome.cached
        );
    }
    Ok(0)
}

/// Derives a variant, with a bar on a terminal.
pub fn derive(
    carried: &Carried,
    scheme: Scheme<'_>,
    output: &Path,
    quiet: bool,
) -> Result<Outcome, backtrail_build::Error> {
    let bar = if quiet || !std::io::stderr().is_terminal() {
        ProgressBar::hidden()
    } else {
        let style = ProgressStyle::with_template("deriving {bar:30} {pos}/{len} units")
            .expect("the template is a constant");
        ProgressBar::new(carried.units.len() as u64).with_style(style)
    };
    let outcome = variant::derive(carried, scheme, output, &|done, total| {
        bar.set_length(total as u64);
        bar.set_position(done as u64);
    });
    bar.finish_and_clear();
    outcome
}
