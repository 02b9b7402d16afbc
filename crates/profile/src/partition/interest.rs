//! Which paths of a function one copy counts.
//!
//! A part of a function's paths is given by edges of its [`backtrail_graph::PathDag`]: the paths
//! made of these edges only ([`backtrail_graph::selective_labels`]). Every copy
//! has the same cuts, so a path has one number in all of them; what a copy's
//! counters mean is translated to it
//! ([`PartMeaning::decoder`]).
//!
//! A path that ends with an edge that is not of interest is not, and is not
//! counted at all. Nor is one counted on an edge that is not of interest, before
//! a last block (see [`crate::path_plan`]). [`Placing::Moved`] makes use of this:
//! such paths need not be told from others.

use backtrail_graph::selective_labels::{edges_that_may_be_counted, whole_paths};
use backtrail_graph::{Edge, EdgeSet, Index, PathIncrements, SelectiveLabels};
use serde::{Deserialize, Serialize};

use crate::path_plan::PathPlan;

/// Which paths of a function a copy counts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Interest {
    /// All.
    Whole,
    /// Some.
    Part(Selection),
}

/// Some paths of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Selection {
    edges: EdgeSet,
    placing: Placing,
}

/// How the edges of a part are labelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Placing {
    /// As published.
    Published,
    /// For the paths that are counted only, and moved to where they cost least.
    Moved,
}

/// How many labels there are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct LabelCount {
    /// Edges with a label that is not 0, as published.
    pub labels: u64,
    /// How many of these have none where they were, because it was moved.
    pub moved: u64,
}

/// What a copy's counters of a function's paths count.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartMeaning {
    /// The interesting edges, by number.
    pub edges: Vec<u32>,
    /// How they are labelled.
    pub placing: Placing,
}

/// From a copy's counters to numbers of paths.
#[derive(Debug, Clone)]
pub struct PartDecoder {
    labels: SelectiveLabels,
}

impl Selection {
    /// The paths of `plan` that are made of `edges`.
    pub fn new(plan: &PathPlan, edges: &EdgeSet, placing: Placing) -> Self {
        Self { edges: whole_paths(plan.dag(), edges), placing }
    }

    /// The edges of the paths, of [`PathPlan::dag`]; each is on one of them.
    pub fn edges(&self) -> &EdgeSet {
        &self.edges
    }

    /// How the edges are labelled.
    pub fn placing(&self) -> Placing {
        self.placing
    }

    /// The labels of the edges.
    pub fn labels(&self, plan: &PathPlan) -> SelectiveLabels {
        let dag = plan.dag();
        let uncounted = match self.placing {
            Placing::Published => EdgeSet::none(dag.graph().edge_count()),
            Placing::Moved => self.uncounted(plan),
        };
        SelectiveLabels::new(dag, &self.edges, &uncounted)
            .expect("the paths of a plan are few enough to be numbered")
    }

    /// The edges at which a path would be counted, and is not.
    fn uncounted(&self, plan: &PathPlan) -> EdgeSet {
        let mut uncounted = EdgeSet::none(plan.dag().graph().edge_count());
        for edge in plan.dag().graph().edges() {
            if !self.edges.contains(edge) && plan.is_where_paths_are_counted(edge) {
                uncounted.insert(edge);
            }
        }
        uncounted
    }

    /// The edges from which a count can be reached.
    pub(crate) fn counted(&self, plan: &PathPlan) -> EdgeSet {
        edges_that_may_be_counted(plan.dag(), &self.uncounted(plan))
    }

    /// What the edges add to the sum, where probes cost `weights`; `None` if an
    /// edge would have to add something that has no place for it.
    pub(crate) fn increments(&self, plan: &PathPlan, weights: &[u64]) -> Option<PathIncrements> {
        let dag = plan.dag();
        let labels = self.labels(plan);
        let counted = self.counted(plan);
        let mut forced = plan.forced();
        forced.retain(|&edge| counted.contains(edge));
        let fits = |it: &PathIncrements| forced.iter().all(|&edge| it.increment(edge) == 0);
        if self.placing == Placing::Published {
            let unmoved = PathIncrements::unmoved(labels.labels());
            return fits(&unmoved).then_some(unmoved);
        }
        // Starts from which better ones are looked for: labels as they are;
        // moved to where they cost least; and the same without any on an edge
        // that is not of interest.
        let mut quiet = forced.clone();
        quiet.extend(dag.graph().edges().filter(|&edge| !self.edges.contains(edge)));
        let mut best: Option<(u128, PathIncrements)> = None;
        for labels in [labels.labels(), &labels.unpropagated()] {
            let starts = [
                PathIncrements::unmoved(labels),
                PathIncrements::by_agreement(dag, labels, weights, &forced),
                PathIncrements::by_agreement(dag, labels, weights, &quiet),
            ];
            for mut increments in starts.into_iter().filter(fits) {
                increments.improve(dag, weights, &forced);
                debug_assert!(increments.keeps_sums(dag, labels));
                let weight = increments.weight(weights);
                if best.as_ref().is_none_or(|(least, _)| weight < *least) {
                    best = Some((weight, increments));
                }
            }
        }
        best.map(|(_, increments)| increments)
    }

    /// How many labels there are as published, and how many of these are moved.
    pub fn label_count(&self, plan: &PathPlan, weights: &[u64]) -> LabelCount {
        let published = Selection { edges: self.edges.clone(), placing: Placing::Published };
        let labels = published.labels(plan);
        let Ok((now, _)) = plan.increments_of(&Interest::Part(self.clone()), weights) else {
            return LabelCount::default();
        };
        let labelled = || labels.labels().iter().enumerate().filter(|(_, label)| **label != 0);
        let moved = labelled().filter(|(edge, _)| now.increment(Edge::new(*edge)) == 0).count();
        LabelCount { labels: labelled().count() as u64, moved: moved as u64 }
    }

    /// What is needed to decode the counters.
    pub fn meaning(&self) -> PartMeaning {
        let edges = self.edges.iter().map(|edge| edge.position() as u32).collect();
        PartMeaning { edges, placing: self.placing }
    }
}

impl Interest {
    /// Whether a path, given by the edges it takes, is counted.
    pub fn contains(&self, path: &[Edge]) -> bool {
        match self {
            Self::Whole => true,
            Self::Part(selection) => path.iter().all(|&edge| selection.edges.contains(edge)),
        }
    }

    /// Whether an edge is one of those whose paths are counted.
    pub fn contains_edge(&self, edge: Edge) -> bool {
        self.contains(&[edge])
    }
}

impl PartMeaning {
    /// The selection that has this meaning; edges that `plan` lacks are none.
    pub fn selection(&self, plan: &PathPlan) -> Selection {
        let mut edges = EdgeSet::none(plan.dag().graph().edge_count());
        let known = self.edges.iter().filter(|&&edge| (edge as usize) < edges.edge_count());
        let known: Vec<Edge> = known.map(|&edge| Edge::new(edge as usize)).collect();
        known.into_iter().for_each(|edge| edges.insert(edge));
        Selection::new(plan, &edges, self.placing)
    }

    /// What decodes the counters of a function with these paths.
    pub fn decoder(&self, plan: &PathPlan) -> PartDecoder {
        PartDecoder { labels: self.selection(plan).labels(plan) }
    }
}

impl PartDecoder {
    /// The number of the path that a counter counts; `None` if it counts paths
    /// that are not of interest in this copy, or none.
    pub fn number(&self, plan: &PathPlan, counter: u64) -> Option<u64> {
        let path = self.labels.path(plan.dag(), counter)?;
        Some(plan.number_of_edges(&path))
    }

    /// Whether the copy counts the path with this number.
    pub fn counts(&self, plan: &PathPlan, number: u64) -> bool {
        let path = plan.edges_of_path(number);
        path.is_some_and(|path| path.iter().all(|&edge| self.labels.interesting().contains(edge)))
    }
}
