//! The paths of one function that is traced: where its probes go, and what the
//! record in a frame means.
//!
//! Paths and their numbers are those of Ball and Larus, *Efficient Path
//! Profiling*, MICRO 1996, on [`crate::trace_graph`]; a path ends where a loop
//! begins anew, or where the graph was cut to keep numbers within 31 bits.
//!
//! Where a path profile adds to a counter, a record keeps the number. Three
//! things differ from a profile's probes:
//!
//! - The sum must tell the way to *every* block. It does: with increments on the
//!   chords of a spanning tree the sum at a node v is the sum of the values of
//!   the way there, less a constant of v (its potential), and two ways to v have
//!   different sums of values, since each can be continued in the same way to
//!   paths with different numbers.
//! - Nothing is done where the function is left, so that increments of those
//!   edges are free. Increments where a path ends are not, unless the sum is
//!   known there: it is, wherever all ways from where paths begin have the same
//!   sum, and then a number is put into the slot and the sum is not looked at.
//! - A function in which each block can be reached by one way alone needs no
//!   record: the block tells the way.
//!
//! A call that returns twice (`setjmp`) ends a path before it. On every return
//! [`TracedPaths::returned`] is put into the next slot: directly behind a path
//! that ends with that call it is the first return; anywhere else the way from
//! the last entry to the jump back is lost.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::path_cuts::compute_cuts;
use backtrail_graph::path_dag::{DagEdge, DagNode};
use backtrail_graph::{Edge, Index, PathDag, PathIncrements, PathNumbering};
use backtrail_ir::{Block, Func, Unit};
use backtrail_plan::{Action, EndedPath, FrameRecord, LeftOut, Place, Probe, RecordAction};
use backtrail_profile::function_graph::{Joint, Piece};
use serde::{Deserialize, Serialize};

use crate::trace_graph::TraceGraph;

/// The most paths a function may have: sums fit into 32 bits.
pub const LIMIT: u64 = 1 << 31;

/// How much is traced of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Extent {
    /// How many ended paths its record holds, a power of two.
    pub slots: u32,
    /// The most paths it has, at most [`LIMIT`], before it is cut.
    pub paths: u64,
}

/// What the record of a function means.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionMeaning {
    /// The function's number in its unit.
    pub function: u32,
    /// What is in its frames, if something is.
    pub record: Option<FrameRecord>,
    /// The edges of the graph at which paths were cut.
    pub cuts: Vec<u32>,
    /// What edges of the acyclic graph add to the sum, those that do.
    pub adds: Vec<(u32, u32)>,
}

/// The numbered paths of a function.
#[derive(Debug, Clone)]
pub struct TracedPaths {
    graph: TraceGraph,
    cuts: BTreeSet<Edge>,
    dag: PathDag,
    numbering: PathNumbering,
    /// What each edge of the acyclic graph adds.
    adds: Vec<u32>,
    /// What the sum at a node lacks to the values of the way there, by node.
    potentials: Vec<u32>,
    /// Whether there is more than one way to a node.
    several_ways: Vec<bool>,
    /// How many paths a record holds.
    slots: u32,
}

/// A way through a function, or a part of one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Way {
    /// Where it begins.
    pub from: Piece,
    /// Whether that is where the function begins.
    pub is_first: bool,
    /// The blocks that are entered on it. A path that begins within a block does
    /// not enter that one.
    pub blocks: Vec<Block>,
    /// Where the next path begins, if this one ended.
    pub to: Option<Piece>,
    /// Whether it ended at a call that returns twice.
    pub is_before_return: bool,
}

impl TracedPaths {
    /// Numbers the paths of `function`, or says why they cannot be traced.
    pub fn new(unit: &Unit, function: Func, extent: Extent) -> Result<Self, LeftOut> {
        let graph = TraceGraph::new(unit, function)?;
        let weights = graph.guess_frequencies(&unit.functions[function]);
        let (forced, computed) = (graph.forced_cuts(), graph.computed());
        let limit = extent.paths.min(LIMIT);
        let cuts = compute_cuts(&graph.flow, graph.entry(), &weights, limit, &forced, &computed);
        let dag = PathDag::with_cuts(&graph.flow, graph.entry(), &cuts);
        let numbering = PathNumbering::new(&dag).expect("paths were cut to the limit");
        let weight = |edge: Edge| match dag.kind(edge) {
            DagEdge::Flow(flow) | DagEdge::LoopEnd(flow) => weights[flow.position()].max(1),
            DagEdge::Enter | DagEdge::LoopStart | DagEdge::Leave => 0,
        };
        let dag_weights: Vec<u64> = dag.graph().edges().map(weight).collect();
        let is_computed = |edge: &Edge| match dag.kind(*edge) {
            DagEdge::Flow(flow) => graph.joint(flow) == Joint::Computed,
            _ => false,
        };
        let forced: Vec<Edge> = dag.graph().edges().filter(is_computed).collect();
        let increments = PathIncrements::new(&dag, &numbering, &dag_weights, &forced);
        if forced.iter().any(|&edge| increments.increment(edge) != 0) {
            return Err(LeftOut::ComputedTargets);
        }
        let adds = dag.graph().edges().map(|it| increments.increment(it) as u32).collect();
        Ok(Self::assemble(graph, cuts, dag, numbering, adds, extent.slots)
            .expect("increments have a potential"))
    }

    /// The same paths from what is carried of them, if that fits the function.
    pub fn with_meaning(unit: &Unit, meaning: &FunctionMeaning) -> Option<Self> {
        let function = Func::new(meaning.function as usize);
        unit.functions.get(function)?;
        let graph = TraceGraph::new(unit, function).ok()?;
        let edges = graph.flow.edge_count();
        let is_known = |cut: &u32| (*cut as usize) < edges;
        if !meaning.cuts.iter().all(is_known) {
            return None;
        }
        let cuts = meaning.cuts.iter().map(|&cut| Edge::new(cut as usize)).collect();
        let dag = PathDag::with_cuts(&graph.flow, graph.entry(), &cuts);
        let numbering = PathNumbering::new(&dag).filter(|it| it.count() <= LIMIT)?;
        let mut adds = vec![0; dag.graph().edge_count()];
        for &(edge, add) in &meaning.adds {
            *adds.get_mut(edge as usize)? = add;
        }
        let slots = meaning.record.map_or(0, |record| record.slots);
        Self::assemble(graph, cuts, dag, numbering, adds, slots)
    }

    /// Finds the potentials, if the increments have some.
    fn assemble(
        graph: TraceGraph,
        cuts: BTreeSet<Edge>,
        dag: PathDag,
        numbering: PathNumbering,
        adds: Vec<u32>,
        slots: u32,
    ) -> Option<Self> {
        let nodes = dag.graph().node_count();
        let mut potentials: Vec<Option<u32>> = vec![None; nodes];
        let mut several_ways = vec![false; nodes];
        potentials[dag.entry().position()] = Some(0);
        for &node in dag.reverse_topological().iter().rev() {
            let here = potentials[node.position()]?;
            for &edge in dag.graph().out_edges(node) {
                let value = numbering.value(edge) as u32;
                let there = here.wrapping_add(value).wrapping_sub(adds[edge.position()]);
                let next = dag.graph().target(edge).position();
                several_ways[next] |= several_ways[node.position()] || potentials[next].is_some();
                if *potentials[next].get_or_insert(there) != there {
                    return None;
                }
            }
        }
        let at_exit = potentials[dag.exit().position()];
        if at_exit.is_some_and(|it| it != 0) {
            return None;
        }
        let potentials = potentials.into_iter().map(|it| it.unwrap_or(0)).collect();
        Some(Self { graph, cuts, dag, numbering, adds, potentials, several_ways, slots })
    }

    /// What its frames hold, if they have to hold something.
    pub fn record(&self) -> Option<FrameRecord> {
        let mut kinds = self.dag.graph().edges().map(|edge| self.dag.kind(edge));
        let has_ends = kinds.any(|kind| matches!(kind, DagEdge::LoopEnd(_)));
        let mut pieces = self.graph.flow.nodes();
        let has_several = pieces.any(|piece| self.several_ways[piece.position()]);
        match (has_ends, has_several) {
            (true, _) => Some(FrameRecord { slots: self.slots }),
            (false, true) => Some(FrameRecord { slots: 0 }),
            (false, false) => None,
        }
    }

    /// What is carried.
    pub fn meaning(&self, function: Func) -> FunctionMeaning {
        let adds = self.adds.iter().enumerate().filter(|(_, add)| **add != 0);
        FunctionMeaning {
            function: function.position() as u32,
            record: self.record(),
            cuts: self.cuts.iter().map(|edge| edge.position() as u32).collect(),
            adds: adds.map(|(edge, add)| (edge as u32, *add)).collect(),
        }
    }

    /// The graph.
    pub fn graph(&self) -> &TraceGraph {
        &self.graph
    }

    /// What is put into a slot where a call has returned that can return twice.
    pub fn returned(&self) -> u32 {
        self.numbering.count() as u32
    }

    /// The probes, if a record is kept.
    pub fn probes(&self) -> Vec<Probe> {
        let Some(record) = self.record() else { return Vec::new() };
        let known = self.known_sums();
        let dag = self.dag.graph();
        let mut starts: BTreeMap<usize, u32> = BTreeMap::new();
        for edge in dag.edges().filter(|&edge| self.dag.kind(edge) == DagEdge::LoopStart) {
            starts.insert(dag.target(edge).position(), self.adds[edge.position()]);
        }
        let mut probes = Vec::new();
        let mut probe =
            |at: Place, action| probes.push(Probe { at, action: Action::Record(action) });
        let place_of = |flow: Edge| Place::Edge {
            from: self.graph.whole.block(self.graph.flow.source(flow)),
            to: self.graph.whole.block(self.graph.flow.target(flow)),
        };
        for edge in dag.edges() {
            let add = self.adds[edge.position()];
            let before = known[dag.source(edge).position()];
            match self.dag.kind(edge) {
                DagEdge::Enter => probe(Place::Entry, RecordAction::Begin(add)),
                DagEdge::LoopStart | DagEdge::Leave => {}
                DagEdge::Flow(flow) if add != 0 => {
                    let action = match before {
                        Some(sum) => RecordAction::Set(sum.wrapping_add(add)),
                        None => RecordAction::Add(add),
                    };
                    probe(place_of(flow), action);
                }
                DagEdge::Flow(_) => {}
                DagEdge::LoopEnd(flow) => {
                    let start = starts[&self.graph.flow.target(flow).position()];
                    let path = match before {
                        Some(sum) => EndedPath::Number(sum.wrapping_add(add)),
                        None => EndedPath::Sum(add),
                    };
                    let next = (before != Some(start)).then_some(start);
                    let place = match self.graph.joint(flow) {
                        Joint::Jump(inst) | Joint::Twice(inst) => Place::Before(inst),
                        Joint::Edge | Joint::Computed => place_of(flow),
                    };
                    probe(place, RecordAction::End { path, next });
                    if let Joint::Twice(call) = self.graph.joint(flow) {
                        let path = EndedPath::Number(self.returned());
                        let action = RecordAction::End { path, next: Some(start) };
                        probe(Place::After(call), action);
                    }
                }
            }
        }
        debug_assert!(record.slots > 0 || !probes.iter().any(ends_path));
        probes
    }

    /// The sum at each node, where it is always the same.
    fn known_sums(&self) -> Vec<Option<u32>> {
        let dag = self.dag.graph();
        let mut known = vec![None; dag.node_count()];
        known[self.dag.entry().position()] = Some(0u32);
        for &node in self.dag.reverse_topological().iter().rev().skip(1) {
            let arriving = |&edge: &Edge| {
                let sum: Option<u32> = known[dag.source(edge).position()];
                Some(sum?.wrapping_add(self.adds[edge.position()]))
            };
            let sums: BTreeSet<Option<u32>> = dag.in_edges(node).iter().map(arriving).collect();
            if sums.len() == 1 {
                known[node.position()] = sums.into_iter().next().flatten();
            }
        }
        known
    }

    /// The path under way, at `piece` with this sum; `None` if there is no way
    /// to the piece with that sum. Without a sum, the way if there is only one.
    pub fn under_way(&self, piece: Piece, sum: Option<u32>) -> Option<Way> {
        let node = DagNode::new(self.graph.node(piece)?.position());
        let is_reached = !self.dag.graph().in_edges(node).is_empty();
        let edges = match sum {
            _ if !is_reached => return None,
            Some(sum) => {
                let number = sum.wrapping_add(self.potentials[node.position()]);
                // The way to the node and on from there by first edges, whose
                // values are 0, is the path with that number.
                let mut path = self.numbering.path(&self.dag, number.into())?;
                let mut targets = path.iter().map(|&edge| self.dag.graph().target(edge));
                let steps = targets.position(|target| target == node)? + 1;
                let rest = path.split_off(steps);
                if rest.iter().any(|&edge| self.numbering.value(edge) != 0) {
                    return None;
                }
                path
            }
            None if self.several_ways[node.position()] => return None,
            None => self.only_way(node),
        };
        Some(self.way(&edges))
    }

    /// The way to a node that has one.
    fn only_way(&self, node: DagNode) -> Vec<Edge> {
        let mut edges = Vec::new();
        let mut here = node;
        while let Some(&edge) = self.dag.graph().in_edges(here).first() {
            edges.push(edge);
            here = self.dag.graph().source(edge);
        }
        edges.reverse();
        edges
    }

    /// The path that ended and has this number, if one has it.
    pub fn ended(&self, number: u32) -> Option<Way> {
        let path = self.numbering.path(&self.dag, number.into())?;
        let way = self.way(&path);
        way.to.is_some().then_some(way)
    }

    /// A way from ENTRY.
    fn way(&self, edges: &[Edge]) -> Way {
        let dag = self.dag.graph();
        let piece = |node: DagNode| Piece::new(node.position());
        let first = edges[0];
        let mut way = Way {
            from: piece(dag.target(first)),
            is_first: self.dag.kind(first) == DagEdge::Enter,
            blocks: Vec::new(),
            to: None,
            is_before_return: false,
        };
        for &edge in edges {
            match self.dag.kind(edge) {
                DagEdge::LoopEnd(flow) => {
                    way.to = Some(self.graph.flow.target(flow));
                    way.is_before_return = matches!(self.graph.joint(flow), Joint::Twice(_));
                }
                DagEdge::Leave => {}
                _ => way.blocks.extend(self.graph.entered(piece(dag.target(edge)))),
            }
        }
        way
    }
}

fn ends_path(probe: &Probe) -> bool {
    matches!(probe.action, Action::Record(RecordAction::End { .. }))
}
