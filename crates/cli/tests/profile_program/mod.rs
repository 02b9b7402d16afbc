//! A program that is built once and run in two variants: with its paths counted,
//! and with every block logged.
//!
//! Both variants run in the same place, under names of the same length, with the
//! same environment and without randomised addresses: what a program does must
//! not depend on which of them it is. What the log gives is worked out by
//! walking over it, without numbers and without counters; so the two profiles
//! share the lowering of the program and nothing else.

#![allow(dead_code)] // Each test program uses its own part.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

/// The program under test.
pub const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// What a variant records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    /// How often each path was taken.
    Profile,
    /// Every block.
    Log,
}

impl Scheme {
    fn word(self) -> &'static str {
        match self {
            Self::Profile => "profile",
            Self::Log => "log",
        }
    }

    /// Names of the same length.
    fn folder(self) -> &'static str {
        match self {
            Self::Profile => "counted",
            Self::Log => "logged0",
        }
    }
}

/// A program in a folder of its own.
pub struct Program {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

impl Program {
    /// Writes files into a folder; the first is compiled with `words`.
    #[track_caller]
    pub fn new(verb: &str, words: &[&str], files: &[(&str, &str)]) -> Self {
        let program = Self::of_files(files);
        let (first, _) = files[0];
        program.backtrail(&[&[verb, "-o", "program", first], words].concat());
        program
    }

    /// A folder of files, in which nothing is compiled yet.
    pub fn of_files(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-paths-").tempdir().unwrap();
        for (name, text) in files {
            fs::write(folder.path().join(name), text).unwrap();
        }
        Self { folder, variables: Vec::new() }
    }

    /// A program of C.
    #[track_caller]
    pub fn c(source: &str, words: &[&str]) -> Self {
        Self::new("cc", words, &[("program.c", source)])
    }

    /// A program of C++.
    #[track_caller]
    pub fn cxx(source: &str, words: &[&str]) -> Self {
        Self::new("c++", words, &[("program.cc", source)])
    }

    /// With a variable of the environment for all that is run.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where the processes of a variant record.
    pub fn records(&self, scheme: Scheme) -> PathBuf {
        self.path(&format!("{}-records", scheme.folder()))
    }

    /// A command in the folder.
    pub fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command
            .current_dir(self.folder.path())
            .stdin(Stdio::null())
            .env("BACKTRAIL_CACHE", self.path("cache"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env_remove("BACKTRAIL_CLANG")
            .env_remove("RUST_BACKTRACE")
            .env("LC_ALL", "C")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }

    /// What `backtrail WORDS` prints; it must succeed.
    #[track_caller]
    pub fn backtrail(&self, words: &[&str]) -> String {
        let output = self.command(BACKTRAIL).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
        String::from_utf8(output.stdout).unwrap()
    }

    /// Exit code and message of `backtrail WORDS`, which must fail.
    #[track_caller]
    pub fn refused(&self, words: &[&str]) -> (i32, String) {
        let output = self.command(BACKTRAIL).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        let code = output.status.code().unwrap();
        assert_ne!(code, 0, "{words:?}");
        (code, message)
    }

    /// The variant that a scheme makes.
    #[track_caller]
    pub fn variant(&self, scheme: Scheme) -> PathBuf {
        self.variant_of("program", scheme)
    }

    /// The variant of an executable in the folder.
    #[track_caller]
    pub fn variant_of(&self, name: &str, scheme: Scheme) -> PathBuf {
        let folder = self.path(scheme.folder());
        let _ = fs::create_dir(&folder);
        let variant = folder.join("program");
        if !variant.exists() {
            let words = ["instrument", "--quiet", "--scheme", scheme.word()];
            self.backtrail(&[&words[..], &["-o", variant.to_str().unwrap(), name]].concat());
        }
        variant
    }

    /// The command that runs a variant.
    #[track_caller]
    pub fn run_of(&self, scheme: Scheme, words: &[&str]) -> Command {
        let variant = self.variant(scheme);
        let mut command = self.command("setarch");
        command.arg("-R").arg(variant).args(words).env("BACKTRAIL_DIR", self.records(scheme));
        command
    }

    /// Runs a variant to its end.
    #[track_caller]
    pub fn run(&self, scheme: Scheme, words: &[&str]) -> Ran {
        Ran::of(&self.run_of(scheme, words).output().unwrap())
    }

    /// What the processes of a variant recorded, added up.
    #[track_caller]
    pub fn recorded(&self, scheme: Scheme) -> Profile {
        Profile::read(&self.backtrail(&["paths", "--json", self.records(scheme).to_str().unwrap()]))
    }

    /// Runs the variant that counts and gives what it counted.
    #[track_caller]
    pub fn profile(&self, words: &[&str]) -> (Ran, Profile) {
        let ran = self.run(Scheme::Profile, words);
        (ran, self.recorded(Scheme::Profile))
    }

    /// Runs both variants, which must do the same, and fails unless their
    /// profiles are equal.
    #[track_caller]
    pub fn equal(&self, words: &[&str]) -> (Ran, Profile) {
        let (ran, profile) = self.profile(words);
        let logged = self.run(Scheme::Log, words);
        assert_eq!(ran, logged, "the variants do not do the same");
        let log = self.recorded(Scheme::Log);
        profile.assert_equal(&log, &[]);
        profile.assert_known_is_so(&log);
        log.assert_unfinished_are_known();
        (ran, profile)
    }

    /// Lines and branches of the tracefile that `backtrail export` makes of what the
    /// processes of a variant recorded: each line with its count.
    #[track_caller]
    pub fn lcov(&self, scheme: Scheme) -> BTreeMap<(String, u32), u64> {
        let file = format!("{}.btprof", scheme.folder());
        let records = self.records(scheme);
        self.backtrail(&["paths", "--quiet", records.to_str().unwrap(), "-o", &file]);
        let text = self.backtrail(&["export", &file, "--to", "lcov"]);
        let mut source = String::new();
        let mut lines = BTreeMap::new();
        for line in text.lines() {
            if let Some(file) = line.strip_prefix("SF:") {
                source = file.to_owned();
            } else if let Some((line, count)) =
                line.strip_prefix("DA:").and_then(|it| it.split_once(','))
            {
                lines.insert((source.clone(), line.parse().unwrap()), count.parse().unwrap());
            }
        }
        lines
    }
}

/// How a program ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 128 and more for a signal.
    pub status: i32,
    /// What it wrote to standard output.
    pub stdout: String,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ran {
    /// How the program behind this output ended.
    pub fn of(output: &Output) -> Self {
        let signal = || 128 + output.status.signal().unwrap_or(0);
        Self {
            status: output.status.code().unwrap_or_else(signal),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        }
    }
}

/// A document of `backtrail paths --json`.
#[derive(Debug, Clone)]
pub struct Profile {
    /// Why something is missing, if it is.
    pub incomplete: Option<String>,
    /// How many processes were counted.
    pub processes: u64,
    /// The functions by id.
    pub functions: BTreeMap<String, Function>,
    /// By id: how many unfinished paths are known as far as they got.
    pub partial: BTreeMap<String, u64>,
    /// By id: what is known beside the counts.
    pub known: BTreeMap<String, Known>,
}

/// What is known of a function beside its counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Known {
    /// Whether all inherited and unfinished activations are counted.
    pub activations_exact: bool,
    /// `yes`, `inlined`, `no` or `unknown`.
    pub ran: String,
    /// Blocks that ran though no path counts them.
    pub ran_uncounted: BTreeSet<String>,
    /// Blocks that may have run.
    pub unknown: BTreeSet<String>,
    /// Whether edges were taken, as far as that is known.
    pub edges: BTreeMap<(String, String), Option<bool>>,
    /// The blocks of unfinished paths, of which a log knows.
    pub left: Vec<Vec<String>>,
}

impl Known {
    fn read(function: &Value) -> Self {
        let set = |name: &str| texts(&function[name]).into_iter().collect();
        let edge = |edge: &Value| ((text(&edge["from"]), text(&edge["to"])), edge["ran"].as_bool());
        let left = function["partial"].as_array().unwrap().iter();
        Self {
            activations_exact: function["activations_exact"].as_bool().unwrap(),
            ran: text(&function["ran"]),
            ran_uncounted: set("ran_uncounted"),
            unknown: set("unknown"),
            edges: function["edges"].as_array().unwrap().iter().map(edge).collect(),
            left: left.map(|path| texts(&path["blocks"])).collect(),
        }
    }
}

/// A function of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// `whole`, `cut` or `no: WHY`.
    pub instrumented: String,
    /// The number of its acyclic paths.
    pub acyclic_paths: String,
    /// How often it was entered.
    pub entries: u64,
    /// Activations that came over a fork.
    pub inherited: u64,
    /// Activations that ended early.
    pub unfinished: u64,
    /// Whether counts of edges are exact.
    pub edges_exact: bool,
    /// What was counted, by number.
    pub paths: BTreeMap<u64, Taken>,
    /// Counts of edges: `b0 b1` and the decision.
    pub edges: Vec<(String, String, u64)>,
}

/// A path that was taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// How often.
    pub count: u64,
    /// How it begins.
    pub starts: String,
    /// How it ends.
    pub ends: String,
    /// Its blocks.
    pub blocks: Vec<String>,
    /// Its lines.
    pub lines: Vec<String>,
}

fn text(value: &Value) -> String {
    value.as_str().unwrap().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().unwrap().iter().map(text).collect()
}

fn count(value: &Value) -> u64 {
    value.as_u64().unwrap_or_else(|| panic!("{value} is no count"))
}

impl Profile {
    /// Reads a document.
    #[track_caller]
    pub fn read(document: &str) -> Self {
        let document: Value = serde_json::from_str(document).unwrap();
        assert_eq!(document["schema"], "backtrail.paths/1");
        let mut functions = BTreeMap::new();
        let mut partial = BTreeMap::new();
        let mut all_known = BTreeMap::new();
        for function in document["functions"].as_array().unwrap() {
            let path = |path: &Value| {
                let taken = Taken {
                    count: count(&path["count"]),
                    starts: text(&path["starts"]),
                    ends: text(&path["ends"]),
                    blocks: texts(&path["blocks"]),
                    lines: texts(&path["lines"]),
                };
                (text(&path["id"]).parse().unwrap(), taken)
            };
            let edge = |edge: &Value| {
                let ends = format!("{} {}", text(&edge["from"]), text(&edge["to"]));
                (ends, text(&edge["decision"]), count(&edge["count"]))
            };
            let row = Function {
                instrumented: text(&function["instrumented"]),
                acyclic_paths: text(&function["acyclic_paths"]),
                entries: count(&function["entries"]),
                inherited: count(&function["inherited"]),
                unfinished: count(&function["unfinished"]),
                edges_exact: function["edges_exact"].as_bool().unwrap(),
                paths: function["paths"].as_array().unwrap().iter().map(path).collect(),
                edges: function["edges"].as_array().unwrap().iter().map(edge).collect(),
            };
            row.assert_balanced(&text(&function["id"]));
            all_known.insert(text(&function["id"]), Known::read(function));
            let known = function["partial"].as_array().unwrap();
            let known = known.iter().map(|path| count(&path["count"])).sum();
            partial.insert(text(&function["id"]), known);
            let old = functions.insert(text(&function["id"]), row);
            assert!(old.is_none(), "{} is there twice", function["id"]);
        }
        Self {
            incomplete: document["incomplete"].as_str().map(str::to_owned),
            processes: count(&document["processes"]),
            functions,
            partial,
            known: all_known,
        }
    }

    /// Fails unless each activation that a log says did not finish is known as far as it
    /// got, and no other; where calls return twice, jumps leave paths, too.
    #[track_caller]
    pub fn assert_unfinished_are_known(&self) {
        for (id, function) in &self.functions {
            let known = self.partial[id];
            if function.paths.values().all(|path| path.starts != "return_twice") {
                assert_eq!(known, function.unfinished, "{id}: partial paths");
            } else {
                assert!(known >= function.unfinished, "{id}: partial paths");
            }
        }
    }

    /// Fails unless all that counters say of what no path counts is what the log says:
    /// what ran for certain did, and what did not for certain did not.
    #[track_caller]
    pub fn assert_known_is_so(&self, log: &Self) {
        for (id, counted) in &self.functions {
            let (known, truth) = (&self.known[id], &log.known[id]);
            let by_paths = || counted.paths.values().flat_map(|path| path.blocks.iter().cloned());
            let by_paths: BTreeSet<String> = by_paths().collect();
            let left: BTreeSet<String> = truth.left.iter().flatten().cloned().collect();
            let steps = truth.left.iter().flat_map(|blocks| blocks.windows(2));
            let steps: BTreeSet<(String, String)> =
                steps.map(|pair| (pair[0].clone(), pair[1].clone())).collect();
            for block in &known.ran_uncounted {
                assert!(left.contains(block), "{id}: {block} did not run: {left:?}");
            }
            for block in &left {
                let is_told = by_paths.contains(block)
                    || known.ran_uncounted.contains(block)
                    || known.unknown.contains(block);
                assert!(is_told, "{id}: {block} ran, and is said not to have: {known:?}");
            }
            for (edge, ran) in &known.edges {
                let (from, to) = edge;
                let name = format!("{from} {to}");
                let is_counted = counted.edges.iter().any(|it| it.0 == name && it.2 > 0);
                let taken = is_counted || steps.contains(edge);
                assert!(ran.is_none_or(|ran| ran == taken), "{id}: {name} was taken: {taken}");
            }
            assert!(truth.unknown.is_empty(), "{id}: a log knows all: {truth:?}");
            let is_known = |known: &Known| known.ran != "unknown";
            if is_known(known) && is_known(truth) && known.activations_exact {
                assert_eq!(known.ran, truth.ran, "{id}");
            }
        }
    }

    /// The one function with this linkage name.
    #[track_caller]
    pub fn function(&self, name: &str) -> &Function {
        let suffix = format!("#{name}");
        let mut found = self.functions.iter().filter(|(id, _)| id.ends_with(&suffix));
        let (Some((_, function)), None) = (found.next(), found.next()) else {
            panic!("{name} is not one of {:?}", self.functions.keys());
        };
        function
    }

    /// Executions of all paths.
    pub fn executions(&self) -> u64 {
        self.functions.values().flat_map(|it| it.paths.values()).map(|it| it.count).sum()
    }

    /// Fails unless another profile has the same functions, with the same
    /// entries and the same counts of the same paths; but for some functions.
    #[track_caller]
    pub fn assert_equal(&self, other: &Self, but_for: &[&str]) {
        let ids = |profile: &Self| profile.functions.keys().cloned().collect::<Vec<_>>();
        assert_eq!(ids(self), ids(other));
        assert_eq!(self.processes, other.processes, "processes");
        assert!(self.executions() > 0, "an empty profile proves nothing");
        for (id, counted) in &self.functions {
            let name = id.rsplit('#').next().unwrap();
            let logged = &other.functions[id];
            if but_for.contains(&name) {
                continue;
            }
            if self.known[id].activations_exact {
                assert_eq!(counted, logged, "{id}: counted and logged");
            } else {
                // Of activations that a fork's child inherited, some may be in no count.
                assert!(!counted.edges_exact, "{id}");
                assert!(counted.inherited <= logged.inherited, "{id}: inherited");
                assert!(counted.unfinished <= logged.unfinished, "{id}: unfinished");
                let Function { inherited, unfinished, .. } = *logged;
                let as_logged = Function {
                    inherited,
                    unfinished,
                    edges_exact: logged.edges_exact,
                    ..counted.clone()
                };
                assert_eq!(&as_logged, logged, "{id}: counted and logged");
            }
        }
    }
}

impl Function {
    /// How often paths were taken that begin and end so; `""` is any way.
    pub fn count(&self, starts: &str, ends: &str) -> u64 {
        let is_wanted = |path: &&Taken| {
            (starts.is_empty() || path.starts == starts) && (ends.is_empty() || path.ends == ends)
        };
        self.paths.values().filter(is_wanted).map(|path| path.count).sum()
    }

    /// How often edges with this decision were taken.
    pub fn decided(&self, decision: &str) -> u64 {
        self.edges.iter().filter(|edge| edge.1 == decision).map(|edge| edge.2).sum()
    }

    /// How often paths were taken that execute this line, per execution of it.
    pub fn executed(&self, line: &str) -> u64 {
        let times = |path: &Taken| path.lines.iter().filter(|it| it.ends_with(line)).count() as u64;
        self.paths.values().map(|path| path.count * times(path)).sum()
    }

    /// Entries, unfinished, inherited.
    pub fn activations(&self) -> (u64, u64, u64) {
        (self.entries, self.unfinished, self.inherited)
    }

    #[track_caller]
    fn assert_balanced(&self, id: &str) {
        let ended = self.count("", "exit") + self.count("", "call");
        assert_eq!(self.entries + self.inherited, ended + self.unfinished, "{id}");
        let is_exact = self.unfinished == 0 && self.inherited == 0;
        let (from_entry, within) = (self.count("entry", ""), self.count("", "") - ended);
        if is_exact && self.edges_exact {
            assert_eq!(self.entries, from_entry, "{id}");
        }
        if self.edges_exact {
            assert!(is_exact, "{id}: edges are exact although activations are not");
            assert_eq!(within, self.count("", "") - from_entry, "{id}: paths begun within");
        }
    }
}

/// The levels that fixtures are compiled at.
pub const LEVELS: [&str; 2] = ["-O0", "-O2"];

/// A file below `tests/fixtures/profile`.
pub fn fixture(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/profile").join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
