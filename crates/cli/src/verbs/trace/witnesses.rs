//! A trace from runs that each observe few places.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_abi::UnitId;
use backtrail_analysis::unseen::Behaviour;
use backtrail_build::Error;
use backtrail_build::variant::{self, LoggingScheme, Scheme};
use backtrail_collect::copies::{self, Copies, Event, Variant};
use backtrail_collect::local::{self, Run, child_seconds};
use backtrail_collect::packing::Packer;
use backtrail_ir::Unit;
use backtrail_ir::program::{Object, Program};
use backtrail_plan::UnitPlan;
use backtrail_plan::block_log::left_out;
use backtrail_profile::unit_plan::Weights;
use backtrail_trace::distribution::{Costs, Profile};
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::places::ProgramPlaces;
use backtrail_trace::planning::{self, Options, Plan, distribute, plan_single_run};
use backtrail_trace::probes::{Kind, ProbePlaces, ProbePlan, UnitMeaning};
use backtrail_trace::rebuild::Tables;
use rayon::prelude::*;

use super::first_run::{self, FIRST};
use super::merge::{Merge, RunRecords};
use super::weights::place_weights;
use super::{TracedProgram, begin_file, disk_bound, finish_file};
use crate::args::copies::Engine;
use crate::args::trace::{Strategy, Trace, Witness};
use crate::exit::{Diverged, Usage};
use crate::path_counting::read_profile_of;
use crate::style::number;
use crate::verbs::instrument::derive;
use crate::verbs::profile::copies::{bar, engine, isolation};
use crate::verbs::profile::recorded_nothing;
use crate::verbs::run::tell_time_since;

/// How many witnesses may be tried to be left out, where graphs are so small that
/// it takes no time.
const TRIALS: usize = 200;
pub const SMALL: usize = 10_000;

/// Plans, runs and puts the trace together.
pub fn collect(
    args: &Trace,
    traced: &TracedProgram,
    scratch: &Path,
    output: &Path,
    quiet: bool,
) -> anyhow::Result<ExitStatus> {
    let began = std::time::Instant::now();
    let program = Program::of_units(traced.models().map(|(_, unit)| unit));
    let graph = ProgramGraph::new(&program, Behaviour::of)?;
    let by_first_run = args.weights.as_deref() == Some(Path::new(FIRST));
    if by_first_run {
        check_first(args)?;
    }
    let weights = match &args.weights {
        Some(path) if !by_first_run => Some(Weights::of(&read_profile_of(path, &traced.carried)?)),
        _ => None,
    };
    let probe_places = ProbePlaces::new(&program, &graph);
    let kind = match args.witness {
        Witness::Edge => Kind::Edges,
        // Breakpoints, which are set elsewhere, are in nodes, too.
        Witness::Node | Witness::Breakpoint => Kind::Nodes,
    };
    let ids: BTreeMap<Object, UnitId> =
        program.units().map(|(object, _)| object).zip(traced.models().map(|(id, _)| id)).collect();
    let place_weights_of = |weights| place_weights(&program, &graph, weights);
    let mut costs = probe_places.costs(place_weights_of(weights.as_ref()), kind);
    if args.costs {
        let guessed = probe_places.costs(place_weights_of(None), kind);
        super::costs::print(&graph.icfg, &costs, &guessed, planning_kind(kind))?;
        return Ok(ExitStatus::default());
    }
    let mut runs = usize::from(args.runs);
    let mut first = None;
    if by_first_run {
        let guessed = plan_runs(args, runs, &graph, &costs, kind, false)?;
        let profile = guessed.profiles[0].clone();
        let ran = run_first(args, traced, &probe_places, &profile, &ids, scratch, quiet)?;
        let counts = first_run::count(&ran.records, &ran.meanings, &profile)?;
        let weights = place_weights_of(None);
        let weights = first_run::scaled(&graph.icfg, &weights, &profile, &counts);
        costs = probe_places.costs(weights, kind);
        runs -= 1;
        // What the first run observed is left out, as it was planned, if that is
        // cheaper than to observe everything in the others.
        let rest =
            Plan { profiles: guessed.profiles[1..].to_vec(), runs: guessed.runs[1..].to_vec() };
        first = Some((profile, ran, rest));
    }
    let mut plan = plan_runs(args, runs, &graph, &costs, kind, args.weights.is_some())?;
    let mut is_enough = true;
    if let Some((_, _, rest)) = &first
        && !rest.profiles.is_empty()
        && rest.cost(&costs) <= plan.cost(&costs)
    {
        (plan, is_enough) = (rest.clone(), false);
    }
    let probes = logged_probes(&probe_places, &plan, &costs, traced.is_one_module, is_enough);
    if let Some((profile, ..)) = &first {
        plan.runs.push(runs);
        plan.profiles.push(profile.clone());
    }
    let tables = Tables::new(&graph.icfg, &plan.profiles)?;
    if args.explain {
        let counts: Vec<String> = probes.iter().map(|it| number(it.count() as u64)).collect();
        let icfg = &graph.icfg;
        eprintln!(
            "backtrail: {} routines, {} nodes, {} ways; witnesses by run: {}; planned in {:.2} s",
            number(icfg.routines().len() as u64),
            number(icfg.nodes().len() as u64),
            number(icfg.ways().len() as u64),
            counts.join(", "),
            began.elapsed().as_secs_f64()
        );
        super::explain_fewer(usize::from(args.runs), plan.profiles.len());
    }
    let schemes: Vec<WitnessLogging<'_>> =
        probes.iter().map(|plan| WitnessLogging::new(plan, &ids)).collect();
    let (status, variants) = run_all(args, traced, &schemes, "run", scratch, quiet)?;
    if variants.iter().any(|variant| !variant.records.is_dir()) {
        anyhow::bail!(recorded_nothing(&args.program, scratch));
    }
    let mut runs: Vec<RunRecords> = variants
        .iter()
        .zip(&probes)
        .map(|(variant, probes)| RunRecords::read(variant, probes.ranges(&ids)))
        .collect::<Result<_, _>>()?;
    let mut meanings: Vec<BTreeMap<UnitId, UnitMeaning>> =
        probes.iter().map(|plan| plan.meanings(&ids)).collect();
    if let Some((_, ran, _)) = first {
        if ran.status != status {
            anyhow::bail!(Diverged(format!(
                "the first run ended by {} and the others by {status}: what differs from run to \
                 run has to be the same in all",
                ran.status
            )));
        }
        runs.push(ran.records);
        meanings.push(ran.meanings);
    }
    let places = ProgramPlaces::new(traced.models());
    let blocks = block_places(&program, &graph, &places);
    let merge = Merge {
        graph: &graph,
        program: &program,
        plan: &plan,
        tables: &tables,
        meanings: &meanings,
        blocks: &blocks,
    };
    let mut writer = begin_file(output)?;
    let mut legend = traced.legend(&places);
    legend.incomplete = merge.write(&runs, status, &mut writer, args.explain)?;
    finish_file(writer, legend)?;
    Ok(status)
}

/// What is logged: whole paths where one run observes all that is needed (if the plan
/// `is_enough`), or else witnesses. Numbers are given before the program runs where that is possible; what
/// takes part in that is cheaper, and paths need it.
fn logged_probes(
    places: &ProbePlaces<'_, '_>,
    plan: &Plan,
    costs: &Costs,
    is_one_module: bool,
    is_enough: bool,
) -> Vec<ProbePlan> {
    if let ([profile], true) = (&plan.profiles[..], is_one_module && is_enough) {
        let mut paths = places.path_probes(profile, costs);
        if paths.number_units() {
            return vec![paths];
        }
    }
    let mut probes: Vec<ProbePlan> = plan.profiles.iter().map(|it| places.probes(it)).collect();
    for plan in probes.iter_mut().filter(|_| is_one_module) {
        plan.number_units();
    }
    probes
}

fn planning_kind(kind: Kind) -> planning::Kind {
    match kind {
        Kind::Edges => planning::Kind::Edges,
        Kind::Nodes => planning::Kind::Nodes,
    }
}

/// Refuses what cannot be traced by the weights of a first run.
fn check_first(args: &Trace) -> Result<(), Usage> {
    let wrong = |what: &str| Err(Usage(format!("--weights first {what}")));
    if args.runs < 2 || matches!(args.strategy, Some(Strategy::Single)) {
        return wrong("is for several runs; give --runs");
    }
    if args.running.engine != Engine::Local {
        return wrong("is for runs on this machine");
    }
    if args.costs {
        return wrong("has no costs before it ran; give a path profile");
    }
    Ok(())
}

/// What the first run recorded.
struct FirstRun {
    status: ExitStatus,
    records: RunRecords,
    meanings: BTreeMap<UnitId, UnitMeaning>,
}

/// Runs the program once with these witnesses, and leaves nothing of what it did.
fn run_first(
    args: &Trace,
    traced: &TracedProgram,
    places: &ProbePlaces<'_, '_>,
    profile: &Profile,
    ids: &BTreeMap<Object, UnitId>,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<FirstRun> {
    let mut probes = places.probes(profile);
    if traced.is_one_module {
        probes.number_units();
    }
    let scheme = [WitnessLogging::new(&probes, ids)];
    let (status, variants) = run_all(args, traced, &scheme, FIRST, scratch, quiet)?;
    if !variants[0].records.is_dir() {
        anyhow::bail!(recorded_nothing(&args.program, scratch));
    }
    let records = RunRecords::read(&variants[0], probes.ranges(ids))?;
    Ok(FirstRun { status, records, meanings: probes.meanings(ids) })
}

/// Decides what is observed in which run, by costs that are `counted` or guessed.
fn plan_runs(
    args: &Trace,
    runs: usize,
    graph: &ProgramGraph,
    costs: &Costs,
    kind: Kind,
    counted: bool,
) -> Result<Plan, backtrail_trace::Error> {
    let icfg = &graph.icfg;
    let trials = if icfg.nodes().len() <= SMALL { TRIALS } else { 0 };
    let strategy = match (args.strategy, args.limit) {
        (Some(Strategy::Single), _) => {
            return plan_single_run(icfg, costs, planning_kind(kind), trials);
        }
        // By guesses, no plan is known to be better than another.
        (None, None) if runs == 1 || counted => {
            return planning::plan_runs(icfg, costs, planning_kind(kind), runs, trials);
        }
        (Some(Strategy::Function), _) => planning::Strategy::Function,
        (Some(Strategy::Grouped), _) => planning::Strategy::Grouped,
        (None | Some(Strategy::Fine | Strategy::Log), _) => planning::Strategy::Fine,
    };
    distribute(icfg, costs, Options { runs, strategy, limit: args.limit, trials })
}

/// By number of a block in the graph: its place in trace files, unless nothing
/// says when it is executed.
fn block_places(
    program: &Program<'_>,
    graph: &ProgramGraph,
    places: &ProgramPlaces<'_>,
) -> Vec<Option<u32>> {
    let objects: Vec<Object> = program.units().map(|(object, _)| object).collect();
    let place = |&(object, func, block): &(Object, _, _)| {
        let unit = objects.binary_search(&object).ok()?;
        left_out(program.unit(object)?, func).is_none().then(|| places.place(unit, func, block))
    };
    graph.blocks.iter().map(place).collect()
}

/// Logs the witnesses of a profile.
struct WitnessLogging<'a> {
    plan: &'a ProbePlan,
    objects: BTreeMap<UnitId, Object>,
}

impl<'a> WitnessLogging<'a> {
    fn new(plan: &'a ProbePlan, ids: &BTreeMap<Object, UnitId>) -> Self {
        Self { plan, objects: ids.iter().map(|(object, id)| (*id, *object)).collect() }
    }
}

impl LoggingScheme for WitnessLogging<'_> {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn plan(&self, id: [u8; 16], unit: &Unit) -> UnitPlan {
        match self.objects.get(&UnitId(id)) {
            Some(&object) => self.plan.unit_plan(object, id, unit),
            None => {
                let blocks = unit.functions.values().map(|it| it.blocks.len() as u32).sum();
                UnitPlan { unit: id, blocks, ..UnitPlan::default() }
            }
        }
    }
}

/// Derives a variant for each profile and runs them all, in folders whose names begin
/// with `prefix`.
fn run_all(
    args: &Trace,
    traced: &TracedProgram,
    schemes: &[WitnessLogging<'_>],
    prefix: &str,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<(ExitStatus, Vec<Variant>)> {
    let is_trial = prefix == FIRST;
    let name = args.program.file_name().unwrap_or_default();
    let variants: Vec<Variant> = (1..=schemes.len())
        .map(|run| {
            let folder = format!("{prefix}-{run}");
            let place = args.keep.as_deref().unwrap_or(scratch).join(&folder);
            let records = scratch.join(folder).join("records");
            Variant { executable: place.join(name), records }
        })
        .collect();
    for variant in &variants {
        let folder = variant.executable.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
    }
    let bound = disk_bound(args);
    if let ([scheme], [variant]) = (schemes, &variants[..])
        && args.running.engine == Engine::Local
        && !is_trial
    {
        derive(&traced.carried, Scheme::Logging(scheme), &variant.executable, quiet)?;
        let mut environment = bound.environment();
        environment.push((backtrail_abi::log::DIR_VARIABLE, variant.records.as_os_str()));
        let packer = Packer::start([variant.records.clone()]);
        let began = child_seconds();
        let status = local::run(&Run {
            executable: &variant.executable,
            name: args.program.name(),
            arguments: &args.arguments,
            environment: &environment,
        })?;
        drop(packer);
        if args.explain {
            tell_time_since(began);
        }
        return Ok((status, variants));
    }
    let deriving = bar("deriving {bar:30} {pos}/{len} units", traced.carried.units.len(), quiet);
    let done = AtomicUsize::new(0);
    let derived = variants.par_iter().zip(schemes).try_for_each(|(variant, scheme)| {
        let progress = |_, total: usize| {
            deriving.set_length((total * variants.len()) as u64);
            deriving.set_position(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        };
        let scheme = Scheme::Logging(scheme);
        variant::derive(&traced.carried, scheme, &variant.executable, &progress).map(drop)
    });
    deriving.finish_and_clear();
    derived?;
    let bar = bar("running {bar:30} {pos}/{len} runs, {msg}", variants.len(), quiet);
    let listener = |event: Event| match event {
        Event::Notice(text) => bar.suspend(|| eprintln!("backtrail: {text}")),
        Event::Progress { done, what, .. } => {
            bar.set_position(done as u64);
            bar.set_message(what);
        }
    };
    let entry = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let environment: Vec<_> =
        bound.environment().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &environment,
        is_trial,
        isolation: isolation(args.running.isolate),
        engine: engine(&args.running),
        entry: &entry,
        listener: &listener,
    });
    bar.finish_and_clear();
    Ok((outcome?.status, variants))
}
