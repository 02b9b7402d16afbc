//! Work in stages, each timed, with a table of seconds at the end.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::terminal;

/// The stages so far.
#[derive(Debug, Default)]
pub struct Stages {
    done: Vec<Stage>,
}

#[derive(Debug)]
struct Stage {
    name: String,
    took: Duration,
    failed: Option<String>,
}

impl Stages {
    /// Runs a stage under a heading. Its failure is kept, so that later stages
    /// that do not depend on it still run; the return value says how it went.
    pub fn run(&mut self, name: &str, work: impl FnOnce() -> Result<()>) -> bool {
        terminal::heading(name);
        let start = Instant::now();
        let failed = work().err();
        if let Some(error) = &failed {
            terminal::error(error);
        }
        let took = start.elapsed();
        let ok = failed.is_none();
        let failed = failed.map(|error| format!("{error:#}"));
        self.done.push(Stage { name: name.to_owned(), took, failed });
        ok
    }

    /// Prints seconds per stage; an error if one failed.
    pub fn finish(self) -> Result<()> {
        terminal::heading("seconds per stage");
        let mut rows = vec![vec!["stage".to_owned(), "seconds".to_owned(), "result".to_owned()]];
        let seconds = |took: Duration| format!("{:.1}", took.as_secs_f64());
        for stage in &self.done {
            let result = if stage.failed.is_some() { "FAILED" } else { "ok" };
            rows.push(vec![stage.name.clone(), seconds(stage.took), result.to_owned()]);
        }
        let failed = self.done.iter().filter(|stage| stage.failed.is_some()).count();
        let total = self.done.iter().map(|stage| stage.took).sum();
        rows.push(vec!["total".to_owned(), seconds(total), String::new()]);
        print!("{}", terminal::table(&rows));
        anyhow::ensure!(failed == 0, "{failed} of {} stages failed", self.done.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_failure_fails_the_whole_and_stops_nothing() {
        let mut stages = Stages::default();
        assert!(!stages.run("first", || anyhow::bail!("no")));
        assert!(stages.run("second", || Ok(())));
        assert_eq!(stages.finish().unwrap_err().to_string(), "1 of 2 stages failed");
    }
}
