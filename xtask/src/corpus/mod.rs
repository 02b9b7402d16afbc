//! `cargo xtask corpus`: the tool on real programs.
//!
//! The programs are data ([`program`]). Each is fetched ([`fetch`]), built
//! ([`tree`]) and checked ([`check`]); the outcome is kept beside the builds, so
//! that a run that was interrupted, or that took `--only` some, goes on where it
//! was. Everything is below `corpus` in the target folder.

pub mod carried;
pub mod check;
pub mod code;
pub mod fetch;
pub mod places;
pub mod profile;
pub mod program;
pub mod records;
pub mod report;
pub mod results;
pub mod tree;

use anyhow::{Context, Result, ensure};
use clap::Args;

use crate::choice::Choice;
use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{setup, terminal};
use check::Row;
use program::{PROGRAMS, Program};
use tree::Workshop;

/// What `cargo xtask corpus` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How many processes a build may run at a time
    #[arg(long, value_name = "N")]
    jobs: Option<usize>,
}

/// Runs it all.
pub fn run(options: &Options) -> Result<()> {
    options.choice.check(PROGRAMS.iter().map(|program| program.name))?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = workshop(options.jobs, "")?;
    let mut rows = Vec::new();
    for program in PROGRAMS.iter().filter(|program| options.choice.wants(program.name)) {
        let row = match kept(&workshop, program)? {
            Some(row) if !options.choice.again && row.failures.is_empty() => row,
            _ => checked(&workshop, program)?,
        };
        rows.push(row);
    }
    report::print(&rows);
    write_page(&workshop)?;
    let failures: usize = rows.iter().map(|row| row.failures.len()).sum();
    ensure!(failures == 0, "{failures} things are not as they should be, without a known reason");
    Ok(())
}

/// The tool, built as people install it, and the folder to work in; `prefix` is
/// what the names of build folders begin with.
pub fn workshop(jobs: Option<usize>, prefix: &'static str) -> Result<Workshop> {
    let tool = workspace::build_tool(Profile::Release)?;
    let jobs = jobs.unwrap_or_else(|| std::thread::available_parallelism().map_or(2, usize::from));
    Workshop::new(tool, jobs, prefix)
}

/// The program of this name.
pub fn find(name: &str) -> Option<&'static Program> {
    PROGRAMS.iter().find(|program| program.name == name)
}

/// Checks a program. One that cannot be checked is a failure of its own, so
/// that the others still are.
fn checked(workshop: &Workshop, program: &Program) -> Result<Row> {
    terminal::heading(program.name);
    let row = check::check(workshop, program).unwrap_or_else(|error| {
        terminal::error(&error);
        Row {
            name: program.name.to_owned(),
            failures: vec![format!("{error:#}")],
            ..Row::default()
        }
    });
    let text = serde_json::to_string_pretty(&(stamp(workshop, program)?, &row))?;
    std::fs::create_dir_all(workshop.of(program))?;
    std::fs::write(workshop.of(program).join("row.json"), text)?;
    Ok(row)
}

/// What an earlier run with the same tool and data found.
fn kept(workshop: &Workshop, program: &Program) -> Result<Option<Row>> {
    let Ok(text) = std::fs::read_to_string(workshop.of(program).join("row.json")) else {
        return Ok(None);
    };
    // A row that an older version of this program wrote is as good as none.
    let Ok((made_with, row)) = serde_json::from_str::<(String, Row)>(&text) else {
        return Ok(None);
    };
    Ok((made_with == stamp(workshop, program)?).then_some(row))
}

fn stamp(workshop: &Workshop, program: &Program) -> Result<String> {
    Ok(format!("{}\n{program:?}", workshop.tool_stamp()?))
}

/// Writes the page when there is a row for every program.
fn write_page(workshop: &Workshop) -> Result<()> {
    let mut rows = Vec::new();
    for program in PROGRAMS {
        let Some(row) = kept(workshop, program)? else {
            println!("docs/corpus.md is not written: {} is yet to be checked", program.name);
            return Ok(());
        };
        rows.push(row);
    }
    let path = workspace::root().join("docs/corpus.md");
    std::fs::write(&path, report::page(&rows))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/corpus.md");
    Ok(())
}
