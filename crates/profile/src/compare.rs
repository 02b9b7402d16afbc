//! What changed from one profile to another.
//!
//! Functions of one build are matched by their place, and paths by their number.
//! Between different builds, functions are matched by name and the name of
//! their unit's file, and paths by what a reader sees of them: the lines,
//! counted from the function's own where they are in its file, the decisions,
//! and how the path starts and ends. Paths that look alike are added up.
//!
//! # Two numbers for a function
//! - The change of its executions, in percent of those before: all its paths,
//!   so that a loop that goes round more often shows.
//! - The part that moved: half the sum of the differences between the paths'
//!   shares, which is the least part of the executions that has to take another
//!   path to get from one distribution to the other. 0 if the shares are equal,
//!   1 if no path is taken in both.
//!
//! A function is past a limit if either is.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use crate::derived::counted_blocks;
use crate::model::{End, Function, Path, Profile};

/// What changed from one profile to another.
#[derive(Debug, Clone, PartialEq)]
pub struct Comparison {
    /// Whether paths were matched by their lines: the builds differ.
    pub by_lines: bool,
    /// The functions that changed, that with the most moved blocks first.
    pub functions: Vec<FunctionChange>,
    /// How many functions ran in either and did not change.
    pub unchanged: usize,
}

/// A function that changed.
#[derive(Debug, Clone, PartialEq)]
pub struct FunctionChange {
    /// Its place in each profile.
    pub functions: [Option<usize>; 2],
    /// How often its paths were taken.
    pub executions: [u64; 2],
    /// How many blocks they executed.
    pub blocks: [u64; 2],
    /// The part of its executions that moved to other paths, from 0 to 1.
    pub moved: f64,
    /// The paths that changed, that with the most moved executions first.
    pub paths: Vec<PathChange>,
}

/// A path that changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathChange {
    /// Its place in each function's list; one of those that look alike.
    pub paths: [Option<usize>; 2],
    /// How often it was taken.
    pub counts: [u64; 2],
}

impl FunctionChange {
    /// The change of its executions, in percent of those before; `None` if
    /// there were none before.
    pub fn executions_percent(&self) -> Option<f64> {
        let [before, after] = self.executions.map(|count| count as f64);
        (self.executions[0] > 0).then(|| 100.0 * (after - before) / before)
    }

    /// Whether executions or paths changed by more than `percent`.
    pub fn is_over(&self, percent: f64) -> bool {
        let executions = match self.executions_percent() {
            Some(change) => change.abs() > percent,
            None => self.executions[1] > 0,
        };
        executions || 100.0 * self.moved > percent
    }
}

/// Compares two profiles.
pub fn compare(before: &Profile, after: &Profile) -> Comparison {
    let by_lines = before.layout != after.layout;
    let pairs = if by_lines {
        match_by_name(before, after)
    } else {
        (0..before.functions.len()).map(|place| [Some(place), Some(place)]).collect()
    };
    let mut functions = Vec::new();
    let mut unchanged = 0;
    for pair in pairs {
        let [a, b] = [(before, pair[0]), (after, pair[1])].map(|(profile, place)| {
            place.and_then(|place| Some((profile, profile.functions.get(place)?)))
        });
        let change = compare_function(pair, [a, b], by_lines);
        match change {
            change if change.executions == [0, 0] => {}
            change if change.paths.is_empty() => unchanged += 1,
            change => functions.push(change),
        }
    }
    functions.sort_by_key(|change| {
        let size = change.blocks[0].abs_diff(change.blocks[1]);
        let moved = (change.moved * change.blocks[0].max(change.blocks[1]) as f64) as u64;
        std::cmp::Reverse(size.max(moved))
    });
    Comparison { by_lines, functions, unchanged }
}

fn file_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

/// Functions of the same name in units of the same file name, in order.
fn match_by_name(before: &Profile, after: &Profile) -> Vec<[Option<usize>; 2]> {
    let mut sides: BTreeMap<(&str, &str), [Vec<usize>; 2]> = BTreeMap::new();
    for (side, profile) in [before, after].into_iter().enumerate() {
        for (place, function) in profile.functions.iter().enumerate() {
            let key = (file_name(&function.unit), function.name.as_str());
            sides.entry(key).or_default()[side].push(place);
        }
    }
    let mut pairs = Vec::new();
    for [a, b] in sides.values() {
        for number in 0..a.len().max(b.len()) {
            pairs.push([a.get(number).copied(), b.get(number).copied()]);
        }
    }
    pairs
}

/// What paths are matched by.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Key {
    Number(u64),
    Looks(String),
}

fn compare_function(
    functions: [Option<usize>; 2],
    sides: [Option<(&Profile, &Function)>; 2],
    by_lines: bool,
) -> FunctionChange {
    let mut keys: BTreeMap<Key, PathChange> = BTreeMap::new();
    let (mut executions, mut blocks) = ([0; 2], [0; 2]);
    for (side, found) in sides.into_iter().enumerate() {
        let Some((profile, function)) = found else { continue };
        for (place, path) in function.paths.iter().enumerate() {
            let key = if by_lines {
                Key::Looks(looks(profile, function, path))
            } else {
                Key::Number(path.id)
            };
            let none = PathChange { paths: [None, None], counts: [0, 0] };
            let change = keys.entry(key).or_insert(none);
            change.paths[side].get_or_insert(place);
            change.counts[side] += path.count;
            executions[side] += path.count;
            blocks[side] += path.count * counted_blocks(path).len() as u64;
        }
    }
    let share = |count: u64, side: usize| count as f64 / executions[side].max(1) as f64;
    let difference =
        |change: &PathChange| (share(change.counts[0], 0) - share(change.counts[1], 1)).abs();
    // Sharing nothing is all, even if there is nothing on one side.
    let moved = if executions.contains(&0) {
        f64::from(u8::from(executions != [0, 0]))
    } else {
        (keys.values().map(difference).sum::<f64>() / 2.0).min(1.0)
    };
    let mut paths: Vec<PathChange> =
        keys.into_values().filter(|change| change.counts[0] != change.counts[1]).collect();
    paths.sort_by_key(|change| std::cmp::Reverse(change.counts[0].abs_diff(change.counts[1])));
    FunctionChange { functions, executions, blocks, moved, paths }
}

/// What a reader sees of a path.
fn looks(profile: &Profile, function: &Function, path: &Path) -> String {
    let own = function.location.map(|number| &profile.locations[number as usize]);
    let mut out = format!("{:?}", path.starts);
    let lines = |out: &mut String, block: u32| {
        for &number in &function.blocks[block as usize].locations {
            let place = &profile.locations[number as usize];
            let relative = own.filter(|own| own.file == place.file);
            let line = i64::from(place.line) - relative.map_or(0, |own| i64::from(own.line));
            let file = match relative {
                Some(_) => "",
                None => file_name(&profile.files[place.file as usize]),
            };
            let _ = write!(out, " {file}:{line}");
        }
    };
    for (number, &block) in path.blocks.iter().enumerate() {
        lines(&mut out, block);
        let next = match path.ends {
            _ if number + 1 < path.blocks.len() => Some(path.blocks[number + 1]),
            End::Loop(to) | End::Cut(to) => Some(to),
            End::Exit | End::CutWithin | End::Call => None,
        };
        let edge = next.and_then(|to| crate::derived::edge_number(function, (block, to)));
        if let Some(edge) = edge {
            let _ = write!(out, " {:?}", function.edges[edge].decision);
        }
    }
    match path.ends {
        End::Loop(to) | End::Cut(to) => {
            out.push_str(if matches!(path.ends, End::Loop(_)) { " loop" } else { " cut" });
            lines(&mut out, to);
        }
        End::Exit => out.push_str(" exit"),
        End::CutWithin => out.push_str(" cut within"),
        End::Call => out.push_str(" call"),
    }
    out
}
