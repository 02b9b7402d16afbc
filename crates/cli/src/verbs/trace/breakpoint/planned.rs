//! Which breakpoints each run has, and how that compares with what there could be.

use std::fs::File;
use std::io::BufReader;
use std::path::Path;

use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_machine::code::{Code, Module};
use backtrail_trace::distribution::{Costs, Profile};
use backtrail_trace::file::{Kind, TraceFile};
use backtrail_trace::lower_bound::lower_bound;
use backtrail_trace::machine_graph::{Counts, MachineGraph, Weights};
use backtrail_trace::planning::{self, Options, Plan, Strategy};
use backtrail_trace::realizability::Analysis;
use backtrail_trace::rebuild::Tables;

use super::Request;
use crate::exit::{Unreadable, Usage};
use crate::style::{counted, number};
use crate::verbs::show::trace::open;
use crate::verbs::trace::explain_fewer;

/// How many witnesses may be tried to be left out, where graphs are so small that it
/// takes no time.
const TRIALS: usize = 200;

fn trials(graph: &MachineGraph) -> usize {
    let is_small = graph.icfg.nodes().len() <= super::super::witnesses::SMALL;
    if is_small { TRIALS } else { 0 }
}

/// What an earlier trace of the same executable passed.
pub fn counts_of<'a>(path: &Path, program: &Path, code: &'a Code) -> anyhow::Result<Counts<'a>> {
    let mut file = open(path)?;
    let legend = file.legend();
    let refuse = |why: &str| {
        anyhow::anyhow!(Unreadable(format!(
            "{} has no weights for {}: {why}",
            path.display(),
            program.display()
        )))
    };
    if legend.kind != Kind::Code {
        return Err(refuse("it was traced by probes; give a trace of the executable itself"));
    }
    let build_id = super::legend::build_ids(code)?;
    let fits = legend.places.iter().all(|&(place, data)| {
        code.blocks
            .get(place as usize)
            .is_some_and(|block| code.file_address(block.start) == data.label)
    });
    if legend.build_id != build_id || !fits {
        return Err(refuse("it is a trace of another build"));
    }
    let unreadable =
        |error: backtrail_trace::Error| Unreadable(format!("{}: {error}", path.display()));
    Ok(count(&mut file, code).map_err(unreadable)?)
}

fn count<'a>(
    file: &mut TraceFile<BufReader<File>>,
    code: &'a Code,
) -> Result<Counts<'a>, backtrail_trace::Error> {
    let mut counts = Counts::new(code);
    for thread in 0..file.threads().len() {
        counts.begin_thread();
        for step in file.steps(thread, 0)? {
            let step = step?;
            counts.push(step.place, step.depth, step.enters);
        }
    }
    Ok(counts)
}

/// Decides where breakpoints are.
pub fn plan(
    request: &Request<'_>,
    code: &Code,
    graph: &MachineGraph,
    counts: Option<&Counts<'_>>,
) -> anyhow::Result<Plan> {
    let costs = match counts {
        Some(counts) => graph.costs(code, &Weights::Counted(counts)),
        None => graph.costs(code, &graph.guessed_weights(code)),
    };
    // A debugger does not ask what a breakpoint is for.
    let always = graph.breakpoints_of_every_run(&costs);
    let limit = request.limit.map(|limit| limit.saturating_sub(always));
    if let (Some(asked), Some(0)) = (request.limit, limit) {
        anyhow::bail!(Usage(format!(
            "--limit {asked} is too low: every run needs {}, where functions begin whose address \
             is taken, and at least two more; give {} or more",
            counted(always as u64, "breakpoint"),
            always + 2
        )));
    }
    let trials = if counts.is_some() { trials(graph) } else { 0 };
    let (runs, icfg) = (request.runs, &graph.icfg);
    let planned = match (request.strategy, limit, counts) {
        (None, None, Some(_)) => {
            planning::plan_runs(icfg, &costs, planning::Kind::Nodes, runs, trials)
        }
        (strategy, ..) => {
            let strategy = strategy.unwrap_or(Strategy::Fine);
            planning::distribute(icfg, &costs, Options { runs, strategy, limit, trials })
        }
    };
    match planned {
        // Every block tells any two ways apart, at a price.
        Err(backtrail_trace::Error::Plan(_)) if request.limit.is_none() => {
            let all = graph.every_place(&costs);
            let profiles = vec![Profile::new(&graph.icfg, all)];
            if Tables::new(&graph.icfg, &profiles).is_err() {
                anyhow::bail!(Unreadable(format!(
                    "breakpoints do not tell all ways through {} apart, not even one in every \
                     block; trace fewer libraries if there are any",
                    undecided(code, graph, &profiles)
                )));
            }
            Ok(Plan { profiles, runs: vec![0] })
        }
        Err(backtrail_trace::Error::Limit { needed, .. }) => anyhow::bail!(Usage(format!(
            "--limit {} is too low: to tell two ways apart takes a run with {}",
            request.limit.unwrap_or_default(),
            counted((needed + always) as u64, "breakpoint")
        ))),
        other => Ok(other?),
    }
}

/// The function with the first two ways that are not told apart, and its file.
fn undecided(code: &Code, graph: &MachineGraph, profiles: &[Profile]) -> String {
    let analysis = Analysis::new(&graph.icfg, profiles);
    let first = analysis.conflicts().next();
    let routine = first.map(|it| graph.icfg.nodes()[it.node].routine.position());
    // There are more in the graph than in the code.
    match routine.and_then(|it| code.routines.get(it).map(|data| (it, data))) {
        Some((routine, data)) => {
            let (_, module) = code.module(code.blocks[data.head].start);
            format!("{} of {}", code.name(routine), module.name())
        }
        None => code.modules.iter().map(Module::name).collect::<Vec<_>>().join(" and "),
    }
}

/// Tells what was found in the code, and how many breakpoints there are.
pub fn explain_code(asked: usize, code: &Code, graph: &MachineGraph, plan: &Plan) {
    say!(
        "backtrail: {} routines, {} blocks; {} computed jumps taken for calls in tail position",
        code.routines.len(),
        code.blocks.len(),
        code.open_jumps.len()
    );
    let breakpoints = |profile: &Profile| {
        profile.places().iter().filter(|&&place| graph.block_of(place).is_some()).count()
    };
    let sizes: Vec<usize> = plan.profiles.iter().map(breakpoints).collect();
    say!("backtrail: breakpoints in each run: {sizes:?}");
    explain_fewer(asked, sizes.len());
}

/// Tells how many stops there were, how many the plan has on the run that the trace
/// is of, and how many others would have.
pub fn explain_stops(
    asked: usize,
    program: &Path,
    code: &Code,
    graph: &MachineGraph,
    plan: &Plan,
    stops: &[u64],
    trace: &Path,
) -> anyhow::Result<()> {
    let counts = counts_of(trace, program, code)?;
    let costs = graph.costs(code, &Weights::Counted(&counts));
    let predicted: Vec<u64> =
        plan.profiles.iter().map(|profile| stops_of(profile, graph, &costs)).collect();
    let worst = stops.iter().max().copied().unwrap_or(0);
    say!("backtrail: stops {stops:?}, predicted {predicted:?}, at most {worst} in a run");
    let single =
        planning::plan_single_run(&graph.icfg, &costs, planning::Kind::Nodes, trials(graph));
    let single = single.ok().and_then(|plan| Some(stops_of(plan.profiles.first()?, graph, &costs)));
    let runs = plan.profiles.len().max(asked);
    let bound = lower_bound(&graph.icfg, &costs, runs);
    say!(
        "backtrail: one run planned with what is known now has {}; no plan of {} has fewer than {}",
        single.map_or_else(|| "not fewer".to_owned(), number),
        if runs == 1 { "one run".to_owned() } else { format!("{runs} runs") },
        number(bound)
    );
    Ok(())
}

/// How often the breakpoints of a run are hit.
fn stops_of(profile: &Profile, graph: &MachineGraph, costs: &Costs) -> u64 {
    let places = profile.places().iter().filter(|&&place| graph.block_of(place).is_some());
    places.map(|&place| costs.weight(place)).sum()
}
