//! What was found, by kind of crash, level of optimisation and variant.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::judge::Judged;

/// What was found.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<(String, String, &'static str), Row>,
}

#[derive(Default)]
struct Row {
    crashes: usize,
    /// Crashes all of whose frames agree with the log.
    equal: usize,
    frames: usize,
    unresolved: usize,
    lengths: Vec<usize>,
    edges: (u64, u64),
    /// Frames that gdb shows, all of which agree.
    gdb: usize,
}

impl Table {
    /// Adds a crash, of which nothing may be wrong.
    #[track_caller]
    pub fn add(&mut self, kind: &str, level: &str, variant: &'static str, judged: Judged) {
        let what = (kind.to_owned(), level.to_owned(), variant);
        assert!(judged.wrong.is_empty(), "{what:?}: {:#?}", judged.wrong);
        let row = self.rows.entry(what).or_default();
        row.crashes += 1;
        row.equal += usize::from(judged.equal == judged.frames - judged.unresolved);
        row.frames += judged.frames;
        row.unresolved += judged.unresolved;
        row.lengths.extend(judged.lengths);
        row.edges.0 += judged.edges.0;
        row.edges.1 += judged.edges.1;
    }

    /// Adds frames of such crashes that are as gdb shows them.
    pub fn add_frames(&mut self, kind: &str, level: &str, variant: &'static str, frames: usize) {
        self.rows.entry((kind.to_owned(), level.to_owned(), variant)).or_default().gdb += frames;
    }

    /// Writes the table, as far as it is: a long run that is ended leaves it.
    pub fn write(&self) {
        if let Some(path) = std::env::var_os("BACKTRAIL_TABLE") {
            std::fs::write(path, self.text()).unwrap();
        }
    }

    /// The table as people read it.
    pub fn text(&self) -> String {
        let mut out = String::from(
            "| kind | level | stripped | crashes | equal to the log | frames | unresolved | \
             median blocks known | as gdb shows | edges left |\n\
             | --- | --- | --- | --- | --- | --- | --- | --- | --- | --- |\n",
        );
        let mut all = Row::default();
        for ((kind, level, variant), row) in &self.rows {
            let stripped = if *variant == "stripped" { "yes" } else { "no" };
            row.write(&mut out, [kind, level, stripped]);
            all.crashes += row.crashes;
            all.equal += row.equal;
            all.frames += row.frames;
            all.unresolved += row.unresolved;
            all.lengths.extend(&row.lengths);
            all.edges = (all.edges.0 + row.edges.0, all.edges.1 + row.edges.1);
            all.gdb += row.gdb;
        }
        all.write(&mut out, ["all", "", ""]);
        out
    }

    /// That something was found out, in every row: a frame of which nothing is
    /// known proves nothing.
    #[track_caller]
    pub fn assert_told(&self) {
        for ((kind, ..), row) in &self.rows {
            let (unresolved, frames) = (row.unresolved, row.frames);
            assert!(frames > 0 && unresolved * 10 <= frames, "{kind}: {unresolved} of {frames}");
            assert!(row.gdb > 0, "{kind}: gdb shows nothing");
        }
    }
}

impl Row {
    fn write(&self, out: &mut String, [kind, level, stripped]: [&str; 3]) {
        let mut lengths = self.lengths.clone();
        lengths.sort_unstable();
        let median = lengths.get(lengths.len() / 2).copied().unwrap_or(0);
        let left = 100 * self.edges.1 / self.edges.0.max(1);
        let _ = writeln!(
            out,
            "| {kind} | {level} | {stripped} | {} | {} | {} | {} | {median} | {} | {left} % |",
            self.crashes, self.equal, self.frames, self.unresolved, self.gdb,
        );
    }
}
