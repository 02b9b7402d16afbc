//! A project of Rust that is built by `backtrail cargo` in a folder of its own.
//!
//! Projects take their dependencies from what this workspace has in its lock
//! file, so that nothing is fetched.

#![allow(dead_code)] // Each test program uses its own part.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The program under test.
pub const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// A project in a folder of its own.
pub struct Project {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 128 and more for a signal.
    pub status: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error, without the numbers of threads.
    pub stderr: String,
}

impl Ran {
    /// Fails unless the command succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.status, 0, "{}{}", self.stdout, self.stderr);
        self
    }

    /// Whether cargo compiled `package`.
    pub fn compiled(&self, package: &str) -> bool {
        self.stderr.contains(&format!("Compiling {package} v"))
    }
}

/// `text` without the numbers in `thread 'main' (4711) panicked`.
fn without_thread_numbers(text: &str) -> String {
    let mut lines = Vec::new();
    for line in text.lines() {
        lines.push(match (line.starts_with("thread '"), line.split_once(" (")) {
            (true, Some((before, after))) => {
                format!("{before}{}", after.split_once(')').map_or("", |(_, rest)| rest))
            }
            _ => line.to_owned(),
        });
    }
    lines.join("\n")
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &target),
            false => drop(fs::copy(entry.path(), target).unwrap()),
        }
    }
}

impl Project {
    /// A copy of the fixture `name`.
    pub fn new(name: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-cargo-test-").tempdir().unwrap();
        let own = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&own.join("tests/fixtures/cargo").join(name), &folder.path().join("project"));
        fs::copy(own.join("../../Cargo.lock"), folder.path().join("project/Cargo.lock")).unwrap();
        Self { folder, variables: Vec::new() }
    }

    /// The folder of the project.
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("project")
    }

    /// The file `path` of the project.
    pub fn path(&self, path: &str) -> PathBuf {
        self.root().join(path)
    }

    /// Sets a variable of the environment for all that follows.
    pub fn set(&mut self, name: &str, value: impl AsRef<OsStr>) {
        let value = value.as_ref().to_str().unwrap().to_owned();
        self.variables.retain(|(known, _)| known != name);
        self.variables.push((name.to_owned(), value));
    }

    /// Unsets a variable that was set.
    pub fn unset(&mut self, name: &str) {
        self.variables.retain(|(known, _)| known != name);
    }

    /// Writes a script that notes its name in `calls`, with its words, and then
    /// does `what`.
    pub fn script(&self, name: &str, what: &str) -> PathBuf {
        let path = self.folder.path().join(name);
        let calls = self.folder.path().join("calls");
        let text = format!("#!/bin/sh\necho \"{name} $*\" >> {}\n{what}\n", calls.display());
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        path
    }

    /// What the scripts noted since the last time.
    pub fn calls(&self) -> Vec<String> {
        let path = self.folder.path().join("calls");
        let text = fs::read_to_string(&path).unwrap_or_default();
        let _ = fs::remove_file(path);
        text.lines().map(str::to_owned).collect()
    }

    /// Where the log variants of this project write.
    pub fn records(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    /// Runs a command in the project, without what the cargo that runs this test
    /// put into the environment.
    pub fn run(&self, program: impl AsRef<OsStr>, words: &[&str]) -> Ran {
        let mut command = Command::new(program);
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            let kept = name == "CARGO_HOME" || name.starts_with("RUSTUP_");
            let ours = ["CARGO", "RUST", "BACKTRAIL", "CC", "CXX"];
            if !kept && ours.iter().any(|prefix| name.starts_with(prefix)) {
                command.env_remove(&*name);
            }
        }
        command
            .args(words)
            .current_dir(self.root())
            .env("BACKTRAIL_CACHE", self.folder.path().join("cache"))
            .env("XDG_STATE_HOME", self.folder.path().join("state"))
            .env("BACKTRAIL_DIR", self.records())
            .envs(self.variables.iter().cloned());
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let signal = || 128 + output.status.signal().unwrap_or(0);
        Ran {
            status: output.status.code().unwrap_or_else(signal),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: without_thread_numbers(&String::from_utf8_lossy(&output.stderr)),
        }
    }

    /// Runs `backtrail cargo`.
    pub fn cargo(&self, words: &[&str]) -> Ran {
        self.run(BACKTRAIL, &[&["cargo", "--offline"], words].concat())
    }

    /// Runs cargo itself.
    pub fn plain_cargo(&self, words: &[&str]) -> Ran {
        self.run("cargo", &[&["--offline"], words].concat())
    }

    /// What `backtrail info` says of a file of the project.
    pub fn info(&self, program: &str) -> Value {
        let ran = self.run(BACKTRAIL, &["info", "--json", program]).succeeded();
        serde_json::from_str(&ran.stdout).unwrap()
    }

    /// The units that `program` carries, and for each what `info` says of that.
    pub fn units(&self, program: &str) -> Vec<(String, String)> {
        let info = self.info(program);
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let units = info["units"].as_array().unwrap().iter();
        units.map(|unit| (text(&unit["name"]), text(&unit["carried"]))).collect()
    }

    /// Derives a variant of `program` and gives its path.
    pub fn variant(&self, program: &str, scheme: &str) -> String {
        let variant = format!("{program}.{scheme}");
        let words = [BACKTRAIL, "instrument", "--scheme", scheme, "-o", &variant, program];
        // As of a program that was built elsewhere, whose recipe is checked.
        let elsewhere = (scheme == "empty").then_some("XDG_STATE_HOME=/no/state");
        let words: Vec<&str> = elsewhere.into_iter().chain(words).collect();
        self.run("env", &words).succeeded();
        variant
    }

    /// Fails unless `program` with `words` and its variants print and end alike;
    /// gives how they did.
    #[track_caller]
    pub fn behaves_alike(&self, program: &str, words: &[&str]) -> Ran {
        let original = self.run(self.path(program), words);
        for scheme in ["empty", "log"] {
            let variant = self.variant(program, scheme);
            let ran = self.run(self.path(&variant), words);
            assert_eq!(ran, original, "{variant}");
        }
        original
    }

    /// The events that the log variants recorded, as `backtrail show` has them.
    pub fn events(&self) -> Vec<Value> {
        let records = self.records();
        let ran = self.run(BACKTRAIL, &["show", "--json", records.to_str().unwrap()]).succeeded();
        let lines = ran.stdout.lines().skip(1);
        lines.map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// How many instructions `program` executes.
    pub fn instructions(&self, program: &str, words: &[&str]) -> u64 {
        let path = self.path(program);
        let options = ["--tool=callgrind", "--callgrind-out-file=/dev/null"];
        let all = [&options[..], &[path.to_str().unwrap()], words].concat();
        let ran = self.run("valgrind", &all);
        let said = ran.stderr.lines().find_map(|line| line.split_once("Collected : "));
        let (_, count) = said.unwrap_or_else(|| panic!("no count: {}", ran.stderr));
        count.trim().parse().unwrap()
    }
}
