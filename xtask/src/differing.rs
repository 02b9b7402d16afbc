//! `cargo xtask fuzz differing`: programs that do not do the same twice.
//!
//! One program has a seed of a kind: the clock, a process number, an address, a race of
//! threads, and what is the same in all runs. Five functions decide by it a thousand times,
//! which no output tells (`differing/kinds.c`). Every run says to us, behind the back of
//! whoever compares, what it decided. So it is known whether runs that were put
//! together did the same. If they did not, the result must not be called checked.
//!
//! It goes part by part, a kind in a way each; what was found is kept, and a run that was
//! ended goes on where it was.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::choice::Choice;
use crate::kept::Kept;
use crate::workspace::{self, Profile};
use crate::{command, jobs, terminal};

/// The program.
const KINDS: &str = include_str!("differing/kinds.c");

/// How often each kind is run in each way, if nothing else is said.
const RUNS: usize = 20;

/// The ways that runs are put together.
pub const WAYS: [&[&str]; 8] = [
    &["profile", "--copies", "2"],
    &["profile", "--copies", "3", "--strategy", "pbl"],
    &["profile", "--copies", "4", "--strategy", "p3"],
    &["trace", "--runs", "2"],
    &["trace", "--runs", "4", "--strategy", "fine"],
    &["trace", "--runs", "2", "--limit", "3"],
    &["profile", "--copies", "2", "--check", "inputs"],
    &["trace", "--runs", "2", "--check", "inputs"],
];

/// What `cargo xtask fuzz differing` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// How often each kind is run in each way
    #[arg(long, default_value_t = RUNS)]
    runs: usize,
    #[command(flatten)]
    choice: Choice,
    /// Begin nothing more after so many minutes; another run goes on
    #[arg(long, value_name = "N")]
    minutes: Option<u64>,
    /// How many at a time
    #[arg(long, value_name = "N", default_value_t = 2)]
    jobs: usize,
    /// The folder of a `backtrail` that is there, instead of building one
    #[arg(long, value_name = "DIR")]
    tool: Option<PathBuf>,
}

/// What came out for one result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Said {
    /// It is called checked.
    Checked,
    /// It is called not checked.
    NotChecked,
    /// There is none, exit code 4.
    Refused,
    /// The same, and the system call is named that told the runs something else.
    RefusedByInput,
}

/// By whether the runs did the same, and what was said: how often.
pub type Tally = BTreeMap<(bool, Said), usize>;

/// A program of kinds, and who runs it.
pub struct Trial {
    tool: PathBuf,
    folder: PathBuf,
}

impl Trial {
    /// Builds it in a folder.
    pub fn new(tool: &Path, folder: &Path) -> Result<Self> {
        if folder.exists() {
            std::fs::remove_dir_all(folder)?;
        }
        std::fs::create_dir_all(folder)?;
        std::fs::write(folder.join("kinds.c"), KINDS)?;
        let trial = Self { tool: tool.to_owned(), folder: folder.to_owned() };
        let mut compile = trial.backtrail();
        compile.args(["cc", "-O1", "-g", "-pthread", "-o", "kinds", "kinds.c"]);
        command::output(compile.current_dir(folder))?;
        Ok(trial)
    }

    fn backtrail(&self) -> Command {
        let mut backtrail = Command::new(self.tool.join("backtrail"));
        backtrail.env("BACKTRAIL_CACHE", self.folder.join("cache"));
        backtrail
    }

    /// The kinds there are.
    pub fn kinds(&self) -> Result<Vec<String>> {
        let text = command::output(&mut Command::new(self.folder.join("kinds")))?;
        Ok(text.lines().map(str::to_owned).collect())
    }

    /// Runs a kind in a way; whether all runs did the same, and what was said.
    pub fn run(&self, kind: &str, way: &[&str], number: usize) -> Result<(bool, Said)> {
        let place = self.folder.join(format!("{kind}-{number}"));
        let work = place.join("work");
        std::fs::create_dir_all(&work)?;
        let (seeds, merged) = (place.join("seeds"), place.join("merged"));
        let mut run = self.backtrail();
        run.args(way).arg("--quiet").arg("-o").arg(&merged).arg("../../kinds").args(["--", kind]);
        let output = command::capture(run.current_dir(&work).env("SEEDS", &seeds))?;
        let said = match output.status.code() {
            Some(0) => self.said(way[0], &merged)?,
            Some(4) if String::from_utf8_lossy(&output.stderr).contains("system call") => {
                Said::RefusedByInput
            }
            Some(4) => Said::Refused,
            _ => bail!(
                "{} ended with {}: {}",
                command::shown(&run),
                output.status,
                String::from_utf8_lossy(&output.stderr)
            ),
        };
        let decided = std::fs::read_to_string(&seeds).context("no run said what it decided")?;
        // A limit of witnesses may take more runs.
        let runs: usize = way[2].parse()?;
        ensure!(
            [Said::Refused, Said::RefusedByInput].contains(&said)
                || decided.lines().count() >= runs,
            "{} runs of {kind} said what they decided",
            decided.lines().count()
        );
        let different: BTreeSet<&str> = decided.lines().collect();
        std::fs::remove_dir_all(&place)?;
        Ok((different.len() == 1, said))
    }

    fn said(&self, verb: &str, merged: &Path) -> Result<Said> {
        let mut show = self.backtrail();
        match verb {
            "profile" => show.args(["paths", "--json"]),
            _ => show.args(["show", "--json", "--count", "1"]),
        };
        let text = command::output(show.arg(merged))?;
        let whole = || serde_json::from_str(&text).ok();
        let first = || text.lines().next().and_then(|line| serde_json::from_str(line).ok());
        let document: Value = first().or_else(whole).context("no document")?;
        let found = match &document["merged"] {
            Value::Array(list) => list.first().cloned().unwrap_or_default(),
            merged => merged.clone(),
        };
        match &found["checked"] {
            Value::Bool(true) => Ok(Said::Checked),
            Value::Bool(false) => Ok(Said::NotChecked),
            _ => bail!("nothing is said of how far the runs were compared"),
        }
    }
}

/// Runs all kinds in all ways.
pub fn run(options: &Options) -> Result<()> {
    let tool = match &options.tool {
        Some(tool) => tool.canonicalize().context("no such tool")?,
        None => workspace::build_tool(Profile::Release)?,
    };
    let folder = workspace::target()?.join("differing");
    let kept = Kept::new(folder.join("kept"), stamp(&tool, options.runs)?)?;
    let trial = Trial::new(&tool, &folder.join("trial"))?;
    let kinds = trial.kinds()?;
    options.choice.check(kinds.iter().map(String::as_str))?;
    let chosen: Vec<&String> = kinds.iter().filter(|kind| options.choice.wants(kind)).collect();
    let parts: Vec<(usize, &String)> =
        chosen.iter().flat_map(|&kind| (0..WAYS.len()).map(move |way| (way, kind))).collect();
    let title = |(way, kind): &(usize, &String)| format!("{kind} {way}");
    let missing = |part: &&(usize, &String)| {
        options.choice.again || kept.get::<Vec<Seen>>(&title(part)).is_none()
    };
    let began = Instant::now();
    let has_time = || options.minutes.is_none_or(|it| began.elapsed().as_secs() < it * 60);
    let work: Vec<_> = parts.iter().filter(missing).collect();
    let next = Mutex::new(work.into_iter());
    let job = || -> Result<()> {
        while has_time() {
            let taken = next.lock().expect("no thread panics with it").next();
            let Some(part @ (way, kind)) = taken else { return Ok(()) };
            let mut tally = Tally::new();
            for number in 0..options.runs {
                let number = way * options.runs + number;
                *tally.entry(trial.run(kind, WAYS[*way], number)?).or_default() += 1;
            }
            if tally.contains_key(&(false, Said::Checked)) {
                println!("{} {kind}, {}", terminal::red("CHECKED"), WAYS[*way].join(" "));
            }
            let seen: Vec<Seen> = tally.into_iter().map(|((is, said), n)| (is, said, n)).collect();
            kept.put(&title(part), &seen)?;
        }
        Ok(())
    };
    jobs::run(options.jobs, job)?;
    let mut found = Found::new();
    for part in &parts {
        let Some(seen) = kept.get::<Vec<Seen>>(&title(part)) else { continue };
        let tally = seen.into_iter().map(|(is, said, n)| ((is, said), n)).collect();
        found.insert((part.0, part.1.clone()), tally);
    }
    let table = table(&found);
    println!("{table}");
    let wrong = count(&found, |_, it| it == (false, Said::Checked));
    ensure!(wrong == 0, "{wrong} results of runs that differ are called checked");
    let left = parts.len() - found.len();
    match left {
        0 => write_page(options.runs, &chosen, kinds.len(), &found, &table),
        _ => {
            println!("{left} of {} parts are not made yet; the page is as it was", parts.len());
            Ok(())
        }
    }
}

/// What decides whether a part has to be made again.
fn stamp(tool: &Path, runs: usize) -> Result<String> {
    let mut hasher = blake3::Hasher::new();
    hasher.update_reader(std::fs::File::open(tool.join("backtrail"))?)?;
    hasher.update(KINDS.as_bytes());
    hasher.update(include_str!("differing.rs").as_bytes());
    Ok(format!("{} {runs}", hasher.finalize()))
}

/// How often something was seen of a part, as it is kept.
type Seen = (bool, Said, usize);

type Found = BTreeMap<(usize, String), Tally>;

/// How many results there are of some kind.
fn count(found: &Found, wanted: impl Fn(usize, (bool, Said)) -> bool) -> usize {
    let all = found.iter().flat_map(|((way, _), tally)| tally.iter().map(move |it| (*way, it)));
    all.filter(|(way, (said, _))| wanted(*way, **said)).map(|(_, (_, count))| count).sum()
}

/// What was said, way by way.
fn table(found: &Found) -> String {
    let mut out = String::from(
        "| | alike: checked | not checked | refused | different: checked | not checked | refused | \
         refused, the system call named |\n\
         | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n",
    );
    for (way, words) in WAYS.iter().enumerate() {
        let _ = write!(out, "| `{}` ", words.join(" "));
        for is_alike in [true, false] {
            for said in [Said::Checked, Said::NotChecked, Said::Refused] {
                let cell = count(found, |at, it| {
                    let also = said == Said::Refused && it.1 == Said::RefusedByInput;
                    at == way && it.0 == is_alike && (it.1 == said || also)
                });
                let _ = write!(out, "| {cell} ");
            }
        }
        let named = count(found, |at, it| at == way && it.1 == Said::RefusedByInput);
        let _ = writeln!(out, "| {named} |");
    }
    out
}

/// The kinds of which some result was of this kind.
fn kinds_with(found: &Found, is_alike: bool, wanted: &[Said]) -> String {
    let with = found
        .iter()
        .filter(|(_, tally)| wanted.iter().any(|&it| tally.contains_key(&(is_alike, it))));
    let kinds: BTreeSet<&str> = with.map(|((_, kind), _)| &kind[..]).collect();
    match kinds.is_empty() {
        true => "none".to_owned(),
        false => kinds.into_iter().collect::<Vec<_>>().join(", "),
    }
}

/// Writes `docs/differing.md`.
fn write_page(
    runs: usize,
    chosen: &[&String],
    kinds: usize,
    found: &Found,
    table: &str,
) -> Result<()> {
    let mut asked = format!("cargo xtask fuzz differing --runs {runs}");
    let mut which = "Each kind".to_owned();
    let times = if runs == 1 { "once".to_owned() } else { format!("{runs} times") };
    if chosen.len() < kinds {
        let names: Vec<&str> = chosen.iter().map(|it| it.as_str()).collect();
        let _ = write!(asked, " --only {}", names.join(","));
        which = format!("Each of {} of the kinds", chosen.len());
    }
    let page = format!(
        "# Programs that do not do the same twice\n\n\
         Runs that are put together to one result have to do the same. A program has a seed of \
         one of {kinds} kinds ([kinds.c](../xtask/src/differing/kinds.c)): the clock, process \
         numbers, addresses, files, sockets, races of threads, and what is the same in all runs. \
         Five functions decide by it a thousand times, and no output tells. Each run says to the \
         test alone what it decided, so that it is known which results are of runs that were \
         alike. {which} was run {times} in each way. This page was made by\n\n\
         ```\n{asked}\n```\n\n{table}\n\
         A result of runs that are not alike must not be called checked. Not checked, though \
         runs were alike: {}. Refused, though the five functions decided alike, because \
         something else was not the same: {}. Put together and not checked, where runs were not \
         alike: {}. With `--check inputs`, random numbers of the kernel and numbers of processes \
         are the same in all runs, and whoever reads a clock is refused, whatever it does with \
         it ([copies.md](copies.md#what-comes-into-the-copies---check-inputs)).\n",
        kinds_with(found, true, &[Said::NotChecked]),
        kinds_with(found, true, &[Said::Refused, Said::RefusedByInput]),
        kinds_with(found, false, &[Said::NotChecked]),
    );
    let path = workspace::root().join("docs/differing.md");
    std::fs::write(&path, page).with_context(|| format!("cannot write {}", path.display()))?;
    println!("wrote docs/differing.md");
    Ok(())
}
