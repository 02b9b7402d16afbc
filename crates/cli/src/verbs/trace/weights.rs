//! How often each place of the traced graph is thought to be passed: guessed from
//! the shape of functions, or counted in an earlier run.

use std::collections::BTreeMap;

use backtrail_graph::Index;
use backtrail_ir::program::{Object, Program};
use backtrail_ir::{Block, Func, Function, Unit};
use backtrail_profile::frequency::{GUESSED_ENTRIES, guess_frequencies};
use backtrail_profile::function_graph::{FunctionGraph, Joint};
use backtrail_profile::unit_plan::Weights;
use backtrail_trace::icfg::from_program::{Begin, ProgramGraph};
use backtrail_trace::icfg::{Node, PlaceKind, WayKind};

/// What is known of a function: how often its blocks and edges are passed.
struct Counted {
    blocks: Vec<u64>,
    edges: BTreeMap<(usize, usize), u64>,
}

impl Counted {
    fn new(function: &Function, entries: u64, edges: BTreeMap<(usize, usize), u64>) -> Self {
        let mut blocks = vec![0u64; function.blocks.len()];
        blocks.first_mut().into_iter().for_each(|first| *first = entries);
        for (&(_, to), &count) in &edges {
            blocks[to] = blocks[to].saturating_add(count);
        }
        Self { blocks, edges }
    }

    fn of_run(unit: &Unit, func: Func, weights: &Weights) -> Self {
        let (entries, edges) = weights.get(unit, func);
        let edges =
            edges.into_iter().map(|((from, to), count)| ((from as usize, to as usize), count));
        Self::new(&unit.functions[func], entries, edges.collect())
    }

    fn guessed(unit: &Unit, func: Func) -> Self {
        let function = &unit.functions[func];
        let mut edges = BTreeMap::new();
        if let Ok(graph) = FunctionGraph::new(unit, func) {
            let guesses = guess_frequencies(function, &graph);
            for (edge, guess) in graph.flow.edges().zip(guesses) {
                if matches!(graph.joint(edge), Joint::Edge | Joint::Computed) {
                    let ends = [graph.flow.source(edge), graph.flow.target(edge)];
                    let [from, to] = ends.map(|piece| graph.block(piece).position());
                    let sum = edges.entry((from, to)).or_insert(0u64);
                    *sum = sum.saturating_add(guess);
                }
            }
        }
        Self::new(function, GUESSED_ENTRIES, edges)
    }
}

/// The weight of each place.
pub fn place_weights(
    program: &Program<'_>,
    graph: &ProgramGraph,
    weights: Option<&Weights>,
) -> Vec<u64> {
    let icfg = &graph.icfg;
    let mut known: BTreeMap<(Object, Func), Counted> = BTreeMap::new();
    for &(object, func) in graph.functions.values().flatten() {
        let Some(unit) = program.unit(object) else { continue };
        let counted = match weights {
            Some(weights) => Counted::of_run(unit, func, weights),
            None => Counted::guessed(unit, func),
        };
        known.insert((object, func), counted);
    }
    let block_of = |node: Node| -> Option<(&Counted, Block)> {
        let (object, func) = graph.functions[icfg.nodes()[node].routine]?;
        let function = &program.unit(object)?.functions[func];
        let block = match graph.begins[node] {
            Begin::Block(block) => block,
            Begin::After(inst) | Begin::Unseen(Some(inst)) => {
                let number = inst.position() as u32;
                let blocks = function.blocks.values().as_slice();
                Block::new(blocks.partition_point(|block| block.end <= number))
            }
            Begin::Unseen(None) => return None,
        };
        Some((known.get(&(object, func))?, block))
    };
    let weight = |place| match icfg.place(place) {
        PlaceKind::Node(node) => {
            block_of(node).map_or(1, |(counted, block)| counted.blocks[block.position()])
        }
        PlaceKind::Way(way) => {
            let data = icfg.ways()[way];
            let Some((counted, from)) = block_of(data.from) else { return 1 };
            if let WayKind::Step(to) = data.kind
                && let Begin::Block(to) = graph.begins[to]
            {
                return counted.edges.get(&(from.position(), to.position())).copied().unwrap_or(0);
            }
            counted.blocks[from.position()]
        }
    };
    (0..icfg.place_count()).map(|place| weight(Index::new(place))).collect()
}
