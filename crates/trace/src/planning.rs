//! Distributing witnesses over runs.
//!
//! The cost of a run is how often its witnesses are passed; the cost of a plan is
//! that of its worst run. To find the cheapest plan is NP-complete, so this is
//! greedy: pairs of ways that have to be told apart are the work, grouped into
//! *jobs* by the [`Strategy`]; each job, heaviest first, goes to the run where it
//! adds least to the sum of the squares of all loads, and the witnesses that run needs in addition are
//! computed from those it has (`separation`). With a limit of witnesses
//! per profile, a run is several profiles, each of them an execution of its own.
//!
//! Where an execution was counted, what it never passes is observed in every run, which
//! costs nothing. Programs of which more is passed than can be looked at pair by pair
//! are distributed by routine, by what spanning trees say of each (`witness_tree`).
//!
//! Then the plan is verified with first witnesses computed anew, and where two
//! ways are still alike, repaired. At last witnesses that are not needed are
//! taken out, the most expensive first, as far as [`Options::trials`] allows.
//! What is returned has been verified.
//!
//! Where this departs from the source ([`crate::first_witness`]): it makes jobs
//! of diamonds and cycles. Those can be exponentially many. A pair of ways of a
//! predicate stands for all diamonds that fork there into these two and all
//! cycles through them, and the condition on paths is about pairs anyway.

use std::sync::Arc;

use backtrail_graph::{Components, Digraph, Index};
use fixedbitset::FixedBitSet;

use crate::Error;
use crate::distribution::{Costs, Profile};
use crate::icfg::{Icfg, Node, Place, Role, Routine, Way, WayKind};
use crate::realizability::{Analysis, Conflict, Trial, pairs};
use crate::separation::{Draft, Scratch, separate, witnesses_of_ways};
use crate::witness_tree;

/// What is kept in one run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Strategy {
    /// Each pair of ways for itself.
    Fine,
    /// All of a routine.
    Function,
    /// What is likely to share witnesses: predicates of a common cycle, or next to
    /// each other.
    Grouped,
}

impl Strategy {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Fine, Self::Function, Self::Grouped];
}

/// Which rule gives the first draft of a single run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Witnesses are edges: probes.
    Edges,
    /// Witnesses are nodes: breakpoints.
    Nodes,
}

impl Kind {
    /// The rule for what can be observed.
    fn of(icfg: &Icfg, costs: &Costs) -> Self {
        let is_edge = |way: Way| {
            let data = icfg.ways()[way];
            let is_block = |node: Node| matches!(icfg.nodes()[node].role, Role::Block(_));
            matches!(data.kind, WayKind::Step(to) if is_block(to) && is_block(data.from))
                && costs.is_observable(icfg.place_of_way(way))
        };
        if icfg.ways().indices().any(is_edge) { Self::Edges } else { Self::Nodes }
    }

    /// The first draft of a routine.
    fn witnesses_of(self, icfg: &Icfg, costs: &Costs, routine: Routine) -> Vec<Place> {
        match self {
            Kind::Edges => witness_tree::edge_witnesses_of(icfg, costs, routine),
            Kind::Nodes => witness_tree::node_witnesses_of(icfg, costs, routine),
        }
    }
}

/// How to distribute.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Over how many runs.
    pub runs: usize,
    /// What is kept together.
    pub strategy: Strategy,
    /// The most witnesses of a profile, those not counted that every profile has.
    pub limit: Option<usize>,
    /// How many witnesses may be tried to be taken out at the end, of those that are
    /// not plainly needed. Each costs as much as computing first witnesses.
    pub trials: usize,
}

/// More executions than this are not planned.
const MOST_PROFILES: usize = 2_000;

/// With a limit, more pairs of ways than this are not planned: memory does not hold them.
const MOST_PAIRS: u64 = 1 << 24;

/// With a limit: how many of the newest profiles that have room a job may go to.
const OPEN_PROFILES: usize = 8;

/// A distribution over runs, verified.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The profiles.
    pub profiles: Vec<Profile>,
    /// By profile: the run it belongs to.
    pub runs: Vec<usize>,
}

impl Plan {
    /// What each run costs.
    pub fn run_costs(&self, costs: &Costs) -> Vec<u64> {
        let count = self.runs.iter().max().map_or(0, |last| last + 1);
        let mut loads = vec![0; count];
        for (profile, &run) in self.profiles.iter().zip(&self.runs) {
            loads[run] += profile.cost(costs);
        }
        loads
    }

    /// What the worst run costs.
    pub fn cost(&self, costs: &Costs) -> u64 {
        self.run_costs(costs).into_iter().max().unwrap_or(0)
    }
}

/// More predicates that are passed than this are not looked at pair by pair.
const LARGE: usize = 10_000;

/// With more than this, one plan is made for several runs and not the best of many.
const MANY: usize = 2_000;

/// Whether more predicates than this are passed.
fn is_more_than(icfg: &Icfg, costs: &Costs, most: usize) -> bool {
    let is_passed = |node: &Node| costs.weight(icfg.place_of_node(*node)) > 0;
    icfg.predicates().filter(is_passed).nth(most).is_some()
}

/// Whether plans without a limit are made by routine, whatever the strategy.
pub fn is_large(icfg: &Icfg, costs: &Costs) -> bool {
    is_more_than(icfg, costs, LARGE)
}

/// The plan of one run without a limit: the cheapest of the drafts there are,
/// which is what plans of several runs are compared with.
pub fn plan_single_run(
    icfg: &Icfg,
    costs: &Costs,
    kind: Kind,
    trials: usize,
) -> Result<Plan, Error> {
    let options = Options { runs: 1, strategy: Strategy::Fine, limit: None, trials };
    let by_tree = distribute_routines(icfg, costs, kind, options)?;
    if is_large(icfg, costs) {
        return Ok(by_tree);
    }
    let by_cuts = distribute(icfg, costs, options)?;
    let by_cuts_is_cheaper = by_cuts.cost(costs) < by_tree.cost(costs);
    Ok(if by_cuts_is_cheaper { by_cuts } else { by_tree })
}

/// Distributes over runs.
pub fn distribute(icfg: &Icfg, costs: &Costs, options: Options) -> Result<Plan, Error> {
    if options.limit.is_none() && is_large(icfg, costs) {
        return distribute_routines(icfg, costs, Kind::of(icfg, costs), options);
    }
    let mut planner = Planner::new(icfg, costs, options);
    if options.limit.is_none() {
        planner.add_what_is_free();
    }
    let decided = planner.analysis();
    if options.limit.is_some() {
        let open = icfg.predicates().filter(|&node| !decided.is_decided_by_one(node));
        let pairs =
            open.map(|node| icfg.ways_of(node).len() as u64).map(|ways| ways * (ways - 1) / 2);
        let pairs = pairs.sum();
        if pairs > MOST_PAIRS {
            return Err(Error::Pairs { pairs, most: MOST_PAIRS });
        }
    }
    for job in jobs(icfg, costs, options.strategy, &|node| decided.is_decided_by_one(node)) {
        planner.assign(&job)?;
    }
    planner.finish()
}

/// Puts what spanning trees say of each routine, heaviest first, into the run that has
/// least so far; what is missing is repaired. This takes no time pair by pair.
fn distribute_routines(
    icfg: &Icfg,
    costs: &Costs,
    kind: Kind,
    options: Options,
) -> Result<Plan, Error> {
    let mut planner = Planner::new(icfg, costs, options);
    let routines = icfg.routines().indices();
    let witnesses = routines.map(|routine| kind.witnesses_of(icfg, costs, routine));
    let mut jobs: Vec<(u64, Vec<Place>)> =
        witnesses.map(|places| (planner.cost(&places), places)).collect();
    jobs.sort_by_key(|(cost, _)| std::cmp::Reverse(*cost));
    for (_, places) in jobs {
        let least = (0..planner.loads.len()).min_by_key(|&run| planner.loads[run]).unwrap_or(0);
        planner.add(least, places);
    }
    planner.finish()
}

/// The cheapest plan of so many runs at most that any strategy finds, without a limit.
///
/// Greedy plans of many runs may be worse than those of few, so half as many are tried,
/// too, and half of these; of plans that cost the same, that of fewer runs is taken.
/// Programs of which much is passed have one plan alone: there others are of the same
/// kind, or take too long.
pub fn plan_runs(
    icfg: &Icfg,
    costs: &Costs,
    kind: Kind,
    runs: usize,
    trials: usize,
) -> Result<Plan, Error> {
    if is_more_than(icfg, costs, MANY) && runs > 1 {
        let options = Options { runs, strategy: Strategy::Fine, limit: None, trials };
        return distribute(icfg, costs, options);
    }
    let mut best = plan_single_run(icfg, costs, kind, trials)?;
    let halves = std::iter::successors(Some(runs), |&runs| Some(runs.div_ceil(2)));
    let halves: Vec<usize> = halves.take_while(|&runs| runs > 1).collect();
    for runs in halves.into_iter().rev() {
        for strategy in Strategy::ALL {
            let plan = distribute(icfg, costs, Options { runs, strategy, limit: None, trials })?;
            if plan.cost(costs) < best.cost(costs) {
                best = plan;
            }
        }
    }
    Ok(best)
}

/// The pairs that have to be told apart, but those of nodes that are `decided`,
/// grouped, heaviest first.
fn jobs(
    icfg: &Icfg,
    costs: &Costs,
    strategy: Strategy,
    decided: &dyn Fn(Node) -> bool,
) -> Vec<Vec<Conflict>> {
    let predicates = || icfg.predicates().filter(|&node| !decided(node));
    let group = match strategy {
        Strategy::Fine => Vec::new(),
        Strategy::Function => icfg.nodes().values().map(|node| node.routine.position()).collect(),
        Strategy::Grouped => groups(icfg),
    };
    let mut jobs: Vec<Vec<Conflict>> = match strategy {
        Strategy::Fine => {
            predicates().flat_map(|node| pairs(icfg, node)).map(|pair| vec![pair]).collect()
        }
        _ => {
            let mut jobs = vec![Vec::new(); icfg.nodes().len()];
            for node in predicates() {
                jobs[group[node.position()]].extend(pairs(icfg, node));
            }
            jobs.retain(|job| !job.is_empty());
            jobs
        }
    };
    let weight = |pair: &Conflict| {
        let [one, other] = [pair.one, pair.other].map(|way| costs.weight(icfg.place_of_way(way)));
        (one.min(other), one.max(other))
    };
    // The lighter way counts first: where both are heavy, witnesses on both are
    // needed, and these may do for a loop around them; not the other way round.
    for job in &mut jobs {
        job.sort_by_key(|pair| std::cmp::Reverse(weight(pair)));
    }
    jobs.sort_by_key(|job| {
        let weights = job.iter().map(weight);
        let sum = weights.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
        std::cmp::Reverse(sum)
    });
    jobs
}

/// By node: the number of its group. Predicates on a common cycle of a routine
/// are in one, and those that an edge joins.
fn groups(icfg: &Icfg) -> Vec<usize> {
    let edges = icfg.ways().values().filter_map(|way| match way.kind {
        WayKind::Step(to) | WayKind::Call { back: to, .. } => Some((way.from, to)),
        _ => None,
    });
    let edges: Vec<(Node, Node)> = edges.collect();
    let components = Components::new(&Digraph::new(icfg.nodes().len(), edges.iter().copied()));
    let mut group: Vec<usize> =
        icfg.nodes().indices().map(|node| components.of(node).position()).collect();
    let is_predicate = |node: Node| icfg.ways_of(node).len() > 1;
    for (from, to) in edges {
        if is_predicate(from) && is_predicate(to) {
            let (one, other) = (group[from.position()], group[to.position()]);
            if one != other {
                group.iter_mut().filter(|it| **it == other).for_each(|it| *it = one);
            }
        }
    }
    group
}

struct Planner<'a> {
    icfg: &'a Icfg,
    costs: &'a Costs,
    options: Options,
    drafts: Vec<Draft>,
    /// By draft: its run.
    runs: Vec<usize>,
    loads: Vec<u64>,
    empty: Draft,
    scratch: Scratch,
}

/// Rounds of repair by cuts, before ways themselves become witnesses.
const ROUNDS: usize = 4;

impl<'a> Planner<'a> {
    fn new(icfg: &'a Icfg, costs: &'a Costs, options: Options) -> Self {
        let runs = options.runs.max(1);
        let empty = Draft::new(icfg, costs);
        let loads = vec![empty.cost(costs); runs];
        let drafts = vec![empty.clone(); runs];
        let mut planner = Self {
            icfg,
            costs,
            options,
            drafts,
            runs: (0..runs).collect(),
            loads,
            empty,
            scratch: Scratch::default(),
        };
        if options.limit.is_none() && !costs.seeds().is_empty() {
            let is_new = |place: &Place| !planner.drafts[0].contains(*place);
            let seeds: Vec<Place> = costs.seeds().iter().copied().filter(is_new).collect();
            planner.add(0, seeds);
            planner.drafts[0].refresh(icfg);
        }
        planner
    }

    /// What spanning trees say, as far as it is never passed, in every run: so nothing
    /// has to be looked for there.
    fn add_what_is_free(&mut self) {
        let (icfg, costs) = (self.icfg, self.costs);
        let kind = Kind::of(icfg, costs);
        let is_free = |place: &Place| costs.weight(*place) == 0;
        for routine in icfg.routines().indices() {
            for place in kind.witnesses_of(icfg, costs, routine).into_iter().filter(is_free) {
                self.drafts.iter_mut().for_each(|draft| _ = draft.insert(place));
            }
        }
        self.drafts.iter_mut().for_each(|draft| _ = draft.refresh(icfg));
    }

    fn cost(&self, places: &[Place]) -> u64 {
        places.iter().map(|&place| self.costs.weight(place)).sum()
    }

    /// How much worse it is that a run which costs `load` costs `added` more: the
    /// rise of its square, so that runs are balanced, and witnesses that serve twice
    /// are preferred all the same.
    fn rise(load: u64, added: u64) -> u128 {
        let (load, added) = (u128::from(load), u128::from(added));
        added * (2 * load + added)
    }

    fn room(&self, draft: &Draft) -> usize {
        let used = draft.len() - self.empty.len();
        self.options.limit.map_or(usize::MAX, |limit| limit.saturating_sub(used))
    }

    /// Puts a job into the run where it is cheapest.
    fn assign(&mut self, job: &[Conflict]) -> Result<(), Error> {
        let mut best: Option<(u128, usize, Vec<Place>)> = None;
        let has_room = |&number: &usize| self.room(&self.drafts[number]) > 0;
        let open: Vec<usize> = match self.options.limit {
            None => (0..self.drafts.len()).collect(),
            Some(_) => (0..self.drafts.len()).rev().filter(has_room).take(OPEN_PROFILES).collect(),
        };
        for number in open {
            let room = self.room(&self.drafts[number]);
            let added =
                separate(self.icfg, self.costs, &mut self.drafts[number], job, &mut self.scratch);
            // What is told apart already costs nothing anywhere.
            if added.is_empty() {
                return Ok(());
            }
            let rise = Self::rise(self.loads[self.runs[number]], self.cost(&added));
            if added.len() <= room && best.as_ref().is_none_or(|best| rise < best.0) {
                best = Some((rise, number, added));
            }
        }
        if let Some((_, number, added)) = best {
            self.add(number, added);
            return Ok(());
        }
        let added = separate(self.icfg, self.costs, &mut self.empty, job, &mut self.scratch);
        let limit = self.options.limit.unwrap_or(usize::MAX);
        if added.len() <= limit {
            let number = self.open_profile()?;
            self.add(number, added);
            return Ok(());
        }
        match job {
            [pair] if self.ways_suffice(*pair) => self.force(*pair),
            [_] => Err(Error::Limit { needed: added.len(), limit }),
            // What does not fit as a whole goes in parts.
            _ => job.iter().try_for_each(|&pair| self.assign(&[pair])),
        }
    }

    /// Whether two ways are told apart where they are witnesses themselves, which may be
    /// fewer than a cut has.
    fn ways_suffice(&mut self, pair: Conflict) -> bool {
        let mut draft = self.empty.clone();
        for place in witnesses_of_ways(self.icfg, self.costs, pair) {
            draft.insert(place);
        }
        separate(self.icfg, self.costs, &mut draft, &[pair], &mut self.scratch).is_empty()
    }

    /// Another profile for the least loaded run.
    fn open_profile(&mut self) -> Result<usize, Error> {
        if self.drafts.len() >= MOST_PROFILES {
            return Err(Error::Executions { most: MOST_PROFILES });
        }
        let least = (0..self.loads.len()).min_by_key(|&run| self.loads[run]).unwrap_or(0);
        self.loads[least] += self.empty.cost(self.costs);
        self.drafts.push(self.empty.clone());
        self.runs.push(least);
        Ok(self.drafts.len() - 1)
    }

    fn add(&mut self, draft: usize, places: Vec<Place>) {
        for place in places {
            if self.drafts[draft].insert(place) {
                self.loads[self.runs[draft]] += self.costs.weight(place);
            }
        }
    }

    fn profiles(&self) -> Vec<Profile> {
        self.drafts.iter().map(|draft| draft.known.clone()).collect()
    }

    fn analysis(&self) -> Analysis<'a> {
        let firsts = self.drafts.iter().map(|draft| Arc::clone(draft.firsts(self.icfg))).collect();
        Analysis::of_firsts(self.icfg, firsts, &self.profiles())
    }

    /// Verifies, repairs, takes out what is not needed.
    fn finish(mut self) -> Result<Plan, Error> {
        self.repair()?;
        self.prune();
        self.runs.truncate(self.drafts.len());
        let plan = Plan { profiles: self.profiles(), runs: self.runs };
        debug_assert!(Analysis::new(self.icfg, &plan.profiles).is_realizable());
        Ok(plan)
    }

    fn repair(&mut self) -> Result<(), Error> {
        for round in 0.. {
            for draft in &mut self.drafts {
                draft.refresh(self.icfg);
            }
            let conflicts: Vec<Conflict> = self.analysis().conflicts().collect();
            if conflicts.is_empty() {
                return Ok(());
            }
            let before: usize = self.drafts.iter().map(Draft::len).sum();
            for conflict in conflicts {
                if round < ROUNDS {
                    self.assign(&[conflict])?;
                } else {
                    self.force(conflict)?;
                }
            }
            let after: usize = self.drafts.iter().map(Draft::len).sum();
            if before == after && round > ROUNDS {
                break;
            }
        }
        let conflict = self.analysis().conflicts().next();
        let node = conflict.map_or_else(|| Node::new(0), |conflict| conflict.node);
        Err(Error::Plan(format!("at {node}, nothing that can be observed tells two ways apart")))
    }

    /// Makes two ways witnesses.
    fn force(&mut self, conflict: Conflict) -> Result<(), Error> {
        let wanted = witnesses_of_ways(self.icfg, self.costs, conflict);
        let missing = |draft: &Draft| -> Vec<Place> {
            let is_missing = |place: &&Place| !draft.contains(**place);
            wanted.iter().filter(is_missing).copied().collect()
        };
        let fitting = (0..self.drafts.len()).filter_map(|number| {
            let added = missing(&self.drafts[number]);
            let load = self.loads[self.runs[number]] + self.cost(&added);
            (added.len() <= self.room(&self.drafts[number])).then_some((load, number, added))
        });
        let (number, added) = match fitting.min_by_key(|(load, ..)| *load) {
            Some((_, number, added)) => (number, added),
            None => {
                let added = missing(&self.empty);
                let limit = self.options.limit.unwrap_or(usize::MAX);
                if added.len() > limit {
                    return Err(Error::Limit { needed: added.len(), limit });
                }
                (self.open_profile()?, added)
            }
        };
        self.add(number, added);
        Ok(())
    }

    /// Takes out witnesses that are not needed, the most expensive first.
    fn prune(&mut self) {
        if self.options.trials == 0 {
            return;
        }
        let forced: FixedBitSet =
            self.costs.forced().iter().map(|place| place.position()).collect();
        let mut candidates: Vec<(u64, usize, Place)> = Vec::new();
        for (number, draft) in self.drafts.iter().enumerate() {
            let places = draft.places().filter(|place| !forced.contains(place.position()));
            candidates.extend(places.map(|place| (self.costs.weight(place), number, place)));
        }
        candidates.sort_by_key(|&(weight, ..)| std::cmp::Reverse(weight));
        let mut profiles = self.profiles();
        let mut analysis = self.analysis();
        let mut left = self.options.trials;
        let icfg = self.icfg;
        for (_, number, place) in candidates {
            let Some(witness) = profiles[number].witness(place).filter(|_| left > 0) else {
                continue;
            };
            self.drafts[number].remove(place);
            let fewer = Profile::new(icfg, self.drafts[number].places());
            let before = std::mem::replace(&mut profiles[number], fewer);
            let union = || {
                let all = profiles.iter().flat_map(|profile| profile.places()).copied();
                Profile::new(icfg, all)
            };
            match analysis.take_out(number, witness, place, &profiles[number], union) {
                Trial::TakenOut => left -= 1,
                outcome => {
                    left -= usize::from(outcome == Trial::Missed);
                    self.drafts[number].insert(place);
                    profiles[number] = before;
                }
            }
        }
        for draft in &mut self.drafts {
            draft.refresh(self.icfg);
        }
    }
}

/// The routines by how much of the cost is in them, for reports.
pub fn cost_by_routine(icfg: &Icfg, costs: &Costs, profile: &Profile) -> Vec<(Routine, u64)> {
    let mut sums = vec![0; icfg.routines().len()];
    for &place in profile.places() {
        sums[icfg.routine_of_place(place).position()] += costs.weight(place);
    }
    let mut sums: Vec<(Routine, u64)> =
        sums.into_iter().enumerate().map(|(number, sum)| (Routine::new(number), sum)).collect();
    sums.retain(|(_, sum)| *sum > 0);
    sums.sort_by_key(|&(routine, sum)| (std::cmp::Reverse(sum), routine));
    sums
}
