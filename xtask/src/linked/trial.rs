//! One program: built twice, and looked at in every way.
//!
//! What is true is what a log of every block tells of a run. Each way of looking at the
//! program runs it anew; it executes the same each time, because nothing that it does
//! depends on time, addresses or chance.

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::project::{Project, SCRIPT};
use super::steps::{self, Told};
use super::verdict::Verdict;
use super::{cores, counted, postmortem};
use crate::attack::session::Session;
use crate::command;

/// How long a command may take by the clock.
const PATIENCE: Duration = Duration::from_secs(120);

/// The exit code for runs that diverged.
const DIVERGED: i32 = 4;

/// The exit code of the loader, where it does not find a library.
const NOT_LOADED: i32 = 127;

/// SIGSEGV.
const FAULT: i32 = 11;

/// What was found of one program.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Found {
    /// Its number, if it was drawn.
    pub number: u64,
    /// Its features.
    pub features: Vec<String>,
    /// How many blocks its log has.
    pub blocks: u64,
    /// What came out, by way.
    pub verdicts: BTreeMap<String, Verdict>,
    /// Why it is no program: then nothing was looked at.
    pub unfit: Option<String>,
}

impl Found {
    /// The ways in which something is wrong.
    pub fn wrong(&self) -> impl Iterator<Item = (&String, &Verdict)> {
        self.verdicts.iter().filter(|it| it.1.is_wrong())
    }

    /// Changes the texts that were said.
    pub fn each_text(&mut self, mut change: impl FnMut(&mut String)) {
        self.unfit.iter_mut().for_each(&mut change);
        for verdict in self.verdicts.values_mut() {
            match verdict {
                Verdict::Equal => {}
                Verdict::Labelled { why: text }
                | Verdict::Diverged { said: text }
                | Verdict::Refused { said: text }
                | Verdict::Wrong { detail: text, .. } => change(text),
            }
        }
    }
}

/// How `backtrail trace` is asked.
const TRACES: [(&str, &[&str]); 3] = [
    ("trace", &[]),
    ("trace --runs 3", &["--runs", "3"]),
    ("trace --witness node --runs 2", &["--witness", "node", "--runs", "2"]),
];

/// How `backtrail profile` is asked for copies.
const COPIES: [(&str, &[&str]); 2] = [
    ("profile --copies 2", &["--copies", "2"]),
    ("profile --copies 3 --strategy pbl", &["--copies", "3", "--strategy", "pbl"]),
];

/// Schemes for crashes.
const SCHEMES: [(&str, &str); 2] = [("autopsy of full", "full"), ("autopsy of fc", "fc")];

const BUILD: &str = "build";
const PROFILE: &str = "profile";
const ENTRIES: &str = "profile, entries";

/// All ways, in the order of the page.
pub fn ways() -> Vec<&'static str> {
    let traces = TRACES.iter().map(|it| it.0);
    let copies = COPIES.iter().map(|it| it.0);
    let schemes = SCHEMES.iter().map(|it| it.0);
    [BUILD]
        .into_iter()
        .chain(traces)
        .chain([PROFILE, ENTRIES])
        .chain(copies)
        .chain(schemes)
        .collect()
}

/// Where programs are tried.
#[derive(Debug)]
pub struct Place<'a> {
    /// The folder of the tool's executables.
    pub tool: &'a Path,
    /// Where derived objects are kept.
    pub cache: &'a Path,
    /// A folder for this program alone.
    pub folder: &'a Path,
}

/// How a command ended, and what it printed.
#[derive(Debug, Clone)]
pub struct Ran {
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
    stderr: String,
}

impl Ran {
    /// Whether it printed the same and ended in the same way; whether it left a core
    /// depends on its limits.
    fn is_same(&self, other: &Ran) -> bool {
        let end = |it: &Ran| it.status.map(|status| (status.code(), status.signal()));
        end(self).is_some() && (end(self), &self.stdout) == (end(other), &other.stdout)
    }

    fn shown(&self) -> String {
        let printed = String::from_utf8_lossy(&self.stdout).trim().replace('\n', " ");
        let ended = match self.status {
            None => "had not ended in time".to_owned(),
            Some(status) => match status.signal() {
                Some(signal) => format!("died of signal {signal}"),
                None => format!("ended with {}", status.code().unwrap_or_default()),
            },
        };
        format!(
            "{ended} and printed \"{printed}\"{}",
            self.said().map(|it| format!("; {it}")).unwrap_or_default()
        )
    }

    /// What the tool said for an error.
    fn said(&self) -> Option<&str> {
        self.stderr.lines().rfind(|it| it.starts_with("backtrail: "))
    }

    fn has_succeeded(&self) -> bool {
        self.status.is_some_and(|it| it.success())
    }
}

/// Tries a program in every way, or in some.
pub fn run(place: &Place, project: &Project, ways: Option<&[String]>) -> Result<Found> {
    let trial = Trial { place, ways };
    let mut found = Found { features: project.features.clone(), ..Found::default() };
    if let Err(error) = trial.judge(project, &mut found) {
        // What is not a program of clang's is ours to mend; it is no finding.
        found.unfit = Some(format!("{error:#}"));
    }
    Ok(found)
}

struct Trial<'a> {
    place: &'a Place<'a>,
    ways: Option<&'a [String]>,
}

impl Trial<'_> {
    fn wants(&self, way: &str) -> bool {
        self.ways.is_none_or(|ways| ways.iter().any(|it| it == way))
    }

    fn folder(&self, name: &str) -> PathBuf {
        self.place.folder.join(name)
    }

    /// Runs a command in a folder that it has for itself.
    fn execute(&self, command: &mut Command, folder: &Path) -> Result<Ran> {
        let printed = self.folder("printed");
        std::fs::create_dir_all(&printed)?;
        let mut session = Session::start(command.current_dir(folder), &printed)?;
        let status = session.wait(PATIENCE)?;
        session.end()?;
        let stderr = session.printed("stderr")?;
        let stderr = String::from_utf8_lossy(&stderr).into_owned();
        Ok(Ran { status, stdout: session.printed("stdout")?, stderr })
    }

    fn tool(&self, words: &[&str]) -> Command {
        let mut tool = Command::new(self.place.tool.join("backtrail"));
        tool.args(words);
        self.surround(&mut tool);
        tool
    }

    /// A cache of its own, and nothing written outside.
    fn surround(&self, command: &mut Command) {
        command.env("BACKTRAIL_CACHE", self.place.cache).env("LC_ALL", "C");
        command.env("XDG_STATE_HOME", self.folder("state")).env("TMPDIR", self.folder("tmp"));
        command.env_remove("BACKTRAIL_CLANG").env_remove("BACKTRAIL_DIR");
    }

    /// Builds the program by its script.
    fn build(&self, project: &Project, name: &str, with_tool: bool) -> Result<Ran> {
        let folder = self.folder(name);
        project.write(&folder)?;
        // A folder for programs that look around: nothing of it depends on an order.
        std::fs::create_dir_all(folder.join("run/tree/branch/twig"))?;
        std::fs::write(folder.join("run/tree/branch/twig/leaf"), "leaf\n")?;
        let mut sh = Command::new("sh");
        sh.args(["-e", SCRIPT]);
        self.surround(&mut sh);
        if with_tool {
            let tool = self.place.tool.join("backtrail").display().to_string();
            sh.env("CC", format!("{tool} cc")).env("CXX", format!("{tool} c++"));
        } else {
            sh.env_remove("CC").env_remove("CXX");
        }
        self.execute(&mut sh, &folder)
    }

    fn program(&self, name: &str, words: &[&str]) -> Result<Ran> {
        let mut program = Command::new("../program");
        program.args(words);
        self.surround(&mut program);
        // `setsid` looks for the program where it is started.
        self.execute(&mut program, &self.folder(name).join("run"))
    }

    /// Where the program runs, with its executable one above.
    fn here(&self) -> PathBuf {
        self.folder("carried/run")
    }

    fn judge(&self, project: &Project, found: &mut Found) -> Result<()> {
        std::fs::create_dir_all(self.folder("tmp"))?;
        let built = self.build(project, "plain", false)?;
        ensure!(
            built.has_succeeded(),
            "clang does not build it: {}",
            command::tail(&built.stderr, 4)
        );
        let original = self.program("plain", &[])?;
        ensure!(original.status.is_some(), "it does not end");
        let has_begun = original.status.and_then(|it| it.code()) != Some(NOT_LOADED);
        ensure!(has_begun, "it is not loaded: {}", command::tail(&original.stderr, 1));
        let again = self.program("plain", &[])?;
        ensure!(again.is_same(&original), "it does not do the same each time: {}", again.shown());
        let built = self.build(project, "carried", true)?;
        if !built.has_succeeded() {
            let said = command::tail(&built.stderr, 4);
            found.verdicts.insert(BUILD.to_owned(), Verdict::wrong("does not build", said));
            return Ok(());
        }
        let carried = self.program("carried", &[])?;
        let same = carried.is_same(&original);
        let wrong = || Verdict::wrong("does something else", carried.shown());
        let verdict = if same { Verdict::Equal } else { wrong() };
        found.verdicts.insert(BUILD.to_owned(), verdict);
        let log = match self.trace(&["--strategy", "log"], &[], &original)? {
            Ok(log) => log,
            Err(verdict) => {
                found.verdicts.insert("log".to_owned(), not_less(verdict));
                return Ok(());
            }
        };
        found.blocks = log.steps().count() as u64;
        for (way, words) in TRACES {
            if self.wants(way) {
                let traced = self.trace(words, &[], &original)?;
                let verdict = traced.map_or_else(|it| it, |told| steps::compare(&told, &log));
                found.verdicts.insert(way.to_owned(), verdict);
            }
        }
        self.count(&original, &log, found)?;
        if project.has_crash {
            self.crash(found)?;
        }
        Ok(())
    }

    /// Traces the program; if there is no trace, what is to be said of that.
    fn trace(
        &self,
        how: &[&str],
        words: &[&str],
        original: &Ran,
    ) -> Result<std::result::Result<Told, Verdict>> {
        let file = self.folder("carried/way.bttrace");
        let _ = std::fs::remove_file(&file);
        let mut tool = self.tool(&["trace", "--quiet", "-o", "../way.bttrace"]);
        tool.args(how).args(["../program", "--"]).args(words);
        let ran = self.execute(&mut tool, &self.here())?;
        if let Some(verdict) = failure(&ran, original, file.exists()) {
            return Ok(Err(verdict));
        }
        let shown =
            self.execute(&mut self.tool(&["show", "--json", "../way.bttrace"]), &self.here())?;
        if !shown.has_succeeded() {
            return Ok(Err(Verdict::wrong("the trace cannot be shown", shown.shown())));
        }
        let text = String::from_utf8_lossy(&shown.stdout);
        Ok(Told::read(&text)
            .map_err(|error| Verdict::wrong("the trace is none", format!("{error:#}"))))
    }

    /// A profile of one run or of copies, as a document.
    fn profile(&self, how: &[&str], original: &Ran) -> Result<std::result::Result<Value, Verdict>> {
        let file = self.folder("carried/way.btprof");
        let _ = std::fs::remove_file(&file);
        let mut tool = self.tool(&["profile", "--quiet", "-o", "../way.btprof"]);
        tool.args(how).arg("../program");
        let ran = self.execute(&mut tool, &self.here())?;
        if let Some(verdict) = failure(&ran, original, file.exists()) {
            return Ok(Err(not_less(verdict)));
        }
        self.paths("../way.btprof")
    }

    fn paths(&self, of: &str) -> Result<std::result::Result<Value, Verdict>> {
        let paths = self.execute(&mut self.tool(&["paths", "--json", of]), &self.here())?;
        if !paths.has_succeeded() {
            return Ok(Err(Verdict::wrong("the profile cannot be shown", paths.shown())));
        }
        Ok(serde_json::from_slice(&paths.stdout)
            .map_err(|error| Verdict::wrong("the profile is none", error.to_string())))
    }

    /// Counts, against the log and against copies.
    fn count(&self, original: &Ran, log: &Told, found: &mut Found) -> Result<()> {
        let counting = [PROFILE, ENTRIES].into_iter().chain(COPIES.iter().map(|it| it.0));
        if !counting.into_iter().any(|way| self.wants(way)) {
            return Ok(());
        }
        let one = match self.profile(&[], original)? {
            Ok(one) => one,
            Err(verdict) => {
                found.verdicts.insert(PROFILE.to_owned(), verdict);
                return Ok(());
            }
        };
        let faulted = match original.status.and_then(|it| it.signal()) {
            // Scenes that end the program do so in the thread of `main`.
            Some(FAULT) => {
                let of_main = log.threads.first().and_then(|it| it.steps.last());
                of_main.map(|it| &it.function[..])
            }
            _ => None,
        };
        if self.wants(PROFILE) {
            let walked = self.walked(original)?;
            let verdict =
                walked.map_or_else(|it| it, |it| counted::compare_with_walk(&one, &it, faulted));
            found.verdicts.insert(PROFILE.to_owned(), verdict);
        }
        if self.wants(ENTRIES) {
            found.verdicts.insert(ENTRIES.to_owned(), counted::compare_entries(&one, log, faulted));
        }
        for (way, words) in COPIES {
            if self.wants(way) {
                let several = self.profile(words, original)?;
                let verdict =
                    several.map_or_else(|it| it, |it| counted::compare_copies(&it, &one, faulted));
                found.verdicts.insert(way.to_owned(), verdict);
            }
        }
        Ok(())
    }

    /// What walking over a log of every block gives.
    fn walked(&self, original: &Ran) -> Result<std::result::Result<Value, Verdict>> {
        let logged = match self.variant("log", &[], "../records")? {
            Ok(logged) => logged,
            Err(verdict) => return Ok(Err(verdict)),
        };
        if !logged.is_same(original) {
            return Ok(Err(Verdict::wrong(
                "the log's variant does something else",
                logged.shown(),
            )));
        }
        self.paths("../records")
    }

    /// Derives a variant and runs it, and its core is kept if it is to crash.
    fn variant(
        &self,
        scheme: &str,
        words: &[&str],
        records: &str,
    ) -> Result<std::result::Result<Ran, Verdict>> {
        let out = format!("../variant.{scheme}");
        let derive = ["instrument", "--quiet", "--scheme", scheme, "-o", &out, "../program"];
        let derived = self.execute(&mut self.tool(&derive), &self.here())?;
        if !derived.has_succeeded() {
            return Ok(Err(Verdict::wrong("the variant is not made", derived.shown())));
        }
        let mut program = Command::new(&out);
        self.surround(program.args(words));
        if words.is_empty() {
            program.env("BACKTRAIL_DIR", records);
            return Ok(Ok(self.execute(&mut program, &self.here())?));
        }
        let mut program = cores::limited(&program);
        Ok(Ok(self.execute(&mut program, &self.here())?))
    }

    /// Crashes, against the log of the same crash.
    fn crash(&self, found: &mut Found) -> Result<()> {
        if !SCHEMES.iter().any(|it| self.wants(it.0)) {
            return Ok(());
        }
        const WORDS: [&str; 1] = ["crash"];
        let original = self.program("plain", &WORDS)?;
        ensure!(
            original.status.is_some_and(|it| it.signal().is_some()),
            "it does not crash: {}",
            original.shown()
        );
        let log = match self.trace(&["--strategy", "log"], &WORDS, &original)? {
            Ok(log) => log,
            Err(verdict) => {
                found.verdicts.insert("log of the crash".to_owned(), not_less(verdict));
                return Ok(());
            }
        };
        for (way, scheme) in SCHEMES {
            if self.wants(way) {
                let verdict = self.autopsy(scheme, &WORDS, &original, &log)?;
                found.verdicts.insert(way.to_owned(), verdict);
            }
        }
        Ok(())
    }

    fn autopsy(&self, scheme: &str, words: &[&str], original: &Ran, log: &Told) -> Result<Verdict> {
        cores::remove(&self.here())?;
        let ran = match self.variant(scheme, words, "")? {
            Ok(ran) => ran,
            Err(verdict) => return Ok(verdict),
        };
        if !ran.is_same(original) {
            return Ok(Verdict::wrong("the variant does something else", ran.shown()));
        }
        let core = match cores::left(&self.here())? {
            Some(core) => core,
            None => {
                let mut dying = Command::new(format!("../variant.{scheme}"));
                self.surround(dying.args(words));
                let mut gdb = cores::by_debugger(&dying);
                self.execute(&mut gdb, &self.here())?;
                cores::left(&self.here())?.with_context(cores::settings)?
            }
        };
        let core = core.display().to_string();
        let mut tool = self.tool(&["autopsy", "--json", "--blocks", &core]);
        let told = self.execute(&mut tool, &self.here())?;
        cores::remove(&self.here())?;
        if !told.has_succeeded() {
            return Ok(Verdict::wrong("there is no autopsy", told.shown()));
        }
        Ok(match serde_json::from_slice(&told.stdout) {
            Ok(document) => postmortem::compare(&document, log),
            Err(error) => Verdict::wrong("the autopsy is none", error.to_string()),
        })
    }
}

/// What is wrong with a run that collects, if it gave nothing or did something else.
fn failure(ran: &Ran, original: &Ran, is_written: bool) -> Option<Verdict> {
    let code = ran.status.and_then(|it| it.code());
    if let (Some(DIVERGED), Some(said), false) = (code, ran.said(), is_written) {
        return Some(Verdict::Diverged { said: said.to_owned() });
    }
    if !is_written {
        let what = match (ran.said(), code) {
            (Some(_), Some(code)) => format!("exit code {code}"),
            _ => "nothing is written".to_owned(),
        };
        return Some(Verdict::wrong(&what, ran.shown()));
    }
    if !ran.is_same(original) {
        return Some(Verdict::wrong("the program does something else", ran.shown()));
    }
    None
}

/// Where a program that does the same each time cannot be said to have diverged.
fn not_less(verdict: Verdict) -> Verdict {
    match verdict {
        Verdict::Diverged { said } => Verdict::Refused { said },
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ran(status: i32, stdout: &str, stderr: &str) -> Ran {
        let status = Some(ExitStatus::from_raw(status));
        Ran { status, stdout: stdout.into(), stderr: stderr.to_owned() }
    }

    #[test]
    fn what_was_not_collected_or_ended_otherwise_is_noticed() {
        let original = ran(64 << 8, "s0 3\n", "");
        assert_eq!(failure(&original, &original, true), None);
        let what = |verdict: Option<Verdict>| verdict.unwrap().kind();
        assert_eq!(what(failure(&original, &original, false)), "nothing is written");
        let other = ran(64 << 8, "s0 4\n", "");
        assert_eq!(what(failure(&other, &original, true)), "the program does something else");
        let other = ran(65 << 8, "s0 3\n", "");
        assert_eq!(what(failure(&other, &original, true)), "the program does something else");
        let (crashed, with_core) = (ran(11, "s0 3\n", ""), ran(11 | 0x80, "s0 3\n", ""));
        assert!(crashed.is_same(&with_core));
        assert!(failure(&crashed, &original, true).unwrap().is_wrong());
        let late = Ran { status: None, ..original.clone() };
        assert!(failure(&late, &late, true).unwrap().is_wrong());
        let message = "backtrail: the runs diverged behind main";
        let diverged = failure(&ran(4 << 8, "", message), &original, false).unwrap();
        assert_eq!(diverged, Verdict::Diverged { said: message.to_owned() });
        assert!(not_less(diverged).is_wrong());
        // Exit code 4 without a word, or with a file, is something else.
        assert!(failure(&ran(4 << 8, "", ""), &original, false).unwrap().is_wrong());
        assert!(failure(&ran(4 << 8, "", message), &original, true).unwrap().is_wrong());
        let bug = failure(&ran(70 << 8, "", "backtrail: a bug"), &original, false).unwrap();
        assert_eq!(bug.kind(), "exit code 70");
    }
}
