//! Putting a trace together from the records of runs.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitStatus;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::output::WholeFile;
use backtrail_collect::copies::Variant;
use backtrail_collect::records::ProcessRecord;
use backtrail_graph::Index as _;
use backtrail_ir::program::Program;
use backtrail_trace::block_log::{Events, Process, Range, ThreadLog};
use backtrail_trace::distribution::Witness;
use backtrail_trace::file::{Ending, Step, Writer};
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::icfg::{Node, PlaceKind, Role, Routine, WayKind};
use backtrail_trace::planning::Plan;
use backtrail_trace::probes::UnitMeaning;
use backtrail_trace::rebuild::{self, Outcome, Rebuild, Tables};
use backtrail_trace::witness_log::{WitnessEvents, first_and_last};

use super::log::read_process;
use crate::exit::{Diverged, Unreadable};
use crate::recorded::read_processes;
use crate::style::{demangle, number};

/// What one run recorded.
pub struct RunRecords {
    processes: Vec<(ProcessRecord, Process)>,
    missing: Vec<String>,
}

impl RunRecords {
    /// Reads what the program itself recorded there.
    pub fn read(variant: &Variant, ranges: Option<Vec<Range>>) -> anyhow::Result<Self> {
        let (mut records, missing) = read_processes(&variant.records)?;
        let name = variant.executable.file_name();
        records.retain(|record| record.executable.file_name() == name);
        let mut processes = Vec::new();
        for record in records {
            let mut process = read_process(&record)?;
            if let Some(ranges) = &ranges {
                process = process.with_ranges(ranges.clone());
            }
            processes.push((record, process));
        }
        Ok(Self { processes, missing })
    }

    /// Gives all events of all threads, with these meanings of numbers.
    pub fn each_event(
        &self,
        meanings: &BTreeMap<UnitId, UnitMeaning>,
        mut take: impl FnMut(rebuild::Event),
    ) -> anyhow::Result<()> {
        for (record, process) in &self.processes {
            for thread in &record.threads {
                open_log(process, &thread.path, meanings)?.for_each(&mut take);
            }
        }
        Ok(())
    }
}

/// Puts the trace together.
pub struct Merge<'a> {
    /// The traced graph.
    pub graph: &'a ProgramGraph,
    /// The program it is of.
    pub program: &'a Program<'a>,
    /// What was observed in which run.
    pub plan: &'a Plan,
    /// What rebuilding looks up.
    pub tables: &'a Tables,
    /// By run: what the numbers in its logs mean.
    pub meanings: &'a [BTreeMap<UnitId, UnitMeaning>],
    /// By block of the graph: its place in trace files.
    pub blocks: &'a [Option<u32>],
}

fn open_log<'p>(
    process: &'p Process,
    path: &Path,
    meanings: &'p BTreeMap<UnitId, UnitMeaning>,
) -> anyhow::Result<Log<'p>> {
    let input = ThreadLog::open(path).map_err(Error::read(path))?;
    let events = Events::new(process, input)
        .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
    Ok(WitnessEvents::new(events, meanings))
}

type Log<'p> = WitnessEvents<'p, ThreadLog>;

impl Merge<'_> {
    /// Writes the threads of all processes; gives what is missing.
    pub fn write(
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
                let (events, left) = self.write_thread(&all, thread, ended, writer)?;
                if left > 0 {
                    incomplete.push(format!(
                        "process {pid}: {left} times, a handler of a signal jumped out of what it \
                         interrupted: what that did last is missing; trace with --strategy log"
                    ));
                }
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
        open_log(process, path, &self.meanings[run])
    }

    /// Writes a thread; gives how many events each run had of it, and how many
    /// activations were left so that their end is not known.
    fn write_thread(
        &self,
        all: &[&(ProcessRecord, Process)],
        thread: usize,
        process_ended: bool,
        writer: &mut Writer<WholeFile>,
    ) -> anyhow::Result<(Vec<u64>, u64)> {
        let icfg = &self.graph.icfg;
        let mut logs = Vec::new();
        let mut counts = Vec::new();
        let (mut root, mut ends) = (None, false);
        for (run, (record, process)) in all.iter().enumerate() {
            let path = &record.threads[thread].path;
            let known = first_and_last(self.open(run, process, path)?);
            if let (0, Some((first, last, _))) = (run, known) {
                let place = |witness: Witness| {
                    let places = self.plan.profiles[0].places();
                    icfg.place(places[witness.position()])
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
            return Ok((counts, 0));
        };
        // A log that could not go on ends before its run did.
        let is_logged = all.iter().all(|(_, process)| process.incomplete.is_none());
        let is_whole = is_logged && if thread == 0 { process_ended } else { ends };
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
        Ok((counts, rebuilt.left_untold()))
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
            let (place, enters) = nodes[node.position()];
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
