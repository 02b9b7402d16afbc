//! The compiler's command lines of a build, recorded and run again.
//!
//! A build is more than its compiler: make, libtool's shell, generators, `ar`.
//! They would hide what the compiler costs, so a build is run once with a
//! script in the compiler's place that notes each command line, and these are
//! then run again, one by one. The trials of configure and CMake are left out,
//! and so is what makes nothing (`--version`).

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};

use crate::corpus::program::Program;
use crate::corpus::tree::{Compiler, Workshop};
use crate::{command, workspace};

/// Words that only the trials of build systems have in their paths.
const TRIALS: [&str; 5] = ["conftest", "CompilerId", "CMakeScratch", "CMakeTmp", "_CMakeLTOTest"];

/// What a command line makes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Makes {
    /// An object of a unit.
    Object,
    /// An executable or a shared library.
    Image,
}

/// One command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The compiler: a program and the words that always come first.
    pub compiler: Vec<String>,
    /// Where it was run.
    pub folder: PathBuf,
    /// The words after the compiler.
    pub words: Vec<String>,
}

impl Call {
    /// What it makes, if it is part of the program.
    pub fn makes(&self) -> Option<Makes> {
        let trial = |text: &str| TRIALS.iter().any(|word| text.contains(word));
        if trial(&self.folder.to_string_lossy()) || self.words.iter().any(|word| trial(word)) {
            return None;
        }
        if self.words.iter().any(|word| word == "-c") {
            return Some(Makes::Object);
        }
        self.words.iter().any(|word| word == "-o").then_some(Makes::Image)
    }

    /// The source it compiles.
    pub fn source(&self) -> Option<&str> {
        let is_source = |word: &&String| {
            [".c", ".cc", ".cpp", ".cxx"].iter().any(|ending| word.ends_with(ending))
        };
        self.words.iter().find(is_source).map(String::as_str)
    }

    /// The words without the output, for a command with another one.
    pub fn words_without_output(&self) -> Vec<String> {
        let mut words = self.words.clone();
        if let Some(at) = words.iter().position(|word| word == "-o") {
            words.drain(at..(at + 2).min(words.len()));
        }
        words
    }

    /// The command.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.compiler[0]);
        command.args(&self.compiler[1..]).args(&self.words).current_dir(&self.folder);
        command.env("LC_ALL", "C");
        command
    }
}

/// A program that is built, and how.
pub struct Recorded {
    /// Where.
    pub folder: PathBuf,
    /// The command lines that made it, in order.
    pub calls: Vec<(Makes, Call)>,
}

/// Builds a program by `recipe` in a fresh folder.
pub fn record(
    workshop: &Workshop,
    program: &Program,
    recipe: &str,
    compiler: Compiler,
) -> Result<Recorded> {
    let home = workshop.of(program);
    let folder = home.join(format!("bench-{}", compiler.folder()));
    let records = home.join(format!("bench-{}.calls", compiler.folder()));
    for old in [&folder, &records] {
        if old.exists() {
            std::fs::remove_dir_all(old)?;
        }
    }
    std::fs::create_dir_all(&records)?;
    command::output(Command::new("cp").arg("-a").arg(home.join("source")).arg(&folder))?;
    let tool = workshop.tool.join("backtrail").display().to_string();
    let (cc, cxx) = match compiler {
        Compiler::Carrying => (vec![tool.clone(), "cc".into()], vec![tool, "c++".into()]),
        _ => (vec!["clang-19".to_owned()], vec!["clang++-19".to_owned()]),
    };
    let cc = write_recorder(&records, "record-cc", &cc)?;
    let cxx = write_recorder(&records, "record-cxx", &cxx)?;
    let log = home.join(format!("bench-{}.log", compiler.folder()));
    let variables = [("CC", cc.as_path()), ("CXX", cxx.as_path())];
    let ran = workshop.script(program, compiler, &folder, recipe, &log, &variables)?;
    ensure!(
        ran.success,
        "{} does not build (see {}): {}",
        program.name,
        workspace::shown(&log),
        command::tail(&ran.output, 12)
    );
    let calls = read_calls(&records)?
        .into_iter()
        .filter_map(|call| call.makes().map(|makes| (makes, call)))
        .collect();
    Ok(Recorded { folder, calls })
}

/// Writes a script that notes its words and then is the compiler.
fn write_recorder(records: &Path, name: &str, compiler: &[String]) -> Result<PathBuf> {
    use std::os::unix::fs::PermissionsExt as _;
    let path = records.join(name);
    let quoted = |word: &str| format!("'{}'", word.replace('\'', r"'\''"));
    let words: Vec<String> = compiler.iter().map(|word| quoted(word)).collect();
    let folder = quoted(&records.display().to_string());
    // The name orders the calls: builds are run with one job.
    let text = format!(
        "#!/bin/sh\nset -- {} \"$@\"\n\
         printf '%s\\0' \"$PWD\" {} \"$@\" > {folder}/$(date +%s%N).$$.call\n\
         exec \"$@\"\n",
        words.join(" "),
        words.len(),
    );
    std::fs::write(&path, text)?;
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755))?;
    Ok(path)
}

fn read_calls(records: &Path) -> Result<Vec<Call>> {
    let mut paths = Vec::new();
    for entry in std::fs::read_dir(records)? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "call") {
            paths.push(path);
        }
    }
    paths.sort();
    paths.iter().map(|path| read_call(&std::fs::read(path)?)).collect()
}

/// The folder, how many words the compiler has, and all words.
fn read_call(bytes: &[u8]) -> Result<Call> {
    let text = std::str::from_utf8(bytes).context("a command line is not UTF-8")?;
    let mut parts = text.strip_suffix('\0').unwrap_or(text).split('\0');
    let folder = PathBuf::from(parts.next().unwrap_or_default());
    let count: usize = parts.next().and_then(|n| n.parse().ok()).context("a broken record")?;
    let mut words: Vec<String> = parts.map(str::to_owned).collect();
    ensure!(count >= 1 && words.len() >= count, "a broken record");
    let rest = words.split_off(count);
    Ok(Call { compiler: words, folder, words: rest })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(words: &[&str]) -> Call {
        let folder = tempfile::tempdir().unwrap();
        let compiler = ["/usr/bin/env".to_owned(), "true".to_owned()];
        let script = write_recorder(folder.path(), "record-cc", &compiler).unwrap();
        command::output(Command::new(script).args(words).current_dir("/")).unwrap();
        let mut calls = read_calls(folder.path()).unwrap();
        assert_eq!(calls.len(), 1);
        calls.remove(0)
    }

    #[test]
    fn words_come_back_as_they_were() {
        let words = ["-DX=\"a b\"", "it's", "", "-c", "x.c", "-o", "x.o"];
        let call = recorded(&words);
        assert_eq!(call.words, words);
        assert_eq!(call.compiler, ["/usr/bin/env", "true"]);
        assert_eq!(call.folder, Path::new("/"));
        assert_eq!(call.makes(), Some(Makes::Object));
        assert_eq!(call.source(), Some("x.c"));
        assert_eq!(call.words_without_output(), &words[..5]);
        assert!(call.command().status().unwrap().success());
    }

    #[test]
    fn trials_and_questions_are_not_part_of_a_program() {
        assert_eq!(recorded(&["-o", "conftest", "conftest.c"]).makes(), None);
        assert_eq!(recorded(&["--version"]).makes(), None);
        assert_eq!(recorded(&["a.o", "-o", "a"]).makes(), Some(Makes::Image));
        assert!(read_call(b"/\0two\0").is_err() && read_call(b"").is_err());
    }
}
