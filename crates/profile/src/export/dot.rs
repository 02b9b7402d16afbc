//! Control-flow graphs with counts, in Graphviz's language.
//!
//! One cluster per function that ran. The darker a block, the larger its part
//! of the executions of the function's hottest block; edges that were not taken
//! are dashed; `?` is what may have been executed though nothing says so; edges that end a
//! path at a loop's head do not rank blocks.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use backtrail_foreign::count::counted;

use super::{Exported, Options, functions};
use crate::known::KnownCounts;
use crate::model::{Decision, End, Function, Profile};

/// Graphs with more blocks than this take Graphviz minutes.
const MANY_BLOCKS: usize = 2_000;

/// The graph.
pub fn write_dot(profile: &Profile, options: &Options) -> Exported {
    let mut out = format!("digraph \"{}\" {{\n", escape(&profile.program));
    out.push_str("  node [shape=box, style=filled, fontname=\"monospace\", fontsize=10];\n");
    out.push_str("  edge [fontname=\"monospace\", fontsize=9];\n");
    let mut blocks = 0;
    let known = functions(profile, options)
        .map(|(place, function)| (function, KnownCounts::of(profile, place)));
    let ran = known.filter(|(_, known)| known.counts.blocks.iter().any(|&it| it > 0));
    for (number, (function, known)) in ran.enumerate() {
        write_function(&mut out, profile, options, number, (function, &known));
        blocks += function.blocks.len();
    }
    out.push_str("}\n");
    let mut remarks = Vec::new();
    if blocks > MANY_BLOCKS {
        remarks
            .push(format!("{blocks} blocks take Graphviz long; choose functions with --function"));
    }
    Exported { bytes: out.into_bytes(), remarks }
}

fn write_function(
    out: &mut String,
    profile: &Profile,
    options: &Options,
    number: usize,
    (function, known): (&Function, &KnownCounts),
) {
    let counts = &known.counts;
    let shown = |count: u64, is_unknown: bool| match is_unknown {
        true => "?".to_owned(),
        false => count.to_string(),
    };
    let most = counts.blocks.iter().copied().max().unwrap_or(0).max(1);
    let inexact = if counts.exact { "" } else { ", counts are lower bounds" };
    let name = escape(&(options.demangle)(&function.name));
    let entries = counted(function.entries, "entry");
    let _ = writeln!(out, "  subgraph cluster_{number} {{");
    let _ = writeln!(out, "    label=\"{name}: {entries}{inexact}\";");
    for (block, &count) in counts.blocks.iter().enumerate() {
        // From white to orange.
        let heat = 0.75 * (count as f64 / most as f64);
        let _ = writeln!(
            out,
            "    f{number}b{block} [label=\"b{block}{}\\n{}\", fillcolor=\"0.08 {heat:.3} 1.0\"{}];",
            lines(profile, function, block),
            shown(count, known.unknown_blocks[block]),
            if count == 0 { ", color=gray, fontcolor=gray" } else { "" },
        );
    }
    let back: BTreeSet<(u32, u32)> = function
        .paths
        .iter()
        .filter_map(|path| match (path.ends, path.blocks.last()) {
            (End::Loop(to), Some(&from)) => Some((from, to)),
            _ => None,
        })
        .collect();
    for (place, edge) in function.edges.iter().enumerate() {
        let count = counts.edges[place];
        let shown = shown(count, known.unknown_edges[place]);
        let decision = decision(&edge.decision);
        let constraint =
            if back.contains(&(edge.from, edge.to)) { ", constraint=false" } else { "" };
        let style = if count == 0 { ", style=dashed, color=gray" } else { "" };
        let width = 1.0 + 3.0 * count as f64 / most as f64;
        let _ = writeln!(
            out,
            "    f{number}b{} -> f{number}b{} [label=\"{decision}{shown}\", penwidth={width:.2}{constraint}{style}];",
            edge.from, edge.to,
        );
    }
    out.push_str("  }\n");
}

/// The lines of a block, as one range where they are of one file.
fn lines(profile: &Profile, function: &Function, block: usize) -> String {
    let places: Vec<(u32, u32)> = function.blocks[block]
        .locations
        .iter()
        .map(|&number| &profile.locations[number as usize])
        .filter(|location| location.line > 0)
        .map(|location| (location.file, location.line))
        .collect();
    let Some(&(file, _)) = places.first() else { return String::new() };
    let same = places.iter().filter(|place| place.0 == file).map(|place| place.1);
    let (first, last) = (same.clone().min().unwrap_or(0), same.max().unwrap_or(0));
    let path = &profile.files[file as usize];
    let name = escape(path.rsplit('/').next().unwrap_or(path));
    let range = if first == last { first.to_string() } else { format!("{first}-{last}") };
    format!("\\n{name}:{range}")
}

fn decision(decision: &Decision) -> String {
    match decision {
        Decision::Always | Decision::Returned => String::new(),
        Decision::True => "T ".to_owned(),
        Decision::False => "F ".to_owned(),
        Decision::Cases { default: true, .. } => "default ".to_owned(),
        Decision::Cases { values, .. } => {
            let mut shown: Vec<String> = values.iter().take(4).map(i64::to_string).collect();
            shown.extend((values.len() > 4).then(|| "…".to_owned()));
            format!("={} ", shown.join(","))
        }
        Decision::Unwound => "unwinds ".to_owned(),
        Decision::Computed => "* ".to_owned(),
    }
}

fn escape(text: &str) -> String {
    let mut out = String::new();
    for letter in text.chars() {
        match letter {
            '"' | '\\' => out.extend(['\\', letter]),
            letter if letter.is_control() => out.push(' '),
            letter => out.push(letter),
        }
    }
    out
}
