//! One exact profile from k copies of a program, each counting a part.
//!
//! Afraz, Saha and Kanade, *P3: Partitioned Path Profiling*, ESEC/FSE 2015. Run
//! on the same input, each copy is slowed less than one that counts everything,
//! and together they give what that one would have counted, exactly.
//!
//! | module | holds |
//! | --- | --- |
//! | [`interest`] | which paths of a function a copy counts, and how they are labelled |
//! | [`program`] | the paths of all functions, calls and frequencies |
//! | [`published`] | the tasks of P3 |
//! | [`adaptive`] | where splitting pays |
//! | [`split`], [`price`] | a function in parts, and what a part costs |
//! | [`search`] | parts of large functions to copies |
//! | [`assignment`] | tasks to copies |
//! | [`coverage`] | the proof that every path is counted somewhere |
//! | [`cost`] | what a plan costs on a run whose profile is known |
//! | [`bound`] | what no plan can do without |
//! | [`copies`] | one profile from what the copies counted |
//!
//! # From a program to its profile
//! ```text
//! let program = ProgramPaths::new(&modules, &choice);        // once per program and weights
//! let partition = Partition::new(&program, Strategy::Adaptive, 4);
//! for copy in 0..partition.copies() {
//!     for module in … {                                      // build the variant of this copy
//!         let planned = plan_copy(&units, &choice, &partition, copy);   // as plan_module
//!     }
//! }
//! // The decoder has the layouts of a variant that counts everything (plan_module).
//! let mut copies = CopyDecoder::new(Decoder::new(name, build_id, &modules_with_layouts));
//! for copy in … {
//!     let number = copies.add_copy(&[(id, &layout), …]);     // one per module, the copy's own
//!     for process in … { copies.add_process(number, forked_by, &counters, origin, incomplete)?; }
//! }
//! let (profile, entries) = copies.finish()?;                 // or Error::Diverged
//! ```
//! `Run::of(&profile)` and `Cost::of(&program, &partition, &run)` say what a
//! plan costs on a run, without running it, and `Bound::new(&program, &run)` what
//! any would; [`Partition::shares`] says who counts what of a function. The same
//! `choice` (limit and weights) goes to [`ProgramPaths::new`], [`plan_copy`] and
//! [`crate::unit_plan::plan_module`]: cuts depend on it.
//!
//! # What holds
//! - Every path of every function that counts is of interest in some copy. This
//!   is proved when the partition is made; a function for which the proof takes
//!   too long is counted whole in one copy.
//! - Entries, and returns from calls that can return twice, are counted by one
//!   of the copies that have part of a function: they are the same in all, and
//!   each would pay for them. That runs agree is seen on the paths they share, and
//!   by the order in which they entered functions ([`backtrail_plan::order`]), which
//!   all note alike.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use backtrail_graph::EdgeSet;
use backtrail_ir::{Func, Unit};
use backtrail_plan::UnitPlan;

pub mod adaptive;
mod alone;
pub mod assignment;
pub mod bound;
mod calls;
pub mod copies;
pub mod cost;
pub mod coverage;
pub mod interest;
pub mod price;
pub mod program;
pub mod published;
pub mod search;
pub mod split;

use crate::unit_plan::{Choice, Order, Share, UnitMeaning, UnitPaths, plan_shares};
use assignment::assign_by_size;
use interest::{Interest, LabelCount, Placing, Selection};
pub use program::{CountedFunction, ProgramPaths};

/// How the work is divided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Strategy {
    /// One copy counts everything; the others nothing.
    Sbl,
    /// Whole functions are spread.
    Pbl,
    /// P3 as published: functions with one call site are split.
    P3,
    /// By frequency, wherever splitting pays.
    Adaptive,
}

impl Strategy {
    /// All of them, simplest first.
    pub const ALL: [Self; 4] = [Self::Sbl, Self::Pbl, Self::P3, Self::Adaptive];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sbl => "sbl",
            Self::Pbl => "pbl",
            Self::P3 => "p3",
            Self::Adaptive => "adaptive",
        }
    }
}

impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Strategy {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|it| it.name() == text);
        found.ok_or_else(|| format!("no strategy '{text}'; there are sbl, pbl, p3 and adaptive"))
    }
}

/// The most copies there may be.
pub const MOST_COPIES: usize = 64;

/// Who counts what.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    strategy: Strategy,
    copies: usize,
    /// By unit id and function; functions that are not listed are counted whole
    /// by the first copy.
    units: BTreeMap<[u8; 16], BTreeMap<Func, Shares>>,
    made_whole: usize,
}

/// Who counts what of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shares {
    /// What each copy counts, if anything.
    pub interests: Vec<Option<Interest>>,
    /// The copy that counts entries.
    pub entries_in: usize,
}

impl Partition {
    /// Divides the work of counting the paths of `program` among `copies`.
    ///
    /// # Panics
    /// If there are none, or more than [`MOST_COPIES`].
    pub fn new(program: &ProgramPaths<'_>, strategy: Strategy, copies: usize) -> Self {
        assert!((1..=MOST_COPIES).contains(&copies), "1 to {MOST_COPIES} copies");
        let shares = match strategy {
            Strategy::Sbl => whole_in(copies, vec![0; program.functions().len()]),
            Strategy::Pbl => {
                let cost = |function: &CountedFunction<'_>| function.probes(&Interest::Whole);
                let costs: Vec<u64> = program.functions().iter().map(cost).collect();
                whole_in(copies, assign_by_size(&costs, copies))
            }
            Strategy::P3 => published::divide(program, copies),
            Strategy::Adaptive => adaptive::divide(program, copies),
        };
        Self::of_shares(program, strategy, copies, shares)
    }

    /// The partition in which the functions of `program` are shared so. One
    /// whose parts are not all of its paths, or cannot be placed, is counted
    /// whole by the copy that counts its entries.
    pub fn of_shares(
        program: &ProgramPaths<'_>,
        strategy: Strategy,
        copies: usize,
        mut shares: Vec<Shares>,
    ) -> Self {
        let mut made_whole = 0;
        for (function, shares) in program.functions().iter().zip(&mut shares) {
            made_whole += usize::from(shares.make_cover(function));
        }
        let mut units: BTreeMap<[u8; 16], BTreeMap<Func, Shares>> = BTreeMap::new();
        for (function, shares) in program.functions().iter().zip(shares) {
            units.entry(function.unit_id).or_default().insert(function.function, shares);
        }
        Self { strategy, copies, units, made_whole }
    }

    /// How the work is divided.
    pub fn strategy(&self) -> Strategy {
        self.strategy
    }

    /// Among how many copies.
    pub fn copies(&self) -> usize {
        self.copies
    }

    /// How many functions are counted whole because their parts could not be
    /// proved to be all of their paths, or could not be placed.
    pub fn made_whole(&self) -> usize {
        self.made_whole
    }

    /// How many labels the parts of functions have in each copy, and how many of
    /// them were moved.
    pub fn labels(&self, program: &ProgramPaths<'_>) -> Vec<LabelCount> {
        let mut counts = vec![LabelCount::default(); self.copies];
        for function in program.functions() {
            let Some(shares) = self.shares(function.unit_id, function.function) else { continue };
            for (count, interest) in counts.iter_mut().zip(&shares.interests) {
                if let Some(Interest::Part(selection)) = interest {
                    let its = selection.label_count(function.plan(), &function.paths.weights);
                    count.labels += its.labels;
                    count.moved += its.moved;
                }
            }
        }
        counts
    }

    /// Who counts what of a function; `None` if it is counted whole by the first
    /// copy, without having been weighed.
    pub fn shares(&self, unit: [u8; 16], function: Func) -> Option<&Shares> {
        self.units.get(&unit)?.get(&function)
    }

    /// What `copy` counts of a function.
    fn share(&self, unit: [u8; 16], function: Func, copy: usize) -> Option<Share<'_>> {
        match self.shares(unit, function) {
            Some(shares) => {
                let interest = shares.interests[copy].as_ref()?;
                Some(Share { interest, entries: shares.entries_in == copy })
            }
            None => (copy == 0).then_some(Share::ALL),
        }
    }
}

/// The plans of one module's units for `copy`, and what their counters mean, as
/// [`crate::unit_plan::plan_module`] gives them for a variant that counts
/// everything. `choice` is the one the partition was made with.
pub fn plan_copy(
    units: &[([u8; 16], &Unit)],
    choice: &Choice<'_>,
    partition: &Partition,
    copy: usize,
) -> Vec<(UnitPlan, UnitMeaning)> {
    let paths: Vec<UnitPaths<'_>> =
        units.iter().map(|(id, unit)| UnitPaths::new(*id, unit, choice)).collect();
    let order = if partition.copies() > 1 { Order::Told } else { Order::Untold };
    let share = |unit: usize, function| partition.share(units[unit].0, function, copy);
    plan_shares(&paths, choice, order, &share)
}

/// Each function whole in the copy given for it.
fn whole_in(copies: usize, homes: Vec<usize>) -> Vec<Shares> {
    homes.into_iter().map(|home| Shares::whole(copies, home)).collect()
}

impl Shares {
    /// One copy counts everything.
    pub fn whole(copies: usize, home: usize) -> Self {
        let mut interests = vec![None; copies];
        interests[home] = Some(Interest::Whole);
        Self { interests, entries_in: home }
    }

    /// Each copy counts the paths made of its set of edges, nothing if that is
    /// empty. The first copy that has a part counts entries.
    pub fn of_edges(function: &CountedFunction<'_>, sets: &[EdgeSet], placing: Placing) -> Self {
        let interest = |edges: &EdgeSet| {
            if edges.is_all() {
                return Some(Interest::Whole);
            }
            let selection = Selection::new(function.plan(), edges, placing);
            (!selection.edges().is_empty()).then_some(Interest::Part(selection))
        };
        let interests: Vec<Option<Interest>> = sets.iter().map(interest).collect();
        let entries_in = interests.iter().position(Option::is_some).unwrap_or(0);
        Self { interests, entries_in }
    }

    /// Sees to it that every path is counted somewhere; whether that had to be
    /// done by counting the function whole in one copy.
    fn make_cover(&mut self, function: &CountedFunction<'_>) -> bool {
        let interests: Vec<Option<&Interest>> = self.interests.iter().map(Option::as_ref).collect();
        let can_be_placed = |interest: &Interest| {
            *interest == Interest::Whole
                || function.plan().increments_of(interest, &function.paths.weights).is_ok()
        };
        if coverage::covers_every_path(function.dag(), &interests) == Some(true)
            && interests.iter().flatten().all(|it| can_be_placed(it))
        {
            return false;
        }
        let home = self.entries_in;
        self.interests.fill(None);
        self.interests[home] = Some(Interest::Whole);
        true
    }
}
