//! The document of `backtrail paths --compare A B --json`, schema
//! `backtrail.compare/1`.

use serde::Serialize;

use super::{Change, Comparison, Limit, PathChange};

/// The document.
#[derive(Debug, Serialize)]
pub struct Document<'a> {
    schema: &'static str,
    before: SideRow<'a>,
    after: SideRow<'a>,
    /// What tells which path of one profile is which of the other.
    matched_by: &'static str,
    functions: Vec<FunctionRow<'a>>,
    unchanged: usize,
    limit: Option<LimitRow>,
}

/// Something of the first profile and the same of the second.
#[derive(Debug, Serialize)]
struct Pair<T> {
    before: T,
    after: T,
}

impl<T> From<[T; 2]> for Pair<T> {
    fn from([before, after]: [T; 2]) -> Self {
        Self { before, after }
    }
}

#[derive(Debug, Serialize)]
struct SideRow<'a> {
    program: &'a str,
    build_id: &'a str,
    incomplete: Option<String>,
    executions: u64,
    blocks: u64,
    unfinished: u64,
}

#[derive(Debug, Serialize)]
struct FunctionRow<'a> {
    id: &'a str,
    name: &'a str,
    demangled: &'a str,
    executions: Pair<u64>,
    blocks: Pair<u64>,
    /// None where nothing was executed before.
    executions_percent: Option<f64>,
    moved_percent: f64,
    edges_exact: bool,
    finding: bool,
    paths: Vec<PathRow<'a>>,
}

#[derive(Debug, Serialize)]
struct PathRow<'a> {
    /// None where the function has no such path.
    ids: Pair<Option<String>>,
    counts: Pair<u64>,
    shares_percent: Pair<f64>,
    lines: &'a [String],
    own_lines: &'a [String],
}

#[derive(Debug, Serialize)]
struct LimitRow {
    percent: f64,
    least_share_percent: f64,
    not_judged: usize,
    findings: usize,
}

impl<'a> Document<'a> {
    /// All of a comparison.
    pub fn new(comparison: &'a Comparison) -> Self {
        let [before, after] = [0, 1].map(|side| side_row(comparison, side));
        Self {
            schema: "backtrail.compare/1",
            before,
            after,
            matched_by: if comparison.by_lines { "lines" } else { "id" },
            functions: comparison.functions.iter().map(function_row).collect(),
            unchanged: comparison.unchanged,
            limit: comparison.limit.map(limit_row),
        }
    }
}

fn side_row(comparison: &Comparison, side: usize) -> SideRow<'_> {
    let incomplete = &comparison.incomplete[side];
    let build_id = &comparison.build_ids[side];
    SideRow {
        program: &comparison.programs[side],
        build_id: if build_id.is_empty() { "none" } else { build_id },
        incomplete: (!incomplete.is_empty()).then(|| incomplete.join("; ")),
        executions: comparison.executions[side],
        blocks: comparison.weight[side],
        unfinished: comparison.unfinished[side],
    }
}

fn function_row(change: &Change) -> FunctionRow<'_> {
    FunctionRow {
        id: &change.id,
        name: &change.linkage_name,
        demangled: &change.name,
        executions: change.executions.into(),
        blocks: change.weight.into(),
        executions_percent: change.executions_percent,
        moved_percent: change.moved_percent,
        edges_exact: !change.inexact,
        finding: change.finding,
        paths: change.paths.iter().map(path_row).collect(),
    }
}

fn path_row(path: &PathChange) -> PathRow<'_> {
    PathRow {
        ids: path.ids.map(|id| id.map(|id| id.to_string())).into(),
        counts: path.counts.into(),
        shares_percent: path.shares.into(),
        lines: &path.lines[0],
        own_lines: &path.lines[1],
    }
}

fn limit_row(limit: Limit) -> LimitRow {
    LimitRow {
        percent: limit.percent,
        least_share_percent: limit.least_share,
        not_judged: limit.too_small,
        findings: limit.findings,
    }
}
