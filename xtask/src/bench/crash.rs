//! `cargo xtask bench crash`: what it costs to have crashes tell.
//!
//! Each program is built by clang, and by Backtrail, from which variants with
//! every scheme are derived ([`variant`]), at -O2 and at -O0. As for path profiles
//! ([`super::profile`]): instructions are counted by callgrind on a small input,
//! and decide; times are of a larger input, all variants in turns, the least of
//! each; a variant that writes anything else than the original is no measurement;
//! and what was measured is kept.

pub mod autopsy;
pub mod report;
pub mod subject;
pub mod variant;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::build::progress;
use super::profile::run::Bench;
use super::profile::{check_output, keep, kept, least};
use crate::choice::Choice;
use crate::corpus::tree::Workshop;
use crate::packages::Need;
use crate::{corpus, setup, terminal, workspace};
use autopsy::Autopsy;
use subject::{LEVELS, NAMES, Traced};
use variant::{Bytes, Variant};

/// What `cargo xtask bench crash` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    #[command(flatten)]
    choice: Choice,
    /// Only these levels of optimisation, without the hyphen
    #[arg(long, value_delimiter = ',', value_name = "LEVEL")]
    levels: Vec<String>,
    /// How often everything is timed
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
}

/// What was measured of one variant.
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
    /// Its size.
    pub bytes: Bytes,
}

/// What was measured of one program at one level.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// The level.
    pub level: String,
    /// Which version of the package.
    pub version: String,
    /// In the order of [`Variant::ALL`].
    pub variants: Vec<Measured>,
    /// What it took to read a core of the last of them.
    pub autopsy: Option<Autopsy>,
}

impl Row {
    /// Whether every variant was measured that there is by now.
    fn is_complete(&self) -> bool {
        self.variants.iter().map(|it| it.variant).eq(Variant::ALL)
    }

    /// What was measured of a variant.
    pub fn of(&self, variant: Variant) -> &Measured {
        &self.variants[variant as usize]
    }

    /// Instructions against the original's.
    pub fn instructions(&self, variant: Variant) -> f64 {
        let count = |variant| self.of(variant).instructions as f64;
        count(variant) / count(Variant::Original)
    }

    /// The least user time against the original's.
    pub fn time(&self, variant: Variant) -> f64 {
        let least = |variant| least(&self.of(variant).user);
        least(variant) / least(Variant::Original)
    }
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    options.choice.check(NAMES)?;
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = corpus::workshop(None, "profile-")?;
    let is_wanted = |level: &&str| {
        let without = level.trim_start_matches('-');
        options.levels.is_empty() || options.levels.iter().any(|it| it == without)
    };
    let chosen: Vec<Traced> =
        subjects().filter(|it| options.choice.wants(it.subject.name)).collect();
    let mut failures = Vec::new();
    for level in LEVELS.into_iter().filter(is_wanted) {
        for traced in &chosen {
            let name = file_name(traced, level);
            let known: Option<Row> = kept(&workshop, &name, &stamp(traced))?;
            if known.is_some_and(|row| row.is_complete()) && !options.choice.again {
                continue;
            }
            terminal::heading(&format!("{} {level}", traced.subject.name));
            match measure(&workshop, traced, level, options.rounds) {
                Ok(row) => keep(&workshop, &name, &stamp(traced), &row)?,
                Err(error) => {
                    terminal::error(&error);
                    failures.push(format!("{} {level}", traced.subject.name));
                }
            }
        }
    }
    let mut rows = Vec::new();
    let mut missing = Vec::new();
    for level in LEVELS {
        for traced in subjects() {
            let known: Option<Row> = kept(&workshop, &file_name(&traced, level), &stamp(&traced))?;
            match known.filter(Row::is_complete) {
                Some(row) => rows.push(row),
                None => missing.push(format!("{} {level}", traced.subject.name)),
            }
        }
    }
    report::print(&rows);
    let path = workspace::root().join("docs/bench-crash.md");
    std::fs::write(&path, report::page(&rows, &missing))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/bench-crash.md");
    ensure!(failures.is_empty(), "not measured: {}", failures.join(", "));
    Ok(())
}

/// All that are measured.
fn subjects() -> impl Iterator<Item = Traced> {
    NAMES.into_iter().filter_map(subject::find)
}

fn file_name(traced: &Traced, level: &str) -> String {
    format!("crash-{}{level}", traced.subject.name)
}

fn stamp(traced: &Traced) -> String {
    format!("{} {:?}", traced.subject.stamp(), traced.functions)
}

fn measure(workshop: &Workshop, traced: &Traced, level: &str, rounds: usize) -> Result<Row> {
    let subject = traced.subject;
    let bench = Bench::new(workshop, &file_name(traced, level))?;
    let (executables, version) = variant::make(workshop, traced, level)?;
    println!("count instructions");
    let mut variants = Vec::new();
    let mut expected = None;
    for (variant, executable) in Variant::ALL.into_iter().zip(&executables) {
        let (instructions, output) = bench.count_instructions(executable, &subject.counted)?;
        check_output(variant.title(), expected.get_or_insert_with(|| output.clone()), &output)?;
        let bytes = variant::bytes(executable)?;
        let (user, memory) = (Vec::new(), u64::MAX);
        variants.push(Measured { variant, instructions, user, memory, bytes });
    }
    println!("{rounds} rounds");
    // Without optimisation a smaller input takes as long.
    let timed = if level == "-O0" { &subject.training } else { &subject.timed };
    let mut expected = None;
    let bar = progress((rounds * executables.len()) as u64);
    for round in 0..rounds {
        for step in 0..executables.len() {
            // Another one is first in each round.
            let index = (step + round) % executables.len();
            let finished = bench.run(&executables[index], timed)?;
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
    let full = executables.last().expect("there are variants");
    let autopsy = autopsy::measure(workshop, &bench, full, timed)?;
    let (name, level) = (subject.name.to_owned(), level.to_owned());
    Ok(Row { name, level, version, variants, autopsy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_of_a_program() {
        assert!(subjects().map(|it| it.subject.name).eq(NAMES));
    }
}
