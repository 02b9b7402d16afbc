//! LLVM's sample profiles as text, for `clang -fprofile-sample-use`.
//!
//! The format is described in LLVM's `include/llvm/ProfileData/SampleProf.h`
//! and `SampleProfReader.h`:
//!
//! ```text
//! function:total:head
//!  offset: count
//!  offset: inlined:total
//!   offset: count
//! ```
//!
//! Offsets are lines counted from that of the function the code was written in,
//! 16 bits wide. An offset's count is the largest of the blocks that have code
//! there, since a sample is taken at one instruction, not at a line's first.
//! Offsets that were not executed have their 0: that is knowledge, too.
//!
//! Code of an inlined function of which it is not known where it begins counts
//! for the line of the call. There are no discriminators, and no callees.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use backtrail_foreign::count::counted;

use super::{Exported, Options, functions, one_line};
use crate::known::KnownCounts;
use crate::model::{Location, Profile};

/// Samples in a function, or in one that was inlined.
#[derive(Default)]
struct Samples {
    head: u64,
    lines: BTreeMap<u32, u64>,
    inlined: BTreeMap<(u32, String), Samples>,
}

impl Samples {
    /// Sums, which are known before anything is written.
    fn total(&self) -> u64 {
        // The depth is that of inlining, which compilers limit.
        let inlined = self.inlined.values().map(Samples::total);
        self.lines.values().copied().chain(inlined).fold(0, u64::saturating_add)
    }

    fn write(&self, out: &mut String, depth: usize) {
        for (offset, count) in &self.lines {
            let _ = writeln!(out, "{:depth$}{offset}: {count}", "");
        }
        for ((offset, name), samples) in &self.inlined {
            let _ = writeln!(out, "{:depth$}{offset}: {name}:{}", "", samples.total());
            samples.write(out, depth + 1);
        }
    }

    fn add(&mut self, other: Samples) {
        self.head += other.head;
        for (offset, count) in other.lines {
            let sum = self.lines.entry(offset).or_default();
            *sum = sum.saturating_add(count);
        }
        for (key, samples) in other.inlined {
            self.inlined.entry(key).or_default().add(samples);
        }
    }
}

/// The file.
pub fn write_autofdo(profile: &Profile, options: &Options) -> Exported {
    let mut starts: BTreeMap<&str, u32> = BTreeMap::new();
    for function in &profile.functions {
        if let Some(number) = function.location {
            starts.entry(&function.name).or_insert(profile.locations[number as usize].line);
        }
    }
    let mut all: BTreeMap<String, Samples> = BTreeMap::new();
    let mut unknown = BTreeSet::new();
    let mut nowhere = 0;
    for (number, function) in functions(profile, options) {
        let counts = KnownCounts::of(profile, number).counts;
        if counts.blocks.iter().all(|&it| it == 0) {
            continue;
        }
        let Some(start) = function.location.map(|number| &profile.locations[number as usize])
        else {
            nowhere += 1;
            continue;
        };
        let mut samples = Samples { head: function.entries, ..Samples::default() };
        for (block, &count) in function.blocks.iter().zip(&counts.blocks) {
            for &number in &block.locations {
                let place = Placed { profile, starts: &starts, start: start.line };
                place.add(&mut samples, number, count, &mut unknown);
            }
        }
        all.entry(one_line(&function.name)).or_default().add(samples);
    }
    let mut sorted: Vec<_> = all.into_iter().map(|(name, s)| (s.total(), name, s)).collect();
    sorted.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    let mut out = String::new();
    for (total, name, samples) in sorted {
        let _ = writeln!(out, "{name}:{total}:{}", samples.head);
        samples.write(&mut out, 1);
    }
    let mut remarks = Vec::new();
    if nowhere > 0 {
        let functions = counted(nowhere, "function");
        remarks.push(format!("left out: {functions} without a source position"));
    }
    if !unknown.is_empty() {
        let some: Vec<&str> = unknown.iter().take(3).copied().collect();
        let more = if unknown.len() > 3 { ", …" } else { "" };
        remarks.push(format!(
            "the beginning of {} is not known ({}{more}): code of such counts for the lines that \
             call it",
            counted(unknown.len() as u64, "inlined function"),
            some.join(", "),
        ));
    }
    Exported { bytes: out.into_bytes(), remarks }
}

/// Finds a position's place in a function's samples.
struct Placed<'a> {
    profile: &'a Profile,
    starts: &'a BTreeMap<&'a str, u32>,
    start: u32,
}

impl<'a> Placed<'a> {
    fn add(&self, samples: &mut Samples, number: u32, count: u64, unknown: &mut BTreeSet<&'a str>) {
        // From the function itself to the innermost that was inlined.
        let mut chain: Vec<&Location> = Vec::new();
        let mut next = Some(number);
        while let Some(location) = next.map(|number| &self.profile.locations[number as usize]) {
            chain.push(location);
            next = location.inlined_at;
        }
        chain.reverse();
        let (mut samples, mut start) = (samples, self.start);
        for (depth, location) in chain.iter().enumerate() {
            let offset = location.line.wrapping_sub(start) & 0xffff;
            let called = chain.get(depth + 1);
            let called_start = called.and_then(|called| match called.scope_line {
                0 => self.starts.get(called.scope.as_str()).copied(),
                line => Some(line),
            });
            match (called, called_start) {
                (Some(called), Some(called_start)) => {
                    let key = (offset, one_line(&called.scope));
                    samples = samples.inlined.entry(key).or_default();
                    start = called_start;
                }
                (called, _) => {
                    unknown.extend(called.map(|called| called.scope.as_str()));
                    // Code that the compiler made up has no line.
                    if location.line > 0 {
                        let most = samples.lines.entry(offset).or_default();
                        *most = count.max(*most);
                    }
                    return;
                }
            }
        }
    }
}
