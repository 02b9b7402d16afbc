//! What rebuilding looks up.
//!
//! Flat rows by node and by way. For a predicate whose ways one profile tells
//! apart, a small table from that profile's next witness to the way, for all ways
//! but the one with the most first witnesses, and of that one a bit per witness. A few
//! witnesses have slots of their own, more are at theirs or behind it. If there are far
//! more witnesses than ways, the profile is asked about each way. Other predicates ask
//! each profile about each way.

use std::sync::Arc;

use backtrail_graph::Index;

use super::Event;
use crate::Error;
use crate::bit_rows;
use crate::distribution::{Profile, Witness};
use crate::first_witness::FirstWitnesses;
use crate::icfg::{Icfg, Node, Place, Routine, Way, WayKind};
use crate::realizability::Analysis;

/// In the place of a witness: the run has ended.
pub(super) const END: u32 = u32::MAX;
/// In the place of a witness: what follows was not recorded.
pub(super) const CUT: u32 = u32::MAX - 1;
/// In the place of a witness: a handler was called here.
pub(super) const INTERRUPT: u32 = u32::MAX - 2;
/// In the place of a witness: the handler that was called last returned here.
pub(super) const RESUME: u32 = u32::MAX - 3;
/// Where the root returns to.
pub(super) const NO_NODE: u32 = u32::MAX;
/// Where handlers return to: what they interrupted.
pub(super) const INTERRUPTED: u32 = u32::MAX - 1;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Action {
    Step,
    Call,
    Tail,
    Return,
    Leave,
    End,
}

#[derive(Debug, Clone)]
pub(super) struct NodeRow {
    pub hits: (u32, u32),
    /// The only way, or for a predicate the number of its [`Chooser`].
    pub way: u32,
    pub is_predicate: bool,
    pub landing: bool,
}

#[derive(Debug, Clone)]
pub(super) struct WayRow {
    pub hits: (u32, u32),
    pub action: Action,
    pub pops_landing: bool,
    pub target: u32,
    pub back: u32,
    pub callee: Routine,
}

#[derive(Debug, Clone)]
struct Chooser {
    /// The profile that tells all ways apart, or `NO_PROFILE`.
    profile: u32,
    /// Multiplier and shift of the table, which starts at `first`.
    multiplier: u32,
    shift: u32,
    first: u32,
    /// The way of the witnesses that are not in the table, or `NO_TABLE`.
    other: u32,
    /// Whether entries may be behind their slot, up to the next that is free.
    is_crowded: bool,
}

/// Each way is to be looked at.
const NO_TABLE: u32 = u32::MAX;

impl Chooser {
    fn without_table(profile: u32) -> Self {
        let (multiplier, shift, first) = (0, 0, 0);
        Self { profile, multiplier, shift, first, other: NO_TABLE, is_crowded: false }
    }

    /// The entry of a witness, or any other if it has none.
    #[inline]
    fn entry(&self, entries: &[Entry], witness: u32) -> Entry {
        let mut slot = witness.wrapping_mul(self.multiplier) >> self.shift;
        let mut entry = entries[(self.first + slot) as usize];
        while self.is_crowded && entry.witness != witness && entry.witness != CUT {
            slot = (slot + 1) & (u32::MAX >> self.shift);
            entry = entries[(self.first + slot) as usize];
        }
        entry
    }
}

const NO_PROFILE: u32 = u32::MAX;

/// Tables of more entries have collisions: without, they are as large as the square.
const MOST_APART: usize = 32;

/// Larger tables have no more entries for each way: a large program has many predicates
/// that are followed by thousands of witnesses.
const MOST_BY_WAY: usize = 16;

/// Tables of so many entries at most have all ways of their predicate.
const SMALL_TABLE: usize = 16;

#[derive(Debug, Clone, Copy)]
struct Entry {
    witness: u32,
    way: u32,
}

/// What rebuilding looks up, for one distribution.
#[derive(Debug, Clone)]
pub struct Tables {
    nodes: Vec<NodeRow>,
    ways: Vec<WayRow>,
    hits: Vec<(u32, Witness)>,
    choosers: Vec<Chooser>,
    entries: Vec<Entry>,
    firsts: Vec<Arc<FirstWitnesses>>,
    ends_unseen: Vec<bool>,
    /// By predicate's chooser: its ways.
    choices: Vec<(u32, u32)>,
    routine_of: Vec<Routine>,
    routines: Vec<(Node, bool)>,
    profiles: Vec<Profile>,
    landing_at: Vec<bool>,
}

impl Tables {
    /// The tables of a distribution; an error if it is not realizable.
    pub fn new(icfg: &Icfg, profiles: &[Profile]) -> Result<Self, Error> {
        let analysis = Analysis::new(icfg, profiles);
        if let Some(conflict) = analysis.conflicts().next() {
            let (one, other) = (icfg.ways()[conflict.one].kind, icfg.ways()[conflict.other].kind);
            return Err(Error::Plan(format!(
                "at {} of {}, {one:?} and {other:?} look alike",
                conflict.node,
                icfg.nodes()[conflict.node].routine
            )));
        }
        let mut hits_by_place: Vec<Vec<(u32, Witness)>> = vec![Vec::new(); icfg.place_count()];
        for (number, profile) in profiles.iter().enumerate() {
            for (witness, place) in profile.places().iter().enumerate() {
                hits_by_place[place.position()].push((number as u32, Witness::new(witness)));
            }
        }
        let mut hits = Vec::new();
        let mut range = |place: Place| {
            let first = hits.len() as u32;
            hits.extend(&hits_by_place[place.position()]);
            (first, hits.len() as u32)
        };
        let mut choosers = Choosers::default();
        let mut nodes = Vec::with_capacity(icfg.nodes().len());
        for (node, data) in icfg.nodes().iter() {
            let mut ways = icfg.ways_of(node);
            let is_predicate = ways.len() > 1;
            let way = match (is_predicate, ways.next()) {
                (true, _) => choosers.add(icfg, &analysis, node),
                (false, Some(way)) => way.position() as u32,
                (false, None) => u32::MAX,
            };
            let hits = range(icfg.place_of_node(node));
            nodes.push(NodeRow { hits, way, is_predicate, landing: data.landing });
        }
        let has_landings = |node: Node| icfg.routines()[icfg.nodes()[node].routine].has_landings;
        let ways = icfg.ways().iter().map(|(way, data)| {
            let entry = |routine: Routine| icfg.routines()[routine].entry.position() as u32;
            let mut row = WayRow {
                hits: range(icfg.place_of_way(way)),
                action: Action::End,
                pops_landing: false,
                target: 0,
                back: NO_NODE,
                callee: Routine::new(0),
            };
            match data.kind {
                WayKind::Step(to) => {
                    (row.action, row.target) = (Action::Step, to.position() as u32)
                }
                WayKind::Call { callee, back } => {
                    (row.action, row.target, row.callee) = (Action::Call, entry(callee), callee);
                    row.back = back.position() as u32;
                }
                WayKind::Tail(callee) => {
                    (row.action, row.target, row.callee) = (Action::Tail, entry(callee), callee);
                    row.pops_landing = has_landings(data.from);
                }
                WayKind::Return => {
                    (row.action, row.pops_landing) = (Action::Return, has_landings(data.from));
                }
                WayKind::Leave => row.action = Action::Leave,
                WayKind::End => {}
            }
            row
        });
        let ways = ways.collect();
        let ends_unseen = icfg.ways().indices().map(|way| analysis.can_end_unseen(way)).collect();
        Ok(Self {
            nodes,
            ways,
            hits,
            choosers: choosers.choosers,
            entries: choosers.entries,
            choices: choosers.choices,
            ends_unseen,
            firsts: analysis.into_firsts(),
            routine_of: icfg.nodes().values().map(|data| data.routine).collect(),
            routines: icfg.routines().values().map(|it| (it.entry, it.has_landings)).collect(),
            profiles: profiles.to_vec(),
            landing_at: icfg.nodes().values().map(|data| data.landing).collect(),
        })
    }

    /// How many partial traces there have to be.
    pub fn profile_count(&self) -> usize {
        self.profiles.len()
    }

    pub(super) fn entry(&self, routine: Routine) -> Node {
        self.routines[routine.position()].0
    }

    pub(super) fn first_node(&self) -> Node {
        Node::new(0)
    }

    #[inline]
    pub(super) fn has_landings(&self, routine: Routine) -> bool {
        self.routines[routine.position()].1
    }

    pub(super) fn routine(&self, node: Node) -> Routine {
        self.routine_of[node.position()]
    }

    #[inline]
    pub(super) fn node(&self, node: Node) -> &'_ NodeRow {
        &self.nodes[node.position()]
    }

    #[inline]
    pub(super) fn way(&self, way: u32) -> &'_ WayRow {
        &self.ways[way as usize]
    }

    #[inline]
    pub(super) fn hit(&self, hit: u32) -> (usize, Witness) {
        let (profile, witness) = self.hits[hit as usize];
        (profile as usize, witness)
    }

    /// The landing that a witness is.
    pub(super) fn landing(&self, profile: usize, witness: Witness) -> Option<Node> {
        let place = self.profiles[profile].places().get(witness.position())?;
        let is_landing = *self.landing_at.get(place.position())?;
        is_landing.then(|| Node::new(place.position()))
    }

    /// The way that the deciding profile's next witness means; nothing if there
    /// is no such profile or it does not know. With the profile that was asked.
    #[inline]
    pub(super) fn choose(&self, node: Node, heads: &[Event]) -> (Option<usize>, Option<u32>) {
        let chooser = &self.choosers[self.nodes[node.position()].way as usize];
        if chooser.profile == NO_PROFILE {
            return (None, None);
        }
        let profile = chooser.profile as usize;
        let head = heads[profile].witness.position() as u32;
        if chooser.other == NO_TABLE {
            return (Some(profile), self.choose_slowly(node, profile, head));
        }
        let entry = chooser.entry(&self.entries, head);
        if entry.witness == head && head != CUT {
            return (Some(profile), Some(entry.way));
        }
        let way = Way::new(chooser.other as usize);
        let agrees = self.agrees(profile, way, head) && head != CUT;
        (Some(profile), agrees.then_some(chooser.other))
    }

    fn choose_slowly(&self, node: Node, profile: usize, head: u32) -> Option<u32> {
        let (first, end) = self.choices[self.nodes[node.position()].way as usize];
        let agrees = |way: &u32| self.agrees(profile, Way::new(*way as usize), head);
        (first..end).find(agrees).filter(|_| head != CUT)
    }

    #[inline]
    fn agrees(&self, profile: usize, way: Way, head: u32) -> bool {
        let firsts = &self.firsts[profile];
        match head {
            CUT => true,
            // A handler is a root, too.
            END | RESUME => firsts.can_end(way),
            INTERRUPT => false,
            witness => firsts.contains(way, Witness::new(witness as usize)),
        }
    }

    /// The ways of a predicate that agree with all heads.
    pub(super) fn possible(&self, node: Node, heads: &[Event]) -> impl Iterator<Item = u32> {
        let head = |event: &Event| event.witness.position() as u32;
        let all_ended = heads.iter().all(|event| head(event) == END);
        let (first, end) = self.choices[self.nodes[node.position()].way as usize];
        (first..end).filter(move |&number| {
            let way = Way::new(number as usize);
            let mut heads = heads.iter().enumerate();
            heads.all(|(profile, event)| self.agrees(profile, way, head(event)))
                && (!all_ended || self.ends_unseen[number as usize])
        })
    }
}

#[derive(Default)]
struct Choosers {
    choosers: Vec<Chooser>,
    entries: Vec<Entry>,
    choices: Vec<(u32, u32)>,
}

/// No witness has this number, and no trace ends with it.
const NOTHING: Entry = Entry { witness: CUT, way: 0 };

impl Choosers {
    fn add(&mut self, icfg: &Icfg, analysis: &Analysis<'_>, node: Node) -> u32 {
        let ways: Vec<Way> = icfg.ways_of(node).collect();
        let (first, last) = (ways[0].position() as u32, ways[ways.len() - 1].position() as u32);
        let decides_all = |firsts: &FirstWitnesses| firsts.are_all_apart(ways.iter().copied());
        let size = |firsts: &FirstWitnesses, way: Way| firsts.most_next(way);
        // Of the profiles that decide, the one with the smallest table.
        let found = analysis.firsts().iter().enumerate().filter(|(_, it)| decides_all(it));
        let table_size = |firsts: &FirstWitnesses| {
            let sizes = ways.iter().map(|&way| size(firsts, way));
            sizes.clone().sum::<usize>() - sizes.max().unwrap_or(0)
        };
        let found = found.min_by_key(|(_, firsts)| table_size(firsts));
        let chooser = match found {
            None => Chooser::without_table(NO_PROFILE),
            Some((profile, firsts))
                if table_size(firsts) > MOST_APART.max(MOST_BY_WAY * ways.len()) =>
            {
                Chooser::without_table(profile as u32)
            }
            Some((profile, firsts)) => {
                let other = *ways.iter().max_by_key(|&&way| size(firsts, way)).unwrap_or(&ways[0]);
                // If all is little, nothing has to be looked for elsewhere.
                let all: usize = ways.iter().map(|&way| size(firsts, way)).sum();
                let entries: Vec<Entry> = ways
                    .iter()
                    .filter(|&&way| way != other || all <= SMALL_TABLE)
                    .flat_map(|&way| {
                        let row: Vec<usize> = bit_rows::ones(&firsts.unfolded_row(way)).collect();
                        row.into_iter().map(move |bit| {
                            let witness = if bit == firsts.end() { END } else { bit as u32 };
                            Entry { witness, way: way.position() as u32 }
                        })
                    })
                    .collect();
                let first = self.entries.len() as u32;
                let is_crowded = entries.len() > MOST_APART;
                let (multiplier, shift, table) = match is_crowded {
                    true => hash_with_collisions(&entries),
                    false => hash_without_collisions(&entries),
                };
                self.entries.extend(table);
                let (profile, other) = (profile as u32, other.position() as u32);
                Chooser { profile, multiplier, shift, first, other, is_crowded }
            }
        };
        self.choosers.push(chooser);
        self.choices.push((first, last + 1));
        self.choosers.len() as u32 - 1
    }
}

const MULTIPLIER: u32 = 0x9e37_79b1;

/// A multiplier and a shift that give every entry a slot, at or behind which it is; at
/// least every other is free.
fn hash_with_collisions(entries: &[Entry]) -> (u32, u32, Vec<Entry>) {
    let bits = (2 * entries.len().max(1)).next_power_of_two().trailing_zeros();
    let mut table = vec![NOTHING; 1 << bits];
    for &entry in entries {
        let mut slot = (entry.witness.wrapping_mul(MULTIPLIER) >> (32 - bits)) as usize;
        while table[slot].witness != CUT {
            slot = (slot + 1) % table.len();
        }
        table[slot] = entry;
    }
    (MULTIPLIER, 32 - bits, table)
}

/// A multiplier and a shift that give every entry a slot of its own.
fn hash_without_collisions(entries: &[Entry]) -> (u32, u32, Vec<Entry>) {
    let mut bits = (entries.len().max(2)).next_power_of_two().trailing_zeros();
    loop {
        let mut multiplier = MULTIPLIER;
        for _ in 0..64 {
            let mut table = vec![NOTHING; 1 << bits];
            let fits = entries.iter().all(|&entry| {
                let slot = entry.witness.wrapping_mul(multiplier) >> (32 - bits);
                let slot = &mut table[slot as usize];
                let is_free = slot.witness == CUT;
                *slot = entry;
                is_free
            });
            if fits {
                return (multiplier, 32 - bits, table);
            }
            multiplier = multiplier.wrapping_mul(0x85eb_ca6b) | 1;
        }
        bits += 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_entry_is_found_in_its_table_and_no_other() {
        for count in [0, 1, 2, 7, 31, 32, 33, 100, 5000] {
            let witness = |number: u32| number.wrapping_mul(40_503) % 1_000_003;
            let mut entries: Vec<Entry> =
                (0..count).map(|way| Entry { witness: witness(way), way }).collect();
            entries.extend((count > 1).then_some(Entry { witness: END, way: count }));
            for is_crowded in [false, true] {
                // Without collisions, large ones take long.
                if !is_crowded && count > 100 {
                    continue;
                }
                let (multiplier, shift, table) = match is_crowded {
                    true => hash_with_collisions(&entries),
                    false => hash_without_collisions(&entries),
                };
                let chooser =
                    Chooser { multiplier, shift, is_crowded, ..Chooser::without_table(0) };
                for entry in &entries {
                    let found = chooser.entry(&table, entry.witness);
                    assert_eq!((found.witness, found.way), (entry.witness, entry.way), "{count}");
                }
                for missing in (count..count + 500).map(witness).chain([CUT, RESUME, INTERRUPT]) {
                    let found = chooser.entry(&table, missing).witness;
                    assert!(found != missing || found == CUT, "{count}: {missing}");
                }
            }
        }
    }
}
