//! What a partition costs on a run whose exact profile is known.
//!
//! Nothing needs to be run: a probe is executed as often as its place, and how
//! often that is follows from the counts of paths. What is counted:
//!
//! - *hits*, as published: executions of probes that add a label to the sum. A
//!   label that is part of an initial value or of a count adds nothing of its
//!   own;
//! - *updates*: executions of the probes that count a path at its end;
//! - *constants*: how often a label was part of either. (An implementation whose
//!   initial values and counts do not take labels in has these as hits.)
//!
//! The cost of a plan is that of its worst copy. It is exact where the profile's
//! counts of edges are ([`Run::is_exact`]); of paths that were left unfinished
//! the profile does not know the edges.

use std::collections::{BTreeMap, HashMap};

use backtrail_graph::Index;
use backtrail_ir::{Function, Inst};
use backtrail_plan::{Action, Place, Probe};

use crate::derived::Counts;
use crate::model::Profile;
use crate::partition::Partition;
use crate::partition::interest::Interest;
use crate::partition::program::{CountedFunction, ProgramPaths};

/// How often everything was executed in a run.
#[derive(Debug, Clone, Default)]
pub struct Run {
    functions: HashMap<(String, String), Executed>,
    is_exact: bool,
}

/// How often the places of a function were executed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Executed {
    /// Entries.
    pub entries: u64,
    /// By block.
    pub blocks: Vec<u64>,
    /// By pair of blocks.
    pub edges: BTreeMap<(u32, u32), u64>,
}

/// What one copy costs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct CopyCost {
    /// How many probes add a label.
    pub probes: u64,
    /// How often these are executed.
    pub hits: u64,
    /// How often paths are counted.
    pub updates: u64,
    /// How often an edge is taken whose label is part of an initial value or of
    /// a count: hits, if those were probes of their own.
    pub constants: u64,
}

/// What the copies cost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cost {
    /// Each of them.
    pub copies: Vec<CopyCost>,
}

impl Run {
    /// The run that `profile` describes.
    pub fn of(profile: &Profile) -> Self {
        let mut run = Self { functions: HashMap::new(), is_exact: true };
        for function in &profile.functions {
            let counts = Counts::of(function);
            run.is_exact &= counts.exact;
            let edges = function.edges.iter().map(|edge| (edge.from, edge.to));
            let executed = Executed {
                entries: function.entries,
                blocks: counts.blocks,
                edges: edges.zip(counts.edges).filter(|(_, count)| *count > 0).collect(),
            };
            run.functions.insert((function.unit.clone(), function.name.clone()), executed);
        }
        run
    }

    /// Whether no path was left unfinished.
    pub fn is_exact(&self) -> bool {
        self.is_exact
    }

    /// What was executed of a function; `None` if it is not in the profile.
    pub fn executed(&self, function: &CountedFunction<'_>) -> Option<&Executed> {
        // Names are compared once per function and plan: not worth an index.
        let key = (function.unit.name.clone(), function.name().to_owned());
        self.functions.get(&key)
    }
}

impl Executed {
    /// How often control was at `place`.
    pub fn at(&self, function: &Function, place: Place) -> u64 {
        let block = |block: usize| self.blocks.get(block).copied().unwrap_or(0);
        let block_of = |inst: Inst| {
            let blocks = function.blocks.values().as_slice();
            let position = inst.position() as u32;
            block(blocks.partition_point(|data| data.end <= position))
        };
        match place {
            Place::Entry => self.entries,
            Place::Block(it) => block(it.position()),
            Place::Edge { from, to } => {
                let ends = (from.position() as u32, to.position() as u32);
                self.edges.get(&ends).copied().unwrap_or(0)
            }
            Place::Before(inst) | Place::After(inst) => block_of(inst),
        }
    }

    /// What probes cost.
    pub fn cost(&self, function: &Function, probes: &[Probe]) -> CopyCost {
        let mut cost = CopyCost::default();
        for probe in probes {
            match probe.action {
                Action::AddSum(_) => {
                    cost.probes += 1;
                    cost.hits = cost.hits.saturating_add(self.at(function, probe.at));
                }
                Action::CountSum(_) => {
                    cost.updates = cost.updates.saturating_add(self.at(function, probe.at));
                }
                _ => {}
            }
        }
        cost
    }
}

impl CopyCost {
    /// Hits with the updates of counters included.
    pub fn hits_with_updates(&self) -> u64 {
        self.hits.saturating_add(self.updates)
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.probes += other.probes;
        self.hits = self.hits.saturating_add(other.hits);
        self.updates = self.updates.saturating_add(other.updates);
        self.constants = self.constants.saturating_add(other.constants);
    }
}

impl Cost {
    /// What `partition` costs on `run`.
    pub fn of(program: &ProgramPaths<'_>, partition: &Partition, run: &Run) -> Self {
        let mut cost = Self { copies: vec![CopyCost::default(); partition.copies()] };
        let nothing = Executed::default();
        for function in program.functions() {
            let Some(shares) = partition.shares(function.unit_id, function.function) else {
                continue;
            };
            let executed = run.executed(function).unwrap_or(&nothing);
            for (copy, interest) in shares.interests.iter().enumerate() {
                if let Some(interest) = interest {
                    cost.copies[copy].add(cost_of(function, interest, executed));
                }
            }
        }
        cost
    }

    /// The most hits of a copy.
    pub fn worst_hits(&self) -> u64 {
        self.copies.iter().map(|copy| copy.hits).max().unwrap_or(0)
    }

    /// The most hits of a copy whose initial values and counts do not take labels
    /// in.
    pub fn worst_hits_unfolded(&self) -> u64 {
        let unfolded = |copy: &CopyCost| copy.hits.saturating_add(copy.constants);
        self.copies.iter().map(unfolded).max().unwrap_or(0)
    }

    /// The most hits of a copy, updates of counters included.
    pub fn worst_hits_with_updates(&self) -> u64 {
        self.copies.iter().map(CopyCost::hits_with_updates).max().unwrap_or(0)
    }
}

/// What counting `interest` costs where these are the executions.
pub fn cost_of(function: &CountedFunction<'_>, interest: &Interest, run: &Executed) -> CopyCost {
    let (plan, weights) = (function.plan(), &function.paths.weights);
    let body = &function.unit.functions[function.function];
    let Ok((probes, constants)) = plan.probes_and_constants(interest, weights) else {
        return CopyCost::default();
    };
    let mut cost = run.cost(body, &probes);
    for place in constants {
        cost.constants = cost.constants.saturating_add(run.at(body, place));
    }
    cost
}

/// What share of `of` is saved if it becomes `worst`.
pub fn saved(of: u64, worst: u64) -> f64 {
    if of == 0 { 0.0 } else { 1.0 - worst as f64 / of as f64 }
}
