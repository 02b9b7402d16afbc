//! What was found, by kind of crash, level of optimisation and variant.

use std::collections::BTreeMap;

use serde::Serialize;

use super::judge::Judged;

/// What was found.
#[derive(Default)]
pub struct Table {
    rows: BTreeMap<(String, String, &'static str), Row>,
    wrong: Vec<String>,
}

/// What was found of some crashes. `xtask` makes the page of such rows.
#[derive(Default, Serialize)]
struct Row {
    crashes: usize,
    /// Crashes all of whose frames agree with the log.
    equal: usize,
    /// Crashes in which nothing executed is called impossible.
    possible: usize,
    frames: usize,
    unresolved: usize,
    /// How many frames there are of which so many blocks are known.
    lengths: BTreeMap<usize, usize>,
    /// Edges that can have been taken by the stack alone, and by all that is known.
    edges: (u64, u64),
    /// Frames that gdb shows and that agree.
    gdb: usize,
    /// Crashes all of whose frames agree with gdb's.
    as_gdb: usize,
}

/// A row, as it is written.
#[derive(Serialize)]
struct Written<'a> {
    kind: &'a str,
    level: &'a str,
    stripped: bool,
    #[serde(flatten)]
    row: &'a Row,
}

/// Everything, as it is written.
#[derive(Serialize)]
struct Found<'a> {
    rows: Vec<Written<'a>>,
    wrong: &'a [String],
}

impl Table {
    /// Adds a crash; `gdb` are the frames that are as gdb shows them, or what is not.
    pub fn add(
        &mut self,
        (kind, level, variant): (&str, &str, &'static str),
        judged: Judged,
        gdb: Result<usize, String>,
    ) {
        let row = self.rows.entry((kind.to_owned(), level.to_owned(), variant)).or_default();
        row.crashes += 1;
        row.equal += usize::from(judged.unequal.is_empty());
        row.possible += usize::from(judged.impossible.is_empty());
        row.frames += judged.frames;
        row.unresolved += judged.unresolved;
        judged.lengths.iter().for_each(|it| *row.lengths.entry(*it).or_default() += 1);
        row.edges.0 += judged.edges.0;
        row.edges.1 += judged.edges.1;
        row.gdb += gdb.as_ref().map_or(0, |frames| *frames);
        row.as_gdb += usize::from(gdb.is_ok());
        let wrong = judged.unequal.into_iter().chain(judged.impossible).chain(gdb.err());
        self.wrong.extend(wrong.map(|what| format!("{kind} {level} {variant}: {what}")));
    }

    /// Writes the rows for `xtask`.
    pub fn write(&self) {
        let Some(path) = std::env::var_os("BACKTRAIL_ROWS") else { return };
        let rows = self.rows.iter().map(|((kind, level, variant), row)| Written {
            kind,
            level,
            stripped: *variant == "stripped",
            row,
        });
        let found = Found { rows: rows.collect(), wrong: &self.wrong };
        std::fs::write(path, serde_json::to_vec(&found).unwrap()).unwrap();
    }

    /// That nothing is wrong, and that something was found out in every row: a frame
    /// of which nothing is known proves nothing.
    #[track_caller]
    pub fn assert_told(&self) {
        assert!(self.wrong.is_empty(), "{:#?}", self.wrong);
        assert!(!self.rows.is_empty(), "no crash");
        for ((kind, ..), row) in &self.rows {
            let (unresolved, frames) = (row.unresolved, row.frames);
            assert!(frames > 0 && unresolved * 10 <= frames, "{kind}: {unresolved} of {frames}");
            assert!(row.gdb > 0, "{kind}: gdb shows nothing");
        }
    }
}
