//! What a copy is expected to pay for counting paths.
//!
//! The executions of probes under the weights that the plan was made with: hits,
//! which are to be made small first, and with updates of counters included. To
//! compare parts of a function, updates count for a part of a hit ([`Rate`]).

use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{Edge, EdgeSet, Index, PathIncrements};

use crate::function_graph::{Joint, Piece};
use crate::partition::interest::Interest;
use crate::partition::program::CountedFunction;

/// What updates of counters count for at most, against a hit, and all of them
/// together against all hits, in a function of many hits: enough to decide where
/// nothing else does, and not enough to keep together what is better split.
const UPDATE: f64 = 1.0 / 16.0;
const ALL_UPDATES: f64 = 0.03;

/// A price is in this part of an execution.
const UNIT: f64 = 1024.0;

/// What an update of a counter counts for against a hit.
#[derive(Debug, Clone, Copy)]
pub struct Rate(f64);

impl Rate {
    /// An update counts as much as a hit.
    pub const EQUAL: Self = Self(1.0);

    /// The rate where all hits and updates of a program are these.
    pub fn of_program(all: Load) -> Self {
        let (hits, updates) = (all.hits as f64, all.with_updates.saturating_sub(all.hits) as f64);
        let is_nothing = hits == 0.0 || updates == 0.0;
        Self(if is_nothing { UPDATE } else { UPDATE.min(ALL_UPDATES * hits / updates) })
    }
}

/// What is expected to be executed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Load {
    /// Hits.
    pub hits: u64,
    /// Hits and updates of counters.
    pub with_updates: u64,
}

impl Load {
    /// More than anything costs.
    pub const TOO_MUCH: Self = Self { hits: u64::MAX / 4096, with_updates: u64::MAX / 4096 };

    /// Both.
    pub fn plus(self, other: Self) -> Self {
        Self {
            hits: self.hits.saturating_add(other.hits),
            with_updates: self.with_updates.saturating_add(other.with_updates),
        }
    }

    /// This without `other`.
    pub fn minus(self, other: Self) -> Self {
        Self {
            hits: self.hits.saturating_sub(other.hits),
            with_updates: self.with_updates.saturating_sub(other.with_updates),
        }
    }
}

/// What counting some paths of a function is expected to cost.
#[derive(Debug, Clone)]
pub struct Price {
    hits: f64,
    updates: f64,
    increments: PathIncrements,
    counted: EdgeSet,
}

impl Price {
    /// The price of `interest`; `None` if its labels cannot be placed.
    pub fn of(function: &CountedFunction<'_>, interest: &Interest) -> Option<Self> {
        let placed = function.plan().increments_of(interest, &function.paths.weights);
        let (increments, counted) = placed.ok()?;
        let mut price = Self { hits: 0.0, updates: 0.0, increments, counted };
        for edge in function.dag().graph().edges() {
            price.hits += price.hits_at(function, edge);
            if price.counted.contains(edge) && function.plan().is_where_paths_are_counted(edge) {
                // Of guesses only those of hits are of use.
                price.updates += if function.is_weighed { executions(function, edge) } else { 1.0 };
            }
        }
        Some(price)
    }

    /// What the label of an edge is expected to cost.
    pub fn hits_at(&self, function: &CountedFunction<'_>, edge: Edge) -> f64 {
        let plan = function.plan();
        let is_hit = matches!(plan.dag().kind(edge), DagEdge::Flow(_))
            && self.increments.increment(edge) != 0
            && self.counted.contains(edge)
            && !plan.is_where_paths_are_counted(edge);
        if is_hit { executions(function, edge) } else { 0.0 }
    }

    /// The hits.
    pub fn hits(&self) -> f64 {
        self.hits
    }

    /// All of it, as one number.
    pub fn total(&self, rate: Rate) -> u64 {
        ((self.hits + self.updates * rate.0) * UNIT).ceil() as u64
    }

    /// All of it.
    pub fn load(&self) -> Load {
        let hits = (self.hits * UNIT).ceil() as u64;
        Load { hits, with_updates: hits.saturating_add((self.updates * UNIT).ceil() as u64) }
    }
}

/// How often an edge of the graph of paths is thought to be taken.
pub fn executions(function: &CountedFunction<'_>, edge: Edge) -> f64 {
    let (plan, weights) = (function.plan(), &function.paths.weights);
    let graph = plan.graph();
    let arriving = |piece: Piece| {
        let entered = if piece == graph.entry() { function.paths.entries } else { 0 };
        let into = graph.flow.in_edges(piece).iter().map(|it| weights[it.position()]);
        into.fold(entered, u64::saturating_add)
    };
    let source = Piece::new(plan.dag().graph().source(edge).position());
    let taken = match plan.dag().kind(edge) {
        DagEdge::Flow(it) => weights[it.position()],
        DagEdge::LoopEnd(it) => match graph.joint(it) {
            Joint::Edge | Joint::Computed => weights[it.position()],
            // Within a block, which has no weight.
            Joint::Jump(_) | Joint::Twice(_) => arriving(source),
        },
        DagEdge::Leave => {
            // Pieces that are counted early are paid for on the edges before.
            let into = plan.dag().graph().in_edges(plan.dag().graph().source(edge));
            let is_early = into.iter().any(|&it| plan.is_where_paths_are_counted(it));
            if is_early { 0 } else { arriving(source) }
        }
        DagEdge::Enter | DagEdge::LoopStart => 0,
    };
    taken as f64 * function.scale
}

/// The price of counting `interest`.
pub fn load_of(function: &CountedFunction<'_>, interest: &Interest) -> Load {
    Price::of(function, interest).map_or(Load::TOO_MUCH, |price| price.load())
}
