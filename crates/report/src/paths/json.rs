//! The document of `backtrail paths --json`, schema `backtrail.paths/1`.

use serde::Serialize;

use super::chain::{lines, own_lines};
use super::{End, Function, Path, Program, Ran, Start};
use crate::merged::Merged;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    program: &'a str,
    build_id: &'a str,
    incomplete: Option<String>,
    processes: u64,
    /// Which signals ended runs.
    ended_by: Vec<SignalRow<'a>>,
    /// How far runs were compared.
    merged: &'a [Merged],
    functions: Vec<FunctionRow<'a>>,
}

#[derive(Debug, Serialize)]
struct SignalRow<'a> {
    signal: &'a str,
    runs: u64,
}

#[derive(Debug, Serialize)]
struct FunctionRow<'a> {
    id: &'a str,
    name: &'a str,
    demangled: &'a str,
    unit: &'a str,
    file: Option<&'a str>,
    line: Option<u32>,
    acyclic_paths: String,
    acyclic_paths_exact: bool,
    instrumented: &'a str,
    entries: u64,
    inherited: u64,
    unfinished: u64,
    activations_exact: bool,
    edges_exact: bool,
    ran: &'static str,
    paths: Vec<PathRow>,
    /// What is known of unfinished paths, which is nothing if they were counted.
    partial: Vec<PartialRow>,
    ran_uncounted: Vec<String>,
    unknown: Vec<String>,
    edges: Vec<EdgeRow>,
}

#[derive(Debug, Serialize)]
struct PathRow {
    id: String,
    count: u64,
    starts: &'static str,
    /// Whether the first block was executed, in part, by the path before.
    within: bool,
    ends: &'static str,
    /// The block that a loop's or a cut edge leads to.
    next: Option<String>,
    blocks: Vec<String>,
    /// The decision behind each block, empty where there is none.
    decisions: Vec<String>,
    lines: Vec<String>,
    /// Those of the user's own code, library code by the lines it was inlined into.
    own_lines: Vec<String>,
}

#[derive(Debug, Serialize)]
struct PartialRow {
    starts: &'static str,
    blocks: Vec<String>,
    count: u64,
}

#[derive(Debug, Serialize)]
struct EdgeRow {
    from: String,
    to: String,
    decision: String,
    count: u64,
    ran: Option<bool>,
}

impl<'a> Document<'a> {
    /// The functions that are wanted.
    pub fn new(program: &'a Program, wanted: impl Fn(&Function) -> bool) -> Self {
        let incomplete = (!program.incomplete.is_empty()).then(|| program.incomplete.join("; "));
        Self {
            schema: "backtrail.paths/1",
            program: &program.program,
            build_id: if program.build_id.is_empty() { "none" } else { &program.build_id },
            incomplete,
            processes: program.processes,
            ended_by: program
                .ended_by
                .iter()
                .map(|(signal, runs)| SignalRow { signal, runs: *runs })
                .collect(),
            merged: &program.merged,
            functions: program
                .functions
                .iter()
                .filter(|function| wanted(function))
                .map(|function| row(program, function))
                .collect(),
        }
    }
}

fn row<'a>(program: &'a Program, function: &'a Function) -> FunctionRow<'a> {
    let file = function.place.map(|place| program.files[place.file as usize].path.as_str());
    FunctionRow {
        id: &function.id,
        name: &function.name,
        demangled: &function.demangled,
        unit: &function.unit,
        file,
        line: function.place.map(|place| place.line),
        acyclic_paths: function.acyclic_paths.to_string(),
        acyclic_paths_exact: function.acyclic_paths_exact,
        instrumented: &function.instrumented,
        entries: function.entries,
        inherited: function.inherited,
        unfinished: function.unfinished,
        activations_exact: function.activations_exact,
        edges_exact: function.edges_exact,
        ran: match function.ran {
            Ran::No => "no",
            Ran::Unknown => "unknown",
            Ran::Inlined => "inlined",
            Ran::Itself => "yes",
        },
        paths: function.paths.iter().map(|path| path_row(program, function, path)).collect(),
        partial: function
            .partial
            .iter()
            .map(|path| PartialRow {
                starts: start_word(path.starts),
                blocks: names(&path.blocks),
                count: path.count,
            })
            .collect(),
        ran_uncounted: names(&function.ran_uncounted),
        unknown: names(&function.unknown),
        edges: function
            .edges
            .iter()
            .map(|edge| EdgeRow {
                from: format!("b{}", edge.from),
                to: format!("b{}", edge.to),
                decision: edge.decision.word(),
                count: edge.count,
                ran: edge.ran,
            })
            .collect(),
    }
}

fn names(blocks: &[u32]) -> Vec<String> {
    blocks.iter().map(|block| format!("b{block}")).collect()
}

fn start_word(starts: Start) -> &'static str {
    match starts {
        Start::Entry => "entry",
        Start::Loop => "loop",
        Start::Cut | Start::CutWithin => "cut",
        Start::ReturnTwice => "return_twice",
    }
}

fn path_row(program: &Program, function: &Function, path: &Path) -> PathRow {
    let next = match path.ends {
        End::Loop(to) | End::Cut(to) => Some(to),
        End::Exit | End::CutWithin | End::Call => None,
    };
    let followers = path.blocks[1..].iter().copied().map(Some).chain([next]);
    let decisions = path
        .blocks
        .iter()
        .zip(followers)
        .map(|(&from, to)| to.map_or(String::new(), |to| function.decision(from, to).word()));
    PathRow {
        id: path.id.to_string(),
        count: path.count,
        starts: start_word(path.starts),
        within: matches!(path.starts, Start::CutWithin | Start::ReturnTwice),
        ends: match path.ends {
            End::Exit => "exit",
            End::Loop(_) => "loop",
            End::Cut(_) | End::CutWithin => "cut",
            End::Call => "call",
        },
        next: next.map(|block| format!("b{block}")),
        blocks: names(&path.blocks),
        decisions: decisions.collect(),
        lines: lines(program, function, path),
        own_lines: own_lines(program, function, path),
    }
}
