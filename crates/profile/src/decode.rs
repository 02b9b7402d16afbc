//! From counters to a profile.
//!
//! A process's counters are those of all copies of its modules' areas, added up.
//! What follows from them, function by function, is said for each process before
//! processes are added: how many activations ended early, and how many came over
//! a fork. With `ends` for the paths that leave the function or end before a
//! call that does not return,
//!
//! - `inherited` is what `ends` exceeds `entries` by: activations that were
//!   begun by the parent and ended here. Counters do not know of more, which ended
//!   nowhere or are outweighed by others that did not end; a log does;
//! - `unfinished` is `entries + inherited − ends`.
//!
//! Counts of edges are exact unless a path was lost or split: something was
//! unfinished or inherited, more paths began within the function than ended
//! there, or a call returned more often than paths that begin there have ended
//! (it returned twice, and the path in between was lost). Nor are those of counters
//! if a process forked with the function under way, or may have
//! ([`under_way_at_forks`]): then neither `inherited` nor `unfinished` is, as
//! [`Inexact`](crate::model::Inexact) says.

use std::collections::{BTreeMap, BTreeSet};

use backtrail_analysis::{Body, CallTargets, Externals, reachable, under_way_at_forks};

use crate::Error;
use crate::evidence::Evidence;
use crate::known::{join_known, known_from_partial};
use crate::model::{End, PartialPath, Path, Profile, Start};
use crate::path_plan::DecodedPath;
use crate::skeleton::{Module, Skeleton, Source};
use crate::unit_plan::FunctionMeaning;

/// Adds records of processes up to a profile.
pub struct Decoder<'a> {
    skeleton: Skeleton<'a>,
    modules: Vec<([u8; 16], u64)>,
    totals: Vec<BTreeMap<u64, u64>>,
    /// Whether what a process inherited is in no count of it.
    has_heirs: bool,
    /// Whether the parent of a process is not among the processes.
    has_orphans: bool,
}

/// How a process began.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Origin {
    /// As a program that was started.
    #[default]
    Started,
    /// As the child of a process whose record is added, too.
    Forked,
    /// As the child of another one.
    Orphaned,
}

/// What one process counted of each function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tally {
    /// How it began.
    pub(crate) origin: Origin,
    /// Activations that it inherited, where all are known.
    pub(crate) inherited: Option<Vec<u64>>,
    /// Entries, where they are counted.
    pub(crate) entries: Vec<Option<u64>>,
    /// Returns from calls that can return twice, where there are some.
    pub(crate) returns: Vec<u64>,
    /// Paths by number.
    pub(crate) paths: Vec<BTreeMap<u64, u64>>,
}

impl Tally {
    /// Whether a function ran.
    pub(crate) fn ran(&self, number: usize) -> bool {
        self.entries[number].is_some_and(|it| it > 0) || !self.paths[number].is_empty()
    }
}

/// One file of counters.
pub struct Counters<'a> {
    /// Identifies the layout.
    pub layout: [u8; 16],
    /// The area, from its start; the first page holds no counters.
    pub area: &'a [u8],
}

/// The counters of one function in an area.
pub(crate) struct FunctionCounters<'f> {
    pub(crate) area: &'f [u8],
    /// Where its unit's counters begin.
    pub(crate) offset: u64,
    pub(crate) meaning: &'f FunctionMeaning,
}

impl FunctionCounters<'_> {
    fn read(&self, counter: u32) -> Result<u64, Error> {
        let found = || {
            let start = self.offset.checked_add(u64::from(counter) * 8)?;
            let bytes = self.area.get(usize::try_from(start).ok()?..)?.first_chunk()?;
            Some(u64::from_le_bytes(*bytes))
        };
        let corrupt = || Error::Corrupt { what: "a counter is outside of the area".to_owned() };
        found().ok_or_else(corrupt)
    }

    /// Adds them to those of function `number`. `path` says which path the
    /// n-th of them counts; what counts none is passed over.
    pub(crate) fn add_to(
        &self,
        tally: &mut Tally,
        number: usize,
        name: &str,
        path: impl Fn(u64) -> Option<u64>,
    ) -> Result<(), Error> {
        let overflow = || Error::Overflow { what: name.to_owned() };
        if let Some(counter) = self.meaning.entries {
            let sum = tally.entries[number].get_or_insert(0);
            *sum = sum.checked_add(self.read(counter)?).ok_or_else(overflow)?;
        }
        if let Some(counter) = self.meaning.returns {
            let sum = &mut tally.returns[number];
            *sum = sum.checked_add(self.read(counter)?).ok_or_else(overflow)?;
        }
        for counter in 0..self.meaning.paths {
            let found = self.read(self.meaning.first.saturating_add(counter))?;
            if found != 0
                && let Some(path) = path(counter.into())
            {
                let sum = tally.paths[number].entry(path).or_default();
                *sum = sum.checked_add(found).ok_or_else(overflow)?;
            }
        }
        Ok(())
    }
}

impl<'a> Decoder<'a> {
    /// A decoder for the records of a program made of these modules.
    pub fn new(program: &str, build_id: &str, modules: &[Module<'a>]) -> Self {
        let skeleton = Skeleton::new(program, build_id, modules);
        let totals = vec![BTreeMap::new(); skeleton.sources.len()];
        let modules = modules.iter().map(|module| (module.id, module.layout.bytes)).collect();
        Self { skeleton, modules, totals, has_heirs: false, has_orphans: false }
    }

    pub(crate) fn skeleton(&self) -> &Skeleton<'a> {
        &self.skeleton
    }

    pub(crate) fn new_tally(&self) -> Tally {
        let count = self.skeleton.sources.len();
        let paths = vec![BTreeMap::new(); count];
        let (origin, inherited) = (Origin::Started, None);
        Tally { origin, inherited, entries: vec![None; count], returns: vec![0; count], paths }
    }

    /// Adds what one process counted that began so. `incomplete` says why some of it
    /// may be missing, if it may.
    pub fn add_process(
        &mut self,
        files: &[Counters<'_>],
        origin: Origin,
        incomplete: Option<String>,
    ) -> Result<(), Error> {
        let mut tally = self.new_tally();
        tally.origin = origin;
        for file in files {
            let module = self.module_of(&self.modules, file)?;
            self.add_file(&mut tally, module, file.area)?;
        }
        self.add_tally(tally, incomplete)
    }

    /// The module whose counters `file` holds, by its place in `modules`.
    pub(crate) fn module_of(
        &self,
        modules: &[([u8; 16], u64)],
        file: &Counters<'_>,
    ) -> Result<usize, Error> {
        let module = modules.iter().position(|(id, _)| *id == file.layout);
        let module = module.ok_or_else(|| Error::OtherBuild {
            ours: crate::merge::title(&self.skeleton.profile),
            theirs: "the one that recorded".to_owned(),
        })?;
        let (found, expected) = (file.area.len() as u64, modules[module].1);
        if found != expected {
            return Err(Error::Truncated { found, expected });
        }
        Ok(module)
    }

    fn add_file(&self, tally: &mut Tally, module: usize, area: &[u8]) -> Result<(), Error> {
        for (number, source) in self.skeleton.sources.iter().enumerate() {
            let Some((at, offset, meaning)) = &source.counters else { continue };
            if *at == module {
                let counters = FunctionCounters { area, offset: *offset, meaning };
                counters.add_to(tally, number, &self.name(number), Some)?;
            }
        }
        Ok(())
    }

    pub(crate) fn name(&self, number: usize) -> String {
        self.skeleton.profile.functions[number].name.clone()
    }

    /// Adds what one process counted, function by function.
    pub(crate) fn add_tally(
        &mut self,
        tally: Tally,
        incomplete: Option<String>,
    ) -> Result<(), Error> {
        self.has_heirs |= tally.origin != Origin::Started && tally.inherited.is_none();
        self.has_orphans |= tally.origin == Origin::Orphaned;
        for (number, (entries, paths)) in tally.entries.iter().zip(&tally.paths).enumerate() {
            let known = tally.inherited.as_ref().map(|it| it[number]);
            if paths.is_empty() && entries.is_none_or(|it| it == 0) && known.unwrap_or(0) == 0 {
                continue;
            }
            let name = self.name(number);
            let overflow = || Error::Overflow { what: name.clone() };
            let plan = self.skeleton.sources[number].plan();
            let (mut entered, mut ends, mut begun, mut cut) = (0u64, 0u64, 0u64, 0u64);
            let mut returned = 0u64;
            for (&path, &count) in paths {
                let decoded = plan.and_then(|plan| plan.decode(path));
                let DecodedPath { starts, ends: end, .. } = decoded
                    .ok_or_else(|| Error::Corrupt { what: format!("{name} has no path {path}") })?;
                let add = |sum: &mut u64| {
                    *sum = sum.checked_add(count).ok_or_else(overflow)?;
                    Ok::<(), Error>(())
                };
                add(if starts == Start::Entry { &mut entered } else { &mut begun })?;
                if starts == Start::ReturnTwice {
                    add(&mut returned)?;
                }
                add(if matches!(end, End::Exit | End::Call) { &mut ends } else { &mut cut })?;
                add(self.totals[number].entry(path).or_default())?;
            }
            // A log counts all of them.
            let entries = entries.unwrap_or(if known.is_some() { 0 } else { entered });
            // More may end than a damaged log knows to be there.
            let inherited = ends.saturating_sub(entries).max(known.unwrap_or(0));
            let started = entries.checked_add(inherited).ok_or_else(overflow)?;
            let unfinished = started - ends;
            let function = &mut self.skeleton.profile.functions[number];
            for (sum, more) in [
                (&mut function.entries, entries),
                (&mut function.inherited, inherited),
                (&mut function.unfinished, unfinished),
            ] {
                *sum = sum.checked_add(more).ok_or_else(overflow)?;
            }
            let is_lost = begun != cut || returned != tally.returns[number];
            function.edges_exact &= unfinished == 0 && inherited == 0 && !is_lost;
        }
        self.skeleton.profile.processes += 1;
        self.skeleton.profile.incomplete.extend(incomplete);
        Ok(())
    }

    /// Further reasons why counts may be missing.
    pub(crate) fn add_reasons(&mut self, reasons: Vec<String>) {
        self.skeleton.profile.incomplete.extend(reasons);
    }

    /// What the plan rests on is that nothing runs which nobody can call. If something
    /// did, of what is said to have run: what that was.
    pub(crate) fn impossible(&self, ran: impl Fn(usize) -> bool) -> Option<String> {
        let targets = CallTargets::new(&self.skeleton.program);
        let reached = reachable(&targets);
        let is_wrong = |(place, source): &(usize, &Source<'_>)| {
            let body = targets.body(source.object, source.function);
            ran(*place) && body.is_some_and(|body| !reached[body])
        };
        let sources = self.skeleton.sources.iter().enumerate();
        let mut wrong = sources.filter(is_wrong).map(|(place, _)| place);
        let first = wrong.next()?;
        let others = match wrong.count() {
            0 => String::new(),
            1 => " and another function".to_owned(),
            more => format!(" and {more} others"),
        };
        Some(format!(
            "{}{others} ran, which the model of the program holds impossible: something called it \
             that is not known to",
            self.name(first)
        ))
    }

    fn check_model(&mut self) {
        let functions = &self.skeleton.profile.functions;
        let ran = |place: usize| functions[place].entries > 0 || !functions[place].paths.is_empty();
        let why = self.impossible(ran).map(|what| format!("{what}, and counts may be missing"));
        self.skeleton.profile.incomplete.extend(why);
    }

    /// Says of the functions in which a fork's child may have been that their counts are
    /// not exact; by function, whether it is one.
    fn label_heirs(&mut self) -> Vec<bool> {
        let mut may_inherit = vec![false; self.skeleton.sources.len()];
        if !self.has_heirs {
            return may_inherit;
        }
        let targets = CallTargets::new(&self.skeleton.program);
        let externals = Externals::new(&self.skeleton.program, &targets);
        let body_of = |source: &Source<'_>| targets.body(source.object, source.function);
        let bodies: Vec<_> = self.skeleton.sources.iter().map(body_of).collect();
        let functions = &mut self.skeleton.profile.functions;
        let did_not_run: BTreeSet<Body> = (bodies.iter().zip(functions.iter()))
            .filter(|(_, it)| it.is_instrumented() && it.entries == 0 && it.paths.is_empty())
            .filter_map(|(body, _)| *body)
            .collect();
        let ran = |body: Body| self.has_orphans || !did_not_run.contains(&body);
        let found = under_way_at_forks(&self.skeleton.program, &targets, &externals, ran);
        for (number, body) in bodies.into_iter().enumerate() {
            let function = &mut functions[number];
            if function.is_instrumented() && body.is_some_and(|body| found[body]) {
                function.edges_exact = false;
                may_inherit[number] = true;
            }
        }
        may_inherit
    }

    /// The profile.
    pub fn finish(mut self) -> Result<Profile, Error> {
        self.add_paths();
        self.check_model();
        let may_inherit = self.label_heirs();
        let (skeleton, has_orphans) = (&self.skeleton, self.has_orphans);
        let evidence = Evidence { skeleton, may_inherit: &may_inherit, has_orphans };
        self.skeleton.profile.inexact = evidence.work_out();
        Ok(self.tidied())
    }

    /// The profile of a log, which knows these paths that were left.
    pub(crate) fn finish_log(mut self, partial: Vec<PartialPath>) -> Result<Profile, Error> {
        self.add_paths();
        self.check_model();
        let (skeleton, has_orphans) = (&self.skeleton, self.has_orphans);
        let may_inherit = vec![false; skeleton.sources.len()];
        let evidence = Evidence { skeleton, may_inherit: &may_inherit, has_orphans };
        let functions = &skeleton.profile.functions;
        let left = known_from_partial(&skeleton.sources, functions, &partial);
        let inexact = join_known(left, evidence.work_out());
        self.skeleton.profile.inexact = inexact;
        self.skeleton.profile.partial = partial;
        Ok(self.tidied())
    }

    fn tidied(mut self) -> Profile {
        self.skeleton.profile.incomplete.sort();
        self.skeleton.profile.incomplete.dedup();
        self.skeleton.profile
    }

    fn add_paths(&mut self) {
        for (number, paths) in self.totals.iter().enumerate() {
            let plan = self.skeleton.sources[number].plan();
            for (&id, &count) in paths {
                let Some(path) = plan.and_then(|plan| plan.decode(id)) else { continue };
                let DecodedPath { starts, ends, blocks } = path;
                let path = Path { id, count, starts, ends, blocks };
                self.skeleton.profile.functions[number].paths.push(path);
            }
        }
    }
}
