//! A trace of an executable that may not be changed: breakpoints, over several runs
//! of it if there are to be fewer stops in each.
//!
//! One run is traced by this process itself, which leaves the program its own input
//! and output. Several are copies as those of a profile are
//! ([`backtrail_collect::copies`]), each of which is this tool again, tracing one
//! run ([`copy`]).

pub mod copy;
mod legend;
mod modules;
mod partial;
mod planned;

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::output::WholeFile;
use backtrail_collect::copies::{self, Copies, Event, Variant};
use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_interruption::{Environment, Folder};
use backtrail_machine::code::{Callee, Code, Exit};
use backtrail_machine::tracee::Ended;
use backtrail_plan::merged::Merged;
use backtrail_trace::distribution::Profile;
use backtrail_trace::file::{self, Step};
use backtrail_trace::icfg::{Node, PlaceKind, Role, Routine};
use backtrail_trace::machine_graph::MachineGraph;
use backtrail_trace::planning::{self, Plan};
use backtrail_trace::rebuild::{Divergence, Outcome, Rebuild, Tables};
use backtrail_trace::unfollowed::Why;

use super::{begin_file, causes, finish_file};
use crate::alike;
use crate::args::copies::{Engine, Running};
use crate::args::program::Program;
use crate::exit::Diverged;
use crate::progress::{self, Phase};
use crate::style::counted;
use crate::verbs::profile::copies::{engine, isolation};
use modules::Modules;
use partial::{Events, Partial, Summary, ThreadSummary};

/// What is asked for.
pub struct Request<'a> {
    /// The executable.
    pub program: &'a Program,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Over how many runs.
    pub runs: usize,
    /// How decisions are spread, if that was asked for.
    pub strategy: Option<planning::Strategy>,
    /// The most breakpoints of a run.
    pub limit: Option<usize>,
    /// An earlier trace, whose counts plan this one.
    pub weights: Option<&'a Path>,
    /// Which libraries are traced with it.
    pub libraries: &'a [globset::Glob],
    /// Whether a handler in the program takes breakpoints.
    pub in_process: bool,
    /// How several runs are kept apart, and where they are.
    pub running: &'a Running,
    /// Whether to tell what was planned, and what it cost.
    pub explain: bool,
    /// Whether to keep quiet otherwise.
    pub quiet: bool,
}

/// Plans, runs, and writes the trace.
pub fn collect(request: &Request<'_>, output: &Path) -> anyhow::Result<ExitStatus> {
    let program = request.program.canonicalize().map_err(Error::read(request.program))?;
    let finding = Phase::begin("finding code", request.quiet);
    let (modules, code) = Modules::of(&program, request)?;
    drop(finding);
    let planning = Phase::begin("planning", request.quiet);
    let graph = MachineGraph::new(&code)?;
    let weights =
        request.weights.map(|path| planned::counts_of(path, &program, &code)).transpose()?;
    let plan = planned::plan(request, &code, &graph, weights.as_ref())?;
    drop(planning);
    let scratch = scratch(request.running)?;
    if request.explain {
        planned::explain_code(request.runs, &code, &graph, &plan);
    }
    let (partials, status) = match &plan.profiles[..] {
        [profile] => {
            let job = copy::Job::new(&modules, request, profile)?;
            let partial = Partial::new(scratch.path());
            progress::running(request.program, request.quiet);
            let summary = copy::trace(&job, request.arguments, &partial, &code, &graph)?;
            let status = status_of(summary.ended());
            (vec![(partial, summary)], status)
        }
        profiles => run_copies(request, &modules, profiles, scratch.path())?,
    };
    let stops: Vec<u64> = partials.iter().map(|(_, summary)| summary.stops).collect();
    // A program that may not be changed notes nothing by itself.
    let shared = || alike::shared(request.running.isolate);
    let parts = "which way was taken where one run alone has breakpoints";
    let runs = plan.profiles.len();
    let merged = (runs > 1).then(|| alike::unchecked(runs, shared(), parts));
    let rebuilding = Phase::begin("rebuilding the trace", request.quiet);
    let mut ran = vec![false; code.routines.len()];
    let runs = Runs { code: &code, graph: &graph, plan: &plan, partials: &partials };
    let blocks = rebuild(&program, &runs, merged, output, &mut ran);
    let blocks = blocks.map_err(|error| {
        if error.is::<Diverged>() {
            note_observed(&mut ran, &graph, &plan, &partials);
        }
        let made_code = partials.iter().any(|(_, summary)| summary.has_made_code);
        with_cause(error, &code, &ran, made_code, request)
    })?;
    drop(rebuilding);
    let untraced = partials.first().and_then(|(_, summary)| summary.untraced());
    if let Some(untraced) = untraced.filter(|_| !request.quiet) {
        say!("backtrail: not traced: {untraced}");
    }
    if request.explain {
        say!("backtrail: {blocks} blocks executed");
        planned::explain_stops(request.runs, &program, &code, &graph, &plan, &stops, output)?;
        let seconds = partials.iter().map(|(_, summary)| format!("{:.3}", summary.seconds));
        say!("backtrail: seconds: {}", seconds.collect::<Vec<_>>().join(" "));
    }
    Ok(status)
}

/// A folder that all runs see, wherever they are.
fn scratch(running: &Running) -> Result<Folder, Error> {
    let make = |place: &Path| Folder::within(place, "trace").map_err(Error::write(place));
    match (running.engine, &running.slurm_dir) {
        (Engine::Local, _) => make(&std::env::temp_dir()),
        (Engine::Slurm, Some(folder)) => {
            make(&folder.canonicalize().map_err(Error::write(folder))?)
        }
        (Engine::Slurm, None) => {
            let own = std::env::current_dir().map_err(Error::read(Path::new(".")))?;
            own.parent().map_or_else(|| make(&own), make).or_else(|_| make(&own))
        }
    }
}

/// Hides the folder of records that copies are told of: what is traced has no probes, and
/// what it starts is not to record there.
fn hide_records(command: &mut Command) {
    let mut environment = Environment::own();
    environment.remove(backtrail_abi::log::DIR_VARIABLE);
    environment.give(command);
}

fn status_of(ended: Ended) -> ExitStatus {
    ExitStatus::from_raw(match ended {
        Ended::Exited(code) => (code & 0xff) << 8,
        Ended::Killed(signal) => signal & 0x7f,
    })
}

type Partials = Vec<(Partial, Summary)>;

/// What was planned for some code, and what came of it.
struct Runs<'a> {
    code: &'a Code,
    graph: &'a MachineGraph,
    plan: &'a Plan,
    partials: &'a Partials,
}

/// Runs a copy for each profile.
fn run_copies(
    request: &Request<'_>,
    modules: &Modules,
    profiles: &[Profile],
    scratch: &Path,
) -> anyhow::Result<(Partials, ExitStatus)> {
    let entry = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    // A name that the first line of a script can hold, wherever the tool is.
    let tool = scratch.join("backtrail");
    match request.running.engine {
        Engine::Local => std::os::unix::fs::symlink(&entry, &tool),
        // Other nodes need not have it.
        Engine::Slurm => std::fs::copy(&entry, &tool).map(drop),
    }
    .map_err(Error::write(&tool))?;
    let name = request.program.file_name().unwrap_or_default();
    let mut variants = Vec::new();
    for (number, profile) in profiles.iter().enumerate() {
        let folder = scratch.join(format!("copy-{}", number + 1));
        std::fs::create_dir_all(&folder).map_err(Error::write(&folder))?;
        let job = folder.join("job");
        copy::Job::new(modules, request, profile)?.write(&job)?;
        let executable = folder.join(name);
        let script = format!("#!{} {}{}\n", tool.display(), copy::VERB, job.display());
        std::fs::write(&executable, script).map_err(Error::write(&executable))?;
        let mode = std::fs::Permissions::from_mode(0o755);
        std::fs::set_permissions(&executable, mode).map_err(Error::write(&executable))?;
        variants.push(Variant { executable, records: folder.join("records") });
    }
    let phase = Phase::counted("running", variants.len(), "runs", request.quiet);
    let listener = |event: Event| phase.hear(event);
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: request.program.name(),
        arguments: request.arguments,
        environment: &[],
        isolation: isolation(request.running.isolate),
        engine: engine(request.running),
        is_trial: false,
        inputs: false,
        entry: &entry,
        listener: &listener,
    });
    drop(phase);
    // Why a copy could not be traced says more than that copies differ.
    for variant in &variants {
        Partial::new(&variant.records).check()?;
    }
    let outcome = outcome?.uninterrupted()?;
    // Copies that a signal ended left no word.
    if let (Some(signal), true) = (
        outcome.status.signal(),
        variants.iter().any(|variant| !Partial::new(&variant.records).is_finished()),
    ) {
        anyhow::bail!(backtrail_collect::Error::Interrupted { signal });
    }
    let mut partials = Vec::new();
    for variant in &variants {
        let partial = Partial::new(&variant.records);
        let summary = partial.summary()?;
        partials.push((partial, summary));
    }
    Ok((partials, outcome.status))
}

/// Puts the trace together and writes it; how many blocks it has. Notes the routines that
/// `ran`.
fn rebuild(
    program: &Path,
    runs: &Runs<'_>,
    merged: Option<Merged>,
    output: &Path,
    ran: &mut [bool],
) -> anyhow::Result<u64> {
    let &Runs { code, graph, plan, partials } = runs;
    let tables = Tables::new(&graph.icfg, &plan.profiles)?;
    let process = partials.first().map_or(0, |(_, summary)| summary.process);
    let status = partials.first().map(|(_, summary)| status_of(summary.ended()));
    let status = status.unwrap_or_default();
    let mut writer = begin_file(output)?;
    let mut blocks = 0;
    let mut number = 0;
    for threads in same_threads(partials)? {
        let root = match number {
            0 => Some(Routine::new(code.entry)),
            _ => graph.thread_root(),
        };
        let Some(root) = root else { continue };
        number += 1;
        let mut traces = Vec::new();
        for ((&thread, (partial, summary)), profile) in
            threads.iter().zip(partials).zip(&plan.profiles)
        {
            let events = partial.events(thread, graph, profile)?;
            traces.push((events, summary.threads[thread].ending()));
        }
        writer.begin_thread(process, number)?;
        let mut rebuild = Rebuild::new(&tables, root, traces).with_resumes();
        blocks += write_thread(&mut rebuild, &mut writer, code, graph, plan, ran)?;
        let ending = match rebuild.outcome() {
            Some(Outcome::Unknown(node)) => {
                let place = describe(node, code, graph);
                file::Ending::Unknown(format!("what followed {place} is not known"))
            }
            _ => file::Ending::Whole,
        };
        writer.end_thread(ending)?;
    }
    merged.into_iter().for_each(|it| writer.merged(it));
    finish_file(writer, legend::of(program, code)?, status)?;
    Ok(blocks)
}

/// By thread that executed something: its number in each run.
fn same_threads(partials: &Partials) -> anyhow::Result<Vec<Vec<usize>>> {
    let lines = |summary: &Summary| -> BTreeMap<Vec<u32>, usize> {
        let is_wanted = |&(number, it): &(usize, &ThreadSummary)| number == 0 || it.events > 0;
        let threads = summary.threads.iter().enumerate().filter(is_wanted);
        threads.map(|(number, it)| (it.line.clone(), number)).collect()
    };
    let mut runs = partials.iter().map(|(_, summary)| lines(summary));
    let first = runs.next().unwrap_or_default();
    let mut found: Vec<Vec<usize>> = first.values().map(|&number| vec![number]).collect();
    for run in runs {
        if !run.keys().eq(first.keys()) {
            anyhow::bail!(Diverged(
                "the runs diverged: they did not start the same threads".to_owned()
            ));
        }
        for (thread, &number) in found.iter_mut().zip(run.values()) {
            thread.push(number);
        }
    }
    Ok(found)
}

/// Writes the blocks of one thread; how many.
fn write_thread(
    rebuild: &mut Rebuild<'_, Events>,
    writer: &mut file::Writer<WholeFile>,
    code: &Code,
    graph: &MachineGraph,
    plan: &Plan,
    ran: &mut [bool],
) -> anyhow::Result<u64> {
    let explain = |error, before| match error {
        backtrail_trace::Error::Diverged(it) => explain_divergence(&it, before, code, graph, plan),
        other => other.into(),
    };
    let mut last: Option<(Node, usize)> = None;
    let mut block_before = None;
    let mut blocks = 0;
    // Below what is executed first there may be who started the thread.
    let mut below = None;
    while let Some(node) = rebuild.next() {
        let node = node.map_err(|error| explain(error, block_before))?;
        let depth = rebuild.depth();
        let data = &graph.icfg.nodes()[node];
        if let Role::Block(block) = data.role {
            if let Some(ran) = ran.get_mut(data.routine.position()) {
                *ran = true;
            }
            let is_entry = graph.icfg.routines()[data.routine].entry == node;
            let is_elsewhere = last.is_none_or(|(before, height)| {
                height != depth || graph.icfg.nodes()[before].routine != data.routine
            });
            let enters = is_entry && is_elsewhere;
            let below = *below.get_or_insert(depth.saturating_sub(1));
            let depth = depth.saturating_sub(below) as u32;
            writer.push(Step { place: block, depth, enters })?;
            block_before = Some(node);
            blocks += 1;
        }
        last = Some((node, depth));
    }
    Ok(blocks)
}

/// Where a node is, in words.
fn describe(node: Node, code: &Code, graph: &MachineGraph) -> String {
    let data = &graph.icfg.nodes()[node];
    let routine = data.routine.position();
    let name = if routine < code.routines.len() {
        code.name(routine)
    } else {
        "a function that was called back".to_owned()
    };
    match data.role {
        Role::Block(block) => {
            let start = code.blocks[block as usize].start;
            format!("{:#x} in {name}", code.file_address(start))
        }
        Role::Piece | Role::Hub => format!("a call of a library in {name}"),
    }
}

/// Why runs do not fit together: the last block that they agree about, and what comes next.
fn explain_divergence(
    divergence: &Divergence,
    before: Option<Node>,
    code: &Code,
    graph: &MachineGraph,
    plan: &Plan,
) -> anyhow::Error {
    let last = describe(before.unwrap_or(divergence.node), code, graph);
    let next = divergence.profile.map(|profile| {
        let places = plan.profiles[profile as usize].places();
        let place = divergence.found.map(|found| graph.icfg.place(places[found.position()]));
        let next = match place {
            Some(PlaceKind::Node(node)) => describe(node, code, graph),
            Some(PlaceKind::Way(_)) => "the end of the run in a call".to_owned(),
            None => "its end, or a handler of a signal,".to_owned(),
        };
        format!("; run {} has {next} next", profile + 1)
    });
    anyhow::anyhow!(Diverged(format!(
        "the runs diverged after {}, the last of them {last}{}: {}; the program does not do the \
         same in every run (time, random numbers, addresses, signals, the order of its threads \
         have to be the same in all), or jumps where its code does not tell",
        counted(divergence.position, "place"),
        next.unwrap_or_default(),
        divergence.why
    )))
}

/// Notes the routines that breakpoints were met in, of all threads.
fn note_observed(ran: &mut [bool], graph: &MachineGraph, plan: &Plan, partials: &Partials) {
    for ((partial, summary), profile) in partials.iter().zip(&plan.profiles) {
        for thread in 0..summary.threads.len() {
            // Whatever is wrong with them has been told.
            for event in partial.events(thread, graph, profile).into_iter().flatten() {
                let node = match graph.icfg.place(profile.places()[event.witness.position()]) {
                    PlaceKind::Node(node) => node,
                    PlaceKind::Way(way) => graph.icfg.ways()[way].from,
                };
                if let Some(ran) = ran.get_mut(graph.icfg.nodes()[node].routine.position()) {
                    *ran = true;
                }
            }
        }
    }
}

/// A divergence with the calls behind which breakpoints do not follow that are in what
/// `ran`, and with code that the run made, if there are any.
fn with_cause(
    error: anyhow::Error,
    code: &Code,
    ran: &[bool],
    made_code: bool,
    request: &Request<'_>,
) -> anyhow::Error {
    if !error.is::<Diverged>() {
        return error;
    }
    let mut found: BTreeMap<Why, String> = BTreeMap::new();
    for block in code.blocks.iter().filter(|block| ran[block.routine]) {
        let (Exit::Call(Callee::External(callee), _) | Exit::Tail(Callee::External(callee))) =
            &block.exit
        else {
            continue;
        };
        let why = if request.in_process { Why::within(callee) } else { Why::of(callee) };
        if let Some(why) = why {
            let caller = || format!("{} ({:#x})", code.name(block.routine), block.last);
            found.entry(why).or_insert_with(|| causes::sentence(&caller(), callee, why));
        }
    }
    if found.is_empty() && !made_code {
        return error;
    }
    let hint = match !made_code && found.keys().all(|why| *why == Why::Interrupted) {
        true => "trace without --in-process".to_owned(),
        false => format!("trace with --strategy log ({})", without(request.program)),
    };
    let mut found: Vec<String> = found.into_values().collect();
    if made_code {
        found.push(MADE_CODE.to_owned());
    }
    let (found, said) = (found.join("; "), error.to_string());
    let said = said.split(';').next().unwrap_or_default();
    Diverged(format!("breakpoints cannot follow this run: {found} ({said}); {hint}")).into()
}

/// How a program is traced by probes.
pub fn without(program: &Path) -> String {
    let shown = program.display();
    match Carried::read(program) {
        Ok(_) => format!("leave out --witness breakpoint: {shown} carries its IR"),
        Err(_) => format!(
            "build {shown} with 'backtrail cc', 'c++' or 'cargo' and leave out --witness breakpoint"
        ),
    }
}

/// What it means that a program has code that no file holds.
const MADE_CODE: &str = "the program made code while it ran, which may enter what is traced, come \
                         back to it and leave it as nothing in its files tells";

/// The path of a job on the command line of a copy.
pub fn job_of(word: &OsString) -> Option<PathBuf> {
    word.to_str()?.strip_prefix(copy::VERB).map(PathBuf::from)
}
