//! No plan costs less than the bound, not even the best one, found by trying all;
//! and plans are not far from the best.

mod random_icfg;

use backtrail_graph::Index;
use backtrail_trace::distribution::{Costs, Profile};
use backtrail_trace::icfg::{Icfg, Node, Place, WayKind};
use backtrail_trace::lower_bound::lower_bound;
use backtrail_trace::planning::{Kind, Options, Strategy, distribute, plan_runs, plan_single_run};
use backtrail_trace::realizability::Analysis;
use fastrand::Rng;
use random_icfg::{
    Execution, Features, Size, graph, graph_count, loop_free_standing, random_execution,
};

/// How often an execution passes each place.
fn counts(icfg: &Icfg, execution: &Execution) -> Vec<u64> {
    let mut counts = vec![0; icfg.place_count()];
    for (place, _) in &execution.places {
        counts[place.position()] += 1;
    }
    counts
}

/// The cost of the best plan, by trying all.
fn best(icfg: &Icfg, costs: &Costs, runs: u32) -> u64 {
    let forced = costs.forced();
    let places: Vec<Place> = (0..icfg.place_count())
        .map(Place::new)
        .filter(|place| costs.is_observable(*place) && !forced.contains(place))
        .collect();
    let count = places.len() as u32;
    let profile = |set: u64| {
        let chosen = places.iter().enumerate().filter(|(number, _)| set >> number & 1 == 1);
        Profile::new(icfg, chosen.map(|(_, &place)| place).chain(forced.iter().copied()))
    };
    let mut least = u64::MAX;
    for sets in 0..1u64 << (count * runs) {
        let sets: Vec<u64> =
            (0..runs).map(|run| sets >> (run * count) & ((1 << count) - 1)).collect();
        // The order of runs makes no difference.
        if sets.windows(2).any(|pair| pair[0] > pair[1]) {
            continue;
        }
        let profiles: Vec<Profile> = sets.into_iter().map(profile).collect();
        let cost = profiles.iter().map(|profile| profile.cost(costs)).max().unwrap_or(0);
        if cost < least && Analysis::new(icfg, &profiles).is_realizable() {
            least = cost;
        }
    }
    least
}

#[test]
fn no_plan_costs_less_and_few_cost_much_more() {
    let (mut found, mut planned, mut bounds, mut optima) =
        ([0u64; 2], [0u64; 2], [0u64; 2], [0u64; 2]);
    for seed in 0..graph_count(1500).min(20_000) {
        let mut rng = Rng::with_seed(seed);
        let features = Features { hubs: false, leaves: false };
        let icfg = graph(&mut rng, Size { routines: 2, nodes: 5 }, features);
        // A long one, so that loops weigh more than what is around them.
        let executions = (0..20).filter_map(|_| random_execution(&icfg, &mut rng, 300));
        let Some(execution) = executions.max_by_key(|it| it.nodes.len()) else { continue };
        let kind = if rng.bool() { Kind::Edges } else { Kind::Nodes };
        let costs = match kind {
            Kind::Edges => Costs::edges(&icfg, counts(&icfg, &execution)),
            Kind::Nodes => Costs::nodes(&icfg, counts(&icfg, &execution)),
        };
        let observable =
            (0..icfg.place_count()).filter(|&it| costs.is_observable(Place::new(it))).count();
        for runs in [1u32, 2] {
            if observable > if runs == 1 { 10 } else { 6 } {
                continue;
            }
            let optimum = best(&icfg, &costs, runs);
            let bound = lower_bound(&icfg, &costs, runs as usize);
            assert!(
                bound <= optimum,
                "seed {seed}, {runs} runs: bound {bound}, best {optimum}\n{icfg:#?}\n{costs:?}"
            );
            let plan = plan_runs(&icfg, &costs, kind, runs as usize, 100).unwrap().cost(&costs);
            assert!(plan >= optimum);
            let at = runs as usize - 1;
            found[at] += 1;
            planned[at] += plan;
            bounds[at] += bound;
            optima[at] += optimum;
        }
    }
    for runs in 0..2 {
        println!(
            "{} runs, {} graphs: the best cost {}, the plans {}, the bounds {}",
            runs + 1,
            found[runs],
            optima[runs],
            planned[runs],
            bounds[runs]
        );
        assert!(found[runs] > 30);
        assert!(planned[runs] * 100 <= optima[runs] * 110, "plans are far from the best");
    }
}

#[test]
fn more_runs_are_not_worse() {
    let mut better = 0;
    for seed in 0..40 {
        let mut rng = Rng::with_seed(seed);
        let features = Features { hubs: false, leaves: false };
        let icfg = graph(&mut rng, Size { routines: 4, nodes: 30 }, features);
        let executions = (0..20).filter_map(|_| random_execution(&icfg, &mut rng, 2_000));
        let Some(execution) = executions.max_by_key(|it| it.nodes.len()) else { continue };
        let costs = Costs::nodes(&icfg, counts(&icfg, &execution));
        let cost = |runs| plan_runs(&icfg, &costs, Kind::Nodes, runs, 0).unwrap().cost(&costs);
        let [one, three, six] = [1, 3, 6].map(cost);
        assert!(six <= three && three <= one, "seed {seed}: {one}, {three}, {six}");
        better += usize::from(six < three);
        let fine = |runs| Options { runs, strategy: Strategy::Fine, limit: None, trials: 0 };
        assert!(six <= distribute(&icfg, &costs, fine(6)).unwrap().cost(&costs), "seed {seed}");
    }
    assert!(better > 0, "six runs are never better than three");
}

/// Going round a thousand times through each of four ways.
fn dispatch() -> (Icfg, Costs) {
    let edges =
        [(0, 1), (1, 2), (1, 3), (1, 4), (1, 5), (2, 6), (3, 6), (4, 6), (5, 6), (6, 1), (6, 7)];
    let icfg = loop_free_standing(8, &edges);
    let mut weights = vec![0u64; icfg.place_count()];
    let nodes = [1, 4000, 1000, 1000, 1000, 1000, 4000, 1];
    weights[..8].copy_from_slice(&nodes);
    for (way, data) in icfg.ways().iter() {
        weights[icfg.place_of_way(way).position()] = match data.kind {
            WayKind::Step(to) if to == Node::new(1) && data.from == Node::new(6) => 3999,
            WayKind::Step(to) => nodes[to.position()].min(nodes[data.from.position()]),
            _ => 1,
        };
    }
    let costs = Costs::nodes(&icfg, weights);
    (icfg, costs)
}

#[test]
fn a_dispatch_in_a_loop_gains_what_brute_force_says() {
    let (icfg, costs) = dispatch();
    let single = plan_single_run(&icfg, &costs, Kind::Nodes, 100).unwrap().cost(&costs);
    assert!((3998..=4002).contains(&single), "{single}");
    let ratio = |runs: usize| lower_bound(&icfg, &costs, runs) as f64 / single as f64;
    for (runs, expected) in [(1, 1.0), (2, 1.0), (3, 0.667), (6, 0.5), (12, 0.5)] {
        assert!((ratio(runs) - expected).abs() < 0.01, "{runs} runs: {}", ratio(runs));
    }
    for (runs, most) in [(1, 4002), (2, 4002), (3, 3002), (6, 2002)] {
        let options = Options { runs, strategy: Strategy::Fine, limit: None, trials: 100 };
        let plan = distribute(&icfg, &costs, options).unwrap();
        assert!(plan.cost(&costs) <= most, "{runs} runs: {:?}", plan.run_costs(&costs));
    }
}
