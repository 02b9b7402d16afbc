//! One profile from what the copies of a run counted.
//!
//! A path is exact in every copy in which it is of interest. Where several count
//! it they must agree, process by process; if they do not, the runs were not
//! the same, and there is no profile. The result is what a variant that counts
//! everything would have given, to the last count.
//!
//! Processes of a run are matched by their order: the copies must have the same
//! number of them.

use std::collections::BTreeMap;

use backtrail_plan::counters::Layout;

use crate::Error;
use crate::decode::{Counters, Decoder, FunctionCounters, Tally};
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
}

/// What one copy counted.
struct CopyCounts {
    /// Its modules: identifier and size.
    modules: Vec<([u8; 16], u64)>,
    /// By function, what it counts.
    functions: Vec<Option<Counted>>,
    processes: Vec<(Tally, Option<String>)>,
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
        Self { whole, copies: Vec::new(), calls: None }
    }

    /// Says that the run was of one thread and ended by itself: if it was of one
    /// process, too, calls in one copy's counts must fit to entries in another's.
    pub fn expect_calls_to_fit(&mut self) {
        self.calls = Some(Calls::new(self.whole.skeleton()));
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

    /// Adds what the next process of a copy counted. `incomplete` says why some
    /// of it may be missing, if it may.
    ///
    /// # Panics
    /// If there is no such copy.
    pub fn add_process(
        &mut self,
        copy: usize,
        files: &[Counters<'_>],
        incomplete: Option<String>,
    ) -> Result<(), Error> {
        let counts = &self.copies[copy];
        let mut tally = self.whole.new_tally();
        for file in files {
            let module = self.whole.module_of(&counts.modules, file)?;
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
        self.copies[copy].processes.push((tally, incomplete));
        Ok(())
    }

    /// The profile.
    pub fn finish(mut self) -> Result<Profile, Error> {
        let numbers: Vec<usize> = self.copies.iter().map(|copy| copy.processes.len()).collect();
        let processes = numbers.first().copied().unwrap_or(0);
        if let Some(other) = numbers.iter().position(|&it| it != processes) {
            let what = format!(
                "copy 1 had {processes} processes, copy {} had {}",
                other + 1,
                numbers[other]
            );
            return Err(Error::Diverged { what });
        }
        for process in 0..processes {
            let tally = self.merge_process(process)?;
            let mut reasons: Vec<String> =
                self.copies.iter().filter_map(|it| it.processes[process].1.clone()).collect();
            let last = reasons.pop();
            self.whole.add_tally(tally, last)?;
            self.whole.add_reasons(reasons);
        }
        let profile = self.whole.finish()?;
        if let Some(calls) = self.calls.filter(|_| processes == 1) {
            calls.check(&profile)?;
        }
        Ok(profile)
    }

    /// What a variant that counts everything would have counted in a process.
    fn merge_process(&self, process: usize) -> Result<Tally, Error> {
        let mut merged = self.whole.new_tally();
        for number in 0..merged.paths.len() {
            // The copies that count something of the function, by number.
            let counting: Vec<(usize, &Counted, &Tally)> = self
                .copies
                .iter()
                .enumerate()
                .filter_map(|(copy, it)| {
                    Some((copy, it.functions[number].as_ref()?, &it.processes[process].0))
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
