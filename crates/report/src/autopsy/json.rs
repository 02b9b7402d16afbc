//! The document of `backtrail autopsy --json`, schema `backtrail.autopsy/1`.

use serde::Serialize;

use super::{Autopsy, Conclusion, Counted, Frame, FunctionCode, Older, Step, Thread, Way};
use crate::terminal::Detail;

/// The document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    core: &'a str,
    program: &'a str,
    build_id: &'a str,
    command: &'a str,
    signal: Option<&'a str>,
    reason: Option<&'a str>,
    fault_address: Option<String>,
    remarks: &'a [String],
    threads: Vec<ThreadRow<'a>>,
    /// What cannot have run: not known of a program that records nothing, or whose records
    /// contradict the model of it.
    impossible: Option<ImpossibleRow<'a>>,
    /// How much that leaves.
    active: Option<ActiveRow>,
    /// All functions, block by block, if that is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    code: Option<Vec<CodeRow<'a>>>,
}

#[derive(Debug, Serialize)]
struct CodeRow<'a> {
    function: &'a str,
    unit: &'a str,
    possible: Vec<String>,
    impossible: Vec<String>,
    possible_edges: Vec<[String; 2]>,
    impossible_edges: Vec<[String; 2]>,
}

#[derive(Debug, Serialize)]
pub(super) struct ImpossibleRow<'a> {
    /// As people write them, of which several functions can have one.
    functions: Vec<&'a str>,
    /// Of each of these, in this order.
    linkage_names: Vec<&'a str>,
    lines: Vec<String>,
}

#[derive(Debug, Serialize)]
pub(super) struct ActiveRow {
    functions: CountedRow,
    nodes: CountedRow,
    edges: CountedRow,
    /// Lines with code, and those of them that can have run.
    lines: LinesRow,
}

#[derive(Debug, Serialize)]
struct CountedRow {
    total: u64,
    stack_only: u64,
    now: u64,
}

#[derive(Debug, Serialize)]
struct LinesRow {
    total: u64,
    now: u64,
}

#[derive(Debug, Serialize)]
struct ThreadRow<'a> {
    id: u32,
    crashed: bool,
    frames: Vec<FrameRow<'a>>,
    /// Frames that are left out.
    left_out: Option<GapRow>,
    /// Why there are no more, unless the last is the outermost.
    lost: Option<&'a str>,
}

#[derive(Debug, Serialize)]
struct GapRow {
    behind: u64,
    frames: u64,
    cycle: Option<u64>,
}

#[derive(Debug, Serialize)]
struct FrameRow<'a> {
    number: u64,
    address: String,
    function: Option<&'a str>,
    demangled: Option<&'a str>,
    file: Option<&'a str>,
    line: Option<u32>,
    module: Option<&'a str>,
    found_by: &'static str,
    uncertain: bool,
    inlined: bool,
    signal: bool,
    remark: Option<&'a str>,
    /// What the function recorded.
    scheme: &'a str,
    path: Vec<StepRow<'a>>,
    /// The user's own lines of it.
    own_path: Vec<String>,
    older: Vec<OlderRow<'a>>,
    truncated: bool,
    note: Option<&'a str>,
    never: Vec<String>,
}

#[derive(Debug, Serialize)]
struct StepRow<'a> {
    line: Option<String>,
    block: &'a str,
    known: &'static str,
    /// Whether the condition at the end of the block held.
    decision: Option<bool>,
}

#[derive(Debug, Serialize)]
struct OlderRow<'a> {
    lines: Vec<String>,
    own_lines: Vec<String>,
    blocks: Vec<&'a str>,
    times: u64,
}

impl<'a> Document<'a> {
    /// All there is.
    pub fn new(autopsy: &'a Autopsy) -> Self {
        Self {
            schema: "backtrail.autopsy/1",
            core: &autopsy.core,
            program: &autopsy.program,
            build_id: if autopsy.build_id.is_empty() { "none" } else { &autopsy.build_id },
            command: &autopsy.command,
            signal: autopsy.signal.as_deref(),
            reason: autopsy.reason.as_deref(),
            fault_address: autopsy.fault_address.map(|address| format!("{address:#x}")),
            remarks: &autopsy.remarks,
            threads: autopsy.threads.iter().map(thread_row).collect(),
            impossible: autopsy.conclusion.as_ref().map(impossible_row),
            active: autopsy.conclusion.as_ref().map(active_row),
            code: None,
        }
    }

    /// With all functions, block by block.
    pub fn with_blocks(mut self, autopsy: &'a Autopsy) -> Self {
        let found = autopsy.conclusion.as_ref();
        self.code = found.map(|found| found.code.iter().map(code_row).collect());
        self
    }
}

fn code_row(code: &FunctionCode) -> CodeRow<'_> {
    let blocks = |wanted: bool| {
        let found = code.blocks.iter().enumerate().filter(|(_, it)| **it == wanted);
        found.map(|(block, _)| format!("b{block}")).collect()
    };
    let edges = |wanted: bool| {
        let found = code.edges.iter().filter(|it| it.2 == wanted);
        found.map(|(from, to, _)| [format!("b{from}"), format!("b{to}")]).collect()
    };
    CodeRow {
        function: &code.function,
        unit: &code.unit,
        possible: blocks(true),
        impossible: blocks(false),
        possible_edges: edges(true),
        impossible_edges: edges(false),
    }
}

pub(super) fn impossible_row(found: &Conclusion) -> ImpossibleRow<'_> {
    let lines = found.impossible_lines.iter().map(|(file, line)| format!("{file}:{line}"));
    let functions = found.impossible_functions();
    ImpossibleRow {
        functions: functions.iter().map(|it| &*it.demangled).collect(),
        linkage_names: functions.iter().map(|it| &*it.function).collect(),
        lines: lines.collect(),
    }
}

pub(super) fn active_row(found: &Conclusion) -> ActiveRow {
    let row = |it: Counted| CountedRow { total: it.total, stack_only: it.stack_only, now: it.now };
    ActiveRow {
        functions: row(found.functions),
        nodes: row(found.nodes),
        edges: row(found.edges),
        lines: LinesRow {
            total: found.all_lines,
            now: found.all_lines.saturating_sub(found.impossible_lines.len() as u64),
        },
    }
}

fn thread_row(thread: &Thread) -> ThreadRow<'_> {
    ThreadRow {
        id: thread.id,
        crashed: thread.crashed,
        frames: thread.frames.iter().map(frame_row).collect(),
        left_out: thread.gap.map(|gap| GapRow {
            behind: gap.behind as u64,
            frames: gap.count,
            cycle: gap.cycle,
        }),
        lost: thread.lost.as_deref(),
    }
}

fn frame_row(frame: &Frame) -> FrameRow<'_> {
    FrameRow {
        number: frame.number,
        address: format!("{:#x}", frame.address),
        function: frame.function.as_deref(),
        demangled: frame.demangled.as_deref(),
        file: frame.file.as_deref(),
        line: frame.line,
        module: frame.module.as_deref(),
        found_by: frame.found_by.word(),
        uncertain: frame.uncertain,
        inlined: frame.inlined,
        signal: frame.signal,
        remark: frame.remark.as_deref(),
        scheme: frame.way.as_ref().map_or("none", |way| &way.scheme),
        path: frame.way.as_ref().map_or_else(Vec::new, path_rows),
        own_path: frame.way.as_ref().map_or_else(Vec::new, |way| own_lines(&way.path)),
        older: frame.way.iter().flat_map(|way| &way.older).map(older_row).collect(),
        truncated: frame.way.as_ref().is_some_and(|way| way.truncated),
        note: frame.way.as_ref().and_then(|way| way.note.as_deref()),
        never: frame.never.iter().map(|(file, line)| format!("{file}:{line}")).collect(),
    }
}

fn lines(step: &Step) -> Vec<String> {
    let mut lines: Vec<String> =
        step.lines.iter().map(|it| format!("{}:{}", it.file, it.line)).collect();
    lines.dedup();
    lines
}

/// The user's own lines of a path; library code is told by those it was inlined into.
fn own_lines(steps: &[Step]) -> Vec<String> {
    let own = steps.iter().flat_map(|step| &step.lines).filter(|line| line.own);
    let told = own.map(|line| line.told(Detail::Short));
    let mut lines: Vec<String> = told.map(|(file, line)| format!("{file}:{line}")).collect();
    lines.dedup();
    lines
}

/// A row for each line; a block without lines has one.
fn path_rows(way: &Way) -> Vec<StepRow<'_>> {
    let mut rows = Vec::new();
    for step in &way.path {
        let mut lines: Vec<Option<String>> = lines(step).into_iter().map(Some).collect();
        if lines.is_empty() {
            lines.push(None);
        }
        let last = lines.len() - 1;
        rows.extend(lines.into_iter().enumerate().map(|(place, line)| StepRow {
            line,
            block: &step.block,
            known: way.known,
            decision: step.decision.filter(|_| place == last),
        }));
    }
    rows
}

fn older_row(older: &Older) -> OlderRow<'_> {
    OlderRow {
        lines: older.steps.iter().flat_map(lines).collect(),
        own_lines: own_lines(&older.steps),
        blocks: older.steps.iter().map(|step| &*step.block).collect(),
        times: older.times,
    }
}
