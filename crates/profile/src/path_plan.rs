//! The paths of one function: where their probes go, and what their numbers mean.
//!
//! Ball and Larus, *Efficient Path Profiling*, MICRO 1996, on the graph of
//! [`crate::function_graph`], cut to a limit ([`backtrail_graph::path_cuts`]), so
//! that the counters of a path profile are one plain array.
//!
//! What the paper calls folding (an initial value into the first increment, the
//! last increment into the count) is in the numbers here as far as the edges of
//! the virtual ENTRY and EXIT go: they weigh nothing, so the spanning tree
//! leaves them out before any other, and their increments become constants of
//! a `SetSum` or a `CountSum`. The rest is constant propagation, which the
//! compiler does once the sum is in registers.
//!
//! A last block in which nothing can go wrong (often no more than a return) has
//! its path counted on the edges that lead to it: there the increment of the
//! edge is part of the count, and often the sum is a constant.
//!
//! Decoding needs the graph and the cuts, not the tree: [`PathPlan::with_cuts`].

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::calls::call_before_shared_return;
use backtrail_graph::path_cuts::compute_cuts;
use backtrail_graph::path_dag::{DagEdge, DagNode};
use backtrail_graph::{
    DepthFirst, Edge, EdgeKind, EdgeSet, Index, PathDag, PathIncrements, PathNumbering,
};
use backtrail_ir::{Block, Func, Function, Inst, Op, Unit};
use backtrail_plan::{Action, LeftOut, Place, Probe};

use crate::frequency::guess_frequencies;
use crate::function_graph::{Begin, FunctionGraph, Joint, Leave, Piece};
use crate::model::{End, Start};
use crate::partition::interest::Interest;

/// The numbered paths of a function.
#[derive(Debug, Clone)]
pub struct PathPlan {
    graph: FunctionGraph,
    cuts: BTreeSet<Edge>,
    dag: PathDag,
    numbering: PathNumbering,
    /// The pieces whose paths are counted on the edges that lead to them.
    early: Vec<bool>,
    /// The calls in tail position before such an edge.
    tail_calls: BTreeMap<Edge, Inst>,
}

/// A path as its number tells it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DecodedPath {
    /// How it begins.
    pub starts: Start,
    /// How it ends.
    pub ends: End,
    /// Its blocks by number.
    pub blocks: Vec<u32>,
}

impl PathPlan {
    /// Numbers the paths of `function`, cut so that there are at most `limit`,
    /// or says why they cannot be counted. `taken` says how often each edge
    /// between blocks is taken; without it that is guessed.
    pub fn new(
        unit: &Unit,
        function: Func,
        limit: u64,
        taken: Option<&BlockEdges>,
    ) -> Result<Self, LeftOut> {
        let graph = FunctionGraph::new(unit, function)?;
        let mut weights = weigh(&unit.functions[function], &graph, taken);
        prefer_loop_entries(&graph, &mut weights);
        let forced = graph.forced_cuts();
        let computed = graph.computed();
        let cuts = compute_cuts(&graph.flow, graph.entry(), &weights, limit, &forced, &computed);
        Ok(Self::numbered(&unit.functions[function], graph, cuts))
    }

    /// The same paths from the cuts that were made: see [`Self::cuts`].
    pub fn with_cuts(unit: &Unit, function: Func, cuts: &[u32]) -> Result<Self, LeftOut> {
        let graph = FunctionGraph::new(unit, function)?;
        let edges = graph.flow.edge_count();
        let cuts = cuts.iter().map(|&cut| cut as usize).filter(|&cut| cut < edges);
        let cuts = cuts.map(Edge::new).collect();
        Ok(Self::numbered(&unit.functions[function], graph, cuts))
    }

    fn numbered(function: &Function, graph: FunctionGraph, mut cuts: BTreeSet<Edge>) -> Self {
        let mut dag = PathDag::with_cuts(&graph.flow, graph.entry(), &cuts);
        let numbering = PathNumbering::new(&dag).unwrap_or_else(|| {
            // Only cuts that were not computed here leave so many paths.
            cuts = graph.flow.edges().collect();
            dag = PathDag::with_cuts(&graph.flow, graph.entry(), &cuts);
            PathNumbering::new(&dag).expect("each edge is a path")
        });
        let early = graph.pieces.indices().map(|piece| is_early(function, &graph, piece)).collect();
        let early: Vec<bool> = early;
        // Such a call cannot be the end of the activation.
        let twice: Vec<Inst> = graph.calls_that_return_twice().collect();
        let tail_call = |edge: Edge| {
            let is_early = early[graph.flow.target(edge).position()];
            let block = graph.block(graph.flow.source(edge));
            let call = is_early.then(|| call_before_shared_return(function, block)).flatten();
            Some((edge, call.filter(|call| !twice.contains(call))?))
        };
        let tail_calls = graph.flow.edges().filter_map(tail_call).collect();
        Self { graph, cuts, dag, numbering, early, tail_calls }
    }

    /// The graph of the function's pieces.
    pub fn graph(&self) -> &FunctionGraph {
        &self.graph
    }

    /// How many paths have a number.
    pub fn count(&self) -> u64 {
        self.numbering.count()
    }

    /// The edges of the graph at which paths end, by number.
    pub fn cuts(&self) -> Vec<u32> {
        self.cuts.iter().map(|edge| edge.position() as u32).collect()
    }

    /// Whether edges were cut to keep the number of paths small.
    pub fn is_cut(&self) -> bool {
        self.cuts.len() > self.graph.forced_cuts().len()
    }

    /// The acyclic graph whose paths these are.
    pub fn dag(&self) -> &PathDag {
        &self.dag
    }

    /// The probes that count the paths, the path of number 0 in counter `first`.
    /// `weights`, by edge of [`Self::graph`], says how often each is taken.
    pub fn probes(&self, weights: &[u64], first: u32) -> Result<Vec<Probe>, LeftOut> {
        self.probes_of(&Interest::Whole, weights, first)
    }

    /// The probes that count the paths of `interest`, the first of as many
    /// counters as [`Self::slots`] says being `first`.
    pub fn probes_of(
        &self,
        interest: &Interest,
        weights: &[u64],
        first: u32,
    ) -> Result<Vec<Probe>, LeftOut> {
        let (increments, counted) = self.increments_of(interest, weights)?;
        Ok(self.place(&increments, &counted, first))
    }

    /// The same, and where a label is part of an initial value or of a count.
    pub(crate) fn probes_and_constants(
        &self,
        interest: &Interest,
        weights: &[u64],
    ) -> Result<(Vec<Probe>, Vec<Place>), LeftOut> {
        let (increments, counted) = self.increments_of(interest, weights)?;
        let constants = counted.iter().filter(|&edge| increments.increment(edge) != 0);
        let constants = constants.flat_map(|edge| self.constant_places(edge)).collect();
        Ok((self.place(&increments, &counted, 0), constants))
    }

    /// Where the label of an edge of [`Self::dag`] is no probe of its own.
    fn constant_places(&self, edge: Edge) -> Vec<Place> {
        let place = |flow: Edge| match self.graph.joint(flow) {
            Joint::Jump(inst) | Joint::Twice(inst) => Place::Before(inst),
            Joint::Edge | Joint::Computed => Place::Edge {
                from: self.graph.block(self.graph.flow.source(flow)),
                to: self.graph.block(self.graph.flow.target(flow)),
            },
        };
        let target = || Piece::new(self.dag.graph().target(edge).position());
        match self.dag.kind(edge) {
            DagEdge::Enter => vec![Place::Entry],
            DagEdge::LoopStart => {
                let into = self.graph.flow.in_edges(target()).iter().copied();
                into.filter(|&flow| self.ends_path(flow)).map(place).collect()
            }
            DagEdge::Flow(flow) if self.is_counted_at(flow) => vec![place(flow)],
            DagEdge::Flow(_) => Vec::new(),
            DagEdge::LoopEnd(flow) => vec![place(flow)],
            DagEdge::Leave => {
                let piece = Piece::new(self.dag.graph().source(edge).position());
                vec![Place::Block(self.graph.block(piece))]
            }
        }
    }

    /// What edges of [`Self::dag`] add to the sum so that the paths of
    /// `interest` are told apart, and those from which a count can be reached:
    /// the others need no probe.
    pub(crate) fn increments_of(
        &self,
        interest: &Interest,
        weights: &[u64],
    ) -> Result<(PathIncrements, EdgeSet), LeftOut> {
        let counted = match interest {
            Interest::Whole => EdgeSet::all(self.dag.graph().edge_count()),
            Interest::Part(selection) => selection.counted(self),
        };
        let weights = self.dag_weights(weights, &counted);
        let increments = match interest {
            Interest::Whole => {
                let forced = self.forced();
                let made = PathIncrements::new(&self.dag, &self.numbering, &weights, &forced);
                let fits = forced.iter().all(|&edge| made.increment(edge) == 0);
                fits.then_some(made)
            }
            Interest::Part(selection) => selection.increments(self, &weights),
        };
        Ok((increments.ok_or(LeftOut::ComputedTargets)?, counted))
    }

    /// How many counters the paths of `interest` take.
    pub fn slots(&self, interest: &Interest) -> u64 {
        match interest {
            Interest::Whole => self.count(),
            Interest::Part(selection) => selection.labels(self).count(),
        }
    }

    /// What a probe on each edge of [`Self::dag`] costs; edges from which no
    /// count of `counted` can be reached need none.
    fn dag_weights(&self, weights: &[u64], counted: &EdgeSet) -> Vec<u64> {
        let weight = |edge: Edge| match self.dag.kind(edge) {
            _ if !counted.contains(edge) => 0,
            DagEdge::Flow(flow) if self.is_counted_at(flow) => 0,
            DagEdge::Flow(flow) => weights[flow.position()].max(1),
            // Constants of a count or of an initial sum: they cost nothing, as
            // the increments before a count on an edge do.
            _ => 0,
        };
        self.dag.graph().edges().map(weight).collect()
    }

    /// Whether the path that ends behind this edge of the graph is counted on it.
    fn is_counted_at(&self, flow: Edge) -> bool {
        self.early[self.graph.flow.target(flow).position()]
    }

    /// The edges of [`Self::dag`] that have no place for a probe.
    pub(crate) fn forced(&self) -> Vec<Edge> {
        let is_computed = |edge: &Edge| match self.dag.kind(*edge) {
            DagEdge::Flow(flow) => self.graph.joint(flow) == Joint::Computed,
            _ => false,
        };
        self.dag.graph().edges().filter(is_computed).collect()
    }

    /// Whether an edge of [`Self::dag`] is where a path is counted: the last of
    /// a path, or one before a piece whose paths are counted early.
    pub(crate) fn is_where_paths_are_counted(&self, edge: Edge) -> bool {
        match self.dag.kind(edge) {
            DagEdge::LoopEnd(_) | DagEdge::Leave => true,
            DagEdge::Enter => false,
            DagEdge::LoopStart => self.early[self.dag.graph().target(edge).position()],
            DagEdge::Flow(flow) => self.is_counted_at(flow),
        }
    }

    /// Turns increments into probes. A path is counted if and only if its edges
    /// are in `counted`: from any other no count can be reached.
    fn place(&self, increments: &PathIncrements, counted: &EdgeSet, first: u32) -> Vec<Probe> {
        let first = i64::from(first);
        let edges = || self.dag.graph().edges().map(|edge| (edge, increments.increment(edge)));
        // What paths that begin at a piece begin with, if some are counted.
        let starts: BTreeMap<usize, i64> = edges()
            .filter(|(edge, _)| self.dag.kind(*edge) == DagEdge::LoopStart)
            .filter(|(edge, _)| counted.contains(*edge))
            .map(|(edge, increment)| (self.dag.graph().target(edge).position(), increment))
            .collect();
        let mut probes = Vec::new();
        let mut probe = |at: Place, action: Action| probes.push(Probe { at, action });
        let place_of = |flow: Edge| Place::Edge {
            from: self.graph.block(self.graph.flow.source(flow)),
            to: self.graph.block(self.graph.flow.target(flow)),
        };
        for (edge, add) in edges() {
            let is_counted = counted.contains(edge);
            match self.dag.kind(edge) {
                DagEdge::Enter if is_counted => probe(Place::Entry, Action::SetSum(first + add)),
                DagEdge::Enter | DagEdge::LoopStart => {}
                DagEdge::Flow(flow) if is_counted => {
                    let target = self.graph.flow.target(flow);
                    if let Some(last) = self.last_step(increments, target) {
                        let call = self.tail_calls.get(&flow);
                        let place = call.map_or_else(|| place_of(flow), |&it| Place::Before(it));
                        probe(place, Action::CountSum(add + last));
                    } else if add != 0 {
                        probe(place_of(flow), Action::AddSum(add));
                    }
                }
                DagEdge::Flow(_) => {}
                DagEdge::LoopEnd(flow) => {
                    let target = self.graph.flow.target(flow);
                    let (before, behind) = match self.graph.joint(flow) {
                        Joint::Jump(inst) => (Place::Before(inst), Place::Before(inst)),
                        Joint::Twice(inst) => (Place::Before(inst), Place::After(inst)),
                        Joint::Edge | Joint::Computed => (place_of(flow), place_of(flow)),
                    };
                    if is_counted {
                        probe(before, Action::CountSum(add));
                    }
                    let Some(next) = starts.get(&target.position()) else { continue };
                    probe(behind, Action::SetSum(first + next));
                    // The next path may be that one piece.
                    if let Some(last) = self.last_step(increments, target) {
                        probe(behind, Action::CountSum(last));
                    }
                }
                DagEdge::Leave => {
                    let piece = Piece::new(self.dag.graph().source(edge).position());
                    if self.early[piece.position()] || !is_counted {
                        continue;
                    }
                    let leave = self.graph.pieces[piece].leave;
                    let (Leave::Function(inst) | Leave::Call(inst)) =
                        leave.expect("a piece without successors says how it is left");
                    probe(Place::Before(inst), Action::CountSum(add));
                }
            }
        }
        probes
    }

    /// What is added to the sum behind a piece whose paths are counted on the
    /// edges that lead to it.
    fn last_step(&self, increments: &PathIncrements, piece: Piece) -> Option<i64> {
        let out = self.dag.graph().out_edges(DagNode::new(piece.position()));
        let leave = out.first().filter(|_| self.early[piece.position()])?;
        Some(increments.increment(*leave))
    }

    /// The edges of [`Self::dag`] that the path with this number takes, if one
    /// has it.
    pub fn edges_of_path(&self, number: u64) -> Option<Vec<Edge>> {
        self.numbering.path(&self.dag, number)
    }

    /// The number of the path that takes these edges of [`Self::dag`].
    pub fn number_of_edges(&self, path: &[Edge]) -> u64 {
        path.iter().map(|&edge| self.numbering.value(edge)).sum()
    }

    /// The path with this number, if one has it.
    pub fn decode(&self, number: u64) -> Option<DecodedPath> {
        let path = self.edges_of_path(number)?;
        let (&head, &tail) = (path.first()?, path.last()?);
        let graph = self.dag.graph();
        let piece = |node: DagNode| Piece::new(node.position());
        let first = piece(graph.target(head));
        let last = piece(graph.source(tail));
        let starts = match (self.dag.kind(head), self.graph.pieces[first].begin) {
            (DagEdge::Enter, _) => Start::Entry,
            (_, Begin::Returned) => Start::ReturnTwice,
            (_, Begin::Jump) => Start::CutWithin,
            (_, Begin::Block) if self.is_loop_head(first) => Start::Loop,
            (_, Begin::Block) => Start::Cut,
        };
        let ends = match self.dag.kind(tail) {
            DagEdge::LoopEnd(edge) => {
                let to = self.graph.block(self.graph.flow.target(edge)).position() as u32;
                match self.graph.joint(edge) {
                    Joint::Jump(_) | Joint::Twice(_) => End::CutWithin,
                    _ if self.cuts.contains(&edge) => End::Cut(to),
                    _ => End::Loop(to),
                }
            }
            _ => match self.graph.pieces[last].leave {
                Some(Leave::Call(_)) => End::Call,
                _ => End::Exit,
            },
        };
        let blocks = path[1..].iter().map(|&edge| piece(graph.source(edge)));
        let blocks = blocks.map(|it| self.graph.block(it).position() as u32).collect();
        Some(DecodedPath { starts, ends, blocks })
    }

    /// The number of a path: the inverse of [`Self::decode`].
    pub fn number(&self, path: &DecodedPath) -> Option<u64> {
        let graph = self.dag.graph();
        let wanted_begin = match path.starts {
            Start::Entry | Start::Loop | Start::Cut => Begin::Block,
            Start::ReturnTwice => Begin::Returned,
            Start::CutWithin => Begin::Jump,
        };
        // A path begins and ends in one of a few ways, so these are tried.
        'starts: for &head in graph.out_edges(self.dag.entry()) {
            let first = Piece::new(graph.target(head).position());
            let data = self.graph.pieces[first];
            if (self.dag.kind(head) == DagEdge::Enter) != (path.starts == Start::Entry)
                || data.begin != wanted_begin
                || Some(&(data.block.position() as u32)) != path.blocks.first()
            {
                continue;
            }
            let mut number = self.numbering.value(head);
            let mut node = graph.target(head);
            for &next in &path.blocks[1..] {
                let step = graph.out_edges(node).iter().copied().find(|&edge| {
                    matches!(self.dag.kind(edge), DagEdge::Flow(_))
                        && self.graph.block(Piece::new(graph.target(edge).position())).position()
                            == next as usize
                });
                let Some(step) = step else { continue 'starts };
                number += self.numbering.value(step);
                node = graph.target(step);
            }
            for &tail in graph.out_edges(node) {
                if graph.target(tail) != self.dag.exit() {
                    continue;
                }
                let found = number + self.numbering.value(tail);
                if self.decode(found).as_ref() == Some(path) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// Whether an edge that was taken out because it closes a loop leads here.
    fn is_loop_head(&self, piece: Piece) -> bool {
        let flow = &self.graph.flow;
        flow.in_edges(piece).iter().any(|&edge| !self.cuts.contains(&edge) && self.ends_path(edge))
    }

    /// How a path ends with this edge of the graph, at which one does, and how
    /// the next one starts.
    pub fn crossing(&self, flow: Edge) -> (End, Start) {
        let target = self.graph.flow.target(flow);
        let to = self.graph.block(target).position() as u32;
        let is_cut = self.cuts.contains(&flow);
        let starts = if self.is_loop_head(target) { Start::Loop } else { Start::Cut };
        (if is_cut { End::Cut(to) } else { End::Loop(to) }, starts)
    }

    /// Whether a path that ends with `block` is counted before it: nothing can
    /// happen in it but a return.
    pub fn is_counted_early(&self, block: Block) -> bool {
        let mut pieces = self.graph.pieces.iter();
        pieces.any(|(piece, data)| data.block == block && self.early[piece.position()])
    }

    /// The edges of the graph that leave a block.
    pub fn edges_of(&self, block: Block) -> impl Iterator<Item = Edge> {
        // The pieces of a block are next to each other.
        let pieces = &self.graph.pieces;
        let at = pieces.values().as_slice().partition_point(|piece| piece.block < block);
        let own =
            (at..pieces.len()).map(Piece::new).take_while(move |it| pieces[*it].block == block);
        own.flat_map(|piece| self.graph.flow.out_edges(piece).iter().copied())
    }

    /// The call in tail position that ends `block`, behind which only a shared
    /// return follows: the activation ends with it, and is counted as having
    /// reached that return.
    pub fn tail_call_of(&self, block: Block) -> Option<(Block, Inst)> {
        let found =
            self.edges_of(block).find_map(|edge| Some((edge, *self.tail_calls.get(&edge)?)));
        let (edge, call) = found.filter(|(edge, _)| !self.ends_path(*edge))?;
        Some((self.graph.block(self.graph.flow.target(edge)), call))
    }

    /// Whether a path ends with this edge of the graph.
    pub fn ends_path(&self, flow: Edge) -> bool {
        let source = DagNode::new(self.graph.flow.source(flow).position());
        let edges = self.dag.graph().out_edges(source);
        edges.iter().any(|&edge| self.dag.kind(edge) == DagEdge::LoopEnd(flow))
    }

    /// How often each edge of the graph is taken: see [`Self::new`].
    pub fn weights(&self, unit: &Unit, function: Func, taken: Option<&BlockEdges>) -> Vec<u64> {
        weigh(&unit.functions[function], &self.graph, taken)
    }
}

/// Whether the paths that end with a piece may be counted on the edges that
/// lead to it: it is a whole block that leaves the function, nothing in it can
/// fail or go elsewhere, and all its edges have a place.
fn is_early(function: &Function, graph: &FunctionGraph, piece: Piece) -> bool {
    let data = graph.pieces[piece];
    let into = graph.flow.in_edges(piece);
    let returns = match data.leave {
        Some(Leave::Function(inst)) => matches!(function.insts[inst].op, Op::Return),
        _ => false,
    };
    let is_harmless = |inst: Inst| match &function.insts[inst].op {
        Op::Phi { .. } | Op::Select | Op::Compare | Op::Address { .. } | Op::Return => true,
        Op::Compute { opcode } => !DIVISIONS.contains(opcode),
        _ => false,
    };
    returns
        && data.begin == Begin::Block
        && piece != graph.entry()
        && !into.is_empty()
        && into.iter().all(|&edge| graph.joint(edge) == Joint::Edge)
        && function.blocks[data.block].insts().all(is_harmless)
}

/// LLVM's C API opcode numbers of what can fail by itself: `udiv`, `sdiv`,
/// `urem`, `srem`.
const DIVISIONS: [u16; 4] = [14, 15, 17, 18];

/// Makes edges that enter a loop cheaper to cut: behind the cut the sum is a
/// constant in the loop's first round, as it is in all others, and what ends
/// with the loop's bottom is counted without it.
fn prefer_loop_entries(graph: &FunctionGraph, weights: &mut [u64]) {
    let search = DepthFirst::new(&graph.flow, graph.entry());
    let retreats = |edge: Edge| search.kind(edge) == EdgeKind::Retreating;
    for piece in graph.flow.nodes() {
        let into = graph.flow.in_edges(piece);
        if into.iter().any(|&edge| retreats(edge)) {
            for &edge in into.iter().filter(|&&edge| !retreats(edge)) {
                weights[edge.position()] /= LOOP_ENTRY;
            }
        }
    }
}

/// By how much; measured on bzip2, whose large functions have to be cut.
const LOOP_ENTRY: u64 = 16;

/// How often edges between blocks are taken; those that are missing, never.
pub type BlockEdges = BTreeMap<(u32, u32), u64>;

fn weigh(function: &Function, graph: &FunctionGraph, taken: Option<&BlockEdges>) -> Vec<u64> {
    let Some(taken) = taken else { return guess_frequencies(function, graph) };
    let block = |piece: Piece| graph.block(piece).position() as u32;
    let weight = |edge: Edge| {
        let ends = (block(graph.flow.source(edge)), block(graph.flow.target(edge)));
        match graph.joint(edge) {
            Joint::Edge | Joint::Computed => taken.get(&ends).copied().unwrap_or(0),
            // Paths end there anyway.
            Joint::Jump(_) | Joint::Twice(_) => 0,
        }
    };
    graph.flow.edges().map(weight).collect()
}
