//! `cargo xtask fuzz breakpoints`: traces by breakpoints against single steps.
//!
//! The test of `trace` compares the two block by block, with stops and with a handler
//! inside the program, and the stops made with those predicted; here it gets more to
//! do: of what gcc and clang make, plans of one to six runs with every strategy and
//! several limits, and installed programs, three of them with a million blocks. With
//! the tool itself, these are then planned by the counts of an earlier trace. All of
//! that runs part by part ([`crate::kept`]), and becomes `docs/breakpoints-truth.md`.
//! A part in which something is wrong does not stop the others.

pub mod rows;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use serde_json::Value;

use crate::choice::Choice;
use crate::kept::Kept;
use crate::packages::Need;
use crate::workspace::Profile;
use crate::{command, setup, terminal, workspace};
use rows::{Counted, Found};

const PAGE: &str = "docs/breakpoints-truth.md";
/// What the test compiles.
const SOURCES: &str = "crates/machine/tests/code";

/// The test of a program and its library.
const LIBRARY: &str = "traces_of_a_program_and_its_library";

/// The test of tables of jumps that nothing bounds.
const TABLES: &str = "traces_through_tables_without_bounds";

/// The test of computed jumps within functions and out of them.
const LEAVING: &str = "traces_of_jumps_that_stay_or_leave";

/// The test of exceptions in an executable that holds its libraries.
const THROWN_STATICALLY: &str = "exceptions_in_what_is_linked_statically";

const TEXT: &str = "/usr/share/common-licenses/GPL-3";
/// `TEXT` stands for a file that is on every Debian system, `TEXTS` for five times
/// that.
const COMMANDS: [&str; 13] = [
    "true",
    "bash --version",
    "ls /usr",
    "expr 3 + 4",
    "xz --version",
    "date +%Y",
    "find /etc/apt",
    "grep -n ro*t /etc/group",
    "diff /etc/group /etc/group",
    "sed -n s/the/THE/p TEXT",
    "gzip -c TEXT",
    "mawk {print($1)} TEXTS",
    "sort -S64M TEXTS TEXTS",
];
/// Commands that are traced with a library, and how its name begins.
const WITH_LIBRARIES: [(&str, &str); 5] = [
    ("sed -n s/root/ROOT/p /etc/group", "libselinux"),
    ("grep -nP ro+t /etc/group", "libpcre2"),
    ("ls -l /etc/apt", "libselinux"),
    ("xz -c /etc/group", "liblzma"),
    ("date +%Y", "libc.so"),
];
/// So many at the end have a million blocks, and are traced with one strategy.
const LARGE: usize = 3;
/// So many at the end are also planned by counts, over up to so many runs.
const COUNTED: usize = 4;
const COUNTED_RUNS: usize = 4;

/// What `cargo xtask fuzz breakpoints` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
}

/// What is run at once, and kept.
enum Part {
    /// By which test, the compiler, and its option.
    Compiled(&'static str, &'static str, &'static str),
    /// A command, and whether it is a large one.
    Installed(&'static str, bool),
    /// A command, and how the name of its library begins.
    WithLibrary(&'static str, &'static str),
    Counted(&'static str),
}

impl Part {
    fn title(&self) -> String {
        match self {
            Part::Compiled(LIBRARY, compiler, option) => {
                format!("{compiler} {option} with a library")
            }
            Part::Compiled(TABLES, compiler, option) => format!("{compiler} {option}, tables"),
            Part::Compiled(LEAVING, compiler, option) => format!("{compiler} {option}, leaving"),
            Part::Compiled(_, compiler, option) => format!("{compiler} {option}"),
            Part::WithLibrary(command, library) => {
                format!("{} with {library}", name_of(command))
            }
            Part::Installed(command, _) => name_of(command).to_owned(),
            Part::Counted(command) => format!("{} by counts", name_of(command)),
        }
    }

    fn all() -> Vec<Part> {
        let mut all = Vec::new();
        for (test, compilers) in [
            ("traces_of_what_gcc_and_clang_make", ["gcc", "clang-19"]),
            ("exceptions_land", ["g++", "clang++-19"]),
            (TABLES, ["gcc", "clang-19"]),
            (LEAVING, ["gcc", "clang-19"]),
            (LIBRARY, ["gcc", "clang-19"]),
        ] {
            for compiler in compilers {
                let levels = ["-O0", "-O1", "-O2", "-O3"];
                all.extend(levels.map(|level| Part::Compiled(test, compiler, level)));
            }
        }
        let linked = "traces_of_what_is_linked_statically";
        all.push(Part::Compiled(linked, "gcc", "-static"));
        all.push(Part::Compiled(linked, "clang-19", "-static-pie"));
        for (compiler, options) in [
            ("g++", ["-static -O0", "-static -O2"]),
            ("clang++-19", ["-static-pie -O0", "-static-pie -O2"]),
        ] {
            let part = |options| Part::Compiled(THROWN_STATICALLY, compiler, options);
            all.extend(options.map(part));
        }
        for (number, command) in COMMANDS.iter().enumerate() {
            all.push(Part::Installed(command, number + LARGE >= COMMANDS.len()));
        }
        all.extend(WITH_LIBRARIES.map(|(command, library)| Part::WithLibrary(command, library)));
        all.extend(COMMANDS[COMMANDS.len() - COUNTED..].iter().map(|it| Part::Counted(it)));
        all
    }
}

/// The program of a command.
fn name_of(command: &str) -> &str {
    command.split(' ').next().unwrap_or(command)
}

/// A command as it is run.
fn spelled(command: &str) -> String {
    command.replace("TEXTS", &["TEXT"; 5].join(" ")).replace("TEXT", TEXT)
}

/// Runs what has not been run, and writes the page.
pub fn run(options: &Options) -> Result<()> {
    let parts = Part::all();
    let titles: Vec<String> = parts.iter().map(Part::title).collect();
    options.choice.check(titles.iter().map(String::as_str))?;
    setup::run(Need::Tool, &options.installing)?;
    let driver = Driver::new()?;
    for part in &parts {
        let title = part.title();
        let is_made = match part {
            Part::Counted(_) => driver.kept.get::<Counted>(&title).is_some(),
            _ => driver.kept.get::<Found>(&title).is_some(),
        };
        if options.choice.wants(&title) && (options.choice.again || !is_made) {
            terminal::heading(&title);
            // Others go on when one fails: the page says what is missing.
            if let Err(error) = driver.make(part) {
                terminal::error(&error);
            }
        }
    }
    driver.write_page(&parts)
}

struct Driver {
    test: PathBuf,
    tool: PathBuf,
    kept: Kept,
    folder: PathBuf,
}

impl Driver {
    fn new() -> Result<Self> {
        let folder = workspace::target()?.join("breakpoints-truth");
        let test = build_test()?;
        let tool = workspace::build_tool(Profile::Release)?.join("backtrail");
        let mut hasher = blake3::Hasher::new();
        let mut sources: Vec<PathBuf> = std::fs::read_dir(workspace::root().join(SOURCES))?
            .filter_map(|it| Some(it.ok()?.path()))
            .collect();
        sources.sort();
        for file in sources.iter().chain([&test, &tool]) {
            hasher.update(&std::fs::read(file).with_context(|| file.display().to_string())?);
        }
        let kept = Kept::new(folder.clone(), hasher.finalize().to_string())?;
        Ok(Self { test, tool, kept, folder })
    }

    fn make(&self, part: &Part) -> Result<()> {
        let title = part.title();
        let written = self.folder.join(format!("{title}.written"));
        let _ = std::fs::remove_file(&written);
        if let Part::Counted(command) = part {
            return self.kept.put(&title, &self.count(command)?);
        }
        let mut test = std::process::Command::new(&self.test);
        test.current_dir(workspace::root()).env("BACKTRAIL_ROWS", &written);
        match part {
            Part::Compiled(name, compiler, option) => {
                test.args(["--nocapture", name]);
                test.env("BACKTRAIL_ALL_PLANS", "1");
                test.env("BACKTRAIL_COMPILED", format!("{compiler} {option}"));
            }
            Part::WithLibrary(line, library) => {
                test.args(["--nocapture", "traces_of_installed"]);
                test.env("BACKTRAIL_STEPPED", line).env("BACKTRAIL_LIBRARIES", library);
                test.env("BACKTRAIL_STRATEGIES", "0");
            }
            Part::Installed(line, is_large) => {
                test.args(["--nocapture", "traces_of_installed"]);
                test.env("BACKTRAIL_STEPPED", spelled(line));
                test.env("BACKTRAIL_STRATEGIES", if *is_large { "1" } else { "3" });
            }
            Part::Counted(_) => {}
        }
        let outcome = command::run(&mut test);
        // A part in which something is wrong is one that was made.
        let found: Option<Found> =
            std::fs::read(&written).ok().and_then(|it| serde_json::from_slice(&it).ok());
        match found {
            Some(found) if outcome.is_ok() || !found.wrong.is_empty() => {
                self.kept.put_written::<Found>(&title, &written)
            }
            _ => outcome.and_then(|()| bail!("the test wrote nothing of {title}")),
        }
    }

    /// Traces a command, and again with the counts of that trace.
    fn count(&self, line: &str) -> Result<Counted> {
        let [first, next] = ["first", "next"].map(|it| self.folder.join(format!("{it}.bttrace")));
        self.trace(line, &first, &[])?;
        let mut found = Counted { name: name_of(line).to_owned(), runs: BTreeMap::new() };
        for runs in 1..=COUNTED_RUNS {
            let options = ["--weights", text(&first), "--runs", &runs.to_string()];
            let said = self.trace(line, &next, &options)?;
            let told = rows::told(&said).with_context(|| format!("the tool said: {said}"))?;
            found.runs.insert(runs, told);
        }
        [first, next].iter().try_for_each(std::fs::remove_file)?;
        Ok(found)
    }

    /// What the tool says of a trace.
    fn trace(&self, line: &str, trace: &Path, options: &[&str]) -> Result<String> {
        let mut tool = std::process::Command::new(&self.tool);
        tool.args(["trace", "--witness", "breakpoint", "--explain", "-o"]).arg(trace);
        tool.args(options).arg(Path::new("/usr/bin").join(name_of(line))).arg("--");
        tool.args(spelled(line).split(' ').skip(1));
        let output = command::capture(&mut tool)?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{}: {said}", command::shown(&tool));
        Ok(said)
    }

    /// Writes the page of all that is kept. What is missing or wrong is an error, and
    /// stands on the page.
    fn write_page(&self, parts: &[Part]) -> Result<()> {
        let mut missing = Vec::new();
        let (mut compiled, mut installed) = (Vec::new(), Vec::new());
        let (mut with_libraries, mut counted) = (Vec::new(), Vec::new());
        for part in parts {
            let title = part.title();
            let found = match part {
                Part::Compiled(..) => self.kept.get(&title).map(|it| compiled.push(it)),
                Part::Installed(..) => self.kept.get(&title).map(|it| installed.push(it)),
                Part::WithLibrary(..) => self.kept.get(&title).map(|it| with_libraries.push(it)),
                Part::Counted(_) => self.kept.get(&title).map(|it| counted.push(it)),
            };
            if found.is_none() {
                missing.push(title);
            }
        }
        let found = rows::All { compiled, installed, with_libraries, counted };
        let libraries = WITH_LIBRARIES.map(|(line, library)| format!("{line}` with `{library}*"));
        let mut page = rows::page(&found, &COMMANDS.map(spelled), &libraries);
        if !missing.is_empty() {
            page.push_str(&format!("\nNot made yet: {}.\n", missing.join(", ")));
        }
        let wrong: Vec<&String> = found.compared().flat_map(|it| &it.wrong).collect();
        if !wrong.is_empty() {
            page.push_str("\n## What is wrong\n\n");
            wrong.iter().for_each(|what| page.push_str(&format!("- `{what}`\n")));
        }
        std::fs::write(workspace::root().join(PAGE), page).context("cannot write the page")?;
        println!("\n{PAGE}: {} parts", parts.len() - missing.len());
        ensure!(wrong.is_empty(), "{} things are wrong, see {PAGE}", wrong.len());
        ensure!(missing.is_empty(), "not made: {}", missing.join(", "));
        Ok(())
    }
}

/// Builds the test; where it is.
fn build_test() -> Result<PathBuf> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-trace", "--test", "breakpoints"]);
    cargo.args(["--no-run", "--message-format", "json-render-diagnostics"]);
    let output = command::output(&mut cargo)?;
    let messages = output.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let of_test = messages.filter(|message| message["target"]["name"] == "breakpoints");
    let mut executables = of_test.filter_map(|it| Some(it["executable"].as_str()?.to_owned()));
    let executable = executables.next();
    Ok(executable.context("cargo built no test")?.into())
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap_or_default()
}
