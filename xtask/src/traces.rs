//! `cargo xtask fuzz trace`: traces that were put together, against logs of every block.
//!
//! Of graphs and programs that are random, executions are recorded under plans and
//! rebuilt, by the tests of `trace`, which take their number. Then programs run:
//! fixtures, those that csmith writes, and real ones (`programs`), traced by every
//! strategy, kind of witness, limit and number of runs (`ways`), and by a log of every
//! block (`comparison`). It goes part by part, and what was found becomes
//! `docs/trace-truth.md`. A part in which something is wrong does not stop the others,
//! and the page says what it is.

mod comparison;
mod page;
mod programs;
mod ways;

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::kept::Kept;
use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{command, setup, terminal};
use comparison::Found;
use programs::{FIXTURES, Fixture, REAL, Real};

/// The tests that take a number of graphs, and what is told of each.
const GRAPHS: [(&str, &str, &str); 3] = [
    ("planning", "every_plan_rebuilds_every_execution", "plans for random graphs"),
    (
        "realizability",
        "what_is_accepted_is_rebuilt_and_what_is_rejected_seldom_could_be",
        "random distributions over random graphs",
    ),
    ("program_graph", "executions_of_random_programs_are_rebuilt", "plans for random programs"),
];

/// The tests of what the source's Figures 1, 2 and 3 show.
const FIGURES: [&str; 2] = [
    "branches_of_a_loop_in_different_profiles_are_rejected",
    "a_call_in_a_loop_and_a_branch_of_its_callee_in_different_profiles_are_rejected",
];

const TESTS: &str = "crates/trace/tests";
const PAGE: &str = "docs/trace-truth.md";

/// Random programs of a part.
const OF_PART: u64 = 20;

/// What `cargo xtask fuzz trace` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How many random graphs, and random programs as graphs
    #[arg(long, default_value_t = 100_000)]
    count: u64,
    /// How many programs by csmith
    #[arg(long, default_value_t = 40)]
    programs: u64,
}

/// What is run at once, and kept.
enum Part {
    Figures,
    Graphs(usize),
    Fixture(&'static Fixture),
    Csmith(u64),
    Real(&'static Real),
}

impl Part {
    fn all(options: &Options) -> Vec<Part> {
        let mut parts = vec![Part::Figures];
        parts.extend((0..GRAPHS.len()).map(Part::Graphs));
        parts.extend(FIXTURES.iter().map(Part::Fixture));
        parts.extend((0..options.programs.div_ceil(OF_PART)).map(Part::Csmith));
        parts.extend(REAL.iter().map(Part::Real));
        parts
    }

    fn title(&self) -> String {
        match self {
            Part::Figures => "figures".to_owned(),
            Part::Graphs(test) => format!("graphs {}", GRAPHS[*test].0),
            Part::Fixture(fixture) => fixture.name().to_owned(),
            Part::Csmith(number) => format!("csmith {number}"),
            Part::Real(real) => real.name.to_owned(),
        }
    }
}

/// Runs the parts that are not kept, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let parts = Part::all(options);
    let titles: Vec<String> = parts.iter().map(Part::title).collect();
    options.choice.check(titles.iter().map(String::as_str))?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = Workshop::new(workspace::build_tool(Profile::Release)?, jobs(), "profile-")?;
    let driver = Driver::new(options, &workshop)?;
    for part in &parts {
        let title = part.title();
        if !options.choice.wants(&title) || (driver.is_kept(part) && !options.choice.again) {
            continue;
        }
        terminal::heading(&title);
        if let Err(error) = driver.make(part) {
            terminal::error(&error);
        }
    }
    driver.write_page(&parts)
}

fn jobs() -> usize {
    std::thread::available_parallelism().map_or(2, usize::from)
}

struct Driver<'a> {
    options: &'a Options,
    workshop: &'a Workshop,
    kept: Kept,
    folder: PathBuf,
}

impl<'a> Driver<'a> {
    fn new(options: &'a Options, workshop: &'a Workshop) -> Result<Self> {
        let folder = workspace::target()?.join("trace-truth");
        let mut hasher = blake3::Hasher::new();
        for test in GRAPHS {
            let path = workspace::root().join(TESTS).join(format!("{}.rs", test.0));
            hasher.update(&std::fs::read(path)?);
        }
        let tests = hasher.finalize();
        let stamp = format!("{} {tests} {}", workshop.tool_stamp()?, options.count);
        Ok(Self { options, workshop, kept: Kept::new(folder.clone(), stamp)?, folder })
    }

    fn is_kept(&self, part: &Part) -> bool {
        match part {
            Part::Figures | Part::Graphs(_) => self.kept.get::<String>(&part.title()).is_some(),
            _ => self.kept.get::<Found>(&part.title()).is_some(),
        }
    }

    fn make(&self, part: &Part) -> Result<()> {
        let title = part.title();
        let found = match part {
            Part::Figures => {
                let said = self.test("realizability", &FIGURES)?;
                ensure!(said.contains("2 passed"), "the tests of the figures are gone: {said}");
                return self.kept.put(&title, &"rejected");
            }
            Part::Graphs(test) => {
                let (file, test, _) = GRAPHS[*test];
                let said = self.test(file, &[test])?;
                let line = said.lines().find(|line| line.contains("rebuilt"));
                return self.kept.put(&title, &line.context("the test told nothing")?);
            }
            Part::Fixture(fixture) => {
                let folder = self.scratch(&title)?;
                fixture.compare(&self.workshop.tool, folder.path())?
            }
            Part::Real(real) => real.compare(self.workshop, self.scratch(&title)?.path())?,
            Part::Csmith(number) => self.compare_random(*number)?,
        };
        println!("{}: {} blocks, {} of {} ways", found.name, found.blocks, found.equal, found.ways);
        self.kept.put(&title, &found)
    }

    /// A folder that goes when the part is made.
    fn scratch(&self, title: &str) -> Result<tempfile::TempDir> {
        let name = format!("{}-", title.replace(' ', "-"));
        Ok(tempfile::Builder::new().prefix(&name).tempdir_in(&self.folder)?)
    }

    /// Runs tests of `trace`; gives what they print.
    fn test(&self, file: &str, names: &[&str]) -> Result<String> {
        let mut cargo = workspace::cargo();
        cargo.args([
            "test",
            "--quiet",
            "--release",
            "--package",
            "backtrail-trace",
            "--test",
            file,
        ]);
        cargo.args(["--", "--nocapture", "--exact"]).args(names);
        command::output(cargo.env("BACKTRAIL_ICFGS", self.options.count.to_string()))
    }

    /// The seeds of a part follow those of the part before it, so that parts do not
    /// depend on each other; those that take too long are left out.
    fn compare_random(&self, part: u64) -> Result<Found> {
        const SEEDS: u64 = 10_000;
        let mut all = Found { name: format!("csmith {part}"), ..Found::default() };
        let wanted = OF_PART.min(self.options.programs - part * OF_PART);
        for seed in 1 + part * SEEDS..(part + 1) * SEEDS {
            if all.programs == wanted {
                break;
            }
            let folder = self.scratch(&format!("seed {seed}"))?;
            if let Some(found) = programs::compare_random(&self.workshop.tool, folder.path(), seed)?
            {
                all.add(found);
            }
        }
        Ok(all)
    }

    /// Writes the page of all that is kept. What is missing or wrong is an error, and
    /// stands on the page.
    fn write_page(&self, parts: &[Part]) -> Result<()> {
        let (mut missing, mut wrong) = (Vec::new(), Vec::new());
        let mut page = page::Page::default();
        for part in parts.iter() {
            if !self.is_kept(part) {
                missing.push(part.title());
                continue;
            }
            let found = self.kept.get::<Found>(&part.title());
            let line = self.kept.get::<String>(&part.title()).unwrap_or_default();
            if let Some(found) = &found {
                wrong.extend(found.wrong.clone());
            }
            match (part, found) {
                (Part::Figures, _) => page.figures = true,
                (Part::Graphs(test), _) => page.graphs.push((GRAPHS[*test].2, line)),
                (Part::Fixture(fixture), Some(found)) => page.fixtures.push((fixture, found)),
                (Part::Csmith(_), Some(found)) => page.csmith.add(found),
                (Part::Real(real), Some(found)) => page.real.push((real, found)),
                _ => {}
            }
        }
        let text = page.text(&missing, &wrong);
        std::fs::write(workspace::root().join(PAGE), text).context("cannot write the page")?;
        println!("\nwrote {PAGE}");
        ensure!(wrong.is_empty(), "{} traces are not the log's, see {PAGE}", wrong.len());
        ensure!(missing.is_empty(), "not made: {}", missing.join(", "));
        Ok(())
    }
}
