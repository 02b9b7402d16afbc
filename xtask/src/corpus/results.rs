//! What a test suite printed, test by test.
//!
//! The suites of the corpus print their results in a handful of ways, none of
//! which can be taken for another, so one reader serves them all:
//!
//! | form | of |
//! | --- | --- |
//! | `PASS: name` | automake, and our own workloads |
//! | `test name ... ok` | cargo |
//! | `Testing name: OK` | jsoncpp |
//! | `name (class) ... ok` | Python's unittest |
//! | `[3/382] name` | ninja, with `*** Failure` after it for a failure |

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// How a test ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Outcome {
    /// As it should.
    Passed,
    /// Not as it should.
    Failed,
    /// It found that it cannot run here.
    Skipped,
}

/// All tests of a suite. Two tests with one name are told apart by a number.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Results {
    /// By name.
    pub tests: BTreeMap<String, Outcome>,
}

impl Results {
    /// Reads the output of a suite that ended with success or not. A suite that
    /// ended otherwise than its tests say has failed as a whole.
    pub fn read(output: &str, success: bool) -> Results {
        let mut results = Results::default();
        let mut last: Option<String> = None;
        for line in output.lines() {
            if line.starts_with("*** Failure") {
                if let Some(name) = &last {
                    results.tests.insert(name.clone(), Outcome::Failed);
                }
            } else if let Some((name, outcome)) = result_line(line) {
                last = Some(results.add(name, outcome));
            }
        }
        if !success && results.count(Outcome::Failed) == 0 {
            results.add("the suite as a whole", Outcome::Failed);
        }
        results
    }

    fn add(&mut self, name: &str, outcome: Outcome) -> String {
        let mut unique = name.to_owned();
        let mut number = 1;
        while self.tests.contains_key(&unique) {
            number += 1;
            unique = format!("{name} #{number}");
        }
        self.tests.insert(unique.clone(), outcome);
        unique
    }

    /// How many ended so.
    pub fn count(&self, outcome: Outcome) -> usize {
        self.tests.values().filter(|one| **one == outcome).count()
    }

    /// What is not as in `reference`, a sentence each.
    pub fn differences(&self, reference: &Results) -> Vec<String> {
        let mut found = Vec::new();
        for (name, outcome) in &reference.tests {
            match self.tests.get(name) {
                Some(other) if other == outcome => {}
                Some(other) => found.push(format!("{name}: {other:?}, not {outcome:?}")),
                None => found.push(format!("{name}: not run")),
            }
        }
        let more = self.tests.keys().filter(|name| !reference.tests.contains_key(*name));
        found.extend(more.map(|name| format!("{name}: run although it was not before")));
        found
    }
}

fn result_line(line: &str) -> Option<(&str, Outcome)> {
    if let Some((word, name)) = line.split_once(": ")
        && let Some(outcome) = automake_outcome(word)
    {
        return Some((name.trim(), outcome));
    }
    if let Some((name, word)) = line.rsplit_once(" ... ") {
        let name = name.strip_prefix("test ").unwrap_or(name);
        return word_outcome(word.trim()).map(|outcome| (name, outcome));
    }
    if let Some(rest) = line.strip_prefix("Testing ") {
        let (name, word) = rest.rsplit_once(": ")?;
        return word_outcome(word.trim()).map(|outcome| (name, outcome));
    }
    let (numbers, name) = line.strip_prefix('[')?.split_once("] ")?;
    let (done, all) = numbers.split_once('/')?;
    (done.parse::<u32>().is_ok() && all.parse::<u32>().is_ok()).then_some((name, Outcome::Passed))
}

fn automake_outcome(word: &str) -> Option<Outcome> {
    Some(match word {
        "PASS" | "XFAIL" => Outcome::Passed,
        "FAIL" | "XPASS" | "ERROR" => Outcome::Failed,
        "SKIP" => Outcome::Skipped,
        _ => return None,
    })
}

fn word_outcome(word: &str) -> Option<Outcome> {
    Some(match word {
        "ok" | "OK" => Outcome::Passed,
        "FAILED" | "FAIL" | "ERROR" => Outcome::Failed,
        word if word.starts_with("ignored") || word.starts_with("skipped") => Outcome::Skipped,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(output: &str, success: bool) -> (usize, usize, usize) {
        let results = Results::read(output, success);
        let count = |outcome| results.count(outcome);
        (count(Outcome::Passed), count(Outcome::Failed), count(Outcome::Skipped))
    }

    #[test]
    fn each_form_is_read() {
        let automake = "PASS: a\nFAIL: b.sh\nSKIP: c\nXFAIL: d\n# PASS:  2\nCC: no\n";
        assert_eq!(counts(automake, false), (2, 1, 1));
        let cargo = "running 3 tests\ntest m::a ... ok\ntest b ... FAILED\ntest c ... ignored\n";
        assert_eq!(counts(cargo, false), (1, 1, 1));
        assert_eq!(counts("Testing A/b: OK\nTesting A/c: FAILED\nAll 2\n", false), (1, 1, 0));
        let python = "test_x (__main__.Output) ... ok\ntest_y (__main__.Output) ... skipped 'no'\n";
        assert_eq!(counts(python, true), (1, 0, 1));
        let ninja = "[1/3] A.B\n[2/3] A.C\n*** Failure in x.cc:3\n[3/3] D.E\nfailed\n";
        assert_eq!(counts(ninja, false), (2, 1, 0));
    }

    #[test]
    fn a_suite_that_dies_does_not_pass() {
        assert_eq!(counts("PASS: a\nsegmentation fault\n", false), (1, 1, 0));
        let whole = Results::read("PASS: a\nPASS: b\n", true);
        let part = Results::read("PASS: a\n", true);
        assert_eq!(part.differences(&whole), ["b: not run"]);
        let broken = Results::read("PASS: a\nFAIL: b\n", false);
        assert_eq!(broken.differences(&whole), ["b: Failed, not Passed"]);
        assert!(whole.differences(&whole).is_empty());
    }

    #[test]
    fn one_name_twice_is_two_tests() {
        assert_eq!(counts("PASS: a\nPASS: a\nFAIL: a\n", false), (2, 1, 0));
    }
}
