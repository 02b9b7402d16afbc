//! What a copy is expected to pay for counting paths.
//!
//! The executions of probes under the weights that the plan was made with. Hits
//! are what is to be made small. Updates of counters count as well, but all of
//! them together for a few per cent of all hits: enough to decide where nothing
//! else does, and not enough to keep a function together that is better split.

use backtrail_graph::path_dag::DagEdge;
use backtrail_graph::{Edge, EdgeSet, Index, PathIncrements};

use crate::partition::interest::Interest;
use crate::partition::program::{CountedFunction, ProgramPaths};

/// What updates of counters count for at most, against a hit, and all of them
/// together against all hits.
const UPDATE: f64 = 1.0 / 16.0;
const ALL_UPDATES: f64 = 0.03;

/// A price is in this part of a hit.
const UNIT: f64 = 1024.0;

/// What an update of a counter counts for against a hit.
#[derive(Debug, Clone, Copy)]
pub struct Rate(f64);

impl Rate {
    /// The rate for a program.
    pub fn of(program: &ProgramPaths<'_>) -> Self {
        let prices = program.functions().iter().filter_map(|it| Price::of(it, &Interest::Whole));
        let (hits, updates) =
            prices.fold((0.0, 0.0), |(hits, updates), it| (hits + it.hits, updates + it.updates));
        let is_nothing = hits == 0.0 || updates == 0.0;
        Self(if is_nothing { UPDATE } else { UPDATE.min(ALL_UPDATES * hits / updates) })
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
                price.updates += executions(function, edge);
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

    /// All of it.
    pub fn total(&self, rate: Rate) -> u64 {
        ((self.hits + self.updates * rate.0) * UNIT).ceil() as u64
    }
}

/// How often an edge of the graph of paths is thought to be taken.
pub fn executions(function: &CountedFunction<'_>, edge: Edge) -> f64 {
    let (plan, weights) = (function.plan(), &function.paths.weights);
    let flow = &plan.graph().flow;
    let taken = match plan.dag().kind(edge) {
        DagEdge::Flow(it) | DagEdge::LoopEnd(it) => weights[it.position()],
        DagEdge::Leave => {
            // Pieces that are counted early are paid for on the edges before.
            let piece = Index::new(plan.dag().graph().source(edge).position());
            let into = plan.dag().graph().in_edges(Index::new(Index::position(piece)));
            if into.iter().any(|&it| plan.is_where_paths_are_counted(it)) {
                0
            } else {
                flow.in_edges(piece).iter().map(|it| weights[it.position()]).sum()
            }
        }
        DagEdge::Enter | DagEdge::LoopStart => 0,
    };
    taken as f64 * function.scale
}

/// The price of counting all paths.
pub fn whole_price(function: &CountedFunction<'_>, rate: Rate) -> u64 {
    Price::of(function, &Interest::Whole).map_or(0, |price| price.total(rate))
}
