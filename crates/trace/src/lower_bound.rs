//! What no plan of so many runs can stay below.
//!
//! Weights are how often places were passed in one execution that ended, and a
//! plan is one that the check accepts ([`crate::realizability`]), with one profile
//! per run. (With weights that were guessed, this is arithmetic on guesses.) The
//! bound is the greater of two.
//!
//! # What one predicate takes
//! Let *p* be a predicate, and *B* those of its ways that were taken and from which
//! an execution can come to *p* again, in whatever activation; `c(i)` how often way
//! *i* was taken, *T* their sum, *E* how many threads there were. A *passage* from a
//! way is what an execution does from there until it comes to *p* again.
//!
//! *For any two ways of B there is a profile in which every passage from either
//! of them meets a witness before p.* If some profile *k* has
//! `W_k(a) ∩ W_k(b) = ∅`, it is *k*: after a passage from *a* without a witness,
//! *b* can be taken, and what can be met then is in `W_k(b)`, and in `W_k(a)` as
//! well; it is not empty, since all runs end. Otherwise the two share END and nothing
//! else in every profile. *B* has such ways only if the routine is never active twice
//! at once. In a profile where one of them comes back to *p* without a witness, it
//! does so in the same activation or after a return, so its set includes the
//! other's, which is thus {END}; so the other meets no witness before *p* either,
//! and both sets are {END}. That cannot be so in all profiles, or both would come to
//! the end unseen.
//!
//! Where a routine is active several times at once, the same holds for passages that
//! come back *in the same activation*, of ways of which there are such: what follows
//! such a passage is what follows the other way there, whoever the callers are, so
//! in a profile where it meets no witness its set includes the other's. A witness
//! may then be in several passages, of activations within each other. But each
//! activation is called in one passage of the innermost activation around it, so all
//! but as many passages as there are activations have none within, and these do not
//! overlap; and one in each activation does not come back.
//!
//! So the pairs of *B* are dealt out to profiles; a profile that has the ways
//! `Q_k` is hit at least `Σ_{i ∈ Q_k} c(i) − E` times, since passages do not
//! overlap, and a way that was taken comes back but for the last time in each
//! thread (frames that are left lead to a landing, which is a witness).
//! Let `L = max Σ_{i ∈ Q_k} c(i)`. Way *i* has to meet all others in
//! the `r(i)` profiles it is in, hence `r(i) ≥ (T − c(i)) / (L − c(i))`, rounded
//! up; and `Σ r(i) · c(i) ≤ runs · L`. The least *L* for which this holds, less
//! *E*, is the bound. For a loop around a uniform dispatch to four it is 1 of what
//! one run costs with two runs, 0.67 with three, 0.5 with six: what brute force
//! finds. Only ways that step to another block count: how often an indirect call
//! had which callee is not known.
//!
//! # What all runs take together
//! *All witnesses of a plan in one profile are a plan*: where a pair is told apart
//! in *k*, no place is reached from both ways without a witness of *k* (its own
//! first witnesses would be shared), so no added witness can be met first on both;
//! and where a pair shares only END, the same holds for the witnesses of all
//! profiles. So the runs together are hit at least as often as that one profile,
//! for which `obstacle_packing` and `folding` have bounds; divided by the number of
//! runs.
//!
//! The cost of the best single run divided by the number of runs is a bound, too,
//! if that run is optimal; which is not proven, and not used here.
//!
//! Cost: a binary search per predicate, first witnesses of one profile, the packing
//! and the folding.

use backtrail_graph::{Components, Digraph, Index};

use crate::distribution::{Costs, Profile};
use crate::first_witness::FirstWitnesses;
use crate::icfg::{Icfg, Node, Role, Routine, Way, WayKind};
use crate::{folding, obstacle_packing};

/// The least that the worst of `runs` runs can cost.
pub fn lower_bound(icfg: &Icfg, costs: &Costs, runs: usize) -> u64 {
    LowerBound::new(icfg, costs).of_runs(runs)
}

/// What is known of the least cost, for any number of runs.
#[derive(Debug, Clone)]
pub struct LowerBound {
    choices: Vec<Choices>,
    /// What all runs take together.
    together: u64,
}

impl LowerBound {
    /// Computes it.
    pub fn new(icfg: &Icfg, costs: &Costs) -> Self {
        let (packed, folded) =
            (obstacle_packing::least_weight(icfg, costs), folding::least_weight(icfg, costs));
        Self { choices: find_choices(icfg, costs), together: packed.max(folded) }
    }

    /// The least that the worst of `runs` runs can cost.
    pub fn of_runs(&self, runs: usize) -> u64 {
        let runs = runs.max(1) as u64;
        let by_predicate = self.choices.iter().map(|ways| least_load(ways, runs)).max();
        by_predicate.unwrap_or(0).max(self.together.div_ceil(runs))
    }
}

/// The ways of a predicate that the run comes back from.
#[derive(Debug, Clone)]
struct Choices {
    counts: Vec<u64>,
    /// How often it does not, at most.
    ends: u64,
}

/// Routines that can be active more than once at a time.
fn recursive_routines(icfg: &Icfg) -> Vec<bool> {
    let calls = icfg.ways().values().filter_map(|way| match way.kind {
        WayKind::Call { callee, .. } | WayKind::Tail(callee) => {
            Some((icfg.nodes()[way.from].routine, callee))
        }
        _ => None,
    });
    let calls: Vec<(Routine, Routine)> = calls.collect();
    let components = Components::new(&Digraph::new(icfg.routines().len(), calls.iter().copied()));
    let mut recursive = vec![false; icfg.routines().len()];
    for (caller, callee) in calls {
        if components.of(caller) == components.of(callee) {
            recursive[caller.position()] = true;
            recursive[callee.position()] = true;
        }
    }
    recursive
}

/// How many threads there were, at most.
fn thread_count(icfg: &Icfg, costs: &Costs) -> u64 {
    let entries = |routine: Routine| {
        let entry = icfg.routines()[routine].entry;
        if icfg.nodes()[entry].role != Role::Hub {
            return costs.weight(icfg.place_of_node(entry));
        }
        let begins = icfg.ways_of(entry).filter_map(|way| match icfg.ways()[way].kind {
            WayKind::Call { callee, .. } | WayKind::Tail(callee) => Some(callee),
            _ => None,
        });
        begins.map(|it| costs.weight(icfg.place_of_node(icfg.routines()[it].entry))).sum()
    };
    let [_, others @ ..] = icfg.roots() else { return 1 };
    1 + others.iter().map(|&root| entries(root)).sum::<u64>()
}

/// All predicates, with those of their ways whose weights are counts: those that come
/// back in whatever activation, and those that do in the same one.
fn find_choices(icfg: &Icfg, costs: &Costs) -> Vec<Choices> {
    let recursive = recursive_routines(icfg);
    let ends = thread_count(icfg, costs);
    let forced = Profile::new(icfg, costs.forced().iter().copied());
    let firsts = FirstWitnesses::new(icfg, &forced);
    let is_block = |node: Node| icfg.nodes()[node].role != Role::Hub;
    let choices = |node: Node| {
        let routine = icfg.nodes()[node].routine;
        let is_recursive = recursive[routine.position()];
        let counted: Vec<(Way, u64)> = icfg
            .ways_of(node)
            .filter(|&way| matches!(icfg.ways()[way].kind, WayKind::Step(to) if is_block(to)))
            .map(|way| (way, costs.weight(icfg.place_of_way(way))))
            .filter(|(_, count)| *count > 0)
            .collect();
        let of = |comes_back: &dyn Fn(Way, u64) -> bool, ends: u64| {
            let ways = counted.iter().filter(|(way, count)| comes_back(*way, *count));
            Choices { counts: ways.map(|(_, count)| *count).collect(), ends }
        };
        let anywhere =
            of(&|way, count| !firsts.can_end(way) || (!is_recursive && count > ends), ends);
        // What was taken more often than the routine was entered came back.
        let active = costs.weight(icfg.place_of_node(icfg.routines()[routine].entry));
        let unpaid = if is_recursive { active.saturating_mul(2) } else { active };
        [anywhere, of(&|_, count| count > active, unpaid)]
    };
    let found = icfg.predicates().filter(|&node| is_block(node)).flat_map(choices);
    found.filter(|it| it.counts.len() > 1).collect()
}

/// The least load of the worst run that tells these ways apart.
fn least_load(choices: &Choices, runs: u64) -> u64 {
    let counts = &choices.counts;
    let total: u64 = counts.iter().sum();
    let mut sorted = counts.clone();
    sorted.sort_unstable_by_key(|&count| std::cmp::Reverse(count));
    let suffices = |load: u64| {
        let needed: u128 = counts
            .iter()
            .map(|&count| {
                let times = (total - count).div_ceil(load - count).max(1);
                u128::from(times) * u128::from(count)
            })
            .sum();
        needed <= u128::from(runs) * u128::from(load)
    };
    // The two heaviest meet somewhere; one run has them all.
    let (mut low, mut high) = (sorted[0] + sorted[1], total);
    while low < high {
        let middle = low + (high - low) / 2;
        if suffices(middle) { high = middle } else { low = middle + 1 }
    }
    low.saturating_sub(choices.ends)
}
