//! A profile in the formats of other tools.
//!
//! | module | for | what it gets |
//! | --- | --- | --- |
//! | [`lcov`] | `genhtml` and what else reads tracefiles | lines, branches, functions |
//! | [`callgrind`] | `callgrind_annotate`, KCachegrind | lines and blocks, without calls |
//! | [`autofdo`] | `llvm-profdata merge --sample`, `clang -fprofile-sample-use` | block counts by line offset and inlined call |
//! | [`pprof`] | `pprof` | executed blocks by line, inlined calls as frames |
//! | [`dot`] | Graphviz | control-flow graphs with counts |
//!
//! None of them can say all that a profile says. What a format has no place for
//! is left out, and what is left out unexpectedly is among the [remarks].
//!
//! [remarks]: Exported::remarks

pub mod autofdo;
pub mod callgrind;
pub mod dot;
pub mod lcov;
pub mod pprof;

use backtrail_foreign::count::counted;

use crate::error::Error;
use crate::model::{Function, Profile};

/// A format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// An lcov tracefile.
    Lcov,
    /// A callgrind output file.
    Callgrind,
    /// LLVM's sample profile, as text.
    Autofdo,
    /// A compressed protocol buffer.
    Pprof,
    /// A graph.
    Dot,
}

/// What is exported, and how.
pub struct Options<'a> {
    /// Which functions.
    pub wanted: &'a dyn Fn(&Function) -> bool,
    /// A linkage name as people write it.
    pub demangle: &'a dyn Fn(&str) -> String,
    /// Whether a source file is left out of what has counts by source file, since readers
    /// of that would not find it.
    pub left_out: &'a dyn Fn(&str) -> bool,
}

/// A file for another tool.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Exported {
    /// What is in it.
    pub bytes: Vec<u8>,
    /// What it does not say, one remark each.
    pub remarks: Vec<String>,
}

/// Exports a profile.
pub fn export(profile: &Profile, format: Format, options: &Options) -> Result<Exported, Error> {
    let mut exported = match format {
        Format::Lcov => lcov::write_lcov(profile, options),
        Format::Callgrind => callgrind::write_callgrind(profile, options),
        Format::Autofdo => autofdo::write_autofdo(profile, options),
        Format::Pprof => pprof::write_pprof(profile, options)?,
        Format::Dot => dot::write_dot(profile, options),
    };
    let reasons = profile.incomplete.iter().map(|why| format!("the profile is incomplete: {why}"));
    exported.remarks.splice(0..0, reasons);
    let inexact = functions(profile, options).filter(|(_, function)| !function.edges_exact).count();
    if inexact > 0 {
        let remark = format!(
            "lower bounds: counts of {} with unfinished paths",
            counted(inexact as u64, "function")
        );
        exported.remarks.push(remark);
    }
    Ok(exported)
}

/// The functions that are exported, with their places: those that are wanted and were
/// instrumented.
fn functions<'a>(
    profile: &'a Profile,
    options: &'a Options,
) -> impl Iterator<Item = (usize, &'a Function)> {
    let counted = |(_, function): &(usize, &Function)| {
        function.is_instrumented() && (options.wanted)(function)
    };
    profile.functions.iter().enumerate().filter(counted)
}

/// The remark on lines that are left out, if some are.
fn lines_left_out(count: usize) -> Option<String> {
    match count {
        0 => None,
        1 => Some("1 line is left out: whether it was executed is not known".to_owned()),
        _ => Some(format!("{count} lines are left out: whether they were executed is not known")),
    }
}

/// A name on one line.
fn one_line(name: &str) -> String {
    name.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}
