//! `cargo xtask fuzz readers`: inputs that coverage chooses, for every reader.
//!
//! The targets are the files in `fuzz/src/bin`; a new file there is a new
//! target, and no list has to know. They are built by stable Rust: the coverage
//! that libFuzzer goes by is a pass of LLVM's, which needs no unstable option,
//! and a sanitizer is not needed where nothing is unsafe. First inputs are made
//! anew from programs that are built, run and recorded for that; what was found
//! since is kept in the target folder and gone on with.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

use crate::packages::Need;
use crate::workspace::{self, Profile};
use crate::{command, setup, terminal};

/// Seconds for a target if nothing else is said, and at least, so that the page
/// is written.
const SECONDS: u64 = 60;

/// The longest input; seeds that are longer are cut by libFuzzer.
const LONGEST: usize = 1 << 16;

/// An input that takes longer than this is a finding.
const PATIENCE: u32 = 25;

/// Megabytes; a target that takes more is a finding.
const MEMORY: u32 = 2048;

/// What libFuzzer goes by; `cargo fuzz` asks for the same.
const COVERAGE: &[&str] = &[
    "-Cpasses=sancov-module",
    "-Cllvm-args=-sanitizer-coverage-level=4",
    "-Cllvm-args=-sanitizer-coverage-inline-8bit-counters",
    "-Cllvm-args=-sanitizer-coverage-pc-table",
    "-Cllvm-args=-sanitizer-coverage-trace-compares",
    "--cfg=fuzzing",
    "-Ccodegen-units=1",
];

/// What `cargo xtask fuzz readers` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Seconds for each target
    #[arg(long, default_value_t = SECONDS)]
    seconds: u64,
    /// Only this target
    #[arg(long, value_name = "TARGET")]
    only: Option<String>,
    /// Forget the inputs that earlier runs found
    #[arg(long)]
    afresh: bool,
}

/// What came of a target.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Outcome {
    target: String,
    reads: String,
    first: usize,
    executions: u64,
    edges: u64,
    features: u64,
    /// The file with the input that broke it.
    finding: Option<PathBuf>,
}

/// Runs every target for a while.
pub fn run(options: &Options) -> Result<()> {
    setup::run(Need::Test, &options.installing)?;
    let targets = targets()?;
    if let Some(only) = &options.only {
        let known = targets.iter().any(|(name, _)| name == only);
        let names: Vec<&str> = targets.iter().map(|(name, _)| name.as_str()).collect();
        ensure!(known, "there is no target {only}; there are {}", names.join(", "));
    }
    let work = workspace::target()?.join("fuzz");
    let tool = workspace::build_tool(Profile::Dev)?;
    terminal::heading("Fixtures");
    let fixtures = make_fixtures(&tool, &work.join("fixtures"))?;
    terminal::heading("Targets");
    let programs = build_targets(&work.join("build"))?;
    let mut outcomes = Vec::new();
    for (target, reads) in &targets {
        if options.only.as_ref().is_some_and(|only| only != target) {
            continue;
        }
        let place = Place::new(&work, &programs, target, options.afresh)?;
        terminal::heading(&format!("{target}, {} s", options.seconds));
        let first = place.write_first_inputs(&fixtures)?;
        let outcome = Outcome {
            target: target.clone(),
            reads: reads.clone(),
            first,
            ..place.fuzz(options.seconds)?
        };
        if let Some(finding) = &outcome.finding {
            println!("{} {}", terminal::red("FINDING"), workspace::shown(finding));
        }
        outcomes.push(outcome);
    }
    let rows = outcomes.iter().map(Outcome::row);
    let rows: Vec<Vec<String>> = std::iter::once(heading()).chain(rows).collect();
    println!("\n{}", terminal::table(&rows).trim_end());
    let findings: Vec<&str> =
        outcomes.iter().filter(|it| it.finding.is_some()).map(|it| it.target.as_str()).collect();
    ensure!(findings.is_empty(), "findings in {}", findings.join(", "));
    if options.only.is_none() && options.seconds >= SECONDS {
        write_page(options.seconds, &outcomes)?;
    }
    Ok(())
}

/// The folder of the package of targets.
fn package() -> PathBuf {
    workspace::root().join("fuzz")
}

/// The targets, by name, each with what it reads: the start of its first
/// sentence.
pub fn targets() -> Result<Vec<(String, String)>> {
    let folder = package().join("src/bin");
    let entries = std::fs::read_dir(&folder)
        .with_context(|| format!("cannot list {}", workspace::shown(&folder)))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry?.path();
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", workspace::shown(&path)))?;
        let header = text.lines().take_while(|line| line.starts_with("//!"));
        let header: Vec<&str> = header.map(|line| line.trim_start_matches("//!").trim()).collect();
        let header = header.join(" ");
        let reads = header.split(['.', ':', ',']).next().unwrap_or_default().to_owned();
        ensure!(!reads.is_empty(), "{} does not say what it reads", workspace::shown(&path));
        found.push((name, reads));
    }
    found.sort();
    Ok(found)
}

/// Builds all targets and returns the folder they are in.
fn build_targets(folder: &Path) -> Result<PathBuf> {
    let version = command::output(Command::new("rustc").arg("-vV"))?;
    let host = version.lines().find_map(|line| line.strip_prefix("host: "));
    let host = host.context("rustc -vV names no host")?;
    // The versions are the workspace's own; cargo adds what only the targets use.
    std::fs::copy(workspace::root().join("Cargo.lock"), package().join("Cargo.lock"))
        .context("cannot copy Cargo.lock")?;
    let mut cargo = workspace::cargo();
    // With a target named, the flags are not those of build scripts.
    cargo.args(["build", "--release", "--bins", "--target", host]);
    cargo.current_dir(package()).env("CARGO_TARGET_DIR", folder);
    cargo.env_remove("RUSTFLAGS").env("CARGO_ENCODED_RUSTFLAGS", COVERAGE.join("\x1f"));
    command::run(&mut cargo)?;
    Ok(folder.join(host).join("release"))
}

/// Makes the files that first inputs are made from.
fn make_fixtures(tool: &Path, folder: &Path) -> Result<PathBuf> {
    if folder.exists() {
        std::fs::remove_dir_all(folder)
            .with_context(|| format!("cannot empty {}", folder.display()))?;
    }
    std::fs::create_dir_all(folder)?;
    let source = workspace::root().join("crates/cli/tests/fixtures/profile/squeeze.c");
    let source = source.to_str().context("the path of the repository is not text")?;
    let backtrail = tool.join("backtrail");
    let backtrail = backtrail.to_str().context("the path of the tool is not text")?;
    let run = |program: &str, arguments: &[&str], records: Option<&str>| -> Result<()> {
        let mut command = Command::new(program);
        command.args(arguments).current_dir(folder);
        if let Some(records) = records {
            command.env("BACKTRAIL_DIR", folder.join(records));
        }
        command::output(&mut command).map(drop)
    };
    let clang = "clang-19";
    run(backtrail, &["cc", "-O1", "-g", source, "-o", "program"], None)?;
    run(backtrail, &["profile", "./program"], None)?;
    for scheme in ["log", "profile"] {
        let variant = format!("program.{scheme}");
        run(backtrail, &["instrument", "--scheme", scheme, "-o", &variant, "program"], None)?;
        run(&folder.join(&variant).to_string_lossy(), &[], Some(&format!("records-{scheme}")))?;
    }
    run(backtrail, &["trace", "./program"], None)?;
    run(clang, &["-O1", "-g", source, "-o", "code"], None)?;
    run(backtrail, &["trace", "--witness", "breakpoint", "./code"], None)?;
    run(backtrail, &["extract", "program", "-o", "models"], None)?;
    for scheme in ["pt", "full"] {
        let variant = format!("program.{scheme}");
        run(backtrail, &["instrument", "--scheme", scheme, "-o", &variant, "program"], None)?;
    }
    let kinds = workspace::root().join("crates/cli/tests/crash_truth/fixtures/kinds.c");
    let kinds = kinds.to_str().context("the path of the repository is not text")?;
    run(clang, &["-O1", "-g", "-pthread", kinds, "-o", "kinds"], None)?;
    for (core, kind) in [("core.plain", "segfault"), ("core.threads", "thread")] {
        let save = format!("generate-core-file {core}");
        let words = ["-nx", "-batch", "-ex", "run", "-ex", &save, "--args", "./kinds", kind];
        run("gdb", &words, None)?;
    }
    run(clang, &["-O1", source, "-o", "plain"], None)?;
    run(clang, &["-O1", "-ffunction-sections", "-c", source, "-o", "plain.o"], None)?;
    let library = ["-O1", "-shared", "-fPIC", "-Wl,-soname,plain.so", "-Wl,-rpath,/opt/lib"];
    run(clang, &[&library[..], &[source, "-o", "plain.so"]].concat(), None)?;
    run("strip", &["plain", "-o", "stripped"], None)?;
    Ok(folder.to_owned())
}

/// The files of one target.
struct Place {
    program: PathBuf,
    inputs: PathBuf,
    findings: PathBuf,
}

impl Place {
    fn new(work: &Path, programs: &Path, target: &str, afresh: bool) -> Result<Self> {
        let place = Self {
            program: programs.join(target),
            inputs: work.join("inputs").join(target),
            findings: work.join("findings").join(target),
        };
        if afresh && place.inputs.exists() {
            std::fs::remove_dir_all(&place.inputs)?;
        }
        for folder in [&place.inputs, &place.findings] {
            std::fs::create_dir_all(folder)
                .with_context(|| format!("cannot make {}", folder.display()))?;
        }
        Ok(place)
    }

    /// Has the target write its first inputs; how many there are.
    fn write_first_inputs(&self, fixtures: &Path) -> Result<usize> {
        let mut command = Command::new(&self.program);
        command.env("BACKTRAIL_FUZZ_FIXTURES", fixtures);
        command.env("BACKTRAIL_FUZZ_INPUTS", &self.inputs);
        command::output(&mut command)?;
        let is_first = |name: &std::ffi::OsStr| name.to_string_lossy().starts_with("first-");
        let names =
            std::fs::read_dir(&self.inputs)?.filter_map(|entry| Some(entry.ok()?.file_name()));
        let count = names.filter(|name| is_first(name)).count();
        ensure!(count > 0, "{} made no first inputs", self.program.display());
        Ok(count)
    }

    /// Runs the target; what libFuzzer says at the end.
    fn fuzz(&self, seconds: u64) -> Result<Outcome> {
        let mut command = Command::new(&self.program);
        command.arg(&self.inputs);
        command.args([
            format!("-max_total_time={seconds}"),
            format!("-max_len={LONGEST}"),
            format!("-timeout={PATIENCE}"),
            format!("-rss_limit_mb={MEMORY}"),
            format!("-artifact_prefix={}/", self.findings.display()),
            "-print_final_stats=1".to_owned(),
            "-use_value_profile=1".to_owned(),
        ]);
        command.env_remove("BACKTRAIL_FUZZ_FIXTURES");
        let output = command::capture(&mut command)?;
        let said = String::from_utf8_lossy(&output.stderr);
        let finding = said
            .lines()
            .find_map(|line| line.split_once("Test unit written to "))
            .map(|(_, path)| PathBuf::from(path.trim()));
        if !output.status.success() {
            let why = said.lines().skip_while(|line| !line.contains("panicked at"));
            why.take(8).for_each(|line| println!("{line}"));
            println!("{}", command::tail(&said, 12));
            if finding.is_none() {
                bail!("{} failed ({})", command::shown(&command), output.status);
            }
        }
        // One of the first inputs may be a finding.
        let reached = last_status(&said);
        ensure!(
            reached.is_some() || finding.is_some(),
            "{} says nothing of what it reached",
            self.program.display()
        );
        if let Some(reached) = &reached {
            println!("{}", reached.line);
        }
        let (executed, edges, features) =
            reached.map_or((0, 0, 0), |it| (it.executions, it.edges, it.features));
        Ok(Outcome {
            target: String::new(),
            reads: String::new(),
            first: 0,
            executions: executions(&said).unwrap_or(executed),
            edges,
            features,
            finding,
        })
    }
}

/// The last line in which libFuzzer says how far it got.
#[derive(Debug, PartialEq, Eq)]
struct Reached<'a> {
    line: &'a str,
    executions: u64,
    edges: u64,
    features: u64,
}

/// `#2048 pulse  cov: 12 ft: 34 corp: …`
fn last_status(said: &str) -> Option<Reached<'_>> {
    said.lines().rev().find_map(|line| {
        let rest = line.strip_prefix('#')?;
        let after = |name: &str| {
            let (_, rest) = rest.split_once(name)?;
            rest.split_whitespace().next()?.parse().ok()
        };
        let executions = rest.split_whitespace().next()?.parse().ok()?;
        Some(Reached { line, executions, edges: after(" cov: ")?, features: after(" ft: ")? })
    })
}

/// `stat::number_of_executed_units: 123`
fn executions(said: &str) -> Option<u64> {
    let line = said.lines().find(|line| line.starts_with("stat::number_of_executed_units"))?;
    line.rsplit(' ').next()?.parse().ok()
}

fn heading() -> Vec<String> {
    ["target", "reads", "first inputs", "executions", "edges", "features", "result"]
        .map(str::to_owned)
        .to_vec()
}

impl Outcome {
    fn row(&self) -> Vec<String> {
        let result = match self.finding {
            None => "nothing found",
            Some(_) => "FINDING",
        };
        vec![
            self.target.clone(),
            self.reads.clone(),
            self.first.to_string(),
            self.executions.to_string(),
            self.edges.to_string(),
            self.features.to_string(),
            result.to_owned(),
        ]
    }
}

/// Writes what came out to `docs/fuzzing.md`.
fn write_page(seconds: u64, outcomes: &[Outcome]) -> Result<()> {
    let path = workspace::root().join("docs/fuzzing.md");
    std::fs::write(&path, page(seconds, outcomes))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("\n{}", workspace::shown(&path));
    Ok(())
}

fn page(seconds: u64, outcomes: &[Outcome]) -> String {
    let mut page = format!(
        "# Readers on bad input\n\n\
         Everything that Backtrail reads was written by something that may have been killed, by a \
         disk that was full, or by another version. Each reader has a target in `fuzz/src/bin`, \
         which [libFuzzer](https://llvm.org/docs/LibFuzzer.html) gives inputs that get further and \
         further into it. A target fails on a panic, an overflow, more than {MEMORY} MB, more than \
         {PATIENCE} s for an input, and if what was read does not hold together: it is written and \
         read again, or compared with a slow twin. Where a sum is checked, half of the inputs are \
         put into a container whose sum is right, so that what is behind it is reached.\n\n\
         ```sh\n\
         cargo xtask fuzz readers [--seconds N] [--only TARGET]\n\
         ```\n\n\
         First inputs are made from a program that is built, run and recorded for that. This table \
         is of {seconds} seconds for each target; edges are those of the compiled code, features \
         count what was compared in it, too.\n\n"
    );
    let mut line = |cells: Vec<String>| {
        let _ = writeln!(page, "| {} |", cells.join(" | "));
    };
    line(heading());
    line(["---", "---", "---:", "---:", "---:", "---:", "---"].map(str::to_owned).to_vec());
    for outcome in outcomes {
        let mut row = outcome.row();
        row[0] = format!("`{}`", row[0]);
        line(row);
    }
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_says_what_it_reads() {
        let targets = targets().unwrap();
        assert!(targets.len() >= 8, "{targets:?}");
        assert!(
            targets.iter().any(|(name, reads)| name == "profile_file" && reads == "Profile files")
        );
    }

    #[test]
    fn what_was_reached_is_in_the_last_line_that_says_it() {
        let said = "#2\tINITED cov: 3 ft: 4 corp: 1/1b exec/s: 0 rss: 30Mb\n\
                    #2048\tDONE   cov: 12 ft: 34 corp: 5/9b lim: 4 exec/s: 0 rss: 30Mb\n\
                    Done 2048 runs in 2 second(s)\n\
                    stat::number_of_executed_units: 2050\n";
        let reached = last_status(said).unwrap();
        assert_eq!((reached.executions, reached.edges, reached.features), (2048, 12, 34));
        assert_eq!(executions(said), Some(2050));
        assert_eq!(last_status("nothing\n"), None);
    }
}
