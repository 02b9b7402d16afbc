//! The ways through one function that is traced: where its probes go, and what
//! the record in a frame means.
//!
//! The record ([`backtrail_abi::record`]) has a field for each way through a
//! region ([`crate::regions`]): the number of the edge by which it was entered
//! and, below it, the sum of the values on the way. Where an edge crosses into a
//! region, the record is shifted by the width of that region's fields, and the
//! edge's number is added; where an edge has a value, that is added. The number 0
//! is that of the most frequent edge: it costs one instruction, and a region that
//! is entered by one edge alone, and in which no ways meet, costs none.
//!
//! Reading begins where the frame is: the block tells the region, the region how
//! wide the lowest field is, the field by which edge it was entered; where that
//! edge came from was the next older region, and so on, until the entry of the
//! function, or until the record has no more bits.
//!
//! Around a call that returns twice (`setjmp`) the record begins anew: what is
//! in it on the second return says nothing of the way there.

use std::collections::BTreeSet;

use backtrail_graph::{Edge, Index};
use backtrail_ir::{Block, Func, Unit};
use backtrail_plan::{Action, FrameRecord, LeftOut, Place, Probe, RecordAction};
use backtrail_profile::function_graph::{Joint, Piece};
use serde::{Deserialize, Serialize};

use crate::edge_changes::{Change, make_early, may_be_early, read_as};
use crate::regions::{Layout, Parts, Regions};
use crate::search::Search;
use crate::trace_graph::TraceGraph;

/// The widest fields: what is added is a number of 32 bits. Only a function that jumps
/// to computed addresses could need wider ones.
pub(crate) const MOST_BITS: u32 = 30;

/// What the record of a function means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionMeaning {
    /// The function's number in its unit.
    pub function: u32,
    /// How many words its frames hold, 0 if none.
    pub words: u32,
    /// The heads of regions, by piece.
    pub heads: Vec<u32>,
    /// The edges that do not cross.
    pub inner: Vec<u32>,
    /// The numbers and values of edges.
    pub values: Vec<u32>,
    /// The edges that are free.
    pub free: Vec<u32>,
    /// The pieces at which a record is one for the piece behind.
    pub early: Vec<u32>,
}

/// The ways through a function.
#[derive(Debug, Clone)]
pub struct TracedPaths {
    graph: TraceGraph,
    regions: Regions,
    words: u32,
    /// What is done on each edge; empty if only read.
    changes: Vec<Change>,
    /// Where it is done early.
    early: Vec<bool>,
}

/// What a record tells.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Told {
    /// The blocks that were entered on the way through each region, the newest
    /// region first. A region that begins within a block does not enter that one.
    pub ways: Vec<Vec<Block>>,
    /// Whether that is all since the function was entered.
    pub complete: bool,
    /// Whether something is in the record that cannot be.
    pub damaged: bool,
}

impl TracedPaths {
    /// Divides `function`, whose record is to hold at least so many `ended` ways,
    /// or says why it cannot be traced.
    pub fn new(unit: &Unit, function: Func, ended: u32) -> Result<Self, LeftOut> {
        let graph = TraceGraph::new(unit, function)?;
        let weights = graph.guess_frequencies(&unit.functions[function]);
        let (regions, words) = Search::new(&graph, &weights, ended + 1).best()?;
        if regions.widest() > MOST_BITS {
            return Err(LeftOut::ComputedTargets);
        }
        let words = if regions.widest() == 0 { 0 } else { words };
        let mut changes = changes(&graph, &regions);
        let body = &unit.functions[function];
        let early = make_early(&graph, body, &regions, &mut changes, &weights, words.max(1));
        Ok(Self { graph, regions, words, changes, early })
    }

    /// The same from what is carried of it, if that fits the function.
    pub fn with_meaning(unit: &Unit, meaning: &FunctionMeaning) -> Option<Self> {
        let function = Func::new(meaning.function as usize);
        unit.functions.get(function)?;
        let graph = TraceGraph::new(unit, function).ok()?;
        let nodes = graph.flow.node_count();
        let heads: BTreeSet<Piece> =
            meaning.heads.iter().map(|&head| Piece::new(head as usize)).collect();
        if heads.iter().any(|head| head.position() >= nodes) {
            return None;
        }
        let mut crosses = vec![true; graph.flow.edge_count()];
        for &edge in &meaning.inner {
            *crosses.get_mut(edge as usize)? = false;
        }
        let values = meaning.values.clone();
        let free: BTreeSet<Edge> =
            meaning.free.iter().map(|&edge| Edge::new(edge as usize)).collect();
        if free.iter().any(|edge| edge.position() >= crosses.len()) {
            return None;
        }
        let parts = Parts { heads, crosses, values, free };
        let regions = Regions::assemble(&graph, &Layout::new(&graph), parts)?;
        let mut early = vec![false; nodes];
        for &piece in &meaning.early {
            let piece = Piece::new(piece as usize);
            // A damaged table may name any: whether it is there is asked first.
            let is_early = early.get_mut(piece.position())?;
            *is_early = may_be_early(&graph, piece);
        }
        let is_told = meaning.words > 0 || regions.widest() == 0;
        (is_told && regions.widest() <= MOST_BITS).then_some(Self {
            graph,
            regions,
            words: meaning.words,
            changes: Vec::new(),
            early,
        })
    }

    /// What its frames hold, if they hold something.
    pub fn record(&self) -> Option<FrameRecord> {
        (self.words > 0).then_some(FrameRecord { words: self.words, mark_words: 0 })
    }

    /// What is carried.
    pub fn meaning(&self, function: Func) -> FunctionMeaning {
        FunctionMeaning {
            function: function.position() as u32,
            words: self.words,
            heads: self.regions.heads().map(|head| head.position() as u32).collect(),
            inner: self.inner_edges().map(|edge| edge.position() as u32).collect(),
            values: self.regions.values().to_vec(),
            free: self.regions.free().iter().map(|edge| edge.position() as u32).collect(),
            early: self.early.iter().zip(0..).filter(|it| *it.0).map(|(_, piece)| piece).collect(),
        }
    }

    fn inner_edges(&self) -> impl Iterator<Item = Edge> {
        self.graph.flow.edges().filter(|&edge| !self.regions.crosses(edge))
    }

    /// The graph.
    pub fn graph(&self) -> &TraceGraph {
        &self.graph
    }

    /// The probes, if a record is kept.
    pub fn probes(&self) -> Vec<Probe> {
        let mut probes = Vec::new();
        if self.words == 0 {
            return probes;
        }
        let mut probe =
            |at: Place, action| probes.push(Probe { at, action: Action::Record(action) });
        let first = self.regions.of(self.graph.entry()).expect("the entry is reached");
        let entry = first.entries.len() as i32 - 1;
        // If there is nothing to say of the first region, nothing has to be begun
        // before it is left.
        let begins_late = first.bits() == 0;
        if !begins_late {
            let code = first.code(entry as u32) as i32;
            probe(Place::Entry, RecordAction::Begin(code << first.low_bits()));
        }
        for (head, bits) in self.regions.shifting() {
            let at = Place::Block(self.graph.whole.block(head));
            probe(at, RecordAction::End { add: 0, bits, next: 0 });
        }
        let flow = &self.graph.flow;
        for edge in flow.edges().filter(|edge| edge.position() < self.changes.len()) {
            let change = self.changes[edge.position()];
            let Some(action) = change.action() else { continue };
            let whole = &self.graph.whole;
            let (from, to) = (whole.block(flow.source(edge)), whole.block(flow.target(edge)));
            match self.graph.joint(edge) {
                Joint::Twice(call) => {
                    probe(Place::Before(call), action);
                    probe(Place::After(call), action);
                }
                Joint::Jump(jump) => probe(Place::Before(jump), action),
                Joint::Edge | Joint::Computed => probe(Place::Edge { from, to }, action),
            }
        }
        probes
    }

    /// What a record says of the way to `piece`; `None` if there is no such way.
    /// Without a record (`words` is empty), the way if it is the only one.
    pub fn read(&self, piece: Piece, words: &[u64]) -> Option<Told> {
        let (last, behind) = read_as(&self.graph, &self.early, self.graph.node(piece)?)?;
        let mut told = self.read_at(last, words)?;
        // Those have not been entered yet.
        for _ in 0..behind {
            let way = told.ways.first_mut()?;
            way.pop()?;
            if way.is_empty() {
                told.ways.remove(0);
            }
        }
        Some(told)
    }

    /// By how many bits the record is shifted where a piece begins, if it is.
    pub fn shifts(&self, piece: Piece) -> Option<u32> {
        self.regions.shifting().find(|(head, _)| *head == piece).map(|(_, bits)| bits)
    }

    /// Whether a record that is read at a piece is one for the piece behind.
    pub fn is_early(&self, piece: Piece) -> bool {
        self.early.get(piece.position()).copied().unwrap_or(false)
    }

    fn read_at(&self, piece: Piece, words: &[u64]) -> Option<Told> {
        let mut here = piece;
        let mut told = Told::default();
        let mut bits = Bits { words, at: 0 };
        loop {
            let region = self.regions.of(here)?;
            let fields = bits.take(region.spare_bits).zip(bits.take(region.sum_bits));
            let entry = match region.has_free && bits.peek() == Some(0) {
                true => Some(0),
                false => bits.take(region.entry_bits).map(|code| region.number(code)),
            };
            // Older ones have fallen out.
            let Some(((spare, sum), entry)) = fields.zip(entry) else { return Some(told) };
            let entry = region.entries.get(entry as usize).copied().filter(|_| spare == 0);
            let from = match entry {
                Some(Some(edge)) => self.graph.flow.target(edge),
                _ => self.graph.entry(),
            };
            let way = entry.and_then(|_| self.regions.way(&self.graph, from, here, sum));
            let (Some(way), Some(entry)) = (way, entry) else {
                told.damaged = true;
                return (!told.ways.is_empty()).then_some(told);
            };
            told.ways.push(way.into_iter().filter_map(|it| self.graph.entered(it)).collect());
            match entry {
                None => {
                    told.complete = true;
                    return Some(told);
                }
                Some(edge) if matches!(self.graph.joint(edge), Joint::Twice(_)) => {
                    return Some(told);
                }
                Some(edge) => here = self.graph.flow.source(edge),
            }
        }
    }
}

/// The bits of a record, the lowest first.
struct Bits<'a> {
    words: &'a [u64],
    at: u64,
}

impl Bits<'_> {
    /// The next bit, which stays, if it is there.
    fn peek(&self) -> Option<u64> {
        let word = self.words.get((self.at / 64) as usize)?;
        Some(word >> (self.at % 64) & 1)
    }

    /// The next so many bits, fewer than 64, if they are there.
    fn take(&mut self, bits: u32) -> Option<u64> {
        let (word, shift) = ((self.at / 64) as usize, (self.at % 64) as u32);
        if bits == 0 {
            return Some(0);
        }
        self.at += u64::from(bits);
        if self.at > self.words.len() as u64 * 64 {
            return None;
        }
        let low = self.words[word] >> shift;
        let high = match self.words.get(word + 1) {
            Some(next) if shift > 0 => next << (64 - shift),
            _ => 0,
        };
        Some((low | high) & ((1 << bits) - 1))
    }
}

/// What is done to the record on each edge.
pub(crate) fn changes(graph: &TraceGraph, regions: &Regions) -> Vec<Change> {
    let begins_late = regions.of(graph.entry()).is_some_and(|first| first.bits() == 0);
    let change = |edge: Edge| {
        let (from, to) = (graph.flow.source(edge), graph.flow.target(edge));
        let value = regions.values()[edge.position()] as i32;
        match (regions.of(from), regions.of(to)) {
            (Some(_), Some(region)) if !regions.crosses(edge) => {
                Change { add: value << region.spare_bits, ..Change::default() }
            }
            _ if regions.free().contains(&edge) => Change::default(),
            (Some(_), Some(region)) => {
                let is_twice = matches!(graph.joint(edge), Joint::Twice(_));
                let begins = is_twice || begins_late && regions.is_entry(from, graph);
                // Where the head shifts, the code is all there is to do.
                let low = if regions.is_shifting(to) { 0 } else { region.low_bits() };
                let add = (region.code(value as u32) << low) as i32;
                match low + region.entry_bits {
                    0 if !is_twice => Change::default(),
                    _ if begins => Change { begins, bits: 0, add },
                    bits => Change { begins, bits, add },
                }
            }
            _ => Change::default(),
        }
    };
    graph.flow.edges().map(change).collect()
}
