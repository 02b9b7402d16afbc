//! Putting a trace together from the records of runs.
//!
//! What the first thread of a fork's child did is rebuilt from the log of the thread that
//! forked, up to there, and its own behind it, and written from there. So what came before a fork is
//! walked again for each child; nothing is kept for that.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::rc::Rc;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::output::WholeFile;
use backtrail_collect::copies::Variant;
use backtrail_collect::records::{Descendant, ProcessRecord, in_order_of_forks};
use backtrail_graph::Index as _;
use backtrail_ir::program::Program;
use backtrail_trace::block_log::{Events, InheritedLog, Process, Range};
use backtrail_trace::distribution::Witness;
use backtrail_trace::file::{Ending, Step, Writer};
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::icfg::{Node, PlaceKind, Role, Routine, WayKind};
use backtrail_trace::planning::Plan;
use backtrail_trace::probes::UnitMeaning;
use backtrail_trace::rebuild::{self, Outcome, Rebuild, Tables};
use backtrail_trace::witness_log::{WitnessEvents, first_and_count};

use super::log::read_process;
use crate::exit::{Diverged, Unreadable};
use crate::recorded::read_processes;
use crate::style::{demangle, number};

/// What one run recorded.
pub struct RunRecords {
    /// Each is followed by those that it forked, in order.
    processes: Vec<Recorded>,
    missing: Vec<String>,
}

struct Recorded {
    record: ProcessRecord,
    process: Process,
    /// Who forked it, by position.
    parent: Option<usize>,
}

impl RunRecords {
    /// Reads what the program itself recorded there.
    pub fn read(variant: &Variant, ranges: Option<Vec<Range>>) -> anyhow::Result<Self> {
        let (mut records, missing) = read_processes(&variant.records)?;
        let name = variant.executable.file_name();
        records.retain(|record| record.executable.file_name() == name);
        let mut processes = Vec::new();
        for Descendant { record, parent } in in_order_of_forks(records) {
            let mut process = read_process(&record)?;
            if let Some(ranges) = &ranges {
                process = process.with_ranges(ranges.clone());
            }
            processes.push(Recorded { record, process, parent });
        }
        Ok(Self { processes, missing })
    }

    /// Gives all events of all threads, with these meanings of numbers.
    pub fn each_event(
        &self,
        meanings: &BTreeMap<UnitId, UnitMeaning>,
        mut take: impl FnMut(rebuild::Event),
    ) -> anyhow::Result<()> {
        for process in 0..self.processes.len() {
            for thread in 0..self.processes[process].record.threads.len() {
                self.open((process, thread), Share::Own, meanings)?.for_each(&mut take);
            }
        }
        Ok(())
    }

    /// Whether it is known where a process began.
    fn is_begun(&self, process: usize) -> bool {
        let Recorded { record, parent, .. } = &self.processes[process];
        match (record.forked_from, parent) {
            (None, _) => true,
            (Some(_), Some(parent)) => {
                self.forking_thread(process).is_some() && self.is_begun(*parent)
            }
            (Some(_), None) => false,
        }
    }

    /// Who forked a process, and how many events it had logged.
    fn forking_thread(&self, process: usize) -> Option<((usize, usize), u64)> {
        let Recorded { record, parent, .. } = &self.processes[process];
        let (parent, place) = ((*parent)?, record.forked_at?);
        let mut threads = self.processes[parent].record.threads.iter();
        let thread = threads.position(|thread| thread.ordinal == place.thread)?;
        Some(((parent, thread), place.events))
    }

    /// The thread in which a thread's log begins: another one's if its process was forked.
    fn origin(&self, (process, thread): (usize, usize)) -> (usize, usize) {
        match self.forking_thread(process).filter(|_| thread == 0) {
            Some((forking, _)) => self.origin(forking),
            None => (process, thread),
        }
    }

    /// Opens the log of a thread.
    fn open<'p>(
        &'p self,
        (process, thread): (usize, usize),
        share: Share,
        meanings: &'p BTreeMap<UnitId, UnitMeaning>,
    ) -> anyhow::Result<Log<'p>> {
        let own = &self.processes[process];
        let path = &own.record.threads[thread].path;
        let mut parts = Vec::new();
        if share != Share::Inherited {
            parts.push((&**path, None));
        }
        let mut child = (process, thread);
        // Other threads begin in their process.
        while child.1 == 0
            && share != Share::Own
            && let Some((forking, events)) = self.forking_thread(child.0)
        {
            let path = &self.processes[forking.0].record.threads[forking.1].path;
            parts.push((&**path, Some(events)));
            child = forking;
        }
        parts.reverse();
        let input = InheritedLog::open(parts).map_err(Error::read(path))?;
        let events = Events::new(&own.process, input)
            .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
        Ok(Log { events: WitnessEvents::new(events, meanings), asked: Rc::default() })
    }
}

/// Which part of the log of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    /// Since it was forked, or began.
    Own,
    /// Before it was forked.
    Inherited,
    Both,
}

/// The witnesses of a log.
struct Log<'p> {
    events: WitnessEvents<'p, InheritedLog>,
    /// How often the next one was asked for: when there is a second time, the first was
    /// passed.
    asked: Rc<Cell<u64>>,
}

impl Iterator for Log<'_> {
    type Item = rebuild::Event;

    #[inline]
    fn next(&mut self) -> Option<rebuild::Event> {
        self.asked.set(self.asked.get() + 1);
        self.events.next()
    }
}

/// What is known of a thread that was written.
#[derive(Debug, Default)]
struct Written {
    /// By run: events of its own.
    events: Vec<u64>,
    missing: Vec<String>,
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
        for process in 0..first.processes.len() {
            let pid = first.processes[process].record.pid;
            let all = || runs.iter().map(|run| &run.processes[process]);
            let gaps = all().filter_map(|it| it.process.incomplete);
            incomplete.extend(gaps.map(|gap| format!("process {pid}: {gap}")));
            if all().any(|it| it.parent != first.processes[process].parent) {
                return Err(diverged(format!(
                    "process {pid} was not forked by the same process in all runs"
                )));
            }
            if !runs.iter().all(|run| run.is_begun(process)) {
                incomplete.push(format!(
                    "process {pid} is a fork: where it began is not recorded; trace with \
                     --strategy log to have its blocks"
                ));
                continue;
            }
            let threads = all().map(|it| it.record.threads.len()).max().unwrap_or(0);
            if all().any(|it| it.record.threads.len() != threads) {
                return Err(diverged(format!(
                    "process {pid} does not have the same threads in all runs"
                )));
            }
            for thread in 0..threads {
                let ended = process == 0 && status.code().is_some();
                let written = self.write_thread(runs, (process, thread), ended, writer)?;
                incomplete.extend(written.missing.iter().map(|it| format!("process {pid}: {it}")));
                if explain {
                    eprintln!(
                        "backtrail: process {pid} thread {}: {} events, {} blocks",
                        thread + 1,
                        number_list(&written.events),
                        crate::style::number(writer.steps())
                    );
                }
            }
        }
        incomplete.sort();
        incomplete.dedup();
        Ok(incomplete)
    }

    /// Whether a thread ended that is known up to this node: the last of what was
    /// recorded is that the function returned which it began with, or one that was called
    /// behind that, or that it came to what ends the process, or goes on as another program.
    fn has_ended(&self, rebuilt: &Rebuild<'_, Log<'_>>, last: Node) -> bool {
        let icfg = &self.graph.icfg;
        let is_hub = icfg.nodes()[last].role == Role::Hub;
        let is_turn = |node: Node| self.graph.turns.binary_search(&node).is_ok();
        let kinds = || icfg.ways_of(last).map(|way| icfg.ways()[way].kind);
        let is_back = |kind| matches!(kind, WayKind::Step(back) if !is_turn(back));
        is_hub
            && rebuilt.nodes_since_witness() == Some(1)
            && kinds().any(|kind| kind == WayKind::End)
            && !kinds().any(is_back)
    }

    /// What runs behind `main`, and behind the function that the last thread of a process
    /// began with.
    fn behind_main(&self) -> Option<Node> {
        let icfg = &self.graph.icfg;
        let start = icfg.routines()[icfg.roots()[0]].entry;
        icfg.ways_of(start).find_map(|way| match icfg.ways()[way].kind {
            WayKind::Call { back, .. } if back != start => Some(back),
            _ => None,
        })
    }

    /// Writes a thread.
    fn write_thread(
        &self,
        runs: &[RunRecords],
        place: (usize, usize),
        process_ended: bool,
        writer: &mut Writer<WholeFile>,
    ) -> anyhow::Result<Written> {
        let (process, thread) = place;
        let icfg = &self.graph.icfg;
        let mut written = Written::default();
        let mut logs = Vec::new();
        let mut begins = Vec::new();
        let mut first = None;
        // Where the thread began whose frames these are.
        let (_, origin) = runs[0].origin(place);
        let mut begin = None;
        let is_fork = thread == 0 && runs[0].processes[process].parent.is_some();
        for (run, records) in runs.iter().enumerate() {
            let open = |share: Share| records.open(place, share, &self.meanings[run]);
            let known = first_and_count(open(Share::Own)?.events);
            let place_of =
                |witness: Witness| icfg.place(self.plan.profiles[run].places()[witness.position()]);
            if run == 0 {
                first = known.map(|(first, _)| place_of(first));
                let mut all = open(Share::Both)?.filter(|it| it.interrupted_by().is_none());
                begin = all.next().map(|event| place_of(event.witness));
            }
            written.events.push(known.map_or(0, |(_, count)| count));
            if is_fork {
                begins.push(open(Share::Inherited)?.count() as u64);
            }
            logs.push(open(Share::Both)?);
        }
        let pid = runs[0].processes[process].record.pid;
        writer.begin_thread(pid, thread as u32 + 1)?;
        // The first thread begins before main, others with what they were given.
        let roots = icfg.roots();
        let root = match (origin, begin) {
            (0, _) => Some(roots[0]),
            (_, Some(PlaceKind::Node(node))) => {
                Some(icfg.nodes()[node].routine).filter(|root| roots[1..].contains(root))
            }
            _ => None,
        };
        let Some(root) = root else {
            let why = "where this thread began is not recorded";
            writer.end_thread(Ending::Unknown(why.into()))?;
            return Ok(written);
        };
        let is_turn = |node: Node| self.graph.turns.binary_search(&node).is_ok();
        if is_fork && !matches!(first, Some(PlaceKind::Node(node)) if is_turn(node)) {
            let why = "it was forked by code that is not seen: what it did before its first \
                       witness is missing";
            written.missing.push(why.to_owned());
        }
        // A log that could not go on ends before its run did.
        let is_logged = runs.iter().all(|run| run.processes[process].process.incomplete.is_none());
        let is_whole = is_logged && thread == 0 && process_ended;
        let ending = if is_whole { rebuild::Ending::Whole } else { rebuild::Ending::Cut };
        let troubles: Vec<_> = logs.iter().map(|log| log.events.trouble()).collect();
        let asked: Vec<Rc<Cell<u64>>> = logs.iter().map(|log| Rc::clone(&log.asked)).collect();
        let traces = logs.into_iter().map(|log| (log, ending));
        let mut rebuilt = Rebuild::new(self.tables, root, traces);
        if let Some(behind) = self.behind_main().filter(|_| origin > 0) {
            rebuilt = rebuilt.going_on_at(behind);
        }
        // The routine before main is no frame.
        let bottom = if is_fork { u32::MAX } else { 1 + u32::from(origin == 0) };
        // What is inherited is known to be passed when the first of what is not is.
        let is_passed = |(asked, begin): (&Rc<Cell<u64>>, &u64)| asked.get() > begin + 1;
        let is_own = || !is_fork || asked.iter().zip(&begins).any(is_passed);
        let result = self.copy(&mut rebuilt, is_own, bottom, writer);
        for (run, trouble) in troubles.iter().enumerate() {
            if let Some(error) = trouble.take() {
                let path = runs[run].processes[process].record.threads[thread].path.display();
                anyhow::bail!(Unreadable(format!("{path}: {error}")));
            }
        }
        result?;
        let ending = match rebuilt.outcome() {
            Some(Outcome::Unknown(node)) if !is_logged || !self.has_ended(&rebuilt, node) => {
                Ending::Unknown(format!("the run was stopped behind {}", self.name(node)))
            }
            _ => Ending::Whole,
        };
        writer.end_thread(ending)?;
        if rebuilt.left_untold() > 0 {
            written.missing.push(format!(
                "{} times, a handler of a signal jumped out of what it interrupted: what that did \
                 last is missing; trace with --strategy log",
                rebuilt.left_untold()
            ));
        }
        Ok(written)
    }

    /// Writes what is rebuilt, of a fork from where `is_own` says that it is its own.
    /// Frames are counted from `bottom`, or from the lowest that a fork came back to.
    fn copy(
        &self,
        rebuilt: &mut Rebuild<'_, Log<'_>>,
        is_own: impl Fn() -> bool,
        mut bottom: u32,
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
            if place != u32::MAX && is_own() {
                let depth = rebuilt.depth() as u32;
                bottom = bottom.min(depth);
                writer.push(Step { place, depth: depth - bottom + 1, enters })?;
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
