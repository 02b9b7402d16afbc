//! Putting a trace together from the records of runs.
//!
//! What the first thread of a fork's child did is rebuilt from the log of the thread that
//! forked, up to there, and its own behind it, and written from there. So what came before a fork is
//! walked again for each child; nothing is kept for that.

mod divergence;

use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::rc::Rc;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_build::output::WholeFile;
use backtrail_collect::copies::Variant;
use backtrail_collect::records::{Descendant, ProcessRecord, in_order_of_forks, those_that_logged};
use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_ir::program::Program;
use backtrail_plan::order::ProcessEntries;
use backtrail_trace::block_log::{Events, InheritedLog, Process, Range};
use backtrail_trace::distribution::Witness;
use backtrail_trace::file::{Ending, Step, Writer};
use backtrail_trace::icfg::from_program::ProgramGraph;
use backtrail_trace::icfg::{Node, PlaceKind, Role, WayKind};
use backtrail_trace::planning::Plan;
use backtrail_trace::probes::UnitMeaning;
use backtrail_trace::rebuild::{self, Outcome, Rebuild, Tables};
use backtrail_trace::witness_log::{WitnessEvents, first_and_count};

use super::causes::Causes;
use super::order::entries_of;
use crate::exit::{Diverged, Unreadable};
use crate::recorded::{read_process, read_processes};
use crate::style::{counted, demangle, number};
use crate::variants::underived;

/// What one run recorded.
pub struct RunRecords {
    /// Each is followed by those that it forked, in order.
    processes: Vec<Recorded>,
    missing: Vec<String>,
    /// Libraries that did not run as they were derived.
    not_derived: Vec<String>,
    /// The orders of entries, of those that logged nothing too.
    entries: Vec<ProcessEntries>,
    has_threads: bool,
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
        let carried = Carried::read(&variant.executable)?;
        let libraries = own_libraries(&carried)?;
        let mut processes = Vec::new();
        let mut not_derived = Vec::new();
        let has_threads = records
            .iter()
            .any(|it| it.threads.len() > 1 || it.counts.iter().any(|file| file.copy > 0));
        let entries = entries_of(&in_order_of_forks(records.clone()))?;
        for Descendant { record, parent } in in_order_of_forks(those_that_logged(records)) {
            let mut process = read_process(&record)?;
            not_derived.extend(underived(&carried, &process));
            let own = || [&carried].into_iter().chain(libraries.values());
            if let Some(other) = logging_by_itself(&process, own(), ranges.is_some()) {
                anyhow::bail!(Diverged(format!(
                    "{other} is a variant that logs by itself, and what it logs cannot be told \
                     from witnesses; trace with --strategy log"
                )));
            }
            if let Some(ranges) = &ranges {
                process = process.with_ranges(ranges.clone());
            }
            processes.push(Recorded { record, process, parent });
        }
        not_derived.sort();
        not_derived.dedup();
        Ok(Self { processes, missing, not_derived, entries, has_threads })
    }

    /// Whether nothing was logged.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty()
    }

    /// Whether all it did was done by one thread in each process, and is recorded.
    pub fn is_of_one_thread(&self) -> bool {
        let is_whole = |it: &Recorded| it.process.incomplete.is_none();
        !self.has_threads && self.missing.is_empty() && self.processes.iter().all(is_whole)
    }

    /// The orders in which its processes entered functions.
    pub fn entries(&self) -> &[ProcessEntries] {
        &self.entries
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

/// A library that is not of the program's own files, and that logged units: numbers of
/// its own among those that were given.
fn logging_by_itself<'a>(
    process: &Process,
    own: impl Iterator<Item = &'a Carried> + Clone,
    are_numbers_given: bool,
) -> Option<String> {
    let is_own = |unit: UnitId| own.clone().flat_map(|it| &it.units).any(|it| it.id() == unit);
    let mut registered = process.ranges().iter();
    registered.find(|range| are_numbers_given || !is_own(range.unit))?;
    let is_known = |id| own.clone().filter_map(|it| it.variant.as_ref()).any(|it| it.id == id);
    let other = process.modules.iter().find(|module| !is_known(module.id));
    let path = other.and_then(|module| module.path.as_ref());
    Some(path.map_or("a library".to_owned(), |path| path.display().to_string()))
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
    /// What may be the cause where runs do not fit together.
    pub causes: RefCell<Causes>,
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
        let told = runs.iter().flat_map(|run| run.missing.iter().chain(&run.not_derived));
        let mut incomplete: Vec<String> = told.cloned().collect();
        let first = &runs[0];
        let diverged = |what: String| anyhow::Error::from(Diverged(what));
        if let Some(other) = runs.iter().position(|it| it.processes.len() != first.processes.len())
        {
            return Err(diverged(format!(
                "run 1 has {} and run {} has {}: what differs from run to run has to be \
                 the same in all",
                counted(first.processes.len() as u64, "process"),
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
                let written = self.write_thread(runs, (process, thread), ended, writer);
                let written = written.map_err(|error| self.with_cause(error, runs))?;
                incomplete.extend(written.missing.iter().map(|it| format!("process {pid}: {it}")));
                if explain {
                    say!(
                        "backtrail: process {pid} thread {}: {} events, {} blocks",
                        thread + 1,
                        number_list(&written.events),
                        number(writer.steps())
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
    /// behind that, or that it came to what ends the process, or goes on as another program;
    /// and nothing can have been called since then without a word.
    fn has_ended(&self, rebuilt: &Rebuild<'_, Log<'_>>, last: Node) -> bool {
        let icfg = &self.graph.icfg;
        let is_hub = icfg.nodes()[last].role == Role::Hub;
        let is_turn = |node: Node| self.graph.turns.binary_search(&node).is_ok();
        let kinds = || icfg.ways_of(last).map(|way| icfg.ways()[way].kind);
        let is_silent = |routine| self.graph.announced.binary_search(&routine).is_err();
        let is_back = |kind| match kind {
            WayKind::Step(back) => !is_turn(back),
            WayKind::Call { callee, .. } => is_silent(callee),
            _ => false,
        };
        is_hub
            && rebuilt.nodes_since_witness() == Some(1)
            && kinds().any(|kind| kind == WayKind::End)
            && !kinds().any(is_back)
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
            let own = open(Share::Own)?.events;
            let trouble = own.trouble();
            let known = first_and_count(own);
            if let Some(error @ backtrail_trace::Error::Impossible(_)) = trouble.take() {
                return Err(self.explain(error));
            }
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
        // A log that could not go on ends before its run did.
        let is_logged = runs.iter().all(|run| run.processes[process].process.incomplete.is_none());
        let is_whole = is_logged && thread == 0 && process_ended;
        let ending = if is_whole { rebuild::Ending::Whole } else { rebuild::Ending::Cut };
        let troubles: Vec<_> = logs.iter().map(|log| log.events.trouble()).collect();
        let asked: Vec<Rc<Cell<u64>>> = logs.iter().map(|log| Rc::clone(&log.asked)).collect();
        let traces = logs.into_iter().map(|log| (log, ending));
        let mut rebuilt = Rebuild::new(self.tables, root, traces);
        if origin > 0 {
            rebuilt = rebuilt.going_on_at(self.graph.behind);
        }
        // The routine before main is no frame.
        let bottom = if is_fork { u32::MAX } else { 1 + u32::from(origin == 0) };
        // What is inherited is known to be passed when the first of what is not is.
        let is_passed = |(asked, begin): (&Rc<Cell<u64>>, &u64)| asked.get() > begin + 1;
        let is_own = || !is_fork || asked.iter().zip(&begins).any(is_passed);
        let mut origin = None;
        let result = self.copy(&mut rebuilt, is_own, bottom, writer, &mut origin);
        let not_derived = runs.iter().flat_map(|run| &run.not_derived).next();
        let result = result.map_err(|error| match not_derived {
            Some(why) => Diverged(format!("{why}; {error}")).into(),
            None => error,
        });
        for (run, trouble) in troubles.iter().enumerate() {
            if let Some(error) = trouble.take() {
                if let backtrail_trace::Error::LostEvents = error {
                    anyhow::bail!(Diverged(format!("{error}; trace with --strategy log")));
                }
                let path = runs[run].processes[process].record.threads[thread].path.display();
                anyhow::bail!(Unreadable(format!("{path}: {error}")));
            }
        }
        result?;
        if is_fork && !self.is_forked_in_sight(first, origin) {
            let why = "it was forked by code that is not seen: what it did before its first \
                       witness is missing";
            written.missing.push(why.to_owned());
        }
        let ending = match rebuilt.outcome() {
            Some(Outcome::Unknown(node)) if !is_logged || !self.has_ended(&rebuilt, node) => {
                Ending::Unknown(format!("the run was stopped behind {}", self.name(node)))
            }
            _ => Ending::Whole,
        };
        writer.end_thread(ending)?;
        if rebuilt.left_untold() > 0 {
            written.missing.push(format!(
                "{}, a handler of a signal jumped out of what it interrupted: what that did last \
                 is missing; trace with --strategy log",
                counted(rebuilt.left_untold(), "time")
            ));
        }
        Ok(written)
    }

    /// Whether a fork did nothing before its first witness: that is where it returned from
    /// `fork`, or the entry of a function, which `fork` called. Given are the witness, and the
    /// nodes that the first block of its own is reached by.
    fn is_forked_in_sight(&self, first: Option<PlaceKind>, steps: Option<(Node, Node)>) -> bool {
        let icfg = &self.graph.icfg;
        let is_turn = |node: Node| self.graph.turns.binary_search(&node).is_ok();
        let Some(PlaceKind::Node(first)) = first else { return false };
        let leads_to_turn = |before: Node| {
            let mut kinds = icfg.ways_of(before).map(|way| icfg.ways()[way].kind);
            kinds.any(|kind| matches!(kind, WayKind::Step(to) if is_turn(to)))
        };
        let is_entry = icfg.routines()[icfg.nodes()[first].routine].entry == first;
        let from_fork = |(before, node)| node == first && leads_to_turn(before);
        is_turn(first) || (is_entry && steps.is_some_and(from_fork))
    }

    /// Writes what is rebuilt, of a fork from where `is_own` says that it is its own.
    /// Frames are counted from `bottom`, or from the lowest that a fork came back to.
    /// Into `origin` go the first node that is its own and has a block, and the one before.
    fn copy(
        &self,
        rebuilt: &mut Rebuild<'_, Log<'_>>,
        is_own: impl Fn() -> bool,
        mut bottom: u32,
        writer: &mut Writer<WholeFile>,
        origin: &mut Option<(Node, Node)>,
    ) -> anyhow::Result<()> {
        let icfg = &self.graph.icfg;
        // By node: its place, or none; whether a frame begins there; and whether it makes
        // a call behind which witnesses may not follow.
        let nodes: Vec<(u32, bool, bool)> = icfg
            .nodes()
            .iter()
            .map(|(node, data)| match data.role {
                Role::Block(block) => {
                    let place = self.blocks[block as usize].unwrap_or(u32::MAX);
                    let (object, func, at) = self.graph.blocks[block as usize];
                    let is_cause = self.causes.borrow().calls_in((object, func), at);
                    (place, icfg.routines()[data.routine].entry == node, is_cause)
                }
                Role::Piece | Role::Hub => (u32::MAX, false, false),
            })
            .collect();
        // The heights of frames that are there, and that were given up by a call.
        let mut given_up: Vec<usize> = Vec::new();
        let mut before: Option<(Node, usize)> = None;
        while let Some(node) = rebuilt.next() {
            let node = node.map_err(|error| self.explain(error))?;
            let (place, enters, is_cause) = nodes[node.position()];
            if is_cause && let Role::Block(block) = icfg.nodes()[node].role {
                let (object, func, block) = self.graph.blocks[block as usize];
                self.causes.borrow_mut().note((object, func), Some(block));
            }
            let height = rebuilt.depth();
            while given_up.last().is_some_and(|it| *it >= height) {
                given_up.pop();
            }
            if let Some((before, below)) = before
                && below < height
                && self.graph.given_up.binary_search(&before).is_ok()
            {
                given_up.push(below);
            }
            let last = before.replace((node, height));
            if place != u32::MAX && is_own() {
                let depth = (height - given_up.len()) as u32;
                bottom = bottom.min(depth);
                if origin.is_none() {
                    *origin = last.map(|(last, _)| (last, node));
                }
                writer.push(Step { place, depth: depth - bottom + 1, enters })?;
            }
        }
        Ok(())
    }

    /// An error with the calls that runs came to behind which witnesses do not follow, if
    /// it is one that they may be the cause of.
    fn with_cause(&self, error: anyhow::Error, runs: &[RunRecords]) -> anyhow::Error {
        let mut causes = self.causes.borrow_mut();
        if causes.is_empty() || !error.is::<Diverged>() {
            return error;
        }
        let icfg = &self.graph.icfg;
        for (run, records) in runs.iter().enumerate() {
            let places = self.plan.profiles[run].places();
            let note = |event: rebuild::Event| {
                let node = match icfg.place(places[event.witness.position()]) {
                    PlaceKind::Node(node) => node,
                    PlaceKind::Way(way) => icfg.ways()[way].from,
                };
                let function = self.graph.functions[icfg.nodes()[node].routine];
                function.into_iter().for_each(|function| causes.note(function, None));
            };
            // Whatever is wrong with them has been told.
            let _ = records.each_event(&self.meanings[run], note);
        }
        let said = error.to_string();
        let said = said.split(';').next().unwrap_or_default();
        match causes.told(self.program) {
            Some(cause) => Diverged(format!(
                "a trace from witnesses cannot follow this run: {cause} ({said}); trace with \
                 --strategy log, or with --fallback"
            ))
            .into(),
            None => error,
        }
    }

    /// A divergence, with the names of places.
    fn explain(&self, error: backtrail_trace::Error) -> anyhow::Error {
        let divergence = match error {
            backtrail_trace::Error::Diverged(divergence) => divergence,
            backtrail_trace::Error::Impossible(routine) => {
                let entry = self.graph.icfg.routines()[routine].entry;
                let name = self.function_name(entry);
                return Diverged(format!(
                    "{name} ran, which the model of the program holds impossible: something \
                     called it that is not known to; trace with --strategy log"
                ))
                .into();
            }
            error => return error.into(),
        };
        let several = self.plan.profiles.len() > 1;
        let hint = if several {
            "what differs from run to run (time, random numbers, addresses, signals, the order of \
             threads) has to be the same in all runs"
        } else {
            "a signal or code that is not seen did what the program itself does not say; trace \
             with --strategy log"
        };
        Diverged(format!("the runs diverged behind {}; {hint}", self.what_differs(&divergence)))
            .into()
    }

    /// The function that a node is in.
    fn function_name(&self, node: Node) -> String {
        let name = || {
            let (object, func) = self.graph.functions[self.graph.icfg.nodes()[node].routine]?;
            let unit = self.program.unit(object)?;
            Some(demangle(&unit.symbols[unit.functions[func].symbol].name))
        };
        name().unwrap_or_else(|| "the start of the program".to_owned())
    }
}

fn number_list(counts: &[u64]) -> String {
    let counts: Vec<String> = counts.iter().map(|&it| number(it)).collect();
    counts.join(" + ")
}
