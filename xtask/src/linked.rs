//! `cargo xtask fuzz linked`: programs as they are linked in the world, against logs of
//! every block.
//!
//! Random programs are put together from [`scenes`], small things that go over the
//! borders of units: native objects, archives and libraries that call units back,
//! override, wrap or interpose them, and functions of the C and C++ libraries that take
//! callbacks. How they are compiled and linked is drawn, too ([`draw`]). Each is traced,
//! profiled, profiled by copies, and crashes for an autopsy ([`trial`]); what comes of it
//! is compared with the log, and has to be equal, or to say where it is not. Some
//! programs that are written by hand come first ([`rows`]), then each scene alone.
//!
//! It goes part by part, and what was found becomes `docs/linked-truth.md`. What is
//! wrong is listed there and does not stop the others. The source of a finding is kept
//! in the target folder, with its command, and is made again from its number.

mod cores;
mod counted;
pub mod draw;
mod page;
mod postmortem;
pub mod project;
pub mod rows;
pub mod scenes;
mod shrink;
mod steps;
pub mod trial;
pub mod verdict;

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::choice::Choice;
use crate::kept::Kept;
use crate::packages::Need;
use crate::workspace::Profile;
use crate::{command, jobs, setup, terminal, workspace};
use draw::Drawn;
use page::Page;
use project::Project;
use scenes::Scene;
use trial::Found;

const PAGE: &str = "docs/linked-truth.md";

/// Programs of a part.
const OF_PART: u64 = 20;

/// What makes programs and judges them: when it changes, parts are made again.
const MADE_BY: [&str; 9] = [
    include_str!("linked/scenes.rs"),
    include_str!("linked/draw.rs"),
    include_str!("linked/project.rs"),
    include_str!("linked/rows.rs"),
    include_str!("linked/trial.rs"),
    include_str!("linked/steps.rs"),
    include_str!("linked/counted.rs"),
    include_str!("linked/postmortem.rs"),
    include_str!("linked/verdict.rs"),
];

/// What `cargo xtask fuzz linked` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How many random programs
    #[arg(long, default_value_t = 2_000)]
    count: u64,
    /// From what programs are drawn
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Try the tool that is built in this folder, and write no page
    #[arg(long, value_name = "FOLDER")]
    tool: Option<PathBuf>,
    /// Try only the random program of this number, and write no page
    #[arg(long, value_name = "NUMBER")]
    program: Option<u64>,
    /// Try to leave out features of programs in which something is wrong
    #[arg(long)]
    shrink: bool,
    /// How many parts at a time
    #[arg(long, value_name = "N", default_value_t = 1)]
    jobs: usize,
}

/// The tool, and where programs are made.
#[derive(Debug)]
pub struct Place {
    /// The folder of its executables.
    pub tool: PathBuf,
    /// Where everything is made.
    pub folder: PathBuf,
    /// Where sources of findings are kept.
    pub findings: PathBuf,
    /// From what programs are drawn.
    pub seed: u64,
    /// Whether findings are reduced.
    pub shrink: bool,
}

/// What is run at once, and kept.
enum Part {
    Rows,
    /// Programs of one scene.
    Scenes(Range<u64>),
    Programs(Range<u64>),
}

impl Part {
    fn all(count: u64) -> Vec<Part> {
        let of = |all: Range<u64>| {
            let end = all.end;
            all.step_by(OF_PART as usize).map(move |from| from..end.min(from + OF_PART))
        };
        let scenes = of(draw::ALONE..draw::ALONE + scenes::all().len() as u64).map(Part::Scenes);
        std::iter::once(Part::Rows).chain(scenes).chain(of(0..count).map(Part::Programs)).collect()
    }

    fn title(&self) -> String {
        match self {
            Part::Rows => "rows".to_owned(),
            Part::Scenes(range) => {
                format!("scenes {}-{}", range.start - draw::ALONE, range.end - draw::ALONE)
            }
            Part::Programs(range) => format!("programs {}-{}", range.start, range.end),
        }
    }
}

/// Runs the parts that are not kept, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let parts = Part::all(options.count);
    let titles: Vec<String> = parts.iter().map(Part::title).collect();
    options.choice.check(titles.iter().map(String::as_str))?;
    setup::run(Need::Test, &options.installing)?;
    let driver = Driver::new(options)?;
    if let Some(number) = options.program {
        let found = driver.place.try_numbers(number..number + 1)?;
        let wrong: usize = found.iter().map(|it| it.wrong().count()).sum();
        found.iter().for_each(shown);
        ensure!(wrong == 0, "{wrong} things are wrong");
        return Ok(());
    }
    let is_missing = |part: &&Part| {
        let title = part.title();
        let is_kept = driver.kept.get::<Vec<Found>>(&title).is_some();
        options.choice.wants(&title) && (!is_kept || options.choice.again)
    };
    let next = Mutex::new(parts.iter().filter(is_missing).collect::<Vec<_>>().into_iter());
    let job = || -> Result<()> {
        loop {
            let taken = next.lock().expect("no thread panics with it").next();
            let Some(part) = taken else { return Ok(()) };
            let title = part.title();
            terminal::heading(&title);
            // Others go on when one fails: the page says what is missing.
            match driver.make(part) {
                Ok(found) => driver.kept.put(&title, &found)?,
                Err(error) => terminal::error(&error),
            }
        }
    };
    jobs::run(options.jobs, job)?;
    driver.write_page(options, &parts)
}

/// Prints all that came of a program.
fn shown(found: &Found) {
    println!("{}: {}, {} blocks", found.number, found.features.join(" "), found.blocks);
    if let Some(why) = &found.unfit {
        println!("  {why}");
    }
    for (way, verdict) in &found.verdicts {
        println!("  {way}: {}", verdict.shown());
    }
}

impl Place {
    /// A place for a tool in a folder, beside which nothing is written.
    pub fn new(tool: PathBuf, folder: PathBuf, seed: u64) -> Self {
        let findings = folder.join("findings");
        Self { tool, folder, findings, seed, shrink: false }
    }

    /// Tries random programs.
    pub fn try_numbers(&self, numbers: Range<u64>) -> Result<Vec<Found>> {
        let scenes = scenes::all();
        let cache = self.scratch("cache-")?;
        numbers.map(|number| self.try_number(&scenes, cache.path(), number)).collect()
    }

    fn try_number(&self, scenes: &[Scene], cache: &Path, number: u64) -> Result<Found> {
        let drawn = Drawn::new(scenes, self.seed, number);
        let project = Project::drawn(&drawn, scenes)?;
        let mut found = self.try_project(&project, cache, None)?;
        found.number = number;
        let name = format!("{}-{number}", self.seed);
        let fault = found.wrong().next().map(|(way, verdict)| (way.clone(), verdict.kind()));
        let mut smallest = None;
        if let Some(fault) = fault.filter(|_| self.shrink) {
            let ways = [fault.0.clone()];
            let smaller = shrink::smallest(drawn, &fault, |drawn| {
                let project = Project::drawn(drawn, scenes)?;
                self.try_project(&project, cache, Some(&ways))
            })?;
            smallest = Some((Project::drawn(&smaller, scenes)?, smaller.names()));
        }
        let fewest = smallest.as_ref().map(|it| it.1.join(" "));
        self.note(&name, &found, &project, fewest.as_deref())?;
        if let Some((project, _)) = smallest {
            project.write(&self.findings.join(&name).join("smallest"))?;
        }
        Ok(found)
    }

    /// Tries the programs that are written by hand.
    pub fn try_rows(&self) -> Result<Vec<Found>> {
        let cache = self.scratch("cache-")?;
        let mut all = Vec::new();
        for project in rows::all() {
            let found = self.try_project(&project, cache.path(), None)?;
            self.note(&project.features[0], &found, &project, None)?;
            all.push(found);
        }
        Ok(all)
    }

    fn scratch(&self, prefix: &str) -> Result<tempfile::TempDir> {
        std::fs::create_dir_all(&self.folder)?;
        Ok(tempfile::Builder::new().prefix(prefix).tempdir_in(&self.folder)?)
    }

    fn try_project(
        &self,
        project: &Project,
        cache: &Path,
        ways: Option<&[String]>,
    ) -> Result<Found> {
        let folder = self.scratch("program-")?;
        let place = trial::Place { tool: &self.tool, cache, folder: folder.path() };
        let mut found = trial::run(&place, project, ways)?;
        // Not what is different on each machine.
        let here = format!("{}/", folder.path().display());
        let tool = format!("{}/", self.tool.display());
        found.each_text(|text| *text = text.replace(&here, "").replace(&tool, ""));
        Ok(found)
    }

    /// Prints what is wrong, and keeps its source, with what was found and the command
    /// that makes it again.
    fn note(
        &self,
        name: &str,
        found: &Found,
        project: &Project,
        smallest: Option<&str>,
    ) -> Result<()> {
        let mut text = format!("features: {}\n", found.features.join(" "));
        if let Some(smallest) = smallest {
            text.push_str(&format!("still wrong with: {smallest}\n"));
        }
        if let Some((seed, number)) = name.split_once('-').filter(|it| it.0 != "row") {
            let command = format!("cargo xtask fuzz linked --seed {seed} --program {number}");
            text.push_str(&format!("command: {command}\n"));
        }
        text.push_str(&found.unfit.as_ref().map(|it| format!("{it}\n")).unwrap_or_default());
        for (way, verdict) in found.wrong() {
            text.push_str(&format!("{way}: {}\n", verdict.shown()));
        }
        if found.wrong().next().is_none() && found.unfit.is_none() {
            return Ok(());
        }
        print!("{name}\n{text}");
        let folder = self.findings.join(name);
        project.write(&folder)?;
        std::fs::write(folder.join("finding.txt"), text).context("cannot keep a finding")
    }
}

struct Driver {
    place: Place,
    kept: Kept,
}

impl Driver {
    fn new(options: &Options) -> Result<Self> {
        let tool = match &options.tool {
            Some(tool) => std::path::absolute(tool)?,
            None => workspace::build_tool(Profile::Release)?,
        };
        let folder = workspace::target()?.join("linked");
        let mut hasher = blake3::Hasher::new();
        let binary = tool.join("backtrail");
        let read = std::fs::read(&binary);
        hasher.update(&read.with_context(|| format!("cannot read {}", binary.display()))?);
        let texts = MADE_BY.iter().chain(&scenes::FILES).chain([&scenes::PRELUDE]);
        texts.for_each(|text| _ = hasher.update(text.as_bytes()));
        let stamp = format!("{} {}", hasher.finalize(), options.seed);
        let kept = Kept::new(folder.join("kept"), stamp)?;
        let place = Place { shrink: options.shrink, ..Place::new(tool, folder, options.seed) };
        Ok(Self { place, kept })
    }

    fn make(&self, part: &Part) -> Result<Vec<Found>> {
        match part {
            Part::Rows => self.place.try_rows(),
            Part::Scenes(numbers) | Part::Programs(numbers) => {
                self.place.try_numbers(numbers.clone())
            }
        }
    }

    /// Writes the page of all that is kept. What is missing or wrong is an error, and
    /// stands on the page.
    fn write_page(&self, options: &Options, parts: &[Part]) -> Result<()> {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for part in parts {
            match self.kept.get::<Vec<Found>>(&part.title()) {
                Some(of_part) => found.extend(of_part),
                None => missing.push(part.title()),
            }
        }
        let wrong: usize = found.iter().map(|it| it.wrong().count()).sum();
        let unfit = found.iter().filter(|it| it.unfit.is_some()).count();
        let (count, seed) = (options.count, options.seed);
        let page = Page { commit: commit()?, count, seed, found: &found, missing: &missing };
        if options.tool.is_some() {
            println!("\n{}", page.text());
        } else {
            let path = workspace::root().join(PAGE);
            std::fs::write(path, page.text()).context("cannot write the page")?;
            println!("\nwrote {PAGE}");
        }
        ensure!(wrong == 0, "{wrong} things are wrong");
        ensure!(unfit == 0, "{unfit} programs are none by clang alone");
        ensure!(missing.is_empty(), "not made: {}", missing.join(", "));
        Ok(())
    }
}

/// The commit of the sources, and whether something is changed that is not in it.
fn commit() -> Result<String> {
    let mut git = Command::new("git");
    git.args(["describe", "--always", "--dirty=, with changes", "--exclude=*"]);
    let text = command::output(git.current_dir(workspace::root()))?;
    Ok(text.trim().to_owned())
}
