//! `cargo xtask bench trace`: what the whole trace of a run costs, with probes.
//!
//! The programs, builds and inputs are those of [`super::profile`]. Of a run that
//! observes all that is needed: its time and instructions, and how much is logged
//! and written, beside a log of every block. Of several runs: how often the
//! witnesses of the worst are passed, as `backtrail trace --costs` computes it, with
//! the weights of that very run and with guessed ones, and what no plan is below.

mod block_words;
mod chart;
mod report;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::profile::run::Bench;
use super::profile::subject::{SUBJECTS, Subject};
use super::profile::{check_output, variant};
use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::kept::Kept;
use crate::packages::Need;
use crate::{command, corpus, setup, terminal, workspace};

/// What `cargo xtask bench trace` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How often everything is timed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// How long plans for several runs may be computed, in seconds
    #[arg(long, value_name = "SECONDS", default_value_t = 900)]
    patience: u32,
    /// Only plans for several runs; nothing is timed
    #[arg(long, conflicts_with = "only_runs")]
    only_plans: bool,
    /// Only the run that observes everything
    #[arg(long)]
    only_runs: bool,
}

/// What was measured of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Which version of the package.
    pub version: String,
    /// What one run takes, if it was measured.
    pub single: Option<Single>,
    /// What several runs take, as far as it was computed in time.
    pub several: Option<Several>,
}

/// What is measured at once, and kept.
trait Part: Serialize + serde::de::DeserializeOwned {
    const NAME: &'static str;
}

impl Part for Single {
    const NAME: &'static str = "one";
}

impl Part for Several {
    const NAME: &'static str = "several";
}

/// One run that observes all that is needed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Single {
    /// Executed blocks.
    pub blocks: u64,
    /// Witnesses passed.
    pub hits: u64,
    /// Words that were logged for them.
    pub words: u64,
    /// Bytes of the trace file.
    pub bytes: u64,
    /// Bits per block that telling each block's successor takes, knowing how often
    /// each follows.
    pub entropy: f64,
    /// Bytes of a log of every block, compressed by zstd.
    pub zstd: u64,
    /// Instructions of the original and with probes.
    pub instructions: (u64, u64),
    /// Seconds of both, in user mode and in the kernel, the least of several in
    /// turns: by the clock, other work on the machine would show.
    pub seconds: (f64, f64),
    /// Seconds that the latter spent in the kernel.
    pub kernel: f64,
}

/// Plans for several runs.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Several {
    /// Hits of the best plan for one run, and of one that was made with guesses.
    pub single: (u64, u64),
    /// What strategies reach.
    pub shares: Vec<Share>,
    /// By limit: what it takes.
    pub limits: Vec<(u64, Limited)>,
    /// Whether time did not suffice for all of it.
    pub is_cut: bool,
}

/// What a limit of witnesses in an execution takes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Limited {
    /// So many executions, and the share of the worst.
    Fits(u64, f64),
    /// More executions than are planned.
    MoreThan(u64),
    /// Two ways of some predicate cannot be told apart with so few.
    DoesNotFit,
    /// There are too many pairs of ways to plan with a limit.
    NotPlanned,
}

/// Hits of the worst run, as shares of the hits of one run that observes all.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Share {
    /// How many runs.
    pub runs: u64,
    /// Which strategy.
    pub strategy: String,
    /// With weights.
    pub trained: f64,
    /// With guesses.
    pub guessed: f64,
    /// What no plan is below.
    pub bound: f64,
}

impl Several {
    /// The least that a strategy reaches, with the bound.
    pub fn best(&self, runs: u64) -> Option<(f64, f64, f64)> {
        let of = self.shares.iter().filter(|share| share.runs == runs);
        of.map(|it| (it.trained, it.guessed, it.bound))
            .reduce(|one, other| (one.0.min(other.0), one.1.min(other.1), one.2))
    }
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    options.choice.check(SUBJECTS.iter().map(|subject| subject.name))?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = corpus::workshop(None, "profile-")?;
    let mut failures = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| options.choice.wants(subject.name)) {
        if let Err(error) = measure(&workshop, subject, options) {
            terminal::error(&error);
            failures.push(subject.name);
        }
    }
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for subject in SUBJECTS {
        let single = kept::<Single>(&workshop, subject)?;
        let several = kept::<Several>(&workshop, subject)?;
        if single.is_none() {
            missing.push(format!("{} in one run", subject.name));
        }
        if several.is_none() {
            missing.push(format!("{} in several", subject.name));
        }
        let version = single.as_ref().map(|it| &it.0).or(several.as_ref().map(|it| &it.0));
        if let Some(version) = version.cloned() {
            let (single, several) = (single.map(|it| it.1), several.map(|it| it.1));
            rows.push(Row { name: subject.name.to_owned(), version, single, several });
        }
    }
    println!("{}", report::terminal(&rows));
    let docs = workspace::root().join("docs");
    std::fs::write(docs.join("bench-trace.md"), report::page(&rows, &missing))?;
    std::fs::write(docs.join("bench-trace.svg"), chart::svg(&rows))?;
    println!("wrote docs/bench-trace.md and docs/bench-trace.svg");
    ensure!(failures.is_empty(), "not measured: {}", failures.join(", "));
    Ok(())
}

fn measure(workshop: &Workshop, subject: &Subject, options: &Options) -> Result<()> {
    let needs_single = !options.only_plans
        && (options.choice.again || kept::<Single>(workshop, subject)?.is_none());
    let needs_several = !options.only_runs
        && (options.choice.again || kept::<Several>(workshop, subject)?.is_none());
    if !needs_single && !needs_several {
        return Ok(());
    }
    terminal::heading(subject.name);
    let bench = Bench::new(workshop, subject.name)?;
    let (carried, version) = variant::carried(workshop, subject)?;
    if needs_several {
        println!("plans for several runs");
        let several = plan_several(workshop, &bench, &carried, subject, options.patience)?;
        keep(workshop, subject, &version, &several)?;
    }
    if needs_single {
        println!("one run");
        let single = measure_single(workshop, &bench, &carried, subject, options.rounds)?;
        keep(workshop, subject, &version, &single)?;
    }
    Ok(())
}

fn measure_single(
    workshop: &Workshop,
    bench: &Bench,
    carried: &Path,
    subject: &Subject,
    rounds: usize,
) -> Result<Single> {
    let work = &subject.counted;
    let (file, keep) = (bench.file("run.bttrace"), bench.file("traced"));
    let _ = std::fs::remove_dir_all(&keep);
    let mut trace = workshop.backtrail();
    trace.args(["trace", "--quiet", "--explain", "-o"]).arg(&file);
    trace.arg("--keep").arg(&keep).arg(carried).arg("--");
    let (traced, said) = bench.run_and_listen(&trace, work)?;
    let (hits, blocks) = explained(&said).context("the trace does not say what it has")?;
    let name = carried.file_name().context("an executable has a name")?;
    let probed = keep.join("run-1").join(name);
    check_output("the traced run", &bench.run(carried, work)?.output, &traced.output)?;
    bench.run(&probed, work)?;
    let words = block_words::count(&threads(&bench.records())?)?;

    let logging = bench.file("log-variant");
    let mut instrument = workshop.backtrail();
    instrument.args(["instrument", "--quiet", "--scheme", "log", "-o"]).arg(&logging);
    command::output(instrument.arg(carried))?;
    bench.run(&logging, work)?;
    let logged = block_words::summarize(&threads(&bench.records())?)?;
    // What a program does may depend on its name, which is another one there.
    if logged.words != blocks {
        let whole = bench.file("log.bttrace");
        let mut trace = workshop.backtrail();
        trace.args(["trace", "--quiet", "--strategy", "log", "-o"]).arg(&whole);
        bench.run_as(trace.arg(carried).arg("--"), work)?;
        let mut show = workshop.backtrail();
        show.args(["show", "--json", "--count", "1"]).arg(&whole);
        let found = traced_blocks(&command::output(&mut show)?).context("odd trace")?;
        ensure!(found == blocks, "the trace has {blocks} blocks and a log of all of them {found}");
    }
    println!("instructions");
    let instructions =
        (bench.count_instructions(carried, work)?.0, bench.count_instructions(&probed, work)?.0);
    println!("{rounds} rounds");
    let (mut seconds, mut kernel) = ((f64::INFINITY, f64::INFINITY), f64::INFINITY);
    for _ in 0..rounds {
        let usage = bench.run(carried, &subject.timed)?.usage;
        seconds.0 = (usage.user + usage.kernel).min(seconds.0);
        // Logs are packed by another process, whose time is not the program's.
        let _ = std::fs::remove_dir_all(bench.records());
        let mut run = workshop.backtrail();
        run.arg("run").arg(&probed).arg("--");
        let (_, said) = bench.run_and_listen(&run, &subject.timed)?;
        let (user, system) = taken(&said).context("the run does not say what it took")?;
        if user + system < seconds.1 {
            (seconds.1, kernel) = (user + system, system);
        }
    }
    let bytes = std::fs::metadata(&file)?.len();
    let _ = std::fs::remove_dir_all(bench.records());
    let (entropy, zstd) = (logged.entropy, logged.zstd);
    Ok(Single { blocks, hits, words, bytes, entropy, zstd, instructions, seconds, kernel })
}

/// Witnesses and blocks, of all threads, as `--explain` says them.
fn explained(said: &str) -> Option<(u64, u64)> {
    let number = |text: &str| text.replace(',', "").parse::<u64>().ok();
    let (mut hits, mut blocks) = (0, 0);
    for line in said.lines() {
        let Some((_, rest)) = line.split_once(" thread ") else { continue };
        let Some((_, counts)) = rest.split_once(": ") else { continue };
        let (events, steps) = counts.split_once(" events, ")?;
        hits += number(events)?;
        blocks += number(steps.strip_suffix(" blocks")?)?;
    }
    (blocks > 0).then_some((hits, blocks))
}

/// Seconds in user mode and in the kernel, as `backtrail run` says them.
fn taken(said: &str) -> Option<(f64, f64)> {
    let times = said.lines().find_map(|line| line.strip_prefix("backtrail: the run took "))?;
    let (user, kernel) = times.split_once(" s in user mode and ")?;
    Some((user.parse().ok()?, kernel.strip_suffix(" s in the kernel")?.parse().ok()?))
}

/// The blocks of all threads, as the first line of `show --json` says.
fn traced_blocks(shown: &str) -> Option<u64> {
    let header: serde_json::Value = serde_json::from_str(shown.lines().next()?).ok()?;
    header["threads"].as_array()?.iter().map(|thread| thread["blocks"].as_u64()).sum()
}

/// The logs of all threads of all processes.
fn threads(records: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for folder in std::fs::read_dir(records)? {
        for file in std::fs::read_dir(folder?.path())? {
            let path = file?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if name.starts_with("thread-") {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn plan_several(
    workshop: &Workshop,
    bench: &Bench,
    carried: &Path,
    subject: &Subject,
    patience: u32,
) -> Result<Several> {
    let profile = bench.file("run.btprof");
    let mut command = workshop.backtrail();
    command.args(["profile", "--quiet", "-o"]).arg(&profile).arg(carried).arg("--");
    bench.run_as(&command, &subject.counted)?;
    let tool = workshop.backtrail();
    let mut costs = Command::new("timeout");
    costs.arg(patience.to_string()).arg(tool.get_program());
    costs.args(["trace", "--costs", "--weights"]).arg(&profile).arg(carried);
    let output = costs.output()?;
    let is_cut = output.status.code() == Some(124);
    ensure!(is_cut || output.status.success(), "{} fails", command::shown(&costs));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let several = read_costs(&text).with_context(|| format!("odd costs: {text}"))?;
    Ok(Several { is_cut, ..several })
}

/// What `backtrail trace --costs` prints.
fn read_costs(text: &str) -> Option<Several> {
    let number = |text: &str| text.trim_matches(',').replace(',', "").parse::<u64>().ok();
    let mut several = Several::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        match words[..] {
            ["single", "run:", hits, "hits,", "planned", "without", "weights", blind] => {
                several.single = (number(hits)?, number(blind)?);
            }
            [runs, strategy, _, trained, _, guessed, bound] if number(runs).is_some() => {
                several.shares.push(Share {
                    runs: number(runs)?,
                    strategy: strategy.to_owned(),
                    trained: trained.parse().ok()?,
                    guessed: guessed.parse().ok()?,
                    bound: bound.parse().ok()?,
                });
            }
            ["limit", limit, executions, "executions,", .., share, "of", "single)"] => {
                let limit = number(limit.trim_end_matches(':'))?;
                let share = share.trim_start_matches('(').parse().ok()?;
                several.limits.push((limit, Limited::Fits(number(executions)?, share)));
            }
            ["limit", limit, .., "more", "than", most, "executions:", _, _, _, _] => {
                let limit = number(limit.trim_end_matches(':'))?;
                several.limits.push((limit, Limited::MoreThan(number(most)?)));
            }
            ["limit", limit, "with", "a", "limit,", ..] => {
                several.limits.push((number(limit.trim_end_matches(':'))?, Limited::NotPlanned));
            }
            ["limit", limit, ..] => {
                several.limits.push((number(limit.trim_end_matches(':'))?, Limited::DoesNotFit));
            }
            _ => {}
        }
    }
    (several.single.0 > 0).then_some(several)
}

/// What is kept of a program with this tool.
fn rows(workshop: &Workshop, subject: &Subject) -> Result<Kept> {
    let stamp = format!("{} {}", workshop.tool_stamp()?, subject.stamp());
    Kept::new(workshop.folder.join("trace-rows"), stamp)
}

fn keep<P: Part>(workshop: &Workshop, subject: &Subject, version: &str, part: &P) -> Result<()> {
    let name = format!("{} {}", subject.name, P::NAME);
    rows(workshop, subject)?.put(&name, &(version, part))
}

/// The version of the program, and what was measured of it with this tool.
fn kept<P: Part>(workshop: &Workshop, subject: &Subject) -> Result<Option<(String, P)>> {
    Ok(rows(workshop, subject)?.get(&format!("{} {}", subject.name, P::NAME)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_explained_is_read() {
        let said = "backtrail: 3 routines\n\
                    backtrail: process 7 thread 1: 1,061 events, 2,921,366 blocks\n\
                    backtrail: process 7 thread 2: 4 events, 10 blocks\n\
                    backtrail: process 8 thread 1: 2 events, 3 blocks\n";
        assert_eq!(explained(said), Some((1_067, 2_921_379)));
        assert_eq!(explained("nothing"), None);
    }

    #[test]
    fn blocks_of_all_threads_are_added() {
        let shown = "{\"threads\":[{\"blocks\":3},{\"blocks\":4}]}\n{\"thread\":1}\n";
        assert_eq!(traced_blocks(shown), Some(7));
        assert_eq!(traced_blocks("{}"), None);
    }

    #[test]
    fn costs_are_read() {
        let text = "single run: 99,158 hits, planned without weights 136,984\n\
                    runs  strategy    trained          of single   guessed    of single   bound\n\
                    2     fine        60,000           0.610       70,000     0.700       0.480\n\
                    2     grouped     50,000           0.510       90,000     0.900       0.480\n\
                    limit 5: 1,483 executions, the worst with 900 hits (0.180 of single)\n\
                    limit 10: a limit that is too low\n\
                    limit 20: this limit takes more than 2000 executions: give a higher limit\n\
                    limit 30: with a limit, ways are told apart pair by pair, and there are 9 \
                    pairs, more than 8: trace without a limit\n";
        let several = read_costs(text).unwrap();
        assert_eq!(several.single, (99_158, 136_984));
        assert_eq!(several.best(2), Some((0.51, 0.7, 0.48)));
        assert_eq!(several.best(3), None);
        let limits = [
            (5, Limited::Fits(1_483, 0.18)),
            (10, Limited::DoesNotFit),
            (20, Limited::MoreThan(2_000)),
            (30, Limited::NotPlanned),
        ];
        assert_eq!(several.limits, limits);
        assert!(read_costs("").is_none());
    }
}
