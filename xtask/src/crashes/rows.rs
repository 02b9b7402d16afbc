//! What was found of crashes, part by part, and the tables of it.
//!
//! A part is one program at one level, or a number of random programs.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// What a part found that compares with logs.
#[derive(Debug, Default, Serialize, Deserialize)]
pub struct Found {
    /// By kind, level and variant.
    pub rows: Vec<Row>,
    /// What is wrong.
    pub wrong: Vec<String>,
}

/// Crashes of one kind.
#[derive(Debug, Default, Clone, Serialize, Deserialize)]
pub struct Row {
    /// What died, and how.
    pub kind: String,
    /// How it was optimised.
    pub level: String,
    /// Whether its symbols are gone.
    pub stripped: bool,
    /// How many.
    pub crashes: usize,
    /// Those all of whose known frames agree with the log.
    pub equal: usize,
    /// Those in which nothing executed is called impossible.
    pub possible: usize,
    /// Frames of functions that keep records.
    pub frames: usize,
    /// Those of which no block is known.
    pub unresolved: usize,
    /// How many frames have so many known blocks.
    pub lengths: BTreeMap<usize, usize>,
    /// Edges left by the stack alone, and by all that is known.
    pub edges: (u64, u64),
    /// Frames that agree with gdb.
    pub gdb: usize,
    /// Crashes all of whose frames do.
    pub as_gdb: usize,
}

impl Row {
    fn add(&mut self, other: &Row) {
        self.crashes += other.crashes;
        self.equal += other.equal;
        self.possible += other.possible;
        self.frames += other.frames;
        self.unresolved += other.unresolved;
        other.lengths.iter().for_each(|(at, count)| *self.lengths.entry(*at).or_default() += count);
        self.edges = (self.edges.0 + other.edges.0, self.edges.1 + other.edges.1);
        self.gdb += other.gdb;
        self.as_gdb += other.as_gdb;
    }

    /// How many blocks are known of a frame in the middle.
    fn median(&self) -> usize {
        let half = self.lengths.values().sum::<usize>() / 2;
        let mut seen = 0;
        let reaches = |(_, count): &(&usize, &usize)| {
            seen += **count;
            seen > half
        };
        self.lengths.iter().find(reaches).map_or(0, |(length, _)| *length)
    }

    fn cells(&self) -> Vec<String> {
        let left = 100 * self.edges.1 / self.edges.0.max(1);
        let counts = [self.crashes, self.equal, self.possible, self.as_gdb, self.frames];
        let counts = counts.into_iter().chain([self.unresolved, self.median(), self.gdb]);
        counts.map(|it| it.to_string()).chain([format!("{left} %")]).collect()
    }
}

const HEADING: &str = "| kind | level | stripped | crashes | equal to the log | nothing executed \
    called impossible | backtrace as gdb's | frames | unresolved | median blocks known | frames as \
    gdb shows | edges left |\n| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | \
    ---: | ---: |\n";

/// How many crashes were forced.
pub fn forced(parts: &[Found]) -> usize {
    let rows = parts.iter().flat_map(|it| &it.rows);
    rows.filter(|it| it.kind.starts_with("block")).map(|it| it.crashes).sum()
}

/// The table of all parts, with totals.
pub fn table(parts: &[Found]) -> String {
    let mut rows: BTreeMap<(&str, &str, bool), Row> = BTreeMap::new();
    let mut all = Row::default();
    for row in parts.iter().flat_map(|it| &it.rows) {
        rows.entry((&row.kind, &row.level, !row.stripped)).or_default().add(row);
        all.add(row);
    }
    let mut out = HEADING.to_owned();
    for ((kind, level, kept), row) in &rows {
        let stripped = if *kept { "no" } else { "yes" };
        let _ = writeln!(out, "| {kind} | {level} | {stripped} | {} |", row.cells().join(" | "));
    }
    let _ = writeln!(out, "| all |  |  | {} |", all.cells().join(" | "));
    out
}

/// How much each scheme leaves of one program.
#[derive(Debug, Serialize, Deserialize)]
pub struct Left {
    /// The program.
    pub name: String,
    /// How many crashes of each scheme there were, at least.
    pub crashes: u32,
    /// What can have run, percent of nodes and of edges: by the stack alone, then by
    /// scheme.
    pub percent: Vec<(String, [f64; 2])>,
}

/// The table of what schemes leave.
pub fn schemes_table(programs: &[Left]) -> String {
    let Some(first) = programs.first() else { return "Not made.\n".to_owned() };
    let mut out = String::from("| program | crashes of each |");
    first.percent.iter().for_each(|(name, _)| _ = write!(out, " {name} |"));
    out.push_str("\n| --- | ---: |");
    first.percent.iter().for_each(|_| out.push_str(" ---: |"));
    out.push('\n');
    for program in programs {
        let _ = write!(out, "| {} | {} |", program.name, program.crashes);
        let shown = |[nodes, edges]: [f64; 2]| format!(" {nodes:.1}, {edges:.1} |");
        program.percent.iter().for_each(|it| out.push_str(&shown(it.1)));
        out.push('\n');
    }
    let mean = |place: usize, what: usize| {
        let sum: f64 = programs.iter().map(|it| it.percent[place].1[what]).sum();
        sum / programs.len() as f64
    };
    let total: u32 = programs.iter().map(|it| it.crashes).sum();
    let _ = write!(out, "| mean | {total} |");
    for place in 0..first.percent.len() {
        let _ = write!(out, " {:.1}, {:.1} |", mean(place, 0), mean(place, 1));
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: &str, stripped: bool, lengths: &[(usize, usize)]) -> Row {
        let lengths: BTreeMap<usize, usize> = lengths.iter().copied().collect();
        let (kind, level) = (kind.to_owned(), "-O2".to_owned());
        Row { kind, level, stripped, crashes: 2, edges: (10, 3), lengths, ..Row::default() }
    }

    #[test]
    fn parts_add_up() {
        let part = |rows| Found { rows, wrong: Vec::new() };
        let parts = [
            part(vec![row("block, sed", true, &[(1, 1), (7, 2)])]),
            part(vec![row("block, sed", true, &[(9, 3)]), row("segfault", false, &[(2, 1)])]),
        ];
        assert_eq!(forced(&parts), 4);
        let table = table(&parts);
        assert!(
            table.contains("| block, sed | -O2 | yes | 4 | 0 | 0 | 0 | 0 | 0 | 9 | 0 | 30 % |")
        );
        assert!(
            table.ends_with("| all |  |  | 6 | 0 | 0 | 0 | 0 | 0 | 7 | 0 | 30 % |\n"),
            "{table}"
        );
    }
}
