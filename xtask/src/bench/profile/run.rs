//! One run of a program, and what it took.

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde::{Deserialize, Serialize};

use super::subject::{Input, Work};
use crate::command;
use crate::corpus::tree::Workshop;

/// What the kernel counted for a run.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Usage {
    /// Seconds in user mode, of all threads.
    pub user: f64,
    /// Seconds in the kernel.
    pub kernel: f64,
    /// The greatest resident set, in kB.
    pub memory: u64,
    /// Seconds by the clock.
    pub wall: f64,
}

/// A run that has ended.
pub struct Finished {
    /// As wait gives it: 0 is success.
    pub status: i32,
    /// What it took.
    pub usage: Usage,
    /// What it wrote: standard output, and the other file that it writes.
    pub output: Vec<u8>,
}

/// Where programs run, and with what they are run.
pub struct Bench {
    /// Inputs, outputs, records.
    folder: PathBuf,
    /// The program that starts them.
    launch: PathBuf,
    /// Which input is there: it takes long to make a large one.
    input: RefCell<Option<Input>>,
}

impl Bench {
    /// Makes the folder of one subject and compiles the program that starts
    /// others.
    pub fn new(workshop: &Workshop, name: &str) -> Result<Bench> {
        let folder = workshop.folder.join("profile-runs").join(name);
        std::fs::create_dir_all(&folder)?;
        let source = folder.join("launch.c");
        std::fs::write(&source, include_str!("launch.c"))?;
        let launch = folder.join("launch");
        let mut clang = Command::new("clang-19");
        command::output(clang.arg("-O2").arg(&source).arg("-o").arg(&launch))?;
        Ok(Bench { folder, launch, input: RefCell::new(None) })
    }

    /// A file in the folder.
    pub fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Where programs leave what they record. It is empty before each run.
    pub fn records(&self) -> PathBuf {
        self.file("records")
    }

    /// Runs an executable.
    pub fn run(&self, executable: &Path, work: &Work) -> Result<Finished> {
        self.run_as(&Command::new(executable), work)
    }

    /// Runs a command that `work`'s arguments are added to.
    pub fn run_as(&self, prefix: &Command, work: &Work) -> Result<Finished> {
        Ok(self.run_and_listen(prefix, work)?.0)
    }

    /// The same, with what is said on standard error.
    pub fn run_and_listen(&self, prefix: &Command, work: &Work) -> Result<(Finished, String)> {
        let input = self.file("input");
        if self.input.replace(Some(work.input)) != Some(work.input) {
            std::fs::write(&input, work.input.make())?;
        }
        let by_name = work.arguments.contains(&"INPUT");
        let words: Vec<&str> = work
            .arguments
            .iter()
            .map(|word| match *word {
                "INPUT" => "input",
                "OUTPUT" => "output",
                other => other,
            })
            .collect();
        let stdin = if by_name { Path::new("/dev/null") } else { &input };
        self.launch_and_listen(prefix, &words, stdin)
    }

    /// Runs a command with further words.
    pub fn launch(&self, prefix: &Command, words: &[&str], stdin: &Path) -> Result<Finished> {
        Ok(self.launch_and_listen(prefix, words, stdin)?.0)
    }

    fn launch_and_listen(
        &self,
        prefix: &Command,
        words: &[&str],
        stdin: &Path,
    ) -> Result<(Finished, String)> {
        let [report, stdout, output] = ["report", "stdout", "output"].map(|name| self.file(name));
        for old in [&report, &stdout, &output] {
            if old.exists() {
                std::fs::remove_file(old)?;
            }
        }
        let records = self.records();
        if records.exists() {
            std::fs::remove_dir_all(&records)?;
        }
        std::fs::create_dir_all(&records)?;
        let mut launch = Command::new(&self.launch);
        launch.arg(&report).arg(stdin).arg(&stdout);
        launch.arg(prefix.get_program()).args(prefix.get_args()).args(words);
        for (name, value) in prefix.get_envs() {
            match value {
                Some(value) => launch.env(name, value),
                None => launch.env_remove(name),
            };
        }
        launch
            .current_dir(&self.folder)
            .env("BACKTRAIL_DIR", &records)
            .env("LLVM_PROFILE_FILE", records.join("%p.profraw"))
            .env("GCOV_PREFIX", &records)
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .stdin(Stdio::null());
        let ended = launch.output().context("cannot start the launcher")?;
        ensure!(ended.status.success(), "the launcher failed ({})", ended.status);
        let (status, usage) = read_report(&std::fs::read_to_string(&report)?)?;
        if status != 0 {
            let said = String::from_utf8_lossy(&ended.stderr);
            bail!(
                "{} ended with {status:#x}: {}",
                command::shown(&launch),
                command::tail(&said, 5)
            );
        }
        let mut written = std::fs::read(&stdout)?;
        if output.exists() {
            written.extend(std::fs::read(&output)?);
        }
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        Ok((Finished { status, usage, output: written }, said))
    }

    /// How many instructions a run executes, of all processes that it forks,
    /// and what it writes.
    pub fn count_instructions(&self, executable: &Path, work: &Work) -> Result<(u64, Vec<u8>)> {
        let counts = self.file("callgrind");
        if counts.exists() {
            std::fs::remove_dir_all(&counts)?;
        }
        std::fs::create_dir_all(&counts)?;
        let mut valgrind = Command::new("/usr/bin/valgrind");
        valgrind.args(["--quiet", "--tool=callgrind"]);
        valgrind.arg(format!("--callgrind-out-file={}/%p", counts.display()));
        valgrind.arg(executable);
        let finished = self.run_as(&valgrind, work)?;
        let mut instructions = 0;
        for file in std::fs::read_dir(&counts)? {
            let path = file?.path();
            let text = std::fs::read(&path)?;
            instructions += read_total(&String::from_utf8_lossy(&text))
                .with_context(|| format!("no total in {}", path.display()))?;
        }
        ensure!(instructions > 0, "callgrind counted nothing");
        Ok((instructions, finished.output))
    }
}

fn read_report(text: &str) -> Result<(i32, Usage)> {
    let words: Vec<&str> = text.split_whitespace().collect();
    let [status, user, kernel, memory, wall] = words[..] else { bail!("no report: {text:?}") };
    let seconds = |word: &str| -> Result<f64> { Ok(word.parse::<u64>()? as f64 / 1e6) };
    let usage = Usage {
        user: seconds(user)?,
        kernel: seconds(kernel)?,
        memory: memory.parse()?,
        wall: seconds(wall)?,
    };
    Ok((status.parse()?, usage))
}

fn read_total(text: &str) -> Option<u64> {
    let total = text.lines().rev().find_map(|line| line.strip_prefix("totals: "))?;
    total.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reports_are_read_or_refused() {
        let (status, usage) = read_report("256 1500000 20000 2048 900000\n").unwrap();
        let expected = Usage { user: 1.5, kernel: 0.02, memory: 2048, wall: 0.9 };
        assert_eq!((status, usage), (256, expected));
        assert!(read_report("").is_err() && read_report("1 2 3 x 5").is_err());
    }

    #[test]
    fn the_total_of_callgrind_is_its_last() {
        assert_eq!(read_total("events: Ir\nfn=main\n1 3\ntotals: 42\n"), Some(42));
        assert_eq!(read_total("events: Ir\n"), None);
    }
}
