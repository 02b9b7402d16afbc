//! Two threads in the same hot function.
//!
//! The same work is done by one thread and by two, so the same paths are taken
//! as often, and counts that are exact are equal. clang's counters are shared
//! by the threads: without atomic updates counts get lost, and with or without
//! them the processors take the same lines of memory from each other.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::run::Bench;
use crate::command;
use crate::corpus::tree::Workshop;

/// The program.
pub const SOURCE: &str = include_str!("threads.c");

/// How often the hot function is called by each half of the work.
const ROUNDS: u64 = 100_000_000;

/// What was measured of one way to count.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Counted {
    /// How its executable was made.
    pub title: String,
    /// Which line is its baseline.
    pub baseline: usize,
    /// User seconds of every run, of both halves, in one thread and in two.
    pub user: [Vec<f64>; 2],
    /// How many processors were used at the same time by two threads, of every run.
    pub processors: Vec<f64>,
    /// Sum of the hot function's counts, in one thread and in two; nothing
    /// where nothing is counted.
    pub counts: Option<[u64; 2]>,
    /// Whether every single count is the same in one thread and in two.
    pub exact: bool,
}

/// All of them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// By how it is counted.
    pub lines: Vec<Counted>,
}

impl Threads {
    /// How much longer a line takes than its baseline, in one thread and in
    /// two, by the least of all runs or by another choice.
    pub fn overhead(&self, line: &Counted, choose: fn(&[f64]) -> f64) -> [f64; 2] {
        let baseline = &self.lines[line.baseline];
        [0, 1].map(|index| choose(&line.user[index]) / choose(&baseline.user[index]) - 1.0)
    }

    /// The line of the path profile.
    pub fn paths(&self) -> Option<&Counted> {
        self.lines.iter().find(|line| line.title == PATHS)
    }
}

/// The title of the path profile's line.
const PATHS: &str = "paths";

const CLANG: [(&str, &str); 3] = [
    ("original", ""),
    ("edges", "-fprofile-generate -mllvm -disable-vp=true"),
    ("edges, atomic", "-fprofile-generate -mllvm -disable-vp=true -fprofile-update=atomic"),
];

/// Builds, runs and compares.
pub fn measure(workshop: &Workshop, bench: &Bench, rounds: usize) -> Result<Threads> {
    let source = bench.file("threads.c");
    std::fs::write(&source, SOURCE)?;
    let mut executables: Vec<(&str, usize, PathBuf)> = Vec::new();
    for (title, options) in CLANG {
        let output = bench.file(&format!("threads {title}"));
        let mut clang = Command::new("clang-19");
        clang.args(["-O2", "-pthread"]).args(options.split_whitespace()).arg(&source);
        command::output(clang.arg("-o").arg(&output))?;
        executables.push((title, 0, output));
    }
    let carried = bench.file("threads carried");
    let mut ours = workshop.backtrail();
    ours.args(["cc", "-O2", "-pthread"]).arg(&source).arg("-o").arg(&carried);
    command::output(&mut ours)?;
    for (title, scheme) in [("empty plan", "empty"), (PATHS, "profile")] {
        let output = bench.file(&format!("threads {title}"));
        let mut instrument = workshop.backtrail();
        instrument.args(["instrument", "--quiet", "--scheme", scheme, "-o"]);
        command::output(instrument.arg(&output).arg(&carried))?;
        executables.push((title, CLANG.len(), output));
    }
    let mut lines: Vec<Counted> = executables
        .iter()
        .map(|(title, baseline, _)| Counted {
            title: (*title).to_owned(),
            baseline: *baseline,
            user: Default::default(),
            processors: Vec::new(),
            counts: None,
            exact: true,
        })
        .collect();
    let mut counts: Vec<[Vec<u64>; 2]> = vec![Default::default(); lines.len()];
    let mut expected = None;
    for round in 0..rounds {
        for (index, (title, _, executable)) in executables.iter().enumerate() {
            for threads in [1, 2] {
                let words = [threads.to_string(), ROUNDS.to_string()];
                let words = [words[0].as_str(), words[1].as_str()];
                let finished =
                    bench.launch(&Command::new(executable), &words, "/dev/null".as_ref())?;
                let expected = expected.get_or_insert_with(|| finished.output.clone());
                ensure!(*expected == finished.output, "{title} writes something else");
                let usage = finished.usage;
                lines[index].user[threads - 1].push(usage.user);
                if threads == 2 {
                    lines[index].processors.push((usage.user + usage.kernel) / usage.wall);
                }
                if round == 0 {
                    counts[index][threads - 1] = match *title {
                        PATHS => read_paths(workshop, bench)?,
                        "edges" | "edges, atomic" => read_counters(bench)?,
                        _ => Vec::new(),
                    };
                }
            }
        }
    }
    for (line, [one, two]) in lines.iter_mut().zip(counts) {
        if !one.is_empty() {
            line.counts = Some([one.iter().sum(), two.iter().sum()]);
            line.exact = one == two;
        }
    }
    Ok(Threads { lines })
}

/// Counts of the paths of the hot function, by path.
fn read_paths(workshop: &Workshop, bench: &Bench) -> Result<Vec<u64>> {
    let mut paths = workshop.backtrail();
    paths.args(["paths", "--json", "--function", "hot"]).arg(bench.records());
    let document: Value = serde_json::from_str(&command::output(&mut paths)?)?;
    let functions = document["functions"].as_array().context("paths lists no functions")?;
    let hot = functions.iter().find(|function| function["name"] == "hot");
    let hot = hot.context("the hot function has no paths")?;
    ensure!(
        hot["entries"].as_u64() == Some(2 * ROUNDS),
        "the hot function was entered {} times by its profile and {} times in truth",
        hot["entries"],
        2 * ROUNDS
    );
    let mut counts: Vec<(String, u64)> = Vec::new();
    for path in hot["paths"].as_array().context("no paths")? {
        let count = path["count"].as_u64().context("a path has no count")?;
        counts.push((path["id"].to_string(), count));
    }
    counts.sort();
    Ok(counts.into_iter().map(|(_, count)| count).collect())
}

/// Counters of the hot function, as llvm-profdata shows them.
fn read_counters(bench: &Bench) -> Result<Vec<u64>> {
    let merged = bench.file("threads.profdata");
    let mut merge = Command::new("llvm-profdata-19");
    merge.args(["merge", "-o"]).arg(&merged);
    for file in std::fs::read_dir(bench.records())? {
        merge.arg(file?.path());
    }
    command::output(&mut merge)?;
    let mut show = Command::new("llvm-profdata-19");
    let shown = command::output(show.args(["show", "--counts", "--function=hot"]).arg(&merged))?;
    parse_counters(&shown).context("llvm-profdata shows no counters")
}

fn parse_counters(text: &str) -> Option<Vec<u64>> {
    let list = text.lines().find_map(|line| line.trim().strip_prefix("Block counts: ["))?;
    let numbers = list.trim_end_matches(']').split(", ");
    numbers.map(|number| number.parse().ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::least;
    use super::*;

    #[test]
    fn counters_are_read() {
        let text =
            "Counters:\n  hot:\n    Hash: 0x1\n    Counters: 3\n    Block counts: [1, 20, 3]\n";
        assert_eq!(parse_counters(text), Some(vec![1, 20, 3]));
        assert_eq!(parse_counters("Counters:\n"), None);
        assert_eq!(parse_counters("Block counts: [1, x]"), None);
    }

    #[test]
    fn overheads_are_against_the_baseline_with_as_many_threads() {
        let line = |title: &str, baseline, user| Counted {
            title: title.into(),
            baseline,
            user,
            processors: Vec::new(),
            counts: None,
            exact: true,
        };
        let threads = Threads {
            lines: vec![
                line("empty plan", 0, [vec![1.0], vec![3.0, 2.0]]),
                line(PATHS, 0, [vec![1.5], vec![2.5, 4.0]]),
            ],
        };
        assert_eq!(threads.overhead(threads.paths().unwrap(), least), [0.5, 0.25]);
    }
}
