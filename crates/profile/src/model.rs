//! A profile as plain data.
//!
//! It needs nothing else to be shown, merged or exported: neither the program
//! nor its sources. Functions that never ran are there, too, with their blocks
//! and lines.
//!
//! # What holds
//! - Functions are in the order of modules, units and functions; two profiles of
//!   one program have the same functions, blocks, edges and locations, which is
//!   what merging relies on.
//! - The paths of a function are by increasing id, and none has a count of 0.
//! - `entries + inherited` = paths that end at [`End::Exit`] or [`End::Call`]
//!   `+ unfinished`.
//! - Partial paths are what is known beside `unfinished`, and in no other count.
//! - Where counts of edges are exact, what has none did not happen. Elsewhere
//!   [`Inexact`] says what did all the same, and of what that is not known.
//! - Counts saturate nowhere: they are 64 bits wide, and a sum that does not fit
//!   is an error.

use backtrail_plan::merged::Merged;
use serde::{Deserialize, Serialize};

/// What was counted in one or several runs of a program.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Profile {
    /// The program's file name.
    pub program: String,
    /// Its build id in hexadecimal digits, empty if it has none.
    pub build_id: String,
    /// Identifies what was counted where: profiles can be added if and only if
    /// they agree in it.
    pub layout: [u8; 16],
    /// Why counts are missing, if some are: one reason per line.
    pub incomplete: Vec<String>,
    /// How many processes were counted.
    pub processes: u64,
    /// Source files, by number.
    pub files: Vec<String>,
    /// Source positions, by number.
    pub locations: Vec<Location>,
    /// The functions, those that never ran included.
    pub functions: Vec<Function>,
    /// What is known of paths that were left unfinished: by function, start and
    /// blocks, each once. A log knows them, counters do not.
    pub partial: Vec<PartialPath>,
    /// Which signals ended runs, each with how many: what was counted is what they did up
    /// to there. Of runs that were not seen to end (folders of records) nothing is said.
    pub ended_by: Vec<(i32, u64)>,
    /// What is known of functions whose counts of edges are not exact, by function. Of one
    /// that is not here, nothing is: what has no count may have happened.
    pub inexact: Vec<Inexact>,
    /// Of results that were put together from several runs, how far those were compared:
    /// each once, in order.
    pub merged: Vec<Merged>,
}

impl Profile {
    /// What is known of a function whose counts of edges are not exact.
    pub fn inexact(&self, function: usize) -> Option<&Inexact> {
        let found = self.inexact.binary_search_by_key(&function, |it| it.function as usize);
        found.ok().map(|place| &self.inexact[place])
    }
}

/// What is known of a function beside its counts. What is not listed and has no count did
/// not happen.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inexact {
    /// The function's place in the profile.
    pub function: u32,
    /// Whether no more activations were inherited, and are unfinished, than it says.
    pub activations_exact: bool,
    /// Blocks that were begun though no path counts them, in order.
    pub ran: Vec<Begun>,
    /// Edges that were taken likewise, by their place in [`Function::edges`].
    pub ran_edges: Vec<u32>,
    /// Blocks that no path counts and that may have been executed, in order.
    pub unknown: Vec<u32>,
    /// Edges that no path counts and that may have been taken.
    pub unknown_edges: Vec<u32>,
}

/// A path that was under way when its activation ended or was jumped back into.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialPath {
    /// The function's place in the profile.
    pub function: u32,
    /// How it begins.
    pub starts: Start,
    /// Its blocks as far as it got, at least one; the last may not have been
    /// executed to its end.
    pub blocks: Vec<u32>,
    /// How often.
    pub count: u64,
}

impl PartialPath {
    /// What tells partial paths apart, and orders them.
    pub fn key(&self) -> (u32, Start, &[u32]) {
        (self.function, self.starts, &self.blocks)
    }
}

/// A block that was begun at least once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Begun {
    /// The block.
    pub block: u32,
    /// How many of its [positions](Block::locations) were certainly come to, from the
    /// first: what it calls may not have returned.
    pub positions: u32,
}

/// A source position and how it got into its function by inlining.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Location {
    /// The file's number.
    pub file: u32,
    /// The line, 0 if the compiler made the code up.
    pub line: u32,
    /// The column, 0 if unknown.
    pub column: u32,
    /// The function of the source, by linkage name.
    pub scope: String,
    /// The line on which that function is defined, 0 if unknown.
    pub scope_line: u32,
    /// The position of the call that was inlined, by number; smaller than this
    /// position's own number.
    pub inlined_at: Option<u32>,
}

/// A function and how often it took which path.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Function {
    /// The linkage name.
    pub name: String,
    /// The unit's main source file.
    pub unit: String,
    /// Where it is defined, by number.
    pub location: Option<u32>,
    /// How many acyclic paths it has, uncut.
    pub acyclic_paths: PathTotal,
    /// How it was instrumented.
    pub instrumented: Instrumented,
    /// How often it was entered.
    pub entries: u64,
    /// Activations that came over a fork.
    pub inherited: u64,
    /// Activations that ended without reaching the end of a path.
    pub unfinished: u64,
    /// Whether counts of edges, blocks and lines are exact: no path was left
    /// unfinished.
    pub edges_exact: bool,
    /// Its blocks, by number.
    pub blocks: Vec<Block>,
    /// The edges between them, each pair once, by source and then target.
    pub edges: Vec<Edge>,
    /// What was counted.
    pub paths: Vec<Path>,
}

/// A number of paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTotal {
    /// The number, or a lower bound.
    pub count: u128,
    /// Whether it is exact.
    pub exact: bool,
}

/// How a function was instrumented.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Instrumented {
    /// Every acyclic path has a counter.
    Whole,
    /// It has too many paths: some end at edges that are no loops.
    Cut,
    /// It was not, and why.
    No(String),
}

/// A block.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Block {
    /// The positions of its instructions that have a line, by number, in order,
    /// repetitions left out.
    pub locations: Vec<u32>,
}

/// An edge between blocks; several edges to one block are one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Edge {
    /// The block it leaves.
    pub from: u32,
    /// The block it leads to.
    pub to: u32,
    /// When it is taken.
    pub decision: Decision,
}

/// When an edge is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Decision {
    /// There is no other way.
    Always,
    /// The condition holds.
    True,
    /// It does not.
    False,
    /// The value is one of these, or, if `default`, none that is listed
    /// elsewhere.
    Cases {
        /// The values.
        values: Vec<i64>,
        /// Whether all other values lead here, too.
        default: bool,
    },
    /// The call returned.
    Returned,
    /// The call unwound.
    Unwound,
    /// A computed address or assembly leads here.
    Computed,
}

/// A path and how often it was taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Path {
    /// Its number within the function.
    pub id: u64,
    /// How often it was taken.
    pub count: u64,
    /// How it begins.
    pub starts: Start,
    /// How it ends.
    pub ends: End,
    /// Its blocks, by number; at least one.
    pub blocks: Vec<u32>,
}

/// How a path begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Start {
    /// With the function.
    Entry,
    /// At the head of a loop, whose last iteration ended the path before.
    Loop,
    /// Behind an edge that was cut.
    Cut,
    /// Within its first block, where the path before was cut: that path counts
    /// this block's execution.
    CutWithin,
    /// Within its first block, behind a call that can return twice.
    ReturnTwice,
}

impl Start {
    /// Whether the first block began before the path did, so that it is counted
    /// by the path before.
    pub fn is_within_block(self) -> bool {
        matches!(self, Self::CutWithin | Self::ReturnTwice)
    }
}

/// How a path ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum End {
    /// With the function.
    Exit,
    /// At the bottom of a loop, with the edge to this block.
    Loop(u32),
    /// At an edge that was cut, which leads to this block.
    Cut(u32),
    /// Within its last block, which the next path goes on with, as
    /// [`Start::CutWithin`] or [`Start::ReturnTwice`].
    CutWithin,
    /// Before a call that does not return.
    Call,
}
