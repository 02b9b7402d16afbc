//! Everything that is checked of one program.
//!
//! Three builds (clang alone, Backtrail, and clang with line tables where the
//! first two differ), three variants, four runs of the suite. What is not as it
//! should be is a failure; what is not as one might think, for a reason that
//! this module established itself or that the program's data names, is a note.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::carried::Carried;
use super::code::{self, Code, Comparison};
use super::places::Places;
use super::profile;
use super::program::{Language, Program};
use super::records::{Sweep, Tally};
use super::results::{Outcome, Results};
use super::tree::{Compiler, Workshop};
use crate::{command, terminal};

/// What came out for one program.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Row {
    /// The program.
    pub name: String,
    /// Which version.
    pub version: String,
    /// What the suite is.
    pub suite: String,
    /// The suite with the executable as it was built.
    pub original: Results,
    /// With the variant of the empty plan.
    pub empty: Results,
    /// With the block log.
    pub log: Results,
    /// With counted paths.
    #[serde(default)]
    pub profile: Results,
    /// How many processes left a record while blocks were logged.
    pub processes: usize,
    /// And while paths were counted.
    #[serde(default)]
    pub counted_processes: usize,
    /// Functions whose paths are counted whole, cut, and not.
    #[serde(default)]
    pub counted_functions: (usize, usize, usize),
    /// Processes whose profile was compared with their block log, functions that
    /// ran in them, and how many of these took the same paths as often.
    #[serde(default)]
    pub same_as_log: (usize, usize, usize),
    /// The bytes they recorded.
    pub recorded_bytes: u64,
    /// Units, and how many of them carry IR.
    pub units: (usize, usize),
    /// Functions in them.
    pub functions: usize,
    /// Functions compared with plain clang's, and how many are the same.
    pub same_as_clang: Option<(usize, usize)>,
    /// Functions compared with the empty plan's, and how many are the same.
    pub same_when_empty: Option<(usize, usize)>,
    /// Instructions that the original and the empty plan execute.
    pub instructions: Option<(u64, u64)>,
    /// What is known and has a reason.
    pub notes: Vec<String>,
    /// What has none.
    pub failures: Vec<String>,
}

/// The variants.
pub const SCHEMES: [&str; 3] = ["empty", "log", "profile"];

/// Reasons to be without IR that hold for every program: there is no code in it.
const NO_CODE: &[&str] = &["read by an option of the linker"];

/// Checks one program.
pub fn check(workshop: &Workshop, program: &Program) -> Result<Row> {
    let version = workshop.fetch(program)?;
    let mut row = Row {
        name: program.name.to_owned(),
        version,
        suite: program.tests.to_owned(),
        ..Row::default()
    };
    say(program, "build with backtrail");
    let built = workshop.build(program, Compiler::Carrying)?;
    let folder = built.folder.clone();
    let places = Places::find(program, &built, &workshop.of(program))?;

    let mut carried = Carried::default();
    for original in places.list("original") {
        carried.add(workshop, &original)?;
    }
    note_carried(program, &carried, &mut row);

    say(program, "derive the variants");
    for scheme in SCHEMES {
        for (from, to) in places.list("original").iter().zip(places.list(scheme)) {
            let mut derive = workshop.backtrail();
            derive.args(["instrument", "--quiet", "--scheme", scheme, "-o"]).arg(to).arg(from);
            command::output(&mut derive)?;
        }
    }
    if program.language == Language::Clang {
        say(program, "compare the code");
        compare_code(workshop, program, &places, &carried, &mut row)?;
    }
    if let Some(workload) = program.callgrind {
        say(program, "count instructions");
        compare_instructions(workshop, program, &folder, &places, workload, &mut row)?;
    }
    let mut logs = Tally::default();
    for scheme in ["original", "empty", "log", "profile"] {
        say(program, &format!("its tests, {scheme}"));
        places.put(scheme)?;
        let (results, tally) = run_suite(workshop, program, &folder, scheme)?;
        match scheme {
            "original" => row.original = results,
            "empty" => row.empty = results,
            "log" => {
                row.log = results;
                note_records(workshop, &tally, &mut row);
                logs = tally;
            }
            _ => {
                row.profile = results;
                row.counted_processes = tally.processes;
                if tally.processes == 0 {
                    row.failures.push("no process counted its paths".to_owned());
                }
                compare_with_logs(workshop, program, &places, &logs, &tally, &mut row)?;
            }
        }
    }
    places.put("original")?;
    for scheme in ["log", "profile"] {
        // The next run makes them anew anyway.
        let _ = std::fs::remove_dir_all(workshop.of(program).join(format!("records-{scheme}")));
    }
    judge_suites(&mut row);
    // Where this machine keeps it says nothing to anybody else.
    let here = format!("{}/", folder.display());
    for line in row.notes.iter_mut().chain(&mut row.failures) {
        *line = line.replace(&here, "");
    }
    Ok(row)
}

fn say(program: &Program, what: &str) {
    println!("{} {what}", terminal::bold(program.name));
}

fn note_carried(program: &Program, carried: &Carried, row: &mut Row) {
    let missing = carried.missing_units();
    row.units = (carried.units.len(), carried.units.len() - missing.len());
    row.functions = carried.function_count();
    let reasons = || program.native.iter().chain(NO_CODE);
    let known = |why: &str| reasons().any(|reason| why.contains(reason));
    let native = carried.native.iter().map(|(path, why)| format!("no IR of {path}: {why}"));
    let left_out = carried.left_out.iter();
    let left_out = left_out.map(|(name, why)| format!("function not instrumented: {name}: {why}"));
    let missing = missing.into_iter().map(|unit| format!("unit not carried: {unit}"));
    for line in missing.chain(native).chain(left_out) {
        let list = if known(&line) { &mut row.notes } else { &mut row.failures };
        list.push(line);
    }
}

fn compare_code(
    workshop: &Workshop,
    program: &Program,
    places: &Places,
    carried: &Carried,
    row: &mut Row,
) -> Result<()> {
    let counts = |name: &str| carried.functions.contains(name);
    let compare = |left: &[PathBuf], right: &[PathBuf]| -> Result<Vec<Comparison>> {
        let pairs = left.iter().zip(right);
        pairs.map(|(a, b)| Ok(code::compare(&Code::read(a)?, &Code::read(b)?, counts))).collect()
    };
    let original = places.list("original");

    let empty = compare(&original, &places.list("empty"))?;
    row.same_when_empty = Some(totals(&empty));
    for name in strays(&empty) {
        row.failures.push(format!("another code when rebuilt with the empty plan: {name}"));
    }

    let plain = workshop.build(program, Compiler::Plain)?;
    let reference = compare(&places.in_build(&plain), &original)?;
    row.same_as_clang = Some(totals(&reference));
    let strays_from_clang = strays(&reference);
    if strays_from_clang.is_empty() {
        return Ok(());
    }
    let lines = workshop.build(program, Compiler::PlainWithLines)?;
    let with_lines = strays(&compare(&places.in_build(&lines), &original)?);
    for name in strays_from_clang {
        if with_lines.contains(&name) {
            row.failures.push(format!("another code than clang makes: {name}"));
        } else {
            row.notes.push(format!(
                "{name} is the code that clang itself makes with -gline-tables-only, which is not \
                 quite what it makes without"
            ));
        }
    }
    Ok(())
}

/// How many functions were compared, and how many are the same.
fn totals(comparisons: &[Comparison]) -> (usize, usize) {
    let same = comparisons.iter().map(|one| one.identical).sum::<usize>();
    (same + strays(comparisons).len(), same)
}

fn strays(comparisons: &[Comparison]) -> BTreeSet<String> {
    let names = |one: &Comparison| one.different.iter().chain(&one.unmatched).cloned().collect();
    comparisons.iter().flat_map(|one| -> Vec<String> { names(one) }).collect()
}

/// For code that is not generated by the compiler's own driver: the empty plan
/// may take at most this much more or less of the original's instructions.
const INSTRUCTIONS_PER_CENT: f64 = 1.0;

fn compare_instructions(
    workshop: &Workshop,
    program: &Program,
    folder: &Path,
    places: &Places,
    workload: &str,
    row: &mut Row,
) -> Result<()> {
    let mut counted = Vec::new();
    for scheme in ["original", "empty"] {
        places.put(scheme)?;
        let script = format!(
            "valgrind --tool=callgrind --callgrind-out-file=/dev/null {workload} >/dev/null"
        );
        let log = workshop.of(program).join(format!("{scheme}.callgrind.log"));
        let ran = workshop.script(program, Compiler::Carrying, folder, &script, &log, &[])?;
        let count = ran.output.lines().find_map(|line| line.split("Collected : ").nth(1));
        let Some(count) = count.and_then(|count| count.trim().parse::<u64>().ok()) else {
            bail!("callgrind counted nothing: {}", command::tail(&ran.output, 6));
        };
        counted.push(count);
    }
    let (original, empty) = (counted[0], counted[1]);
    row.instructions = Some((original, empty));
    let per_cent = (empty as f64 / original as f64 - 1.0) * 100.0;
    if per_cent.abs() > INSTRUCTIONS_PER_CENT {
        row.failures.push(format!(
            "the empty plan executes {per_cent:+.2} % of the original's {original} instructions"
        ));
    }
    Ok(())
}

fn records_are_compared(scheme: &str) -> bool {
    matches!(scheme, "log" | "profile")
}

fn run_suite(
    workshop: &Workshop,
    program: &Program,
    folder: &Path,
    scheme: &str,
) -> Result<(Results, Tally)> {
    let log = workshop.of(program).join(format!("{scheme}.suite.log"));
    let records = workshop.of(program).join(format!("records-{scheme}"));
    let sweep = Sweep::start(&records)?;
    let mut variables: Vec<(&str, &Path)> = vec![("BACKTRAIL_DIR", &records)];
    if records_are_compared(scheme) {
        // One after another, so that the order of processes is always the same.
        variables.push(("JOBS", Path::new("1")));
    }
    let ran = workshop.script(program, Compiler::Carrying, folder, program.suite, &log, &variables);
    let tally = sweep.finish();
    let ran = ran?;
    let results = Results::read(&ran.output, ran.success);
    println!(
        "  {} passed, {} failed, {} skipped, {:.0} s",
        results.count(Outcome::Passed),
        results.count(Outcome::Failed),
        results.count(Outcome::Skipped),
        ran.took.as_secs_f64()
    );
    Ok((results, tally))
}

/// Counts the records and reads those that were kept.
fn note_records(workshop: &Workshop, tally: &Tally, row: &mut Row) {
    row.processes = tally.processes;
    row.recorded_bytes = tally.bytes;
    if tally.processes == 0 {
        row.failures.push("the block log recorded no process".to_owned());
    }
    for record in &tally.kept {
        let mut show = workshop.backtrail();
        let show = show.args(["show", "--json", "--last", "3"]).arg(record);
        let failure = match command::output(show) {
            Err(error) => format!("a record cannot be read: {error:#}"),
            Ok(text) => match serde_json::from_str::<Value>(text.lines().next().unwrap_or("")) {
                Ok(header) if header["processes"][0]["incomplete"].is_null() => continue,
                Ok(header) => format!("a record is incomplete: {header}"),
                Err(error) => format!("a record is shown as something that is not JSON: {error}"),
            },
        };
        row.failures.push(failure);
    }
}

/// How far apart the places of one process in two runs may be.
const NEAR: usize = 3;

/// Compares what processes counted with what the same processes of the earlier
/// run logged: the suite starts them in the same order. Those that are kept are
/// the first, so a suite that starts some more later on does not matter.
fn compare_with_logs(
    workshop: &Workshop,
    program: &Program,
    places: &Places,
    logs: &Tally,
    counts: &Tally,
    row: &mut Row,
) -> Result<()> {
    if logs.processes != counts.processes {
        row.notes.push(format!(
            "profile and log: {} processes counted and {} logged; the first ones are compared",
            counts.processes, logs.processes
        ));
    }
    let paths = |record: &Path, scheme: &str| -> Result<Value> {
        let name = executable_of(record)?;
        let variants = places.list(scheme);
        let variant = variants.iter().find(|it| it.file_name() == name.file_name());
        let mut command = workshop.backtrail();
        command.args(["paths", "--json"]);
        if let Some(variant) = variant {
            command.arg("--exe").arg(variant);
        }
        Ok(serde_json::from_str(&command::output(command.arg(record))?)?)
    };
    let varies =
        |difference: &String| program.varies.iter().any(|name| difference.starts_with(name));
    // Processes that one process starts at once may begin in either order.
    let mut counted = Vec::new();
    for (rank, record) in counts.ranked() {
        counted.push((rank, paths(record, "profile")?));
    }
    for (rank, log) in logs.ranked() {
        let theirs = paths(log, "log")?;
        let near = counted.iter().filter(|(other, _)| other.abs_diff(rank) <= NEAR);
        let best = near.min_by_key(|(other, ours)| {
            let compared = profile::compare(ours, &theirs);
            let unexpected = compared.different.iter().filter(|it| !varies(it)).count();
            (unexpected, compared.different.len(), other.abs_diff(rank))
        });
        let Some(&(taken, ref ours)) = best else { continue };
        let compared = profile::compare(ours, &theirs);
        counted.retain(|(other, _)| *other != taken);
        row.counted_functions = compared.ways;
        row.same_as_log.0 += 1;
        row.same_as_log.1 += compared.ran;
        row.same_as_log.2 += compared.ran - compared.different.len();
        for difference in compared.different {
            let list = if varies(&difference) { &mut row.notes } else { &mut row.failures };
            list.push(format!("profile and log of process {rank}: {difference}"));
        }
    }
    if row.same_as_log.0 == 0 {
        row.failures.push("no process's profile could be compared with its log".to_owned());
    }
    row.notes.sort();
    row.notes.dedup();
    Ok(())
}

/// The executable that left a record.
fn executable_of(record: &Path) -> Result<PathBuf> {
    let header = std::fs::read(record.join("process"))?;
    let path = header.get(40..).unwrap_or_default();
    let path: Vec<u8> = path.iter().copied().take_while(|byte| *byte != 0).collect();
    Ok(PathBuf::from(String::from_utf8_lossy(&path).into_owned()))
}

fn judge_suites(row: &mut Row) {
    if row.original.count(Outcome::Passed) == 0 {
        row.failures.push("no test passes with the original".to_owned());
    }
    let variants = [("empty plan", &row.empty), ("block log", &row.log), ("profile", &row.profile)];
    for (variant, results) in variants {
        for difference in results.differences(&row.original) {
            row.failures.push(format!("{variant}: {difference}"));
        }
    }
    for (name, _) in row.original.tests.iter().filter(|(_, one)| **one == Outcome::Failed) {
        row.notes.push(format!("fails with the original too: {name}"));
    }
}
