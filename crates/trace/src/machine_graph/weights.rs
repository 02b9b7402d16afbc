//! How often blocks are thought to be passed.
//!
//! By the shape of the code: ten times as often with each loop around, as often as
//! the calls of the routine together, no more than a million times for any one
//! reason. Crude, and enough to keep witnesses out of inner loops where there is a
//! choice; counts of an earlier run are better.

use backtrail_graph::{Components, Digraph, Index};

use super::MachineGraph;
use crate::icfg::{Node, PlaceKind, Role, WayKind};
use backtrail_machine::code::{Callee, Code, Exit};

const MOST: u64 = 1_000_000;

/// Weights of blocks.
pub(super) fn guess(code: &Code) -> Vec<u64> {
    let edges: Vec<(Node, Node)> = (0..code.blocks.len())
        .flat_map(|block| {
            let own = code.blocks[block].routine;
            let next = match &code.blocks[block].exit {
                Exit::Blocks(next) => next.clone(),
                Exit::BlockOrTail(next, _) | Exit::Call(_, Some(next)) => vec![*next],
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
                Exit::Blocks(blocks) => {
                    let others = blocks.iter().map(|&to| code.blocks[to].routine);
                    others.filter(|&it| it != data.routine).for_each(&mut call);
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

/// Weights of all places from those of blocks: a way out of a block is passed no
/// more often than the block, nor than the block it leads to.
pub(super) fn by_place(graph: &MachineGraph, code: &Code, weights: &[u64]) -> Vec<u64> {
    let icfg = &graph.icfg;
    let mut of_node = vec![1u64; icfg.nodes().len()];
    for (block, &node) in graph.nodes.iter().enumerate() {
        of_node[node.position()] = weights.get(block).copied().unwrap_or(1);
    }
    for (&block, &hub) in &graph.hubs {
        of_node[hub.position()] = weights.get(block).copied().unwrap_or(1);
    }
    debug_assert_eq!(code.blocks.len(), graph.nodes.len());
    let weight = |place| match icfg.place(place) {
        PlaceKind::Node(node) => of_node[node.position()],
        PlaceKind::Way(way) => {
            let data = icfg.ways()[way];
            let from = of_node[data.from.position()];
            let to = match data.kind {
                WayKind::Step(to) if icfg.nodes()[to].role != Role::Hub => of_node[to.position()],
                WayKind::Tail(callee) => of_node[icfg.routines()[callee].entry.position()],
                WayKind::End => 1,
                _ => from,
            };
            from.min(to)
        }
    };
    (0..icfg.place_count()).map(|place| weight(Index::new(place))).collect()
}
