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
//! Nodes that call the same routines, which pointers may lead to, share what is
//! inside these (`icfg/fans.rs`). Sets are *folded*: what all callees of such a call
//! see is one number in them, and so is what follows at a return (`folded.rs`). They
//! are kept by node and by routine, those of ways are put together from them when they
//! are asked for: a program has a million ways, and most are never looked at.
//!
//! Cost: each set grows at most once per witness; a pass over a node costs what its
//! ways see.

mod folded;

use std::borrow::Cow;
use std::sync::Arc;

use backtrail_graph::Index;
use fixedbitset::FixedBitSet;

use crate::agenda::Agenda;
use crate::bit_rows::{self, BitRows, FixedRows, Word};
use crate::distribution::{Profile, Witness};
use crate::icfg::{Fan, Icfg, Node, Place, Routine, Way, WayKind};
use folded::{Bits, Turnstiles, Unfolded};

/// The first witnesses of every way, for one profile.
#[derive(Debug, Clone)]
pub struct FirstWitnesses {
    onward: Arc<[(WayKind, Routine)]>,
    profile: Profile,
    /// By way: whether it is a witness itself.
    observed: FixedBitSet,
    /// Folded, by node.
    nodes: FixedRows,
    /// Folded, by routine: what its entry sees within the activation, with PASS.
    within: FixedRows,
    /// What was folded, with what follows at the return of each routine.
    unfolded: Unfolded,
    /// By node: whether its activation can return without a witness.
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
        self.unfolded.bits.end()
    }

    pub(crate) fn pass(&self) -> usize {
        self.unfolded.bits.pass()
    }

    /// The number that all landings have in folded sets.
    pub(crate) fn landings(&self) -> usize {
        self.unfolded.bits.landings()
    }

    fn node(&self, node: Node) -> &[Word] {
        self.nodes.row(node.position())
    }

    /// The witness on a way itself.
    fn on(&self, way: Way) -> Option<Witness> {
        if !self.observed.contains(way.position()) {
            return None;
        }
        self.profile.witness(Place::new(self.nodes.len() + way.position()))
    }

    /// What can be next when `way` is taken, folded.
    pub(crate) fn row(&self, way: Way) -> Cow<'_, [Word]> {
        let only = |bit: usize| {
            let mut row = Vec::new();
            bit_rows::insert(&mut row, bit);
            Cow::Owned(row)
        };
        if let Some(witness) = self.on(way) {
            return only(witness.position());
        }
        let then = |inside: &[Word], next: &[Word]| {
            let mut row = inside.to_vec();
            bit_rows::remove(&mut row, self.pass());
            bit_rows::unite(&mut row, next);
            Cow::Owned(row)
        };
        let (kind, routine) = self.onward[way.position()];
        let passes = |callee| bit_rows::contains(self.within(callee), self.pass());
        match kind {
            WayKind::Step(to) => Cow::Borrowed(self.node(to)),
            WayKind::Call { callee, back } if passes(callee) => {
                then(self.within(callee), self.node(back))
            }
            WayKind::Tail(callee) if passes(callee) => {
                then(self.within(callee), self.after(routine))
            }
            WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                Cow::Borrowed(self.within(callee))
            }
            WayKind::Return => Cow::Borrowed(self.after(routine)),
            WayKind::Leave => only(self.landings()),
            WayKind::End => only(self.end()),
        }
    }

    /// Whether `bit` is in the row of `way`.
    fn sees(&self, way: Way, bit: usize) -> bool {
        if let Some(witness) = self.on(way) {
            return witness.position() == bit;
        }
        let (kind, routine) = self.onward[way.position()];
        let has = |row: &[Word]| self.has(row, bit);
        let passes = |callee| bit_rows::contains(self.within(callee), self.pass());
        match kind {
            WayKind::Step(to) => has(self.node(to)),
            WayKind::Call { callee, back } => {
                has(self.within(callee)) || (passes(callee) && has(self.node(back)))
            }
            WayKind::Tail(callee) => {
                has(self.within(callee)) || (passes(callee) && has(self.after(routine)))
            }
            WayKind::Return => has(self.after(routine)),
            WayKind::Leave => has(&self.unfolded.landings),
            WayKind::End => bit == self.end(),
        }
    }

    /// Whether a witness, or the end, is in a folded set.
    pub(crate) fn has(&self, row: &[Word], bit: usize) -> bool {
        self.unfolded.contains(row, bit)
    }

    /// Whether two folded sets have nothing in common.
    pub(crate) fn are_apart(&self, one: &[Word], other: &[Word]) -> bool {
        self.unfolded.all_parts(one, other, bit_rows::are_disjoint)
    }

    /// Whether no two of some ways can see the same next.
    pub(crate) fn are_all_apart(&self, ways: impl Iterator<Item = Way>) -> bool {
        let mut seen = Vec::new();
        let mut ways = ways;
        ways.all(|way| {
            let row = self.row(way);
            let is_apart = self.are_apart(&seen, &row);
            bit_rows::unite(&mut seen, &row);
            is_apart
        })
    }

    /// What can be next when `way` is taken: witnesses, and the end.
    pub(crate) fn unfolded_row(&self, way: Way) -> Vec<Word> {
        let mut all = Vec::new();
        for part in self.unfolded.parts(&self.row(way)) {
            bit_rows::unite(&mut all, part);
        }
        all
    }

    /// How many that are at most.
    pub(crate) fn most_next(&self, way: Way) -> usize {
        self.unfolded.parts(&self.row(way)).into_iter().map(bit_rows::count).sum()
    }

    /// What the entry of `routine` sees within the activation, with PASS.
    pub(crate) fn within(&self, routine: Routine) -> &[Word] {
        self.within.row(routine.position())
    }

    /// What can follow when `routine` returns.
    pub(crate) fn after(&self, routine: Routine) -> &[Word] {
        self.unfolded.after.row(routine.position())
    }

    /// Whether the activation can return without a witness when `way` is taken.
    pub(crate) fn can_return(&self, way: Way) -> bool {
        if self.on(way).is_some() {
            return false;
        }
        let passes = |callee| bit_rows::contains(self.within(callee), self.pass());
        match self.onward[way.position()].0 {
            WayKind::Step(to) => self.passes.contains(to.position()),
            WayKind::Call { callee, back } => {
                passes(callee) && self.passes.contains(back.position())
            }
            WayKind::Tail(callee) => passes(callee),
            WayKind::Return => true,
            WayKind::Leave | WayKind::End => false,
        }
    }

    /// Whether the run can end without a witness after any way at all.
    pub(crate) fn can_end_anywhere(&self) -> bool {
        self.ends
    }

    /// Whether `witness` can be the next one when `way` is taken.
    pub fn contains(&self, way: Way, witness: Witness) -> bool {
        witness.position() < self.end() && self.sees(way, witness.position())
    }

    /// Whether the run can end without a witness when `way` is taken.
    pub fn can_end(&self, way: Way) -> bool {
        self.sees(way, self.end())
    }

    /// Whether there is something to meet when `way` is taken, if it is the end.
    pub(crate) fn meets_anything(&self, way: Way) -> bool {
        self.most_next(way) > 0
    }

    /// Whether no witness, nor the end, can be next on both ways.
    pub fn are_disjoint(&self, one: Way, other: Way) -> bool {
        self.are_apart(&self.row(one), &self.row(other))
    }

    /// Whether nothing but the end can be next on both ways.
    pub fn share_at_most_the_end(&self, one: Way, other: Way) -> bool {
        let agrees = |one: &[Word], other: &[Word]| bit_rows::share_at_most(one, other, self.end());
        self.unfolded.all_parts(&self.row(one), &self.row(other), agrees)
    }
}

struct Computation<'a> {
    icfg: &'a Icfg,
    profile: &'a Profile,
    turnstiles: Turnstiles,
    bits: Bits,
    /// By place: its witness, or `NONE`.
    witness_at: Vec<u32>,
    /// Folded, by node, within the activation.
    nodes: BitRows,
    /// Folded, by fan: what its callees see within their activations.
    fans: BitRows,
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
        let fans = BitRows::new(icfg.fans().len());
        let turnstiles = Turnstiles::new(icfg);
        let bits = Bits::new(profile.places().len(), &turnstiles);
        Self { icfg, profile, turnstiles, bits, witness_at, nodes, fans, landings }
    }

    fn end(&self) -> usize {
        self.bits.end()
    }

    fn pass(&self) -> usize {
        self.bits.pass()
    }

    fn entry_row(&self, routine: Routine) -> &[Word] {
        self.nodes.row(self.icfg.routines()[routine].entry.position())
    }

    /// Adds to `set` what a routine sees; whether it can return without a witness.
    fn add_inside(&self, routine: Routine, set: &mut Vec<Word>) -> bool {
        let inside = self.entry_row(routine);
        match self.turnstiles.of_routine(routine) {
            Some(turnstile) => bit_rows::insert(set, self.bits.inside(turnstile)),
            None => {
                let had_pass = bit_rows::contains(set, self.pass());
                bit_rows::unite(set, inside);
                if !had_pass {
                    bit_rows::remove(set, self.pass());
                }
            }
        }
        bit_rows::contains(inside, self.pass())
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
                if self.add_inside(callee, set) {
                    bit_rows::unite(set, self.nodes.row(back.position()));
                }
            }
            WayKind::Tail(callee) => {
                if self.add_inside(callee, set) {
                    bit_rows::insert(set, self.pass());
                }
            }
            WayKind::Return => bit_rows::insert(set, self.pass()),
            WayKind::Leave => bit_rows::insert(set, self.bits.landings()),
            WayKind::End => bit_rows::insert(set, self.end()),
        }
    }

    /// Adds to `set` what the ways of `node` see, whose callees are those of `fan`.
    fn add_fan(&self, node: Node, fan: Fan, set: &mut Vec<Word>) {
        let mut back = None;
        for way in self.icfg.ways_of(node) {
            match self.icfg.ways()[way].kind {
                WayKind::Call { back: to, .. } => back = Some(to),
                _ => self.add_way(way, set),
            }
        }
        bit_rows::insert(set, self.bits.inside(self.turnstiles.of_fan(fan)));
        let inside = self.fans.row(fan.position());
        if let Some(back) = back.filter(|_| bit_rows::contains(inside, self.pass())) {
            bit_rows::unite(set, self.nodes.row(back.position()));
        }
    }

    /// Whether a call of the node is a witness itself, so that its callees count one by
    /// one.
    fn has_observed_calls(&self, node: Node) -> bool {
        self.icfg.ways_of(node).any(|way| {
            let is_call = matches!(self.icfg.ways()[way].kind, WayKind::Call { .. });
            is_call && self.witness_at[self.icfg.place_of_way(way).position()] != NONE
        })
    }

    /// Within activations.
    fn solve_nodes(&mut self) {
        let icfg = self.icfg;
        let nodes = icfg.nodes().len();
        // By node: whether it is looked at with its fan.
        let mut in_fan = FixedBitSet::with_capacity(nodes);
        for (_, data) in icfg.fans().iter() {
            let whole = data.nodes.iter().filter(|it| !self.has_observed_calls(it.0));
            in_fan.extend(whole.map(|it| it.0.position()));
        }
        let order = icfg.order();
        let mut agenda = Agenda::full(nodes);
        let mut set = Vec::new();
        while let Some(node) = agenda.take().map(|rank| order.nodes[rank]) {
            set.clear();
            let witness = self.witness_at[icfg.place_of_node(node).position()];
            if witness != NONE {
                bit_rows::insert(&mut set, witness as usize);
            } else {
                if icfg.is_stop(node) {
                    bit_rows::insert(&mut set, self.end());
                }
                match icfg.fans().of(node).filter(|_| in_fan.contains(node.position())) {
                    Some(fan) => self.add_fan(node, fan, &mut set),
                    None => icfg.ways_of(node).for_each(|way| self.add_way(way, &mut set)),
                }
            }
            if !bit_rows::unite(self.nodes.row_mut(node.position()), &set) {
                continue;
            }
            let mut wake = |node: Node| agenda.wake(order.rank_of_node[node.position()] as usize);
            icfg.dependents(node).iter().copied().for_each(&mut wake);
            let routine = icfg.nodes()[node].routine;
            if icfg.routines()[routine].entry != node {
                continue;
            }
            let pass = self.pass();
            for &fan in icfg.fans().of_callee(routine) {
                let row = self.fans.row_mut(fan.position());
                let passed = bit_rows::contains(row, pass);
                bit_rows::unite(row, self.nodes.row(node.position()));
                // What else is inside is one number in their sets.
                let passes = !passed && bit_rows::contains(row, pass);
                let nodes = icfg.fans().get(fan).nodes.iter().map(|it| it.0);
                nodes.filter(|it| passes || !in_fan.contains(it.position())).for_each(&mut wake);
            }
        }
    }

    /// At returns, by routine.
    fn solve_returns(&self) -> BitRows {
        let icfg = self.icfg;
        let count = icfg.routines().len();
        // A fan is like a routine here, which its callees return to.
        let mut after = BitRows::new(count + icfg.fans().len());
        // Who calls what such that the return of the latter is the caller's, too.
        let mut follows: Vec<Vec<u32>> = vec![Vec::new(); after.len()];
        let mut come_back = |callee: usize, from: Node, back: Node| {
            let row = self.nodes.row(back.position());
            bit_rows::unite(after.row_mut(callee), row);
            bit_rows::remove(after.row_mut(callee), self.pass());
            if bit_rows::contains(row, self.pass()) {
                follows[icfg.nodes()[from].routine.position()].push(callee as u32);
            }
        };
        for (routine, data) in icfg.routines().iter() {
            for &way in &data.callers {
                let way = icfg.ways()[way];
                if let WayKind::Call { back, .. } = way.kind
                    && !icfg.fans().contains(way.from)
                {
                    come_back(routine.position(), way.from, back);
                }
            }
        }
        for (fan, data) in icfg.fans().iter() {
            for &(node, back) in data.nodes.iter().filter(|it| icfg.is_reachable(it.0)) {
                come_back(count + fan.position(), node, back);
            }
        }
        for (routine, data) in icfg.routines().iter() {
            for &way in &data.callers {
                let way = icfg.ways()[way];
                if !matches!(way.kind, WayKind::Call { .. }) {
                    let caller = icfg.nodes()[way.from].routine;
                    follows[caller.position()].push(routine.position() as u32);
                }
            }
        }
        for (fan, data) in icfg.fans().iter() {
            for callee in &data.callees {
                let behind = self.bits.behind(self.turnstiles.of_fan(fan));
                bit_rows::insert(after.row_mut(callee.position()), behind);
            }
        }
        for &root in icfg.roots() {
            bit_rows::insert(after.row_mut(root.position()), self.end());
        }
        for (turnstile, routine) in self.turnstiles.routines() {
            for callee in std::mem::take(&mut follows[routine.position()]) {
                let behind = self.bits.behind(turnstile);
                bit_rows::insert(after.row_mut(callee as usize), behind);
            }
        }
        // What callers return to comes before what their callees do.
        let (order, last) = (icfg.order(), after.len().saturating_sub(1));
        for callees in &mut follows {
            callees.sort_unstable();
            callees.dedup();
        }
        let mut agenda = Agenda::full(after.len());
        while let Some(rank) = agenda.take() {
            let caller = order.routines[last - rank] as usize;
            let row = std::mem::take(after.row_mut(caller));
            for &callee in follows[caller].iter().filter(|&&callee| callee as usize != caller) {
                if bit_rows::unite(after.row_mut(callee as usize), &row) {
                    agenda.wake(last - order.rank_of_routine[callee as usize] as usize);
                }
            }
            *after.row_mut(caller) = row;
        }
        after
    }

    fn finish(mut self) -> FirstWitnesses {
        self.solve_nodes();
        let after = self.solve_returns();
        let icfg = self.icfg;
        let mut within = BitRows::new(icfg.routines().len());
        for routine in icfg.routines().indices() {
            let row = within.row_mut(routine.position());
            if self.add_inside(routine, row) {
                bit_rows::insert(row, self.pass());
            }
        }
        let wide = || self.turnstiles.routines().map(|(_, routine)| routine);
        let inside = (0..self.fans.len()).map(|fan| self.fans.row(fan));
        let inside: Vec<&[Word]> = inside.chain(wide().map(|it| self.entry_row(it))).collect();
        let behind = (icfg.routines().len()..after.len()).map(|fan| after.row(fan));
        let behind: Vec<&[Word]> =
            behind.chain(wide().map(|it| after.row(it.position()))).collect();
        let inside = folded::unfold(self.bits, &inside, &self.landings, None);
        let behind = folded::unfold(self.bits, &behind, &self.landings, Some(&inside));
        let (landings, after) = (std::mem::take(&mut self.landings), FixedRows::new(after));
        let unfolded = Unfolded { bits: self.bits, landings, inside, behind, after };
        let (end, pass) = (self.end(), self.pass());
        let mut nodes = self.nodes;
        let mut passes = FixedBitSet::with_capacity(icfg.nodes().len());
        for (node, data) in icfg.nodes().iter() {
            let row = nodes.row_mut(node.position());
            if bit_rows::contains(row, pass) {
                bit_rows::remove(row, pass);
                bit_rows::insert(row, self.bits.after(data.routine));
                passes.insert(node.position());
            }
        }
        let mut firsts = FirstWitnesses {
            onward: Arc::clone(icfg.onward()),
            profile: self.profile.clone(),
            observed: (0..icfg.ways().len())
                .filter(|&way| self.witness_at[icfg.nodes().len() + way] != NONE)
                .collect(),
            nodes: FixedRows::new(nodes),
            within: FixedRows::new(within),
            unfolded,
            passes,
            ends: false,
        };
        let can_end = |node: Node| {
            firsts.has(firsts.node(node), end)
                // What follows a witness is not what follows its node.
                || (self.witness_at[icfg.place_of_node(node).position()] != NONE
                    && icfg.ways_of(node).any(|way| firsts.can_end(way)))
        };
        firsts.ends = icfg.nodes().indices().any(can_end);
        firsts
    }
}
