//! Every plan that is made is realizable, for every strategy, kind of witness,
//! number of runs and limit: executions are rebuilt, cut ones up to where they
//! are known, and traces of different executions are found out.

mod random_icfg;

use backtrail_graph::Index;
use backtrail_trace::Error;
use backtrail_trace::distribution::Costs;
use backtrail_trace::icfg::{Builder, Icfg, Place, Role, WayKind};
use backtrail_trace::planning::{Kind, Options, Plan, Strategy, distribute, plan_single_run};
use backtrail_trace::rebuild::{Ending, Outcome, Tables};
use fastrand::Rng;
use random_icfg::{
    Execution, Features, Size, check_rebuilt, executions, graph, graph_count, random_execution,
    random_walk, rebuild,
};

fn random_costs(icfg: &Icfg, rng: &mut Rng, kind: Kind) -> Costs {
    let weights = (0..icfg.place_count()).map(|_| 1u64 << rng.u32(0..8)).collect();
    match kind {
        Kind::Edges => Costs::edges(icfg, weights),
        Kind::Nodes => Costs::nodes(icfg, weights),
    }
}

fn random_options(rng: &mut Rng) -> Options {
    Options {
        runs: rng.usize(1..=6),
        strategy: Strategy::ALL[rng.usize(0..3)],
        limit: (rng.usize(0..3) == 0).then(|| rng.usize(2..6)),
        trials: if rng.bool() { 100 } else { 0 },
    }
}

/// A cut record gives a beginning of the execution, and says that it is one.
fn check_cut(tables: &Tables, icfg: &Icfg, plan: &Plan, execution: &Execution, rng: &mut Rng) {
    let mut traces = execution.partial_traces(icfg, &plan.profiles);
    for trace in &mut traces {
        trace.truncate(rng.usize(0..=trace.len()));
    }
    let (nodes, outcome) = rebuild(tables, icfg, &traces, Ending::Cut);
    // Behind the last node known, straight code may be walked further than the
    // run came: the trace and the execution agree as far as both go.
    let common = nodes.len().min(execution.nodes.len());
    assert_eq!(nodes[..common], execution.nodes[..common]);
    assert!(matches!(outcome, Ok(Outcome::Unknown(_))), "{outcome:?}");
}

/// Partial traces of two executions give one of them, another that agrees with
/// all of them, or the place where they diverge.
fn check_mixed(tables: &Tables, icfg: &Icfg, plan: &Plan, mixed: [&Execution; 2], rng: &mut Rng) {
    let traces: Vec<_> = plan
        .profiles
        .iter()
        .map(|profile| mixed[rng.usize(0..2)].partial_trace(icfg, profile))
        .collect();
    let (_, outcome) = rebuild(tables, icfg, &traces, Ending::Whole);
    match outcome {
        Ok(outcome) => assert_eq!(outcome, Outcome::Whole),
        Err(error) => assert!(matches!(error, Error::Diverged(_)), "{error}"),
    }
}

#[test]
fn every_plan_rebuilds_every_execution() {
    let (mut plans, mut rebuilt) = (0u64, 0u64);
    for seed in 0..graph_count(1000) {
        let mut rng = Rng::with_seed(seed);
        let features = Features { hubs: seed % 2 == 0, leaves: seed % 4 == 0 };
        let size = if seed % 3 == 0 { 10 } else { 5 };
        let icfg = graph(&mut rng, Size { routines: 3, nodes: size }, features);
        let kind = if rng.bool() { Kind::Edges } else { Kind::Nodes };
        let costs = random_costs(&icfg, &mut rng, kind);
        let options = random_options(&mut rng);
        let plan = match rng.usize(0..4) {
            0 => plan_single_run(&icfg, &costs, kind, options.trials),
            _ => distribute(&icfg, &costs, options),
        };
        // Two witnesses tell any two ways apart, so no limit is too low.
        let plan = plan.unwrap_or_else(|error| panic!("seed {seed}: {error}\n{icfg:#?}"));
        plans += 1;
        check_plan(&icfg, &costs, &plan, options);
        let tables = Tables::new(&icfg, &plan.profiles).unwrap();
        let mut all = executions(&icfg, 10, 60);
        all.extend((0..6).filter_map(|_| random_execution(&icfg, &mut rng, 80)));
        for execution in &all {
            check_rebuilt(&tables, &icfg, &plan.profiles, execution);
            rebuilt += 1;
        }
        for _ in 0..4 {
            let (execution, is_end) = random_walk(&icfg, &mut rng, 50);
            if !is_end {
                check_cut(&tables, &icfg, &plan, &execution, &mut rng);
            }
        }
        for execution in all.iter().rev().take(4) {
            check_cut(&tables, &icfg, &plan, execution, &mut rng);
            let other = &all[rng.usize(0..all.len())];
            check_mixed(&tables, &icfg, &plan, [execution, other], &mut rng);
        }
    }
    println!("{plans} plans, {rebuilt} executions rebuilt");
    assert!(rebuilt > 5 * plans);
}

/// Only what can be observed is a witness, and limits hold.
fn check_plan(icfg: &Icfg, costs: &Costs, plan: &Plan, options: Options) {
    let observable = |place: &Place| costs.is_observable(*place) || costs.forced().contains(place);
    for profile in &plan.profiles {
        assert!(profile.places().iter().all(observable), "{icfg:#?}\n{plan:#?}");
        if let Some(limit) = options.limit.filter(|_| plan.profiles.len() > 1) {
            assert!(profile.places().len() <= limit + costs.forced().len());
        }
    }
    let total: u64 = plan.profiles.iter().map(|profile| profile.cost(costs)).sum();
    assert_eq!(plan.run_costs(costs).iter().sum::<u64>(), total);
    assert!(
        plan.profiles
            .iter()
            .flat_map(|it| it.places())
            .all(|it| it.position() < icfg.place_count())
    );
}

/// Of a fan of thousands, all pairs would have to be told apart one by one.
#[test]
fn a_limit_is_refused_where_there_are_too_many_pairs() {
    let mut builder = Builder::new();
    let main = builder.routine();
    let fan = builder.node(main, Role::Block(0));
    for number in 1..6_000 {
        let node = builder.node(main, Role::Block(number));
        builder.way(fan, WayKind::Step(node));
        builder.way(node, WayKind::Return);
    }
    builder.root(main);
    let icfg = builder.build().unwrap();
    let costs = Costs::edges(&icfg, vec![1; icfg.place_count()]);
    let options = Options { runs: 1, strategy: Strategy::Fine, limit: Some(5), trials: 0 };
    let refused = distribute(&icfg, &costs, options);
    assert!(matches!(refused, Err(Error::Pairs { pairs: 17_991_001, .. })), "{refused:?}");
}
