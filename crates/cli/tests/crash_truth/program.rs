//! A program in three variants: with records and coverage, stripped, and with
//! every block logged; and what its crashes tell.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// A program in a folder of its own.
pub struct Program {
    folder: tempfile::TempDir,
    words: Vec<String>,
}

/// What a core of it told.
#[derive(Debug, Default, Clone)]
pub struct Judged {
    /// Frames of its functions.
    pub frames: usize,
    /// Those of which nothing is known but the function.
    pub unresolved: usize,
    /// Those whose known blocks are how the log of their activation ends.
    pub equal: usize,
    /// How many blocks are known of each.
    pub lengths: Vec<usize>,
    /// What is wrong.
    pub wrong: Vec<String>,
    /// Edges that can have been taken, by the stack alone and by all that is known.
    pub edges: (u64, u64),
}

/// An activation, as the log tells it.
#[derive(Debug)]
struct Logged {
    name: String,
    blocks: Vec<String>,
}

/// The function of a frame, its known blocks, and whether these are all.
type Told = (String, Vec<String>, bool);

impl Program {
    /// Compiles with these words, which name the output `program`.
    pub fn new(words: &[&str], run: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-truth-").tempdir().unwrap();
        let program = Self { folder, words: run.iter().map(|it| it.to_string()).collect() };
        program.backtrail(words);
        program
    }

    /// Derives the variants.
    pub fn derive(&self, scheme: &str) {
        self.backtrail(&["instrument", "-q", "--scheme", scheme, "-o", "traced", "program"]);
        if !self.path("logged").exists() {
            self.backtrail(&["instrument", "-q", "--scheme", "log", "-o", "logged", "program"]);
        }
        let mut strip = self.command("strip");
        assert!(strip.args(["-o", "stripped", "traced"]).status().unwrap().success());
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        command.env("BACKTRAIL_CACHE", self.path("cache"));
        command.env("BACKTRAIL_DIR", self.path("records"));
        command
    }

    #[track_caller]
    pub fn backtrail(&self, words: &[&str]) -> Output {
        let output = self.command(BACKTRAIL).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
        output
    }

    /// How many blocks it executes if nothing ends it; `None` if it takes too long.
    pub fn count(&self) -> Option<u64> {
        let file = self.path("count");
        let mut command = self.command("timeout");
        command.arg("5").arg(self.path("program")).args(&self.words).env("COUNT_TO", &file);
        command.output().unwrap();
        fs::read_to_string(file).ok()?.parse().ok()
    }

    /// Lets a variant die; `stop` is the block at which it is ended.
    fn die(&self, variant: &str, words: &[&str], stop: u64) -> Option<Output> {
        let mut shell = self.command("sh");
        shell.args(["-c", "ulimit -c unlimited && ulimit -s 512 && exec timeout 20 \"$0\" \"$@\""]);
        shell.arg(self.path(variant)).args(&self.words).args(words);
        shell.env("STOP_AT", stop.to_string());
        let output = shell.output().unwrap();
        let died = output.status.signal().is_some() || output.status.code() > Some(128);
        died.then_some(output)
    }

    /// Lets both variants die in the same way, and compares.
    pub fn judge(&self, variant: &str, words: &[&str], stop: u64) -> Option<Judged> {
        let cores = || -> Vec<PathBuf> {
            let files = fs::read_dir(self.folder.path()).unwrap().flatten();
            let is_core = |path: &PathBuf| {
                path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("core"))
            };
            files.map(|it| it.path()).filter(is_core).collect()
        };
        let _ = fs::remove_dir_all(self.path("records"));
        self.die("logged", words, stop)?;
        cores().iter().for_each(|core| fs::remove_file(core).unwrap());
        self.die(variant, words, stop)?;
        let cores = cores();
        let [core] = &cores[..] else {
            panic!(
                "no core was written here; kernel.core_pattern must be a name without a folder \
                 or a pipe, and `ulimit -H -c` must not be 0"
            );
        };
        let core = core.to_str().unwrap();
        let told = self.backtrail(&["autopsy", "--json", "--blocks", core]).stdout;
        fs::remove_file(core).unwrap();
        let told: Value = serde_json::from_slice(&told).unwrap();
        let shown = self.backtrail(&["show", "--json", "records"]).stdout;
        Some(compare(&told, &String::from_utf8(shown).unwrap()))
    }
}

/// Compares an autopsy with the log of the same crash.
fn compare(told: &Value, log: &str) -> Judged {
    let mut judged = Judged::default();
    let mut executed: BTreeSet<(String, String)> = BTreeSet::new();
    let mut taken: BTreeSet<(String, String, String)> = BTreeSet::new();
    let mut threads: BTreeMap<u64, Vec<Logged>> = BTreeMap::new();
    for line in log.lines() {
        let event: Value = serde_json::from_str(line).unwrap();
        let (Some(thread), Some(name), Some(block)) =
            (event["thread"].as_u64(), event["function"].as_str(), event["block"].as_str())
        else {
            continue;
        };
        executed.insert((name.to_owned(), block.to_owned()));
        let stack = threads.entry(thread).or_default();
        if block == "b0" {
            stack.push(Logged { name: name.to_owned(), blocks: vec![block.to_owned()] });
            continue;
        }
        let Some(own) = stack.iter().rposition(|it| it.name == name) else { continue };
        stack.truncate(own + 1);
        let last = stack[own].blocks.last().unwrap().clone();
        taken.insert((name.to_owned(), last, block.to_owned()));
        stack[own].blocks.push(block.to_owned());
    }
    judge_frames(told, &threads, &mut judged);
    let rows = told["code"].as_array().expect("what can have run is told");
    let mut names: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        *names.entry(row["function"].as_str().unwrap()).or_default() += 1;
    }
    for row in rows {
        let name = row["function"].as_str().unwrap();
        if names[name] > 1 {
            continue;
        }
        for block in row["impossible"].as_array().unwrap() {
            let block = block.as_str().unwrap();
            if executed.contains(&(name.to_owned(), block.to_owned())) {
                judged.wrong.push(format!("{name} {block} ran and is called impossible"));
            }
        }
        for edge in row["impossible_edges"].as_array().unwrap() {
            let [from, to] = [0, 1].map(|end| edge[end].as_str().unwrap().to_owned());
            if taken.contains(&(name.to_owned(), from.clone(), to.clone())) {
                let what = format!("{name} {from} -> {to} was taken and is called impossible");
                judged.wrong.push(what);
            }
        }
    }
    let edges = &told["active"]["edges"];
    judged.edges = (edges["stack_only"].as_u64().unwrap(), edges["now"].as_u64().unwrap());
    judged
}

/// The blocks of a frame that are known, oldest first.
fn blocks_of(frame: &Value) -> Vec<String> {
    let mut blocks = Vec::new();
    for older in frame["older"].as_array().unwrap().iter().rev() {
        for _ in 0..older["times"].as_u64().unwrap() {
            let own = older["blocks"].as_array().unwrap().iter();
            blocks.extend(own.map(|block| block.as_str().unwrap().to_owned()));
        }
    }
    // A block has a row for each of its lines, and is on a path once.
    let mut path: Vec<String> = Vec::new();
    for row in frame["path"].as_array().unwrap() {
        let block = row["block"].as_str().unwrap();
        if path.last().is_none_or(|last| last != block) {
            path.push(block.to_owned());
        }
    }
    blocks.extend(path);
    blocks
}

fn judge_frames(told: &Value, threads: &BTreeMap<u64, Vec<Logged>>, judged: &mut Judged) {
    for thread in told["threads"].as_array().unwrap() {
        let frames: Vec<&Value> = thread["frames"]
            .as_array()
            .unwrap()
            .iter()
            .filter(|frame| frame["scheme"].as_str().is_some_and(|it| it.contains("pt")))
            .collect();
        let known: Vec<Told> = frames
            .iter()
            .map(|frame| {
                let complete = frame["truncated"] == false && frame["note"].is_null();
                (frame["function"].as_str().unwrap().to_owned(), blocks_of(frame), complete)
            })
            .collect();
        judged.frames += known.len();
        judged.unresolved += known.iter().filter(|it| it.1.is_empty()).count();
        judged.lengths.extend(known.iter().map(|it| it.1.len()));
        // Which log is its own is not told by number. How deep a stack is when it
        // overflows, and at which instruction, depends on how large frames are: then
        // each is judged by itself, and the innermost may have come less far.
        let is_whole = thread["left_out"].is_null();
        let agreeing = |log: &[Logged]| match is_whole {
            true => aligned(&known, log),
            false => {
                let less_far = |(place, told): (usize, &Told), log: &Logged| {
                    place == 0 && told.0 == log.name && log.blocks.starts_with(&told.1)
                };
                let fits = |it: &(usize, &Told)| {
                    log.iter().any(|log| agrees(it.1, log) || less_far(*it, log))
                };
                known.iter().enumerate().filter(fits).count()
            }
        };
        let best = threads.values().map(|log| agreeing(log)).max().unwrap_or(0);
        let resolved = known.iter().filter(|it| !it.1.is_empty()).count();
        judged.equal += best.min(resolved);
        if best < known.len() {
            judged.wrong.push(format!("no log ends like this: {known:?}"));
        }
    }
}

/// Whether what is known of a frame is how an activation's blocks end.
fn agrees((name, blocks, complete): &Told, activation: &Logged) -> bool {
    *name == activation.name
        && match complete {
            true => activation.blocks == *blocks || blocks.is_empty(),
            false => activation.blocks.ends_with(blocks),
        }
}

/// How many of the frames, outermost first, are what a log's activations say, in
/// order.
fn aligned(known: &[Told], log: &[Logged]) -> usize {
    let mut possible = vec![false; known.len() + 1];
    possible[0] = true;
    for activation in log {
        for count in (1..=known.len()).rev() {
            let agrees = agrees(&known[known.len() - count], activation);
            possible[count] |= possible[count - 1] && agrees;
        }
    }
    possible.iter().rposition(|it| *it).unwrap_or(0)
}

/// A file among the fixtures.
pub fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_truth/fixtures");
    folder.join(name).to_str().unwrap().to_owned()
}
