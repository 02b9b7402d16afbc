//! What real programs add to the textbook: a test per situation.
//!
//! `docs/paths-rows.md` lists the situations with the answer that is given to
//! each and the tests that show it; a test here checks that the table and the
//! tests agree. Each asserts what a person can count by reading the program,
//! and nearly each also that walking a log of all blocks gives the same.

#[path = "../profile_program/mod.rs"]
mod profile_program;

mod flow;
mod leaving;
mod processes;
mod survival;

use std::collections::BTreeSet;
use std::path::Path;

/// The names in backticks in the last column of the table's rows.
fn tests_in_table() -> Vec<(String, Vec<String>)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/paths-rows.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let rows = page.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| ---"));
    rows.skip(1)
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split(" | ").collect();
            assert_eq!(cells.len(), 3, "{row}");
            let names = cells[2].split('`').skip(1).step_by(2).map(str::to_owned);
            (cells[0].trim().to_owned(), names.collect())
        })
        .collect()
}

/// The names of the functions behind `#[test]` in the sources beside this one.
fn tests_in_source() -> BTreeSet<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile_rows");
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let text = std::fs::read_to_string(entry.unwrap().path()).unwrap();
        let mut lines = text.lines();
        while let Some(line) = lines.next() {
            if line == "#[test]" {
                let name = lines.next().unwrap().strip_prefix("fn ").unwrap();
                let name = name.split('(').next().unwrap();
                assert!(found.insert(name.to_owned()), "{name} is there twice");
            }
        }
    }
    found
}

#[test]
fn rows_and_tests_agree() {
    let mut named = BTreeSet::from(["rows_and_tests_agree".to_owned()]);
    let rows = tests_in_table();
    assert!(rows.len() >= 20, "only {} rows: the table was not read", rows.len());
    for (row, tests) in rows {
        assert!(!tests.is_empty(), "no test for: {row}");
        for test in tests {
            assert!(named.insert(test.clone()), "{test} is named by two rows");
        }
    }
    assert_eq!(named, tests_in_source());
}
