//! The search for regions that cost least.
//!
//! How large regions may be, and which nodes they take ([`Policy`]), is tried in many
//! ways, for records of one word and of several: a longer record takes more
//! instructions where a region is entered, and has larger regions. A record must hold
//! so many fields, whichever way the function goes; fields may be wider than an equal
//! share, since wide ones do not follow each other in most functions. What is thought
//! to cost least is kept, and then each free edge is tried the other way.
//!
//! Cost: some dozens of times that of dividing the function once.

use backtrail_graph::{Edge, Index};
use backtrail_plan::LeftOut;
use backtrail_profile::function_graph::Piece;

use crate::edge_changes::Change;
use crate::frequency::GUESSED_ENTRIES;
use crate::regions::{Layout, Policy, Regions, choose_free};
use crate::trace_graph::TraceGraph;
use crate::traced::{MOST_BITS, changes};

/// The narrowest fields that are worth a try.
const LEAST_BITS: u32 = 5;

/// How much wider than an equal share fields may be.
const WIDER: [u32; 4] = [0, 1, 2, 4];

/// How often records may be made larger, and how often they are in any case.
const MOST_TRIES: u32 = 8;
const ENOUGH_TRIES: u32 = 3;

/// In functions with more edges than this not everything is tried, and of free edges
/// no more than so many.
const MANY_EDGES: usize = 4_000;
const MOST_FREE: usize = 40;

/// What is searched for.
pub struct Search<'a> {
    graph: &'a TraceGraph,
    layout: Layout,
    weights: &'a [u64],
    /// How many fields a record is to hold.
    fields: u32,
}

/// What was found: its cost, the regions, and the words of a record.
type Found = (u128, Regions, u32);

impl<'a> Search<'a> {
    /// In a graph, whose edges are taken so often.
    pub fn new(graph: &'a TraceGraph, weights: &'a [u64], fields: u32) -> Self {
        Self { graph, layout: Layout::new(graph), weights, fields }
    }

    /// The regions that cost least, and how many words a record has.
    pub fn best(&self) -> Result<(Regions, u32), LeftOut> {
        let least = (self.fields * LEAST_BITS).div_ceil(u64::BITS);
        let wider = if self.graph.flow.edge_count() > MANY_EDGES { &WIDER[..1] } else { &WIDER };
        let mut best: Option<Found> = None;
        for tried in 1..=MOST_TRIES {
            let words = least * tried;
            let share = words * u64::BITS / self.fields;
            let mut any_fits = false;
            for (more, policy) in wider.iter().flat_map(|it| Policy::all().map(move |p| (it, p))) {
                let widest = (share + more).min(MOST_BITS);
                let layout = &self.layout;
                let regions = Regions::new(self.graph, layout, self.weights, widest, policy)?;
                let fits = self.fits(&regions, words);
                any_fits |= fits;
                if fits || tried == MOST_TRIES && best.is_none() {
                    let cost = self.cost(&regions, words);
                    if best.as_ref().is_none_or(|(least, ..)| cost < *least) {
                        best = Some((cost, regions, words));
                    }
                }
            }
            if any_fits && tried >= ENOUGH_TRIES {
                break;
            }
        }
        let (_, regions, words) = self.improve(best.expect("the last try counts"));
        Ok((regions, words))
    }

    fn fits(&self, regions: &Regions, words: u32) -> bool {
        regions.most_bits(self.graph, self.fields) <= words * u64::BITS
    }

    /// Tries each edge that could be free the other way.
    fn improve(&self, mut best: Found) -> Found {
        let heads = best.1.heads();
        let chosen = |head: Piece| choose_free(self.graph, self.weights, head);
        let mut edges: Vec<Edge> = heads.filter_map(chosen).collect();
        edges.sort_by_key(|edge| std::cmp::Reverse(self.weights[edge.position()]));
        for edge in edges.into_iter().take(MOST_FREE) {
            let mut free = best.1.free().clone();
            if !free.remove(&edge) {
                free.insert(edge);
            }
            let Some(regions) = best.1.with_free(self.graph, &self.layout, free) else { continue };
            let cost = self.cost(&regions, best.2);
            let is_narrow = regions.widest() <= MOST_BITS;
            if cost < best.0 && is_narrow && self.fits(&regions, best.2) {
                best = (cost, regions, best.2);
            }
        }
        best
    }

    /// How many instructions the probes are thought to execute, with records of so
    /// many words.
    fn cost(&self, regions: &Regions, words: u32) -> u128 {
        let (graph, weights) = (self.graph, self.weights);
        let begins_late = regions.of(graph.entry()).is_some_and(|first| first.bits() == 0);
        let begin = if begins_late { 0 } else { u128::from(GUESSED_ENTRIES) };
        let weight = |edge: Edge| u128::from(weights[edge.position()].max(1));
        let cost = |(edge, change): (Edge, Change)| match change.cost(words) {
            0 => 0,
            cost => weight(edge) * u128::from(cost + graph.split_cost(edge)),
        };
        let shift = Change { bits: 1, ..Change::default() }.cost(words);
        let at_head = |(head, _): (Piece, u32)| {
            let into = graph.flow.in_edges(head).iter();
            into.map(|&edge| weight(edge)).sum::<u128>() * u128::from(shift)
        };
        let edges = graph.flow.edges().zip(changes(graph, regions)).map(cost).sum::<u128>();
        begin + edges + regions.shifting().map(at_head).sum::<u128>()
    }
}
