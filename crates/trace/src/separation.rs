//! Telling two ways of a predicate apart in one profile, as cheaply as may be.
//!
//! Given the witnesses that a profile has already, which others does it need so
//! that the first witnesses of ways *a* and *b* of predicate *p* are disjoint?
//! Let the *region* of a way be what can be passed from it, in the same
//! activation, without meeting a witness.
//!
//! 1. If *a* leads back to *p* it can be followed by *b*, so a witness has to
//!    stand on every way from *a* back to *p*: a cheapest cut. Likewise for *b*.
//! 2. Where the regions still meet, or meet the same witnesses, one of the two is
//!    cut from what they share, whichever is cheaper. What is cut is in the region
//!    of one way only, so the other cannot meet the new witnesses.
//! 3. Where there is no such cut, the two ways themselves become witnesses, or
//!    the entries they lead to: then their first witnesses are these, whatever
//!    else there is.
//!
//! Callees and callers are as they were when first witnesses were last computed:
//! new witnesses in them are not seen. Plans are therefore verified with first
//! witnesses computed anew, and repaired, until nothing is left ([`crate::planning`]).
//!
//! Cost: a search over the region and a cut, within one routine.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, OnceLock};

use backtrail_graph::Index;
use backtrail_graph::min_cut::{Network, UNCUTTABLE};
use fixedbitset::FixedBitSet;

use crate::bit_rows::{self, Word};
use crate::distribution::{Costs, Profile};
use crate::first_witness::FirstWitnesses;
use crate::icfg::{Icfg, Node, Place, Role, Routine, Way, WayKind};
use crate::realizability::Conflict;

/// A profile under construction.
#[derive(Debug, Clone)]
pub(crate) struct Draft {
    /// Its witnesses now.
    chosen: FixedBitSet,
    count: usize,
    /// As of when first witnesses were asked for anew.
    pub known: Profile,
    /// Computed when they are asked for; drafts that are copies share them.
    firsts: Arc<OnceLock<Arc<FirstWitnesses>>>,
}

impl Draft {
    /// The witnesses every profile has.
    pub fn new(icfg: &Icfg, costs: &Costs) -> Self {
        let mut chosen = FixedBitSet::with_capacity(icfg.place_count());
        chosen.extend(costs.forced().iter().map(|place| place.position()));
        let count = chosen.count_ones(..);
        let known = Profile::new(icfg, costs.forced().iter().copied());
        Self { chosen, count, known, firsts: Arc::default() }
    }

    /// The first witnesses of what is known.
    pub fn firsts(&self, icfg: &Icfg) -> &Arc<FirstWitnesses> {
        self.firsts.get_or_init(|| Arc::new(FirstWitnesses::new(icfg, &self.known)))
    }

    /// Has first witnesses computed anew; whether anything had changed.
    pub fn refresh(&mut self, icfg: &Icfg) -> bool {
        let known = Profile::new(icfg, self.places());
        let changed = known != self.known;
        if changed {
            (self.firsts, self.known) = (Arc::default(), known);
        }
        changed
    }

    /// How many witnesses there are.
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn places(&self) -> impl Iterator<Item = Place> + '_ {
        self.chosen.ones().map(Place::new)
    }

    pub fn contains(&self, place: Place) -> bool {
        self.chosen.contains(place.position())
    }

    /// Whether it was not there.
    pub fn insert(&mut self, place: Place) -> bool {
        let is_new = !self.chosen.put(place.position());
        self.count += usize::from(is_new);
        is_new
    }

    pub fn remove(&mut self, place: Place) {
        self.count -= usize::from(self.contains(place));
        self.chosen.set(place.position(), false);
    }

    pub fn cost(&self, costs: &Costs) -> u64 {
        self.places().map(|place| costs.weight(place)).sum()
    }
}

/// What can be passed from a way without meeting a witness.
struct Region {
    /// Nodes passed, in the order they were found.
    nodes: Vec<Node>,
    /// By position in the routine.
    contains: FixedBitSet,
    /// First witnesses known to [`Draft::firsts()`], and END, folded.
    hits: Vec<Word>,
    /// First witnesses chosen since.
    new_hits: BTreeSet<Place>,
}

impl Region {
    fn has(&self, icfg: &Icfg, node: Node) -> bool {
        self.contains.contains(icfg.position_in_routine(node))
    }
}

/// Memory that is used again for each cut.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    network: Network,
    /// By node: its number, where it is of the region that is cut.
    numbers: Vec<u32>,
}

struct Separator<'a> {
    icfg: &'a Icfg,
    costs: &'a Costs,
    /// With what is added here.
    draft: &'a mut Draft,
    added: Vec<Place>,
    scratch: RefCell<&'a mut Scratch>,
}

/// The witnesses to add to `draft`, which stays as it is, so that the two ways of each
/// pair are told apart.
pub(crate) fn separate(
    icfg: &Icfg,
    costs: &Costs,
    draft: &mut Draft,
    pairs: &[Conflict],
    scratch: &mut Scratch,
) -> Vec<Place> {
    let scratch = RefCell::new(scratch);
    let mut separator = Separator { icfg, costs, draft, added: Vec::new(), scratch };
    for &pair in pairs {
        separator.separate(pair);
    }
    let added = separator.added;
    added.iter().for_each(|&place| draft.remove(place));
    added
}

/// The witnesses that tell the two ways apart whatever else there is.
pub(crate) fn witnesses_of_ways(icfg: &Icfg, costs: &Costs, pair: Conflict) -> Vec<Place> {
    let mut nodes = Vec::new();
    let mut found = BTreeSet::new();
    for way in [pair.one, pair.other] {
        let own = icfg.place_of_way(way);
        if costs.is_observable(own) {
            found.insert(own);
            continue;
        }
        match icfg.ways()[way].kind {
            WayKind::Step(to) => nodes.push(to),
            WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                nodes.push(icfg.routines()[callee].entry);
            }
            WayKind::Return => nodes.extend(comebacks(icfg, icfg.nodes()[pair.node].routine)),
            // Landings are witnesses already.
            WayKind::End | WayKind::Leave => {}
        }
    }
    let places = nodes.into_iter().map(|node| icfg.place_of_node(node));
    found.extend(places.filter(|&place| costs.is_observable(place)));
    found.into_iter().collect()
}

/// Where a run comes back to a routine that it returned from: by another call, or in an
/// activation that had made the call.
fn comebacks(icfg: &Icfg, routine: Routine) -> Vec<Node> {
    let routine = &icfg.routines()[routine];
    let mut found = vec![routine.entry];
    for way in routine.nodes.iter().flat_map(|&node| icfg.ways_of(node)) {
        let WayKind::Call { back, .. } = icfg.ways()[way].kind else { continue };
        found.push(back);
        // What happens unseen is not observed, but what follows.
        found.extend(icfg.ways_of(back).filter_map(|way| match icfg.ways()[way].kind {
            WayKind::Step(to) if icfg.nodes()[back].role == Role::Hub => Some(to),
            _ => None,
        }));
    }
    found
}

impl Separator<'_> {
    fn firsts(&self) -> &FirstWitnesses {
        self.draft.firsts(self.icfg)
    }

    fn add(&mut self, place: Place) {
        if self.draft.insert(place) {
            self.added.push(place);
        }
    }

    fn separate(&mut self, pair: Conflict) {
        let (one, other) = (self.region(pair.one), self.region(pair.other));
        if self.are_apart(&one, &other) {
            return;
        }
        let at = pair.node;
        for (way, region) in [(pair.one, &one), (pair.other, &other)] {
            if region.has(self.icfg, at) {
                // What was cut for the first may have cut the second.
                let region = self.region(way);
                if region.has(self.icfg, at) {
                    let cut = self.cut(way, &region, |node| node == pair.node, |_| false);
                    for place in cut.map(|(_, places)| places).unwrap_or_default() {
                        self.add(place);
                    }
                }
            }
        }
        let (one, other) = (self.region(pair.one), self.region(pair.other));
        if self.are_apart(&one, &other) {
            return;
        }
        let leads_back = one.has(self.icfg, at) || other.has(self.icfg, at);
        let cuts =
            [(pair.one, &one, &other), (pair.other, &other, &one)].map(|(way, region, against)| {
                let end = self.firsts().end();
                let shared = |node: Node| {
                    against.has(self.icfg, node)
                        || (self.icfg.is_stop(node) && self.firsts().has(&against.hits, end))
                };
                let is_shared = |met: &Region| !self.are_apart(met, against);
                self.cut(way, region, shared, is_shared)
            });
        let cheapest = cuts.into_iter().flatten().min_by_key(|(cost, _)| *cost);
        if let Some((_, places)) = cheapest.filter(|_| !leads_back) {
            places.into_iter().for_each(|place| self.add(place));
            let (one, other) = (self.region(pair.one), self.region(pair.other));
            if self.are_apart(&one, &other) {
                return;
            }
        }
        for place in witnesses_of_ways(self.icfg, self.costs, pair) {
            self.add(place);
        }
    }

    fn are_apart(&self, one: &Region, other: &Region) -> bool {
        self.firsts().are_apart(&one.hits, &other.hits) && one.new_hits.is_disjoint(&other.new_hits)
    }

    /// Notes that a witness is met.
    fn hit(&self, place: Place, region: &mut Region) {
        match self.draft.known.witness(place) {
            Some(witness) => bit_rows::insert(&mut region.hits, witness.position()),
            None => {
                region.new_hits.insert(place);
            }
        }
    }

    /// What `way` meets; the node it goes on at, if it meets nothing first.
    fn pass(&self, way: Way, region: &mut Region) -> Option<Node> {
        let place = self.icfg.place_of_way(way);
        if self.draft.contains(place) {
            self.hit(place, region);
            return None;
        }
        let firsts = self.firsts();
        let data = self.icfg.ways()[way];
        let routine = self.icfg.nodes()[data.from].routine;
        let mut meet = |set: &[Word]| {
            bit_rows::unite(&mut region.hits, set);
            bit_rows::remove(&mut region.hits, firsts.pass());
        };
        let next = match data.kind {
            WayKind::Step(to) => Some(to),
            WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                let entry = self.icfg.place_of_node(self.icfg.routines()[callee].entry);
                if self.draft.contains(entry) {
                    self.hit(entry, region);
                    return None;
                }
                let inside = firsts.within(callee);
                meet(inside);
                if !bit_rows::contains(inside, firsts.pass()) {
                    return None;
                }
                match data.kind {
                    WayKind::Call { back, .. } => Some(back),
                    _ => {
                        meet(firsts.after(routine));
                        None
                    }
                }
            }
            WayKind::Return => {
                meet(firsts.after(routine));
                None
            }
            WayKind::End => {
                bit_rows::insert(&mut region.hits, firsts.end());
                None
            }
            WayKind::Leave => {
                bit_rows::insert(&mut region.hits, firsts.landings());
                None
            }
        }?;
        let place = self.icfg.place_of_node(next);
        if self.draft.contains(place) {
            self.hit(place, region);
            return None;
        }
        Some(next)
    }

    fn empty_region(&self) -> Region {
        Region {
            nodes: Vec::new(),
            contains: FixedBitSet::new(),
            hits: Vec::new(),
            new_hits: BTreeSet::new(),
        }
    }

    fn region(&self, way: Way) -> Region {
        let mut region = self.empty_region();
        let routine = self.icfg.nodes()[self.icfg.ways()[way].from].routine;
        region.contains.grow(self.icfg.routines()[routine].nodes.len());
        let mut waiting: Vec<Node> = self.pass(way, &mut region).into_iter().collect();
        while let Some(node) = waiting.pop() {
            if region.contains.put(self.icfg.position_in_routine(node)) {
                continue;
            }
            region.nodes.push(node);
            if self.icfg.is_stop(node) {
                bit_rows::insert(&mut region.hits, self.firsts().end());
            }
            for way in self.icfg.ways_of(node) {
                waiting.extend(self.pass(way, &mut region));
            }
        }
        region
    }

    /// The cheapest witnesses in the region of `way` that stand before all nodes
    /// that are `shared` and all ways that meet what `is_shared`.
    fn cut(
        &self,
        way: Way,
        region: &Region,
        shared: impl Fn(Node) -> bool,
        is_shared: impl Fn(&Region) -> bool,
    ) -> Option<(u64, Vec<Place>)> {
        const SOURCE: usize = 0;
        const SINK: usize = 1;
        let mut scratch = self.scratch.borrow_mut();
        let Scratch { network, numbers } = &mut **scratch;
        numbers.resize(self.icfg.nodes().len(), 0);
        for (number, &node) in region.nodes.iter().enumerate() {
            numbers[node.position()] = number as u32;
        }
        network.clear(2 + 2 * region.nodes.len());
        let mut places = Vec::new();
        let mut met = self.empty_region();
        let capacity = |place: Place| match self.costs.is_observable(place) {
            // What is never passed is not quite free: fewer witnesses are better.
            true => self.costs.weight(place).saturating_mul(1 << 8).saturating_add(1).min(1 << 48),
            false => UNCUTTABLE,
        };
        for (number, &node) in region.nodes.iter().enumerate() {
            let place = self.icfg.place_of_node(node);
            network.add(2 + 2 * number, 3 + 2 * number, capacity(place));
            places.push(place);
        }
        let mut add_way = |way: Way, from: usize| {
            let place = self.icfg.place_of_way(way);
            met.hits.clear();
            met.new_hits.clear();
            let next = self.pass(way, &mut met);
            if self.draft.contains(place) {
                if is_shared(&met) {
                    network.add(from, SINK, UNCUTTABLE);
                    places.push(place);
                }
                return;
            }
            if next.is_some_and(&shared) || is_shared(&met) {
                network.add(from, SINK, capacity(place));
                places.push(place);
            } else if let Some(next) = next {
                let into = 2 + 2 * numbers[next.position()] as usize;
                network.add(from, into, capacity(place));
                places.push(place);
            }
        };
        add_way(way, SOURCE);
        for (number, &node) in region.nodes.iter().enumerate() {
            if !shared(node) {
                for way in self.icfg.ways_of(node) {
                    add_way(way, 3 + 2 * number);
                }
            }
        }
        let (_, cut) = network.min_cut(SOURCE, SINK)?;
        let places: Vec<Place> = cut.into_iter().map(|edge| places[edge / 2]).collect();
        Some((places.iter().map(|&place| self.costs.weight(place)).sum(), places))
    }
}
