//! `cargo xtask bench profile`: what a path profile costs.
//!
//! Each program is built by clang, plain and with each of its counters, and by
//! Backtrail, from which the empty plan and the path profiles are derived
//! ([`variant`]). Instructions are counted by callgrind on a small input, and
//! decide: they repeat exactly. Times are of a larger input, all variants in
//! turns, the least of each. A variant that writes anything else than the
//! original is no measurement.
//!
//! What was measured is kept with what it was measured with, so that a run that
//! was interrupted, or took `--only` some, goes on where it was.

pub mod input;
pub mod report;
pub mod run;
pub mod subject;
pub mod threads;
pub mod variant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::build::progress;
use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::packages::Need;
use crate::{corpus, setup, terminal, workspace};
use run::Bench;
use subject::{SUBJECTS, Subject};
use threads::Threads;
use variant::Variant;

/// What `cargo xtask bench profile` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// How often everything is timed
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
}

/// The name of the row with two threads.
const THREADS: &str = "threads";

/// What was measured of one variant of a program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Measured {
    /// Which.
    pub variant: Variant,
    /// Instructions of the small run.
    pub instructions: u64,
    /// User seconds of every large run.
    pub user: Vec<f64>,
    /// The least of the greatest resident sets, in kB.
    pub memory: u64,
}

impl Measured {
    /// The least user time.
    pub fn least(&self) -> f64 {
        least(&self.user)
    }
}

/// The least of some numbers.
pub fn least(values: &[f64]) -> f64 {
    values.iter().copied().fold(f64::INFINITY, f64::min)
}

/// The median of some numbers: of an even number of them the upper one.
pub fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What was measured of one program.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Which version of the package.
    pub version: String,
    /// In the order of [`Variant::ALL`].
    pub variants: Vec<Measured>,
}

impl Row {
    /// What was measured of a variant.
    pub fn of(&self, variant: Variant) -> &Measured {
        &self.variants[variant as usize]
    }

    /// How many more instructions a variant takes than what it is compared
    /// with, as a ratio.
    pub fn instruction_ratio(&self, variant: Variant) -> f64 {
        let count = |variant| self.of(variant).instructions as f64;
        count(variant) / count(variant.baseline())
    }

    /// The user time against the original.
    pub fn time_ratio(&self, variant: Variant) -> f64 {
        self.of(variant).least() / self.of(Variant::Original).least()
    }
}

/// Everything that has been measured.
#[derive(Debug, Default)]
pub struct Results {
    /// By program.
    pub rows: Vec<Row>,
    /// With two threads.
    pub threads: Option<Threads>,
    /// What is yet to be measured.
    pub missing: Vec<&'static str>,
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let names = SUBJECTS.iter().map(|subject| subject.name).chain([THREADS]);
    options.choice.check(names)?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = corpus::workshop(None, "profile-")?;
    let mut failures = Vec::new();
    for subject in SUBJECTS.iter().filter(|subject| options.choice.wants(subject.name)) {
        let known: Option<Row> = kept(&workshop, subject.name, &subject.stamp())?;
        if known.is_some() && !options.choice.again {
            continue;
        }
        terminal::heading(subject.name);
        match measure(&workshop, subject, options.rounds) {
            Ok(row) => keep(&workshop, subject.name, &subject.stamp(), &row)?,
            Err(error) => {
                terminal::error(&error);
                failures.push(subject.name);
            }
        }
    }
    if options.choice.wants(THREADS) {
        let known: Option<Threads> = kept(&workshop, THREADS, threads::SOURCE)?;
        if known.is_none() || options.choice.again {
            terminal::heading(THREADS);
            let bench = Bench::new(&workshop, THREADS)?;
            let measured = threads::measure(&workshop, &bench, options.rounds)?;
            keep(&workshop, THREADS, threads::SOURCE, &measured)?;
        }
    }
    let results = collect(&workshop)?;
    report::print(&results);
    let path = workspace::root().join("docs/bench-profile.md");
    std::fs::write(&path, report::page(&results))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/bench-profile.md");
    ensure!(failures.is_empty(), "not measured: {}", failures.join(", "));
    Ok(())
}

fn measure(workshop: &Workshop, subject: &Subject, rounds: usize) -> Result<Row> {
    let bench = Bench::new(workshop, subject.name)?;
    let (executables, version) = variant::make(workshop, &bench, subject)?;
    let mut variants = Vec::new();
    println!("count instructions");
    let mut expected = None;
    for (variant, executable) in Variant::ALL.into_iter().zip(&executables) {
        let (instructions, output) = bench.count_instructions(executable, &subject.counted)?;
        check_output(variant.title(), expected.get_or_insert_with(|| output.clone()), &output)?;
        variants.push(Measured { variant, instructions, user: Vec::new(), memory: u64::MAX });
    }
    println!("{rounds} rounds");
    let mut expected = None;
    let bar = progress((rounds * executables.len()) as u64);
    for round in 0..rounds {
        for step in 0..executables.len() {
            // Another one is first in each round, and each has another before it.
            let index = match round % 2 {
                0 => (step + round) % executables.len(),
                _ => (2 * executables.len() - 1 - step - round % 7) % executables.len(),
            };
            let finished = bench.run(&executables[index], &subject.timed)?;
            let measured = &mut variants[index];
            check_output(
                measured.variant.title(),
                expected.get_or_insert_with(|| finished.output.clone()),
                &finished.output,
            )?;
            measured.user.push(finished.usage.user);
            measured.memory = measured.memory.min(finished.usage.memory);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Row { name: subject.name.to_owned(), version, variants })
}

/// An error if a run wrote something else than the first one did.
pub fn check_output(title: &str, expected: &[u8], found: &[u8]) -> Result<()> {
    ensure!(!expected.is_empty(), "no output");
    ensure!(
        expected == found,
        "{} writes something else: {} bytes instead of {}",
        title,
        found.len(),
        expected.len()
    );
    Ok(())
}

/// Keeps what was measured, with what it was measured with.
pub fn keep(workshop: &Workshop, name: &str, made_of: &str, what: &impl Serialize) -> Result<()> {
    let folder = workshop.folder.join("profile-rows");
    std::fs::create_dir_all(&folder)?;
    let stamp = (workshop.tool_stamp()?, made_of);
    let text = serde_json::to_string_pretty(&(stamp, what))?;
    Ok(std::fs::write(folder.join(format!("{name}.json")), text)?)
}

/// What an earlier run measured with the same tool and the same data.
pub fn kept<T: for<'a> Deserialize<'a>>(
    workshop: &Workshop,
    name: &str,
    made_of: &str,
) -> Result<Option<T>> {
    let path = workshop.folder.join("profile-rows").join(format!("{name}.json"));
    let Ok(text) = std::fs::read_to_string(path) else { return Ok(None) };
    // What an older version of this program wrote is as good as nothing.
    let Ok(((tool, made_before), what)) = serde_json::from_str::<((String, String), T)>(&text)
    else {
        return Ok(None);
    };
    Ok((tool == workshop.tool_stamp()? && made_before == made_of).then_some(what))
}

fn collect(workshop: &Workshop) -> Result<Results> {
    let mut results = Results::default();
    for subject in SUBJECTS {
        match kept(workshop, subject.name, &subject.stamp())? {
            Some(row) => results.rows.push(row),
            None => results.missing.push(subject.name),
        }
    }
    results.threads = kept(workshop, THREADS, threads::SOURCE)?;
    if results.threads.is_none() {
        results.missing.push(THREADS);
    }
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_output_is_no_measurement() {
        assert!(check_output("paths", b"a", b"a").is_ok());
        assert!(check_output("paths", b"a", b"b").is_err());
        assert!(check_output("paths", b"", b"").is_err());
    }
}
