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
//!   a loop's head, a node that several regions lead to, or one where more ways
//!   would meet than a field can tell apart. All other nodes are of the region
//!   that all their predecessors are of.
//! - An edge that leads to a head, or back, *crosses*. Crossing edges into a
//!   region are numbered, the most frequent first.
//! - Other edges have values: of the edges that lead to a node, one has 0, and
//!   each of the others the number of ways to the node by those before it. So the
//!   sum of the values of a way to v is less than the number of ways from the
//!   head to v, and each way has its own. (It is the numbering of the paper,
//!   upside down: theirs tells the ways on from a node.)
//! - Edges of computed gotos have no place for a probe. They never cross, and
//!   their value is 0; what else leads to their targets does cross, if it must,
//!   into the midst of a region. The sum then begins with 0 there: there is a way
//!   from the head of which all values are 0, and ways that begin with it have
//!   their own sums.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{Components, Edge, Index, PathDag};
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
}

/// A region.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Region {
    /// The edges that cross into it, by number; none stands for the function's
    /// entry.
    pub entries: Vec<Option<Edge>>,
    /// Bits of their numbers.
    pub entry_bits: u32,
    /// Bits of sums in it.
    pub sum_bits: u32,
}

impl Region {
    /// Bits of a field.
    pub fn bits(&self) -> u32 {
        self.entry_bits + self.sum_bits
    }
}

/// Bits that tell so many things apart.
fn bits_for(count: u64) -> u32 {
    u64::BITS - count.saturating_sub(1).leading_zeros()
}

impl Regions {
    /// Divides `graph` so that fields have no more than `widest` bits, as far as
    /// that is possible.
    pub fn new(graph: &TraceGraph, weights: &[u64], widest: u32) -> Result<Self, LeftOut> {
        let mut heads = BTreeSet::new();
        let layout = Layout::new(graph);
        let mut ways = vec![0u64; graph.flow.node_count()];
        let mut head_of: Vec<Option<Piece>> = vec![None; graph.flow.node_count()];
        for &piece in &layout.order {
            let within = layout.within(graph, piece, &head_of)?;
            let joins = match within {
                Within::No => None,
                Within::Of(head) => {
                    let from = layout.inner_edges(graph, piece, head, &head_of);
                    let sum = from.map(|edge| ways[graph.flow.source(edge).position()]);
                    let count = sum.fold(0u64, u64::saturating_add);
                    let entries = bits_for(graph.flow.in_edges(head).len() as u64 + 1);
                    let most = 1u64 << widest.saturating_sub(entries).min(40);
                    let must = layout.computed(graph, piece).next().is_some();
                    (must || count <= most).then_some((head, count))
                }
            };
            let (head, count) = joins.unwrap_or((piece, 1));
            if head == piece {
                heads.insert(piece);
            }
            head_of[piece.position()] = Some(head);
            ways[piece.position()] = count;
        }
        // Values: the most frequent first.
        let mut values = vec![0u32; graph.flow.edge_count()];
        let mut crosses = vec![true; graph.flow.edge_count()];
        for &piece in &layout.order {
            let Some(head) = head_of[piece.position()].filter(|&head| head != piece) else {
                continue;
            };
            let mut inner: Vec<Edge> = layout.inner_edges(graph, piece, head, &head_of).collect();
            inner.sort_by_key(|&edge| {
                (graph.joint(edge) != Joint::Computed, Reverse(weights[edge.position()]))
            });
            let mut before = 0u64;
            for edge in inner {
                crosses[edge.position()] = false;
                values[edge.position()] =
                    u32::try_from(before).map_err(|_| LeftOut::ComputedTargets)?;
                before += ways[graph.flow.source(edge).position()];
            }
        }
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
        for list in entries.values_mut() {
            list.sort_by_key(|edge| Reverse(weights[edge.position()]));
            for (number, edge) in list.iter().enumerate() {
                values[edge.position()] = number as u32;
            }
        }
        Self::assemble(graph, heads, values).ok_or(LeftOut::ComputedTargets)
    }

    /// The regions with these heads, whose edges have these values, if that is
    /// consistent.
    pub fn assemble(graph: &TraceGraph, chosen: BTreeSet<Piece>, values: Vec<u32>) -> Option<Self> {
        let layout = Layout::new(graph);
        let nodes = graph.flow.node_count();
        if values.len() != graph.flow.edge_count() || !chosen.contains(&graph.entry()) {
            return None;
        }
        let mut heads: Vec<Option<Piece>> = vec![None; nodes];
        let mut ways = vec![0u64; nodes];
        let mut crosses = vec![true; graph.flow.edge_count()];
        let mut regions: BTreeMap<Piece, Region> = BTreeMap::new();
        let mut most: BTreeMap<Piece, u64> = BTreeMap::new();
        for &piece in &layout.order {
            if chosen.contains(&piece) {
                heads[piece.position()] = Some(piece);
                ways[piece.position()] = 1;
                most.insert(piece, 1);
                regions.insert(piece, Region::default());
                continue;
            }
            let Within::Of(head) = layout.within(graph, piece, &heads).ok()? else { return None };
            let mut inner: Vec<Edge> = layout.inner_edges(graph, piece, head, &heads).collect();
            inner.sort_by_key(|edge| values[edge.position()]);
            let mut before = 0u64;
            for edge in inner {
                if u64::from(values[edge.position()]) != before {
                    return None;
                }
                crosses[edge.position()] = false;
                before = before.checked_add(ways[graph.flow.source(edge).position()])?;
            }
            heads[piece.position()] = Some(head);
            ways[piece.position()] = before;
            let most = most.get_mut(&head)?;
            *most = before.max(*most);
        }
        for edge in graph.flow.edges().filter(|edge| crosses[edge.position()]) {
            let source = heads[graph.flow.source(edge).position()];
            let target = heads[graph.flow.target(edge).position()];
            let (Some(_), Some(head)) = (source, target) else { continue };
            if graph.joint(edge) == Joint::Computed {
                return None;
            }
            regions.get_mut(&head)?.entries.push(Some(edge));
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
            region.entry_bits = bits_for(region.entries.len() as u64);
            region.sum_bits = bits_for(most[head]);
        }
        Some(Self { heads, crosses, values, ways, regions })
    }

    /// The heads of all regions.
    pub fn heads(&self) -> impl Iterator<Item = Piece> {
        self.regions.keys().copied()
    }

    /// The values of all edges.
    pub fn values(&self) -> &[u32] {
        &self.values
    }

    /// Whether an edge crosses into a region.
    pub fn crosses(&self, edge: Edge) -> bool {
        self.crosses[edge.position()]
    }

    /// The region of a node, if the node is reached.
    pub fn of(&self, piece: Piece) -> Option<&Region> {
        self.regions.get(&self.heads.get(piece.position()).copied().flatten()?)
    }

    /// The most bits that so many fields can take, one behind another. A region
    /// that is in no loop has one field at most.
    pub fn most_bits(&self, graph: &TraceGraph, fields: u32) -> u32 {
        let components = Components::new(&graph.flow);
        let part = |piece: Piece| components.of(piece);
        let repeats =
            |edge: &Edge| part(graph.flow.source(*edge)) == part(graph.flow.target(*edge));
        let mut once = Vec::new();
        let mut widest = 0;
        for region in self.regions.values() {
            match region.entries.iter().flatten().any(repeats) {
                true => widest = widest.max(region.bits()),
                false => once.push(region.bits()),
            }
        }
        once.sort_by_key(|&bits| Reverse(bits));
        let once = once.into_iter().chain(std::iter::repeat(0));
        once.take(fields as usize).map(|bits| bits.max(widest)).sum()
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

/// Whether a node can be of a region that it is not the head of.
enum Within {
    No,
    Of(Piece),
}

/// What does not depend on how regions are chosen.
struct Layout {
    /// Nodes, each before those that follow it without a loop.
    order: Vec<Piece>,
    /// Edges that neither close a loop nor must cross.
    forward: Vec<bool>,
    /// Nodes that paths begin at in any case.
    starts: BTreeSet<Piece>,
}

impl Layout {
    fn new(graph: &TraceGraph) -> Self {
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

    /// The region that a node may be of, if its predecessors' are known.
    fn within(
        &self,
        graph: &TraceGraph,
        piece: Piece,
        heads: &[Option<Piece>],
    ) -> Result<Within, LeftOut> {
        let head = |edge: Edge| heads[graph.flow.source(edge).position()];
        let computed: Vec<Edge> =
            self.computed(graph, piece).filter(|&it| head(it).is_some()).collect();
        match computed[..] {
            [] => {}
            [edge] if self.forward[edge.position()] => {
                return head(edge).map(Within::Of).ok_or(LeftOut::ComputedTargets);
            }
            _ => return Err(LeftOut::ComputedTargets),
        }
        let begins = graph.whole.pieces[piece].begin != Begin::Block;
        if self.starts.contains(&piece) || begins {
            return Ok(Within::No);
        }
        let into = graph.flow.in_edges(piece).iter().copied();
        let mut regions = into.filter_map(head).collect::<BTreeSet<Piece>>().into_iter();
        Ok(match (regions.next(), regions.next()) {
            (Some(head), None) => Within::Of(head),
            _ => Within::No,
        })
    }

    /// The edges that lead to a node from its own region without a loop.
    fn inner_edges<'a>(
        &'a self,
        graph: &'a TraceGraph,
        piece: Piece,
        head: Piece,
        heads: &'a [Option<Piece>],
    ) -> impl Iterator<Item = Edge> + 'a {
        let into = graph.flow.in_edges(piece).iter().copied();
        into.filter(move |&edge| {
            self.forward[edge.position()] && heads[graph.flow.source(edge).position()] == Some(head)
        })
    }
}
