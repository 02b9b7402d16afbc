//! Callgrind's output format, version 1, as valgrind's manual describes it.
//!
//! Two events: `Lines` is how often a line was executed, `Blocks` how many
//! blocks that begin on it. The sum of the latter is what the program executed.
//! A profile of paths does not know who called whom, so there are no calls, and
//! what is inclusive elsewhere is exclusive here. Lines that may have been executed
//! though nothing says so are left out.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::{Exported, Options, functions, lines_left_out, one_line};
use crate::derived::Line;
use crate::known::KnownCounts;
use crate::model::Profile;

/// The file.
pub fn write_callgrind(profile: &Profile, options: &Options) -> Exported {
    let mut body = String::new();
    let mut totals = [0u64; 2];
    let (mut without, mut left_out) = (0, 0);
    for (number, function) in functions(profile, options) {
        let known = KnownCounts::of(profile, number);
        let counts = &known.counts;
        if counts.blocks.iter().all(|&it| it == 0) {
            let lines = known.lines(profile, function);
            left_out += lines.values().filter(|count| count.is_none()).count();
            continue;
        }
        let place = function.location.map(|number| &profile.locations[number as usize]);
        let own = place.map(|place| place.file);
        let mut lines: BTreeMap<Line, [u64; 2]> = BTreeMap::new();
        let mut unknown: Vec<Line> = Vec::new();
        for (line, count) in known.lines(profile, function) {
            lines.entry(line).or_default()[0] += count.unwrap_or(0);
            unknown.extend(count.is_none().then_some(line));
        }
        for (block, &count) in function.blocks.iter().zip(&counts.blocks) {
            let begins = block.locations.iter().map(|&number| &profile.locations[number as usize]);
            let line = begins
                .filter(|location| location.line > 0)
                .map(|location| Line { file: location.file, line: location.line })
                .next()
                // Where the function begins, as far as that is known.
                .or_else(|| place.map(|place| Line { file: place.file, line: place.line }));
            match line {
                Some(line) => lines.entry(line).or_default()[1] += count,
                None => without += count,
            }
        }
        for line in unknown {
            if lines.get(&line) == Some(&[0, 0]) {
                lines.remove(&line);
                left_out += 1;
            }
        }
        let file =
            own.map_or_else(|| function.unit.clone(), |file| profile.files[file as usize].clone());
        let _ = writeln!(body, "\nfl={}", one_line(&file));
        let _ = writeln!(body, "fn={}", one_line(&(options.demangle)(&function.name)));
        let mut current = own;
        let mut sorted: Vec<_> = lines.into_iter().collect();
        // The function's own file comes first.
        sorted.sort_by_key(|(line, _)| (Some(line.file) != own, *line));
        for (line, [executed, begun]) in sorted {
            if current != Some(line.file) {
                let _ = writeln!(body, "fi={}", one_line(&profile.files[line.file as usize]));
                current = Some(line.file);
            }
            let _ = writeln!(body, "{} {executed} {begun}", line.line);
            totals = [totals[0] + executed, totals[1] + begun];
        }
    }
    let mut out = String::from("# callgrind format\nversion: 1\ncreator: backtrail\n");
    let _ = writeln!(out, "cmd: {}", one_line(&profile.program));
    for why in &profile.incomplete {
        let _ = writeln!(out, "desc: Incomplete: {}", one_line(why));
    }
    let _ = writeln!(out, "positions: line\nevents: Lines Blocks");
    let _ = writeln!(out, "summary: {} {}", totals[0], totals[1]);
    out.push_str(&body);
    let _ = writeln!(out, "\ntotals: {} {}", totals[0], totals[1]);
    let mut remarks = Vec::from_iter(lines_left_out(left_out));
    if without > 0 {
        remarks
            .push(format!("{without} executions of blocks without a source position are left out"));
    }
    Exported { bytes: out.into_bytes(), remarks }
}
