//! Traces of random programs: what witnesses saw, put together, is what a log of
//! every block has.

use std::process::Command;

use anyhow::{Context as _, Result};
use serde_json::Value;

use super::{LOG, Trial, Verdict};
use crate::command;

/// Longer logs are left out, in bytes: what is compared is text.
const LONGEST: u64 = 2 << 20;

/// How programs are traced, in turns; all of them also by one run that observes
/// edges.
const WAYS: &[&[&str]] = &[
    &["--witness", "node"],
    &["--runs", "2", "--strategy", "fine"],
    &["--runs", "3", "--strategy", "function", "--witness", "node"],
    &["--runs", "4", "--strategy", "grouped"],
    &["--runs", "5", "--strategy", "fine", "--witness", "node"],
    &["--runs", "6", "--strategy", "function"],
    &["--runs", "2", "--strategy", "grouped", "--witness", "node"],
    &["--limit", "30"],
    &["--limit", "50", "--witness", "node", "--runs", "2"],
];

impl Trial<'_> {
    /// What is traced is what is logged.
    pub(super) fn check_traces(&self) -> Result<Verdict> {
        if self.logged_bytes()? > LONGEST {
            return Ok(Verdict::Equal);
        }
        let logged = self.trace(&["--strategy", "log"])?;
        for way in [&[][..], WAYS[self.seed as usize % WAYS.len()]] {
            let found = match self.trace(way) {
                Ok(found) if found == logged => continue,
                Ok(found) => {
                    let first = found.iter().zip(&logged).position(|(one, other)| one != other);
                    let first = first.unwrap_or(found.len().min(logged.len()));
                    format!("differs from the log at block {first}")
                }
                Err(error) => format!("{error:#}"),
            };
            let level = self.level.option();
            let what = format!("the trace by {way:?} at {level}: {found}");
            return Ok(Verdict::Different(what));
        }
        Ok(Verdict::Equal)
    }

    fn logged_bytes(&self) -> Result<u64> {
        let mut bytes = 0;
        for record in std::fs::read_dir(self.records(LOG))? {
            for file in std::fs::read_dir(record?.path())? {
                bytes += file?.metadata()?.len();
            }
        }
        Ok(bytes)
    }

    /// The blocks of a trace, thread by thread: function and block.
    fn trace(&self, way: &[&str]) -> Result<Vec<(u64, String, String)>> {
        let backtrail = || {
            let mut backtrail = Command::new(self.tool.join("backtrail"));
            backtrail.env("BACKTRAIL_CACHE", self.folder.join("cache"));
            backtrail.current_dir(self.folder);
            backtrail
        };
        let mut trace = backtrail();
        trace
            .args(["trace", "--quiet", "-o", "way.bttrace"])
            .args(way)
            .args(["original", "--", "1"]);
        command::output(&mut trace)?;
        let shown = command::output(backtrail().args(["show", "--json", "way.bttrace"]))?;
        let mut blocks = Vec::new();
        for line in shown.lines().skip(1) {
            let row: Value = serde_json::from_str(line).context("show --json printed no JSON")?;
            let word = |name: &str| row[name].as_str().unwrap_or_default().to_owned();
            blocks.push((row["thread"].as_u64().unwrap_or(0), word("function"), word("block")));
        }
        Ok(blocks)
    }
}
