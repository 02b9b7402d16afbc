//! `cargo xtask fuzz attack`: the tool where nobody is kind to it.
//!
//! - [`damage`]: damaged inputs for every verb, most of them under right sums;
//! - [`interrupt`]: signals at random moments;
//! - [`torture`]: programs that do what is rarely done, under every scheme.
//!
//! It goes part by part, and what was found becomes `docs/attack.md`. What is wrong is
//! listed there and does not stop the others. The input of a finding is kept in the
//! target folder, with its command, and is made again from its number.

pub mod bounded;
pub mod damage;
pub mod inputs;
pub mod interrupt;
pub mod layers;
pub mod mutation;
mod page;
mod programs;
pub mod session;
pub mod torture;

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use crate::choice::Choice;
use crate::kept::Kept;
use crate::packages::Need;
use crate::workspace::Profile;
use crate::{command, setup, terminal, workspace};
use inputs::Inputs;
use interrupt::Interrupted;
use page::Page;
use torture::Tortured;
use torture::rows::{ROWS, Row};

const PAGE: &str = "docs/attack.md";

/// Cases of a part.
const DAMAGED: u64 = 250;
const INTERRUPTED: u64 = 25;

/// What `cargo xtask fuzz attack` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How many damaged inputs
    #[arg(long, default_value_t = 20_000)]
    count: u64,
    /// How many interruptions
    #[arg(long, default_value_t = 500)]
    interruptions: u64,
    /// From what damages and moments are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Attack the tool that is built in this folder, and write no page
    #[arg(long, value_name = "FOLDER")]
    tool: Option<PathBuf>,
}

/// The tool, and where it is attacked.
pub struct Place {
    /// The folder of its executables.
    pub tool: PathBuf,
    /// This program.
    pub xtask: PathBuf,
    /// Where everything is made.
    pub folder: PathBuf,
    /// Where inputs of findings are kept.
    pub findings: PathBuf,
    /// From what damages and moments are drawn.
    pub seed: u64,
}

impl Place {
    /// The tool, with a cache of its own and without what the user's environment says.
    pub fn tool(&self, cache: &Path) -> Command {
        let mut tool = Command::new(self.tool.join("backtrail"));
        tool.env("BACKTRAIL_CACHE", cache).env("LC_ALL", "C");
        tool
    }
}

/// What came out of a part.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// How often each end was seen, by kind.
    pub counts: BTreeMap<String, BTreeMap<String, u64>>,
    /// What is wrong.
    pub findings: Vec<Finding>,
}

/// Something that is wrong.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Finding {
    /// What.
    pub what: String,
    /// With which command.
    pub command: String,
    /// The number of its case.
    pub number: u64,
}

impl Found {
    fn count(&mut self, kind: &str, end: &str) {
        *self.counts.entry(kind.to_owned()).or_default().entry(end.to_owned()).or_default() += 1;
    }

    fn add(&mut self, other: Found) {
        for (kind, ends) in other.counts {
            let sums = self.counts.entry(kind).or_default();
            ends.into_iter().for_each(|(end, count)| *sums.entry(end).or_default() += count);
        }
        self.findings.extend(other.findings);
    }
}

/// What is run at once, and kept.
enum Part {
    Damage(Range<u64>),
    Interruptions(Range<u64>),
    Torture(&'static Row),
}

impl Part {
    fn all(options: &Options) -> Vec<Part> {
        let mut all: Vec<Part> = ROWS.iter().map(Part::Torture).collect();
        all.extend(ranges(options.interruptions, INTERRUPTED).map(Part::Interruptions));
        all.extend(ranges(options.count, DAMAGED).map(Part::Damage));
        all
    }

    fn title(&self) -> String {
        match self {
            Part::Damage(range) => format!("damage {}-{}", range.start, range.end),
            Part::Interruptions(range) => format!("interruptions {}-{}", range.start, range.end),
            Part::Torture(row) => format!("torture {}", row.name),
        }
    }
}

/// The numbers below `count`, so many at once.
fn ranges(count: u64, at_once: u64) -> impl Iterator<Item = Range<u64>> {
    (0..count).step_by(at_once as usize).map(move |from| from..count.min(from + at_once))
}

/// Runs the parts that are not kept, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let parts = Part::all(options);
    let titles: Vec<String> = parts.iter().map(Part::title).collect();
    options.choice.check(titles.iter().map(String::as_str))?;
    setup::run(Need::Test, &options.installing)?;
    let driver = Driver::new(options)?;
    for part in &parts {
        let title = part.title();
        let is_kept = driver.kept.get::<Found>(&title).is_some();
        if !options.choice.wants(&title) || (is_kept && !options.choice.again) {
            continue;
        }
        terminal::heading(&title);
        // Others go on when one fails: the page says what is missing.
        match driver.make(part) {
            Ok(found) => driver.kept.put(&title, &found)?,
            Err(error) => terminal::error(&error),
        }
    }
    driver.write_page(options, &parts)
}

struct Driver {
    place: Place,
    kept: Kept,
    inputs: OnceCell<Inputs>,
    interrupted: OnceCell<Interrupted>,
    tortured: OnceCell<Tortured>,
}

impl Driver {
    fn new(options: &Options) -> Result<Self> {
        let tool = match &options.tool {
            Some(tool) => std::path::absolute(tool)?,
            None => workspace::build_tool(Profile::Release)?,
        };
        let folder = workspace::target()?.join("attack");
        let mut hasher = blake3::Hasher::new();
        hasher.update(&std::fs::read(tool.join("backtrail"))?);
        for (_, text) in programs::SOURCES {
            hasher.update(text.as_bytes());
        }
        let stamp = format!("{} {}", hasher.finalize(), options.seed);
        let kept = Kept::new(folder.join("kept"), stamp)?;
        let xtask = std::env::current_exe().context("cannot find this program")?;
        let findings = folder.join("findings");
        let place = Place { tool, xtask, folder, findings, seed: options.seed };
        let (inputs, interrupted, tortured) = Default::default();
        Ok(Self { place, kept, inputs, interrupted, tortured })
    }

    fn make(&self, part: &Part) -> Result<Found> {
        let place = &self.place;
        match part {
            Part::Damage(range) => {
                let inputs = once(&self.inputs, || Inputs::make(place))?;
                damage::run(place, inputs, range.clone())
            }
            Part::Interruptions(range) => {
                let interrupted = once(&self.interrupted, || Interrupted::make(place))?;
                interrupt::run(place, interrupted, range.clone())
            }
            Part::Torture(row) => {
                let tortured = once(&self.tortured, || Tortured::make(place, &ROWS))?;
                torture::run(place, tortured, row)
            }
        }
    }

    /// Writes the page of all that is kept. What is missing or wrong is an error, and
    /// stands on the page.
    fn write_page(&self, options: &Options, parts: &[Part]) -> Result<()> {
        let mut page = Page {
            commit: commit()?,
            damaged: options.count,
            interrupted: options.interruptions,
            ..Page::default()
        };
        for part in parts {
            let Some(found) = self.kept.get::<Found>(&part.title()) else {
                page.missing.push(part.title());
                continue;
            };
            match part {
                Part::Damage(_) => page.damage.add(found),
                Part::Interruptions(_) => page.interruptions.add(found),
                Part::Torture(_) => page.torture.add(found),
            }
        }
        let wrong: usize = [&page.damage, &page.interruptions, &page.torture]
            .map(|found| found.findings.len())
            .iter()
            .sum();
        if options.tool.is_some() {
            println!("\n{}", page.text());
        } else {
            let path = workspace::root().join(PAGE);
            std::fs::write(path, page.text()).context("cannot write the page")?;
            println!("\nwrote {PAGE}");
        }
        ensure!(wrong == 0, "{wrong} things are wrong");
        ensure!(page.missing.is_empty(), "not made: {}", page.missing.join(", "));
        Ok(())
    }
}

/// What is made when it is first needed.
fn once<T>(cell: &OnceCell<T>, make: impl FnOnce() -> Result<T>) -> Result<&T> {
    if cell.get().is_none() {
        let made = make()?;
        return Ok(cell.get_or_init(|| made));
    }
    cell.get().context("it was just made")
}

/// The commit of the sources, and whether something is changed that is not in it.
fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty=, with changes", "--exclude=*"]);
    let text = command::output(git.current_dir(workspace::root()))?;
    Ok(text.trim().to_owned())
}
