//! lcov tracefiles, as geninfo(1) describes them.
//!
//! One record per source file. Functions have their linkage names, because the
//! format parts fields by commas; `genhtml --demangle-cpp` shows them as they
//! are written. A branch is a block with several successors, at the last line
//! of the block.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Exported, Options, functions, one_line};
use crate::derived::{Counts, compute_function_lines};
use crate::model::Profile;

#[derive(Default)]
struct Record {
    /// Line and entries by name.
    functions: BTreeMap<String, (u32, u64)>,
    lines: BTreeMap<u32, u64>,
    /// Line, block, branch, and how often; `None` where it was never reached.
    branches: Vec<(u32, usize, usize, Option<u64>)>,
}

/// The tracefile.
pub fn write_lcov(profile: &Profile, options: &Options) -> Exported {
    let mut records: BTreeMap<u32, Record> = BTreeMap::new();
    let mut nowhere = 0;
    for (number, function) in functions(profile, options).enumerate() {
        let counts = Counts::of(function);
        match function.location.map(|number| &profile.locations[number as usize]) {
            Some(place) => {
                let record = records.entry(place.file).or_default();
                let name = one_line(&function.name).replace(',', ";");
                record.functions.entry(name).or_insert((place.line, 0)).1 += function.entries;
            }
            None => nowhere += 1,
        }
        for (line, count) in compute_function_lines(profile, function, &counts) {
            *records.entry(line.file).or_default().lines.entry(line.line).or_default() += count;
        }
        let mut edges = function.edges.iter().zip(&counts.edges).peekable();
        while let Some((first, &count)) = edges.next() {
            let mut taken = vec![count];
            while let Some((_, &count)) = edges.next_if(|(edge, _)| edge.from == first.from) {
                taken.push(count);
            }
            let last = function.blocks[first.from as usize].locations.last();
            let Some(place) = last.map(|&number| &profile.locations[number as usize]) else {
                continue;
            };
            if taken.len() < 2 || place.line == 0 {
                continue;
            }
            let reached = counts.blocks[first.from as usize] > 0;
            let branches = &mut records.entry(place.file).or_default().branches;
            // A number for each block, in each copy of it.
            let block = number << 16 | first.from as usize;
            branches.extend(
                taken
                    .iter()
                    .enumerate()
                    .map(|(branch, &count)| (place.line, block, branch, reached.then_some(count))),
            );
        }
    }
    let mut out = String::from("TN:\n");
    for (file, record) in &mut records {
        let _ = writeln!(out, "SF:{}", one_line(&profile.files[*file as usize]));
        write_record(&mut out, record);
        out.push_str("end_of_record\n");
    }
    let remark = (nowhere > 0).then(|| format!("{nowhere} functions have no source position"));
    Exported { bytes: out.into_bytes(), remarks: remark.into_iter().collect() }
}

fn write_record(out: &mut String, record: &mut Record) {
    for (name, (line, _)) in &record.functions {
        let _ = writeln!(out, "FN:{line},{name}");
    }
    for (name, (_, entries)) in &record.functions {
        let _ = writeln!(out, "FNDA:{entries},{name}");
    }
    let hit = record.functions.values().filter(|(_, entries)| *entries > 0).count();
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
