//! The checked-in files are tidy.

use xtask::{tidy, workspace};

#[test]
fn the_repository_is_tidy() {
    let findings = tidy::check(&workspace::root()).unwrap();
    assert!(findings.is_empty(), "{}", findings.join("\n"));
}
