//! A path profile as data to be shown.
//!
//! Everything is resolved: names are demangled, decisions are words, derived
//! counts are there, and so are the sources that were found. [`text`],
//! [`json`] and [`html`] show it.
//!
//! A path's *weight* is the number of blocks it executed, count times length:
//! closer to time than its count alone, because a path of forty blocks costs
//! more than one of two.

pub mod chain;
pub mod html;
pub mod json;
pub mod text;

use crate::merged::Merged;
use crate::terminal::Detail;

/// A program and what was counted in it.
#[derive(Debug, Clone, Default)]
pub struct Program {
    /// The program's file name.
    pub program: String,
    /// Its build id; empty if it has none.
    pub build_id: String,
    /// Why counts are missing, if some are.
    pub incomplete: Vec<String>,
    /// How many processes were counted.
    pub processes: u64,
    /// Which signals ended runs, by name, and how many each.
    pub ended_by: Vec<(String, u64)>,
    /// Of what was put together from several runs, how far those were compared.
    pub merged: Vec<Merged>,
    /// The sources, by number.
    pub files: Vec<SourceFile>,
    /// Names of functions that were inlined somewhere, by number.
    pub scopes: Vec<String>,
    /// The functions.
    pub functions: Vec<Function>,
}

impl Program {
    /// Which signals ended runs, in words; nothing if none did.
    fn ended_by(&self) -> Option<String> {
        let signals = self.ended_by.iter().map(|(signal, runs)| match runs {
            1 => signal.clone(),
            _ => format!("{signal} ({})", crate::terminal::counted(*runs, "run")),
        });
        let signals: Vec<String> = signals.collect();
        (!signals.is_empty()).then(|| signals.join(", "))
    }
}

/// A source file.
#[derive(Debug, Clone, Default)]
pub struct SourceFile {
    /// Where it was when the program was built.
    pub path: String,
    /// Its lines, if it was found.
    pub lines: Option<Vec<String>>,
    /// Whether it is the user's own: not a library's.
    pub own: bool,
}

/// A line of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Line {
    /// The file, by number.
    pub file: u32,
    /// The line, from 1.
    pub line: u32,
    /// The function that was inlined, by number.
    pub scope: Option<u32>,
}

/// Where code is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// Its own line.
    pub line: Line,
    /// The line that tells more, if that is a library's: the innermost of those it was
    /// inlined into that is the user's own, or at least nearer to it.
    pub told_by: Line,
}

impl From<Line> for Place {
    fn from(line: Line) -> Self {
        Self { line, told_by: line }
    }
}

impl Place {
    /// The line that is told.
    pub fn told(self, detail: Detail) -> Line {
        match detail {
            Detail::Short => self.told_by,
            Detail::Full => self.line,
        }
    }
}

/// A function.
#[derive(Debug, Clone, Default)]
pub struct Function {
    /// `unit#name`.
    pub id: String,
    /// The linkage name.
    pub name: String,
    /// The name as people write it.
    pub demangled: String,
    /// The unit's main source file.
    pub unit: String,
    /// Where it is defined.
    pub place: Option<Line>,
    /// How many acyclic paths it has.
    pub acyclic_paths: u128,
    /// Whether that is exact, and not a lower bound.
    pub acyclic_paths_exact: bool,
    /// `whole`, `cut` or `no: why`.
    pub instrumented: String,
    /// How often it was entered.
    pub entries: u64,
    /// Activations that came over a fork.
    pub inherited: u64,
    /// Activations that ended without reaching the end of a path.
    pub unfinished: u64,
    /// Whether `inherited` and `unfinished` are exact.
    pub activations_exact: bool,
    /// Whether counts of edges and lines are exact.
    pub edges_exact: bool,
    /// Whether its code ran.
    pub ran: Ran,
    /// The lines of each block, in order.
    pub blocks: Vec<Vec<Place>>,
    /// Blocks that are known to have been executed though no path counts them.
    pub ran_uncounted: Vec<u32>,
    /// Blocks that may have been executed though nothing says so.
    pub unknown: Vec<u32>,
    /// The edges, by source and then target.
    pub edges: Vec<Edge>,
    /// How often its lines were executed; nothing where it is not known whether they were.
    pub lines: Vec<(Line, Option<u64>)>,
    /// The paths that were taken, by number.
    pub paths: Vec<Path>,
    /// What is known of paths that were left unfinished.
    pub partial: Vec<PartialPath>,
}

/// A path that was left unfinished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartialPath {
    /// How it begins.
    pub starts: Start,
    /// Its blocks as far as it got.
    pub blocks: Vec<u32>,
    /// How often.
    pub count: u64,
}

/// An edge.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edge {
    /// The block it leaves.
    pub from: u32,
    /// The block it leads to.
    pub to: u32,
    /// When it is taken.
    pub decision: Decision,
    /// How often it was taken by paths that are counted.
    pub count: u64,
    /// Whether it was taken; nothing if that is not known.
    pub ran: Option<bool>,
}

/// Whether the code of a function ran.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ran {
    /// It did not.
    #[default]
    No,
    /// That is not known.
    Unknown,
    /// It was not entered, and ran where it was inlined.
    Inlined,
    /// It was entered.
    Itself,
}

/// When an edge is taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// There is no other way.
    Always,
    /// The condition holds.
    True,
    /// It does not.
    False,
    /// The value is one of these, or, if `default`, none that is listed
    /// elsewhere.
    Cases {
        /// The values.
        values: Vec<i64>,
        /// Whether all other values lead here, too.
        default: bool,
    },
    /// The call returned.
    Returned,
    /// The call unwound.
    Unwound,
    /// A computed address or assembly leads here.
    Computed,
}

/// Values of a `switch` that are spelled out.
const VALUES: usize = 4;

impl Decision {
    /// In a word, as documents have it; empty if there is no other way.
    pub fn word(&self) -> String {
        match self {
            Self::Always => String::new(),
            Self::True => "true".to_owned(),
            Self::False => "false".to_owned(),
            Self::Cases { values, default } => {
                let mut words: Vec<String> = values.iter().map(i64::to_string).collect();
                words.extend(default.then(|| "default".to_owned()));
                format!("case {}", words.join(","))
            }
            Self::Returned => "returned".to_owned(),
            Self::Unwound => "unwound".to_owned(),
            Self::Computed => "computed".to_owned(),
        }
    }

    /// In a sign, as chains have it; empty if it goes without saying.
    pub fn sign(&self) -> String {
        match self {
            Self::Always | Self::Returned => String::new(),
            Self::True => "T".to_owned(),
            Self::False => "F".to_owned(),
            Self::Cases { default: true, .. } => "default".to_owned(),
            Self::Cases { values, .. } => {
                let mut words: Vec<String> =
                    values.iter().take(VALUES).map(i64::to_string).collect();
                words.extend((values.len() > VALUES).then(|| "…".to_owned()));
                format!("={}", words.join(","))
            }
            Self::Unwound => "unwinds".to_owned(),
            Self::Computed => "*".to_owned(),
        }
    }
}

/// A path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// Its number within the function.
    pub id: u64,
    /// How often it was taken.
    pub count: u64,
    /// How it begins.
    pub starts: Start,
    /// How it ends.
    pub ends: End,
    /// Its blocks.
    pub blocks: Vec<u32>,
}

/// How a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// With the function.
    Entry,
    /// At the head of a loop.
    Loop,
    /// Where the path before was cut.
    Cut,
    /// Where the path before was cut, within its first block.
    CutWithin,
    /// Behind a call that can return twice, within its first block.
    ReturnTwice,
}

/// How a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With the function.
    Exit,
    /// With the edge back to a loop's head, which is this block.
    Loop(u32),
    /// With an edge that was cut, to this block.
    Cut(u32),
    /// Within its last block.
    CutWithin,
    /// Before a call that does not return.
    Call,
}

impl Path {
    /// How many blocks its executions executed.
    pub fn weight(&self) -> u64 {
        let within = matches!(self.starts, Start::CutWithin | Start::ReturnTwice);
        let blocks = self.blocks.len() as u64 - u64::from(within);
        self.count.saturating_mul(blocks)
    }
}

impl Function {
    /// How often its paths were taken, together.
    pub fn executions(&self) -> u64 {
        self.paths.iter().fold(0, |sum, path| sum.saturating_add(path.count))
    }

    /// How many blocks were executed.
    pub fn weight(&self) -> u64 {
        self.paths.iter().fold(0, |sum, path| sum.saturating_add(path.weight()))
    }

    /// Whether it was entered.
    pub fn ran(&self) -> bool {
        self.ran == Ran::Itself
    }

    /// When the edge between two blocks is taken.
    pub fn decision(&self, from: u32, to: u32) -> &Decision {
        let place = self.edges.binary_search_by_key(&(from, to), |edge| (edge.from, edge.to));
        place.map_or(&Decision::Always, |place| &self.edges[place].decision)
    }
}

/// What paths are sorted and weighed by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Measure {
    /// The blocks they executed.
    Blocks,
    /// How often they were taken.
    Executions,
}

impl Measure {
    /// Of one path.
    pub fn of(self, path: &Path) -> u64 {
        match self {
            Self::Blocks => path.weight(),
            Self::Executions => path.count,
        }
    }
}

/// The sums that shares are shares of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Totals {
    /// How often paths were taken.
    pub executions: u64,
    /// How many blocks were executed.
    pub weight: u64,
}

impl Program {
    /// The sums over all functions.
    pub fn totals(&self) -> Totals {
        let sum = |of: fn(&Function) -> u64| {
            self.functions.iter().fold(0u64, |sum, function| sum.saturating_add(of(function)))
        };
        Totals { executions: sum(Function::executions), weight: sum(Function::weight) }
    }

    /// The functions and paths that are wanted, the hottest path first; equal
    /// ones in the order of the program.
    pub fn hottest(
        &self,
        measure: Measure,
        wanted: impl Fn(&Function) -> bool,
    ) -> Vec<(usize, usize)> {
        let mut found = Vec::new();
        for (number, function) in self.functions.iter().enumerate().filter(|(_, f)| wanted(f)) {
            found.extend((0..function.paths.len()).map(|path| (number, path)));
        }
        found.sort_by_key(|&(function, path)| {
            std::cmp::Reverse(measure.of(&self.functions[function].paths[path]))
        });
        found
    }

    /// A line of a source that was found.
    pub fn source(&self, line: Line) -> Option<&str> {
        let lines = self.files[line.file as usize].lines.as_ref()?;
        lines.get(line.line.checked_sub(1)? as usize).map(String::as_str)
    }

    /// A line as documents write it.
    fn written(&self, line: Line) -> String {
        format!("{}:{}", self.files[line.file as usize].path, line.line)
    }

    /// Whether a line is of the user's own code.
    fn is_own(&self, line: Line) -> bool {
        self.files[line.file as usize].own
    }
}
