//! What led to a crash, as data to be shown.
//!
//! Everything is resolved: names are demangled, sources are found, and what is
//! not known says why. [`text`], [`json`] and [`html`] show it; [`common`] compares
//! several.

pub mod common;
pub mod html;
pub mod json;
pub mod text;

use crate::terminal::Detail;

/// A process that died, or that was stopped.
#[derive(Debug, Clone, Default)]
pub struct Autopsy {
    /// The core, or the process.
    pub core: String,
    /// The executable's file name.
    pub program: String,
    /// Its build id; empty if it is not known.
    pub build_id: String,
    /// Its command line, as far as it is known.
    pub command: String,
    /// The signal that ended it.
    pub signal: Option<String>,
    /// Why that was sent, in words.
    pub reason: Option<String>,
    /// The address of a fault.
    pub fault_address: Option<u64>,
    /// What is missing or uncertain, in sentences.
    pub remarks: Vec<String>,
    /// What more could be known, and how.
    pub hint: Option<String>,
    /// The threads, the one that died first.
    pub threads: Vec<Thread>,
    /// What can have run, if something was recorded.
    pub conclusion: Option<Conclusion>,
}

/// What can have run of a program.
#[derive(Debug, Clone, Default)]
pub struct Conclusion {
    /// Functions.
    pub functions: Counted,
    /// Blocks.
    pub nodes: Counted,
    /// Edges between blocks, and direct calls.
    pub edges: Counted,
    /// How many lines have code.
    pub all_lines: u64,
    /// The lines that cannot have run.
    pub impossible_lines: Vec<(String, u32)>,
    /// Lines with code, by file.
    pub files: Vec<SourceFile>,
    /// All functions, block by block.
    pub code: Vec<FunctionCode>,
}

impl Conclusion {
    /// The functions that cannot have run, by name.
    fn impossible_functions(&self) -> Vec<&FunctionCode> {
        let mut found: Vec<&FunctionCode> = self.code.iter().filter(|it| !it.possible).collect();
        found.sort_by_key(|it| (&it.demangled, &it.function, &it.unit));
        found
    }
}

/// What can have run of a function.
#[derive(Debug, Clone, Default)]
pub struct FunctionCode {
    /// Its linkage name.
    pub function: String,
    /// Its name as people write it.
    pub demangled: String,
    /// Whether it can have run.
    pub possible: bool,
    /// The unit it is of.
    pub unit: String,
    /// Its blocks, and whether each can have run.
    pub blocks: Vec<bool>,
    /// Its edges, and whether each can have been taken.
    pub edges: Vec<(u32, u32, bool)>,
}

/// How many there are, can have run if only stacks are known, and can have run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counted {
    /// All.
    pub total: u64,
    /// By stacks alone.
    pub stack_only: u64,
    /// By all that is known.
    pub now: u64,
}

/// A source file.
#[derive(Debug, Clone, Default)]
pub struct SourceFile {
    /// As it was named when it was compiled.
    pub name: String,
    /// Lines with code.
    pub states: std::collections::BTreeMap<u32, LineState>,
}

/// Whether a line ran.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum LineState {
    /// It cannot have.
    Impossible,
    /// It may have.
    Possible,
    /// It did, at least in part.
    Executed,
}

/// A thread.
#[derive(Debug, Clone, Default)]
pub struct Thread {
    /// The kernel's number for it.
    pub id: u32,
    /// Whether it is the one that died.
    pub crashed: bool,
    /// Its frames, innermost first.
    pub frames: Vec<Frame>,
    /// Frames that are left out.
    pub gap: Option<Gap>,
    /// Why there are no more frames, unless the last is the outermost.
    pub lost: Option<String>,
}

/// A function that was active.
#[derive(Debug, Clone, Default)]
pub struct Frame {
    /// Its number, from 0.
    pub number: u64,
    /// Where its next instruction is.
    pub address: u64,
    /// The linkage name, if it is known.
    pub function: Option<String>,
    /// The name as people write it.
    pub demangled: Option<String>,
    /// The source file, as it was named when it was compiled.
    pub file: Option<String>,
    /// The line.
    pub line: Option<u32>,
    /// What is in that line, if the source was found.
    pub source: Option<String>,
    /// The file whose code it is.
    pub module: Option<String>,
    /// How it was found.
    pub found_by: FoundBy,
    /// Whether it, or a frame that led to it, was not found by tables.
    pub uncertain: bool,
    /// Whether it was inlined into the next.
    pub inlined: bool,
    /// Whether its line is of the user's own code.
    pub own: bool,
    /// Whether it is no function but what a signal handler returns to.
    pub signal: bool,
    /// What is odd about it.
    pub remark: Option<String>,
    /// The way it came, if it recorded that.
    pub way: Option<Way>,
    /// The lines of its function that this activation never came to.
    pub never: Vec<(String, u32)>,
    /// The same, of lines by which those of libraries are told.
    pub never_told: Vec<(String, u32)>,
}

/// The way an activation came.
#[derive(Debug, Clone, Default)]
pub struct Way {
    /// What it records.
    pub scheme: String,
    /// How the path in progress is known: `exact` or `inferred`.
    pub known: &'static str,
    /// The path in progress, up to where it is.
    pub path: Vec<Step>,
    /// Paths before it, the newest first.
    pub older: Vec<Older>,
    /// Whether there were more, of which nothing is left.
    pub truncated: bool,
    /// What is odd about it.
    pub note: Option<String>,
}

/// A path that was taken some times in a row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Older {
    /// Its blocks.
    pub steps: Vec<Step>,
    /// How often.
    pub times: u64,
}

/// A block of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Step {
    /// Its name.
    pub block: String,
    /// Its lines.
    pub lines: Vec<Line>,
    /// Whether the condition at its end held, if there is one.
    pub decision: Option<bool>,
}

/// A line of a path.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Line {
    /// Its file.
    pub file: String,
    /// Its number.
    pub line: u32,
    /// The line that tells more, if it is a library's: the innermost of those it was
    /// inlined into that is the user's own, or at least nearer to it.
    pub told_by: Option<(String, u32)>,
    /// Whether the line that is told is of the user's own code.
    pub own: bool,
}

impl Line {
    /// The line that is told.
    pub fn told(&self, detail: Detail) -> (&str, u32) {
        match &self.told_by {
            Some((file, line)) if detail == Detail::Short => (file, *line),
            _ => (&self.file, self.line),
        }
    }
}

/// How a frame was found.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum FoundBy {
    /// By the registers of the thread, if it is the innermost, or by unwind
    /// tables: exactly.
    #[default]
    Tables,
    /// By the frame pointer.
    FramePointer,
    /// By looking for a return address on the stack.
    Scan,
}

impl FoundBy {
    /// In a word, as documents have it.
    pub fn word(self) -> &'static str {
        match self {
            Self::Tables => "unwind tables",
            Self::FramePointer => "frame pointer",
            Self::Scan => "scan",
        }
    }
}

/// Frames that are left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Gap {
    /// Behind how many of those that are there.
    pub behind: usize,
    /// How many they are.
    pub count: u64,
    /// If they repeat those before them: how many before.
    pub cycle: Option<u64>,
}
