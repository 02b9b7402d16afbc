//! One profile from what the copies of a run counted.
//!
//! A path is exact in every copy in which it is of interest. Where several count
//! it they must agree, process by process; if they do not, the runs were not
//! the same, and there is no profile. The result is what a variant that counts
//! everything would have given, to the last count.
//!
//! Processes of a run are matched by their place in the tree of forks. Which of those that
//! one process forked is which, is told by the order in which they, and those that they
//! forked, entered functions ([`backtrail_plan::order`]); and by who was first, if the
//! copies do not have the same there. They must have the same number of processes.
//!
//! The order of entries is also what shows that copies did the same where no two of them
//! count. If there was one thread and no handler of a signal ran, copies that entered
//! functions in another order are different runs. Threads and handlers can take turns in
//! another way in each run, and counts may still be the same in all: then it is said that
//! the orders differ.

use std::collections::BTreeMap;

use backtrail_abi::counts::ORDER_OFFSET;
use backtrail_analysis::{CallTargets, Externals};
use backtrail_outside::Class;
use backtrail_plan::counters::Layout;
use backtrail_plan::order::{Entries, ProcessEntries};

use crate::Error;
use crate::decode::{Counters, Decoder, FunctionCounters, Origin, Tally};
use crate::model::Profile;
use crate::partition::calls::Calls;
use crate::partition::interest::PartDecoder;
use crate::unit_plan::{FunctionMeaning, UnitMeaning};

/// Puts the counts of copies together.
pub struct CopyDecoder<'a> {
    /// Knows what a variant that counts everything would have counted.
    whole: Decoder<'a>,
    copies: Vec<CopyCounts>,
    /// The calls that must fit to entries, if they must.
    calls: Option<Calls>,
    /// The functions that may be handlers of signals, by place, if nothing but those can
    /// take turns in another way in each run.
    handlers: Option<Vec<usize>>,
}

/// What one copy counted.
struct CopyCounts {
    /// Its modules: identifier and size.
    modules: Vec<([u8; 16], u64)>,
    /// By function, what it counts.
    functions: Vec<Option<Counted>>,
    processes: Vec<ProcessCounts>,
}

/// What a process of a copy counted.
struct ProcessCounts {
    tally: Tally,
    incomplete: Option<String>,
    entries: ProcessEntries,
}

/// What a copy counts of a function.
struct Counted {
    module: usize,
    offset: u64,
    meaning: FunctionMeaning,
    /// For a part of its paths.
    part: Option<PartDecoder>,
}

/// Where a unit's counters begin, and what they count by function.
type UnitCounters = (u64, BTreeMap<u32, FunctionMeaning>);

impl<'a> CopyDecoder<'a> {
    /// Puts counts together to what `whole` would decode: it has the modules
    /// and layouts of a variant that counts everything.
    pub fn new(whole: Decoder<'a>) -> Self {
        Self { whole, copies: Vec::new(), calls: None, handlers: None }
    }

    /// Says that the run was of one thread and ended by itself: if it was of one
    /// process, too, calls in one copy's counts must fit to entries in another's; and if
    /// no handler of a signal ran, functions must have been entered in the same order.
    pub fn expect_one_thread(&mut self) {
        let skeleton = self.whole.skeleton();
        let targets = CallTargets::new(&skeleton.program);
        let handlers = Externals::new(&skeleton.program, &targets).hooks(Class::Signal);
        let handles = |&place: &usize| {
            let source = &skeleton.sources[place];
            let body = targets.body(source.object, source.function);
            body.is_some_and(|body| handlers.contains(&body))
        };
        self.handlers = Some((0..skeleton.sources.len()).filter(handles).collect());
        self.calls = Some(Calls::new(skeleton));
    }

    /// Whether all that ran did so in an order that the program gave.
    fn is_sequential(&self) -> bool {
        let tallies = || self.copies.iter().flat_map(|copy| &copy.processes).map(|it| &it.tally);
        // What is not counted may have run.
        let may_have_run = |&place: &usize| {
            let is_counted = self.whole.skeleton().sources[place].counters.is_some();
            !is_counted || tallies().any(|tally| tally.ran(place))
        };
        self.handlers.as_ref().is_some_and(|handlers| !handlers.iter().any(may_have_run))
    }

    /// Adds a copy: the layouts of its modules, with their identifiers, in the
    /// order of the decoder's modules. Returns its number, from 0.
    pub fn add_copy(&mut self, modules: &[([u8; 16], &Layout)]) -> Result<usize, Error> {
        let mut meanings: BTreeMap<(usize, [u8; 16]), UnitCounters> = BTreeMap::new();
        for (number, (_, layout)) in modules.iter().enumerate() {
            for unit in &layout.units {
                let meaning = UnitMeaning::from_bytes(&unit.meaning).ok_or_else(|| {
                    let what = "what the counters of a unit mean cannot be read".to_owned();
                    Error::Corrupt { what }
                })?;
                let functions = meaning.functions.into_iter().map(|it| (it.function, it));
                meanings.insert((number, unit.unit), (unit.offset, functions.collect()));
            }
        }
        let mut functions = Vec::new();
        for (number, source) in self.whole.skeleton().sources.iter().enumerate() {
            let Some((module, _, whole)) = &source.counters else {
                functions.push(None);
                continue;
            };
            let unit = meanings.get_mut(&(*module, source.unit_id.0));
            let found = unit.and_then(|(offset, it)| Some((*offset, it.remove(&whole.function)?)));
            let Some((offset, meaning)) = found else {
                functions.push(None);
                continue;
            };
            if meaning.cuts != whole.cuts {
                let name = self.whole.name(number);
                let what = format!("the paths of {name} are cut elsewhere in a copy");
                return Err(Error::Invalid { what });
            }
            let plan = source.plan();
            let part = meaning.part.as_ref().zip(plan).map(|(part, plan)| part.decoder(plan));
            functions.push(Some(Counted { module: *module, offset, meaning, part }));
        }
        let modules = modules.iter().map(|(id, layout)| (*id, layout.bytes)).collect();
        self.copies.push(CopyCounts { modules, functions, processes: Vec::new() });
        Ok(self.copies.len() - 1)
    }

    /// Adds what the next process of a copy counted, which began so and was forked by the
    /// one with this number before it. `incomplete` says why some of it may be missing, if
    /// it may.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn add_process(
        &mut self,
        copy: usize,
        forked_by: Option<usize>,
        files: &[Counters<'_>],
        origin: Origin,
        incomplete: Option<String>,
    ) -> Result<(), Error> {
        let counts = &self.copies[copy];
        let mut tally = self.whole.new_tally();
        tally.origin = origin;
        let mut entered = Vec::new();
        for file in files {
            let module = self.whole.module_of(&counts.modules, file)?;
            entered.push((module, order_in(file.area)?));
            for (number, counted) in counts.functions.iter().enumerate() {
                let Some(counted) = counted.as_ref().filter(|it| it.module == module) else {
                    continue;
                };
                let Counted { offset, meaning, part, .. } = counted;
                let counters = FunctionCounters { area: file.area, offset: *offset, meaning };
                let plan = self.whole.skeleton().sources[number].plan();
                let path = |counter: u64| match (part, plan) {
                    (Some(part), Some(plan)) => part.number(plan, counter),
                    _ => Some(counter),
                };
                counters.add_to(&mut tally, number, &self.whole.name(number), path)?;
            }
        }
        let entries = ProcessEntries { forked_by, entered };
        self.copies[copy].processes.push(ProcessCounts { tally, incomplete, entries });
        Ok(())
    }

    /// The profile.
    ///
    /// Where something ran that the model of the program holds impossible, counts that do
    /// not fit are no sign that the copies did not run alike.
    pub fn finish(self) -> Result<(Profile, Entries), Error> {
        self.check_processes()?;
        let impossible = self.impossible();
        self.merge().map_err(|error| match (error, impossible) {
            (Error::Diverged { .. }, Some(what)) => Error::Impossible { what },
            (error, _) => error,
        })
    }

    /// What ran in some copy although nothing is known to call it.
    fn impossible(&self) -> Option<String> {
        let tallies = self.copies.iter().flat_map(|copy| &copy.processes);
        self.whole.impossible(|number| tallies.clone().any(|it| it.tally.ran(number)))
    }

    /// Copies that run alike have as many processes.
    fn check_processes(&self) -> Result<(), Error> {
        let numbers: Vec<usize> = self.copies.iter().map(|copy| copy.processes.len()).collect();
        let Some(other) = numbers.iter().position(|&it| it != numbers[0]) else { return Ok(()) };
        let what = format!(
            "copy 1 had {} processes, copy {} had {}",
            numbers[0],
            other + 1,
            numbers[other]
        );
        Err(Error::Diverged { what })
    }

    /// Compares the orders of entries, and puts the processes of all copies into the same
    /// order, if they entered functions in the same way.
    fn match_processes(&mut self) -> Entries {
        let of = |copy: &CopyCounts| copy.processes.iter().map(|it| it.entries.clone()).collect();
        let runs: Vec<Vec<ProcessEntries>> = self.copies.iter().map(of).collect();
        let entries = Entries::of(&runs);
        if let Entries::Alike(orders) = &entries {
            for (copy, order) in self.copies.iter_mut().zip(orders) {
                let mut waiting: Vec<Option<ProcessCounts>> =
                    std::mem::take(&mut copy.processes).into_iter().map(Some).collect();
                copy.processes = order.iter().filter_map(|&it| waiting[it].take()).collect();
            }
        }
        entries
    }

    fn merge(mut self) -> Result<(Profile, Entries), Error> {
        let processes = self.copies.first().map_or(0, |copy| copy.processes.len());
        let entries = self.match_processes();
        let is_sequential = self.is_sequential();
        for process in 0..processes {
            let tally = self.merge_process(process)?;
            let all = self.copies.iter().map(|it| &it.processes[process]);
            let mut reasons: Vec<String> = all.filter_map(|it| it.incomplete.clone()).collect();
            let last = reasons.pop();
            self.whole.add_tally(tally, last)?;
            self.whole.add_reasons(reasons);
        }
        let profile = self.whole.finish()?;
        if let Some(calls) = self.calls.filter(|_| processes == 1) {
            calls.check(&profile)?;
        }
        // Where something is missing, two threads may have shared counters.
        let is_whole = profile.incomplete.is_empty();
        match entries {
            Entries::Differ { run } if is_sequential && is_whole => {
                let what = format!(
                    "copies 1 and {} did not enter functions in the same order, or not as often",
                    run + 1
                );
                Err(Error::Diverged { what })
            }
            _ => Ok((profile, entries)),
        }
    }

    /// What a variant that counts everything would have counted in a process.
    fn merge_process(&self, process: usize) -> Result<Tally, Error> {
        let mut merged = self.whole.new_tally();
        if let Some(first) = self.copies.first() {
            merged.origin = first.processes[process].tally.origin;
        }
        for number in 0..merged.paths.len() {
            // The copies that count something of the function, by number.
            let counting: Vec<(usize, &Counted, &Tally)> = self
                .copies
                .iter()
                .enumerate()
                .filter_map(|(copy, it)| {
                    Some((copy, it.functions[number].as_ref()?, &it.processes[process].tally))
                })
                .collect();
            for (_, _, tally) in &counting {
                merged.returns[number] = merged.returns[number].max(tally.returns[number]);
                merged.entries[number] = merged.entries[number].max(tally.entries[number]);
            }
            for (_, _, tally) in &counting {
                for &path in tally.paths[number].keys() {
                    if !merged.paths[number].contains_key(&path) {
                        let count = self.agreed(number, path, &counting)?;
                        merged.paths[number].insert(path, count);
                    }
                }
            }
        }
        Ok(merged)
    }

    /// How often a path was taken, if the copies that count it agree.
    fn agreed(
        &self,
        number: usize,
        path: u64,
        counting: &[(usize, &Counted, &Tally)],
    ) -> Result<u64, Error> {
        let plan = self.whole.skeleton().sources[number].plan();
        let mut known: Option<(usize, u64)> = None;
        for (copy, counted, tally) in counting {
            let is_counted = match (&counted.part, plan) {
                (Some(part), Some(plan)) => part.counts(plan, path),
                _ => true,
            };
            if !is_counted {
                continue;
            }
            let count = tally.paths[number].get(&path).copied().unwrap_or(0);
            let (first, agreed) = *known.get_or_insert((*copy, count));
            if agreed != count {
                let name = self.whole.name(number);
                let blocks = plan.and_then(|plan| plan.decode(path)).map(|it| it.blocks);
                let blocks: Vec<String> =
                    blocks.unwrap_or_default().iter().map(|block| format!("b{block}")).collect();
                let what = format!(
                    "copy {} took path {path} of {name} ({}) {agreed} times, copy {} {count} times",
                    first + 1,
                    blocks.join(" "),
                    copy + 1,
                );
                return Err(Error::Diverged { what });
            }
        }
        Ok(known.map_or(0, |(_, count)| count))
    }
}

/// The number that says in which order functions were entered, of an area.
fn order_in(area: &[u8]) -> Result<u64, Error> {
    let found = area.get(ORDER_OFFSET as usize..).and_then(|it| it.first_chunk());
    let missing = || Error::Corrupt { what: "an area has no order of entries".to_owned() };
    found.map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(missing)
}
