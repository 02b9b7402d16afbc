//! Two profiles, compared: as text here, as JSON in [`json`].

pub mod json;

use crate::name::{Names, shortened};
use crate::terminal::{Detail, Style, counted, number, shorten, table};
use backtrail_foreign::text::shown;

/// What changed from one profile to another.
#[derive(Debug, Clone, Default)]
pub struct Comparison {
    /// The two, by name and build.
    pub titles: [String; 2],
    /// The programs' file names.
    pub programs: [String; 2],
    /// Their build ids, empty where there is none.
    pub build_ids: [String; 2],
    /// Why counts are missing in either, if some are.
    pub incomplete: [Vec<String>; 2],
    /// Activations that did not reach the end of a path.
    pub unfinished: [u64; 2],
    /// How often paths were taken.
    pub executions: [u64; 2],
    /// How many blocks were executed.
    pub weight: [u64; 2],
    /// Whether they are of different builds, so that paths were matched by
    /// their lines.
    pub by_lines: bool,
    /// The functions that changed, the most first.
    pub functions: Vec<Change>,
    /// Functions that ran in either and did not change.
    pub unchanged: usize,
    /// What is judged, if anything is.
    pub limit: Option<Limit>,
}

/// What `--fail-over` judges.
#[derive(Debug, Clone, Copy)]
pub struct Limit {
    /// More than this many percent is a finding.
    pub percent: f64,
    /// Functions with a smaller share of the executed blocks in both profiles
    /// are not judged, in percent.
    pub least_share: f64,
    /// How many changed functions were too small.
    pub too_small: usize,
    /// How many are findings.
    pub findings: usize,
}

/// A function that changed.
#[derive(Debug, Clone, Default)]
pub struct Change {
    /// Its unit and name, as all documents write it.
    pub id: String,
    /// Its name for the linker.
    pub linkage_name: String,
    /// Its name.
    pub name: String,
    /// How often its paths were taken.
    pub executions: [u64; 2],
    /// How many blocks were executed in it.
    pub weight: [u64; 2],
    /// The change of the executions, in percent of the first; none if there
    /// were none.
    pub executions_percent: Option<f64>,
    /// The part of its executions that takes other paths, in percent.
    pub moved_percent: f64,
    /// Whether it is a finding.
    pub finding: bool,
    /// Whether its counts are lower bounds in either profile.
    pub inexact: bool,
    /// The paths that changed, the most first.
    pub paths: Vec<PathChange>,
}

/// A path that changed.
#[derive(Debug, Clone, Default)]
pub struct PathChange {
    /// Its lines and decisions, in short; as text, needed for the first
    /// [`PATHS`] only.
    pub chain: String,
    /// Its lines as `file:line`, and the user's own; needed for JSON only.
    pub lines: [Vec<String>; 2],
    /// Its number in each function that has it.
    pub ids: [Option<u64>; 2],
    /// How often it was taken.
    pub counts: [u64; 2],
    /// Its share of the function's executions, in percent.
    pub shares: [f64; 2],
}

/// Paths that are shown of a function.
pub const PATHS: usize = 3;

/// The whole text; at most `top` functions.
pub fn render(comparison: &Comparison, top: usize, detail: Detail, style: Style) -> String {
    let mut out = String::new();
    let mut line = |line: &str| {
        out.push_str(line.trim_end());
        out.push('\n');
    };
    for (letter, side) in [("A", 0), ("B", 1)] {
        line(&format!(
            "{letter}  {}  {}, {}, {} unfinished",
            style.bold(&shown(&comparison.titles[side])),
            counted(comparison.weight[side], "block"),
            counted(comparison.executions[side], "path execution"),
            number(comparison.unfinished[side]),
        ));
        for why in &comparison.incomplete[side] {
            line(&format!("   {}", style.warning(&format!("incomplete: {}", shown(why)))));
        }
    }
    if comparison.by_lines {
        line("   different builds: paths are matched by their lines, counted from the function's");
    }
    line("");
    let room = |taken, least| match detail {
        Detail::Short => style.room(taken, least),
        Detail::Full => usize::MAX,
    };
    if comparison.functions.is_empty() {
        line(&format!("No function changed; {} ran.", number(comparison.unchanged as u64)));
    } else {
        line(&style.bold("Functions that changed, the most moved blocks first"));
    }
    let changed = || comparison.functions.iter().take(top);
    let names = changed().map(|change| (&*change.linkage_name, &*change.name));
    let names = Names::new(names, detail);
    for change in changed() {
        let mark = if change.finding { style.warning("!") } else { " ".to_owned() };
        let name = shown(&names.of(&change.linkage_name, &change.name));
        let inexact = if change.inexact { ", inexact" } else { "" };
        line(&format!(
            "{mark} {}  {} → {} ({}), {:.1} % on other paths{inexact}",
            style.bold(&shortened(&name, room(60, 24))),
            number(change.executions[0]),
            counted(change.executions[1], "execution"),
            signed(change.executions_percent, change.executions),
            change.moved_percent,
        ));
        let mut rows = Vec::new();
        for path in change.paths.iter().take(PATHS) {
            let kind = match path.counts {
                [0, _] => "new",
                [_, 0] => "gone",
                _ => "",
            };
            rows.push(vec![
                String::new(),
                kind.to_owned(),
                number(path.counts[0]),
                "→".to_owned(),
                number(path.counts[1]),
                format!("{:.1} % → {:.1} %", path.shares[0], path.shares[1]),
                shorten(&shown(&path.chain), room(50, 30)),
            ]);
        }
        table(&rows, &[2, 4]).lines().for_each(&mut line);
        if change.paths.len() > PATHS {
            let more = counted((change.paths.len() - PATHS) as u64, "more path");
            line(&style.dim(&format!("      {more} (--json)")));
        }
    }
    if comparison.functions.len() > top {
        let more = counted((comparison.functions.len() - top) as u64, "more function");
        line(&style.dim(&format!("{more} (--top N)")));
    }
    if !comparison.functions.is_empty() {
        line(&style.dim(&format!(
            "{} ran and did not change",
            counted(comparison.unchanged as u64, "function")
        )));
    }
    if let Some(limit) = comparison.limit {
        line("");
        let changed = comparison.functions.len() as u64;
        line(&format!(
            "{} of {} over {} %{}",
            number(limit.findings as u64),
            counted(changed, "changed function"),
            limit.percent,
            if limit.too_small == 0 {
                String::new()
            } else {
                let less = limit.least_share;
                let verb = if limit.too_small == 1 { "is" } else { "are" };
                let small = number(limit.too_small as u64);
                format!("; {small} with less than {less} % of all blocks {verb} not judged")
            },
        ));
    }
    out
}

fn signed(percent: Option<f64>, executions: [u64; 2]) -> String {
    match percent {
        Some(percent) if executions[0] != executions[1] => format!("{percent:+.1} %"),
        Some(_) => "same".to_owned(),
        None if executions[1] > 0 => "new".to_owned(),
        None => "same".to_owned(),
    }
}
