//! How often blocks are thought to be passed, and ways between them.
//!
//! As an earlier run did ([`Counts`]), or by the shape of the code: ten times as often with each loop around, as often as
//! the calls of the routine together, no more than a million times for any one
//! reason. Crude, and enough to keep witnesses out of inner loops where there is a
//! choice; counts of an earlier run are better.

use backtrail_graph::{Components, Digraph, Index};

use super::MachineGraph;
use super::counts::Counts;
use crate::icfg::{Node, PlaceKind, Role, WayKind};
use backtrail_machine::code::{Callee, Code, Exit};

const MOST: u64 = 1_000_000;
const UNCOUNTED: u64 = 1 << 40;

/// How often a plan expects places to be passed.
#[derive(Debug, Clone)]
pub enum Weights<'a> {
    /// By block: guessed by the shape of the code.
    Guessed(Vec<u64>),
    /// As a run did.
    Counted(&'a Counts<'a>),
}

/// Weights of blocks.
pub(super) fn guess(code: &Code) -> Vec<u64> {
    let edges: Vec<(Node, Node)> = (0..code.blocks.len())
        .flat_map(|block| {
            let own = code.blocks[block].routine;
            let next = match &code.blocks[block].exit {
                Exit::Blocks(next) | Exit::BlocksOrTail(next, _) => next.clone(),
                Exit::Call(_, Some(next)) => vec![*next],
                _ => Vec::new(),
            };
            let same = next.into_iter().filter(move |&to| code.blocks[to].routine == own);
            same.map(move |to| (Node::new(block), Node::new(to)))
        })
        .collect();
    let mut weights = vec![1u64; code.blocks.len()];
    // Loops, then the loops in them: without the edges into a loop's first block.
    let mut rest = edges;
    for _ in 0..6 {
        let components = Components::new(&Digraph::new(weights.len(), rest.iter().copied()));
        let within = |edge: &&(Node, Node)| components.of(edge.0) == components.of(edge.1);
        let inner: Vec<(Node, Node)> = rest.iter().filter(within).copied().collect();
        if inner.is_empty() {
            break;
        }
        let mut in_loop = vec![false; weights.len()];
        let mut first = vec![usize::MAX; components.count()];
        for &(from, to) in &inner {
            for node in [from, to] {
                in_loop[node.position()] = true;
                let first = &mut first[components.of(node).position()];
                *first = (*first).min(node.position());
            }
        }
        for (weight, _) in weights.iter_mut().zip(&in_loop).filter(|(_, inside)| **inside) {
            *weight = (*weight * 10).min(MOST);
        }
        let is_entry =
            |edge: &(Node, Node)| first[components.of(edge.1).position()] == edge.1.position();
        rest = inner.into_iter().filter(|edge| !is_entry(edge)).collect();
    }
    multiply_by_calls(code, &mut weights);
    weights
}

/// Routines run as often as they are called, twice around for calls that come late.
fn multiply_by_calls(code: &Code, weights: &mut [u64]) {
    let own = weights.to_vec();
    let mut runs = vec![1u64; code.routines.len()];
    for _ in 0..3 {
        let mut next = vec![0u64; code.routines.len()];
        for (block, data) in code.blocks.iter().enumerate() {
            let times = own[block].saturating_mul(runs[data.routine]).min(MOST);
            let mut call = |routine: usize| next[routine] = next[routine].saturating_add(times);
            match &data.exit {
                Exit::Call(Callee::Routine(routine), _) | Exit::Tail(Callee::Routine(routine)) => {
                    call(*routine);
                }
                Exit::Blocks(blocks) | Exit::BlocksOrTail(blocks, _) => {
                    let others = blocks.iter().map(|&to| code.blocks[to].routine);
                    others.filter(|&it| it != data.routine).for_each(&mut call);
                    if let Exit::BlocksOrTail(_, Callee::Routine(routine)) = &data.exit {
                        call(*routine);
                    }
                }
                _ => {}
            }
        }
        runs = next.into_iter().map(|it| it.clamp(1, MOST)).collect();
    }
    for (block, weight) in weights.iter_mut().enumerate() {
        *weight = weight.saturating_mul(runs[code.blocks[block].routine]).min(MOST * MOST);
    }
}

/// Weights of all places. A way out of a block is passed as often as was counted;
/// where that is not known, no more often than the block, nor than the block it leads
/// to.
pub(super) fn by_place(graph: &MachineGraph, code: &Code, weights: &Weights<'_>) -> Vec<u64> {
    let icfg = &graph.icfg;
    let (blocks, counts) = match weights {
        Weights::Guessed(blocks) => (&blocks[..], None),
        Weights::Counted(counts) => (&counts.blocks[..], Some(*counts)),
    };
    // Nodes that stand for no block, and for no call either, are not counted: as
    // often as can be, so that nothing is thought to be passed without them.
    let unknown = if counts.is_some() { UNCOUNTED } else { 1 };
    let mut of_node = vec![unknown; icfg.nodes().len()];
    for (block, &node) in graph.nodes.iter().enumerate() {
        of_node[node.position()] = blocks.get(block).copied().unwrap_or(1);
    }
    let mut calls_of_hub = vec![0; icfg.nodes().len()];
    let mut block_of_hub = vec![None; icfg.nodes().len()];
    for (&block, &hub) in &graph.hubs {
        let calls = counts.map_or(0, |it| it.callbacks[block]);
        calls_of_hub[hub.position()] = calls;
        block_of_hub[hub.position()] = Some(block);
        of_node[hub.position()] = blocks.get(block).copied().unwrap_or(1) + calls;
    }
    debug_assert_eq!(code.blocks.len(), graph.nodes.len());
    let guessed = |from: Node, kind: WayKind| {
        let from = of_node[from.position()];
        let to = match kind {
            WayKind::Step(to) if icfg.nodes()[to].role != Role::Hub => of_node[to.position()],
            WayKind::Tail(callee) => of_node[icfg.routines()[callee].entry.position()],
            WayKind::End => 1,
            _ => from,
        };
        from.min(to)
    };
    let counted = |counts: &Counts<'_>, from: Node, kind: WayKind| {
        let block = match icfg.nodes()[from].role {
            Role::Block(block) => Some(block as usize),
            _ => block_of_hub[from.position()],
        };
        let to = match kind {
            WayKind::Step(to) => Some(to),
            WayKind::Tail(callee) => Some(icfg.routines()[callee].entry),
            WayKind::Call { .. } if block_of_hub[from.position()].is_some() => {
                return Some(calls_of_hub[from.position()]);
            }
            _ => None,
        };
        let to = to.and_then(|to| match icfg.nodes()[to].role {
            Role::Block(to) => Some(to),
            _ => None,
        });
        let is_choice = icfg.ways_of(from).len() > 1;
        let (block, to) = (block?, to?);
        is_choice.then(|| counts.steps.get(&(block as u32, to)).copied().unwrap_or(0))
    };
    let weight = |place| match icfg.place(place) {
        PlaceKind::Node(node) => of_node[node.position()],
        PlaceKind::Way(way) => {
            let data = icfg.ways()[way];
            let known = counts.and_then(|counts| counted(counts, data.from, data.kind));
            known.unwrap_or_else(|| guessed(data.from, data.kind))
        }
    };
    (0..icfg.place_count()).map(|place| weight(Index::new(place))).collect()
}
