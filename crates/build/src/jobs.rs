//! What clang would do: its answer to `-###`, as data.
//!
//! The driver's option rules (which options take an argument, what `-o` means
//! with several sources, response and configuration files, environment
//! variables) are clang's own affair. So they are not guessed: clang is asked
//! for the jobs it would run, and those are carried out.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::Error;

/// One command that clang would run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Job {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What clang would do.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Jobs {
    /// What clang calls itself.
    pub version: String,
    /// What the driver has to say to the user.
    pub diagnostics: String,
    /// The commands, in order.
    pub jobs: Vec<Job>,
}

/// Lines of `-###` that describe the driver and are no diagnostics.
const DESCRIPTIONS: [&str; 9] = [
    "Target: ",
    "Thread model: ",
    "InstalledDir: ",
    "Build config: ",
    "Configuration file: ",
    "System configuration file directory: ",
    "User configuration file directory: ",
    "Selected GCC installation: ",
    " (in-process)",
];

/// Asks `clang` what it would do; `None` if it would fail or do nothing.
pub fn ask(clang: &Path, arguments: &[String]) -> Result<Option<Jobs>, Error> {
    let output =
        Command::new(clang).arg("-###").args(arguments).stdin(Stdio::null()).output().map_err(
            |error| Error::ClangNotRunnable { program: clang.display().to_string(), error },
        )?;
    let jobs = parse(&String::from_utf8_lossy(&output.stderr));
    Ok(Some(jobs).filter(|jobs| output.status.success() && !jobs.jobs.is_empty()))
}

/// Reads what `-###` printed.
pub fn parse(text: &str) -> Jobs {
    let mut jobs = Jobs::default();
    for line in text.lines() {
        if line.starts_with(" \"") {
            let mut words = split_quoted(line).into_iter();
            if let Some(program) = words.next() {
                jobs.jobs.push(Job { program: program.into(), arguments: words.collect() });
            }
        } else if jobs.version.is_empty() && line.contains("clang version ") {
            jobs.version = line.to_owned();
        } else if !DESCRIPTIONS.iter().any(|description| line.starts_with(description)) {
            jobs.diagnostics.push_str(line);
            jobs.diagnostics.push('\n');
        }
    }
    jobs
}

/// Splits a line of `"…"` words in which `\` quotes the next character.
fn split_quoted(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut characters = line.chars();
    while let Some(character) = characters.next() {
        if character != '"' {
            continue;
        }
        let mut word = String::new();
        while let Some(character) = characters.next() {
            match character {
                '"' => break,
                '\\' => word.extend(characters.next()),
                _ => word.push(character),
            }
        }
        words.push(word);
    }
    words
}

impl Job {
    /// Whether this runs the compiler proper.
    pub fn is_cc1(&self) -> bool {
        self.arguments.first().is_some_and(|first| first == "-cc1")
    }

    /// The value of an option written as two words, at its last place.
    pub fn value(&self, option: &str) -> Option<&str> {
        let at = self.arguments.iter().rposition(|argument| argument == option)?;
        self.arguments.get(at + 1).map(String::as_str)
    }

    /// Whether `option` is among the arguments.
    pub fn has(&self, option: &str) -> bool {
        self.arguments.iter().any(|argument| argument == option)
    }

    /// Whether an argument begins with `prefix`.
    pub fn has_prefix(&self, prefix: &str) -> bool {
        self.arguments.iter().any(|argument| argument.starts_with(prefix))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_and_diagnostics_are_told_apart() {
        let jobs = parse(concat!(
            "Debian clang version 19.1.7 (3~deb12u1)\nTarget: x86_64-pc-linux-gnu\n",
            "Thread model: posix\nInstalledDir: /usr/bin\n",
            "clang: warning: -lm: 'linker' input unused [-Wunused-command-line-argument]\n",
            " (in-process)\n \"/usr/bin/clang\" \"-cc1\" \"-D\" \"A=\\\"x y\\\"\" \"-o\" \"a\\$b.o\"\n",
        ));
        assert_eq!(jobs.version, "Debian clang version 19.1.7 (3~deb12u1)");
        assert!(jobs.diagnostics.starts_with("clang: warning: -lm"));
        let [job] = &jobs.jobs[..] else { panic!("one job expected: {jobs:?}") };
        assert!(job.is_cc1());
        assert_eq!(job.arguments[2], "A=\"x y\"");
        assert_eq!(job.value("-o"), Some("a$b.o"));
    }
}
