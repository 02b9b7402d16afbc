//! Interruptions: signals at random moments.
//!
//! Whatever the moment, nothing may run on and nothing may be left in `TMPDIR` or beside
//! what is written, which is there whole or not at all. If the program had begun by then,
//! what it did until it ended is written, and its status is the status: whoever ends a
//! server by a signal wants its profile. What `SIGKILL` leaves nobody could clean up at
//! the time, so the next run has to have done it.
//!
//! Moments are drawn from the time that a command takes until its program begins, and
//! from the first moments of the program.

mod ways;

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use fastrand::Rng;
use nix::sys::signal::Signal;

use super::inputs::files;
use super::session::Session;
use super::{Finding, Found, Place, programs};
use crate::command;
use ways::{Output, WAYS, Way};

const SIGNALS: [Signal; 4] = [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGKILL];

/// What the program does about a signal.
const KINDS: [&str; 3] = ["handles", "dies", "ignores"];

/// What the program leaves with when it ends by itself.
const STATUS: i32 = 42;

/// How long anything may take by the clock.
const PATIENCE: Duration = Duration::from_secs(300);

/// The longest time that the program may have run when the signal comes.
const BEGUN: Duration = Duration::from_millis(50);

/// What is interrupted, and the time that each command takes.
pub struct Interrupted {
    folder: PathBuf,
    /// How long each takes until its program begins, or in all.
    takes: Vec<Duration>,
}

impl Interrupted {
    /// Builds the program and a variant to be switched, and measures.
    pub fn make(place: &Place) -> Result<Self> {
        let folder = place.folder.join("interrupted");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(&folder)?;
        programs::write(&folder)?;
        let tool = |words: &[&str]| {
            let mut tool = place.tool(&place.folder.join("cache"));
            command::output(tool.args(words).current_dir(&folder)).map(drop)
        };
        tool(&["cc", "-O1", "-g", "-o", "prog", "interrupted.c"])?;
        let tunable = ["--scheme", "realistic", "--tunable", "*", "-o", "tuned", "prog"];
        tool(&[&["instrument", "--quiet"][..], &tunable].concat())?;
        tool(&["tune", "--set", "*=none", "-o", "switched", "tuned"])?;
        let mut takes = Vec::new();
        for way in &WAYS {
            let case = Case::new(place, &folder, way, "ends")?;
            let start = Instant::now();
            let mut session = case.start("ends")?;
            if way.has_program() {
                session.wait_until(PATIENCE, || case.has_begun())?;
            } else {
                session.wait(PATIENCE)?;
            }
            takes.push(start.elapsed());
            session.wait(PATIENCE)?;
            case.check_whole().with_context(|| format!("{} without any signal", way.words))?;
        }
        Ok(Self { folder, takes })
    }
}

/// Tries the cases of these numbers.
pub fn run(
    place: &Place,
    interrupted: &Interrupted,
    numbers: std::ops::Range<u64>,
) -> Result<Found> {
    let mut found = Found::default();
    for number in numbers {
        let mut rng = Rng::with_seed(place.seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ !number);
        // All ways and signals in turns, whose numbers have no divisor in common; who
        // is sent one, and what it does then, by chance.
        let at = (number % WAYS.len() as u64) as usize;
        let (way, signal) = (&WAYS[at], SIGNALS[(number % SIGNALS.len() as u64) as usize]);
        let to_group = rng.bool();
        let kind = if way.has_program() { KINDS[rng.usize(0..KINDS.len())] } else { "ends" };
        let case = Case::new(place, &interrupted.folder, way, kind)?;
        let (told, wrong) = case.run(&mut rng, signal, to_group, interrupted.takes[at])?;
        found.count(signal.as_str(), &told);
        let target = if to_group { "the group" } else { "backtrail alone" };
        let command = format!("{}, {signal} to {target}, a program that {kind}", way.words);
        for what in wrong {
            println!("interruption {number}: {command}: {what}");
            found.findings.push(Finding { what, command: command.clone(), number });
        }
    }
    Ok(found)
}

/// A command in a folder of its own.
struct Case<'a> {
    place: &'a Place,
    from: &'a Path,
    way: &'a Way,
    kind: &'static str,
    scratch: tempfile::TempDir,
}

impl<'a> Case<'a> {
    fn new(place: &'a Place, from: &'a Path, way: &'a Way, kind: &'static str) -> Result<Self> {
        let scratch = tempfile::Builder::new().prefix("interrupted-").tempdir_in(&place.folder)?;
        for folder in ["run", "tmp", "begun", "cache", "printed"] {
            std::fs::create_dir(scratch.path().join(folder))?;
        }
        for name in ["prog", "tuned"] {
            std::fs::copy(from.join(name), scratch.path().join("run").join(name))?;
        }
        Ok(Self { place, from, way, kind, scratch })
    }

    fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Starts the command, whose program does what `kind` says. Nothing is in its cache.
    fn start(&self, kind: &str) -> Result<Session> {
        let mut tool = self.place.tool(&self.path("cache"));
        tool.args(self.way.words.split(' ')).current_dir(self.path("run"));
        if self.way.has_program() {
            tool.args(["./prog", "--", kind]).arg(self.path("begun"));
        }
        Session::start(tool.env("TMPDIR", self.path("tmp")), &self.path("printed"))
    }

    /// Whether the program has begun.
    fn has_begun(&self) -> bool {
        files(&self.path("begun")).is_ok_and(|it| !it.is_empty())
    }

    /// Interrupts it; what became of it, and what is wrong with that.
    fn run(
        &self,
        rng: &mut Rng,
        signal: Signal,
        to_group: bool,
        takes: Duration,
    ) -> Result<(String, Vec<String>)> {
        let mut session = self.start(self.kind)?;
        if self.way.has_program() && rng.bool() {
            session.wait_until(PATIENCE, || self.has_begun())?;
            session.wait(BEGUN.mul_f64(rng.f64()))?;
        } else {
            session.wait(takes.mul_f64(rng.f64()))?;
        }
        let had_begun = self.has_begun();
        if !session.signal(signal, to_group)? {
            return Ok(("came too late".into(), Vec::new()));
        }
        let told = if had_begun { "while the program ran" } else { "before" };
        let Some(status) = session.wait(PATIENCE)? else {
            return Ok((told.into(), vec![format!("has not ended after {PATIENCE:?}")]));
        };
        let mut wrong = Vec::new();
        if signal == Signal::SIGKILL {
            session.end()?;
            let mut next = self.start("ends")?;
            ensure!(next.wait(PATIENCE)?.is_some(), "{} does not end", self.way.words);
        } else {
            let left = session.left()?;
            if !left.is_empty() {
                wrong.push(format!("{} runs on", left.join(", ")));
            }
            wrong.extend(self.wrong_status(status, signal, had_begun));
        }
        session.end()?;
        wrong.extend(self.left_over()?);
        wrong.extend(self.check_whole().err().map(|error| format!("{error:#}")));
        Ok((told.into(), wrong))
    }

    /// What is wrong with how the command ended.
    fn wrong_status(&self, status: ExitStatus, signal: Signal, had_begun: bool) -> Option<String> {
        let by_signal =
            status.signal() == Some(signal as i32) || status.code() == Some(128 + signal as i32);
        // In more than one run, none is like another that was interrupted.
        let is_documented = match had_begun && self.way.is_one_run {
            true if self.kind == "dies" => by_signal,
            true => status.code() == Some(STATUS),
            false => {
                by_signal || status.code().is_some_and(|it| [0, 3, 4, 5, 6, STATUS].contains(&it))
            }
        };
        if !is_documented {
            return Some(format!("ends with {status}"));
        }
        let has_output = self.path("run/out").exists();
        let wants_output = had_begun && self.way.is_one_run;
        (wants_output && !has_output).then(|| "what the program did is not written".to_owned())
    }

    /// What is left in `TMPDIR` and beside outputs.
    fn left_over(&self) -> Result<Option<String>> {
        let names = |folder: &str| -> Result<Vec<String>> {
            let entries = std::fs::read_dir(self.path(folder))?;
            Ok(entries.flatten().map(|it| it.file_name().to_string_lossy().into_owned()).collect())
        };
        if let Some(name) = names("tmp")?.first() {
            return Ok(Some(format!("leaves {} in TMPDIR", shown(name))));
        }
        let beside = names("run")?.into_iter().find(|it| it.starts_with(".backtrail-"));
        Ok(beside.map(|name| format!("leaves {} beside what it writes", shown(&name))))
    }

    /// An error if what is written is there and not whole.
    fn check_whole(&self) -> Result<()> {
        let out = self.path("run/out");
        let read = |words: &[&str]| -> Result<()> {
            let mut tool = self.place.tool(&self.path("cache"));
            command::output(tool.args(words).current_dir(self.path("run"))).map(drop)
        };
        let same = |name: &str, as_made: &str| -> Result<bool> {
            Ok(std::fs::read(self.path("run").join(name))?
                == std::fs::read(self.from.join(as_made))?)
        };
        match self.way.output {
            Output::Switched => {
                let is_whole = same("tuned", "tuned")? || same("tuned", "switched")?;
                ensure!(is_whole, "the executable is neither as it was nor as it should be");
            }
            Output::Detached => {
                // What is carried is in one of them.
                let side = files(&self.path("run"))?;
                let side =
                    side.iter().find(|it| it.extension().is_some_and(|it| it == "backtrail"));
                ensure!(same("prog", "prog")? || side.is_some(), "what was carried is gone");
                read(&["info", "prog"])?;
            }
            _ if !out.exists() => {}
            Output::Executable => read(&["info", "out"])?,
            Output::Profile => read(&["paths", "out"])?,
            Output::Trace => read(&["show", "--count", "5", "out"])?,
        }
        Ok(())
    }
}

/// A name without what is different each time.
fn shown(name: &str) -> String {
    match name.rsplit_once('-') {
        Some((begin, _)) => format!("{begin}-…"),
        None => name.to_owned(),
    }
}

/// How many commands are interrupted.
pub fn ways() -> usize {
    WAYS.len()
}
