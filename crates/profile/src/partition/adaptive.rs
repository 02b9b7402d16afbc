//! Where splitting a function pays, by how often its edges are taken.
//!
//! Published P3 weighs tasks by their number of probes and never splits a
//! function with several call sites. Here the cost of a task is how often its
//! probes are expected to be executed (from an earlier profile, or guessed),
//! and any function that is large against a copy's share of the work is split
//! ([`crate::partition::split`]), however often it is called. Labels are moved
//! to the cheapest edges ([`Placing::Moved`]).
//!
//! Two parts of one function in one copy cost less than the sum of both, and
//! more than either: prices are of sets of parts. Large functions are placed by
//! their parts, first greedily, then by local search: a part is moved, two are
//! exchanged, or a function is gathered in one copy, as long as that makes the
//! worst copy better. What is small fills the copies up, largest first.
//!
//! A function is large if it costs more than [`LARGE`] of a copy's share; so
//! there are few, and the rest of the program costs O(functions · log).

use std::cmp::Reverse;
use std::collections::HashMap;

use backtrail_graph::EdgeSet;

use crate::partition::assignment::fill_up;
use crate::partition::interest::{Interest, Placing, Selection};
use crate::partition::price::{Price, Rate, whole_price};
use crate::partition::program::CountedFunction;
use crate::partition::split::{Limits, split};
use crate::partition::{ProgramPaths, Shares};

/// The share of a copy's work from which on a function is large: for weights
/// from a profile, and for guesses. Where the weights are wrong, labels of parts
/// lie where they cost most, so that only what is very large is split by guess.
const LARGE: f64 = 1.0 / 8.0;
const LARGE_GUESS: f64 = 1.0;

/// What the larger half of a split may cost, in the same way.
const HALF: f64 = 0.95;
const HALF_GUESS: f64 = 0.7;

/// The share of a copy's work below which a part is not split further.
const SMALL_PART: f64 = 1.0 / 6.0;

/// The most parts of a function.
const MOST_PARTS: usize = 48;

/// The most steps of local search, and the most edges of graphs that are priced
/// in it.
const MOST_STEPS: usize = 400;
const MOST_PRICED: usize = 300_000;

/// Who counts what.
pub fn divide(program: &ProgramPaths<'_>, copies: usize) -> Vec<Shares> {
    let rate = Rate::of(program);
    let prices: Vec<u64> = program.functions().iter().map(|it| whole_price(it, rate)).collect();
    let total = prices.iter().fold(0u64, |sum, &price| sum.saturating_add(price));
    let share = total as f64 / copies as f64;
    let (large_from, half) =
        if program.is_weighed() { (LARGE, HALF) } else { (LARGE_GUESS, HALF_GUESS) };
    let is_large = |price: u64| copies > 1 && price > 0 && price as f64 > share * large_from;
    let small = (share * SMALL_PART) as u64;
    let limits = Limits { small, parts: MOST_PARTS.min(4 * copies), half };
    let mut large: Vec<Large<'_>> = Vec::new();
    let mut others: Vec<usize> = Vec::new();
    for (number, function) in program.functions().iter().enumerate() {
        if !is_large(prices[number]) {
            others.push(number);
            continue;
        }
        let parts = split(function, rate, limits);
        large.push(Large { number, function, rate, parts, known: HashMap::new() });
    }
    let of_small = others.iter().map(|&number| prices[number]);
    let rest = of_small.fold(0u64, u64::saturating_add);
    let mut search = Search { large, copies, rest, left: MOST_PRICED };
    let placed = search.run();

    let mut loads = search.loads(&placed);
    let costs: Vec<u64> = others.iter().map(|&number| prices[number]).collect();
    let homes = fill_up(&costs, &mut loads);
    let mut shares: Vec<Option<Shares>> = vec![None; program.functions().len()];
    for (number, home) in others.into_iter().zip(homes) {
        shares[number] = Some(Shares::whole(copies, home));
    }
    // Entries are counted where there is least to do.
    let mut by_load: Vec<usize> = (0..copies).collect();
    by_load.sort_by_key(|&copy| loads[copy]);
    for (large, sets) in search.large.iter().zip(&placed) {
        let edges: Vec<EdgeSet> = sets.iter().map(|&set| large.edges(set)).collect();
        let mut its = Shares::of_edges(large.function, &edges, Placing::Moved);
        let having = by_load.iter().copied().find(|&copy| its.interests[copy].is_some());
        its.entries_in = having.unwrap_or(0);
        shares[large.number] = Some(its);
    }
    shares.into_iter().map(|it| it.unwrap_or_else(|| Shares::whole(copies, 0))).collect()
}

/// A set of parts of a function, a bit each.
type Parts = u64;

/// A function that may be split.
struct Large<'p> {
    number: usize,
    function: &'p CountedFunction<'p>,
    rate: Rate,
    parts: Vec<EdgeSet>,
    known: HashMap<Parts, u64>,
}

impl Large<'_> {
    fn all(&self) -> Parts {
        if self.parts.len() == 64 { Parts::MAX } else { (1 << self.parts.len()) - 1 }
    }

    fn edges(&self, set: Parts) -> EdgeSet {
        let mut edges = EdgeSet::none(self.function.dag().graph().edge_count());
        let parts = self.parts.iter().enumerate().filter(|(part, _)| set >> part & 1 == 1);
        parts.for_each(|(_, part)| edges.union_with(part));
        edges
    }

    /// What a copy pays that has these parts.
    fn price(&mut self, set: Parts) -> u64 {
        if set == 0 {
            return 0;
        }
        if let Some(&known) = self.known.get(&set) {
            return known;
        }
        let edges = self.edges(set);
        let interest = if edges.is_all() {
            Interest::Whole
        } else {
            Interest::Part(Selection::new(self.function.plan(), &edges, Placing::Moved))
        };
        // What cannot be placed is never chosen.
        let price = Price::of(self.function, &interest);
        let price = price.map_or(u64::MAX / 1024, |it| it.total(self.rate));
        self.known.insert(set, price);
        price
    }
}

/// By large function and copy, the parts it has.
type Placed = Vec<Vec<Parts>>;

/// The search for a good placing of large functions.
struct Search<'p> {
    large: Vec<Large<'p>>,
    copies: usize,
    /// What small functions cost together.
    rest: u64,
    /// How many edges may still be priced.
    left: usize,
}

/// Something that may be changed: parts of a function from one copy to another,
/// perhaps in exchange for parts of another function.
#[derive(Debug, Clone, Copy)]
struct Move {
    function: usize,
    parts: Parts,
    from: usize,
    to: usize,
}

impl Search<'_> {
    fn run(&mut self) -> Placed {
        let mut best: Option<((u64, u64), Placed)> = None;
        for start in [self.start_whole(), self.start_by_parts()] {
            let placed = self.improve(start);
            let worth = self.worth(&self.loads_of(&placed));
            if best.as_ref().is_none_or(|(known, _)| worth < *known) {
                best = Some((worth, placed));
            }
        }
        best.map(|(_, placed)| placed).unwrap_or_default()
    }

    /// How good these loads are, less being better: what the worst copy will
    /// have once small functions have filled the others up, then the sum.
    fn worth(&self, loads: &[u64]) -> (u64, u64) {
        let sum = loads.iter().fold(0u64, |sum, &load| sum.saturating_add(load));
        let worst = loads.iter().copied().max().unwrap_or(0);
        (worst.max(sum.saturating_add(self.rest) / self.copies as u64), sum)
    }

    fn loads(&mut self, placed: &Placed) -> Vec<u64> {
        let mut loads = vec![0u64; self.copies];
        for (large, sets) in self.large.iter_mut().zip(placed) {
            for (load, &set) in loads.iter_mut().zip(sets) {
                *load = load.saturating_add(large.price(set));
            }
        }
        loads
    }

    /// The same, all prices being known.
    fn loads_of(&self, placed: &Placed) -> Vec<u64> {
        let mut loads = vec![0u64; self.copies];
        for (large, sets) in self.large.iter().zip(placed) {
            for (load, set) in loads.iter_mut().zip(sets) {
                *load = load.saturating_add(large.known.get(set).copied().unwrap_or(0));
            }
        }
        loads
    }

    /// Every function whole, largest first, where there is least.
    fn start_whole(&mut self) -> Placed {
        let whole: Vec<u64> = (0..self.large.len())
            .map(|it| {
                let all = self.large[it].all();
                self.large[it].price(all)
            })
            .collect();
        let homes = fill_up(&whole, &mut vec![0; self.copies]);
        let mut placed = vec![vec![0; self.copies]; self.large.len()];
        for (function, home) in homes.into_iter().enumerate() {
            placed[function][home] = self.large[function].all();
        }
        placed
    }

    /// Parts, largest first, each where the load is then least.
    fn start_by_parts(&mut self) -> Placed {
        let mut parts: Vec<(u64, usize, usize)> = Vec::new();
        for function in 0..self.large.len() {
            for part in 0..self.large[function].parts.len() {
                parts.push((self.large[function].price(1 << part), function, part));
            }
        }
        parts.sort_by_key(|&(price, function, part)| (Reverse(price), function, part));
        let mut placed = vec![vec![0; self.copies]; self.large.len()];
        let mut loads = vec![0u64; self.copies];
        for (_, function, part) in parts {
            let (mut home, mut least) = (0, u64::MAX);
            for copy in 0..self.copies {
                let set = placed[function][copy];
                let with = self.large[function].price(set | 1 << part);
                let load = loads[copy].saturating_sub(self.large[function].price(set));
                if load.saturating_add(with) < least {
                    (home, least) = (copy, load.saturating_add(with));
                }
            }
            placed[function][home] |= 1 << part;
            loads[home] = least;
        }
        placed
    }

    /// Local search.
    fn improve(&mut self, mut placed: Placed) -> Placed {
        let mut loads = self.loads(&placed);
        for _ in 0..MOST_STEPS {
            let worth = self.worth(&loads);
            if self.left == 0 {
                break;
            }
            let Some((moves, _)) = self.best_step(&placed, &loads, worth) else { break };
            for step in moves {
                placed[step.function][step.from] &= !step.parts;
                placed[step.function][step.to] |= step.parts;
            }
            loads = self.loads(&placed);
        }
        placed
    }

    /// The moves that together better the worth most.
    fn best_step(
        &mut self,
        placed: &Placed,
        loads: &[u64],
        worth: (u64, u64),
    ) -> Option<(Vec<Move>, (u64, u64))> {
        let worst = (0..self.copies).max_by_key(|&copy| loads[copy])?;
        let mut best: Option<(Vec<Move>, (u64, u64))> = None;
        for moves in self.candidates(placed, worst) {
            if self.left == 0 {
                break;
            }
            let found = self.worth_after(placed, loads, &moves);
            let known = best.as_ref().map_or(worth, |it| it.1);
            if found < known {
                best = Some((moves, found));
            }
        }
        best
    }

    /// What may make the worst copy better: a part, or all parts of a function,
    /// elsewhere, perhaps in exchange for what costs less; or a function
    /// gathered in one copy.
    fn candidates(&mut self, placed: &Placed, worst: usize) -> Vec<Vec<Move>> {
        let mut candidates: Vec<Vec<Move>> = Vec::new();
        let by_copy: Vec<Vec<(usize, Parts, u64)>> =
            (0..self.copies).map(|copy| self.parts_in(placed, copy)).collect();
        let mut mine = by_copy[worst].clone();
        for (function, sets) in placed.iter().enumerate() {
            if sets[worst].count_ones() > 1 {
                let price = self.large[function].price(sets[worst]);
                mine.push((function, sets[worst], price));
            }
        }
        for &(function, parts, price) in &mine {
            for to in (0..self.copies).filter(|&to| to != worst) {
                let there = Move { function, parts, from: worst, to };
                candidates.push(vec![there]);
                for &(other, theirs, less) in by_copy[to].iter().filter(|it| it.2 < price) {
                    let back = Move { function: other, parts: theirs, from: to, to: worst };
                    if candidates.len() < MOST_CANDIDATES && less > 0 {
                        candidates.push(vec![there, back]);
                    }
                }
            }
        }
        for (function, sets) in placed.iter().enumerate() {
            for to in 0..self.copies {
                let others = (0..self.copies).filter(|&from| from != to && sets[from] != 0);
                let gather: Vec<Move> =
                    others.map(|from| Move { function, parts: sets[from], from, to }).collect();
                if !gather.is_empty() {
                    candidates.push(gather);
                }
            }
        }
        candidates
    }

    /// The parts that a copy has: function, part and price of each.
    fn parts_in(&mut self, placed: &Placed, copy: usize) -> Vec<(usize, Parts, u64)> {
        let mut found = Vec::new();
        for (function, sets) in placed.iter().enumerate() {
            for part in (0..Parts::BITS).filter(|part| sets[copy] >> part & 1 == 1) {
                found.push((function, 1 << part, self.large[function].price(1 << part)));
            }
        }
        found
    }

    fn worth_after(&mut self, placed: &Placed, loads: &[u64], moves: &[Move]) -> (u64, u64) {
        let mut loads = loads.to_vec();
        let mut changed: Vec<(usize, usize, Parts)> = Vec::new();
        for step in moves {
            for (copy, added) in [(step.from, false), (step.to, true)] {
                let known = changed.iter().position(|it| (it.0, it.1) == (step.function, copy));
                let place = known.unwrap_or_else(|| {
                    changed.push((step.function, copy, placed[step.function][copy]));
                    changed.len() - 1
                });
                let set = &mut changed[place].2;
                *set = if added { *set | step.parts } else { *set & !step.parts };
            }
        }
        for (function, copy, set) in changed {
            let large = &mut self.large[function];
            if !large.known.contains_key(&set) && set != 0 {
                self.left = self.left.saturating_sub(large.function.dag().graph().edge_count());
            }
            let before = large.price(placed[function][copy]);
            let after = large.price(set);
            loads[copy] = loads[copy].saturating_sub(before).saturating_add(after);
        }
        self.worth(&loads)
    }
}

/// The most moves that are weighed in one step.
const MOST_CANDIDATES: usize = 1000;
