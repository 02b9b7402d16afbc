//! What follows from counts of paths for what they do not count.
//!
//! In a function whose counts are not exact, paths were lost: those that were under way when
//! an activation ended early, and those that a fork's child went on with and did not end.
//! What can be told of them all the same:
//!
//! - A function that nothing but one other can call, and that was entered, was called from
//!   there: what every way to such a call leads through was executed. So was whatever every
//!   way to a block leads through that was executed.
//! - Where lost paths began is known, unless activations were inherited or calls returned
//!   twice: of the paths that should begin at a loop's head, as others ended with the edge
//!   to it, so many are missing. What cannot be reached from there without the end of a path,
//!   which would be counted, was not executed by a lost one: there, 0 is 0.
//!
//! The rest is not known. All of it is of sums over processes: if the parent of a fork's
//! child is not among them, what was executed before the fork is not in the profile, and
//! nothing follows for what leads there.
//!
//! Cost: O(instructions) for the program, and for each such function its graph times the
//! depth of its dominator tree.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::{Body, CallTargets, Target};
use backtrail_graph::{Dominators, Index};
use backtrail_ir::{Block, Inst};

use crate::derived::Counts;
use crate::function_graph::{Begin, Joint, Piece};
use crate::model::{Begun, End, Function, Inexact, Profile, Start};
use crate::path_plan::PathPlan;
use crate::skeleton::{Skeleton, Source};

/// What is to be known of a profile beside its counts.
pub(crate) struct Evidence<'s> {
    pub(crate) skeleton: &'s Skeleton<'s>,
    /// By function: whether it may have inherited activations that are in no count.
    pub(crate) may_inherit: &'s [bool],
    /// Whether the parent of some process is not among the processes.
    pub(crate) has_orphans: bool,
}

/// The blocks that call a function, each with its first such call, if all are of one
/// function and nobody else can.
type Callers = Option<(usize, CallBlocks)>;

type CallBlocks = BTreeMap<Block, Inst>;

impl Evidence<'_> {
    /// What follows, for each function whose counts are not exact.
    pub(crate) fn work_out(&self) -> Vec<Inexact> {
        let Profile { functions, .. } = &self.skeleton.profile;
        let is_inexact = |function: &Function| !function.edges_exact && function.is_instrumented();
        if !functions.iter().any(is_inexact) {
            return Vec::new();
        }
        let mut calling: BTreeMap<usize, Vec<CallBlocks>> = BTreeMap::new();
        if !self.has_orphans {
            for (callee, callers) in self.callers() {
                if functions[callee].entries > 0
                    && let Some((caller, blocks)) = callers
                {
                    calling.entry(caller).or_default().push(blocks);
                }
            }
        }
        let numbers = (0..functions.len()).filter(|&it| is_inexact(&functions[it]));
        numbers
            .filter_map(|it| self.of_function(it, calling.get(&it).map_or(&[], Vec::as_slice)))
            .collect()
    }

    /// By function: who calls it, as far as that is one function.
    fn callers(&self) -> BTreeMap<usize, Callers> {
        let targets = CallTargets::new(&self.skeleton.program);
        let body_of = |source: &Source<'_>| targets.body(source.object, source.function);
        let numbers: BTreeMap<Body, usize> = (self.skeleton.sources.iter().enumerate())
            .filter_map(|(number, source)| Some((body_of(source)?, number)))
            .collect();
        let outside = targets.entered_from_outside();
        let mut callers: BTreeMap<usize, Callers> = BTreeMap::new();
        for (caller, source) in self.skeleton.sources.iter().enumerate() {
            let function = &source.unit.functions[source.function];
            for (block, data) in function.blocks.iter() {
                for inst in data.insts() {
                    let Some(call) = function.insts[inst].op.call() else { continue };
                    let target = targets.target(source.object, function, inst, call);
                    let Target::Body(callee) = target else { continue };
                    // Whom a function calls itself, another one called before.
                    let Some(&number) = numbers.get(&callee).filter(|it| **it != caller) else {
                        continue;
                    };
                    let known = callers.entry(number).or_insert_with(|| {
                        (!outside.contains(&callee)).then(|| (caller, CallBlocks::new()))
                    });
                    match known {
                        Some((other, blocks)) if *other == caller => {
                            blocks.entry(block).or_insert(inst);
                        }
                        _ => *known = None,
                    }
                }
            }
        }
        callers
    }

    fn of_function(&self, number: usize, calling: &[CallBlocks]) -> Option<Inexact> {
        let source = &self.skeleton.sources[number];
        let function = &self.skeleton.profile.functions[number];
        let plan = source.plan()?;
        let counts = Counts::of(function);
        let ran = self.ran_blocks(source, function, &counts, calling);
        let edges = function.edges.iter().zip(&counts.edges).enumerate();
        let uncounted = edges.filter(|(_, (_, count))| **count == 0);
        let mut into = vec![0; function.blocks.len()];
        function.edges.iter().for_each(|edge| into[edge.to as usize] += 1);
        let lost = LostPaths::new(plan, function, self.may_inherit[number]);
        let (mut ran_edges, mut unknown_edges) = (Vec::new(), Vec::new());
        for (place, (edge, _)) in uncounted {
            let to = edge.to as usize;
            if ran[to].is_some() && into[to] == 1 && to != 0 {
                ran_edges.push(place as u32);
            } else if lost.edges.contains(&(edge.from, edge.to)) {
                unknown_edges.push(place as u32);
            }
        }
        let uncounted = || (0..counts.blocks.len()).filter(|&it| counts.blocks[it] == 0);
        let begun = uncounted().filter_map(|block| {
            let positions = ran[block]?;
            Some(Begun { block: block as u32, positions })
        });
        let unknown = uncounted().filter(|&it| ran[it].is_none() && lost.blocks[it]);
        Some(Inexact {
            function: number as u32,
            activations_exact: !self.may_inherit[number],
            ran: begun.collect(),
            ran_edges,
            unknown: unknown.map(|it| it as u32).collect(),
            unknown_edges,
        })
    }

    /// By block: how many of its positions are known to have been come to; nothing if it
    /// is not known to have been begun.
    fn ran_blocks(
        &self,
        source: &Source<'_>,
        function: &Function,
        counts: &Counts,
        calling: &[CallBlocks],
    ) -> Vec<Option<u32>> {
        let all = |block: usize| function.blocks[block].locations.len() as u32;
        let mut ran: Vec<Option<u32>> = (counts.blocks.iter().enumerate())
            .map(|(block, &count)| (count > 0).then(|| all(block)))
            .collect();
        if function.entries > 0 {
            ran[0] = ran[0].max(Some(source.positions_begun(Block::new(0))));
        }
        if self.has_orphans {
            return ran;
        }
        let graph = source.unit.functions[source.function].control_flow();
        let dominators = Dominators::new(&graph, Block::new(0));
        for blocks in calling {
            let mut reached = blocks.keys().copied().filter(|&it| dominators.is_reached(it));
            let mut above = reached.next();
            let others: Vec<Block> = reached.collect();
            let leads_to_all =
                |above: Block| others.iter().all(|&it| dominators.dominates(above, it));
            while let Some(block) = above.filter(|&it| !leads_to_all(it)) {
                above = dominators.immediate(block);
            }
            let Some(block) = above else { continue };
            // One that does not call it itself was left at its end.
            let positions = match blocks.get(&block) {
                Some(&call) => source.positions_up_to(block, call),
                None => all(block.position()),
            };
            ran[block.position()] = ran[block.position()].max(Some(positions));
        }
        for block in graph.nodes().filter(|&it| dominators.is_reached(it)) {
            let mut next = ran[block.position()].and(dominators.immediate(block));
            while let Some(above) = next {
                ran[above.position()] = Some(all(above.position()));
                next = dominators.immediate(above);
            }
        }
        ran
    }
}

/// Where paths that are in no count may have been.
struct LostPaths {
    blocks: Vec<bool>,
    edges: BTreeSet<(u32, u32)>,
}

impl LostPaths {
    fn new(plan: &PathPlan, function: &Function, may_inherit: bool) -> Self {
        let graph = plan.graph();
        let mut pending = starts(plan, function, may_inherit);
        let mut seen = vec![false; graph.pieces.len()];
        let mut found = Self { blocks: vec![false; function.blocks.len()], edges: BTreeSet::new() };
        while let Some(piece) = pending.pop() {
            if std::mem::replace(&mut seen[piece.position()], true) {
                continue;
            }
            let block = graph.block(piece).position() as u32;
            found.blocks[block as usize] = true;
            for &edge in graph.flow.out_edges(piece) {
                let target = graph.flow.target(edge);
                // Taken, they are counted.
                if plan.ends_path(edge) {
                    continue;
                }
                if matches!(graph.joint(edge), Joint::Edge | Joint::Computed) {
                    found.edges.insert((block, graph.block(target).position() as u32));
                }
                pending.push(target);
            }
        }
        found
    }
}

/// Where paths began that did not end, or may have.
fn starts(plan: &PathPlan, function: &Function, may_inherit: bool) -> Vec<Piece> {
    let graph = plan.graph();
    // By block, and whether within it: how many paths should begin there.
    let mut missing: BTreeMap<(u32, bool), i128> = BTreeMap::new();
    let mut entered = i128::from(function.entries);
    for path in &function.paths {
        let count = i128::from(path.count);
        match path.starts {
            Start::Entry => entered -= count,
            starts => {
                *missing.entry((path.blocks[0], starts.is_within_block())).or_default() -= count;
            }
        }
        let last = *path.blocks.last().expect("a path has blocks");
        let next = match path.ends {
            End::Loop(to) | End::Cut(to) => (to, false),
            End::CutWithin => (last, true),
            End::Exit | End::Call => continue,
        };
        *missing.entry(next).or_default() += count;
    }
    let returns_twice = graph.calls_that_return_twice().next().is_some();
    let is_unclear = may_inherit
        || returns_twice
        || function.inherited > 0
        || entered < 0
        || missing.values().any(|it| *it < 0);
    let starts_at = |piece: Piece| {
        let is_start = |edge: &backtrail_graph::Edge| plan.ends_path(*edge);
        if piece == graph.entry() && (is_unclear || entered > 0) {
            return true;
        }
        let block = graph.block(piece).position() as u32;
        let is_within = graph.pieces[piece].begin != Begin::Block;
        graph.flow.in_edges(piece).iter().any(is_start)
            && (is_unclear || missing.get(&(block, is_within)).is_some_and(|it| *it > 0))
    };
    graph.pieces.indices().filter(|&piece| starts_at(piece)).collect()
}
