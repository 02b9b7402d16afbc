//! `cargo xtask fuzz breakpoints`: installed programs, traced by breakpoints and step by
//! step.
//!
//! The test of `trace` compares the two block by block, with stops and with a handler
//! inside the program, and the stops made with those predicted; here it gets more to
//! do: of what gcc and clang make, plans of one to six runs with every strategy and
//! several limits, and three installed programs with a million blocks. What it prints
//! becomes the table of docs/breakpoints.md.

use std::collections::BTreeMap;

use anyhow::{Result, ensure};
use clap::Args;

use crate::{command, workspace};

/// What is traced if nothing else is asked for: `TEXT` stands for a file that is on
/// every Debian system, `TEXTS` for five times that.
const COMMANDS: &str = "true;ls /usr;expr 3 + 4;xz --version;date +%Y;find /etc/apt;\
    grep -n ro*t /etc/group;diff /etc/group /etc/group;sed -n s/the/THE/p TEXT;gzip -c TEXT;\
    mawk {print($1)} TEXTS;sort TEXTS TEXTS";
const TEXT: &str = "/usr/share/common-licenses/GPL-3";

/// What `cargo xtask fuzz breakpoints` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// Commands to trace instead, with semicolons between them
    #[arg(long, value_name = "COMMANDS", default_value = COMMANDS, hide_default_value = true)]
    commands: String,
    /// Over how many runs
    #[arg(long, value_name = "M,…", default_value = "1,2,3,4,5,6")]
    runs: String,
}

/// What is known of one program.
#[derive(Debug, Default, PartialEq, Eq)]
struct Row {
    blocks: u64,
    open_jumps: u64,
    /// By number of runs: the stops of the worst.
    worst: BTreeMap<u64, u64>,
}

/// Runs the test, and prints the table.
pub fn run(options: &Options) -> Result<()> {
    let mut cargo = workspace::cargo();
    cargo.args(["test", "--release", "--package", "backtrail-trace", "--test", "breakpoints"]);
    cargo.args(["--", "--nocapture", "traces_of_"]);
    cargo.env("BACKTRAIL_ALL_PLANS", "1");
    let commands = options.commands.replace("TEXTS", &["TEXT"; 5].join(" "));
    cargo.env("BACKTRAIL_STEPPED", commands.replace("TEXT", TEXT));
    cargo.env("BACKTRAIL_STEPPED_RUNS", &options.runs);
    let rows = rows(&command::output(&mut cargo)?);
    ensure!(!rows.is_empty(), "the test printed no program");
    print!("{}", table(&rows));
    Ok(())
}

/// What the test printed of each program, in the order it did.
fn rows(printed: &str) -> Vec<(String, Row)> {
    let mut rows: Vec<(String, Row)> = Vec::new();
    for line in printed.lines() {
        let Some((name, row)) = read(line) else { continue };
        match rows.last_mut().filter(|(last, _)| *last == name) {
            Some((_, known)) => known.worst.extend(row.worst),
            None => rows.push((name, row)),
        }
    }
    rows
}

/// `NAME: N blocks executed, M runs, stops [S, …], J computed jumps …`
fn read(line: &str) -> Option<(String, Row)> {
    let (name, rest) = line.split_once(": ")?;
    let (blocks, rest) = rest.split_once(" blocks executed, ")?;
    let (runs, rest) = rest.split_once(" runs, stops [")?;
    let (stops, rest) = rest.split_once("], ")?;
    let (jumps, _) = rest.split_once(" computed jumps")?;
    let worst = stops.split(", ").filter_map(|it| it.parse().ok()).max()?;
    let row = Row {
        blocks: blocks.parse().ok()?,
        open_jumps: jumps.parse().ok()?,
        worst: BTreeMap::from([(runs.parse().ok()?, worst)]),
    };
    Some((name.to_owned(), row))
}

fn table(rows: &[(String, Row)]) -> String {
    let runs: Vec<u64> =
        rows.first().map_or_else(Vec::new, |(_, row)| row.worst.keys().copied().collect());
    let heads = runs.iter().map(|runs| format!(" stops, M = {runs} |"));
    let mut text = format!("| program | blocks | unknown jumps |{}\n", heads.collect::<String>());
    text += &format!("| --- | ---: | ---: |{}\n", " ---: |".repeat(runs.len()));
    for (name, row) in rows {
        let stops = row.worst.values().map(|stops| format!(" {} |", grouped(*stops)));
        let stops = stops.collect::<String>();
        text += &format!("| `{name}` | {} | {} |{stops}\n", grouped(row.blocks), row.open_jumps);
    }
    text
}

/// A number with commas.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_test_prints_becomes_a_table() {
        let printed = "running 1 test\n\
            ls: 2879 blocks executed, 1 runs, stops [1061], 3 computed jumps assumed to be calls\n\
            ls: 2879 blocks executed, 1 runs, stops [1061], 3 computed jumps assumed to be calls\n\
            ls: 2879 blocks executed, 2 runs, stops [683, 614], 3 computed jumps assumed\n\
            true: 16 blocks executed, 1 runs, stops [11], 2 computed jumps assumed to be calls\n\
            true: 16 blocks executed, 2 runs, stops [11, 5], 2 computed jumps assumed\n";
        let expected = "| program | blocks | unknown jumps | stops, M = 1 | stops, M = 2 |\n\
            | --- | ---: | ---: | ---: | ---: |\n\
            | `ls` | 2,879 | 3 | 1,061 | 683 |\n\
            | `true` | 16 | 2 | 11 | 11 |\n";
        assert_eq!(table(&rows(printed)), expected);
    }
}
