//! One program, traced in several ways and by a log of every block.
//!
//! What is compared is what `backtrail show --json` prints of a trace: thread, function
//! and block of every step, and what is said to be missing; of long traces, a hash of it.

use std::collections::BTreeMap;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::ways::Way;
use crate::command;

/// The most that the log of a program may take, as `backtrail trace` is told: words of
/// four bytes.
const LONGEST: &str = "64M";

/// A program that is built, and a run of it.
pub struct Subject<'a> {
    /// The folder with the tool.
    pub tool: &'a Path,
    /// A folder of its own.
    pub folder: &'a Path,
    /// The executable.
    pub executable: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Its standard input.
    pub input: Option<PathBuf>,
    /// A source file of it whose code does not do the same in every variant.
    pub varies: Option<&'static str>,
}

/// What was found of one program, or of several.
#[derive(Debug, Default, Clone, PartialEq, Serialize, Deserialize)]
pub struct Found {
    /// What it is called.
    pub name: String,
    /// How many programs.
    pub programs: u64,
    /// Blocks that their logs have.
    pub blocks: u64,
    /// In how many ways they were traced.
    pub ways: u64,
    /// How many of these traces are the log's.
    pub equal: u64,
    /// What is wrong.
    pub wrong: Vec<String>,
    /// Ways beside these, whose limit `backtrail trace` refused as too tight: by what it
    /// said, how many.
    #[serde(default)]
    pub refused: BTreeMap<String, u64>,
}

impl Found {
    /// Adds what was found of another program.
    pub fn add(&mut self, other: Found) {
        self.programs += other.programs;
        self.blocks += other.blocks;
        self.ways += other.ways;
        self.equal += other.equal;
        self.wrong.extend(other.wrong);
        for (message, count) in other.refused {
            *self.refused.entry(message).or_default() += count;
        }
    }
}

/// What a trace tells.
#[derive(Debug, PartialEq)]
struct Told {
    /// What is unknown or missing.
    missing: Vec<Option<String>>,
    blocks: u64,
    hash: blake3::Hash,
}

impl Subject<'_> {
    /// Traces the program in all of these ways; nothing if its log is too long.
    pub fn compare(&self, name: &str, ways: &[Way]) -> Result<Option<Found>> {
        let log = ["--strategy", "log", "--disk", LONGEST];
        let (logged, expected) = self.trace(&log)?;
        let expected = expected.with_context(|| {
            format!(
                "no log of {name}: {}",
                command::tail(&String::from_utf8_lossy(&logged.stderr), 3)
            )
        })?;
        if expected.missing.iter().flatten().any(|why| why.contains("the bound that was set")) {
            return Ok(None);
        }
        ensure!(expected.blocks > 3, "the log of {name} is empty");
        let (programs, blocks) = (1, expected.blocks);
        let mut found = Found { name: name.to_owned(), programs, blocks, ..Found::default() };
        for way in ways {
            let (output, told) = self.trace(way)?;
            if let Some(message) = refusal(way, &output).filter(|_| told.is_none()) {
                *found.refused.entry(message).or_default() += 1;
                continue;
            }
            found.ways += 1;
            let what = match told {
                Some(told) if told == expected && is_same(&output, &logged) => {
                    found.equal += 1;
                    continue;
                }
                Some(told) if told == expected => "the program did something else".to_owned(),
                Some(told) => self.difference(&told, &expected)?,
                None => command::tail(&String::from_utf8_lossy(&output.stderr), 1),
            };
            println!("{name} by {way:?}: {what}");
            found.wrong.push(format!("{name} by {}: {what}", way.join(" ")));
        }
        Ok(Some(found))
    }

    fn backtrail(&self, command: &mut Command) {
        command.current_dir(self.folder).env("BACKTRAIL_CACHE", self.folder.join("cache"));
        command.env("LC_ALL", "C").env("TZ", "UTC");
    }

    /// Traces; gives how the program ended, and the trace if there is one.
    fn trace(&self, way: &[&str]) -> Result<(Output, Option<Told>)> {
        let file = self.file(way);
        let _ = std::fs::remove_file(&file);
        // What differs from run to run is not to be the addresses.
        let mut trace = Command::new("setarch");
        trace.arg("-R").arg(self.tool.join("backtrail")).args(["trace", "--quiet", "-o"]);
        trace.arg(&file).args(way).arg(&self.executable).arg("--").args(&self.arguments);
        self.backtrail(&mut trace);
        trace.stdin(match &self.input {
            Some(path) => std::fs::File::open(path)?.into(),
            None => Stdio::null(),
        });
        let output = trace.output().with_context(|| command::shown(&trace))?;
        let told = if file.exists() { Some(self.told(&file)?) } else { None };
        Ok((output, told))
    }

    fn file(&self, way: &[&str]) -> PathBuf {
        let name = if way.contains(&"log") { "log.bttrace" } else { "way.bttrace" };
        self.folder.join(name)
    }

    /// Reads a trace as text, of which there may be much.
    fn told(&self, file: &Path) -> Result<Told> {
        let mut hasher = blake3::Hasher::new();
        let mut blocks = 0;
        let mut missing = Vec::new();
        self.each_line(file, |number, line| {
            if number > 0 {
                if self.is_varying(line) {
                    return Ok(());
                }
                blocks += 1;
                step(line).iter().for_each(|part| _ = hasher.update(part));
                return Ok(());
            }
            let header: Value = serde_json::from_slice(line).context("no JSON")?;
            let threads = header["threads"].as_array().context("no threads")?;
            let reasons = threads.iter().map(|thread| &thread["unknown"]);
            let reasons = reasons.chain([&header["incomplete"]]);
            missing.extend(reasons.map(|why| why.as_str().map(str::to_owned)));
            Ok(())
        })?;
        Ok(Told { missing, blocks, hash: hasher.finalize() })
    }

    /// Whether a block is of the file that varies.
    fn is_varying(&self, line: &[u8]) -> bool {
        let is_of = |file: &str| {
            let place = format!("/{file}:");
            line.windows(place.len()).any(|part| part == place.as_bytes())
        };
        self.varies.is_some_and(is_of)
    }

    fn each_line(&self, file: &Path, mut take: impl FnMut(u64, &[u8]) -> Result<()>) -> Result<()> {
        let mut show = Command::new(self.tool.join("backtrail"));
        self.backtrail(show.args(["show", "--json"]).arg(file));
        let mut child = show.stdin(Stdio::null()).stdout(Stdio::piped()).spawn()?;
        let mut lines = BufReader::with_capacity(1 << 20, child.stdout.take().context("no pipe")?);
        let mut line = Vec::new();
        let mut number = 0;
        while lines.read_until(b'\n', &mut line)? > 0 {
            take(number, &line)?;
            line.clear();
            number += 1;
        }
        ensure!(child.wait()?.success(), "{} failed", command::shown(&show));
        Ok(())
    }

    /// Where a trace and the log differ first.
    fn difference(&self, told: &Told, expected: &Told) -> Result<String> {
        if told.missing != expected.missing {
            let reasons: Vec<&str> = told.missing.iter().flatten().map(String::as_str).collect();
            if !reasons.is_empty() {
                return Ok(reasons.join("; "));
            }
        }
        let mut hashes = Vec::new();
        self.each_line(&self.file(&["log"]), |_, line| {
            if self.is_varying(line) {
                return Ok(());
            }
            hashes.push(blake3::hash(&step(line).concat()));
            Ok(())
        })?;
        let mut first = None;
        let mut number = 0;
        self.each_line(&self.file(&[]), |_, line| {
            if self.is_varying(line) {
                return Ok(());
            }
            let is_same = hashes.get(number) == Some(&blake3::hash(&step(line).concat()));
            if first.is_none() && number > 0 && !is_same {
                first = Some((number, String::from_utf8_lossy(line).trim().to_owned()));
            }
            number += 1;
            Ok(())
        })?;
        Ok(match first {
            Some((number, line)) => format!("block {number} is {line}"),
            None => format!("{} blocks and not {}", told.blocks, expected.blocks),
        })
    }
}

/// What must be the same of a line: its thread, and what follows its depth, which the log
/// does not know where frames are left by jumps. Processes have other numbers each time.
fn step(line: &[u8]) -> [&[u8]; 2] {
    let find = |word: &[u8]| line.windows(word.len()).position(|part| part == word);
    match [b"\"thread\":".as_slice(), b"\"event\":", b"\"function\":"].map(find) {
        [Some(from), Some(to), Some(rest)] if from < to => [&line[from..to], &line[rest..]],
        _ => [line, &[]],
    }
}

/// What was said if a limit was too tight, before anything ran.
fn refusal(way: &[&str], output: &Output) -> Option<String> {
    let limit = way.iter().skip_while(|word| **word != "--limit").nth(1)?;
    let message = command::tail(&String::from_utf8_lossy(&output.stderr), 1);
    let is_refused = !output.status.success()
        && output.stdout.is_empty()
        && message.contains("to tell two ways apart takes a run with")
        && message.ends_with(&format!("the limit is {limit}: give a higher limit"));
    is_refused.then_some(message)
}

fn is_same(one: &Output, other: &Output) -> bool {
    (&one.stdout, one.status) == (&other.stdout, other.status)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_limits_that_are_too_tight_are_refused() {
        let said = |message: &str| Output {
            status: std::os::unix::process::ExitStatusExt::from_raw(1 << 8),
            stdout: Vec::new(),
            stderr: message.into(),
        };
        let message = "backtrail: to tell two ways apart takes a run with 6 witnesses, and the \
                       limit is 5: give a higher limit";
        let way = ["--runs", "2", "--limit", "5"];
        assert_eq!(refusal(&way, &said(message)), Some(message.to_owned()));
        assert_eq!(refusal(&["--runs", "2"], &said(message)), None);
        assert_eq!(refusal(&["--limit", "12"], &said(message)), None);
        assert_eq!(refusal(&way, &said("backtrail: the runs diverged behind b1 of f")), None);
    }

    #[test]
    fn steps_are_compared_without_processes_and_depths() {
        let line = |process: u32, depth: u32, block: &str| {
            format!(
                "{{\"process\":{process},\"thread\":2,\"event\":7,\"depth\":{depth},\
                 \"function\":\"main\",\"block\":\"{block}\",\"line\":null}}\n"
            )
        };
        let one = line(12, 1, "b3");
        assert_eq!(step(one.as_bytes()), step(line(345, 2, "b3").as_bytes()));
        assert_ne!(step(one.as_bytes()), step(line(12, 1, "b4").as_bytes()));
        assert_eq!(step(b"other"), [b"other".as_slice(), &[]]);
    }
}
