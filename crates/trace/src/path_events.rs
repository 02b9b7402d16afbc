//! A whole acyclic path as one event.
//!
//! Where one run observes all that is needed, a routine's witnesses come in
//! sequences that its graph allows. So they need not be logged one by one: the
//! paths of the routine are numbered (Ball and Larus, *Efficient Path Profiling*,
//! MICRO 1996), the number of the path under way is kept in a register, and where
//! a path ends its number is logged. Whoever reads the log expands it to the
//! witnesses on that path ([`PathEvents::expand`]); nothing behind that knows of
//! paths, and what tells executions apart is what was verified of the witnesses.
//!
//! A path ends
//! - with an edge that closes a loop, or that is cut to keep numbers small;
//! - before a call after which something may be logged: so the events of callees
//!   come between those of their caller's paths, in the order in which they
//!   happened, and frames that are left have nothing pending;
//! - before a jump to a computed address, and before a return.
//!
//! Where no witness can be on a path that ends, none is logged. In a plan for one
//! run every loop has a witness or such a call, so there are never more events
//! than there would be witnesses, but for paths on which none happens to be.
//!
//! # Loops without decisions
//! A loop through which there is only one way, entered at its head alone, does not
//! end paths: its iterations are counted. The sum has the count above the
//! [`PATH_BITS`] of the path's number, so that an iteration is one addition, and
//! where the path ends the count is logged before the number, if it is not 0. On a
//! path there is one such loop at most: before another one the path is cut. (A
//! count that passes 48 bits, after a day in one loop, would be taken for less.)
//!
//! A run that is stopped loses, besides what it lost before, the path under way.

use std::collections::BTreeSet;

use backtrail_abi::log::PATH_BITS;
use backtrail_graph::path_cuts::compute_cuts;
use backtrail_graph::path_dag::{DagEdge, DagNode};
use backtrail_graph::{Digraph, Edge, Index, PathDag, PathIncrements, PathNumbering, define_index};
use backtrail_ir::{Block, Function, Inst, Op};
use backtrail_plan::{Action, Place as CodePlace, Probe};

use crate::distribution::{Costs, Profile, Witness};
use crate::icfg::from_program::Begin;
use crate::icfg::{Node, Role, Routine, WayKind};
use crate::probes::{ProbePlaces, block_of};

/// The most paths a routine may have, unless it has more edges.
const LIMIT: u64 = 1 << PATH_BITS;

define_index!(
    /// A node of the routine that is in its code, by position; behind all of them
    /// stands whatever is called.
    Piece, "b"
);

/// The numbered paths of a routine, and what is on them.
#[derive(Debug, Clone)]
pub struct PathEvents {
    dag: PathDag,
    numbering: PathNumbering,
    /// By piece: the witness that it is, unless it is logged by itself.
    at: Vec<Option<Witness>>,
    /// By edge of the routine's graph: the witness on it.
    on: Vec<Option<Witness>>,
    /// The loops whose iterations are counted.
    loops: Vec<CountedLoop>,
    /// The probes; sums begin at 0.
    probes: Vec<Probe>,
}

/// A loop with one way through it.
#[derive(Debug, Clone)]
struct CountedLoop {
    head: Piece,
    /// The edges of an iteration, but the last.
    inner: Vec<Edge>,
    /// The edge that closes it, which the graph of paths does not have.
    closing: Flow,
    /// The witnesses of an iteration, from behind the head to the head.
    witnesses: Vec<Witness>,
}

/// What a path has on it. With a count of iterations, `iteration` comes as often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct OnPath {
    /// The witnesses up to the head of a counted loop, or all.
    pub first: Vec<Witness>,
    /// Those of an iteration, if the path passes the head of a counted loop.
    pub iteration: Vec<Witness>,
    /// Those behind.
    pub last: Vec<Witness>,
}

/// An edge of the routine's graph, while that is made.
#[derive(Debug, Clone)]
struct Flow {
    from: Piece,
    to: Piece,
    witness: Option<Witness>,
    weight: u64,
    /// Where paths that end with it are logged, if they always do.
    ends_at: Option<CodePlace>,
    is_cut: bool,
}

impl PathEvents {
    /// The paths of a routine with witnesses of `profile`; none if it has no code
    /// to put probes into, or no witness but those that are logged by themselves.
    pub(crate) fn new(
        places: &ProbePlaces<'_, '_>,
        routine: Routine,
        profile: &Profile,
        costs: &Costs,
    ) -> Option<Self> {
        let function = places.function(routine)?.2;
        let icfg = places.icfg();
        let nodes = icfg.routines()[routine].nodes.iter().copied();
        let nodes: Vec<Node> = nodes.filter(|&node| icfg.nodes()[node].role != Role::Hub).collect();
        let piece = |node: Node| nodes.binary_search(&node).ok().map(Piece::new);
        let at: Vec<Option<Witness>> = nodes
            .iter()
            .map(|&node| {
                let is_alone = places.is_logged_alone(node);
                profile.witness(icfg.place_of_node(node)).filter(|_| !is_alone)
            })
            .collect();
        let sink = Piece::new(nodes.len());
        let mut starts: BTreeSet<Piece> = BTreeSet::new();
        let mut flow: Vec<Flow> = Vec::new();
        for (position, &node) in nodes.iter().enumerate() {
            let from = Piece::new(position);
            if icfg.nodes()[node].landing || matches!(places.begin(node), Begin::After(_)) {
                starts.insert(from);
            }
            let ways: Vec<_> = icfg.ways_of(node).collect();
            let leaves_at = places.leaves_at(function, node);
            for &way in &ways {
                let target = match icfg.ways()[way].kind {
                    WayKind::Step(to) => piece(to),
                    _ => None,
                };
                let place = icfg.place_of_way(way);
                let (witness, weight) = (profile.witness(place), costs.weight(place));
                match (target, leaves_at) {
                    (Some(to), None) => {
                        let ends_at = None;
                        flow.push(Flow { from, to, witness, weight, ends_at, is_cut: false });
                    }
                    (Some(to), Some(_)) => {
                        starts.insert(to);
                    }
                    (None, _) => {}
                }
            }
            if leaves_at.is_some() && !ways.is_empty() {
                // Of several ways to leave by, none can be observed where it begins.
                let witness = match ways[..] {
                    [way] => profile.witness(icfg.place_of_way(way)),
                    _ => None,
                };
                let ends_at = leaves_at;
                flow.push(Flow { from, to: sink, witness, weight: 0, ends_at, is_cut: true });
            }
        }
        if at.iter().chain(flow.iter().map(|edge| &edge.witness)).all(Option::is_none) {
            return None;
        }
        // What is a start is set up there, by whatever edge it is reached.
        flow.iter_mut().for_each(|edge| edge.is_cut |= starts.contains(&edge.to));
        flow.extend(starts.iter().map(|&to| {
            let (witness, weight, ends_at) = (None, 0, None);
            Flow { from: sink, to, witness, weight, ends_at, is_cut: true }
        }));
        let entry = piece(icfg.routines()[routine].entry)?;
        let mut events = Self::numbered(&mut flow, entry, at.into_iter().chain([None]).collect())?;
        events.probes = events.place(places, function, &nodes, &starts, &flow);
        Some(events)
    }

    /// Numbers the paths; edges that close counted loops are taken from `flow`.
    fn numbered(flow: &mut Vec<Flow>, entry: Piece, at: Vec<Option<Witness>>) -> Option<Self> {
        let graph_of =
            |flow: &[Flow]| Digraph::new(at.len(), flow.iter().map(|edge| (edge.from, edge.to)));
        let cuts_of = |flow: &[Flow]| -> BTreeSet<Edge> {
            let cut = flow.iter().enumerate().filter(|(_, edge)| edge.is_cut);
            cut.map(|(position, _)| Edge::new(position)).collect()
        };
        let graph = graph_of(flow);
        let weights: Vec<u64> = flow.iter().map(|edge| edge.weight).collect();
        let forced = cuts_of(flow);
        for cut in compute_cuts(&graph, entry, &weights, LIMIT, &forced, &BTreeSet::new()) {
            flow[cut.position()].is_cut = true;
        }
        let dag = PathDag::with_cuts(&graph, entry, &cuts_of(flow));
        let found = counted_loops(&dag, flow, &at);
        let closing: BTreeSet<usize> =
            found.iter().map(|(closing, _)| closing.position()).collect();
        let mut kept: Vec<Flow> = Vec::new();
        let mut renumbered: Vec<Option<Edge>> = Vec::new();
        for (position, edge) in flow.iter().enumerate() {
            let is_kept = !closing.contains(&position);
            renumbered.push(is_kept.then(|| Edge::new(kept.len())));
            kept.extend(is_kept.then(|| edge.clone()));
        }
        let heads: BTreeSet<Piece> =
            found.iter().map(|(closing, _)| flow[closing.position()].to).collect();
        let kept_graph = graph_of(&kept);
        let mut kept_dag = PathDag::with_cuts(&kept_graph, entry, &cuts_of(&kept));
        while let Some(head) = second_head(&kept_dag, &heads) {
            kept.iter_mut().filter(|it| it.to == head).for_each(|it| it.is_cut = true);
            kept_dag = PathDag::with_cuts(&kept_graph, entry, &cuts_of(&kept));
        }
        let numbering = PathNumbering::new(&kept_dag)?;
        // Cuts may have changed what closes a loop, where it has several entries.
        let is_whole = found.iter().flat_map(|(_, inner)| inner).all(|edge| {
            let to = DagNode::new(flow[edge.position()].to.position());
            let into = kept_dag.graph().in_edges(to);
            let kept = renumbered[edge.position()];
            matches!(into, [it] if kept.is_some_and(|edge| kept_dag.kind(*it) == DagEdge::Flow(edge)))
        });
        if found.is_empty() || numbering.count() > LIMIT || !is_whole {
            let numbering = PathNumbering::new(&dag)?;
            let on = flow.iter().map(|edge| edge.witness).collect();
            return Some(Self { dag, numbering, at, on, loops: Vec::new(), probes: Vec::new() });
        }
        let on: Vec<Option<Witness>> = kept.iter().map(|edge| edge.witness).collect();
        let loops = found
            .into_iter()
            .map(|(closing, inner)| {
                let closing = flow[closing.position()].clone();
                let inner: Vec<Edge> =
                    inner.into_iter().filter_map(|edge| renumbered[edge.position()]).collect();
                let mut witnesses = Vec::new();
                for edge in &inner {
                    witnesses.extend(on[edge.position()]);
                    witnesses.extend(at[kept[edge.position()].to.position()]);
                }
                witnesses.extend(closing.witness);
                witnesses.extend(at[closing.to.position()]);
                CountedLoop { head: closing.to, inner, closing, witnesses }
            })
            .collect();
        *flow = kept;
        Some(Self { dag: kept_dag, numbering, at, on, loops, probes: Vec::new() })
    }

    /// How many numbers there are.
    pub fn count(&self) -> u64 {
        self.numbering.count()
    }

    /// The probes, if the event of path 0 is `first`.
    pub fn probes(&self, first: u32) -> impl Iterator<Item = Probe> + '_ {
        let added = i64::from(first);
        // Where iterations are counted, the sum is of the function alone.
        let is_counted = !self.loops.is_empty();
        self.probes.iter().map(move |probe| {
            let action = match probe.action {
                Action::SetSum(value) if !is_counted => Action::SetSum(value.wrapping_add(added)),
                Action::LogSum(value) if is_counted => Action::LogSum(value.wrapping_add(added)),
                Action::LogCountedSum { add, .. } => Action::LogCountedSum { add, first },
                action => action,
            };
            Probe { at: probe.at, action }
        })
    }

    /// The witnesses on the path with this number, in order, if one has it.
    pub fn expand(&self, number: u64) -> Option<OnPath> {
        let mut on_path = OnPath::default();
        let mut witnesses = Vec::new();
        for edge in self.numbering.path(&self.dag, number)? {
            let target = self.dag.graph().target(edge).position();
            match self.dag.kind(edge) {
                DagEdge::Enter | DagEdge::LoopStart => witnesses.extend(self.at[target]),
                DagEdge::Flow(flow) => {
                    witnesses.extend(self.on[flow.position()]);
                    witnesses.extend(self.at[target]);
                }
                DagEdge::LoopEnd(flow) => {
                    witnesses.extend(self.on[flow.position()]);
                    break;
                }
                DagEdge::Leave => break,
            }
            if let Some(it) = self.loops.iter().find(|it| it.head.position() == target) {
                on_path.first = std::mem::take(&mut witnesses);
                on_path.iteration.clone_from(&it.witnesses);
            }
        }
        let place =
            if on_path.iteration.is_empty() { &mut on_path.first } else { &mut on_path.last };
        *place = witnesses;
        Some(on_path)
    }

    /// By node of the graph of paths: whether a witness may have been passed when
    /// a path comes there; and whether something is logged behind it.
    fn reach(&self) -> (Vec<bool>, Vec<bool>) {
        let graph = self.dag.graph();
        let mut before = vec![false; graph.node_count()];
        for &node in self.dag.reverse_topological().iter().rev() {
            for &edge in graph.out_edges(node) {
                let target = graph.target(edge);
                let on = match self.dag.kind(edge) {
                    DagEdge::Flow(flow) => self.on[flow.position()].is_some(),
                    _ => false,
                };
                let at = self.at.get(target.position()).copied().flatten().is_some();
                let round = self.loops.iter().any(|it| it.head.position() == target.position());
                before[target.position()] |= before[node.position()] || on || at || round;
            }
        }
        let mut behind = vec![false; graph.node_count()];
        for &node in self.dag.reverse_topological() {
            let is_needed = |&edge: &Edge| match self.dag.kind(edge) {
                DagEdge::LoopEnd(flow) => {
                    before[node.position()] || self.on[flow.position()].is_some()
                }
                _ => behind[graph.target(edge).position()],
            };
            behind[node.position()] = graph.out_edges(node).iter().any(is_needed);
        }
        (before, behind)
    }

    /// By node of the graph of paths: whether iterations may have been counted.
    fn counted(&self) -> Vec<bool> {
        let graph = self.dag.graph();
        let mut counted = vec![false; graph.node_count()];
        self.loops.iter().for_each(|it| counted[it.head.position()] = true);
        for &node in self.dag.reverse_topological().iter().rev() {
            for &edge in graph.out_edges(node) {
                counted[graph.target(edge).position()] |= counted[node.position()];
            }
        }
        counted
    }

    /// Where sums are set, changed and logged.
    fn place(
        &self,
        places: &ProbePlaces<'_, '_>,
        function: &Function,
        nodes: &[Node],
        starts: &BTreeSet<Piece>,
        flow: &[Flow],
    ) -> Vec<Probe> {
        let graph = self.dag.graph();
        let weight = |edge: Edge| match self.dag.kind(edge) {
            DagEdge::Flow(edge) => flow[edge.position()].weight.max(1),
            // Constants of what is set or logged.
            _ => 0,
        };
        let weights: Vec<u64> = graph.edges().map(weight).collect();
        let increments = PathIncrements::new(&self.dag, &self.numbering, &weights, &[]);
        let (before, behind) = self.reach();
        let counted = self.counted();
        let mut probes = Vec::new();
        let mut heads = vec![None; nodes.len() + 1];
        for edge in graph.edges() {
            let to = graph.target(edge).position();
            let action = Action::SetSum(increments.increment(edge));
            match self.dag.kind(edge) {
                DagEdge::Enter if behind[to] => {
                    probes.push(Probe { at: CodePlace::Entry, action });
                }
                DagEdge::LoopStart if behind[to] && to < nodes.len() => {
                    if starts.contains(&Piece::new(to)) {
                        let place = places.icfg().place_of_node(nodes[to]);
                        probes.extend(places.code_place(place).map(|at| Probe { at, action }));
                    } else {
                        heads[to] = Some(action);
                    }
                }
                _ => {}
            }
        }
        let edge_place = |edge: &Flow| {
            let [from, to] = [edge.from, edge.to].map(|piece| {
                let node = *nodes.get(piece.position())?;
                places.block(function, node)
            });
            Some(CodePlace::Edge { from: from?, to: to? })
        };
        for edge in graph.edges() {
            let add = increments.increment(edge);
            match self.dag.kind(edge) {
                DagEdge::Flow(way) => {
                    let target = graph.target(edge).position();
                    if let (true, true, Some(at)) =
                        (add != 0, behind[target], edge_place(&flow[way.position()]))
                    {
                        probes.push(Probe { at, action: Action::AddSum(add) });
                    }
                }
                DagEdge::LoopEnd(way) => {
                    let ending = &flow[way.position()];
                    let Some(at) = ending.ends_at.or_else(|| edge_place(ending)) else { continue };
                    if before[graph.source(edge).position()] || ending.witness.is_some() {
                        let action = match counted[graph.source(edge).position()] {
                            true => Action::LogCountedSum { add, first: 0 },
                            false => Action::LogSum(add),
                        };
                        probes.push(Probe { at, action });
                    }
                    let head = heads[ending.to.position()];
                    probes.extend(head.map(|action| Probe { at, action }));
                }
                _ => {}
            }
        }
        // Back to the sum at the head, and one more iteration.
        for it in self.loops.iter().filter(|it| behind[it.head.position()]) {
            let is_inner = |edge: &Edge| match self.dag.kind(*edge) {
                DagEdge::Flow(flow) => it.inner.contains(&flow),
                _ => false,
            };
            let inner = graph.edges().filter(is_inner);
            let sum = inner.fold(0i64, |sum, edge| sum.wrapping_add(increments.increment(edge)));
            let action = Action::AddSum((1i64 << PATH_BITS).wrapping_sub(sum));
            probes.extend(edge_place(&it.closing).map(|at| Probe { at, action }));
        }
        probes
    }
}

/// The loops with one way through them, entered at their heads alone: the edge
/// that closes each, and the others of an iteration. Of loops with the same head,
/// the heaviest.
fn counted_loops(
    dag: &PathDag,
    flow: &[Flow],
    at_piece: &[Option<Witness>],
) -> Vec<(Edge, Vec<Edge>)> {
    let graph = dag.graph();
    let mut found: Vec<(Edge, Vec<Edge>)> = Vec::new();
    let ends = graph.edges().filter_map(|edge| match dag.kind(edge) {
        DagEdge::LoopEnd(closing) if !flow[closing.position()].is_cut => Some(closing),
        _ => None,
    });
    'ends: for closing in ends {
        let head = flow[closing.position()].to.position();
        let mut at = flow[closing.position()].from.position();
        let mut inner = Vec::new();
        while at != head {
            let [into] = graph.in_edges(Index::new(at)) else { continue 'ends };
            let DagEdge::Flow(edge) = dag.kind(*into) else { continue 'ends };
            inner.push(edge);
            at = graph.source(*into).position();
        }
        inner.reverse();
        // What nothing leads out of may have no witness, and needs no count.
        let has_witness = inner.iter().chain([&closing]).any(|edge| {
            let edge = &flow[edge.position()];
            edge.witness.is_some() || at_piece[edge.to.position()].is_some()
        });
        if has_witness {
            found.push((closing, inner));
        }
    }
    found.sort_by_key(|(closing, _)| {
        let Flow { to, weight, .. } = &flow[closing.position()];
        (*to, std::cmp::Reverse(*weight))
    });
    found.dedup_by_key(|(closing, _)| flow[closing.position()].to);
    // A loop around another one has a decision: whether to go round in that.
    let heads: BTreeSet<Piece> =
        found.iter().map(|(closing, _)| flow[closing.position()].to).collect();
    found.retain(|(_, inner)| inner.iter().all(|it| !heads.contains(&flow[it.position()].to)));
    found
}

/// A head that is reached by an edge from behind another one.
fn second_head(dag: &PathDag, heads: &BTreeSet<Piece>) -> Option<Piece> {
    let graph = dag.graph();
    let mut counted = vec![false; graph.node_count()];
    for &node in dag.reverse_topological().iter().rev() {
        let head = heads.iter().find(|it| it.position() == node.position());
        if let Some(head) = head {
            if counted[node.position()] {
                return Some(*head);
            }
            counted[node.position()] = true;
        }
        for &edge in graph.out_edges(node) {
            counted[graph.target(edge).position()] |= counted[node.position()];
        }
    }
    None
}

impl ProbePlaces<'_, '_> {
    /// Where a node is left whose end is not a branch: before the call it ends
    /// with, the return, or the jump to a computed address.
    fn leaves_at(&self, function: &Function, node: Node) -> Option<CodePlace> {
        let icfg = self.icfg();
        let block = self.block(function, node)?;
        let last = function.blocks[block].insts().next_back()?;
        for way in icfg.ways_of(node) {
            let before = match icfg.ways()[way].kind {
                WayKind::Call { back: to, .. } | WayKind::Step(to) => match self.begin(to) {
                    Begin::After(inst) | Begin::Unseen(Some(inst)) => Some(inst),
                    Begin::Block(_) => {
                        matches!(function.insts[last].op, Op::IndirectJump).then_some(last)
                    }
                    Begin::Unseen(None) => None,
                },
                WayKind::Return | WayKind::Leave | WayKind::End => Some(last),
                // Such a call stands before the return.
                WayKind::Tail(_) => last.position().checked_sub(1).map(Inst::new),
            };
            if let Some(inst) = before {
                return Some(CodePlace::Before(inst));
            }
        }
        None
    }

    /// The block that a node is in, if it is in one.
    pub(crate) fn block(&self, function: &Function, node: Node) -> Option<Block> {
        match self.begin(node) {
            Begin::Block(block) => Some(block),
            Begin::After(inst) => Some(block_of(function, inst)),
            Begin::Unseen(inst) => inst.map(|inst| block_of(function, inst)),
        }
    }
}
