//! Damaged inputs, most of them under right sums, for every verb.
//!
//! Each case has a number, and follows from it: which command, which part of the input
//! it is given is damaged, and how. Whatever the bytes are, the command has to end by
//! itself with a code that is documented, in bounded time and memory, with one line that
//! says what is wrong; it must not leave anything behind, write what terminals obey, or
//! change what it only reads.

mod commands;

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result};
use fastrand::Rng;

use super::bounded::{self, End};
use super::inputs::{Inputs, files};
use super::session::Session;
use super::{Finding, Found, Place, layers, mutation};
use commands::{COMMANDS, Input, Tested, Way};

/// How long a command may take by the clock, on a machine that does other things.
const PATIENCE: Duration = Duration::from_secs(300);

/// The most memory, in KiB.
const MEMORY: i64 = 500 << 10;

/// The codes that every verb may leave with.
const CODES: [i32; 6] = [0, 2, 3, 4, 5, 6];

/// How many commands there are.
pub fn commands() -> usize {
    COMMANDS.len()
}

/// Tries the cases of these numbers.
pub fn run(place: &Place, inputs: &Inputs, numbers: std::ops::Range<u64>) -> Result<Found> {
    let before = inputs.hashes()?;
    let mut found = Found::default();
    for number in numbers {
        let case = Case::new(place, inputs, number)?;
        let (end, wrong) = case.run()?;
        found.count(&case.damaged, &end);
        if let Some(what) = wrong {
            println!("case {number}, {}: {what}", case.command.words);
            found.findings.push(case.keep(what)?);
        }
    }
    if inputs.hashes()? != before {
        found.findings.push(Finding {
            what: "a valid input was changed".into(),
            command: String::new(),
            number: 0,
        });
    }
    Ok(found)
}

/// A command and its damaged input, in a folder that goes with it.
struct Case<'a> {
    place: &'a Place,
    inputs: &'a Inputs,
    number: u64,
    command: &'a Tested,
    /// What of the input is damaged.
    damaged: String,
    scratch: tempfile::TempDir,
}

impl<'a> Case<'a> {
    fn new(place: &'a Place, inputs: &'a Inputs, number: u64) -> Result<Self> {
        let mut rng = Rng::with_seed(place.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ number);
        let command = &COMMANDS[(number % COMMANDS.len() as u64) as usize];
        let scratch = tempfile::Builder::new().prefix("case-").tempdir_in(&place.folder)?;
        for folder in ["run", "tmp", "printed"] {
            std::fs::create_dir(scratch.path().join(folder))?;
        }
        let run = scratch.path().join("run");
        let from = inputs.folder.join(command.input.name());
        let damaged = match command.input {
            Input::File(name) => damage(&mut rng, &from, &run.join(name))?,
            Input::Folder(name) => {
                let to = run.join(name);
                command_output(Command::new("cp").arg("-r").arg(&from).arg(&to))?;
                let all = files(&to)?;
                let victim = rng.choice(&all).context("an input has no files")?;
                damage(&mut rng, victim, victim)?
            }
        };
        Ok(Self { place, inputs, number, command, damaged, scratch })
    }

    fn run_folder(&self) -> PathBuf {
        self.scratch.path().join("run")
    }

    /// The words of the command: `IN` is the damaged input, `@NAME` a valid one.
    fn words(&self) -> Vec<String> {
        let word = |word: &str| match word.strip_prefix('@') {
            Some(name) => self.inputs.folder.join(name).display().to_string(),
            None => match word.split_once("IN") {
                Some(("", rest)) => format!("./{}{rest}", self.command.input.name()),
                _ => word.to_owned(),
            },
        };
        self.command.words.split(' ').map(word).collect()
    }

    /// How it ended, and what is wrong with that.
    fn run(&self) -> Result<(String, Option<String>)> {
        let report = self.scratch.path().join("report");
        let mut bounded = Command::new(&self.place.xtask);
        bounded.arg("bounded").arg("--report").arg(&report).arg("--");
        let tool = self.place.tool(&self.place.folder.join("cache"));
        bounded.arg(tool.get_program()).args(self.words()).current_dir(self.run_folder());
        let variables = tool.get_envs().filter_map(|(name, value)| Some((name, value?)));
        bounded.envs(variables).env("TMPDIR", self.scratch.path().join("tmp"));
        let before = self.contents()?;
        let mut session = Session::start(&bounded, &self.scratch.path().join("printed"))?;
        if session.wait(PATIENCE)?.is_none() {
            return Ok(("hangs".into(), Some(format!("has not ended after {PATIENCE:?}"))));
        }
        let left = session.left()?;
        session.end()?;
        let end: End = serde_json::from_str(&std::fs::read_to_string(&report)?)?;
        let printed = [session.printed("stdout")?, session.printed("stderr")?];
        let told = self.told(&end);
        let wrong = self
            .wrong_end(&end)
            .or_else(|| (end.memory > MEMORY).then(|| format!("took {} MB", end.memory >> 10)));
        let wrong = wrong.or_else(|| wrong_words(self.command, &end, &printed));
        let wrong = wrong.or_else(|| (!left.is_empty()).then(|| format!("{left:?} runs on")));
        let wrong = match wrong {
            None => self.wrong_files(&before)?,
            wrong => wrong,
        };
        Ok((told, wrong))
    }

    /// What is told of the end, on the page.
    fn told(&self, end: &End) -> String {
        match (self.status(), end.code) {
            (Some(text), _) if is_own(&text) => "the program's own".into(),
            (_, Some(code)) if self.command.way == Way::Compiles && !CODES.contains(&code) => {
                "the compiler's own".into()
            }
            (_, Some(code)) => code.to_string(),
            (_, None) => format!("signal {}", end.signal.unwrap_or_default()),
        }
    }

    /// What `--status` says: whose status it is.
    fn status(&self) -> Option<String> {
        std::fs::read_to_string(self.run_folder().join("status")).ok()
    }

    fn wrong_end(&self, end: &End) -> Option<String> {
        match (self.command.way, end.code) {
            (Way::Runs, _) if self.status().is_some_and(|it| is_own(&it)) => None,
            (Way::Compiles, Some(code)) if ![70, 101].contains(&code) => None,
            (Way::Compares, Some(1)) => None,
            (_, Some(code)) if CODES.contains(&code) => None,
            (_, Some(code)) => Some(format!("leaves with {code}")),
            (_, None) => Some(format!("dies of signal {}", end.signal.unwrap_or_default())),
        }
    }

    /// What is left where nothing should be, or is changed.
    fn wrong_files(&self, before: &[(PathBuf, Vec<u8>)]) -> Result<Option<String>> {
        let left = files(&self.scratch.path().join("tmp"))?;
        if let Some(one) = left.first() {
            return Ok(Some(format!("leaves {} in TMPDIR", name(one))));
        }
        let after = files(&self.run_folder())?;
        if let Some(one) = after.iter().find(|it| name(it).starts_with(".backtrail-")) {
            return Ok(Some(format!("leaves {}", name(one))));
        }
        let is_changed = self.command.way != Way::Changes && self.contents()? != before;
        Ok(is_changed.then(|| "changes what it only reads".to_owned()))
    }

    /// The files of the input.
    fn contents(&self) -> Result<Vec<(PathBuf, Vec<u8>)>> {
        let input = self.run_folder().join(self.command.input.name());
        let all = if input.is_dir() { files(&input)? } else { vec![input] };
        // One that is gone has no contents.
        Ok(all.into_iter().map(|it| (it.clone(), std::fs::read(&it).unwrap_or_default())).collect())
    }

    /// Keeps the input, and says what was found.
    fn keep(self, what: String) -> Result<Finding> {
        let words = self.words().join(" ");
        let folder = self.place.findings.join(format!("damage-{}", self.number));
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder)?;
        // What it was before the command is made again from its number.
        let again = Self::new(self.place, self.inputs, self.number)?;
        let copied = Command::new("cp").arg("-r").arg(again.run_folder()).arg(&folder).status()?;
        anyhow::ensure!(copied.success(), "cannot keep {}", folder.display());
        std::fs::write(folder.join("command"), format!("cd run && backtrail {words}\n{what}\n"))?;
        let command = format!("{}, {} damaged", self.command.words, self.damaged);
        Ok(Finding { what, command, number: self.number })
    }
}

/// Whether a text of `--status` says that the status is the program's.
fn is_own(text: &str) -> bool {
    // With 3 where a signal ended it before there was anything to be recorded.
    ["backtrail 0\nprogram ", "backtrail 3\nprogram signal "].iter().any(|it| text.starts_with(it))
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned()
}

fn command_output(command: &mut Command) -> Result<()> {
    crate::command::output(command).map(drop)
}

/// Writes a damaged copy of a file; which part of it is damaged.
fn damage(rng: &mut Rng, from: &Path, to: &Path) -> Result<String> {
    let whole = std::fs::read(from).with_context(|| format!("no input {}", from.display()))?;
    let layers = layers::layers(&whole)?;
    // Half of them behind a sum, if there is one.
    let all: Vec<&layers::Layer> = layers.iter().collect();
    let summed: Vec<&layers::Layer> = layers.iter().filter(|it| it.has_sum).collect();
    let chosen = match rng.u8(0..4) {
        0 => None,
        1 => rng.choice(all),
        _ => rng.choice(if summed.is_empty() { all } else { summed }),
    };
    let (name, bytes) = match chosen {
        Some(layer) => (layer.name, layer.put(&mutation::damaged(rng, &layer.contents))),
        None => ("file", mutation::damaged(rng, &whole)),
    };
    std::fs::write(to, bytes)?;
    let permissions = std::fs::metadata(from)?.permissions();
    std::fs::set_permissions(to, permissions)?;
    Ok(name.to_owned())
}

/// What is wrong with what was printed.
fn wrong_words(command: &Tested, end: &End, [stdout, stderr]: &[Vec<u8>; 2]) -> Option<String> {
    let errors = String::from_utf8_lossy(stderr);
    let ours = errors.lines().filter(|line| line.starts_with("backtrail: "));
    let is_others = [Way::Runs, Way::Compiles].contains(&command.way);
    let said = match is_others {
        true => ours.clone().map(|line| format!("{line}\n")).collect::<String>(),
        false => format!("{errors}{}", String::from_utf8_lossy(stdout)),
    };
    if let Some(bad) = said.chars().find(|it| is_obeyed(*it)) {
        return Some(format!("prints the character {:#x}", u32::from(bad)));
    }
    let has_failed = end.code.is_some_and(|code| (3..=6).contains(&code));
    if has_failed && !is_others && (ours.count() != 1 || errors.lines().count() != 1) {
        return Some(format!("prints {} lines for an error", errors.lines().count()));
    }
    None
}

/// Whether a terminal does something else with a character than show it.
fn is_obeyed(character: char) -> bool {
    let turns = matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    turns || character.is_control() && !['\n', '\t'].contains(&character)
}

/// What is said of the limits, on the page.
pub fn limits() -> String {
    format!("{} s of processor time and {} MB", bounded::SECONDS, MEMORY >> 10)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tested(way: Way) -> Tested {
        Tested { words: "info IN", input: Input::File("p"), way }
    }

    fn end(code: i32) -> End {
        End { code: Some(code), signal: None, memory: 0 }
    }

    #[test]
    fn what_is_printed_has_to_be_one_line_and_nothing_that_is_obeyed() {
        let check = |code, out: &str, err: &str| {
            let printed = [out, err].map(|it| it.as_bytes().to_vec());
            wrong_words(&tested(Way::Reads), &end(code), &printed)
        };
        assert_eq!(check(0, "a\tb\n", ""), None);
        assert_eq!(check(3, "", "backtrail: no\n"), None);
        assert!(check(3, "", "backtrail: no\nbacktrail: yes\n").is_some());
        assert!(check(3, "", "").is_some());
        assert!(check(0, "\u{1b}[31m", "").is_some());
        assert!(check(0, "a\u{202e}b", "").is_some());
    }

    #[test]
    fn what_programs_print_is_their_own() {
        let printed = [b"\x1b".to_vec(), b"\x1b\nbacktrail: no\nld: no\n".to_vec()];
        assert_eq!(wrong_words(&tested(Way::Runs), &end(3), &printed), None);
        let printed = [Vec::new(), b"backtrail: \x1b\n".to_vec()];
        assert!(wrong_words(&tested(Way::Runs), &end(3), &printed).is_some());
    }
}
