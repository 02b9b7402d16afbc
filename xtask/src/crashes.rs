//! `cargo xtask fuzz crash`: crashes, forced and real, against logs of the same
//! crashes, and random executions against what is called impossible.
//!
//! The tests of `cli` and `crash` take their amounts by number; here these are
//! large. They run part by part ([`rows`]), and what they found becomes
//! `docs/crash-truth.md`. A part in which something is wrong does not stop the
//! others, and the page says what it is.

pub mod programs;
pub mod rows;

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::kept::Kept;
use crate::packages::Need;
use crate::{command, setup, terminal, workspace};
use rows::{Found, Left};

/// What `cargo xtask fuzz crash` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How many crashes at random blocks, at least
    #[arg(long, default_value_t = 1_000)]
    count: usize,
    /// How many of them for each real program at each level
    #[arg(long, default_value_t = 16)]
    by_program: usize,
    /// How many crashes of each program with each scheme
    #[arg(long, default_value_t = 100)]
    by_scheme: usize,
    /// Only crashes by scheme, none that are compared with logs
    #[arg(long, conflicts_with = "only_logs")]
    only_schemes: bool,
    /// Only crashes that are compared with logs
    #[arg(long)]
    only_logs: bool,
    /// How many random executions
    #[arg(long, default_value_t = 100_000)]
    executions: u64,
    /// Begins the random numbers
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// The title of the part that compares sets with all executions of small programs.
const EXECUTIONS: &str = "executions";
const PAGE: &str = "docs/crash-truth.md";
const TEST: &str = "crates/cli/tests/crash_truth";

/// Forced crashes of the fixture at each level.
const OF_FIXTURE: usize = 12;
/// Forced crashes of a part of random programs.
const OF_CSMITH: usize = 96;

/// What is run at once, and kept.
enum Part {
    Kinds,
    Program(&'static str, &'static str),
    Csmith(usize),
}

impl Part {
    fn title(&self) -> String {
        match self {
            Part::Kinds => "kinds".to_owned(),
            Part::Program(name, level) => format!("{name} {level}"),
            Part::Csmith(number) => format!("csmith {number}"),
        }
    }

    /// All of them, for so many forced crashes.
    fn all(options: &Options) -> Vec<Part> {
        let mut parts = vec![Part::Kinds];
        for name in programs::NAMES {
            parts.extend(programs::LEVELS.map(|level| Part::Program(name, level)));
        }
        let others = 3 * OF_FIXTURE + (parts.len() - 1) * options.by_program;
        let random = options.count.saturating_sub(others).div_ceil(OF_CSMITH).max(1);
        parts.extend((1..=random).map(Part::Csmith));
        parts
    }
}

/// Runs the tests and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let parts = Part::all(options);
    let titles: Vec<String> = parts.iter().map(Part::title).collect();
    options.choice.check(titles.iter().map(String::as_str).chain([EXECUTIONS]))?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = workshop()?;
    let driver = Driver::new(options, &workshop)?;
    if !options.only_schemes && options.choice.wants(EXECUTIONS) {
        driver.test("backtrail-crash", "active_code", "", &[])?;
    }
    for (number, part) in parts.iter().enumerate() {
        let title = part.title();
        let made = driver.kept.get::<Found>(&title).is_some() && !options.choice.again;
        if !made && !options.only_schemes && options.choice.wants(&title) {
            terminal::heading(&title);
            report(driver.compare(part, options.seed * 1_000 + number as u64));
        }
    }
    for name in programs::NAMES {
        let made = driver.kept.get::<Left>(&by_scheme(name)).is_some() && !options.choice.again;
        if !made && !options.only_logs && options.choice.wants(name) {
            terminal::heading(&by_scheme(name));
            report(driver.measure(name));
        }
    }
    driver.write_page(&parts)
}

/// The tool and the test, built at once: by itself, the tool would be linked with other
/// features of its dependencies, and be another one.
fn workshop() -> Result<Workshop> {
    let mut cargo = workspace::cargo();
    cargo.args(["build", "--release", "--package", "backtrail-cli", "--bins"]);
    command::run(cargo.args(["--test", "crash_truth"]))?;
    let jobs = std::thread::available_parallelism().map_or(2, usize::from);
    Workshop::new(workspace::target()?.join("release"), jobs, "profile-")
}

fn by_scheme(name: &str) -> String {
    format!("{name} by scheme")
}

/// Others go on when one fails: the page says what is missing.
fn report(result: Result<()>) {
    if let Err(error) = result {
        terminal::error(&error);
    }
}

struct Driver<'a> {
    options: &'a Options,
    workshop: &'a Workshop,
    kept: Kept,
    folder: PathBuf,
}

impl<'a> Driver<'a> {
    fn new(options: &'a Options, workshop: &'a Workshop) -> Result<Self> {
        let folder = workspace::target()?.join("crash-truth");
        let mut stamp = workshop.tool_stamp()?;
        let amounts = [options.count, options.by_program, options.by_scheme];
        stamp.push_str(&format!(" {amounts:?} {} {}", options.seed, test_stamp()?));
        Ok(Self { options, workshop, kept: Kept::new(folder.clone(), stamp)?, folder })
    }

    fn test(
        &self,
        package: &str,
        test: &str,
        name: &str,
        variables: &[(&str, &str)],
    ) -> Result<()> {
        let mut cargo = workspace::cargo();
        cargo.args(["test", "--quiet", "--release", "--package", package, "--test", test]);
        cargo.args(["--", "--nocapture", name]);
        cargo.env("BACKTRAIL_SEED", self.options.seed.to_string());
        cargo.env("BACKTRAIL_VARIANTS", self.workshop.cache());
        cargo.env("BACKTRAIL_EXECUTIONS", self.options.executions.to_string());
        cargo.envs(variables.iter().copied());
        command::run(&mut cargo)
    }

    /// Writes the list of a part, which is of one program.
    fn list(&self, part: &str, program: &programs::Listed) -> Result<PathBuf> {
        let path = self.folder.join(format!("{part}.list"));
        std::fs::write(&path, serde_json::to_string(&[program])?)?;
        Ok(path)
    }

    /// Where the test writes what it found of a part.
    fn written(&self, part: &str) -> PathBuf {
        let path = self.folder.join(format!("{part}.written"));
        let _ = std::fs::remove_file(&path);
        path
    }

    /// Compares crashes of a part with logs and with gdb.
    fn compare(&self, part: &Part, seed: u64) -> Result<()> {
        let (name, count, list) = match part {
            Part::Kinds => ("kinds", OF_FIXTURE, None),
            Part::Csmith(_) => ("csmith", OF_CSMITH, None),
            Part::Program(name, level) => {
                let program = programs::stoppable(self.workshop, name, level)?;
                ("listed", self.options.by_program, Some(self.list(&part.title(), &program)?))
            }
        };
        let written = self.written(&part.title());
        let (count, seed) = (count.to_string(), seed.to_string());
        let list = list.as_deref().map_or("", text);
        let variables = [
            ("BACKTRAIL_PART", name),
            ("BACKTRAIL_CRASHES", &count),
            ("BACKTRAIL_SEED", &seed),
            ("BACKTRAIL_PROGRAMS", list),
            ("BACKTRAIL_ROWS", text(&written)),
        ];
        let outcome = self.test("backtrail-cli", "crash_truth", "crashes_tell", &variables);
        // A part in which something is wrong is one that was made.
        let found: Option<Found> =
            std::fs::read(&written).ok().and_then(|it| serde_json::from_slice(&it).ok());
        match found {
            Some(found) if outcome.is_ok() || !found.wrong.is_empty() => {
                self.kept.put_written::<Found>(&part.title(), &written)
            }
            _ => outcome.and_then(|()| anyhow::bail!("the test wrote nothing of {}", part.title())),
        }
    }

    /// Lets a program die with each scheme.
    fn measure(&self, name: &'static str) -> Result<()> {
        let program = programs::plain(self.workshop, name)?;
        let (list, written) =
            (self.list(&by_scheme(name), &program)?, self.written(&by_scheme(name)));
        let count = self.options.by_scheme.to_string();
        let variables = [
            ("BACKTRAIL_CRASHES_BY_SCHEME", &*count),
            ("BACKTRAIL_PROGRAMS", text(&list)),
            ("BACKTRAIL_ROWS", text(&written)),
        ];
        self.test("backtrail-cli", "crash_truth", "schemes_leave", &variables)?;
        self.kept.put_written::<Left>(&by_scheme(name), &written)
    }

    /// Writes the page of all that is kept. What is missing or wrong is an error, and
    /// stands on the page.
    fn write_page(&self, parts: &[Part]) -> Result<()> {
        let mut missing = Vec::new();
        let mut found = Vec::new();
        for part in parts {
            match self.kept.get::<Found>(&part.title()) {
                Some(it) => found.push(it),
                None => missing.push(part.title()),
            }
        }
        let mut left = Vec::new();
        for name in programs::NAMES {
            match self.kept.get::<Left>(&by_scheme(name)) {
                Some(it) => left.push(it),
                None => missing.push(by_scheme(name)),
            }
        }
        let wrong: Vec<&String> = found.iter().flat_map(|it| &it.wrong).collect();
        let mut page = page(self.options, &found, &left);
        if !missing.is_empty() {
            page.push_str(&format!("\nNot made yet: {}.\n", missing.join(", ")));
        }
        if !wrong.is_empty() {
            page.push_str("\n## What is wrong\n\n");
            wrong.iter().for_each(|what| page.push_str(&format!("- `{what}`\n")));
        }
        std::fs::write(workspace::root().join(PAGE), page).context("cannot write the page")?;
        println!("\n{PAGE}: {} forced crashes", rows::forced(&found));
        ensure!(wrong.is_empty(), "{} things are wrong, see {PAGE}", wrong.len());
        ensure!(missing.is_empty(), "not made: {}", missing.join(", "));
        Ok(())
    }
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}

/// What changes when the test does.
fn test_stamp() -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    for folder in ["", "fixtures"] {
        let folder = workspace::root().join(TEST).join(folder);
        let mut files: Vec<PathBuf> =
            std::fs::read_dir(folder)?.filter_map(|it| Some(it.ok()?.path())).collect();
        files.sort();
        for file in files.iter().filter(|it| it.is_file()) {
            hasher.update(&std::fs::read(file)?);
        }
    }
    Ok(hasher.finalize().to_string())
}

fn page(options: &Options, found: &[Found], left: &[Left]) -> String {
    let (table, schemes) = (rows::table(found), rows::schemes_table(left));
    let forced = rows::forced(found);
    let real: usize = found.iter().flat_map(|it| &it.rows).map(|it| it.crashes).sum();
    format!(
        "# Crashes, against logs\n\n\
         ```sh\n\
         cargo xtask fuzz crash --count {} --by-program {} --by-scheme {} --seed {}\n\
         ```\n\n\
         makes this page. A run that was ended goes on where it was.\n\n\
         A program dies in two variants: one that records for crashes, and one that logs every \
         block. What the core of the first tells must be how the log of the second ends, and no \
         block and no edge that the log has may be called impossible. gdb shows the same core.\n\n\
         *Block* crashes, {forced} of them, are forced: the program is ended at the n-th block that \
         it executes, for a random n, in programs that csmith writes and in real ones. The others, \
         {}, are real: a null pointer, a stack that overflows, `abort` in what `qsort` calls and in \
         a signal handler, one of four threads, and a null pointer behind a `longjmp`.\n\n\
         - *equal to the log*: crashes in which the known blocks of every frame are how the log of \
         that activation ends, or, where an activation is known from its beginning, all of it. \
         Functions of one name that a program has several times are left out: the log does not tell \
         them apart. Of a stack that overflowed, frames are compared one by one: how deep it is \
         depends on how large frames are.\n\
         - *backtrace as gdb's*: crashes in which every frame of every thread has the address and \
         the function that gdb shows, inlined functions included. In a stripped executable only \
         what is not inlined is compared. Names are compared without template arguments and \
         parameters.\n\
         - *unresolved*: frames of functions that keep records, of which no block is known.\n\
         - *edges left*: those that can have been taken, of those that can by the stack \
         alone. Real programs record everything (`full`) at -O0 and -O2, and at -O3 only paths \
         (`pt`), by which hardly an edge is ruled out; csmith's, one or the other.\n\n{table}\n\
         ## What each scheme leaves\n\n\
         Percent of the nodes and of the edges of a program that can have run, on average over \
         crashes: by the stack alone, and by what each scheme records ([schemes.md](schemes.md)). Here \
         a timer ends the programs, as they are shipped at -O2, wherever they are then, at random \
         fractions of the time that they take; nothing is compared with a log. `realistic` has the \
         functions of [bench-crash.md](bench-crash.md), and for ninja those named in \
         [`programs.rs`](../xtask/src/crashes/programs.rs).\n\n{schemes}",
        options.count,
        options.by_program,
        options.by_scheme,
        options.seed,
        real - forced
    )
}
