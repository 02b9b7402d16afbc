//! The page of what was found.

use std::fmt::Write as _;

use super::comparison::Found;
use super::programs::{Fixture, RANDOM_LIMIT, Real, WAYS_OF_RANDOM};
use super::ways;
use crate::terminal::grouped;

/// What stands on it.
#[derive(Default)]
pub struct Page {
    /// Whether the figures' distributions are rejected.
    pub figures: bool,
    /// What was tried, and what came out.
    pub graphs: Vec<(&'static str, String)>,
    /// Fixtures.
    pub fixtures: Vec<(&'static Fixture, Found)>,
    /// All random programs.
    pub csmith: Found,
    /// Real programs.
    pub real: Vec<(&'static Real, Found)>,
}

const INTRODUCTION: &str = "# Traces, against logs\n\n\
    ```sh\ncargo xtask fuzz trace\n```\n\n\
    makes this page. A run that was ended goes on where it was.\n\n\
    ## Programs\n\n\
    Each program runs with a log of every block, and in other ways, each of which observes few \
    places ([tracing.md](tracing.md)). A trace is equal if it has the same threads, in each the \
    same functions and blocks in the same order, says the same of what is missing, and if the \
    program printed and returned the same. Addresses are not randomised.\n\n\
    | program | what | blocks | ways compared | equal to the log |\n\
    | --- | --- | ---: | ---: | ---: |\n";

impl Page {
    /// All of it.
    pub fn text(&self, missing: &[String], wrong: &[String]) -> String {
        let mut out = INTRODUCTION.to_owned();
        let mut all = Found::default();
        let mut row = |found: &Found, name: &str, what: &str| {
            let (blocks, ways, equal) = (grouped(found.blocks), found.ways, found.equal);
            let _ = writeln!(out, "| {name} | {what} | {blocks} | {ways} | {equal} |");
            all.add(found.clone());
        };
        for (fixture, found) in &self.fixtures {
            row(found, &format!("{} {}", fixture.name(), fixture.level), fixture.has);
        }
        if self.csmith.programs > 0 {
            let programs = format!("{} by csmith", self.csmith.programs);
            row(&self.csmith, &programs, "random C, half of it at -O0 and half at -O2");
        }
        for (real, found) in &self.real {
            let arguments = real.arguments().replace('|', "\\|");
            row(found, &found.name, &format!("`{arguments}`"));
        }
        let (blocks, ways, equal) = (grouped(all.blocks), all.ways, all.equal);
        let _ = writeln!(out, "| {} programs |  | {blocks} | {ways} | {equal} |\n", all.programs);
        out.push_str(&self.explained());
        out.push_str(&self.refused());
        out.push_str("\n## Graphs\n\n");
        for (what, line) in &self.graphs {
            let _ = writeln!(out, "- {what}: {line}.");
        }
        out.push_str(
            "\nGraphs have recursion, irreducible loops, indirect calls, callbacks, exceptions and \
             jumps out of calls. *Accepted* is what the check allows; all executions of such a \
             graph up to a length, and some longer ones, are recorded and rebuilt. Of what is \
             rejected, nearly all has two executions that no rebuilding could tell apart.\n",
        );
        if self.figures {
            out.push_str("\nThe distributions of the source's Figures 1, 2 and 3 are rejected.\n");
        }
        if !missing.is_empty() {
            let _ = writeln!(out, "\nNot made yet: {}.", missing.join(", "));
        }
        if !wrong.is_empty() {
            out.push_str("\n## What is wrong\n\n");
            wrong.iter().for_each(|what| _ = writeln!(out, "- `{what}`"));
        }
        out
    }

    /// Which ways were refused.
    fn refused(&self) -> String {
        let fixtures = self.fixtures.iter().map(|(fixture, found)| (fixture.name(), found));
        let real = self.real.iter().map(|(real, found)| (real.name, found));
        let all = fixtures.chain([("csmith", &self.csmith)]).chain(real);
        let mut out = String::new();
        for (name, found) in all {
            for (message, count) in &found.refused {
                let of = found.ways + found.refused.values().sum::<u64>();
                let _ = writeln!(out, "- {name}, {count} of {of} ways: `{message}`");
            }
        }
        if out.is_empty() {
            return out;
        }
        format!(
            "\nNot compared, because `backtrail trace` refused the limit before anything ran:\n\n{out}"
        )
    }

    /// In which ways programs are traced.
    fn explained(&self) -> String {
        let mut out = format!(
            "Small fixtures are traced in all of {} ways: one run by each kind of witness; and 1 to 6 \
             runs by each strategy and kind, without a limit and with at most 5, 12 and 30 places \
             in a run, where that takes more runs. Larger ones are traced as real programs are, with \
             a limit of {RANDOM_LIMIT}; random ones in {WAYS_OF_RANDOM} of these ways each, in turns. Lua is built with a fixed seed of its hashes, without its cache of strings \
             and without hashes of addresses, on which its way would depend \
             ([`subject.rs`](../xtask/src/bench/profile/subject.rs)). Of grep, `stackvma.c` is left \
             out: it reads the list of mappings, in which logs are. The ways of real programs:\n\n",
            ways::all().len()
        );
        for (real, _) in &self.real {
            let ways: Vec<String> = real.ways().iter().map(|way| shown(way)).collect();
            let _ = writeln!(out, "- {}: {}", real.name, ways.join("; "));
        }
        out
    }
}

/// A way in few words: values of options, which tell what they are.
fn shown(way: &[&str]) -> String {
    let mut words = Vec::new();
    for pair in way.chunks(2) {
        match pair {
            ["--runs", "1"] => words.push("1 run".to_owned()),
            ["--runs", runs] => words.push(format!("{runs} runs")),
            ["--limit", limit] => words.push(format!("limit {limit}")),
            [_, value] => words.push((*value).to_owned()),
            _ => {}
        }
    }
    words.join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::programs::FIXTURES;
    use super::*;

    #[test]
    fn what_was_found_stands_on_the_page() {
        let found = |blocks, ways, equal| Found {
            programs: 1,
            blocks,
            ways,
            equal,
            wrong: Vec::new(),
            refused: std::collections::BTreeMap::new(),
            name: String::new(),
        };
        let mut page = Page { figures: true, ..Page::default() };
        page.graphs.push(("plans", "3 plans, 12 executions rebuilt".to_owned()));
        page.fixtures.push((&FIXTURES[0], found(1_234, 146, 146)));
        page.fixtures[0].1.refused.insert("too tight".to_owned(), 4);
        page.csmith.add(found(1_000_000, 5, 4));
        let text = page.text(&["flex".to_owned()], &["it differs".to_owned()]);
        assert!(text.contains("| jumps.c -O1 | longjmp out of nested calls | 1,234 | 146 | 146 |"));
        assert!(text.contains("- jumps.c, 4 of 150 ways: `too tight`\n"), "{text}");
        assert!(text.contains("| 1 by csmith |"), "{text}");
        assert!(text.contains("| 2 programs |  | 1,001,234 | 151 | 150 |"), "{text}");
        assert!(text.contains("- plans: 3 plans, 12 executions rebuilt."));
        assert!(text.contains("Not made yet: flex.") && text.contains("- `it differs`"));
    }

    #[test]
    fn ways_are_told_in_few_words() {
        let way = ["--runs", "2", "--strategy", "fine", "--witness", "node", "--limit", "50"];
        assert_eq!(shown(&way), "2 runs, fine, node, limit 50");
        assert_eq!(shown(&["--strategy", "single"]), "single");
    }
}
