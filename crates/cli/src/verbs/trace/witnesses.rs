//! A trace from runs that each observe few places.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufReader;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_abi::UnitId;
use backtrail_analysis::unseen::Behaviour;
use backtrail_build::Error;
use backtrail_build::output::WholeFile;
use backtrail_build::variant::{self, LoggingScheme, Scheme};
use backtrail_collect::copies::{self, Copies, Event, Variant};
use backtrail_collect::local::{self, Run};
use backtrail_collect::records::ProcessRecord;
use backtrail_ir::Unit;
use backtrail_ir::program::{Object, Program};
use backtrail_plan::UnitPlan;
use backtrail_plan::block_log::left_out;
use backtrail_profile::unit_plan::Weights;
use backtrail_trace::block_log::{Events, Process};
use backtrail_trace::distribution::Costs;
use backtrail_trace::file::{Ending, Step, Writer};
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::icfg::{Node, PlaceKind, Role, Routine, WayKind};
use backtrail_trace::places::ProgramPlaces;
use backtrail_trace::planning::{self, Options, Plan, distribute, plan_single_run};
use backtrail_trace::probes::{Kind, ProbePlaces, ProbePlan, UnitMeaning};
use backtrail_trace::rebuild::{self, Outcome, Rebuild, Tables};
use backtrail_trace::witness_log::{WitnessEvents, first_and_last};
use rayon::prelude::*;

use super::log::read_process;
use super::weights::place_weights;
use super::{TracedProgram, begin_file, finish_file};
use crate::args::copies::Engine;
use crate::args::trace::{Strategy, Trace, Witness};
use crate::exit::{Diverged, Unreadable};
use crate::path_counting::read_profile_of;
use crate::recorded::read_processes;
use crate::style::{demangle, number};
use crate::verbs::instrument::derive;
use crate::verbs::profile::copies::{bar, engine, isolation};
use crate::verbs::profile::recorded_nothing;

/// How many witnesses may be tried to be left out, where graphs are so small that
/// it takes no time.
const TRIALS: usize = 200;
const SMALL: usize = 3000;

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
    let weights = match &args.weights {
        Some(path) => Some(Weights::of(&read_profile_of(path, &traced.carried)?)),
        None => None,
    };
    let probe_places = ProbePlaces::new(&program, &graph);
    let kind = match args.witness {
        Witness::Edge => Kind::Edges,
        Witness::Node => Kind::Nodes,
    };
    let costs = probe_places.costs(place_weights(&program, &graph, weights.as_ref()), kind);
    let plan = plan_runs(args, &graph, &costs, kind)?;
    let tables = Tables::new(&graph.icfg, &plan.profiles)?;
    let probes: Vec<ProbePlan> = plan.profiles.iter().map(|it| probe_places.probes(it)).collect();
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
    }
    let ids: BTreeMap<Object, UnitId> =
        program.units().map(|(object, _)| object).zip(traced.models().map(|(id, _)| id)).collect();
    let schemes: Vec<WitnessLogging<'_>> = probes
        .iter()
        .map(|plan| WitnessLogging { plan, objects: ids.iter().map(|(o, id)| (*id, *o)).collect() })
        .collect();
    let (status, variants) = run_all(args, traced, &schemes, scratch, quiet)?;
    if variants.iter().any(|variant| !variant.records.is_dir()) {
        anyhow::bail!(recorded_nothing(&args.program, scratch));
    }
    let runs: Vec<RunRecords> =
        variants.iter().map(|variant| RunRecords::read(variant)).collect::<Result<_, _>>()?;
    let meanings: Vec<BTreeMap<UnitId, UnitMeaning>> =
        probes.iter().map(|plan| plan.meanings(&ids)).collect();
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

/// Decides what is observed in which run.
fn plan_runs(
    args: &Trace,
    graph: &ProgramGraph,
    costs: &Costs,
    kind: Kind,
) -> Result<Plan, backtrail_trace::Error> {
    let icfg = &graph.icfg;
    let trials = if icfg.nodes().len() <= SMALL { TRIALS } else { 0 };
    let runs = usize::from(args.runs);
    let default = if runs == 1 && args.limit.is_none() { Strategy::Single } else { Strategy::Fine };
    let strategy = match args.strategy.unwrap_or(default) {
        Strategy::Single => {
            let kind = match kind {
                Kind::Edges => planning::Kind::Edges,
                Kind::Nodes => planning::Kind::Nodes,
            };
            return plan_single_run(icfg, costs, kind, trials);
        }
        Strategy::Function => planning::Strategy::Function,
        Strategy::Grouped => planning::Strategy::Grouped,
        Strategy::Fine | Strategy::Log => planning::Strategy::Fine,
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

/// Derives a variant for each profile and runs them all.
fn run_all(
    args: &Trace,
    traced: &TracedProgram,
    schemes: &[WitnessLogging<'_>],
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<(ExitStatus, Vec<Variant>)> {
    let name = args.program.file_name().unwrap_or_default();
    let variants: Vec<Variant> = (1..=schemes.len())
        .map(|run| {
            let folder = scratch.join(format!("run-{run}"));
            Variant { executable: folder.join(name), records: folder.join("records") }
        })
        .collect();
    for variant in &variants {
        let folder = variant.executable.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
    }
    if let ([scheme], [variant]) = (schemes, &variants[..])
        && args.running.engine == Engine::Local
    {
        derive(&traced.carried, Scheme::Logging(scheme), &variant.executable, quiet)?;
        let status = local::run(&Run {
            executable: &variant.executable,
            name: args.program.as_os_str(),
            arguments: &args.arguments,
            environment: &[(backtrail_abi::log::DIR_VARIABLE, variant.records.as_os_str())],
        })?;
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
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: args.program.as_os_str(),
        arguments: &args.arguments,
        environment: &[],
        isolation: isolation(args.running.isolate),
        engine: engine(&args.running),
        entry: &entry,
        listener: &listener,
    });
    bar.finish_and_clear();
    Ok((outcome?.status, variants))
}

/// What one run recorded.
struct RunRecords {
    processes: Vec<(ProcessRecord, Process)>,
    missing: Vec<String>,
}

impl RunRecords {
    fn read(variant: &Variant) -> anyhow::Result<Self> {
        let (mut records, missing) = read_processes(&variant.records)?;
        let name = variant.executable.file_name();
        records.retain(|record| record.executable.file_name() == name);
        let mut processes = Vec::new();
        for record in records {
            let process = read_process(&record)?;
            processes.push((record, process));
        }
        Ok(Self { processes, missing })
    }
}

/// Puts the trace together.
struct Merge<'a> {
    graph: &'a ProgramGraph,
    program: &'a Program<'a>,
    plan: &'a Plan,
    tables: &'a Tables,
    meanings: &'a [BTreeMap<UnitId, UnitMeaning>],
    blocks: &'a [Option<u32>],
}

type Log<'p> = WitnessEvents<'p, BufReader<File>>;

impl Merge<'_> {
    /// Writes the threads of all processes; gives what is missing.
    fn write(
        &self,
        runs: &[RunRecords],
        status: ExitStatus,
        writer: &mut Writer<WholeFile>,
        explain: bool,
    ) -> anyhow::Result<Vec<String>> {
        let mut incomplete: Vec<String> = runs.iter().flat_map(|run| run.missing.clone()).collect();
        let first = &runs[0];
        let diverged = |what: String| anyhow::Error::from(Diverged(what));
        if let Some(other) = runs.iter().position(|it| it.processes.len() != first.processes.len())
        {
            return Err(diverged(format!(
                "run 1 has {} processes and run {} has {}: what differs from run to run has to be \
                 the same in all",
                first.processes.len(),
                other + 1,
                runs[other].processes.len()
            )));
        }
        for number in 0..first.processes.len() {
            let all: Vec<&(ProcessRecord, Process)> =
                runs.iter().map(|run| &run.processes[number]).collect();
            let pid = all[0].0.pid;
            for (_, process) in &all {
                if let Some(gap) = process.incomplete {
                    incomplete.push(format!("process {pid}: {gap}"));
                }
            }
            if all[0].0.forked_from.is_some() {
                incomplete.push(format!(
                    "process {pid} is a fork: where it began is not recorded; trace with \
                     --strategy log to have its blocks"
                ));
                continue;
            }
            let threads = all.iter().map(|(record, _)| record.threads.len()).max().unwrap_or(0);
            if all.iter().any(|(record, _)| record.threads.len() != threads) {
                return Err(diverged(format!(
                    "process {pid} does not have the same threads in all runs"
                )));
            }
            for thread in 0..threads {
                let ended = number == 0 && status.code().is_some();
                let events = self.write_thread(&all, thread, ended, writer)?;
                if explain {
                    eprintln!(
                        "backtrail: process {pid} thread {}: {} events, {} blocks",
                        thread + 1,
                        number_list(&events),
                        crate::style::number(writer.steps())
                    );
                }
            }
        }
        incomplete.sort();
        incomplete.dedup();
        Ok(incomplete)
    }

    fn open<'p>(
        &'p self,
        run: usize,
        process: &'p Process,
        path: &Path,
    ) -> anyhow::Result<Log<'p>> {
        let input = File::open(path).map_err(Error::read(path))?;
        let events = Events::new(process, BufReader::with_capacity(1 << 20, input))
            .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
        Ok(WitnessEvents::new(events, &self.meanings[run]))
    }

    /// Writes a thread; gives how many events each run had of it.
    fn write_thread(
        &self,
        all: &[&(ProcessRecord, Process)],
        thread: usize,
        process_ended: bool,
        writer: &mut Writer<WholeFile>,
    ) -> anyhow::Result<Vec<u64>> {
        let icfg = &self.graph.icfg;
        let mut logs = Vec::new();
        let mut counts = Vec::new();
        let (mut root, mut ends) = (None, false);
        for (run, (record, process)) in all.iter().enumerate() {
            let path = &record.threads[thread].path;
            let known = first_and_last(self.open(run, process, path)?);
            if let (0, Some((first, last, _))) = (run, known) {
                let place = |witness| {
                    let places = self.plan.profiles[0].places();
                    icfg.place(places[backtrail_graph::Index::position(witness)])
                };
                root = match place(first) {
                    PlaceKind::Node(node) => Some(icfg.nodes()[node].routine),
                    PlaceKind::Way(_) => None,
                };
                ends = match place(last) {
                    PlaceKind::Way(way) => icfg.ways()[way].kind == WayKind::Return,
                    PlaceKind::Node(_) => false,
                };
            }
            counts.push(known.map_or(0, |(_, _, count)| count));
            let log = self.open(run, process, path)?;
            logs.push((log.trouble(), log));
        }
        let (pid, number) = (all[0].0.pid, thread as u32 + 1);
        writer.begin_thread(pid, number)?;
        // The first thread begins before main, others with what they were given.
        let roots = icfg.roots();
        let root = match thread {
            0 => Some(roots[0]),
            _ => root.filter(|root| roots[1..].contains(root)),
        };
        let Some(root) = root else {
            let why = "where this thread began is not recorded";
            writer.end_thread(Ending::Unknown(why.into()))?;
            return Ok(counts);
        };
        let is_whole = if thread == 0 { process_ended } else { ends };
        let ending = if is_whole { rebuild::Ending::Whole } else { rebuild::Ending::Cut };
        let troubles: Vec<_> = logs.iter().map(|(trouble, _)| trouble.clone()).collect();
        let traces = logs.into_iter().map(|(_, log)| (log, ending));
        let mut rebuilt = Rebuild::new(self.tables, root, traces);
        let above = u32::from(thread == 0);
        let result = self.copy(&mut rebuilt, above, writer);
        for (run, trouble) in troubles.iter().enumerate() {
            if let Some(error) = trouble.take() {
                let path = all[run].0.threads[thread].path.display();
                anyhow::bail!(Unreadable(format!("{path}: {error}")));
            }
        }
        result?;
        let ending = match rebuilt.outcome() {
            Some(Outcome::Unknown(node)) if !(ends && thread > 0) => {
                Ending::Unknown(format!("the run was stopped behind {}", self.name(node)))
            }
            _ => Ending::Whole,
        };
        writer.end_thread(ending)?;
        Ok(counts)
    }

    /// Writes what is rebuilt.
    fn copy<'t>(
        &self,
        rebuilt: &mut Rebuild<'t, Log<'_>>,
        above: u32,
        writer: &mut Writer<WholeFile>,
    ) -> anyhow::Result<()> {
        let icfg = &self.graph.icfg;
        // By node: its place, or none; and whether a frame begins there.
        let nodes: Vec<(u32, bool)> = icfg
            .nodes()
            .iter()
            .map(|(node, data)| match data.role {
                Role::Block(block) => {
                    let place = self.blocks[block as usize].unwrap_or(u32::MAX);
                    (place, icfg.routines()[data.routine].entry == node)
                }
                Role::Piece | Role::Hub => (u32::MAX, false),
            })
            .collect();
        while let Some(node) = rebuilt.next() {
            let node = node.map_err(|error| self.explain(error))?;
            let (place, enters) = nodes[backtrail_graph::Index::position(node)];
            if place != u32::MAX {
                let depth = (rebuilt.depth() as u32).saturating_sub(above).max(1);
                writer.push(Step { place, depth, enters })?;
            }
        }
        Ok(())
    }

    /// A divergence, with the names of places.
    fn explain(&self, error: backtrail_trace::Error) -> anyhow::Error {
        let backtrail_trace::Error::Diverged(divergence) = error else { return error.into() };
        let name = self.name(divergence.node);
        let several = self.plan.profiles.len() > 1;
        let hint = if several {
            "what differs from run to run (time, random numbers, addresses, signals) has to be the \
             same in all runs"
        } else {
            "a signal or code that is not seen did what the program itself does not say; trace \
             with --strategy log"
        };
        Diverged(format!("the runs diverged behind {name}: {divergence}; {hint}")).into()
    }

    /// A node as people know it.
    fn name(&self, node: Node) -> String {
        let icfg = &self.graph.icfg;
        let routine: Routine = icfg.nodes()[node].routine;
        let Some((object, func)) = self.graph.functions[routine] else {
            return "the start of the program".to_owned();
        };
        let Some(unit) = self.program.unit(object) else { return node.to_string() };
        let function = demangle(&unit.symbols[unit.functions[func].symbol].name);
        match icfg.nodes()[node].role {
            Role::Block(block) => {
                let (_, _, block) = self.graph.blocks[block as usize];
                format!("{block} of {function}")
            }
            Role::Piece | Role::Hub => format!("a call in {function}"),
        }
    }
}

fn number_list(counts: &[u64]) -> String {
    let counts: Vec<String> = counts.iter().map(|&it| number(it)).collect();
    counts.join(" + ")
}
