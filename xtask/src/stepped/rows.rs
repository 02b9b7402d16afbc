//! What was found of traces by breakpoints, and the page that it becomes.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use crate::terminal::grouped;

/// What a part found that compares with single steps.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// By executable.
    pub rows: Vec<Row>,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// What was compared of one executable.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Row {
    /// What it is called.
    pub name: String,
    /// The blocks of a run.
    pub blocks: u64,
    /// Those of libraries that are traced with it.
    pub in_libraries: u64,
    /// Computed jumps in it whose targets are assumed.
    pub unknown_jumps: u64,
    /// Traces, each put together from the runs of one plan.
    pub comparisons: u64,
    /// Those that are what single steps tell.
    pub equal: u64,
    /// Runs of all plans.
    pub runs: u64,
    /// Those with as many stops as were predicted.
    pub as_predicted: u64,
    /// The stops of all runs.
    pub stops: u64,
    /// By number of runs: the stops of the worst.
    pub worst: BTreeMap<usize, u64>,
}

impl Row {
    fn cells(&self) -> String {
        let numbers =
            [self.comparisons, self.equal, self.runs, self.as_predicted, self.stops].map(grouped);
        numbers.join(" | ")
    }

    fn add(&mut self, other: &Row) {
        self.comparisons += other.comparisons;
        self.equal += other.equal;
        self.runs += other.runs;
        self.as_predicted += other.as_predicted;
        self.stops += other.stops;
    }
}

/// A program that was planned by the counts of an earlier trace of it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Counted {
    /// The program.
    pub name: String,
    /// By number of runs: the stops of the worst, and below what none can stay.
    pub runs: BTreeMap<usize, (u64, u64)>,
}

/// What `--explain` says of the worst run, and of the bound.
pub fn told(said: &str) -> Option<(u64, u64)> {
    let number = |text: &str| {
        let digits: String = text.chars().filter(|it| *it != ',').collect();
        digits.split_whitespace().next()?.parse().ok()
    };
    let worst = said.split("at most ").nth(1).and_then(number)?;
    let bound = said.split("has fewer than ").nth(1).and_then(number)?;
    Some((worst, bound))
}

/// All that was found.
#[derive(Debug)]
pub struct All {
    /// What compilers made.
    pub compiled: Vec<Found>,
    /// Installed programs.
    pub installed: Vec<Found>,
    /// Installed programs with libraries.
    pub with_libraries: Vec<Found>,
    /// Installed programs, planned by counts.
    pub counted: Vec<Counted>,
}

impl All {
    /// What was compared with single steps.
    pub fn compared(&self) -> impl Iterator<Item = &Found> {
        self.compiled.iter().chain(&self.installed).chain(&self.with_libraries)
    }
}

/// The page, of these commands, and of these with libraries.
pub fn page(all: &All, commands: &[String], libraries: &[String]) -> String {
    let listed = |commands: &[String]| {
        commands.iter().map(|it| format!("`{it}`")).collect::<Vec<_>>().join(", ")
    };
    format!(
        "# Traces by breakpoints, against single steps\n\n\
         ```sh\n\
         cargo xtask fuzz breakpoints\n\
         ```\n\n\
         makes this page, in half an hour of processor time. A run that was ended goes on where it \
         was.\n\n\
         A program runs step by step: every instruction of it stops it, and must be in a block \
         that was found in its file. Then it is traced by breakpoints: with a plan of M runs, M \
         from 1 to 6, for each strategy and limit, once with stops and once with the handler \
         inside (where exceptions or `longjmp` land, stops are used all the same; not of `grep` \
         and `diff`, which look at their own memory map, and not with libraries).\n\n\
         - *traces*: one for each plan and way of stopping, put together from all runs of the \
         plan.\n\
         - *equal*: those that have the blocks of the single steps, all of them and in order, and \
         end where they end.\n\
         - *as predicted*: runs with exactly as many stops as the single steps say that their \
         breakpoints have.\n\
         - *unknown jumps*: computed jumps in the file without a table, taken for calls in tail \
         position.\n\n\
         ## What compilers make\n\n\
         gcc and clang: [`shapes.c`](../crates/machine/tests/code/shapes.c), with tables of jumps, \
         recursion, pointers, callbacks and `longjmp`; bound to its addresses at -O1, not at the \
         others. g++ and clang++: [`throws.cc`](../crates/machine/tests/code/throws.cc), stripped. \
         Tables: [`tables.c`](../crates/machine/tests/code/tables.c), whose tables of jumps nothing \
         bounds. Leaving: [`leaving.c`](../crates/machine/tests/code/leaving.c), bound to its \
         addresses, whose computed jumps go to labels or to functions. \
         With a library: [`host.c`](../crates/machine/tests/code/host.c) and \
         [`shared.c`](../crates/machine/tests/code/shared.c), traced together, which call each \
         other by name, through pointers and through the C library. Plans of the three \
         strategies without a limit and with 6, 15 and 40 breakpoints in a run besides those that \
         every run has. What is linked statically is traced with its libraries: of `shapes.c` three \
         plans; of [`streams.cc`](../crates/machine/tests/code/streams.cc), which throws through \
         several frames, plans of one run and of two (`fine`), stripped at -O2, and what g++ makes \
         with stops only: there, the first exception sorts the unwind tables, which is nearly all \
         of its blocks.\n\n{}\n\
         ## What Debian installs\n\n\
         {}. Plans of the three strategies, without a limit and two with a limit of 100; of \
         the last three, of one strategy (`fine`).\n\n{}\n\
         Stops of the worst run, by the number of runs (`fine`, no limit), planned without \
         counts:\n\n{}\n\
         ## With libraries\n\n\
         {}, traced together in one run and in three (`fine`, no limit): *in libraries* are the blocks of theirs.\n\n{}\n\
         ## With the counts of an earlier trace\n\n\
         `backtrail trace --weights`, of the same command: stops of the worst run, and in \
         brackets below what no plan of so many runs can stay.\n\n{}",
        compiled_table(&all.compiled),
        listed(commands),
        installed_table(&all.installed),
        worst_table(&all.installed),
        listed(libraries),
        libraries_table(&all.with_libraries),
        counted_table(&all.counted),
    )
}

const COMPARED: &str = "blocks | unknown jumps | traces | equal | runs | as predicted | stops |";

fn table(first: &str, found: &[Found], name: impl Fn(&Row) -> String) -> String {
    let mut out = format!("| {first} | {COMPARED}\n| --- |{}\n", " ---: |".repeat(7));
    let mut all = Row::default();
    for row in found.iter().flat_map(|it| &it.rows) {
        let (name, blocks) = (name(row), grouped(row.blocks));
        let _ = writeln!(out, "| {name} | {blocks} | {} | {} |", row.unknown_jumps, row.cells());
        all.add(row);
    }
    let _ = writeln!(out, "| all |  |  | {} |", all.cells());
    out
}

fn compiled_table(found: &[Found]) -> String {
    table("by", found, |row| row.name.clone())
}

fn installed_table(found: &[Found]) -> String {
    table("program", found, |row| format!("`{}`", row.name))
}

fn libraries_table(found: &[Found]) -> String {
    let mut out = "| command | blocks | in libraries | unknown jumps | traces | equal | runs | as \
        predicted | stops, M = 1 | stops, M = 3 |\n"
        .to_owned();
    let _ = writeln!(out, "| --- |{}", " ---: |".repeat(9));
    for row in found.iter().flat_map(|it| &it.rows) {
        let [one, three] = [1, 3].map(|runs| row.worst.get(&runs).copied().unwrap_or_default());
        let numbers = [
            row.blocks,
            row.in_libraries,
            row.unknown_jumps,
            row.comparisons,
            row.equal,
            row.runs,
            row.as_predicted,
            one,
            three,
        ];
        let _ = writeln!(out, "| {} | {} |", row.name, numbers.map(grouped).join(" | "));
    }
    out
}

fn worst_table(found: &[Found]) -> String {
    let rows: Vec<&Row> = found.iter().flat_map(|it| &it.rows).collect();
    let Some(first) = rows.first() else { return "Not made.\n".to_owned() };
    let runs: Vec<usize> = first.worst.keys().copied().collect();
    let mut out = heads(&runs);
    for row in rows {
        let _ = write!(out, "| `{}` |", row.name);
        for runs in &runs {
            let stops = row.worst.get(runs).map_or_else(String::new, |&it| grouped(it));
            let _ = write!(out, " {stops} |");
        }
        out.push('\n');
    }
    out
}

fn counted_table(found: &[Counted]) -> String {
    let Some(first) = found.first() else { return "Not made.\n".to_owned() };
    let mut out = heads(&first.runs.keys().copied().collect::<Vec<_>>());
    for program in found {
        let _ = write!(out, "| `{}` |", program.name);
        for &(worst, bound) in program.runs.values() {
            let _ = write!(out, " {} ({}) |", grouped(worst), grouped(bound));
        }
        out.push('\n');
    }
    out
}

fn heads(runs: &[usize]) -> String {
    let names: String = runs.iter().map(|runs| format!(" M = {runs} |")).collect();
    format!("| program |{names}\n| --- |{}\n", " ---: |".repeat(runs.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(name: &str, worst: &[(usize, u64)]) -> Found {
        let row = Row {
            name: name.to_owned(),
            blocks: 2879,
            in_libraries: 0,
            unknown_jumps: 3,
            comparisons: 2,
            equal: 2,
            runs: 3,
            as_predicted: 3,
            stops: 1500,
            worst: worst.iter().copied().collect(),
        };
        Found { rows: vec![row], wrong: Vec::new() }
    }

    #[test]
    fn what_parts_found_becomes_tables() {
        let parts = [found("ls", &[(1, 1061), (2, 683)]), found("true", &[(1, 11), (2, 11)])];
        let expected = "| program | M = 1 | M = 2 |\n| --- | ---: | ---: |\n\
            | `ls` | 1,061 | 683 |\n| `true` | 11 | 11 |\n";
        assert_eq!(worst_table(&parts), expected);
        let table = installed_table(&parts);
        assert!(table.contains("| `ls` | 2,879 | 3 | 2 | 2 | 3 | 3 | 1,500 |\n"), "{table}");
        assert!(table.ends_with("| all |  |  | 4 | 4 | 6 | 6 | 3,000 |\n"), "{table}");
    }

    #[test]
    fn what_the_tool_says_is_read() {
        let said = "backtrail: stops [7], predicted [7], at most 7 in a run\nbacktrail: one run \
            planned with what is known now has 7; no plan of one run has fewer than 1,635\n";
        assert_eq!(told(said), Some((7, 1635)));
        assert_eq!(told("backtrail: 7 blocks executed"), None);
    }
}
