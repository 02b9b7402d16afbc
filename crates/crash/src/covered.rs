//! Coverage of one function: where its probes go, and what bytes and marks mean.
//!
//! What is carried is which points are probed, and which calls may leave; what
//! follows from that is computed when it is read ([`crate::walks`]).
//!
//! Marks of up to eight points are bytes, which are stored; those of more are bits,
//! which are set: that costs one instruction as well, and clearing them at the
//! entry costs an eighth.

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_ir::{Block, Func, Function, Inst, Unit};
use backtrail_plan::{Action, LeftOut, Place, Probe, RecordAction};
use backtrail_profile::function_graph::FunctionGraph;
use serde::{Deserialize, Serialize};

use crate::evidence::{Coverage, Seen};
use crate::frequency::{GUESSED_ENTRIES, guess_frequencies};
use crate::placement::{Placement, Wanted};
use crate::points::{Point, Points};
use crate::walks::Bits;
use backtrail_analysis::Leaving;

/// Up to so many marks are bytes.
const MOST_BYTES: usize = 8;

/// What the coverage of a function means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct CoveredMeaning {
    /// The function's number in its unit.
    pub function: u32,
    /// What was asked for.
    pub wanted: Wanted,
    /// The calls that may leave, by instruction; none if anything may.
    pub leaving: Option<Vec<u32>>,
    /// The first of its bytes in its unit.
    pub first_byte: u32,
    /// The points of its bytes, one after another.
    pub anywhere: Vec<u32>,
    /// The points of its marks, one after another.
    pub here: Vec<u32>,
}

/// The coverage of a function.
#[derive(Debug, Clone)]
pub struct Covered {
    wanted: Wanted,
    points: Points,
    placement: Placement,
    leaving: Option<Vec<u32>>,
}

impl Covered {
    /// Chooses the probes of `function`, or says why it cannot have any.
    pub fn new(
        unit: &Unit,
        function: Func,
        wanted: Wanted,
        leaving: Leaving<'_>,
    ) -> Result<Self, LeftOut> {
        let points = Points::new(unit, function, leaving)?;
        let weights = weights(unit, function, &points);
        let placement = Placement::new(&points, wanted, &weights);
        let leaving = match leaving {
            Leaving::Everywhere => None,
            Leaving::Calls(calls) => Some(calls.iter().map(|it| it.position() as u32).collect()),
        };
        Ok(Self { wanted, points, placement, leaving })
    }

    /// The same from what is carried of it, if that fits the function.
    pub fn with_meaning(unit: &Unit, meaning: &CoveredMeaning) -> Option<Self> {
        let function = Func::new(meaning.function as usize);
        let body = unit.functions.get(function)?;
        let calls: Option<BTreeSet<Inst>> = meaning
            .leaving
            .as_ref()
            .map(|calls| calls.iter().map(|&it| Inst::new(it as usize)).collect());
        let leaving = match &calls {
            None => Leaving::Everywhere,
            Some(calls) => Leaving::Calls(calls),
        };
        let is_there = |it: &Inst| it.position() < body.insts.len();
        let points = Points::new(unit, function, leaving).ok()?;
        let listed = |list: &[u32]| -> Option<Vec<Point>> {
            let point = |&it: &u32| {
                let point = Point::new(it as usize);
                points.data.get(point).map(|_| point)
            };
            list.iter().map(point).collect()
        };
        let placement =
            Placement { anywhere: listed(&meaning.anywhere)?, here: listed(&meaning.here)? };
        let fits = calls.iter().flatten().all(is_there);
        fits.then(|| Self {
            wanted: meaning.wanted,
            points,
            placement,
            leaving: meaning.leaving.clone(),
        })
    }

    /// What is carried, if its bytes begin with this one.
    pub fn meaning(&self, function: Func, first_byte: u32) -> CoveredMeaning {
        let numbers = |list: &[Point]| list.iter().map(|it| it.position() as u32).collect();
        CoveredMeaning {
            wanted: self.wanted,
            function: function.position() as u32,
            leaving: self.leaving.clone(),
            first_byte,
            anywhere: numbers(&self.placement.anywhere),
            here: numbers(&self.placement.here),
        }
    }

    /// The points.
    pub fn points(&self) -> &Points {
        &self.points
    }

    /// Which of them are probed.
    pub fn placement(&self) -> &Placement {
        &self.placement
    }

    /// How many bytes it has.
    pub fn bytes(&self) -> u32 {
        self.placement.anywhere.len() as u32
    }

    /// How many words its marks have.
    pub fn mark_words(&self) -> u32 {
        let marks = self.placement.here.len();
        let per_word = if marks <= MOST_BYTES { 8 } else { 64 };
        marks.div_ceil(per_word) as u32
    }

    /// The probes, if its bytes begin with this one.
    pub fn probes(&self, first_byte: u32) -> Vec<Probe> {
        let mut probes = Vec::new();
        if !self.placement.here.is_empty() {
            let action = Action::Record(RecordAction::ClearMarks);
            probes.push(Probe { at: Place::Entry, action });
        }
        for (point, byte) in self.placement.anywhere.iter().zip(first_byte..) {
            let action = Action::Cover { byte };
            probes.push(Probe { at: self.points.place(*point), action });
        }
        for (number, point) in self.placement.here.iter().enumerate() {
            let (byte, bits, alone) = mark(number, self.placement.here.len());
            let action = Action::Record(RecordAction::Mark { byte, bits, alone });
            probes.push(Probe { at: self.points.place(*point), action });
        }
        probes
    }

    /// The block of a point, given by number.
    pub fn block_of(&self, point: u32) -> Option<Block> {
        self.points.data.get(Point::new(point as usize)).map(|data| data.block)
    }

    /// The number of the piece that a point is in, where blocks are divided before
    /// these instructions alone.
    pub fn coarser(&self, body: &Function, point: u32, splits: &[Inst]) -> Option<u32> {
        let data = self.points.data.get(Point::new(point as usize))?;
        let start = body.blocks.get(data.block)?.first as usize;
        let is_before = |split: &&Inst| match data.first {
            Some(first) => **split <= first,
            None => split.position() < start,
        };
        Some(data.block.position() as u32 + splits.iter().filter(is_before).count() as u32)
    }

    /// What bytes say of points.
    pub fn bytes_to_bits(&self, bytes: Option<&[u8]>) -> Bits {
        let mut bits = vec![None; self.points.data.len()];
        for (point, byte) in self.placement.anywhere.iter().zip(bytes.unwrap_or_default()) {
            bits[point.position()] = Some(*byte != 0);
        }
        bits
    }

    /// What marks, given as bytes, say of points.
    pub fn marks_to_bits(&self, marks: Option<&[u8]>) -> Bits {
        let mut bits = vec![None; self.points.data.len()];
        for (number, point) in self.placement.here.iter().enumerate() {
            let (byte, mask, _) = mark(number, self.placement.here.len());
            let byte = marks.and_then(|marks| marks.get(byte as usize));
            bits[point.position()] = byte.map(|byte| byte & mask != 0);
        }
        bits
    }

    /// What was reached, in terms of blocks and calls.
    pub fn coverage(&self, reached: &[Seen]) -> Coverage {
        let seen = |point: &Point| reached.get(point.position()).copied().unwrap_or_default();
        let calls = self.points.data.iter();
        Coverage {
            blocks: self.points.first.iter().map(seen).collect(),
            calls: calls.filter_map(|(point, data)| Some((data.call?, seen(&point)))).collect(),
        }
    }
}

/// The byte of a mark, its bits, and whether it has the byte for itself.
fn mark(number: usize, count: usize) -> (u32, u8, bool) {
    match count <= MOST_BYTES {
        true => (number as u32, 1, true),
        false => ((number / 8) as u32, 1 << (number % 8), false),
    }
}

/// How often each point is thought to be reached.
fn weights(unit: &Unit, function: Func, points: &Points) -> Vec<u64> {
    let body = &unit.functions[function];
    let mut of_block = vec![0u64; body.blocks.len()];
    // Without a graph all are equal.
    if let Ok(graph) = FunctionGraph::new(unit, function) {
        let guesses = guess_frequencies(body, &graph);
        for edge in graph.flow.edges() {
            let (from, to): (Block, Block) =
                (graph.block(graph.flow.source(edge)), graph.block(graph.flow.target(edge)));
            if from != to || graph.joint(edge) == backtrail_profile::function_graph::Joint::Edge {
                of_block[to.position()] += guesses[edge.position()];
            }
        }
        of_block[0] += GUESSED_ENTRIES;
    }
    points.data.values().map(|data| of_block[data.block.position()]).collect()
}
