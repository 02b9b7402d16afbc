//! Whether a distribution can be put together again, for every input.
//!
//! The condition on paths: for each predicate and each pair of its ways *a*, *b*,
//! either
//!
//! 1. some profile *k* has `W_k(a) ∩ W_k(b) = ∅`; or
//! 2. in every profile the two sets share at most the end of the run, and not
//!    both *a* and *b* can come to the end of the run without meeting a witness
//!    of any profile.
//!
//! *It is enough.* The way that was taken is never excluded, since `W` has
//! everything that can be next. Another way is: in case 1 by profile *k*. In case
//! 2, if the heads of all partial traces are possible for both ways, all of them
//! are at their end, the way that was taken came to the end of the run without
//! any witness, and the other cannot.
//!
//! This is not the condition on paths of the source ([`crate::first_witness`]),
//! which lets pairs that do not both lead back to the predicate be told apart by
//! first witnesses of different profiles; that accepts distributions that cannot
//! be put together. Whether a way leads back needs no case of its own here.

use std::sync::{Arc, OnceLock};

use backtrail_graph::Index;

use crate::bit_rows;
use crate::distribution::{Profile, Witness};
use crate::first_witness::FirstWitnesses;
use crate::icfg::{Icfg, Node, Place, PlaceKind, Way, WayKind};

/// Two ways of a predicate that cannot always be told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Conflict {
    /// The predicate.
    pub node: Node,
    /// One way.
    pub one: Way,
    /// The other.
    pub other: Way,
}

/// How two ways are told apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// By the next witness of this profile.
    Profile(u32),
    /// By any profile, and by whether the run ends, when all are at their end.
    End,
}

/// What became of a witness that was tried to be taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trial {
    /// It is plainly needed.
    Needed,
    /// Without it, two ways were alike; it is in again.
    Missed,
    /// It is out.
    TakenOut,
}

/// A distribution with all that is known of it.
#[derive(Debug, Clone)]
pub struct Analysis<'a> {
    icfg: &'a Icfg,
    firsts: Vec<Arc<FirstWitnesses>>,
    union: Union,
}

/// All profiles taken together.
#[derive(Debug, Clone)]
struct Union {
    profile: Profile,
    /// Few ask for them.
    firsts: OnceLock<Arc<FirstWitnesses>>,
}

impl Union {
    /// That of profiles whose first witnesses are these.
    fn new(icfg: &Icfg, profiles: &[Profile], firsts: &[Arc<FirstWitnesses>]) -> Self {
        let all = profiles.iter().flat_map(|profile| profile.places()).copied();
        Self::of(Profile::new(icfg, all), firsts)
    }

    fn of(profile: Profile, firsts: &[Arc<FirstWitnesses>]) -> Self {
        let firsts = match firsts {
            [only] => OnceLock::from(Arc::clone(only)),
            _ => OnceLock::new(),
        };
        Self { profile, firsts }
    }

    fn firsts(&self, icfg: &Icfg) -> &FirstWitnesses {
        self.firsts.get_or_init(|| Arc::new(FirstWitnesses::new(icfg, &self.profile)))
    }
}

impl<'a> Analysis<'a> {
    /// Computes the first witnesses of every profile.
    pub fn new(icfg: &'a Icfg, profiles: &[Profile]) -> Self {
        let firsts = profiles.iter().map(|profile| Arc::new(FirstWitnesses::new(icfg, profile)));
        let firsts = firsts.collect();
        Self::of_firsts(icfg, firsts, profiles)
    }

    pub(crate) fn of_firsts(
        icfg: &'a Icfg,
        firsts: Vec<Arc<FirstWitnesses>>,
        profiles: &[Profile],
    ) -> Self {
        let union = Union::new(icfg, profiles, &firsts);
        Self { icfg, firsts, union }
    }

    /// Computes anew what depends on profile `changed`, which is new or another
    /// than it was.
    pub fn update(&mut self, profiles: &[Profile], changed: usize) {
        let firsts = Arc::new(FirstWitnesses::new(self.icfg, &profiles[changed]));
        if changed == self.firsts.len() {
            self.firsts.push(firsts);
        } else {
            self.firsts[changed] = firsts;
        }
        self.union = Union::new(self.icfg, profiles, &self.firsts);
    }

    /// Takes witness `witness` out of profile `number`, leaving the witnesses
    /// `fewer`, if every execution can still be put together.
    pub(crate) fn take_out(
        &mut self,
        number: usize,
        witness: Witness,
        place: Place,
        fewer: &Profile,
        union: impl FnOnce() -> Profile,
    ) -> Trial {
        // Only where it was a first witness, something changes.
        let concerned: Vec<Node> = {
            let firsts = &self.firsts[number];
            let sees = |node: Node| self.icfg.ways_of(node).any(|it| firsts.contains(it, witness));
            self.icfg.predicates().filter(|&node| sees(node)).collect()
        };
        if self.is_needed(number, witness, place, &concerned) {
            return Trial::Needed;
        }
        let firsts = Arc::new(FirstWitnesses::new(self.icfg, fewer));
        let before = std::mem::replace(&mut self.firsts[number], firsts);
        let counts_ends = self.firsts.iter().all(|it| it.can_end_anywhere());
        let union_before = counts_ends.then(|| {
            let union = Union::of(union(), &self.firsts);
            std::mem::replace(&mut self.union, union)
        });
        let is_decided = |&node: &Node| {
            self.is_decided_by_one(node)
                || pairs(self.icfg, node).all(|it| self.decision(it.one, it.other).is_some())
        };
        // How a run ends is not a matter of one place.
        let holds = match counts_ends {
            true => self.is_realizable(),
            false => concerned.iter().all(is_decided),
        };
        if !holds {
            self.firsts[number] = before;
            if let Some(union) = union_before {
                self.union = union;
            }
            return Trial::Missed;
        }
        Trial::TakenOut
    }

    /// Whether it is plain that a witness of a profile cannot be missed: what
    /// follows it can follow another way of a predicate as well, that nothing else
    /// tells from a way on which it is met first.
    fn is_needed(&self, number: usize, witness: Witness, place: Place, concerned: &[Node]) -> bool {
        let firsts = &self.firsts[number];
        // What follows in the same activation, and wherever it returns to.
        let (mut within, mut anywhere) = (Vec::new(), Vec::new());
        let mut follow = |way: Way| {
            let row = firsts.unfolded_row(way);
            bit_rows::unite(&mut anywhere, &row);
            if !firsts.can_return(way) {
                bit_rows::unite(&mut within, &row);
            }
        };
        let node = match self.icfg.place(place) {
            PlaceKind::Node(node) => node,
            PlaceKind::Way(way) => match self.icfg.ways()[way].kind {
                WayKind::Step(to) => to,
                _ => return false,
            },
        };
        let routine = self.icfg.routine_of_place(place);
        self.icfg.ways_of(node).for_each(&mut follow);
        bit_rows::remove(&mut within, witness.position());
        bit_rows::remove(&mut anywhere, witness.position());
        concerned.iter().any(|&node| {
            let is_near = self.icfg.nodes()[node].routine == routine;
            let next = if is_near { &anywhere } else { &within };
            let (with, without): (Vec<Way>, Vec<Way>) =
                self.icfg.ways_of(node).partition(|&way| firsts.contains(way, witness));
            without.iter().any(|&other| {
                !firsts.are_apart(next, &firsts.row(other))
                    && with.iter().any(|&one| {
                        let decides = |(it, firsts): (usize, &Arc<FirstWitnesses>)| {
                            it != number && firsts.are_disjoint(one, other)
                        };
                        !self.firsts.iter().enumerate().any(decides)
                            && !self.firsts.iter().all(|it| it.can_end_anywhere())
                    })
            })
        })
    }

    /// The first witnesses, by profile.
    pub fn firsts(&self) -> &[Arc<FirstWitnesses>] {
        &self.firsts
    }

    pub(crate) fn into_firsts(self) -> Vec<Arc<FirstWitnesses>> {
        self.firsts
    }

    /// Whether the run can end without any witness of any profile when `way` is
    /// taken.
    pub fn can_end_unseen(&self, way: Way) -> bool {
        self.union.firsts(self.icfg).can_end(way)
    }

    /// How two ways of one predicate are told apart, if they always are.
    pub fn decision(&self, one: Way, other: Way) -> Option<Decision> {
        let decides = |firsts: &Arc<FirstWitnesses>| firsts.are_disjoint(one, other);
        if let Some(profile) = self.firsts.iter().position(decides) {
            return Some(Decision::Profile(profile as u32));
        }
        self.is_decided_at_the_end(one, other).then_some(Decision::End)
    }

    fn is_decided_at_the_end(&self, one: Way, other: Way) -> bool {
        !(self.can_end_unseen(one) && self.can_end_unseen(other))
            && self.firsts.iter().all(|firsts| firsts.share_at_most_the_end(one, other))
    }

    /// The pairs of ways that are not always told apart.
    pub fn conflicts(&self) -> impl Iterator<Item = Conflict> + '_ {
        self.icfg
            .predicates()
            .filter(|&node| !self.is_decided_by_one(node))
            .flat_map(move |node| pairs(self.icfg, node))
            .filter(|&Conflict { one, other, .. }| self.decision(one, other).is_none())
    }

    /// Whether one profile tells all ways of a node apart: asked at once, since
    /// an indirect call may have hundreds.
    pub(crate) fn is_decided_by_one(&self, node: Node) -> bool {
        self.firsts.iter().any(|firsts| firsts.are_all_apart(self.icfg.ways_of(node)))
    }

    /// Whether every execution can be put together from its partial traces.
    pub fn is_realizable(&self) -> bool {
        self.conflicts().next().is_none()
    }
}

/// The pairs of ways of a node.
pub fn pairs(icfg: &Icfg, node: Node) -> impl Iterator<Item = Conflict> + use<> {
    let mut ways = icfg.ways_of(node).map(Index::position);
    let count = ways.len();
    let first = ways.next().unwrap_or(0);
    let end = first + count;
    (first..end).flat_map(move |one| {
        (one + 1..end).map(move |other| Conflict {
            node,
            one: Way::new(one),
            other: Way::new(other),
        })
    })
}
