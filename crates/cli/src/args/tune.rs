//! `backtrail tune`, as it is asked for.

use std::path::PathBuf;

use clap::Args;

/// `backtrail tune`
#[derive(Debug, Args)]
pub struct Tune {
    /// An executable or shared library derived with `instrument --tunable`.
    pub program: PathBuf,
    /// List the functions that can be switched, what each carries and what is on;
    /// so it is if nothing else is asked for. Along with other options, as it is
    /// then.
    #[arg(long)]
    pub list: bool,
    /// List all of them, also on a terminal that they do not fit on.
    #[arg(long)]
    pub all: bool,
    /// Switch the functions with such names, mangled or not, to SCHEME: several of
    /// pt, fc, cc, bc with + between, or none. Those that do not carry it stay as
    /// they are, and are named. May be given several times; the last that matches
    /// counts.
    #[arg(long, value_name = "GLOB=SCHEME", value_parser = setting)]
    pub set: Vec<Setting>,
    /// Switch everything to what was on when the file was derived, to the byte;
    /// before anything that --set says.
    #[arg(long)]
    pub undo: bool,
    /// Print JSON (schema backtrail.tune/1).
    #[arg(long, requires = "list")]
    pub json: bool,
    /// Write a copy, and leave the file as it is.
    #[arg(short, long, value_name = "OUT")]
    pub output: Option<PathBuf>,
}

/// What some functions are to be switched to.
#[derive(Debug, Clone)]
pub struct Setting {
    /// Which functions.
    pub glob: globset::Glob,
    /// To what.
    pub scheme: String,
}

fn setting(word: &str) -> Result<Setting, String> {
    // Names may hold it, schemes do not.
    let (glob, scheme) = word.rsplit_once('=').ok_or("not of the form GLOB=SCHEME")?;
    let glob = globset::Glob::new(glob).map_err(|error| error.to_string())?;
    let scheme = backtrail_crash::scheme::Mechanisms::parse(scheme).map_err(|it| it.to_string())?;
    Ok(Setting { glob, scheme: scheme.name() })
}
