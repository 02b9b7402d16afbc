//! How fast traces are rebuilt, in time on the processor: a made-up program with loops, branches, switches
//! and calls, a long random execution of it, plans for several numbers of runs.
//!
//! ```text
//! cargo run --release -p backtrail-trace --example rebuild_speed [NODES]
//! ```

use backtrail_graph::Index;
use backtrail_trace::distribution::{Costs, Profile};
use backtrail_trace::icfg::{Builder, Icfg, Node, Place, Role, WayKind};
use backtrail_trace::lower_bound::lower_bound;
use backtrail_trace::planning::{Kind, Options, Strategy, distribute, plan_single_run};
use backtrail_trace::rebuild::{Ending, Event, Rebuild, Tables};
use fastrand::Rng;

const ROUTINES: usize = 120;
const NODES: usize = 24;

/// How long this thread has run: other programs do not count.
fn seconds() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("a Linux kernel");
    let nanoseconds = text.split(' ').next().and_then(|it| it.parse::<f64>().ok());
    nanoseconds.expect("the first number is time on the processor") * 1e-9
}

/// Routines that call later ones; the first one goes round for ever.
fn program(rng: &mut Rng) -> Icfg {
    let mut builder = Builder::new();
    let routines: Vec<_> = (0..ROUTINES).map(|_| builder.routine()).collect();
    let mut number = 0;
    for (at, &routine) in routines.iter().enumerate() {
        let nodes: Vec<Node> = (0..NODES)
            .map(|_| {
                number += 1;
                builder.node(routine, Role::Block(number))
            })
            .collect();
        for (here, &node) in nodes.iter().enumerate() {
            let Some(&next) = nodes.get(here + 1) else {
                let last = if at == 0 { WayKind::Step(nodes[0]) } else { WayKind::Return };
                builder.way(node, last);
                continue;
            };
            let ahead = |rng: &mut Rng| nodes[rng.usize(here + 1..nodes.len().min(here + 6))];
            match rng.usize(0..10) {
                0..=3 => builder.way(node, WayKind::Step(next)),
                4..=6 => {
                    builder.way(node, WayKind::Step(next));
                    builder.way(node, WayKind::Step(ahead(rng)));
                }
                7 if here > 2 => {
                    builder.way(node, WayKind::Step(next));
                    builder.way(node, WayKind::Step(nodes[here - rng.usize(1..3)]));
                }
                8 => {
                    for _ in 0..4 {
                        builder.way(node, WayKind::Step(ahead(rng)));
                    }
                }
                _ if at + 8 < ROUTINES => {
                    let callee = routines[rng.usize(at + 8..ROUTINES)];
                    builder.way(node, WayKind::Call { callee, back: next });
                }
                _ => builder.way(node, WayKind::Step(next)),
            }
        }
    }
    builder.root(routines[0]);
    builder.build().expect("it is well made")
}

/// Walks; calls `see` with the place of all that is passed.
fn walk(icfg: &Icfg, seed: u64, length: usize, mut see: impl FnMut(Place)) {
    let mut rng = Rng::with_seed(seed);
    let mut stack = Vec::new();
    let mut node = icfg.routines()[icfg.roots()[0]].entry;
    see(icfg.place_of_node(node));
    for _ in 1..length {
        let ways: Vec<_> = icfg.ways_of(node).collect();
        // The first way is the likely one.
        let way = if rng.usize(0..3) > 0 { ways[0] } else { ways[rng.usize(0..ways.len())] };
        see(icfg.place_of_way(way));
        node = match icfg.ways()[way].kind {
            WayKind::Step(to) => to,
            WayKind::Call { callee, back } => {
                stack.push(back);
                icfg.routines()[callee].entry
            }
            _ => stack.pop().expect("the first routine does not return"),
        };
        see(icfg.place_of_node(node));
    }
}

fn measure(icfg: &Icfg, profiles: &[Profile], length: usize) -> (f64, usize) {
    let mut witnesses = vec![Vec::new(); icfg.place_count()];
    for (number, profile) in profiles.iter().enumerate() {
        for (witness, place) in profile.places().iter().enumerate() {
            witnesses[place.position()].push((number, witness));
        }
    }
    let mut traces: Vec<Vec<Event>> = vec![Vec::new(); profiles.len()];
    walk(icfg, 2, length, |place| {
        for &(profile, witness) in &witnesses[place.position()] {
            let witness = Index::new(witness);
            traces[profile].push(Event { witness, depth: 0 });
        }
    });
    let tables = Tables::new(icfg, profiles).expect("plans are verified");
    let events = traces.iter().map(Vec::len).sum();
    let mut fastest = f64::MAX;
    for _ in 0..5 {
        let traces = traces.iter().map(|trace| (trace.iter().copied(), Ending::Cut));
        let start = seconds();
        let mut nodes = 0u64;
        for node in Rebuild::new(&tables, icfg.roots()[0], traces) {
            std::hint::black_box(node.expect("it is one execution"));
            nodes += 1;
        }
        let took = seconds() - start;
        assert!(nodes.abs_diff(length as u64) < 10_000, "{nodes} nodes of {length}");
        fastest = fastest.min(took / nodes as f64);
    }
    (1e-6 / fastest, events)
}

fn main() {
    let length = std::env::args().nth(1).map_or(4_000_000, |it| it.parse().expect("a number"));
    let icfg = program(&mut Rng::with_seed(1));
    let mut counts = vec![0u64; icfg.place_count()];
    walk(&icfg, 2, length, |place| counts[place.position()] += 1);
    for kind in [Kind::Edges, Kind::Nodes] {
        let costs = match kind {
            Kind::Edges => Costs::edges(&icfg, counts.clone()),
            Kind::Nodes => Costs::nodes(&icfg, counts.clone()),
        };
        let start = seconds();
        let single = plan_single_run(&icfg, &costs, kind, 200).expect("a plan");
        let base = single.cost(&costs);
        let took = seconds() - start;
        let (speed, events) = measure(&icfg, &single.profiles, length);
        println!(
            "{kind:?}, 1 run: {speed:.0} million nodes/s; {:.3} events per node; planned in \
             {took:.2} s",
            events as f64 / length as f64
        );
        for runs in [2, 3, 6] {
            for strategy in Strategy::ALL {
                let start = seconds();
                let options = Options { runs, strategy, limit: None, trials: 200 };
                let plan = distribute(&icfg, &costs, options).expect("a plan");
                let took = seconds() - start;
                let (speed, _) = measure(&icfg, &plan.profiles, length);
                let bound = lower_bound(&icfg, &costs, runs);
                println!(
                    "{kind:?}, {runs} runs, {strategy:?}: {speed:.0} million nodes/s; worst run \
                     {:.3} of a single one, bound {:.3}; planned in {took:.2} s",
                    plan.cost(&costs) as f64 / base as f64,
                    bound as f64 / base as f64,
                );
            }
        }
    }
}
