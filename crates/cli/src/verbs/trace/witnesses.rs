//! A trace from runs that each observe few places.

use std::cell::{OnceCell, RefCell};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::trust::Trust;
use backtrail_build::variant::{self, Destination, LoggingScheme, Scheme};
use backtrail_collect::copies::{self, Copies, Event, Variant};
use backtrail_collect::local::{self, Run, child_seconds};
use backtrail_collect::packing::Packer;
use backtrail_foreign::say;
use backtrail_ir::Unit;
use backtrail_ir::program::{Object, Program};
use backtrail_plan::UnitPlan;
use backtrail_plan::block_log::left_out;
use backtrail_plan::merged::Merged;
use backtrail_plan::order::Entries;
use backtrail_profile::unit_plan::Weights;
use backtrail_trace::distribution::Costs;
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::places::ProgramPlaces;
use backtrail_trace::planning::{self, Options, Plan, distribute, plan_single_run};
use backtrail_trace::probes::{Kind, ProbePlaces, ProbePlan, UnitMeaning};
use backtrail_trace::rebuild::Tables;
use rayon::prelude::*;

use super::causes::Causes;
use super::first_run::{self, FIRST};
use super::merge::{Merge, RunRecords};
use super::order::OrderProbes;
use super::weights::place_weights;
use super::{TracedProgram, begin_file, disk_bound, finish_file};
use crate::alike;
use crate::args::copies::Engine;
use crate::args::trace::{Strategy, Trace, Witness};
use crate::exit::{Diverged, Usage};
use crate::path_counting::read_profile_of;
use crate::progress::{self, Phase};
use crate::style::{counted, number};
use crate::verbs::instrument::derive;
use crate::verbs::profile::copies::{engine, isolation};
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
    let mut planning = Some(Phase::begin("planning", quiet));
    let program = traced.join();
    let graph = ProgramGraph::new(&program)?;
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
    let order = OnceCell::new();
    let order = || order.get_or_init(|| OrderProbes::new(traced, &program, &ids));
    let place_weights_of = |weights| place_weights(&program, &graph, weights);
    let mut costs = probe_places.costs(place_weights_of(weights.as_ref()), kind);
    if args.costs {
        drop(planning);
        let guessed = probe_places.costs(place_weights_of(None), kind);
        super::costs::print(&graph.icfg, &costs, &guessed, planning_kind(kind))?;
        return Ok(ExitStatus::default());
    }
    let mut runs = usize::from(args.runs);
    let mut first = None;
    if by_first_run {
        let guessed = plan_runs(args, runs, &graph, &costs, kind, false)?;
        let profile = guessed.profiles[0].clone();
        planning = None;
        let mut probes = probe_places.probes(&profile);
        if traced.is_one_module {
            probes.number_units();
        }
        let scheme = WitnessLogging::new(&probes, &ids, Some(order()));
        let ran = run_first(args, traced, &probes, scheme, &ids, scratch, quiet)?;
        planning = planning.or_else(|| Some(Phase::begin("planning", quiet)));
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
    drop(planning);
    if args.explain {
        let counts: Vec<String> = probes.iter().map(|it| number(it.count() as u64)).collect();
        let icfg = &graph.icfg;
        say!(
            "backtrail: {}, {}, {}; witnesses by run: {}; planned in {:.2} s",
            counted(icfg.routines().len() as u64, "routine"),
            counted(icfg.nodes().len() as u64, "node"),
            counted(icfg.ways().len() as u64, "way"),
            counts.join(", "),
            began.elapsed().as_secs_f64()
        );
        super::explain_fewer(usize::from(args.runs), plan.profiles.len());
    }
    // Of one run there is nothing to compare.
    let order = (plan.profiles.len() > 1).then(order);
    let schemes: Vec<WitnessLogging<'_>> =
        probes.iter().map(|plan| WitnessLogging::new(plan, &ids, order)).collect();
    let Ran { status, variants, unseen_inputs } =
        run_all(args, traced, &schemes, "run", scratch, quiet)?;
    if variants.iter().any(|variant| !variant.records.is_dir()) {
        return Err(recorded_nothing(&args.program, scratch, status));
    }
    let _rebuilding = Phase::begin("rebuilding the trace", quiet || args.explain);
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
        causes: RefCell::new(Causes::of(&program)),
    };
    if runs.iter().any(RunRecords::is_empty) {
        return Err(recorded_nothing(&args.program, scratch, status));
    }
    let mut writer = begin_file(output)?;
    let mut legend = traced.legend(&places);
    legend.incomplete = merge.write(&runs, status, &mut writer, args.explain)?;
    if runs.len() > 1 {
        let mut merged = compare(args, &runs, &meanings, status)?;
        if let Some(unseen) = &unseen_inputs {
            alike::add_inputs(&mut merged, unseen);
        }
        alike::tell(&merged);
        writer.merged(merged);
    }
    if !quiet {
        traced.tell_untraced(&places, &writer)?;
    }
    finish_file(writer, legend, status)?;
    Ok(status)
}

/// How far the runs were compared; fails if they did not do the same.
fn compare(
    args: &Trace,
    runs: &[RunRecords],
    meanings: &[BTreeMap<UnitId, UnitMeaning>],
    status: ExitStatus,
) -> anyhow::Result<Merged> {
    let of_runs: Vec<_> = runs.iter().map(|run| run.entries().to_vec()).collect();
    let entries = Entries::of(&of_runs);
    if let Entries::Differ { run } = entries
        && status.code().is_some()
        && runs.iter().all(RunRecords::is_of_one_thread)
        && !is_interrupted(runs, meanings)?
    {
        anyhow::bail!(Diverged(format!(
            "runs 1 and {} did not enter functions in the same order, or not as often: what \
             differs from run to run (time, random numbers, addresses) has to be the same in all",
            run + 1
        )));
    }
    let mut by = alike::shared(args.running.isolate);
    by.push("what several runs observe".to_owned());
    let parts = "which way was taken where one run alone observes it";
    Ok(alike::merged(runs.len(), by, &entries, parts))
}

/// Whether a handler of a signal ran that arrived at any time.
fn is_interrupted(
    runs: &[RunRecords],
    meanings: &[BTreeMap<UnitId, UnitMeaning>],
) -> anyhow::Result<bool> {
    let mut found = false;
    for (run, meanings) in runs.iter().zip(meanings) {
        run.each_event(meanings, |event| found |= event.interrupted_by().is_some())?;
    }
    Ok(found)
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
    probes: &ProbePlan,
    scheme: WitnessLogging<'_>,
    ids: &BTreeMap<Object, UnitId>,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<FirstRun> {
    let Ran { status, variants, .. } = run_all(args, traced, &[scheme], FIRST, scratch, quiet)?;
    if !variants[0].records.is_dir() {
        return Err(recorded_nothing(&args.program, scratch, status));
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
    /// What notes the order of entries, where there are several runs.
    order: Option<&'a OrderProbes>,
}

impl<'a> WitnessLogging<'a> {
    fn new(
        plan: &'a ProbePlan,
        ids: &BTreeMap<Object, UnitId>,
        order: Option<&'a OrderProbes>,
    ) -> Self {
        Self { plan, objects: ids.iter().map(|(object, id)| (*id, *object)).collect(), order }
    }
}

impl LoggingScheme for WitnessLogging<'_> {
    fn name(&self) -> &'static str {
        "witness"
    }

    fn plan(&self, id: [u8; 16], unit: &Unit) -> UnitPlan {
        let Some(&object) = self.objects.get(&UnitId(id)) else {
            let blocks = unit.functions.values().map(|it| it.blocks.len() as u32).sum();
            return UnitPlan { unit: id, blocks, ..UnitPlan::default() };
        };
        let mut plan = self.plan.unit_plan(object, id, unit);
        if let Some(order) = self.order {
            order.add(UnitId(id), (object, unit), &mut plan);
        }
        plan
    }
}

/// How the runs went.
struct Ran {
    status: ExitStatus,
    variants: Vec<Variant>,
    /// What of their inputs was not compared, if the rest was.
    unseen_inputs: Option<Vec<String>>,
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
) -> anyhow::Result<Ran> {
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
    let trust = Trust::given(args.trust);
    if let ([scheme], [variant]) = (schemes, &variants[..])
        && args.running.engine == Engine::Local
        && !is_trial
    {
        let destination = Destination::in_place(&variant.executable);
        derive(&traced.carried, Scheme::Logging(scheme), trust, destination, quiet)?;
        let mut environment = bound.environment();
        environment.push((backtrail_abi::log::DIR_VARIABLE, variant.records.as_os_str()));
        let packer = Packer::start([variant.records.clone()]);
        let began = child_seconds();
        progress::running(&args.program, quiet);
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
        return Ok(Ran { status, variants, unseen_inputs: None });
    }
    let total = traced.carried.units.len() * variants.len();
    let deriving = Phase::counted("deriving", total, "units", quiet);
    let done = AtomicUsize::new(0);
    let derived = variants.par_iter().zip(schemes).try_for_each(|(variant, scheme)| {
        let progress = |_, total: usize| {
            deriving.at(done.fetch_add(1, Ordering::Relaxed) + 1, total * variants.len());
        };
        let scheme = Scheme::Logging(scheme);
        let destination = Destination::in_place(&variant.executable);
        variant::derive(&traced.carried, scheme, trust, destination, &progress).map(drop)
    });
    drop(deriving);
    derived?;
    let phase = Phase::counted("running", variants.len(), "runs", quiet);
    let listener = |event: Event| phase.hear(event);
    let entry = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let environment: Vec<_> =
        bound.environment().into_iter().map(|(name, value)| (name.into(), value.into())).collect();
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &environment,
        is_trial,
        inputs: args.running.check.is_some(),
        isolation: isolation(args.running.isolate),
        engine: engine(&args.running),
        entry: &entry,
        listener: &listener,
    });
    drop(phase);
    let outcome = outcome?.uninterrupted()?;
    Ok(Ran { status: outcome.status, variants, unseen_inputs: outcome.unseen_inputs })
}
