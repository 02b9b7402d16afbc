//! First witnesses: what a profile can see next.
//!
//! For a profile *k* and a way *w* of a node, `W_k(w)` is the set of witnesses of
//! *k* that can be the next one met when the execution takes *w*; with END if the
//! run can end without meeting one. Saha, Dhoolia and Paul, *Distributed Program
//! Tracing*, ESEC/FSE 2013, define it on one control-flow graph; here it goes
//! through calls and returns:
//!
//! - Within an activation: `S(n)`, the witnesses that can be first from node *n*
//!   on, in the same activation or what it calls, with PASS if the activation can
//!   return without one. A call gives its callee's `S(entry)`, and if that has
//!   PASS also what follows the call. Least fixpoint over all nodes.
//! - What follows at a return, whoever the caller is: `R(f)`, from the nodes that
//!   calls of *f* come back to and, where these pass, from their callers in turn.
//!   END for roots. Least fixpoint over all routines.
//! - `W(w)` is what *w* has within the activation, with `R` in the place of PASS.
//!
//! Calls and returns thus match, up to the point where the activation at hand
//! returns; from there on every caller is thought possible. That is more than
//! can happen, never less, which is the safe side: a set that is too large asks
//! for more witnesses.
//!
//! Leaving frames leads to a landing, all of which are witnesses.
//!
//! Cost: each set grows at most once per witness; a pass over a node costs what its
//! ways see.

use std::collections::VecDeque;

use backtrail_graph::Index;
use fixedbitset::FixedBitSet;

use crate::bit_rows::{self, BitRows, Word};
use crate::distribution::{Profile, Witness};
use crate::icfg::{Icfg, Node, Routine, Way, WayKind};

/// The first witnesses of every way, for one profile.
#[derive(Debug, Clone)]
pub struct FirstWitnesses {
    /// Bits: the witnesses, then END. By way.
    rows: BitRows,
    witnesses: usize,
    /// By routine: what its entry sees within the activation; bits: the
    /// witnesses, then END, then PASS.
    within: BitRows,
    /// By routine: what follows at its return. Bits as above, never PASS.
    after: BitRows,
    /// By way: whether its activation can return without a witness.
    passes: FixedBitSet,
    /// Whether there is a way on which the run can end without a witness.
    ends: bool,
}

impl FirstWitnesses {
    /// Computes them.
    pub fn new(icfg: &Icfg, profile: &Profile) -> Self {
        Computation::new(icfg, profile).finish()
    }

    /// The bit that stands for the end of the run.
    pub(crate) fn end(&self) -> usize {
        self.witnesses
    }

    pub(crate) fn pass(&self) -> usize {
        self.witnesses + 1
    }

    pub(crate) fn row(&self, way: Way) -> &[Word] {
        self.rows.row(way.position())
    }

    /// What the entry of `routine` sees within the activation, with PASS.
    pub(crate) fn within(&self, routine: Routine) -> &[Word] {
        self.within.row(routine.position())
    }

    /// What can follow when `routine` returns.
    pub(crate) fn after(&self, routine: Routine) -> &[Word] {
        self.after.row(routine.position())
    }

    /// Whether the activation can return without a witness when `way` is taken.
    pub(crate) fn can_return(&self, way: Way) -> bool {
        self.passes.contains(way.position())
    }

    /// Whether the run can end without a witness after any way at all.
    pub(crate) fn can_end_anywhere(&self) -> bool {
        self.ends
    }

    /// Whether `witness` can be the next one when `way` is taken.
    pub fn contains(&self, way: Way, witness: Witness) -> bool {
        witness.position() < self.witnesses && bit_rows::contains(self.row(way), witness.position())
    }

    /// Whether the run can end without a witness when `way` is taken.
    pub fn can_end(&self, way: Way) -> bool {
        bit_rows::contains(self.row(way), self.end())
    }

    /// The witnesses that can be next when `way` is taken.
    pub fn witnesses(&self, way: Way) -> impl Iterator<Item = Witness> + '_ {
        let end = self.end();
        bit_rows::ones(self.row(way)).filter(move |&bit| bit < end).map(Witness::new)
    }

    /// Whether no witness, nor the end, can be next on both ways.
    pub fn are_disjoint(&self, one: Way, other: Way) -> bool {
        bit_rows::are_disjoint(self.row(one), self.row(other))
    }

    /// Whether nothing but the end can be next on both ways.
    pub fn share_at_most_the_end(&self, one: Way, other: Way) -> bool {
        bit_rows::share_at_most(self.row(one), self.row(other), self.end())
    }
}

struct Computation<'a> {
    icfg: &'a Icfg,
    profile: &'a Profile,
    /// By place: its witness, or `NONE`.
    witness_at: Vec<u32>,
    /// By node, within the activation.
    nodes: BitRows,
    landings: Vec<Word>,
}

const NONE: u32 = u32::MAX;

impl<'a> Computation<'a> {
    fn new(icfg: &'a Icfg, profile: &'a Profile) -> Self {
        let mut witness_at = vec![NONE; icfg.place_count()];
        for (number, place) in profile.places().iter().enumerate() {
            witness_at[place.position()] = number as u32;
        }
        let nodes = BitRows::new(icfg.nodes().len());
        let mut landings = Vec::new();
        for &landing in icfg.landings() {
            let witness = witness_at[icfg.place_of_node(landing).position()];
            bit_rows::insert(&mut landings, witness as usize);
        }
        Self { icfg, profile, witness_at, nodes, landings }
    }

    fn end(&self) -> usize {
        self.profile.places().len()
    }

    fn pass(&self) -> usize {
        self.end() + 1
    }

    fn entry_row(&self, routine: Routine) -> &[Word] {
        self.nodes.row(self.icfg.routines()[routine].entry.position())
    }

    /// Adds to `set` what `way` sees within the activation.
    fn add_way(&self, way: Way, set: &mut Vec<Word>) {
        let witness = self.witness_at[self.icfg.place_of_way(way).position()];
        if witness != NONE {
            bit_rows::insert(set, witness as usize);
            return;
        }
        match self.icfg.ways()[way].kind {
            WayKind::Step(to) => {
                bit_rows::unite(set, self.nodes.row(to.position()));
            }
            WayKind::Call { callee, back } => {
                let had_pass = bit_rows::contains(set, self.pass());
                let inside = self.entry_row(callee);
                bit_rows::unite(set, inside);
                if !had_pass {
                    bit_rows::remove(set, self.pass());
                }
                if bit_rows::contains(inside, self.pass()) {
                    bit_rows::unite(set, self.nodes.row(back.position()));
                }
            }
            WayKind::Tail(callee) => {
                bit_rows::unite(set, self.entry_row(callee));
            }
            WayKind::Return => bit_rows::insert(set, self.pass()),
            WayKind::Leave => {
                bit_rows::unite(set, &self.landings);
            }
            WayKind::End => bit_rows::insert(set, self.end()),
        }
    }

    /// Within activations.
    fn solve_nodes(&mut self) {
        let nodes = self.icfg.nodes().len();
        // Later nodes tend to follow earlier ones: begin at the end.
        let mut waiting: VecDeque<Node> = (0..nodes).rev().map(Node::new).collect();
        let mut is_waiting = vec![true; nodes];
        let mut set = Vec::new();
        while let Some(node) = waiting.pop_front() {
            is_waiting[node.position()] = false;
            set.clear();
            let witness = self.witness_at[self.icfg.place_of_node(node).position()];
            if witness != NONE {
                bit_rows::insert(&mut set, witness as usize);
            } else {
                if self.icfg.is_stop(node) {
                    bit_rows::insert(&mut set, self.end());
                }
                for way in self.icfg.ways_of(node) {
                    self.add_way(way, &mut set);
                }
            }
            if bit_rows::unite(self.nodes.row_mut(node.position()), &set) {
                for &dependent in self.icfg.dependents(node) {
                    if !std::mem::replace(&mut is_waiting[dependent.position()], true) {
                        waiting.push_back(dependent);
                    }
                }
            }
        }
    }

    /// At returns.
    fn solve_returns(&self) -> BitRows {
        let icfg = self.icfg;
        let count = icfg.routines().len();
        let mut after = BitRows::new(count);
        // Who calls a routine such that its return is the caller's, too.
        let mut follows: Vec<Vec<Routine>> = vec![Vec::new(); count];
        for (routine, data) in icfg.routines().iter() {
            for &way in &data.callers {
                let way = icfg.ways()[way];
                let caller = icfg.nodes()[way.from].routine;
                let passes = match way.kind {
                    WayKind::Call { back, .. } => {
                        let row = self.nodes.row(back.position());
                        bit_rows::unite(after.row_mut(routine.position()), row);
                        bit_rows::contains(row, self.pass())
                    }
                    _ => true,
                };
                if passes {
                    follows[caller.position()].push(routine);
                }
            }
            bit_rows::remove(after.row_mut(routine.position()), self.pass());
        }
        for &root in icfg.roots() {
            bit_rows::insert(after.row_mut(root.position()), self.end());
        }
        let mut waiting: VecDeque<Routine> = icfg.routines().indices().collect();
        let mut is_waiting = vec![true; count];
        while let Some(caller) = waiting.pop_front() {
            is_waiting[caller.position()] = false;
            let row = after.row(caller.position()).to_vec();
            for &routine in &follows[caller.position()] {
                if bit_rows::unite(after.row_mut(routine.position()), &row)
                    && !std::mem::replace(&mut is_waiting[routine.position()], true)
                {
                    waiting.push_back(routine);
                }
            }
        }
        after
    }

    fn finish(mut self) -> FirstWitnesses {
        self.solve_nodes();
        let after = self.solve_returns();
        let icfg = self.icfg;
        let mut rows = BitRows::new(icfg.ways().len());
        let mut passes = FixedBitSet::with_capacity(icfg.ways().len());
        let mut ends = false;
        for (way, data) in icfg.ways().iter() {
            let row = rows.row_mut(way.position());
            self.add_way(way, row);
            if bit_rows::contains(row, self.pass()) {
                bit_rows::remove(row, self.pass());
                let routine = icfg.nodes()[data.from].routine;
                bit_rows::unite(row, after.row(routine.position()));
                passes.insert(way.position());
            }
            ends |= bit_rows::contains(row, self.end());
        }
        let mut within = BitRows::new(icfg.routines().len());
        for routine in icfg.routines().indices() {
            within.row_mut(routine.position()).extend_from_slice(self.entry_row(routine));
        }
        FirstWitnesses { rows, witnesses: self.end(), within, after, passes, ends }
    }
}
