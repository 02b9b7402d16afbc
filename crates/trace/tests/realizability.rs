//! What is accepted can be put together, for every execution; the source's
//! counter-examples are rejected.

mod random_icfg;

use backtrail_graph::Index;
use backtrail_trace::distribution::Profile;
use backtrail_trace::icfg::{Builder, Icfg, Node, Place, Role, WayKind};
use backtrail_trace::realizability::Analysis;
use backtrail_trace::rebuild::{Ending, Event, Outcome, Rebuild, Tables};
use fastrand::Rng;
use random_icfg::{
    Features, Size, check_rebuilt, executions, graph, graph_count, has_twins, loop_free_standing,
    random_execution, rebuild,
};

/// A profile of nodes.
fn of_nodes(icfg: &Icfg, nodes: &[usize]) -> Profile {
    Profile::new(icfg, nodes.iter().map(|&node| icfg.place_of_node(Node::new(node))))
}

fn random_profiles(icfg: &Icfg, rng: &mut Rng) -> Vec<Profile> {
    let density = rng.usize(1..=2);
    (0..rng.usize(1..=3))
        .map(|_| {
            let places = (0..icfg.place_count()).map(Place::new);
            Profile::new(icfg, places.filter(|_| rng.usize(0..5) < density).collect::<Vec<_>>())
        })
        .collect()
}

#[test]
fn what_is_accepted_is_rebuilt_and_what_is_rejected_seldom_could_be() {
    let (mut accepted, mut rejected, mut rebuilt, mut without_twins) = (0u64, 0u64, 0u64, 0u64);
    for seed in 0..graph_count(1500) {
        let mut rng = Rng::with_seed(seed);
        let features = Features { hubs: seed % 2 == 0, leaves: seed % 4 == 0 };
        let icfg = graph(&mut rng, Size { routines: 3, nodes: 4 }, features);
        let all = executions(&icfg, 11, 400);
        for _ in 0..2 {
            let profiles = random_profiles(&icfg, &mut rng);
            match Tables::new(&icfg, &profiles) {
                Ok(tables) => {
                    accepted += 1;
                    for execution in &all {
                        check_rebuilt(&tables, &icfg, &profiles, execution);
                        rebuilt += 1;
                    }
                    for _ in 0..4 {
                        if let Some(execution) = random_execution(&icfg, &mut rng, 60) {
                            check_rebuilt(&tables, &icfg, &profiles, &execution);
                            rebuilt += 1;
                        }
                    }
                }
                Err(_) => {
                    rejected += 1;
                    without_twins += u64::from(!has_twins(&icfg, &profiles, &all));
                }
            }
        }
    }
    println!(
        "{accepted} accepted, {rebuilt} executions of them rebuilt; {rejected} rejected, of which \
         {without_twins} without two executions alike among the short ones"
    );
    assert!(accepted > rejected / 20 && rebuilt > 5 * accepted, "{accepted} accepted, {rebuilt}");
}

/// A loop around an if: entry 0, head 1, branch 2 to 3 or 4, joined in 5, exit 6.
fn loop_around_if() -> Icfg {
    let edges = [(0, 1), (1, 2), (1, 6), (2, 3), (2, 4), (3, 5), (4, 5), (5, 1)];
    loop_free_standing(7, &edges)
}

#[test]
fn branches_of_a_loop_in_different_profiles_are_rejected() {
    let icfg = loop_around_if();
    let check = |profiles: &[&[usize]]| {
        let profiles: Vec<Profile> = profiles.iter().map(|nodes| of_nodes(&icfg, nodes)).collect();
        let accepted = Analysis::new(&icfg, &profiles).is_realizable();
        assert_eq!(accepted, !has_twins(&icfg, &profiles, &executions(&icfg, 14, 5000)));
        accepted
    };
    // Figure 1: all blocks, dealt out to three profiles.
    assert!(!check(&[&[0, 1, 2, 5], &[3, 6], &[4]]));
    // Figure 2: the two that matter, one each.
    assert!(!check(&[&[3], &[4]]));
    // Both in one profile; or each together with a witness of the loop.
    assert!(check(&[&[3, 4]]));
    assert!(check(&[&[3, 2], &[4, 2]]));
    // The exit may be told by another profile only if that breaks the loop.
    assert!(!check(&[&[3], &[5]]));
    assert!(check(&[&[3, 5], &[1]]));
}

/// Figure 3: foo calls bar in a loop, bar has an if.
#[test]
fn a_call_in_a_loop_and_a_branch_of_its_callee_in_different_profiles_are_rejected() {
    let mut builder = Builder::new();
    let (foo, bar) = (builder.routine(), builder.routine());
    let f: Vec<Node> = (0..5).map(|it| builder.node(foo, Role::Block(it))).collect();
    let b: Vec<Node> = (0..5).map(|it| builder.node(bar, Role::Block(10 + it))).collect();
    let (entry, head, call, returned, exit) = (f[0], f[1], f[2], f[3], f[4]);
    for (from, to) in [(entry, head), (head, call), (head, exit), (returned, head)] {
        builder.way(from, WayKind::Step(to));
    }
    builder.way(call, WayKind::Call { callee: bar, back: returned });
    builder.way(exit, WayKind::Return);
    // entry, b1, b3 or b4, exit.
    for (from, to) in [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4)] {
        builder.way(b[from], WayKind::Step(b[to]));
    }
    builder.way(b[4], WayKind::Return);
    builder.root(foo);
    let icfg = builder.build().unwrap();
    let all = executions(&icfg, 24, 5000);
    let check = |profiles: &[&[Node]]| {
        let profiles: Vec<Profile> = profiles
            .iter()
            .map(|nodes| Profile::new(&icfg, nodes.iter().map(|&it| icfg.place_of_node(it))))
            .collect();
        let accepted = Analysis::new(&icfg, &profiles).is_realizable();
        assert_eq!(accepted, !has_twins(&icfg, &profiles, &all));
        accepted
    };
    assert!(!check(&[&[call], &[b[3]]]));
    assert!(check(&[&[call, b[3]]]));
    // One more witness in bar, on the other side, mends it.
    assert!(check(&[&[call], &[b[3], b[2]]]));
}

#[test]
fn a_run_that_may_end_in_a_call_is_told_from_one_that_goes_on() {
    let mut builder = Builder::new();
    let main = builder.routine();
    let first = builder.node(main, Role::Block(0));
    let hub = builder.node(main, Role::Hub);
    let second = builder.node(main, Role::Piece);
    builder.way(first, WayKind::Step(hub));
    builder.way(hub, WayKind::Step(second));
    builder.way(hub, WayKind::End);
    builder.way(second, WayKind::Return);
    builder.root(main);
    let icfg = builder.build().unwrap();
    let accepts = |places: &[Place]| {
        let profile = Profile::new(&icfg, places.iter().copied());
        Analysis::new(&icfg, &[profile]).is_realizable()
    };
    assert!(!accepts(&[]));
    assert!(!accepts(&[icfg.place_of_node(first)]));
    assert!(accepts(&[icfg.place_of_node(second)]));
    let end = icfg.ways_of(hub).nth(1).unwrap();
    assert!(accepts(&[icfg.place_of_way(end)]));
}

#[test]
fn a_loop_that_is_never_left_needs_witnesses_too() {
    let mut builder = Builder::new();
    let main = builder.routine();
    let nodes: Vec<Node> = (0..4).map(|it| builder.node(main, Role::Block(it))).collect();
    for (from, to) in [(0, 1), (0, 2), (1, 3), (2, 3), (3, 0)] {
        builder.way(nodes[from], WayKind::Step(nodes[to]));
    }
    builder.root(main);
    let icfg = builder.build().unwrap();
    let accepts = |nodes: &[usize]| Analysis::new(&icfg, &[of_nodes(&icfg, nodes)]).is_realizable();
    assert!(!accepts(&[]) && !accepts(&[1]) && !accepts(&[0]));
    assert!(accepts(&[1, 2]) && accepts(&[1, 3]));
    // A run that was killed is known up to the first undecided predicate.
    let profile = of_nodes(&icfg, &[1, 3]);
    let tables = Tables::new(&icfg, std::slice::from_ref(&profile)).unwrap();
    let event = |node: usize| Event {
        witness: profile.witness(icfg.place_of_node(nodes[node])).unwrap(),
        depth: 0,
    };
    let trace = [1, 3, 3, 1].map(event).to_vec();
    let (rebuilt, outcome) = rebuild(&tables, &icfg, &[trace], Ending::Cut);
    assert_eq!(rebuilt, [0, 1, 3, 0, 2, 3, 0, 1].map(|it| nodes[it]));
    assert!(matches!(outcome, Ok(Outcome::Unknown(last)) if last == nodes[1]));
}

#[test]
fn a_walk_that_goes_round_unseen_stops_wherever_it_is_watched() {
    // A loop around a call, with nothing to decide: runs of it are killed. How
    // long the callee is decides where the walk is when it is looked at.
    for length in 1..9 {
        let mut builder = Builder::new();
        let (main, callee) = (builder.routine(), builder.routine());
        let first = builder.node(main, Role::Block(0));
        builder.way(first, WayKind::Call { callee, back: first });
        let nodes: Vec<Node> =
            (0..length).map(|it| builder.node(callee, Role::Block(1 + it))).collect();
        for pair in nodes.windows(2) {
            builder.way(pair[0], WayKind::Step(pair[1]));
        }
        builder.way(nodes[nodes.len() - 1], WayKind::Return);
        builder.root(main);
        let icfg = builder.build().unwrap();
        let tables = Tables::new(&icfg, &[Profile::new(&icfg, [])]).unwrap();
        // Once, since how often is not known.
        let (walk, outcome) = rebuild(&tables, &icfg, &[Vec::new()], Ending::Cut);
        assert!(matches!(outcome, Ok(Outcome::Unknown(_))), "{outcome:?}");
        assert_eq!(walk.len(), 1 + length as usize);
        let (_, outcome) = rebuild(&tables, &icfg, &[Vec::new()], Ending::Whole);
        assert!(outcome.is_err(), "{outcome:?}");
    }
}

/// A loop around an if, and a handler with an if, which may interrupt it anywhere.
#[test]
fn handlers_run_between_witnesses_and_in_each_other() {
    handlers_run(false);
}

/// The same where no witness tells that one returns.
#[test]
fn handlers_run_that_are_told_to_return() {
    handlers_run(true);
}

fn handlers_run(has_resumes: bool) {
    let mut builder = Builder::new();
    let (main, handler) = (builder.routine(), builder.routine());
    let nodes: Vec<Node> = (0..7).map(|it| builder.node(main, Role::Block(it))).collect();
    for (from, to) in [(0, 1), (1, 2), (1, 6), (2, 3), (2, 4), (3, 5), (4, 5), (5, 1)] {
        builder.way(nodes[from], WayKind::Step(nodes[to]));
    }
    builder.way(nodes[6], WayKind::Return);
    let own: Vec<Node> = (0..4).map(|it| builder.node(handler, Role::Block(10 + it))).collect();
    for (from, to) in [(0, 1), (0, 2), (1, 3), (2, 3)] {
        builder.way(own[from], WayKind::Step(own[to]));
    }
    builder.way(own[3], WayKind::Return);
    builder.root(main);
    builder.root(handler);
    let icfg = builder.build().unwrap();
    let returns = icfg.ways_of(own[3]).next().unwrap();
    let places = [nodes[3], nodes[4], own[0], own[1]].map(|node| icfg.place_of_node(node));
    let at_return = (!has_resumes).then(|| icfg.place_of_way(returns));
    let profile = Profile::new(&icfg, places.into_iter().chain(at_return));
    let profiles = [profile];
    let tables = Tables::new(&icfg, &profiles).unwrap();
    let witness = |place: Place| Event { witness: profiles[0].witness(place).unwrap(), depth: 0 };
    let at = |node: Node| witness(icfg.place_of_node(node));
    let returned = at_return.map_or_else(Event::resume, witness);
    let rebuild = |tables: &Tables, traces: &[Vec<Event>]| {
        let traces = traces.iter().map(|it| (it.iter().copied(), Ending::Whole));
        let mut rebuild = Rebuild::new(tables, main, traces);
        if has_resumes {
            rebuild = rebuild.with_resumes();
        }
        let found: Result<Vec<Node>, _> = rebuild.by_ref().collect();
        (found, rebuild.outcome())
    };

    let mut rng = Rng::with_seed(1);
    for execution in &executions(&icfg, 20, 300) {
        let mut events = execution.partial_trace(&icfg, &profiles[0]);
        let mut depths = vec![0; events.len()];
        let (mut handled, mut deepest) = (0, 0);
        for _ in 0..rng.usize(0..6) {
            let place = rng.usize(0..=events.len());
            // Within a handler, if it is between two of its events.
            let around = depths.get(place).copied().unwrap_or(0);
            let begins = events.get(place).is_some_and(|event| event.interrupted_by().is_some());
            let depth = 1 + if begins { around - 1 } else { around };
            let mut call = vec![Event::interrupt(handler), at(own[0])];
            call.extend(rng.bool().then(|| at(own[1])));
            call.push(returned);
            handled += 1;
            deepest = deepest.max(depth);
            depths.splice(place..place, vec![depth; call.len()]);
            events.splice(place..place, call);
        }
        let (found, outcome) = rebuild(&tables, std::slice::from_ref(&events));
        let found = found.unwrap_or_else(|error| panic!("{error} {events:?}"));
        assert!(matches!(outcome, Some(Outcome::Whole)), "{outcome:?} {events:?}");
        let is_own = |node: &Node| own.contains(node);
        let others: Vec<Node> = found.iter().copied().filter(|it| !is_own(it)).collect();
        assert_eq!(others, execution.nodes, "{events:?}");
        let begun = found.iter().filter(|&&node| node == own[0]).count();
        let ended = found.iter().filter(|&&node| node == own[3]).count();
        assert_eq!((begun, ended), (handled, handled), "{events:?}");
        let wanted = events.iter().filter(|event| **event == at(own[1])).count();
        assert_eq!(found.iter().filter(|&&node| node == own[1]).count(), wanted, "{events:?}");
    }
    // A handler that one run had and the other had not is a difference.
    let plain = executions(&icfg, 20, 1)[0].partial_trace(&icfg, &profiles[0]);
    let mut other = plain.clone();
    other.splice(0..0, [Event::interrupt(handler), at(own[0]), returned]);
    let both = [profiles[0].clone(), profiles[0].clone()];
    let tables = Tables::new(&icfg, &both).unwrap();
    let (found, _) = rebuild(&tables, &[other.clone(), plain.clone()]);
    assert!(found.is_err(), "{found:?}");
    // One that only one of them saw return, too.
    let mut endless = other.clone();
    endless.remove(2);
    let (found, _) = rebuild(&tables, &[other.clone(), endless]);
    assert!(found.is_err(), "{found:?}");
    let (found, outcome) = rebuild(&tables, &[other.clone(), other]);
    assert!(found.is_ok() && matches!(outcome, Some(Outcome::Whole)), "{found:?} {outcome:?}");
}
