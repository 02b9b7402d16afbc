//! `backtrail paths --compare`: what changed, and whether it is too much.

use std::io::Write as _;
use std::path::Path;

use backtrail_profile::compare::{FunctionChange, PathChange, compare};
use backtrail_profile::derived::counted_blocks;
use backtrail_profile::merge::title;
use backtrail_profile::model::{self, Profile};
use backtrail_report::comparison::{self, Change, Comparison, Limit, PATHS};
use backtrail_report::paths::{Program, chain};

use super::view::{Viewer, file};
use super::{TOP, load};
use crate::args;
use crate::exit::FINDING;
use crate::json::write_document;
use crate::named::Named;
use crate::stdout;
use crate::style::{Detail, demangle, detail, terminal};

/// Compares two files.
pub fn run(args: &args::Paths, before: &Path, after: &Path) -> anyhow::Result<u8> {
    let profiles = [load(before)?, load(after)?];
    let mut comparison = compare(&profiles[0], &profiles[1]);
    if let Some(glob) = &args.function {
        let named = Named::by(glob);
        let [one, other] = &profiles;
        let whole = match one.program == other.program {
            true => one.program.clone(),
            false => format!("{} and {}", one.program, other.program),
        };
        let functions = profiles.iter().flat_map(|profile| &profile.functions);
        named.check(whole, functions.map(|it| &*it.name))?;
        comparison.functions.retain(|change| named.has(name(&profiles, change)));
    }
    let sums = [0, 1].map(|side: usize| Sums::of(&profiles[side]));
    let is_small = |change: &FunctionChange| {
        let share =
            |side: usize| 100.0 * change.blocks[side] as f64 / sums[side].blocks.max(1) as f64;
        share(0) < args.least_share && share(1) < args.least_share
    };
    let is_over = |change: &FunctionChange| {
        args.fail_over.is_some_and(|percent| change.is_over(percent)) && !is_small(change)
    };
    let findings = comparison.functions.iter().filter(|change| is_over(change)).count();
    let limit = args.fail_over.map(|percent| Limit {
        percent,
        least_share: args.least_share,
        too_small: comparison.functions.iter().filter(|change| is_small(change)).count(),
        findings,
    });
    let shown = Comparison {
        titles: [title(&profiles[0]), title(&profiles[1])],
        programs: [0, 1].map(|side: usize| profiles[side].program.clone()),
        build_ids: [0, 1].map(|side: usize| profiles[side].build_id.clone()),
        incomplete: [0, 1].map(|side: usize| profiles[side].incomplete.clone()),
        unfinished: [0, 1].map(|side: usize| sums[side].unfinished),
        executions: [0, 1].map(|side: usize| sums[side].executions),
        weight: [0, 1].map(|side: usize| sums[side].blocks),
        by_lines: comparison.by_lines,
        functions: comparison
            .functions
            .iter()
            .map(|change| Change {
                finding: is_over(change),
                ..describe(&profiles, change, args.json, detail(args.full))
            })
            .collect(),
        unchanged: comparison.unchanged,
        limit,
    };
    let mut out = stdout::open(stdout::form(args.json));
    if args.json {
        write_document(&mut out, &comparison::json::Document::new(&shown))?;
    } else {
        let text =
            comparison::render(&shown, args.top.unwrap_or(TOP), detail(args.full), terminal());
        out.write_all(text.as_bytes())?;
    }
    out.flush()?;
    Ok(if findings > 0 { FINDING } else { 0 })
}

struct Sums {
    executions: u64,
    blocks: u64,
    unfinished: u64,
}

impl Sums {
    fn of(profile: &Profile) -> Self {
        let paths = || profile.functions.iter().flat_map(|function| &function.paths);
        Self {
            executions: paths().map(|path| path.count).sum(),
            blocks: paths().map(|path| path.count * counted_blocks(path).len() as u64).sum(),
            unfinished: profile.functions.iter().map(|function| function.unfinished).sum(),
        }
    }
}

/// The function in the profile that has it, the second if both do.
fn function<'a>(
    profiles: &'a [Profile; 2],
    change: &FunctionChange,
) -> Option<(&'a Profile, &'a model::Function)> {
    let of = |side: usize| {
        change.functions[side].map(|place| (&profiles[side], &profiles[side].functions[place]))
    };
    of(1).or_else(|| of(0))
}

fn name<'a>(profiles: &'a [Profile; 2], change: &FunctionChange) -> &'a str {
    function(profiles, change).map_or("", |(_, function)| &function.name)
}

/// The change as it is shown, with the lines of all its paths if they are asked
/// for.
fn describe(
    profiles: &[Profile; 2],
    change: &FunctionChange,
    with_lines: bool,
    detail: Detail,
) -> Change {
    let inexact = [0, 1].into_iter().any(|side: usize| {
        let exact = |place: usize| profiles[side].functions[place].edges_exact;
        change.functions[side].is_some_and(|place| !exact(place))
    });
    let share =
        |count: u64, side: usize| 100.0 * count as f64 / change.executions[side].max(1) as f64;
    let shown = [0, 1].map(|side: usize| {
        let profile = &profiles[side];
        let place = change.functions[side]?;
        Some(Viewer::default().function(profile, place))
    });
    let files = [0, 1].map(|side: usize| {
        let files = profiles[side].files.iter().map(|path| file(path)).collect();
        Program { files, ..Program::default() }
    });
    // As the side shows it that has it, the second if both do.
    let seen = |path: &PathChange| {
        let side = usize::from(path.paths[1].is_some());
        let function = shown[side].as_ref()?;
        Some((&files[side], function, &function.paths[path.paths[side]?]))
    };
    let chain = |path: &PathChange| {
        let (files, function, path) = seen(path)?;
        Some(chain::words(files, function, path, detail).join(" "))
    };
    let lines = |path: &PathChange| {
        let (files, function, path) = seen(path)?;
        Some([chain::lines(files, function, path), chain::own_lines(files, function, path)])
    };
    let id = |path: &PathChange, side: usize| {
        Some(profiles[side].functions[change.functions[side]?].paths[path.paths[side]?].id)
    };
    let path = |(number, path): (usize, &PathChange)| comparison::PathChange {
        chain: if number < PATHS { chain(path).unwrap_or_default() } else { String::new() },
        lines: if with_lines { lines(path).unwrap_or_default() } else { Default::default() },
        ids: [id(path, 0), id(path, 1)],
        counts: path.counts,
        shares: [share(path.counts[0], 0), share(path.counts[1], 1)],
    };
    let [before, after] = &shown;
    Change {
        id: after.as_ref().or(before.as_ref()).map_or(String::new(), |shown| shown.id.clone()),
        linkage_name: name(profiles, change).to_owned(),
        name: demangle(name(profiles, change)),
        executions: change.executions,
        weight: change.blocks,
        executions_percent: change.executions_percent(),
        moved_percent: 100.0 * change.moved,
        finding: false,
        inexact,
        paths: change.paths.iter().enumerate().map(path).collect(),
    }
}
