//! How often the witnesses of a single profile are passed, at least.
//!
//! An *obstacle* is a set of places of which every plan has one as a witness:
//!
//! - the places of a way from a predicate back to it, in the same activation, if
//!   the predicate has another way that was taken;
//! - the places of two ways from a predicate to one node, or to the return of the
//!   routine, that have no place in common: but for that node, which is behind
//!   both.
//!
//! Either could otherwise be passed without a witness, and two ways would have
//! first witnesses in common. If each obstacle *o* gets a number `y(o)` such that
//! the numbers of the obstacles a place is in add up to its weight at most, then
//! the witnesses weigh at least `Σ y(o)`: each of them pays for the obstacles it
//! is in, and each obstacle is paid by one at least. (The dual of covering all
//! obstacles, a linear program; any feasible solution of it is a bound.)
//!
//! The numbers are chosen greedily: shortest obstacles first found, heaviest
//! predicates first, each as large as what is left of its places' weights. Calls
//! are passed by one fixed path through their callee; where that is used up, or
//! recursive, they are not passed.
//!
//! Cost: O(obstacles · nodes of the routine); each obstacle uses up a place.

use std::collections::VecDeque;

use backtrail_graph::{Components, Digraph, Index};

use crate::distribution::Costs;
use crate::icfg::{Icfg, Node, Place, Routine, Way, WayKind};

/// The least weight of the witnesses of any plan with one profile, weights being
/// counted in an execution.
pub(crate) fn least_weight(icfg: &Icfg, costs: &Costs) -> u64 {
    let cycles_first = Packing::new(icfg, costs).pack(true);
    let diamonds_first = Packing::new(icfg, costs).pack(false);
    cycles_first.max(diamonds_first)
}

struct Packing<'a> {
    icfg: &'a Icfg,
    costs: &'a Costs,
    /// What is left of each place's weight; of what cannot be observed, no end.
    left: Vec<u64>,
    /// By routine: the places of one way through it.
    through: Vec<Option<Vec<Place>>>,
}

/// How nodes of a routine were reached; the last position stands for its return.
struct Reached {
    /// By position in the routine: the way by which, and how far.
    by: Vec<Option<(Way, u32)>>,
}

impl<'a> Packing<'a> {
    fn new(icfg: &'a Icfg, costs: &'a Costs) -> Self {
        let weight = |place: Place| match costs.is_observable(place) {
            true => costs.weight(place),
            false => u64::MAX / 2,
        };
        let mut left: Vec<u64> = (0..icfg.place_count()).map(|it| weight(Place::new(it))).collect();
        for &place in costs.forced() {
            left[place.position()] = costs.weight(place);
        }
        let through = vec![None; icfg.routines().len()];
        let mut packing = Self { icfg, costs, left, through };
        packing.find_ways_through();
        packing
    }

    fn weight(&self, way: Way) -> u64 {
        self.costs.weight(self.icfg.place_of_way(way))
    }

    fn node_left(&self, node: Node) -> u64 {
        self.left[self.icfg.place_of_node(node).position()]
    }

    /// Callees before callers, so that calls can be passed.
    fn find_ways_through(&mut self) {
        let calls = self.icfg.ways().values().filter_map(|way| match way.kind {
            WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
                Some((self.icfg.nodes()[way.from].routine, callee))
            }
            _ => None,
        });
        let graph = Digraph::<Routine>::new(self.icfg.routines().len(), calls);
        let components = Components::new(&graph);
        for component in components.indices() {
            let [routine] = *components.members(component) else { continue };
            let entry = self.icfg.routines()[routine].entry;
            if self.node_left(entry) == 0 {
                continue;
            }
            let reached = self.search(routine, [entry], None);
            let exit = self.icfg.routines()[routine].nodes.len();
            if reached.by[exit].is_some() {
                let mut places = vec![self.icfg.place_of_node(entry)];
                places.extend(self.places_to(routine, &reached, exit, true));
                self.through[routine.position()] = Some(places);
            }
        }
    }

    fn local(&self, routine: Routine, node: Node) -> usize {
        let nodes = &self.icfg.routines()[routine].nodes;
        nodes.binary_search(&node).expect("steps stay in the routine")
    }

    /// Where a way leads in its routine, by position, if all its places are left.
    fn follow(&self, routine: Routine, way: Way) -> Option<usize> {
        let is_left = |place: &Place| self.left[place.position()] > 0;
        if !is_left(&self.icfg.place_of_way(way)) {
            return None;
        }
        let passes = |callee: Routine| {
            self.through[callee.position()]
                .as_ref()
                .is_some_and(|places| places.iter().all(is_left))
        };
        let exit = self.icfg.routines()[routine].nodes.len();
        match self.icfg.ways()[way].kind {
            WayKind::Step(to) => Some(self.local(routine, to)),
            WayKind::Call { callee, back } => passes(callee).then(|| self.local(routine, back)),
            WayKind::Tail(callee) => passes(callee).then_some(exit),
            WayKind::Return => Some(exit),
            WayKind::Leave | WayKind::End => None,
        }
    }

    /// The nodes that can be reached from `from` by places that are left, without
    /// passing `except`.
    fn search(
        &self,
        routine: Routine,
        from: impl IntoIterator<Item = Node>,
        except: Option<Node>,
    ) -> Reached {
        let nodes = &self.icfg.routines()[routine].nodes;
        let mut reached = Reached { by: vec![None; nodes.len() + 1] };
        let mut waiting: VecDeque<(Node, u32)> = from.into_iter().map(|node| (node, 0)).collect();
        while let Some((node, distance)) = waiting.pop_front() {
            for way in self.icfg.ways_of(node) {
                self.reach(routine, &mut reached, way, distance + 1, except, &mut waiting);
            }
        }
        reached
    }

    fn reach(
        &self,
        routine: Routine,
        reached: &mut Reached,
        way: Way,
        distance: u32,
        except: Option<Node>,
        waiting: &mut VecDeque<(Node, u32)>,
    ) {
        let Some(to) = self.follow(routine, way) else { return };
        if reached.by[to].is_some() {
            return;
        }
        reached.by[to] = Some((way, distance));
        let node = self.icfg.routines()[routine].nodes.get(to).copied();
        if let Some(node) = node
            && Some(node) != except
            && self.node_left(node) > 0
        {
            waiting.push_back((node, distance));
        }
    }

    fn search_from_way(&self, routine: Routine, way: Way) -> Reached {
        let nodes = &self.icfg.routines()[routine].nodes;
        let mut reached = Reached { by: vec![None; nodes.len() + 1] };
        let mut waiting = VecDeque::new();
        let from = self.icfg.ways()[way].from;
        self.reach(routine, &mut reached, way, 1, Some(from), &mut waiting);
        while let Some((node, distance)) = waiting.pop_front() {
            for way in self.icfg.ways_of(node) {
                self.reach(routine, &mut reached, way, distance + 1, Some(from), &mut waiting);
            }
        }
        reached
    }

    /// The places on the way to a position; those of its own node only if asked.
    fn places_to(
        &self,
        routine: Routine,
        reached: &Reached,
        position: usize,
        with_last: bool,
    ) -> Vec<Place> {
        let nodes = &self.icfg.routines()[routine].nodes;
        let mut places = Vec::new();
        let (mut at, mut with_node) = (position, with_last);
        while let Some((way, distance)) = reached.by[at] {
            if with_node && let Some(&node) = nodes.get(at) {
                places.push(self.icfg.place_of_node(node));
            }
            places.push(self.icfg.place_of_way(way));
            let data = self.icfg.ways()[way];
            if let WayKind::Call { callee, .. } | WayKind::Tail(callee) = data.kind {
                places.extend(self.through[callee.position()].iter().flatten());
            }
            if distance == 1 {
                break;
            }
            (at, with_node) = (self.local(routine, data.from), true);
        }
        places
    }

    /// Uses up an obstacle; what it is worth.
    fn take(&mut self, mut places: Vec<Place>) -> u64 {
        // A place that is passed twice pays twice.
        places.sort_unstable();
        let times = |place: Place| {
            places.partition_point(|it| *it <= place) - places.partition_point(|it| *it < place)
        };
        let worth = places.iter().map(|&it| self.left[it.position()] / times(it) as u64).min();
        let worth = worth.unwrap_or(0);
        for &place in &places {
            self.left[place.position()] -= worth;
        }
        worth
    }

    fn pack(mut self, cycles_first: bool) -> u64 {
        let icfg = self.icfg;
        let mut predicates: Vec<Node> = icfg.predicates().collect();
        predicates
            .sort_by_key(|&node| std::cmp::Reverse(self.costs.weight(icfg.place_of_node(node))));
        let mut total = 0;
        for round in [cycles_first, !cycles_first] {
            for &node in &predicates {
                let taken: Vec<Way> =
                    icfg.ways_of(node).filter(|&way| self.weight(way) > 0).collect();
                if taken.len() < 2 {
                    continue;
                }
                total += if round { self.pack_cycles(&taken) } else { self.pack_diamonds(&taken) };
            }
        }
        total
    }

    fn pack_cycles(&mut self, ways: &[Way]) -> u64 {
        let mut total = 0;
        for &way in ways {
            let node = self.icfg.ways()[way].from;
            let routine = self.icfg.nodes()[node].routine;
            loop {
                let reached = self.search_from_way(routine, way);
                let home = self.local(routine, node);
                if reached.by[home].is_none() || self.node_left(node) == 0 {
                    break;
                }
                let worth = self.take(self.places_to(routine, &reached, home, true));
                total += worth;
                if worth == 0 {
                    break;
                }
            }
        }
        total
    }

    fn pack_diamonds(&mut self, ways: &[Way]) -> u64 {
        let mut total = 0;
        let node = self.icfg.ways()[ways[0]].from;
        let routine = self.icfg.nodes()[node].routine;
        // What was reached from each way, until an obstacle is taken.
        let mut known: Vec<Option<Reached>> = ways.iter().map(|_| None).collect();
        for one in 0..ways.len() {
            for other in one + 1..ways.len() {
                loop {
                    for way in [one, other] {
                        if known[way].is_none() {
                            known[way] = Some(self.search_from_way(routine, ways[way]));
                        }
                    }
                    let (Some(from_one), Some(from_other)) = (&known[one], &known[other]) else {
                        break;
                    };
                    // Of the nearest join, the paths have nothing in common.
                    let joins = from_one.by.iter().zip(&from_other.by).enumerate();
                    let distance = joins.filter_map(|(at, pair)| match pair {
                        (Some((_, one)), Some((_, other))) => Some((one + other, at)),
                        _ => None,
                    });
                    let Some((_, join)) = distance.min() else { break };
                    let mut places = self.places_to(routine, from_one, join, false);
                    places.extend(self.places_to(routine, from_other, join, false));
                    let worth = self.take(places);
                    total += worth;
                    if worth == 0 {
                        break;
                    }
                    known.iter_mut().for_each(|it| *it = None);
                }
            }
        }
        total
    }
}
