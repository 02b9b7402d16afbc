//! Where things are: the repository, the target folder, the built tool.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::command;

/// The top of the repository.
pub fn root() -> PathBuf {
    let mut here = PathBuf::from(env!("CARGO_MANIFEST_DIR"));
    here.pop();
    here
}

/// The cargo that runs this program.
pub fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.current_dir(root());
    // `cargo run` describes this package in the environment; a nested cargo and
    // the build scripts under it must not take that for their own.
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_") || text.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(&name);
        }
    }
    cargo
}

/// `cargo metadata` of the workspace's own crates.
pub fn metadata() -> Result<Value> {
    let mut cargo = cargo();
    cargo.args(["metadata", "--format-version", "1", "--no-deps", "--offline"]);
    let text = command::output(&mut cargo)?;
    serde_json::from_str(&text).context("cargo metadata printed something that is not JSON")
}

/// The folder cargo builds into.
pub fn target() -> Result<PathBuf> {
    let metadata = metadata()?;
    let path = metadata["target_directory"].as_str().context("no target_directory in metadata")?;
    Ok(PathBuf::from(path))
}

/// How the tool is compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// As the tests use it.
    Dev,
    /// As people install it: for everything that is measured.
    Release,
}

/// Builds the `backtrail` executables and returns the folder they are in.
pub fn build_tool(profile: Profile) -> Result<PathBuf> {
    let mut cargo = cargo();
    cargo.args(["build", "--package", "backtrail-cli", "--bins"]);
    if profile == Profile::Release {
        cargo.arg("--release");
    }
    command::run(&mut cargo)?;
    let folder = target()?.join(match profile {
        Profile::Dev => "debug",
        Profile::Release => "release",
    });
    let tool = folder.join("backtrail");
    anyhow::ensure!(tool.is_file(), "cargo built no {}", tool.display());
    Ok(folder)
}

/// A path as it is shown: relative to the repository where it is inside it.
pub fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}
