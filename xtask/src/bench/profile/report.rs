//! What was measured, on the terminal and in `docs/bench-profile.md`.

use std::fmt::Write;

use super::subject::SUBJECTS;
use super::threads::Threads;
use super::variant::Variant;
use super::{Results, Row, least, median};
use crate::terminal;

/// How many times the overhead in one thread two threads may have.
const THREADS_LIMIT: f64 = 1.3;

/// How many times the overhead of counters on edges a path profile may have.
const PROGRAM_LIMIT: f64 = 2.0;

/// What part of the overhead may be left with weights for them to matter.
const WEIGHTS_LIMIT: f64 = 0.9;

type Table = Vec<Vec<String>>;

/// All but the original, which they are compared with.
const COMPARED: [Variant; 6] = [
    Variant::Empty,
    Variant::Paths,
    Variant::Weighted,
    Variant::Edges,
    Variant::Regions,
    Variant::Gcov,
];

fn percent(ratio: f64) -> String {
    let shown = format!("{:.1}", (ratio - 1.0) * 100.0);
    if shown == "-0.0" { "0.0".to_owned() } else { shown }
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "missed" }
}

/// The geometric mean.
fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, count), value| (sum + value.ln(), count + 1));
    (sum / f64::from(count)).exp()
}

fn mean_instructions(rows: &[Row], variant: Variant) -> f64 {
    mean(rows.iter().map(|row| row.instruction_ratio(variant)))
}

fn overhead_against_edges(row: &Row) -> f64 {
    (row.instruction_ratio(Variant::Paths) - 1.0) / (row.instruction_ratio(Variant::Edges) - 1.0)
}

fn heading(first: &[&str], variants: &[Variant], last: &[&str]) -> Vec<String> {
    let titles = variants.iter().map(|variant| variant.title());
    first.iter().copied().chain(titles).chain(last.iter().copied()).map(str::to_owned).collect()
}

fn instructions(rows: &[Row]) -> Table {
    let mut table = vec![heading(&["program", "million"], &COMPARED, &["paths / edges"])];
    for row in rows {
        let million = row.of(Variant::Original).instructions as f64 / 1e6;
        let mut line = vec![row.name.clone(), format!("{million:.0}")];
        line.extend(COMPARED.map(|variant| percent(row.instruction_ratio(variant))));
        line.push(format!("{:.2}", overhead_against_edges(row)));
        table.push(line);
    }
    let mut line = vec!["geometric mean".to_owned(), String::new()];
    line.extend(COMPARED.map(|variant| percent(mean_instructions(rows, variant))));
    let [paths, edges] =
        [Variant::Paths, Variant::Edges].map(|variant| mean_instructions(rows, variant) - 1.0);
    line.push(format!("{:.2}", paths / edges));
    table.push(line);
    table
}

fn times(rows: &[Row]) -> Table {
    let mut table = vec![heading(&["program", "original s"], &COMPARED, &["spread"])];
    for row in rows {
        let original = row.of(Variant::Original);
        let mut line = vec![row.name.clone(), format!("{:.2}", original.least())];
        line.extend(COMPARED.map(|variant| format!("{:.2}", row.time_ratio(variant))));
        line.push(format!("{:.2}", median(&original.user) / original.least()));
        table.push(line);
    }
    let mut line = vec!["geometric mean".to_owned(), String::new()];
    line.extend(
        COMPARED
            .map(|variant| format!("{:.2}", mean(rows.iter().map(|row| row.time_ratio(variant))))),
    );
    line.push(String::new());
    table.push(line);
    table
}

fn memory(rows: &[Row]) -> Table {
    let mut table = vec![heading(&["program", "original kB"], &COMPARED, &[])];
    for row in rows {
        let original = row.of(Variant::Original).memory;
        let mut line = vec![row.name.clone(), original.to_string()];
        line.extend(COMPARED.map(|variant| {
            let more = row.of(variant).memory as i64 - original as i64;
            format!("{more:+}")
        }));
        table.push(line);
    }
    table
}

fn threads_table(threads: &Threads) -> Table {
    let titles = [
        "counts",
        "one thread s",
        "two threads s",
        "overhead of one",
        "of two",
        "of one, medians",
        "of two, medians",
        "processors used by two",
        "counts lost",
    ];
    let mut table = vec![titles.map(str::to_owned).to_vec()];
    for (index, line) in threads.lines.iter().enumerate() {
        let shown = |value: f64| {
            if index == line.baseline { String::new() } else { format!("{:.1} %", value * 100.0) }
        };
        let lost = match line.counts {
            None => String::new(),
            Some(_) if line.exact => "none".to_owned(),
            Some([one, two]) => {
                format!("{:.1} %", (one as f64 - two as f64) / one as f64 * 100.0)
            }
        };
        let mut cells = vec![line.title.clone()];
        cells.extend(line.user.iter().map(|runs| format!("{:.2}", least(runs))));
        cells.extend(threads.overhead(line, least).map(shown));
        cells.extend(threads.overhead(line, median).map(shown));
        cells.push(format!("{:.2}", median(&line.processors)));
        cells.push(lost);
        table.push(cells);
    }
    table
}

fn wanted(results: &Results) -> Table {
    let rows = &results.rows;
    let mut table = vec![["what", "wanted", "measured", ""].map(str::to_owned).to_vec()];
    let mut compare = |what: &str, limit: String, value: String, met: bool| {
        table.push(vec![what.to_owned(), limit, value, verdict(met).to_owned()]);
    };
    if !rows.is_empty() {
        let of = |variant| mean_instructions(rows, variant);
        let [paths, weighted, edges] = [Variant::Paths, Variant::Weighted, Variant::Edges].map(of);
        compare(
            "instructions, geometric mean",
            format!("≤ {} %, edges", percent(edges)),
            format!("{} %", percent(paths)),
            paths <= edges,
        );
        compare(
            "the same with weights of a training run",
            format!("clearly below {} % (≤ {WEIGHTS_LIMIT} of it)", percent(paths)),
            format!("{} %", percent(weighted)),
            weighted - 1.0 <= (paths - 1.0) * WEIGHTS_LIMIT,
        );
        let worst = rows.iter().map(|row| (overhead_against_edges(row), row.name.as_str()));
        let worst = worst.fold((f64::NEG_INFINITY, ""), |a, b| if b.0 > a.0 { b } else { a });
        compare(
            "instructions, every program",
            format!("≤ {PROGRAM_LIMIT}x edges"),
            format!("at most {:.2}x ({})", worst.0, worst.1),
            worst.0 <= PROGRAM_LIMIT,
        );
    }
    if let Some((threads, paths)) = results.threads.as_ref().and_then(|t| Some((t, t.paths()?))) {
        let [one, two] = threads.overhead(paths, least);
        compare(
            "overhead of two threads / of one",
            format!("≤ {THREADS_LIMIT}x"),
            format!("{:.2}x, on {:.2} processors", two / one, median(&paths.processors)),
            two <= one * THREADS_LIMIT && median(&paths.processors) > 1.5,
        );
        let exact = if paths.exact { "exact" } else { "not exact" };
        compare("counts of two threads", "exact".into(), exact.into(), paths.exact);
    }
    table
}

fn programs(results: &Results) -> Table {
    let mut table = vec![["program", "package", "does"].map(str::to_owned).to_vec()];
    for row in &results.rows {
        if let Some(subject) = SUBJECTS.iter().find(|subject| subject.name == row.name) {
            let package = format!("{} {}", subject.package, row.version);
            table.push(vec![row.name.clone(), package, subject.does.to_owned()]);
        }
    }
    table
}

/// Prints everything.
pub fn print(results: &Results) {
    terminal::heading("wanted and measured");
    print!("{}", terminal::table(&wanted(results)));
    terminal::heading("more instructions, %");
    print!("{}", terminal::table(&instructions(&results.rows)));
    terminal::heading("user time / original");
    print!("{}", terminal::table(&times(&results.rows)));
    terminal::heading("peak memory, kB more than the original");
    print!("{}", terminal::table(&memory(&results.rows)));
    if let Some(threads) = &results.threads {
        terminal::heading("two threads");
        print!("{}", terminal::table(&threads_table(threads)));
    }
    if !results.missing.is_empty() {
        println!("yet to be measured: {}", results.missing.join(", "));
    }
}

fn markdown(table: &Table) -> String {
    let mut text = String::new();
    for (index, row) in table.iter().enumerate() {
        let _ = writeln!(text, "| {} |", row.join(" | "));
        if index == 0 {
            let rule: Vec<_> = row.iter().map(|_| "---").collect();
            let _ = writeln!(text, "| {} |", rule.join(" | "));
        }
    }
    text
}

/// The page for `docs/`.
pub fn page(results: &Results) -> String {
    let mut page = String::from(INTRODUCTION);
    if !results.missing.is_empty() {
        let _ = writeln!(page, "Yet to be measured: {}.\n", results.missing.join(", "));
    }
    page.push_str(&markdown(&wanted(results)));
    page.push_str(INSTRUCTIONS);
    page.push_str(&markdown(&instructions(&results.rows)));
    page.push_str(TIMES);
    page.push_str(&markdown(&times(&results.rows)));
    page.push_str(MEMORY);
    page.push_str(&markdown(&memory(&results.rows)));
    if let Some(threads) = &results.threads {
        page.push_str(THREADS);
        page.push_str(&markdown(&threads_table(threads)));
    }
    page.push_str(BOUNDS);
    page.push_str("\n## Programs\n\n");
    page.push_str(&markdown(&programs(results)));
    page
}

const INTRODUCTION: &str = "# What a path profile costs

This page is written by

```
cargo xtask bench profile
```

which fetches programs as Debian packages them, builds each in all ways below with `-O2`, makes its inputs by rule, and runs everything in turns. `--only NAME` takes some of the programs, `--rounds N` says how often they are timed (7). What has been measured is kept, and measured again when the tool has changed or with `--again`. Every run of every variant has to write the same as the original.

| column | is |
| --- | --- |
| original | `clang-19` |
| empty plan | `backtrail instrument --scheme empty`: no probes |
| paths | `--scheme profile` |
| paths, weights | `--scheme profile --weights`, with the profile of another input |
| edges | `clang-19 -fprofile-generate -mllvm -disable-vp=true`: counters on edges only |
| regions | `clang-19 -fprofile-instr-generate` |
| gcov | `clang-19 --coverage` |

";

const INSTRUCTIONS: &str = "
## Instructions

Percent more instructions, by callgrind on a small input: path profiles against the empty plan, everything else against the original. They are the same in every run but for a few that depend on addresses, so these decide. Means are of the ratios.

";

const TIMES: &str = "
## Time

User time on a larger input against the original's, the least of all rounds. *spread* is the median over the least of the original's own runs. The empty plan has the original's code: what its column differs from 1 is noise (and where the linker put things), and no other column is more precise.

";

const MEMORY: &str = "
## Memory

The greatest resident set in kB, and how many kB more than the original: counters that are mapped from files are in it once they are touched, and so are the pages of the runtime.

";

const THREADS: &str = "
## Two threads

The same work in one thread and in two that run the same hot function: user time of all threads, and overheads against the original or the empty plan with as many threads. Where other work keeps a processor busy, the two seldom run at the same time, and the least of all runs is one in which they did not; medians are therefore given too, and how many processors were used at a time (a median): at 1 the threads took turns, what sharing costs is not seen, and the limit does not count as met. *counts lost*: by how much less was counted by two threads than by one.

";

const BOUNDS: &str = "
## What bounds the numbers

- **Entry.** Every activation begins by asking whether its thread has counters (three instructions), and counts itself where it can be left early (a fourth). Small functions that are called often feel it most: in Lua's API functions these are most of the difference to clang's shared counters. It is what threads that do not share, and counts that survive a kill, cost.
- **Inner loops.** A turn of a loop ends a path, and the count is in memory as soon as it has ended: an increment on the back edge, and in bzip2's move to front a jump besides. clang adds up in a register while the loop runs and writes afterwards; a kill in between loses that.
- **Weights** choose which edges carry additions and where paths of large functions are cut. They do not yet count what it takes to set the sum again at the head of a hot inner loop that is also entered with another sum: where a cut before the loop made the sum a constant without weights, the same loop with weights takes two instructions more in each turn (bzip2's move to front).
- **Instructions are not time**, in either direction (see zstd and tcc). The times were taken on a machine with two processors that were busy with other work, some of it other rows of this table: differences of some percent mean nothing.
";

#[cfg(test)]
mod tests {
    use super::super::Measured;
    use super::*;

    fn row(name: &str, paths: u64) -> Row {
        let instructions = [1000, 1000, paths, 1050, 1100, 1200, 1300];
        let measured = |(variant, instructions): (Variant, u64)| Measured {
            variant,
            instructions,
            user: vec![2.0, 1.0, 1.5],
            memory: 100 + variant as u64,
        };
        let variants = Variant::ALL.into_iter().zip(instructions).map(measured).collect();
        Row { name: name.into(), version: "1".into(), variants }
    }

    #[test]
    fn what_is_wanted_stands_beside_what_was_measured() {
        let rows = vec![row("p", 1100), row("q", 1210)];
        let results = Results { rows, ..Results::default() };
        let lines: Vec<String> = wanted(&results).iter().map(|line| line.join(" | ")).collect();
        let expected = [
            "what | wanted | measured | ",
            "instructions, geometric mean | ≤ 10.0 %, edges | 15.4 % | missed",
            "the same with weights of a training run | clearly below 15.4 % (≤ 0.9 of it) | 5.0 % | met",
            "instructions, every program | ≤ 2x edges | at most 2.10x (q) | missed",
        ];
        assert_eq!(lines, expected);
    }

    #[test]
    fn each_is_compared_with_its_baseline() {
        let rows = [row("p", 1100)];
        let shown = |table: Table| table[1].join(" ");
        assert_eq!(shown(instructions(&rows)), "p 0 0.0 10.0 5.0 10.0 20.0 30.0 1.00");
        assert_eq!(shown(times(&rows)), "p 1.00 1.00 1.00 1.00 1.00 1.00 1.00 1.50");
        assert_eq!(shown(memory(&rows)), "p 100 +1 +2 +3 +4 +5 +6");
    }
}
