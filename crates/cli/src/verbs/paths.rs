//! `backtrail paths`: shows, adds up and compares path profiles.

mod change;
pub mod view;

use std::io::Write as _;
use std::path::{Path, PathBuf};

use crate::args;
use crate::exit::Unreadable;
use crate::json::write_document;
use crate::named::Named;
use crate::progress::Phase;
use crate::stdout;
use crate::style::{counted, detail, terminal};
use anyhow::Context as _;
use backtrail_build::output::{Mode, write_whole};
use backtrail_foreign::file;
use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::merge::merge;
use backtrail_profile::model::Profile;
use backtrail_report::paths::{Function, Measure, Program, html, json, text};

/// Paths that are shown, unless asked for more or fewer.
const TOP: usize = 10;

/// Paths in a page, likewise.
const TOP_OF_PAGE: usize = 20_000;

/// Runs the verb.
pub fn run(args: &args::Paths, quiet: bool) -> anyhow::Result<u8> {
    if let Some(pair) = &args.compare {
        return change::run(args, &pair[0], &pair[1]);
    }
    let reading = Phase::begin("reading what was counted", quiet);
    let profile = load_all(&args.files, &args.exe)?;
    drop(reading);
    let named = args.function.as_ref().map(Named::by);
    if let Some(named) = &named {
        named.check(&profile.program, profile.functions.iter().map(|it| &*it.name))?;
    }
    if let Some(output) = &args.output {
        write(output, &write_profile(&profile)?)?;
        if !quiet && !args.json {
            let processes = counted(profile.processes, "process");
            let output = output.display();
            stdout::line(format_args!("{output}: {processes} added up"))?;
        }
        if !args.json && args.html.is_none() {
            return Ok(0);
        }
    }
    let program = view::Viewer::default().program(&profile);
    let wanted = |function: &Function| named.as_ref().is_none_or(|it| it.has(&function.name));
    if let Some(folder) = &args.html {
        let options = html::Options {
            top: args.top.unwrap_or(TOP_OF_PAGE),
            measure: measure(args),
            detail: detail(args.full),
        };
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the folder {}", folder.display()))?;
        let page = folder.join("index.html");
        write(&page, html::render(&program, &options, wanted).as_bytes())?;
        if !quiet && !args.json {
            stdout::line(page.display())?;
        }
        if !args.json {
            return Ok(0);
        }
    }
    let mut out = stdout::open(stdout::form(args.json));
    if args.json {
        write_document(&mut out, &json::Document::new(&program, wanted))?;
    } else {
        out.write_all(show(args, &program, wanted).as_bytes())?;
    }
    out.flush()?;
    Ok(0)
}

fn measure(args: &args::Paths) -> Measure {
    match args.by {
        args::Measure::Blocks => Measure::Blocks,
        args::Measure::Executions => Measure::Executions,
    }
}

fn show(args: &args::Paths, program: &Program, wanted: impl Fn(&Function) -> bool) -> String {
    let options = text::Options {
        top: args.top.unwrap_or(TOP),
        measure: measure(args),
        detail: detail(args.full),
        style: terminal(),
    };
    text::render(program, &options, wanted)
}

/// The profile in a file.
pub fn load(path: &Path) -> anyhow::Result<Profile> {
    load_from(path, &[])
}

/// The profile in a file or a folder of records, which `variants` may have made.
fn load_from(path: &Path, variants: &[PathBuf]) -> anyhow::Result<Profile> {
    if path.is_dir() {
        return crate::recorded::load(path, variants);
    }
    let unreadable = |what: String| Unreadable(format!("{}: {what}", path.display()));
    let bytes = file::read(path).map_err(|error| unreadable(error.to_string()))?;
    Ok(read_profile(&bytes).map_err(|error| unreadable(error.to_string()))?)
}

/// The sum of the profiles in some files, of which there is at least one.
fn load_all(files: &[PathBuf], variants: &[PathBuf]) -> anyhow::Result<Profile> {
    let (first, rest) = files.split_first().context("no file was given")?;
    let mut sum = load_from(first, variants)?;
    for path in rest {
        let profile = load_from(path, variants)?;
        sum = merge(sum, &profile)
            .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
    }
    Ok(sum)
}

/// Writes a whole file or none.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    Ok(write_whole(path, bytes, Mode::Data)?)
}
