//! First witnesses are what the definition says, computed without any shortcut: set by
//! set, way by way, until nothing changes.

mod random_icfg;

use std::collections::BTreeSet;

use backtrail_graph::Index;
use backtrail_trace::distribution::{Profile, Witness};
use backtrail_trace::first_witness::FirstWitnesses;
use backtrail_trace::icfg::{Icfg, Node, Place, Way, WayKind};
use fastrand::Rng;
use random_icfg::{Features, Size, graph, graph_count};

/// What can be met: a witness, or the end of the run, or the end of the activation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Met {
    Witness(Witness),
    End,
    Return,
}

type Sets = Vec<BTreeSet<Met>>;

/// What a way sees within the activation, if nodes see that.
fn way_sees(icfg: &Icfg, profile: &Profile, nodes: &Sets, way: Way) -> BTreeSet<Met> {
    if let Some(witness) = profile.witness(icfg.place_of_way(way)) {
        return BTreeSet::from([Met::Witness(witness)]);
    }
    let of = |node: Node| nodes[node.position()].clone();
    match icfg.ways()[way].kind {
        WayKind::Step(to) => of(to),
        WayKind::Call { callee, back } => {
            let mut inside = of(icfg.routines()[callee].entry);
            if inside.remove(&Met::Return) {
                inside.extend(of(back));
            }
            inside
        }
        WayKind::Tail(callee) => of(icfg.routines()[callee].entry),
        WayKind::Return => BTreeSet::from([Met::Return]),
        WayKind::Leave => {
            let landings = icfg.landings().iter().map(|&node| icfg.place_of_node(node));
            landings.filter_map(|place| profile.witness(place)).map(Met::Witness).collect()
        }
        WayKind::End => BTreeSet::from([Met::End]),
    }
}

/// Until nothing changes.
fn fixpoint(sets: &mut Sets, mut next: impl FnMut(&Sets, usize) -> BTreeSet<Met>) {
    loop {
        let before = sets.clone();
        for number in 0..sets.len() {
            let more = next(sets, number);
            sets[number].extend(more);
        }
        if *sets == before {
            return;
        }
    }
}

/// By way.
fn slowly(icfg: &Icfg, profile: &Profile) -> Sets {
    let mut nodes = vec![BTreeSet::new(); icfg.nodes().len()];
    fixpoint(&mut nodes, |nodes, number| {
        let node = Node::new(number);
        match profile.witness(icfg.place_of_node(node)) {
            Some(witness) => BTreeSet::from([Met::Witness(witness)]),
            None => {
                let ways = icfg.ways_of(node);
                ways.flat_map(|way| way_sees(icfg, profile, nodes, way)).collect()
            }
        }
    });
    let mut after = vec![BTreeSet::new(); icfg.routines().len()];
    icfg.roots().iter().for_each(|root| _ = after[root.position()].insert(Met::End));
    fixpoint(&mut after, |after, number| {
        let routine = icfg.routines().indices().nth(number).expect("there is a set for each");
        let mut set = BTreeSet::new();
        for &caller in &icfg.routines()[routine].callers {
            let data = icfg.ways()[caller];
            let mut follows = match data.kind {
                WayKind::Call { back, .. } => nodes[back.position()].clone(),
                _ => BTreeSet::from([Met::Return]),
            };
            if follows.remove(&Met::Return) {
                follows.extend(&after[icfg.nodes()[data.from].routine.position()]);
            }
            set.extend(follows);
        }
        set
    });
    let ways = icfg.ways().iter().map(|(way, data)| {
        let mut set = way_sees(icfg, profile, &nodes, way);
        if set.remove(&Met::Return) {
            set.extend(&after[icfg.nodes()[data.from].routine.position()]);
        }
        set
    });
    ways.collect()
}

#[test]
fn sets_are_those_of_the_definition() {
    let (mut compared, mut shared) = (0u64, 0u64);
    for seed in 0..graph_count(1500) {
        let mut rng = Rng::with_seed(seed);
        let features = Features { hubs: seed % 3 > 0, leaves: seed % 4 == 0 };
        let icfg = graph(&mut rng, Size { routines: 5, nodes: 5 }, features);
        let density = rng.usize(0..4);
        let places = (0..icfg.place_count()).map(Place::new);
        let chosen: Vec<Place> = places.filter(|_| rng.usize(0..12) < density).collect();
        let profile = Profile::new(&icfg, chosen);
        let (fast, slow) = (FirstWitnesses::new(&icfg, &profile), slowly(&icfg, &profile));
        // Loops that nothing leads out of have an end of their own.
        let unseen = slowly(&icfg, &Profile::new(&icfg, []));
        let ends = unseen.iter().all(|set| !set.is_empty());
        for (way, data) in icfg.ways().iter() {
            let set = &slow[way.position()];
            let calls = |way: &Way| matches!(icfg.ways()[*way].kind, WayKind::Call { .. });
            shared += u64::from(icfg.ways_of(data.from).filter(calls).count() > 1);
            for number in 0..profile.places().len() {
                let witness = Witness::new(number);
                let expected = set.contains(&Met::Witness(witness));
                assert_eq!(fast.contains(way, witness), expected, "seed {seed}, {way}, {witness}");
            }
            if ends {
                assert_eq!(fast.can_end(way), set.contains(&Met::End), "seed {seed}, {way}");
            }
            for other in icfg.ways_of(data.from).filter(|_| ends) {
                let expected = set.is_disjoint(&slow[other.position()]);
                assert_eq!(fast.are_disjoint(way, other), expected, "seed {seed}, {way}, {other}");
            }
            compared += 1;
        }
    }
    println!("{compared} ways, {shared} of nodes with several callees");
    assert!(compared > 1000 && shared > 100);
}
