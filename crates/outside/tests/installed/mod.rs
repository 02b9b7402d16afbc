//! The libraries that are installed.

use std::path::PathBuf;
use std::process::Command;

/// Where the compiler finds a library.
pub fn library(name: &str) -> PathBuf {
    let mut compiler = Command::new("cc");
    let found = compiler.arg(format!("-print-file-name={name}")).output();
    let found = found.expect("cc is what finds the libraries");
    assert!(found.status.success(), "cc does not find {name}");
    let path = PathBuf::from(String::from_utf8(found.stdout).unwrap().trim());
    assert!(path.is_absolute(), "cc does not know {name}");
    path
}
