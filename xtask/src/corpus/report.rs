//! The corpus as a table, on the terminal and in `docs/corpus.md`.

use std::fmt::Write;

use super::check::Row;
use super::results::{Outcome, Results};
use crate::terminal;

/// The heading of the table.
const HEADING: [&str; 14] = [
    "program",
    "version",
    "original",
    "empty plan",
    "block log",
    "profile",
    "processes logged",
    "counted",
    "whole / cut / not",
    "profile = log",
    "units carried",
    "functions",
    "same as clang",
    "same when empty",
];

fn cells(row: &Row) -> Vec<String> {
    let share = |pair: Option<(usize, usize)>| match pair {
        Some((all, same)) => format!("{same} of {all}"),
        None => "–".to_owned(),
    };
    let empty = match row.instructions {
        Some((original, empty)) => {
            format!("{:+.2} % instr.", (empty as f64 / original as f64 - 1.0) * 100.0)
        }
        None => share(row.same_when_empty),
    };
    vec![
        row.name.clone(),
        row.version.clone(),
        passed(&row.original),
        passed(&row.empty),
        passed(&row.log),
        passed(&row.profile),
        row.processes.to_string(),
        row.counted_processes.to_string(),
        format!(
            "{} / {} / {}",
            row.counted_functions.0, row.counted_functions.1, row.counted_functions.2
        ),
        match row.same_as_log {
            (0, ..) => "–".to_owned(),
            (processes, ran, same) => format!("{same} of {ran} in {processes} processes"),
        },
        share(Some(row.units)),
        row.functions.to_string(),
        share(row.same_as_clang),
        empty,
    ]
}

/// `54 passed, 1 failed, 13 skipped`, the last two where there are any.
fn passed(results: &Results) -> String {
    let mut text = results.count(Outcome::Passed).to_string();
    for (outcome, word) in [(Outcome::Failed, "failed"), (Outcome::Skipped, "skipped")] {
        match results.count(outcome) {
            0 => {}
            count => write!(text, ", {count} {word}").expect("strings take everything"),
        }
    }
    text
}

/// Prints the table and what is to be said of it.
pub fn print(rows: &[Row]) {
    terminal::heading("tests passed, and what is carried");
    let mut table = vec![HEADING.map(str::to_owned).to_vec()];
    table.extend(rows.iter().map(cells));
    print!("{}", terminal::table(&table));
    for row in rows {
        for note in &row.notes {
            println!("{} {}: {note}", terminal::dim("note"), row.name);
        }
    }
    for row in rows {
        for failure in &row.failures {
            println!("{} {}: {failure}", terminal::red("FAILED"), row.name);
        }
    }
}

/// The page for `docs/`.
pub fn page(rows: &[Row]) -> String {
    let mut page = String::from(INTRODUCTION);
    let line = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    page.push_str(&line(&HEADING.map(str::to_owned)));
    page.push_str(&line(&HEADING.map(|_| "---".to_owned())));
    for row in rows {
        page.push_str(&line(&cells(row)));
    }
    page.push_str(COLUMNS);
    page.push_str("\n## The suites\n\n");
    for row in rows {
        let megabytes = row.recorded_bytes as f64 / 1e6;
        let _ = writeln!(
            page,
            "- {}: {}; its processes recorded {megabytes:.1} MB of blocks.",
            row.name, row.suite
        );
    }
    page.push_str("\n## What is not as one might think, and why\n\n");
    let notes: Vec<_> =
        rows.iter().flat_map(|row| row.notes.iter().map(move |note| (row, note))).collect();
    if notes.is_empty() {
        page.push_str("Nothing.\n");
    }
    for (row, note) in notes {
        let _ = writeln!(page, "- {}: {note}", row.name);
    }
    let failures: Vec<_> = rows
        .iter()
        .flat_map(|row| row.failures.iter().map(move |failure| (row, failure)))
        .collect();
    if !failures.is_empty() {
        page.push_str("\n## What fails\n\n");
    }
    for (row, failure) in failures {
        let _ = writeln!(page, "- {}: {failure}", row.name);
    }
    page
}

const INTRODUCTION: &str = "# Real programs

This page is written by

```
cargo xtask corpus
```

which fetches each program as Debian packages it (or from Rust's registry), builds it unmodified with `CC=\"backtrail cc\" CXX=\"backtrail c++\"` (or `backtrail cargo`), derives variants with `backtrail instrument`, puts them in the place of the program, and runs the program's own tests. `--only NAME` takes some of them. It fails on anything that has no reason.

";

const COLUMNS: &str = "
- *original*, *empty plan*, *block log*, *profile*: tests passed with the executable as it was built, rebuilt from its IR without any probe, with every executed block logged, and with paths counted. Each test must end as it does with the original.
- *processes logged*, *counted*: how many processes left a record while the tests ran with the block log, and with paths counted.
- *whole / cut / not*: functions all of whose acyclic paths have a counter, which are cut into pieces, and which are not counted.
- *profile = log*: functions that ran, added up over the first processes of the suite (at most 24), and how many of them took the same paths as often, were entered as often and left unfinished as often as the block log of the same process in the earlier run says.
- *units carried*: compilation units whose IR is in the executables, of all that were linked.
- *functions*: those of the carried units, each unit once.
- *same as clang*: functions of the executables whose code is what the same clang makes without Backtrail.
- *same when empty*: functions of the executables whose code is the same after rebuilding with the empty plan; for Rust, whose code is generated through LLVM's C interface, how many more instructions a run takes (at most 1 %).

A unit that is linked into two executables is compared in both; of functions that several units hold (templates, inline functions), an executable has one.
";
