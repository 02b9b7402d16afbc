//! Profiles, and what they cost.
//!
//! A *profile* is the set of places that one run observes, its *witnesses*; a
//! *distribution* is a list of profiles. Landings are witnesses in every profile,
//! because their events say which frames are gone.
//!
//! [`Costs`] says which places can be observed, and how often each is thought to
//! be passed: guessed from the shape of the code or counted in an earlier run,
//! which is the caller's business. For probes most edges can be observed
//! ([`Costs::edges`]), for breakpoints nodes ([`Costs::nodes`]).

use backtrail_graph::{Index, define_index};

use crate::icfg::{Icfg, Place, PlaceKind, Role, WayKind};

define_index!(
    /// A witness of a profile, by its position in it: what events name.
    Witness, "t"
);

/// The witnesses of one run.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Profile {
    places: Vec<Place>,
}

impl Profile {
    /// These places and all landings.
    pub fn new(icfg: &Icfg, places: impl IntoIterator<Item = Place>) -> Self {
        let landings = icfg.landings().iter().map(|&node| icfg.place_of_node(node));
        let mut places: Vec<Place> = places.into_iter().chain(landings).collect();
        places.sort_unstable();
        places.dedup();
        Self { places }
    }

    /// The witnesses, in order: the position of one is its number.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// The number of the witness at `place`.
    pub fn witness(&self, place: Place) -> Option<Witness> {
        self.places.binary_search(&place).ok().map(Witness::new)
    }

    /// How many events a run makes, under these costs.
    pub fn cost(&self, costs: &Costs) -> u64 {
        self.places.iter().map(|&place| costs.weight(place)).sum()
    }
}

/// What can be observed, and how often it is passed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    weights: Vec<u64>,
    observable: Vec<bool>,
    forced: Vec<Place>,
    seeds: Vec<Place>,
}

impl Costs {
    /// Weights by place; a place can be observed where `observable` says so.
    /// `forced` are witnesses in every profile, besides landings.
    ///
    /// # Panics
    /// If there is not one weight for each place.
    pub fn new(
        icfg: &Icfg,
        weights: Vec<u64>,
        observable: impl Fn(Place) -> bool,
        mut forced: Vec<Place>,
    ) -> Self {
        assert_eq!(weights.len(), icfg.place_count(), "one weight for each place");
        let observable = (0..weights.len()).map(|place| observable(Place::new(place))).collect();
        forced.extend(icfg.landings().iter().map(|&node| icfg.place_of_node(node)));
        forced.sort_unstable();
        forced.dedup();
        Self { weights, observable, forced, seeds: Vec::new() }
    }

    /// For probes: on edges, at entries, before calls and returns. Where a run
    /// ended is observed in every profile, at the cost of one event.
    pub fn edges(icfg: &Icfg, weights: Vec<u64>) -> Self {
        let observable = |place| match icfg.place(place) {
            PlaceKind::Node(node) => icfg.routines()[icfg.nodes()[node].routine].entry == node,
            PlaceKind::Way(way) => match icfg.ways()[way].kind {
                WayKind::Step(_) | WayKind::Tail(_) | WayKind::Return => true,
                WayKind::Call { .. } => !icfg.is_callback(way),
                WayKind::Leave | WayKind::End => false,
            },
        };
        Self::new(icfg, weights, observable, Self::ends(icfg))
    }

    /// For breakpoints: on nodes, and on indirect calls, whose stop tells the
    /// callee. Where a run ended is observed in every profile.
    pub fn nodes(icfg: &Icfg, weights: Vec<u64>) -> Self {
        let observable = |place| match icfg.place(place) {
            PlaceKind::Node(node) => icfg.nodes()[node].role != Role::Hub,
            PlaceKind::Way(way) => {
                let data = icfg.ways()[way];
                let is_choice = icfg.ways_of(data.from).len() > 1;
                match data.kind {
                    WayKind::Call { .. } => is_choice && !icfg.is_callback(way),
                    WayKind::Tail(_) => is_choice,
                    // An indirect call of unseen code.
                    WayKind::Step(to) => is_choice && icfg.nodes()[to].role == Role::Hub,
                    WayKind::Return | WayKind::Leave | WayKind::End => false,
                }
            }
        };
        Self::new(icfg, weights, observable, Self::ends(icfg))
    }

    fn ends(icfg: &Icfg) -> Vec<Place> {
        let ends = icfg.ways().iter().filter(|(_, way)| way.kind == WayKind::End);
        ends.map(|(way, _)| icfg.place_of_way(way)).collect()
    }

    /// Suggests witnesses, to begin with: those that are known to be needed, so
    /// that they need not be found pair by pair.
    pub fn with_seeds(self, seeds: Vec<Place>) -> Self {
        Self { seeds, ..self }
    }

    /// What was suggested.
    pub fn seeds(&self) -> &[Place] {
        &self.seeds
    }

    /// How often a place is passed.
    pub fn weight(&self, place: Place) -> u64 {
        self.weights[place.position()]
    }

    /// Whether a place can be chosen as a witness.
    pub fn is_observable(&self, place: Place) -> bool {
        self.observable[place.position()]
    }

    /// The witnesses of every profile.
    pub fn forced(&self) -> &[Place] {
        &self.forced
    }
}
