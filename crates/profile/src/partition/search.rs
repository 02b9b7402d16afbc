//! Parts of large functions to copies.
//!
//! Two parts of one function in one copy cost less than the sum of both, and
//! more than either: prices are of sets of parts. Functions are placed whole or
//! by parts, greedily, and then by local search: a part is moved, two are
//! exchanged, or a function is gathered in one copy, as long as that makes the
//! worst copy better. The search ends when nothing is better, or when
//! `MOST_PRICED` edges of graphs were priced.

use std::cmp::Reverse;
use std::collections::HashMap;

use backtrail_graph::EdgeSet;

use crate::partition::interest::{Interest, Placing, Selection};
use crate::partition::price::{Load, load_of};
use crate::partition::program::CountedFunction;

/// The most steps of local search, the most edges of graphs that are priced in
/// it, and the most moves that are weighed in a step.
const MOST_STEPS: usize = 400;
const MOST_PRICED: usize = 300_000;
const MOST_CANDIDATES: usize = 1000;

/// A set of parts of a function, a bit each.
pub type Parts = u64;

/// By large function and copy, the parts it has.
pub type Placed = Vec<Vec<Parts>>;

/// A function that may be split.
pub struct Large<'p> {
    /// Its place in the program.
    pub number: usize,
    /// The function.
    pub function: &'p CountedFunction<'p>,
    parts: Vec<EdgeSet>,
    known: HashMap<Parts, Load>,
}

impl<'p> Large<'p> {
    /// A function and the edges of its parts, of which there are at most 64; of
    /// one that is not split there may be none.
    pub fn new(number: usize, function: &'p CountedFunction<'p>, mut parts: Vec<EdgeSet>) -> Self {
        if parts.is_empty() {
            parts.push(EdgeSet::all(function.dag().graph().edge_count()));
        }
        Self { number, function, parts, known: HashMap::new() }
    }

    fn all(&self) -> Parts {
        Parts::MAX >> (Parts::BITS as usize - self.parts.len())
    }

    /// The edges of some parts.
    pub fn edges(&self, set: Parts) -> EdgeSet {
        let mut edges = EdgeSet::none(self.function.dag().graph().edge_count());
        let parts = self.parts.iter().enumerate().filter(|(part, _)| set >> part & 1 == 1);
        parts.for_each(|(_, part)| edges.union_with(part));
        edges
    }

    /// What a copy pays that has these parts.
    fn price(&mut self, set: Parts) -> Load {
        if set == 0 {
            return Load::default();
        }
        if let Some(&known) = self.known.get(&set) {
            return known;
        }
        let edges = self.edges(set);
        let interest = if edges.is_all() || set == self.all() {
            Interest::Whole
        } else {
            Interest::Part(Selection::new(self.function.plan(), &edges, Placing::Moved))
        };
        let price = load_of(self.function, &interest);
        self.known.insert(set, price);
        price
    }
}

/// How good loads are.
#[derive(Debug, Clone, Copy)]
pub struct Worth {
    /// How many copies there are.
    pub copies: usize,
    /// What is yet to be placed, in small pieces.
    pub rest: Load,
    /// A copy's share of all hits.
    pub share: u64,
    /// Hits that differ by less count as the same.
    pub grain: u64,
    /// What a hit counts for where hits and updates are weighed together.
    pub hit: f64,
}

impl Worth {
    /// Hits and updates in one number, all hits of the program counting as much as
    /// all updates. Where the hits of the worst copy are given by one function,
    /// this keeps the others apart all the same: on another run they may be worse.
    pub fn mixed(&self, load: Load) -> u64 {
        load.with_updates.saturating_add((load.hits as f64 * self.hit) as u64)
    }

    /// The hits that the worst copy will have once the rest has filled the
    /// others up.
    pub fn target(&self, loads: &[Load]) -> u64 {
        let sum = loads.iter().fold(self.rest.hits, |sum, load| sum.saturating_add(load.hits));
        let worst = loads.iter().map(|load| load.hits).max().unwrap_or(0);
        worst.max(sum / self.copies as u64)
    }

    /// Less is better: the hits of the worst copy and a copy's share of what is
    /// counted twice, since a split that gains less than it costs pays on the
    /// training run only; then the worst with updates weighed in, then the sum of
    /// all.
    fn of(&self, loads: &[Load]) -> (u64, u64, u64) {
        let all = loads.iter().copied().fold(Load::default(), Load::plus);
        let sum = self.mixed(all.plus(self.rest));
        let worst = loads.iter().map(|&load| self.mixed(load)).max().unwrap_or(0);
        let hits = loads.iter().fold(self.rest.hits, |sum, load| sum.saturating_add(load.hits));
        let twice = (hits / self.copies as u64).saturating_sub(self.share);
        let hits = self.target(loads).saturating_add(twice).div_ceil(self.grain);
        (hits, worst.max(sum / self.copies as u64), all.with_updates)
    }
}

/// The search for a good placing of large functions.
pub struct Search<'p> {
    large: Vec<Large<'p>>,
    worth: Worth,
    /// How many edges may still be priced.
    left: usize,
}

/// Something that may be changed: parts of a function from one copy to another.
#[derive(Debug, Clone, Copy)]
struct Move {
    function: usize,
    parts: Parts,
    from: usize,
    to: usize,
}

impl<'p> Search<'p> {
    /// The search for a placing of `large`.
    pub fn new(large: Vec<Large<'p>>, worth: Worth) -> Self {
        Self { large, worth, left: MOST_PRICED }
    }

    /// The functions.
    pub fn large(&self) -> &[Large<'p>] {
        &self.large
    }

    /// The best placing that was found.
    pub fn run(&mut self) -> Placed {
        let mut best: Option<((u64, u64, u64), Placed)> = None;
        for start in [self.start_whole(), self.start_by_parts()] {
            let placed = self.improve(start);
            let loads = self.loads(&placed);
            let worth = self.worth.of(&loads);
            if best.as_ref().is_none_or(|(known, _)| worth < *known) {
                best = Some((worth, placed));
            }
        }
        best.map(|(_, placed)| placed).unwrap_or_default()
    }

    /// What each copy pays.
    pub fn loads(&mut self, placed: &Placed) -> Vec<Load> {
        let mut loads = vec![Load::default(); self.worth.copies];
        for (large, sets) in self.large.iter_mut().zip(placed) {
            for (load, &set) in loads.iter_mut().zip(sets) {
                *load = load.plus(large.price(set));
            }
        }
        loads
    }

    /// Every function whole, largest first, where there is least.
    fn start_whole(&mut self) -> Placed {
        let whole: Vec<Parts> = self.large.iter().map(Large::all).collect();
        let sets = whole.into_iter().enumerate().map(|(function, all)| (function, vec![all]));
        self.place_greedily(sets.collect())
    }

    /// Parts, largest first, each where the load is then least.
    fn start_by_parts(&mut self) -> Placed {
        let parts = |large: &Large<'_>| (0..large.parts.len()).map(|part| 1 << part).collect();
        let sets = self.large.iter().map(parts).enumerate();
        self.place_greedily(sets.collect())
    }

    fn place_greedily(&mut self, sets: Vec<(usize, Vec<Parts>)>) -> Placed {
        let copies = self.worth.copies;
        let mut pieces: Vec<(Load, usize, Parts)> = Vec::new();
        for (function, sets) in sets {
            for set in sets {
                pieces.push((self.large[function].price(set), function, set));
            }
        }
        pieces.sort_by_key(|&(price, function, set)| (Reverse(price), function, set));
        let mut placed = vec![vec![0; copies]; self.large.len()];
        let mut loads = vec![Load::default(); copies];
        for (_, function, set) in pieces {
            let large = &mut self.large[function];
            let after: Vec<Load> = (0..copies)
                .map(|copy| {
                    let known: Parts = placed[function][copy];
                    let without = loads[copy].minus(large.price(known));
                    without.plus(large.price(known | set))
                })
                .collect();
            // Hits matter where they make the worst copy worse.
            let worth = self.worth;
            let hits = |copy: usize| after[copy].hits.max(worth.share).div_ceil(worth.grain);
            let key = |&copy: &usize| (hits(copy), worth.mixed(after[copy]));
            let home = (0..copies).min_by_key(key).unwrap_or(0);
            placed[function][home] |= set;
            loads[home] = after[home];
        }
        placed
    }

    /// Local search.
    fn improve(&mut self, mut placed: Placed) -> Placed {
        let mut loads = self.loads(&placed);
        for _ in 0..MOST_STEPS {
            let worth = self.worth.of(&loads);
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
        loads: &[Load],
        worth: (u64, u64, u64),
    ) -> Option<(Vec<Move>, (u64, u64, u64))> {
        let by_hits = (0..self.worth.copies).max_by_key(|&copy| loads[copy].hits)?;
        let by_all = (0..self.worth.copies).max_by_key(|&copy| self.worth.mixed(loads[copy]))?;
        let mut candidates = self.candidates(placed, by_hits);
        if by_all != by_hits {
            candidates.extend(self.candidates(placed, by_all));
        }
        let mut best: Option<(Vec<Move>, (u64, u64, u64))> = None;
        for moves in candidates {
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
        let by_copy: Vec<Vec<(usize, Parts, Load)>> =
            (0..self.worth.copies).map(|copy| self.parts_in(placed, copy)).collect();
        let mut mine = by_copy[worst].clone();
        for (function, sets) in placed.iter().enumerate() {
            if sets[worst].count_ones() > 1 {
                let price = self.large[function].price(sets[worst]);
                mine.push((function, sets[worst], price));
            }
        }
        for &(function, parts, price) in &mine {
            for to in (0..self.worth.copies).filter(|&to| to != worst) {
                let there = Move { function, parts, from: worst, to };
                candidates.push(vec![there]);
                for &(other, theirs, less) in by_copy[to].iter().filter(|it| it.2 < price) {
                    let back = Move { function: other, parts: theirs, from: to, to: worst };
                    if candidates.len() < MOST_CANDIDATES && less != Load::default() {
                        candidates.push(vec![there, back]);
                    }
                }
            }
        }
        for (function, sets) in placed.iter().enumerate() {
            for to in 0..self.worth.copies {
                let others = (0..self.worth.copies).filter(|&from| from != to && sets[from] != 0);
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
    fn parts_in(&mut self, placed: &Placed, copy: usize) -> Vec<(usize, Parts, Load)> {
        let mut found = Vec::new();
        for (function, sets) in placed.iter().enumerate() {
            for part in (0..Parts::BITS).filter(|part| sets[copy] >> part & 1 == 1) {
                found.push((function, 1 << part, self.large[function].price(1 << part)));
            }
        }
        found
    }

    fn worth_after(&mut self, placed: &Placed, loads: &[Load], moves: &[Move]) -> (u64, u64, u64) {
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
            loads[copy] = loads[copy].minus(before).plus(after);
        }
        self.worth.of(&loads)
    }
}
