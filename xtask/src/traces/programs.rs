//! What is traced: fixtures, random programs, and real ones with short inputs.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result};

use super::comparison::{Found, Subject};
use super::ways::{self, Way};
use crate::bench::profile::subject::{Input, Work};
use crate::bench::profile::variant::carried;
use crate::corpus::tree::Workshop;
use crate::crashes::programs::{inputs, subject};
use crate::{command, workspace};

/// A fixture of the tests.
pub struct Fixture {
    /// Its file, in the folder of fixtures.
    pub file: &'static str,
    /// How it is optimised.
    pub level: &'static str,
    /// What it is told.
    pub arguments: &'static [&'static str],
    /// What happens in it.
    pub has: &'static str,
    /// Whether it is traced in every way, or as real programs are.
    pub is_small: bool,
}

const FIXTURES_FOLDER: &str = "crates/cli/tests/fixtures";

const fn fixture(
    file: &'static str,
    level: &'static str,
    arguments: &'static [&'static str],
    has: &'static str,
) -> Fixture {
    Fixture { file, level, arguments, has, is_small: true }
}

const fn larger(fixture: Fixture) -> Fixture {
    Fixture { is_small: false, ..fixture }
}

/// All that are traced.
pub const FIXTURES: [Fixture; 16] = [
    fixture("trace/jumps.c", "-O1", &[], "longjmp out of nested calls"),
    fixture("trace/pointers.c", "-O1", &[], "calls and jumps by pointers, callbacks"),
    fixture("trace/signals.c", "-O1", &[], "handlers of signals that it raises"),
    fixture("trace/threads.c", "-O1", &[], "threads"),
    fixture("trace/thread_ends.c", "-O1", &[], "destructors of what threads hold"),
    larger(fixture("trace/thread_ends.cc", "-O1", &[], "threads that C++ starts")),
    larger(fixture("trace/unwinding.cc", "-O2", &[], "exceptions")),
    fixture("trace/loops.c", "-O0", &["7"], "loops that are counted"),
    fixture("trace/vfork.c", "-O1", &[], "children in the frames of their parent"),
    fixture("trace/forks.c", "-O1", &["nested"], "children that fork"),
    fixture(
        "trace/tail_forks.c",
        "-O2",
        &["thread that returns", "report"],
        "children that a thread forks and that end with it",
    ),
    fixture("trace/endings.c", "-O1", &["exit"], "an end in the middle"),
    larger(fixture("oracle/control.c", "-O1", &["one", "two"], "all kinds of control flow")),
    larger(fixture("profile/words.c", "-O2", &["9"], "a table of words")),
    larger(fixture("profile/squeeze.c", "-O2", &["1"], "a compressor")),
    larger(fixture("profile/shapes.cc", "-O1", &["3"], "virtual calls, containers")),
];

impl Fixture {
    /// Its name on the page.
    pub fn name(&self) -> &'static str {
        self.file.rsplit('/').next().unwrap_or(self.file)
    }

    fn ways(&self) -> Vec<Way> {
        if self.is_small { ways::all() } else { ways::of_large(RANDOM_LIMIT) }
    }

    /// Builds and compares it.
    pub fn compare(&self, tool: &Path, folder: &Path) -> Result<Found> {
        let source = workspace::root().join(FIXTURES_FOLDER).join(self.file);
        let executable = folder.join("program");
        let compiler = if self.file.ends_with(".cc") { "c++" } else { "cc" };
        let mut compile = Command::new(tool.join("backtrail"));
        compile.args([compiler, self.level, "-pthread"]).arg("-o").arg(&executable).arg(source);
        if compiler == "c++" {
            compile.arg("-std=c++20");
        }
        command::output(compile.env("BACKTRAIL_CACHE", folder.join("cache")))?;
        let arguments = self.arguments.iter().map(|it| it.to_string()).collect();
        let subject = Subject { tool, folder, executable, arguments, input: None, varies: None };
        subject.compare(self.name(), &self.ways())?.context("the log of a fixture is too long")
    }
}

/// Where Debian's libcsmith-dev has the header that random programs include.
const HEADERS: &str = "/usr/include/csmith";

/// Seconds that a random program may take.
const PATIENCE: &str = "1";

/// In how many ways each random program is traced.
pub const WAYS_OF_RANDOM: usize = 3;

/// The limit of places in a run of it.
pub const RANDOM_LIMIT: &str = "50";

/// Builds and compares the random program of a seed; nothing if it takes too long or
/// does too much.
pub fn compare_random(tool: &Path, folder: &Path, seed: u64) -> Result<Option<Found>> {
    let (source, executable) = (folder.join("x.c"), folder.join("program"));
    let mut csmith = Command::new("csmith");
    csmith.arg("--seed").arg(seed.to_string()).arg("--output").arg(&source);
    command::output(csmith.current_dir(folder))
        .context("csmith comes with Debian's package of that name")?;
    let level = ["-O0", "-O2"][seed as usize / 2 % 2];
    let mut compile = Command::new(tool.join("backtrail"));
    compile.args(["cc", "-w", level, "-I", HEADERS, "-o"]).arg(&executable).arg(&source);
    command::output(compile.env("BACKTRAIL_CACHE", folder.join("cache")))?;
    let mut alone = Command::new("timeout");
    if !command::capture(alone.arg(PATIENCE).arg(&executable))?.status.success() {
        return Ok(None);
    }
    let arguments = Vec::new();
    let subject = Subject { tool, folder, executable, arguments, input: None, varies: None };
    subject.compare(&format!("seed {seed}"), &ways::in_turns(RANDOM_LIMIT, seed, WAYS_OF_RANDOM))
}

/// A real program, with an input that takes less than some million blocks.
pub struct Real {
    /// Its name, in the benchmarks.
    pub name: &'static str,
    work: Work,
    size: Size,
}

enum Size {
    Large { limit: &'static str },
    Largest,
    Huge,
}

const SED: &[&str] =
    &["-E", "s/([a-z]+) ([a-z]+)/\\2 \\1/g;/[0-9]{3,}/{h;s/[^0-9]//g;G};y/abc/xyz/"];

/// All that are traced.
pub const REAL: [Real; 7] = [
    real("bzip2", &["-c"], Input::Mixed(2, 30_000), Size::Large { limit: "200" }),
    real("gzip", &["-9nc"], Input::Mixed(2, 60_000), Size::Large { limit: "400" }),
    real("sed", SED, Input::Text(2, 6_000), Size::Large { limit: "1000" }),
    real("grep", &["-nE", r"\b([a-z])[a-z]*\1\b|[0-9]{3,}"], Input::Text(2, 6_000), Size::Largest),
    real("flex", &["-t", "INPUT"], Input::Scanner(2, 20, 3), Size::Largest),
    real("lua5.4", &["INPUT", "1", "2"], Input::Lua, Size::Largest),
    real("sqlite3", &["-batch", ":memory:"], Input::Sql(2, 200), Size::Huge),
];

const fn real(
    name: &'static str,
    arguments: &'static [&'static str],
    input: Input,
    size: Size,
) -> Real {
    Real { name, work: Work { arguments, input }, size }
}

impl Real {
    /// In which ways it is traced.
    pub fn ways(&self) -> Vec<Way> {
        match self.size {
            Size::Large { limit } => ways::of_large(limit),
            Size::Largest => ways::of_largest(),
            Size::Huge => ways::of_huge(),
        }
    }

    /// A file of it whose code looks at how memory is mapped: logs are mapped, too.
    pub fn varies(&self) -> Option<&'static str> {
        (self.name == "grep").then_some("stackvma.c")
    }

    /// What it is run with.
    pub fn arguments(&self) -> String {
        self.work.arguments.join(" ")
    }

    /// Builds and compares it.
    pub fn compare(&self, workshop: &Workshop, folder: &Path) -> Result<Found> {
        let (executable, version) = carried(workshop, subject(self.name)?)?;
        let (arguments, input): (_, Option<PathBuf>) = inputs(&self.work, &folder.join("input"))?;
        let subject = Subject {
            tool: &workshop.tool,
            folder,
            executable,
            arguments,
            input,
            varies: self.varies(),
        };
        let found = subject.compare(&format!("{} {version}", self.name), &self.ways())?;
        found.with_context(|| format!("the log of {} is too long", self.name))
    }
}
