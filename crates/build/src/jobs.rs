//! What clang would do: its answer to `-###`, as data.
//!
//! The driver's option rules (which options take an argument, what `-o` means
//! with several sources, response and configuration files, environment
//! variables) are clang's own affair. So they are not guessed: clang is asked
//! for the jobs it would run, and those are carried out.

use std::io::{self, IsTerminal as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde::{Deserialize, Serialize};

use crate::{Error, clang};

/// One command that clang would run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Job {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
}

/// What clang would do.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Jobs {
    /// What clang calls itself.
    pub version: String,
    /// All that is printed before the first job: what `-v` shows.
    pub preamble: String,
    /// What the driver has to say to the user in any case.
    pub diagnostics: String,
    /// The commands, in order.
    pub jobs: Vec<Job>,
}

/// Lines of `-###` that describe the driver and are no diagnostics.
const DESCRIPTIONS: [&str; 12] = [
    "Target: ",
    "Thread model: ",
    "InstalledDir: ",
    "Build config: ",
    "Configuration file: ",
    "System configuration file directory: ",
    "User configuration file directory: ",
    "Found candidate GCC installation: ",
    "Selected GCC installation: ",
    "Candidate multilib: ",
    "Selected multilib: ",
    "Found CUDA installation: ",
];

/// The line before a job that needs no process of its own: the only one.
pub const IN_PROCESS: &str = " (in-process)";

/// Asks `clang` what it would do; `None` if it would fail or do nothing.
pub fn ask(clang: &Path, arguments: &[String]) -> Result<Option<Jobs>, Error> {
    let output = Command::new(clang)
        .arg("-###")
        .args(arguments)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| clang::not_runnable(clang, error))?;
    let jobs = parse(&String::from_utf8_lossy(&output.stderr));
    if jobs.version.is_empty() {
        return Err(clang::refuse(clang));
    }
    clang::check_version(&jobs.version)?;
    Ok(Some(jobs).filter(|jobs| output.status.success() && !jobs.jobs.is_empty()))
}

/// Asked through a pipe, clang finds no terminal: `arguments` with options that
/// say what it would have found (`Process::StandardErrHasColors` in LLVM).
pub fn for_terminal(arguments: Vec<String>) -> Vec<String> {
    if !io::stderr().is_terminal() || !has_colours() {
        return arguments;
    }
    // Asked for in words, colours come even so.
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let first = (!refused).then(|| "-fcolor-diagnostics".to_owned());
    let rest = arguments.into_iter().map(|word| match word.as_str() {
        "-fdiagnostics-color=auto" => "-fdiagnostics-color=always".to_owned(),
        _ => word,
    });
    first.into_iter().chain(rest).collect()
}

/// Tells the compiler jobs how wide the terminal is, as the driver would
/// (`Process::StandardErrColumns`).
pub fn set_width(jobs: &mut [Job]) {
    let columns = std::env::var("COLUMNS").ok().and_then(|columns| columns.parse::<u32>().ok());
    let Some(columns) = columns.filter(|&columns| columns > 0) else { return };
    if !io::stderr().is_terminal() {
        return;
    }
    for job in jobs.iter_mut().filter(|job| job.is_cc1()) {
        if !job.has_prefix("-fmessage-length=") {
            job.arguments.insert(1, format!("-fmessage-length={columns}"));
        }
    }
}

/// Whether the terminal is one that clang would use colours on.
fn has_colours() -> bool {
    let term = std::env::var("TERM").unwrap_or_default();
    ["ansi", "cygwin", "linux"].contains(&&*term)
        || ["screen", "xterm", "vt100", "rxvt"].iter().any(|prefix| term.starts_with(prefix))
        || term.ends_with("color")
}

/// Reads what `-###` printed.
pub fn parse(text: &str) -> Jobs {
    let mut jobs = Jobs::default();
    let mut rest = text;
    while !rest.is_empty() {
        if rest.starts_with(" \"") {
            let (words, behind) = split_quoted(rest);
            rest = behind;
            let mut words = words.into_iter();
            if let Some(program) = words.next() {
                let arguments = words.collect();
                jobs.jobs.push(Job { program: program.into(), arguments });
            }
            continue;
        }
        let (line, behind) = rest.split_once('\n').unwrap_or((rest, ""));
        rest = behind;
        if line == IN_PROCESS {
            continue;
        }
        jobs.preamble.push_str(line);
        jobs.preamble.push('\n');
        if jobs.version.is_empty() && line.contains("clang version ") {
            jobs.version = line.to_owned();
        } else if !DESCRIPTIONS.iter().any(|description| line.starts_with(description)) {
            jobs.diagnostics.push_str(line);
            jobs.diagnostics.push('\n');
        }
    }
    jobs
}

/// Splits a line of `"…"` words in which `\` quotes the next character; a word
/// may run over the end of a line. Also returns what comes behind the line.
fn split_quoted(text: &str) -> (Vec<String>, &str) {
    let mut words = Vec::new();
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\n' => break,
            '"' => {}
            _ => continue,
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
    (words, characters.as_str())
}

impl std::fmt::Display for Job {
    /// As clang's `-v` shows it.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, " {}", quoted(&self.program.to_string_lossy()))?;
        for argument in &self.arguments {
            match argument.contains([' ', '"', '\\', '$']) {
                true => write!(f, " {}", quoted(argument))?,
                false => write!(f, " {argument}")?,
            }
        }
        Ok(())
    }
}

fn quoted(word: &str) -> String {
    let mut out = String::from("\"");
    for character in word.chars() {
        if matches!(character, '"' | '\\' | '$') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
    out
}

impl Job {
    /// Whether this runs the compiler proper.
    pub fn is_cc1(&self) -> bool {
        self.arguments.first().is_some_and(|first| first == "-cc1")
    }

    /// Whether this is clang itself, as compiler proper or assembler.
    pub fn is_clang(&self) -> bool {
        self.arguments.first().is_some_and(|first| first.starts_with("-cc1"))
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
        let shown = " \"/usr/bin/clang\" -cc1 -D \"A=\\\"x y\\\"\" -o \"a\\$b.o\"";
        assert_eq!(job.to_string(), shown);
    }

    #[test]
    fn a_word_may_hold_a_line_break() {
        let jobs = parse("clang version 19.0.0\n \"cc\" \"-DX=a\n \\\"b\"\n \"ld\" \"x.o\"\n");
        assert_eq!(jobs.jobs.len(), 2);
        assert_eq!(jobs.jobs[0].arguments, ["-DX=a\n \"b"]);
        assert_eq!(jobs.jobs[1].program, PathBuf::from("ld"));
    }
}
