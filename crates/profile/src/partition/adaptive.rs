//! Where splitting a function pays, by how often its edges are taken.
//!
//! Published P3 weighs tasks by their number of probes and never splits a
//! function with several call sites. Here the cost of a task is how often its
//! probes are expected to be executed (from an earlier profile, or guessed),
//! and any function that is large against a copy's share of the work is split
//! ([`crate::partition::split`]), however often it is called. Labels are moved
//! to the cheapest edges ([`Placing::Moved`]).
//!
//! Hits come first. Where they are the same within `GRAIN`, the worst copy by
//! hits and updates of counters decides ([`Worth::mixed`]): a function of many
//! updates and few hits (a loop without branches) is split and placed by these.
//!
//! Large functions are placed by their parts ([`crate::partition::search`]);
//! what is small fills the copies up, largest first. There are few large
//! functions, so the rest of the program costs O(functions · log functions).

use std::cmp::Reverse;

use backtrail_graph::EdgeSet;

use crate::partition::interest::{Interest, Placing};
use crate::partition::price::{Load, Rate, load_of};
use crate::partition::search::{Large, Search, Worth};
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

/// Hits that differ by less than this part of a copy's share count as the same.
const GRAIN: u64 = 100;

/// What other runs than the one that gave the weights are thought to execute
/// besides, of all it executed: spread over functions by their size, so that
/// those that it did not execute are not all in one copy.
const UNFORESEEN: f64 = 0.25;

/// Who counts what.
pub fn divide(program: &ProgramPaths<'_>, copies: usize) -> Vec<Shares> {
    let loads: Vec<Load> =
        program.functions().iter().map(|it| load_of(it, &Interest::Whole)).collect();
    let total = loads.iter().copied().fold(Load::default(), Load::plus);
    let (from, half) = if program.is_weighed() { (LARGE, HALF) } else { (LARGE_GUESS, HALF_GUESS) };
    let share = |total: u64, part: f64| (total as f64 / copies as f64 * part) as u64;
    let parts = MOST_PARTS.min(4 * copies);
    let mut large: Vec<Large<'_>> = Vec::new();
    let mut small: Vec<usize> = Vec::new();
    for (number, function) in program.functions().iter().enumerate() {
        let Load { hits, with_updates } = loads[number];
        let (rate, of) = if hits > share(total.hits, from) {
            (Rate::of_program(total), total.hits)
        } else if with_updates > share(total.with_updates, from) {
            (Rate::EQUAL, total.with_updates)
        } else {
            small.push(number);
            continue;
        };
        let limits = Limits { small: share(of, SMALL_PART), parts, half };
        let parts = if copies > 1 { split(function, rate, limits) } else { Vec::new() };
        large.push(Large::new(number, function, parts));
    }
    let rest = small.iter().map(|&number| loads[number]).fold(Load::default(), Load::plus);
    let hits = total.hits / copies as u64;
    let grain = (hits / GRAIN).max(1);
    let hit = total.with_updates as f64 / total.hits.max(1) as f64;
    let worth = Worth { copies, rest, share: hits, grain, hit };
    let mut search = Search::new(large, worth);
    let placed = search.run();

    let mut filled = search.loads(&placed);
    let mut shares: Vec<Shares> = vec![Shares::whole(copies, 0); loads.len()];
    let edges = |number: usize| program.functions()[number].dag().graph().edge_count() as f64;
    let all_edges: f64 = small.iter().map(|&number| edges(number)).sum();
    let unforeseen = UNFORESEEN * worth.mixed(total) as f64 / all_edges.max(1.0);
    let weight = |number: usize| {
        worth.mixed(loads[number]).saturating_add((edges(number) * unforeseen) as u64)
    };
    let mut weights: Vec<u64> = filled.iter().map(|&load| worth.mixed(load)).collect();
    small.sort_by_key(|&number| (Reverse(weight(number)), number));
    let target = worth.target(&filled);
    for number in small {
        let load = loads[number];
        // Hits matter where they make the worst copy worse.
        let home = (0..copies).min_by_key(|&copy| {
            let after = filled[copy].plus(load);
            let hits = if load.hits == 0 { 0 } else { after.hits.max(target).div_ceil(grain) };
            (hits, weights[copy])
        });
        let home = home.unwrap_or(0);
        filled[home] = filled[home].plus(load);
        weights[home] = weights[home].saturating_add(weight(number));
        shares[number] = Shares::whole(copies, home);
    }
    // Entries are counted where there is least to do.
    let mut by_load: Vec<usize> = (0..copies).collect();
    by_load.sort_by_key(|&copy| filled[copy].with_updates);
    for (large, sets) in search.large().iter().zip(&placed) {
        let edges: Vec<EdgeSet> = sets.iter().map(|&set| large.edges(set)).collect();
        let mut its = Shares::of_edges(large.function, &edges, Placing::Moved);
        let having = by_load.iter().copied().find(|&copy| its.interests[copy].is_some());
        its.entries_in = having.unwrap_or(0);
        shares[large.number] = its;
    }
    shares
}
