//! Programs that do what is rarely done, under every scheme and way to collect.
//!
//! Each prints something that is always the same and ends in one known way. A variant
//! has to do the same, and so has the program when it is profiled or traced; what is
//! counted has to be what walking over the log of every block gives. What cannot be, and
//! is documented, is named beforehand ([`rows::NAMED`]): it has to fail, so that the list
//! stays true.

pub mod rows;

use std::os::unix::ffi::OsStringExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::session::Session;
use super::{Finding, Found, Place, programs};
use crate::command;
use rows::{COLLECTING, NAMED, Named, Row, SCHEMES};

/// How long a program may take by the clock.
const PATIENCE: Duration = Duration::from_secs(300);

/// How things come out, on the page.
pub const AS_ALONE: &str = "as alone";
/// Not as alone, as is known beforehand.
pub const AS_NAMED: &str = "as named";
/// Neither.
pub const WRONG: &str = "wrong";

/// The programs with their variants.
pub struct Tortured {
    folder: PathBuf,
}

/// How a program ended, and what it printed.
#[derive(PartialEq, Eq)]
struct Ran {
    status: Option<ExitStatus>,
    stdout: Vec<u8>,
}

impl Ran {
    fn shown(&self) -> String {
        let printed = String::from_utf8_lossy(&self.stdout).trim().replace('\n', " ");
        match self.status {
            Some(status) => format!("{} and printed \"{printed}\"", ending(status)),
            None => "had not ended".into(),
        }
    }
}

fn ending(status: ExitStatus) -> String {
    match status.signal() {
        Some(signal) => format!("died of signal {signal}"),
        None => format!("ended with {}", status.code().unwrap_or_default()),
    }
}

impl Tortured {
    /// Compiles the programs that the rows need and derives their variants.
    pub fn make<'r>(place: &Place, rows: impl IntoIterator<Item = &'r Row>) -> Result<Self> {
        let folder = place.folder.join("tortured");
        std::fs::create_dir_all(&folder)?;
        programs::write(&folder)?;
        let mut sources: Vec<&str> = rows.into_iter().map(|row| row.source).collect();
        sources.sort_unstable();
        sources.dedup();
        for source in sources {
            let name = name(source);
            let driver = if source.ends_with(".cc") { "c++" } else { "cc" };
            let tool = |words: &[&str]| {
                let mut tool = place.tool(&place.folder.join("cache"));
                command::output(tool.args(words).current_dir(&folder)).map(drop)
            };
            tool(&[driver, "-O1", "-g", "-w", "-pthread", "-o", name, source])?;
            for (scheme, options) in SCHEMES {
                let out = format!("{name}.{scheme}");
                tool(&[&["instrument", "--quiet"], *options, &["-o", &out, name]].concat())?;
            }
        }
        Ok(Self { folder })
    }
}

/// A source without its extension.
fn name(source: &str) -> &str {
    source.split('.').next().unwrap_or(source)
}

/// Runs a program in every way.
pub fn run(place: &Place, tortured: &Tortured, row: &Row) -> Result<Found> {
    let mut found = Found::default();
    let trial = Trial { place, tortured, row };
    let original = trial.execute("alone", &trial.program(name(row.source)))?;
    ensure!(
        original.0.status.is_some_and(|it| row.ends.is(it)),
        "{} is not as it should be, alone: it {}",
        row.name,
        original.0.shown()
    );
    for (scheme, _) in SCHEMES {
        let program = trial.program(&format!("{}.{scheme}", name(row.source)));
        let (ran, _scratch) = trial.execute(scheme, &program)?;
        trial.note(&mut found, scheme, (ran != original.0).then(|| (ran.status, ran.shown())));
    }
    for (way, options) in COLLECTING {
        if *way == "in process" && !row.in_process {
            continue;
        }
        let mut tool = place.tool(&place.folder.join("cache"));
        tool.args(*options).args(["-o", "out"]).arg(tortured.folder.join(name(row.source)));
        tool.arg("--");
        let (ran, scratch) = trial.execute(way, &tool)?;
        let is_written = scratch.path().join("run/out").is_file();
        let wrong = if ran != original.0 {
            Some(ran.shown())
        } else {
            (!is_written).then(|| "nothing was written".to_owned())
        };
        let wrong = wrong.map(|it| (ran.status, format!("{it}{}", said(scratch.path()))));
        trial.note(&mut found, way, wrong);
    }
    if row.is_steady {
        let wrong = trial.compare_counts().unwrap_or_else(|error| Some(format!("{error:#}")));
        trial.note(&mut found, "counts", wrong.map(|it| (None, it)));
    }
    Ok(found)
}

/// What the tool said for an error, if it did.
fn said(scratch: &Path) -> String {
    let text = std::fs::read(scratch.join("printed/stderr")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text).into_owned();
    let line = text.lines().rfind(|it| it.starts_with("backtrail: "));
    line.map(|it| format!("; {it}")).unwrap_or_default()
}

struct Trial<'a> {
    place: &'a Place,
    tortured: &'a Tortured,
    row: &'a Row,
}

impl Trial<'_> {
    fn program(&self, name: &str) -> Command {
        Command::new(self.tortured.folder.join(name))
    }

    /// Runs a command with the words of the row; its folder has what it recorded.
    fn execute(&self, way: &str, command: &Command) -> Result<(Ran, tempfile::TempDir)> {
        let scratch =
            tempfile::Builder::new().prefix("tortured-").tempdir_in(&self.place.folder)?;
        for folder in ["run", "tmp", "printed"] {
            std::fs::create_dir(scratch.path().join(folder))?;
        }
        // Whoever becomes another user writes as before.
        command::output(Command::new("chmod").args(["-R", "a+rwX"]).arg(scratch.path()))?;
        let mut words = Command::new(command.get_program());
        words.args(command.get_args()).current_dir(scratch.path().join("run"));
        let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
        words.envs(variables).env("TMPDIR", scratch.path().join("tmp"));
        if SCHEMES.iter().any(|(scheme, _)| *scheme == way) {
            words.env("BACKTRAIL_DIR", scratch.path().join("records"));
        }
        words.arg(self.row.name);
        if self.row.has_odd_words {
            words
                .arg("x".repeat(100_000))
                .arg(std::ffi::OsString::from_vec(vec![0xff, 0xfe, 0x80]));
        }
        let mut session = Session::start(&words, &scratch.path().join("printed"))?;
        let status = session.wait(PATIENCE)?;
        session.end()?;
        let stdout = session.printed("stdout")?;
        Ok((Ran { status, stdout }, scratch))
    }

    /// What differs between what is counted and what is logged.
    fn compare_counts(&self) -> Result<Option<String>> {
        let mut documents = Vec::new();
        for scheme in ["profile", "log"] {
            let program = self.program(&format!("{}.{scheme}", name(self.row.source)));
            let (ran, scratch) = self.execute(scheme, &program)?;
            // That it ended otherwise is noted already.
            if !ran.status.is_some_and(|it| self.row.ends.is(it)) {
                return Ok(None);
            }
            let mut tool = self.place.tool(&self.place.folder.join("cache"));
            tool.args(["paths", "--json"]).arg(scratch.path().join("records"));
            let told = command::output(&mut tool)
                .with_context(|| format!("what {scheme} recorded is not read"))?;
            documents.push(serde_json::from_str::<Value>(&told)?);
        }
        Ok(difference(&documents[0], &documents[1]))
    }

    /// Notes what came out, against what is named: whether something is wrong, and what,
    /// with how it ended if that is known.
    fn note(&self, found: &mut Found, way: &str, wrong: Option<(Option<ExitStatus>, String)>) {
        let row = self.row;
        let all = || NAMED.iter().filter(|it| (it.row, it.way) == (row.name, way));
        let named = all().next();
        let is_named = |status: Option<ExitStatus>| {
            all().any(|named: &Named| status.is_some_and(|it| named.ends.is(it)))
        };
        let what: String = match (wrong, named) {
            (None, None) => return found.count(row.name, AS_ALONE),
            (None, Some(named)) if named.by_chance => return found.count(row.name, AS_ALONE),
            (None, Some(_)) => "is as it is alone, although it is named".into(),
            (Some((status, _)), Some(_)) if is_named(status) => {
                return found.count(row.name, AS_NAMED);
            }
            (Some((_, what)), _) => what,
        };
        // Not what is different on each machine.
        let what = what.replace(&format!("{}/", self.place.folder.display()), "");
        println!("{} {way}: {what}", row.name);
        found.count(row.name, WRONG);
        found.findings.push(Finding { what, command: format!("{}, {way}", row.name), number: 0 });
    }
}

/// What differs first between two documents of `paths --json`, but for what only a log
/// knows: how far paths got that did not end. A log that says why it is not complete has
/// no more of anything than was counted.
fn difference(counted: &Value, logged: &Value) -> Option<String> {
    let all = [counted, logged].map(|it| it["functions"].as_array().cloned().unwrap_or_default());
    let [counted_all, logs] = &all;
    if counted_all.is_empty() {
        return Some("nothing is counted".into());
    }
    if counted_all.len() != logs.len() {
        return Some(format!("{} functions are counted, {} logged", counted_all.len(), logs.len()));
    }
    if !counted["incomplete"].is_null() {
        return Some(format!("what is counted is not complete: {}", counted["incomplete"]));
    }
    let agree = |one: &Value, other: &Value| match logged["incomplete"].is_null() {
        true if is_inexact(one) => is_bound(one, other),
        true => counts(one) == counts(other),
        false => is_part(other, one),
    };
    let (one, other) = counted_all.iter().zip(logs).find(|(one, other)| !agree(one, other))?;
    let of = |function: &Value| {
        let field = |name: &str| format!("{name} {}", function[name]);
        ["entries", "inherited", "unfinished", "paths"].map(field).join(", ")
    };
    let name = one["name"].as_str().unwrap_or_default();
    let cut = |text: String| text.chars().take(300).collect::<String>();
    Some(format!("{name} is counted with {}; logged with {}", cut(of(one)), cut(of(other))))
}

/// What was counted in a function, without what follows from counts or is known beside
/// them.
fn counts(function: &Value) -> Value {
    let mut function = function.clone();
    for field in ["partial", "ran", "ran_uncounted", "unknown", "activations_exact"] {
        function[field].take();
    }
    for edge in function["edges"].as_array_mut().into_iter().flatten() {
        edge["ran"].take();
    }
    function
}

/// Whether counters do not know all that a function did; a log may.
fn is_inexact(function: &Value) -> bool {
    ["activations_exact", "edges_exact"].iter().any(|it| function[it] == false)
}

/// Whether the paths that ended in a function are those of another, and its activations
/// are no more: those that a fork's child left otherwise are in no counter.
fn is_bound(bound: &Value, exact: &Value) -> bool {
    let count = |of: &Value, field: &str| of[field].as_u64().unwrap_or_default();
    ["id", "entries", "paths"].iter().all(|field| bound[field] == exact[field])
        && ["inherited", "unfinished"].iter().all(|it| count(bound, it) <= count(exact, it))
}

/// Whether a function has no more entries than another, and of no path more.
fn is_part(part: &Value, whole: &Value) -> bool {
    let count = |of: &Value, field: &str| of[field].as_u64().unwrap_or_default();
    let paths = |of: &Value| of["paths"].as_array().cloned().unwrap_or_default();
    let in_whole = |path: &Value| {
        let same = paths(whole).into_iter().find(|it| it["id"] == path["id"]);
        same.is_some_and(|it| count(path, "count") <= count(&it, "count"))
    };
    part["id"] == whole["id"]
        && count(part, "entries") <= count(whole, "entries")
        && paths(part).iter().all(in_whole)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn counts_differ_where_they_do_and_not_by_what_is_partial() {
        let document = |entries: u64, partial: Value| json!({ "functions": [{ "name": "f", "entries": entries, "partial": partial }] });
        let (one, other) = (document(3, json!([])), document(3, json!([1])));
        assert_eq!(difference(&one, &other), None);
        let told = difference(&one, &document(4, json!([]))).unwrap();
        assert!(told.contains("f is counted with entries 3"), "{told}");
        assert!(difference(&json!({}), &one).is_some());
    }

    #[test]
    fn a_log_that_is_not_complete_has_no_more_than_was_counted() {
        let document = |count: u64, incomplete: Value| {
            let paths = json!([{ "id": "1", "count": count }]);
            json!({
                "incomplete": incomplete,
                "functions": [{ "id": "f", "entries": 3, "paths": paths }],
            })
        };
        let counted = document(3, Value::Null);
        assert_eq!(difference(&counted, &document(2, json!("the disk was full"))), None);
        assert!(difference(&counted, &document(4, json!("the disk was full"))).is_some());
        assert!(difference(&counted, &document(2, Value::Null)).is_some());
        assert!(difference(&document(3, json!("?")), &counted).is_some());
    }
}
