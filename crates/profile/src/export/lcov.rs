//! lcov tracefiles, as geninfo(1) describes them.
//!
//! One record per source file. Functions have their linkage names, because the
//! format parts fields by commas; `genhtml --demangle-cpp` shows them as they
//! are written. Files that are left out ([`Options::left_out`]) are counted. A branch
//! is a block with several successors, at the last line of the block.
//!
//! A 0 says that something was not executed. So what may have been is left out: lines,
//! branches, and functions of which it is known, at most, that they ran where they were
//! inlined.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use backtrail_foreign::count::counted;

use super::{Exported, Options, functions, lines_left_out, one_line};
use crate::known::{KnownCounts, Ran};
use crate::model::Profile;

#[derive(Default)]
struct Record {
    /// Line, entries and whether it ran by name.
    functions: BTreeMap<String, (u32, u64, Ran)>,
    lines: BTreeMap<u32, u64>,
    /// Lines that may have been executed in some function.
    unknown: BTreeSet<u32>,
    /// Line, block, branch, and how often; `None` where it was never reached.
    branches: Vec<(u32, usize, usize, Option<u64>)>,
}

/// The tracefile.
pub fn write_lcov(profile: &Profile, options: &Options) -> Exported {
    let mut records: BTreeMap<u32, Record> = BTreeMap::new();
    let mut nowhere = 0;
    let ran = Ran::of_all(profile);
    for (number, (place, function)) in functions(profile, options).enumerate() {
        let known = KnownCounts::of(profile, place);
        let (counts, ran) = (&known.counts, ran[place]);
        match function.location.map(|number| &profile.locations[number as usize]) {
            Some(place) => {
                let record = records.entry(place.file).or_default();
                let name = one_line(&function.name).replace(',', ";");
                let all = record.functions.entry(name).or_insert((place.line, 0, ran));
                all.1 += function.entries;
                all.2 = all.2.max(ran);
                // Where it is inlined, that of the definition is in no block.
                let is_unclear = matches!(ran, Ran::Inlined | Ran::Unknown);
                record.unknown.extend(is_unclear.then_some(place.line));
            }
            None => nowhere += 1,
        }
        for (line, count) in known.lines(profile, function) {
            let record = records.entry(line.file).or_default();
            *record.lines.entry(line.line).or_default() += count.unwrap_or(0);
            record.unknown.extend(count.is_none().then_some(line.line));
        }
        let count = |edge: usize| (!known.unknown_edges[edge]).then_some(counts.edges[edge]);
        let mut edges = function.edges.iter().enumerate().peekable();
        while let Some((place, first)) = edges.next() {
            let mut taken = vec![count(place)];
            while let Some((place, _)) = edges.next_if(|(_, edge)| edge.from == first.from) {
                taken.push(count(place));
            }
            let last = function.blocks[first.from as usize].locations.last();
            let Some(place) = last.map(|&number| &profile.locations[number as usize]) else {
                continue;
            };
            if taken.len() < 2 || place.line == 0 {
                continue;
            }
            let from = first.from as usize;
            let is_unknown = known.unknown_blocks[from];
            let reached = counts.blocks[from] > 0;
            let branches = &mut records.entry(place.file).or_default().branches;
            // A number for each block, in each copy of it.
            let block = number << 16 | first.from as usize;
            let taken = taken.into_iter().enumerate().filter(|_| !is_unknown);
            let known = taken.filter_map(|(branch, count)| Some((branch, count?)));
            branches.extend(
                known.map(|(branch, count)| (place.line, block, branch, reached.then_some(count))),
            );
        }
    }
    let before = records.len();
    records.retain(|file, _| !(options.left_out)(&profile.files[*file as usize]));
    let left_out = before - records.len();
    let (mut unknown_lines, mut unknown_functions) = (0, 0);
    for record in records.values_mut() {
        let before = (record.lines.len(), record.functions.len());
        let Record { lines, unknown, functions, .. } = record;
        lines.retain(|line, count| *count > 0 || !unknown.contains(line));
        functions.retain(|_, (_, _, ran)| matches!(ran, Ran::Itself | Ran::No));
        unknown_lines += before.0 - lines.len();
        unknown_functions += before.1 - functions.len();
    }
    let mut out = String::from("TN:\n");
    for (file, record) in &mut records {
        let _ = writeln!(out, "SF:{}", one_line(&profile.files[*file as usize]));
        write_record(&mut out, record);
        out.push_str("end_of_record\n");
    }
    let mut remarks = Vec::from_iter(lines_left_out(unknown_lines));
    remarks.extend(match unknown_functions {
        0 => None,
        1 => Some("1 function is left out: how often it was entered is not known".to_owned()),
        more => {
            Some(format!("{more} functions are left out: how often they were entered is not known"))
        }
    });
    if nowhere > 0 {
        let functions = counted(nowhere, "function");
        remarks.push(format!("without lines: {functions} without a source position"));
    }
    if left_out > 0 {
        remarks.push(format!(
            "left out: {} of libraries not on this machine, where readers of lcov want them",
            counted(left_out as u64, "source file")
        ));
    }
    Exported { bytes: out.into_bytes(), remarks }
}

fn write_record(out: &mut String, record: &mut Record) {
    for (name, (line, ..)) in &record.functions {
        let _ = writeln!(out, "FN:{line},{name}");
    }
    for (name, (_, entries, _)) in &record.functions {
        let _ = writeln!(out, "FNDA:{entries},{name}");
    }
    let hit = record.functions.values().filter(|(_, entries, _)| *entries > 0).count();
    let _ = writeln!(out, "FNF:{}\nFNH:{hit}", record.functions.len());
    record.branches.sort_unstable();
    for (line, block, branch, taken) in &record.branches {
        let taken = taken.map_or_else(|| "-".to_owned(), |taken| taken.to_string());
        let _ = writeln!(out, "BRDA:{line},{block},{branch},{taken}");
    }
    let hit = record.branches.iter().filter(|branch| branch.3 > Some(0)).count();
    let _ = writeln!(out, "BRF:{}\nBRH:{hit}", record.branches.len());
    for (line, count) in &record.lines {
        let _ = writeln!(out, "DA:{line},{count}");
    }
    let hit = record.lines.values().filter(|count| **count > 0).count();
    let _ = writeln!(out, "LF:{}\nLH:{hit}", record.lines.len());
}
