//! Regions: stretches of acyclic code that are entered and left on few edges.
//!
//! A run of a function is a sequence of ways through regions. What has to be
//! recorded is by which edge each region was entered and, where ways within it
//! meet again, by which of them one came; everything else follows. That takes
//! far fewer bits than numbers of whole paths (Ball and Larus, *Efficient Path
//! Profiling*, MICRO 1996): a plain loop costs one bit a round, and one
//! instruction.
//!
//! - Every node is of one region. A region's *head* is the entry of the function,
//!   or any node that was not taken into a region that leads to it.
//! - Edges within a region are *inner*; all others *cross*. Crossing edges into a
//!   region are numbered, the most frequent first.
//! - Inner edges have values: of those that lead to a node, one has 0, and each of
//!   the others the number of ways to the node by those before it. So the sum of
//!   the values of a way to v is less than the number of ways from the head to v,
//!   and each way has its own. (It is the numbering of the paper, upside down:
//!   theirs tells the ways on from a node.)
//! - An edge may cross into the midst of a region. The sum begins with 0 there:
//!   there is a way from the head of which all values are 0, and ways that begin
//!   with it have their own sums. So where regions meet, the most frequent edge
//!   costs nothing, and a loop's head may be of the region before it.
//! - Where the most frequent edge into a head has no block of its own, a probe on it
//!   takes a jump and copies besides. Then it may be *free*: nothing is done on it,
//!   and the head itself shifts the record. That an edge was the free one is told by
//!   a bit that stays 0 at the low end of the fields of the region it leaves; any
//!   other edge into the region puts a 1 behind them.
//! - Edges of computed gotos have no place for a probe. They never cross, and
//!   their value is 0.
//! - If the region of the function's entry takes no node that several edges lead
//!   to, there is one way to each of its nodes, and nothing has to be recorded
//!   before it is left: many calls end there.
//!
//! Which nodes are taken into regions is tried in several ways ([`Policy`]), and
//! what is thought to cost least is kept ([`crate::traced`]).

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{Edge, Index, PathDag};
use backtrail_plan::LeftOut;
use backtrail_profile::function_graph::{Begin, Joint, Piece};

use crate::trace_graph::TraceGraph;

/// The regions of a function.
#[derive(Debug, Clone)]
pub struct Regions {
    /// The head of each node's region; none for nodes that are never reached.
    heads: Vec<Option<Piece>>,
    /// Whether an edge of the graph crosses, by number; and its value.
    crosses: Vec<bool>,
    values: Vec<u32>,
    /// The ways from the head to each node.
    ways: Vec<u64>,
    /// By head, how its region is entered and told.
    regions: BTreeMap<Piece, Region>,
    /// The edges that are free.
    free: BTreeSet<Edge>,
}

/// What regions are made of.
#[derive(Debug, Clone, Default)]
pub struct Parts {
    /// The heads.
    pub heads: BTreeSet<Piece>,
    /// Which edges cross, by number.
    pub crosses: Vec<bool>,
    /// The numbers and values of edges.
    pub values: Vec<u32>,
    /// The edges that are free.
    pub free: BTreeSet<Edge>,
}

/// A region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// The edges that cross into it, by number; none stands for the function's
    /// entry.
    pub entries: Vec<Option<Edge>>,
    /// Bits of their codes.
    pub entry_bits: u32,
    /// Bits of sums in it.
    pub sum_bits: u32,
    /// Bits below the sum that stay 0: one if a free edge leaves the region.
    pub spare_bits: u32,
    /// Whether the first of its entries is free.
    pub has_free: bool,
}

impl Region {
    /// Bits of a field, at most.
    pub fn bits(&self) -> u32 {
        self.low_bits() + self.entry_bits
    }

    /// Bits of a field below the code of the entry.
    pub fn low_bits(&self) -> u32 {
        self.spare_bits + self.sum_bits
    }

    /// What tells that it was entered by the edge with this number, which is not
    /// free.
    pub fn code(&self, number: u32) -> u32 {
        if self.has_free { (number - 1) << 1 | 1 } else { number }
    }

    /// The inverse of [`Self::code`].
    pub fn number(&self, code: u64) -> u64 {
        if self.has_free { (code >> 1) + 1 } else { code }
    }

    /// Bits of a field if it was entered by the edge with this number.
    fn bits_of(&self, number: usize) -> u32 {
        if self.has_free && number == 0 { self.low_bits() } else { self.bits() }
    }
}

/// Whether an edge could be free: what leads to its target is edges alone, and there
/// is a place for code where these meet.
pub fn may_be_free(graph: &TraceGraph, edge: Edge) -> bool {
    let target = graph.flow.target(edge);
    let into = graph.flow.in_edges(target);
    target != graph.entry()
        && graph.whole.pieces[target].begin == Begin::Block
        && graph.whole.flow.in_edges(target).len() == into.len()
        && into.iter().all(|&it| graph.joint(it) == Joint::Edge)
}

/// Bits that tell so many things apart.
fn bits_for(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

impl Regions {
    /// Divides `graph` so that fields have no more than `widest` bits, as far as
    /// that is possible.
    pub fn new(
        graph: &TraceGraph,
        layout: &Layout,
        weights: &[u64],
        widest: u32,
        policy: Policy,
    ) -> Result<Self, LeftOut> {
        let nodes = graph.flow.node_count();
        // A field may get a bit more.
        let widest = widest - u32::from(policy.free);
        let mut growing = Growing {
            graph,
            layout,
            weights,
            widest,
            policy,
            head_of: vec![None; nodes],
            ways: vec![0; nodes],
            crosses: vec![true; graph.flow.edge_count()],
            regions: BTreeMap::new(),
        };
        let mut heads = BTreeSet::new();
        let mut values = vec![0u32; graph.flow.edge_count()];
        for &piece in &layout.order {
            let Some((head, inner)) = growing.take(piece)? else {
                growing.begin(piece);
                heads.insert(piece);
                continue;
            };
            let mut before = 0u64;
            for edge in inner {
                growing.crosses[edge.position()] = false;
                values[edge.position()] =
                    u32::try_from(before).map_err(|_| LeftOut::ComputedTargets)?;
                before += growing.ways[graph.flow.source(edge).position()];
            }
            growing.join(piece, head, before);
        }
        let (head_of, crosses) = (growing.head_of, growing.crosses);
        let mut entries: BTreeMap<Piece, Vec<Edge>> = BTreeMap::new();
        for edge in graph.flow.edges() {
            let reached = head_of[graph.flow.source(edge).position()].is_some();
            if let Some(head) = head_of[graph.flow.target(edge).position()]
                && crosses[edge.position()]
                && reached
            {
                entries.entry(head).or_default().push(edge);
            }
        }
        let mut free = BTreeSet::new();
        if policy.free {
            let reached = |it: &Edge| head_of[graph.flow.source(*it).position()].is_some();
            let chosen = |&head: &Piece| choose_free(graph, weights, head).filter(reached);
            free.extend(heads.iter().filter_map(chosen));
        }
        for list in entries.values_mut() {
            list.sort_by_key(|edge| (!free.contains(edge), Reverse(weights[edge.position()])));
            for (number, edge) in list.iter().enumerate() {
                values[edge.position()] = number as u32;
            }
        }
        let parts = Parts { heads, crosses, values, free };
        Self::assemble(graph, layout, parts).ok_or(LeftOut::ComputedTargets)
    }

    /// The same with other free edges, if that is possible.
    pub fn with_free(
        &self,
        graph: &TraceGraph,
        layout: &Layout,
        free: BTreeSet<Edge>,
    ) -> Option<Self> {
        let mut values = self.values.clone();
        for region in self.regions.values() {
            let own = |edge: &&Edge| !free.contains(edge);
            let (others, first): (Vec<Edge>, Vec<Edge>) =
                region.entries.iter().flatten().partition(|edge| own(edge));
            for (number, edge) in first.into_iter().chain(others).enumerate() {
                values[edge.position()] = number as u32;
            }
        }
        let heads = self.regions.keys().copied().collect();
        Self::assemble(graph, layout, Parts { heads, crosses: self.crosses.clone(), values, free })
    }

    /// The regions that these are the parts of, if that is consistent.
    pub fn assemble(graph: &TraceGraph, layout: &Layout, parts: Parts) -> Option<Self> {
        let Parts { heads: chosen, crosses, values, free } = parts;
        let (nodes, edges) = (graph.flow.node_count(), graph.flow.edge_count());
        if values.len() != edges || crosses.len() != edges || !chosen.contains(&graph.entry()) {
            return None;
        }
        let mut heads: Vec<Option<Piece>> = vec![None; nodes];
        let mut ways = vec![0u64; nodes];
        let mut regions: BTreeMap<Piece, Region> = BTreeMap::new();
        let mut most: BTreeMap<Piece, u64> = BTreeMap::new();
        for &piece in &layout.order {
            let into = graph.flow.in_edges(piece).iter().copied();
            let reached = |edge: &Edge| heads[graph.flow.source(*edge).position()].is_some();
            let mut inner: Vec<Edge> =
                into.filter(|it| !crosses[it.position()] && reached(it)).collect();
            if chosen.contains(&piece) {
                if !inner.is_empty() {
                    return None;
                }
                heads[piece.position()] = Some(piece);
                ways[piece.position()] = 1;
                most.insert(piece, 1);
                regions.insert(piece, Region::default());
                continue;
            }
            inner.sort_by_key(|edge| values[edge.position()]);
            let head = heads[graph.flow.source(*inner.first()?).position()]?;
            let mut before = 0u64;
            for edge in inner {
                let source = graph.flow.source(edge).position();
                let fits = layout.forward[edge.position()] && heads[source] == Some(head);
                if !fits || u64::from(values[edge.position()]) != before {
                    return None;
                }
                before = before.checked_add(ways[source])?;
            }
            heads[piece.position()] = Some(head);
            ways[piece.position()] = before;
            let most = most.get_mut(&head)?;
            *most = before.max(*most);
        }
        for edge in graph.flow.edges() {
            let source = heads[graph.flow.source(edge).position()];
            let target = heads[graph.flow.target(edge).position()];
            let (Some(_), Some(head)) = (source, target) else { continue };
            if !crosses[edge.position()] {
                // Seen above, unless it leads back.
                match layout.forward[edge.position()] {
                    true => continue,
                    false => return None,
                }
            }
            if graph.joint(edge) == Joint::Computed {
                return None;
            }
            let region = regions.get_mut(&head)?;
            region.entries.push(Some(edge));
            if free.contains(&edge) {
                let fits = may_be_free(graph, edge) && head == graph.flow.target(edge);
                if !fits || region.has_free || values[edge.position()] != 0 {
                    return None;
                }
                region.has_free = true;
                regions.get_mut(&source?)?.spare_bits = 1;
            }
        }
        // The entry of the function comes last: to set a number costs nothing.
        regions.get_mut(&graph.entry())?.entries.push(None);
        for (head, region) in &mut regions {
            let number = |entry: &Option<Edge>| entry.map_or(u32::MAX, |it| values[it.position()]);
            region.entries.sort_by_key(number);
            let mut numbers = region.entries.iter().flatten().zip(0u32..);
            if !numbers.all(|(edge, number)| values[edge.position()] == number) {
                return None;
            }
            region.entry_bits = match region.has_free {
                true => 1 + bits_for(region.entries.len() as u64 - 1),
                false => bits_for(region.entries.len() as u64),
            };
            region.sum_bits = bits_for(most[head]);
        }
        let reached = |edge: &Edge| heads[graph.flow.source(*edge).position()].is_some();
        let free = free.into_iter().filter(reached).collect();
        Some(Self { heads, crosses, values, ways, regions, free })
    }

    /// The heads of all regions.
    pub fn heads(&self) -> impl Iterator<Item = Piece> {
        self.regions.keys().copied()
    }

    /// The values of all edges.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// The free edges.
    pub fn free(&self) -> &BTreeSet<Edge> {
        &self.free
    }

    /// The heads that shift the record themselves, and by how much.
    pub fn shifting(&self) -> impl Iterator<Item = (Piece, u32)> {
        let shifting = self.regions.iter().filter(|(_, region)| region.has_free);
        shifting.map(|(head, region)| (*head, region.low_bits())).filter(|(_, bits)| *bits > 0)
    }

    /// Whether a node is the head of a region that has a free edge.
    pub fn is_shifting(&self, piece: Piece) -> bool {
        self.regions.get(&piece).is_some_and(|region| region.has_free)
    }

    /// Whether an edge crosses into a region.
    pub fn crosses(&self, edge: Edge) -> bool {
        self.crosses[edge.position()]
    }

    /// The region of a node, if the node is reached.
    pub fn of(&self, piece: Piece) -> Option<&Region> {
        self.regions.get(&self.heads.get(piece.position()).copied().flatten()?)
    }

    /// Whether a node is of the region with which the function begins.
    pub fn is_entry(&self, piece: Piece, graph: &TraceGraph) -> bool {
        self.heads[piece.position()] == Some(graph.entry())
    }

    /// The most bits that so many fields can take, one behind another: each region's
    /// are its own and those of a region that leads to it, one field fewer.
    pub fn most_bits(&self, graph: &TraceGraph, fields: u32) -> u32 {
        let mut most: BTreeMap<Piece, u32> = self.regions.keys().map(|&head| (head, 0)).collect();
        for _ in 0..fields {
            let with_one_more = |(&head, region): (&Piece, &Region)| {
                let of_entry = |(number, entry): (usize, &Option<Edge>)| {
                    let goes_on = |edge: &Edge| !matches!(graph.joint(*edge), Joint::Twice(_));
                    let before = entry.filter(goes_on).and_then(|edge| {
                        let from = self.heads[graph.flow.source(edge).position()]?;
                        most.get(&from).copied()
                    });
                    region.bits_of(number) + before.unwrap_or(0)
                };
                (head, region.entries.iter().enumerate().map(of_entry).max().unwrap_or(0))
            };
            most = self.regions.iter().map(with_one_more).collect();
        }
        most.into_values().max().unwrap_or(0)
    }

    /// Bits of the widest field.
    pub fn widest(&self) -> u32 {
        self.regions.values().map(Region::bits).max().unwrap_or(0)
    }

    /// The way from `from` to `to` in a region with this sum of values, if there
    /// is one: its nodes.
    pub fn way(&self, graph: &TraceGraph, from: Piece, to: Piece, sum: u64) -> Option<Vec<Piece>> {
        let mut way = vec![to];
        let (mut here, mut left) = (to, sum);
        if sum >= self.ways[to.position()] {
            return None;
        }
        while here != from {
            let inner = graph.flow.in_edges(here).iter().filter(|&&edge| !self.crosses(edge));
            let fits = inner.filter(|edge| u64::from(self.values[edge.position()]) <= left);
            let edge = fits.max_by_key(|edge| self.values[edge.position()])?;
            left -= u64::from(self.values[edge.position()]);
            here = graph.flow.source(*edge);
            way.push(here);
        }
        way.reverse();
        (left == 0).then_some(way)
    }
}

/// Which nodes are taken into a region that leads to them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Those that several regions lead to: into that of the most frequent edge.
    pub meeting: bool,
    /// Heads of loops.
    pub loops: bool,
    /// Those that several edges lead to, into the region of the function's entry.
    pub entry: bool,
    /// And whether edges may be free.
    pub free: bool,
}

impl Policy {
    /// All there are.
    pub fn all() -> impl Iterator<Item = Self> {
        let with = |number: u32| Self {
            meeting: number & 1 != 0,
            loops: number & 2 != 0,
            entry: number & 4 != 0,
            free: number & 8 != 0,
        };
        (0..16).map(with)
    }
}

/// Regions while they grow, in topological order.
struct Growing<'a> {
    graph: &'a TraceGraph,
    layout: &'a Layout,
    weights: &'a [u64],
    widest: u32,
    policy: Policy,
    head_of: Vec<Option<Piece>>,
    ways: Vec<u64>,
    crosses: Vec<bool>,
    /// The edges that cross into each region, and the most ways to a node of it.
    regions: BTreeMap<Piece, (u64, u64)>,
}

impl Growing<'_> {
    /// The region that a node is taken into, and the edges by which it is.
    fn take(&self, piece: Piece) -> Result<Option<(Piece, Vec<Edge>)>, LeftOut> {
        let (graph, layout) = (self.graph, self.layout);
        let into = graph.flow.in_edges(piece);
        let head = |edge: Edge| self.head_of[graph.flow.source(edge).position()];
        let computed: Vec<Edge> =
            layout.computed(graph, piece).filter(|&it| head(it).is_some()).collect();
        let weight = |edge: Edge| self.weights[edge.position()];
        let forward = into.iter().copied().filter(|it| layout.forward[it.position()]);
        let mut forward: Vec<Edge> = forward.filter(|&it| head(it).is_some()).collect();
        forward.sort_by_key(|&edge| {
            let saved = weight(edge).saturating_mul(1 + graph.split_cost(edge));
            (graph.joint(edge) != Joint::Computed, Reverse(saved), edge)
        });
        let chosen = match computed[..] {
            [edge] if layout.forward[edge.position()] => head(edge),
            [] => self.choose(piece, &forward),
            _ => return Err(LeftOut::ComputedTargets),
        };
        let Some(chosen) = chosen else { return Ok(None) };
        let own = forward.into_iter().filter(|&edge| head(edge) == Some(chosen));
        let (entries, most) = self.regions[&chosen];
        let mut inner: Vec<Edge> = Vec::new();
        let mut count = 0u64;
        for edge in own {
            let more = count.saturating_add(self.ways[graph.flow.source(edge).position()]);
            // What does not become inner crosses.
            let crossing = entries + (into.len() - inner.len() - 1) as u64;
            let bits = bits_for(crossing) + bits_for(more.max(most));
            if bits > self.widest && (!inner.is_empty() || computed.is_empty()) {
                // With fewer inner edges there are more that cross.
                match inner.is_empty() {
                    true => return Ok(None),
                    false => break,
                }
            }
            inner.push(edge);
            count = more;
        }
        let fits = {
            let crossing = entries + (into.len() - inner.len()) as u64;
            bits_for(crossing) + bits_for(count.max(most)) <= self.widest
        };
        let must = !computed.is_empty();
        Ok((must || fits && !inner.is_empty()).then_some((chosen, inner)))
    }

    /// The region that a node may be taken into, if no computed goto leads to it.
    fn choose(&self, piece: Piece, forward: &[Edge]) -> Option<Piece> {
        let graph = self.graph;
        let begins = graph.whole.pieces[piece].begin != Begin::Block;
        let is_loop = self.layout.starts.contains(&piece);
        if piece == graph.entry() || begins || is_loop && !self.policy.loops {
            return None;
        }
        let head = |edge: &Edge| self.head_of[graph.flow.source(*edge).position()];
        let heads: Vec<Piece> = forward.iter().filter_map(head).collect();
        let is_single = graph.flow.in_edges(piece).len() == 1;
        let meets = heads.windows(2).any(|pair| pair[0] != pair[1]);
        if meets && !self.policy.meeting {
            return None;
        }
        heads.into_iter().find(|&head| is_single || self.policy.entry || head != graph.entry())
    }

    /// Begins a region.
    fn begin(&mut self, piece: Piece) {
        let into = self.graph.flow.in_edges(piece).len() as u64;
        let entries = into + u64::from(piece == self.graph.entry());
        self.head_of[piece.position()] = Some(piece);
        self.ways[piece.position()] = 1;
        self.regions.insert(piece, (entries, 1));
    }

    /// Adds a node, to which there are so many ways, to a region.
    fn join(&mut self, piece: Piece, head: Piece, ways: u64) {
        let into = self.graph.flow.in_edges(piece).iter();
        let crossing = into.filter(|it| self.crosses[it.position()]).count() as u64;
        self.head_of[piece.position()] = Some(head);
        self.ways[piece.position()] = ways;
        if let Some((entries, most)) = self.regions.get_mut(&head) {
            *entries += crossing;
            *most = ways.max(*most);
        }
    }
}

/// The edge into a head that had better be free, if there is one: it has no place
/// for a probe, and is taken more often than the others together.
pub fn choose_free(graph: &TraceGraph, weights: &[u64], head: Piece) -> Option<Edge> {
    let weight = |edge: &Edge| weights[edge.position()];
    let into = graph.flow.in_edges(head);
    let most = *into.iter().max_by_key(|it| (weight(it), Reverse(**it)))?;
    let all = into.iter().map(|it| u128::from(weight(it))).sum::<u128>();
    let is_frequent = u128::from(weight(&most)) * 2 > all;
    let fits = into.len() > 1 && is_frequent && graph.split_cost(most) > 0;
    (fits && may_be_free(graph, most)).then_some(most)
}

/// What does not depend on how regions are chosen.
pub struct Layout {
    /// Nodes, each before those that follow it without a loop.
    order: Vec<Piece>,
    /// Edges that neither close a loop nor must cross.
    forward: Vec<bool>,
    /// Nodes that paths begin at in any case.
    starts: BTreeSet<Piece>,
}

impl Layout {
    /// Of a graph.
    pub fn new(graph: &TraceGraph) -> Self {
        let dag = PathDag::with_cuts(&graph.flow, graph.entry(), &graph.forced_cuts());
        let nodes = graph.flow.node_count();
        let order = dag.reverse_topological().iter().rev().map(|node| node.position());
        let order = order.filter(|&node| node < nodes).map(Piece::new).collect();
        let mut forward = vec![false; graph.flow.edge_count()];
        let mut starts = BTreeSet::from([graph.entry()]);
        for edge in dag.graph().edges() {
            match dag.kind(edge) {
                DagEdge::Flow(flow) => forward[flow.position()] = true,
                DagEdge::LoopStart => {
                    starts.insert(Piece::new(dag.graph().target(edge).position()));
                }
                _ => {}
            }
        }
        Self { order, forward, starts }
    }

    /// The edges of computed gotos that lead to a node.
    fn computed(&self, graph: &TraceGraph, piece: Piece) -> impl Iterator<Item = Edge> {
        let into = graph.flow.in_edges(piece).iter().copied();
        into.filter(|&edge| graph.joint(edge) == Joint::Computed)
    }
}
