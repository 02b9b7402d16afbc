//! `cargo xtask bench autofdo`: what a profile is worth to the compiler.
//!
//! Each program is built by clang at -O2, and by the same clang with the path
//! profile of a training run, exported as samples. Beside it stands what the
//! same training gives through clang's own counters, which know every edge of
//! the IR they are used on, and so bound what can be hoped for. Training,
//! counted and timed runs have different inputs. Instructions decide: they
//! repeat exactly; times are the least of several, in turns.
//!
//! The programs, their folders and their inputs are those of
//! [`profile`](super::profile).

use std::fmt::Write as _;
use std::hash::{DefaultHasher, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};

use super::build::progress;
use super::profile::run::Bench;
use super::profile::subject::{SUBJECTS, Subject};
use super::profile::{check_output, keep, kept, least, variant};
use crate::corpus::tree::Workshop;
use crate::packages::Need;
use crate::{command, corpus, setup, terminal, workspace};

/// The programs that are built.
const NAMES: [&str; 2] = ["lua5.4", "sqlite3"];

/// What `cargo xtask bench autofdo` takes.
#[derive(Debug, Args)]
pub struct Options {
    #[command(flatten)]
    installing: setup::Installing,
    /// Only this program
    #[arg(long, value_name = "NAME")]
    only: Option<String>,
    /// How often everything is timed
    #[arg(long, value_name = "N", default_value_t = 7)]
    rounds: usize,
    /// Measure again what has been measured with the same tool
    #[arg(long)]
    again: bool,
}

/// The ways in which a program is built.
const BUILDS: [&str; 3] = ["-O2", "-O2, our profile", "-O2, clang's counters"];

/// What was measured of one program.
#[derive(Debug, Serialize, Deserialize)]
struct Row {
    name: String,
    version: String,
    /// In the order of [`BUILDS`].
    builds: [Measured; BUILDS.len()],
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Measured {
    instructions: u64,
    user: Vec<f64>,
}

/// Measures and reports.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    if let Some(only) = &options.only {
        let known = NAMES.contains(&only.as_str());
        ensure!(known, "{only} is not measured; these are: {}", NAMES.join(", "));
    }
    setup::run(Need::Corpus, &options.installing)?;
    let workshop = corpus::workshop(None, "profile-")?;
    for subject in subjects()? {
        if options.only.as_ref().is_some_and(|only| only != subject.name) {
            continue;
        }
        if options.again || known(&workshop, subject)?.is_none() {
            terminal::heading(subject.name);
            let row = measure(&workshop, subject, options.rounds)?;
            keep(&workshop, &kept_as(subject), &subject.stamp(), &row)?;
        }
    }
    let (mut rows, mut missing) = (Vec::new(), Vec::new());
    for subject in subjects()? {
        match known(&workshop, subject)? {
            Some(row) => rows.push(row),
            None => missing.push(subject.name),
        }
    }
    println!("\n{}", terminal::table(&table(&rows)).trim_end());
    let path = workspace::root().join("docs/bench-autofdo.md");
    std::fs::write(&path, page(&rows, &missing))
        .with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/bench-autofdo.md");
    Ok(())
}

fn subjects() -> Result<Vec<&'static Subject>> {
    let find = |name: &str| {
        let subject = SUBJECTS.iter().find(|subject| subject.name == name);
        subject.with_context(|| format!("{name} is no subject any more"))
    };
    NAMES.into_iter().map(find).collect()
}

/// Where what was measured of a program is kept.
fn kept_as(subject: &Subject) -> String {
    format!("autofdo-{}", subject.name)
}

fn known(workshop: &Workshop, subject: &Subject) -> Result<Option<Row>> {
    kept(workshop, &kept_as(subject), &subject.stamp())
}

fn measure(workshop: &Workshop, subject: &'static Subject, rounds: usize) -> Result<Row> {
    let bench = Bench::new(workshop, subject.name)?;
    let program = variant::program(subject);
    let version = workshop.fetch(&program)?;
    variant::prepare(workshop, &program, subject)?;
    let build = |name: &str, options: &str| {
        variant::build(workshop, &program, subject, name, Some(options))
    };
    // Lines are how counts find their code; valgrind cannot read what is left of
    // them in the executable, and nothing else needs it.
    let ours = our_profile(workshop, &bench, subject)?;
    let theirs =
        clang_profile(&bench, subject, &build("counted-by-clang", " -fprofile-generate")?)?;
    let executables = [
        build("original", "")?,
        build(
            "autofdo",
            &format!(
                " -gline-tables-only -Wl,--strip-debug -fprofile-sample-use={}",
                ours.display()
            ),
        )?,
        build("clang-use", &format!(" -fprofile-use={}", theirs.display()))?,
    ];
    let mut builds = [(); BUILDS.len()].map(|()| Measured::default());
    println!("count instructions");
    let mut expected = None;
    for ((name, executable), measured) in BUILDS.iter().zip(&executables).zip(&mut builds) {
        let (instructions, output) = bench.count_instructions(executable, &subject.counted)?;
        check_output(name, expected.get_or_insert_with(|| output.clone()), &output)?;
        measured.instructions = instructions;
    }
    println!("{rounds} rounds");
    let mut expected = None;
    let bar = progress((rounds * executables.len()) as u64);
    for round in 0..rounds {
        for step in 0..executables.len() {
            let index = (step + round) % executables.len();
            let finished = bench.run(&executables[index], &subject.timed)?;
            let expected = expected.get_or_insert_with(|| finished.output.clone());
            check_output(BUILDS[index], expected, &finished.output)?;
            builds[index].user.push(finished.usage.user);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    Ok(Row { name: subject.name.to_owned(), version, builds })
}

/// Trains by a path profile; the profile as clang takes it.
fn our_profile(workshop: &Workshop, bench: &Bench, subject: &Subject) -> Result<PathBuf> {
    let program = variant::program(subject);
    let carried = variant::build(workshop, &program, subject, "carried", None)?;
    let paths = bench.file("training.btprof");
    variant::train(workshop, bench, subject, &carried, &paths)?;
    let samples = bench.file("training.afdo");
    let mut export = workshop.backtrail();
    export.args(["export", "--quiet"]).arg(&paths).args(["--to", "autofdo", "-o"]).arg(&samples);
    command::output(&mut export)?;
    let merged = bench.file("samples.profdata");
    let mut merge = Command::new("llvm-profdata-19");
    command::output(merge.args(["merge", "--sample", "-o"]).arg(&merged).arg(&samples))?;
    by_contents(&merged)
}

/// Trains by clang's counters.
fn clang_profile(bench: &Bench, subject: &Subject, counting: &Path) -> Result<PathBuf> {
    bench.run(counting, &subject.training)?;
    let merged = bench.file("counters.profdata");
    let mut merge = Command::new("llvm-profdata-19");
    command::output(merge.args(["merge", "-o"]).arg(&merged).arg(bench.records()))?;
    by_contents(&merged)
}

/// The file under a name that changes with what is in it, so that builds are
/// kept as long as it is the same.
fn by_contents(path: &Path) -> Result<PathBuf> {
    let bytes = std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    let named = path.with_extension(format!("{:016x}.profdata", hasher.finish()));
    std::fs::rename(path, &named)?;
    Ok(named)
}

fn table(rows: &[Row]) -> Vec<Vec<String>> {
    let heading = ["program", "build", "instructions", "", "user time", ""];
    let mut lines = vec![heading.map(str::to_owned).to_vec()];
    for row in rows {
        let base = &row.builds[0];
        for (number, (build, measured)) in BUILDS.iter().zip(&row.builds).enumerate() {
            let change = |ratio: f64| match number {
                0 => String::new(),
                _ => format!("{:+.1} %", 100.0 * (ratio - 1.0)),
            };
            lines.push(vec![
                format!("{} {}", row.name, row.version),
                (*build).to_owned(),
                format!("{:.1} M", measured.instructions as f64 / 1e6),
                change(measured.instructions as f64 / base.instructions as f64),
                format!("{:.2} s", least(&measured.user)),
                change(least(&measured.user) / least(&base.user)),
            ]);
        }
    }
    lines
}

fn page(rows: &[Row], missing: &[&str]) -> String {
    let rounds = rows.iter().flat_map(|row| &row.builds).map(|build| build.user.len()).min();
    let rounds = rounds.unwrap_or(0);
    let mut page = format!(
        "# A faster build from a path profile\n\n\
         clang 19 at -O2, and the same with the profile of a training run: ours, exported by \
         `backtrail export --to autofdo` and given by `-fprofile-sample-use`, and clang's own \
         counters (`-fprofile-generate`, `-fprofile-use`), which are matched with the IR itself \
         and know what is called indirectly, too. The training, counted and timed runs have \
         different inputs. Instructions are callgrind's; times are the least of {rounds}, in \
         turns, and vary by a few percent.\n\n\
         ```sh\ncargo xtask bench autofdo\n```\n\n"
    );
    for (number, line) in table(rows).iter().enumerate() {
        let _ = writeln!(page, "| {} |", line.join(" | "));
        if number == 0 {
            page.push_str("| --- | --- | ---: | ---: | ---: | ---: |\n");
        }
    }
    if !missing.is_empty() {
        let _ = writeln!(page, "\nYet to be measured: {}.", missing.join(", "));
    }
    page.push_str(
        "\nThe path profile says how often each line of each inlined copy was executed, not which \
         call went where: what clang gains from knowing the targets of calls is not in it.\n",
    );
    page
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_against_the_first_build() {
        let measured = |instructions, user| Measured { instructions, user: vec![9.0, user] };
        let builds = [measured(2_000_000, 2.0), measured(1_800_000, 1.9), measured(1_500_000, 1.5)];
        let row = Row { name: "lua5.4".to_owned(), version: "5.4.4".to_owned(), builds };
        let page = page(&[row], &["sqlite3"]);
        assert!(page.contains("| lua5.4 5.4.4 | -O2 | 2.0 M |  | 2.00 s |  |"), "{page}");
        assert!(page.contains("the least of 2,") && page.contains("measured: sqlite3."), "{page}");
        assert!(page.contains("| 1.8 M | -10.0 % | 1.90 s | -5.0 % |"), "{page}");
    }

    #[test]
    fn all_programs_are_subjects() {
        assert_eq!(subjects().unwrap().len(), NAMES.len());
    }
}
