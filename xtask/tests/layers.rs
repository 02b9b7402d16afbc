//! ARCHITECTURE.md's crate table agrees with the workspace.

use xtask::{layers, workspace};

#[test]
fn the_crate_table_agrees_with_cargo() {
    let document = std::fs::read_to_string(workspace::root().join("ARCHITECTURE.md")).unwrap();
    let table = layers::read_table(&document).unwrap();
    let crates = layers::read_metadata(&workspace::metadata().unwrap()).unwrap();
    assert!(crates.len() > 5, "cargo metadata shows hardly any crates: {crates:?}");
    let findings = layers::compare(&table, &crates);
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
