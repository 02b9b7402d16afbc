//! Programs that somebody else has built, as a list in a file
//! (`BACKTRAIL_PROGRAMS`): real ones, which `cargo xtask fuzz crash` makes.

use std::path::{Path, PathBuf};

use serde::Deserialize;

use super::program::Program;

/// A program of the list.
#[derive(Debug, Deserialize)]
pub struct Listed {
    /// How it is called.
    pub name: String,
    /// How it was optimised.
    pub level: String,
    /// The functions that the scheme `realistic` traces.
    #[serde(default)]
    pub functions: Vec<String>,
    /// The executable: one that can be ended at any block (`fixtures/stop.c`) if it is
    /// to be, else as people build it.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its standard input.
    pub input: Option<PathBuf>,
}

impl Listed {
    /// All there are.
    pub fn all() -> Vec<Listed> {
        let Some(path) = std::env::var_os("BACKTRAIL_PROGRAMS") else { return Vec::new() };
        let text = std::fs::read_to_string(Path::new(&path)).expect("the list can be read");
        serde_json::from_str(&text).expect("it is a list of programs")
    }

    /// The program, in a folder of its own.
    pub fn program(&self) -> Program {
        let arguments: Vec<&str> = self.arguments.iter().map(String::as_str).collect();
        Program::existing(&self.executable, &arguments, self.input.as_deref())
    }
}
