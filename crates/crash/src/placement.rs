//! Which points of a function are probed.
//!
//! Not every point has to be: that a point was reached follows from others.
//! Probes are of two kinds, and each is chosen by a rule of its own. In both, a
//! point that is not probed is known by probes that it *dominates*: if one of them
//! was reached, so was it. (After the superblocks of Agrawal, *Dominators, Super
//! Blocks, and Program Coverage*, POPL 1994, which also use points that come
//! before. Those say nothing of an activation that was stopped in between.)
//!
//! - *Anywhere*, a byte for all activations. A point is known if every walk that
//!   goes on from it to an end of activations meets a probe that it dominates.
//!   Whether an activation that is still alive has reached it, that one's own
//!   marks say.
//! - *Here*, marks in the frame. A live activation is somewhere, and the core says
//!   where: what dominates that place was reached, what does not lead there was
//!   not. A point is known if, wherever one can come from it without meeting a
//!   probe that it dominates, it dominates that place, too. Places at which nothing
//!   can go wrong do not count: a signal may stop a thread there, and then
//!   something is unknown, but nothing is wrong.
//!
//! Points are dropped one by one, the most frequent first, as long as the rule
//! holds for all that were dropped. What is left in a loop is moved out of it where
//! the rule lets it. Cost: a search for each point, which ends at the next probes;
//! quadratic at worst.

use std::cmp::Reverse;

use backtrail_graph::{Components, Dominators, Index};
use serde::{Deserialize, Serialize};

use crate::points::{Point, Points};

/// What of a function is to be known.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Wanted {
    /// Whether it was entered.
    pub entered: bool,
    /// Which calls were made.
    pub calls: bool,
    /// Which blocks were entered.
    pub blocks: bool,
}

impl Wanted {
    /// As a scheme names it: `cc`, `cc+bc`.
    pub fn name(self) -> String {
        let parts = [(self.entered, "fc"), (self.calls, "cc"), (self.blocks, "bc")];
        let named: Vec<&str> = parts.iter().filter(|part| part.0).map(|part| part.1).collect();
        named.join("+")
    }
}

/// The points that are probed, by number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Placement {
    /// For all activations together.
    pub anywhere: Vec<Point>,
    /// For each activation.
    pub here: Vec<Point>,
}

impl Placement {
    /// Chooses probes so that `wanted` is known; `weights` says how often each
    /// point is thought to be reached.
    pub fn new(points: &Points, wanted: Wanted, weights: &[u64]) -> Self {
        let dominators = Dominators::new(&points.flow, points.entry());
        let reached = |point: &Point| dominators.is_reached(*point);
        let wants = |point: &Point| {
            let data = points.data[*point];
            wanted.calls && data.call.is_some() || wanted.blocks && data.first.is_none()
        };
        let local: Vec<Point> = points.data.indices().filter(reached).filter(wants).collect();
        let mut global = local.clone();
        if wanted.entered && !global.contains(&points.entry()) {
            global.insert(0, points.entry());
        }
        let search = |rule| Search::new(points, &dominators, weights, rule);
        let anywhere = search(Rule::Anywhere).choose(&global);
        Self { anywhere, here: search(Rule::Here).choose(&local) }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rule {
    Anywhere,
    Here,
}

struct Search<'a> {
    points: &'a Points,
    dominators: &'a Dominators<Point>,
    weights: &'a [u64],
    rule: Rule,
    chosen: Vec<bool>,
    /// The points that a search has come to, by the number of the search.
    seen: Vec<u32>,
    searches: u32,
}

impl<'a> Search<'a> {
    fn new(
        points: &'a Points,
        dominators: &'a Dominators<Point>,
        weights: &'a [u64],
        rule: Rule,
    ) -> Self {
        let count = points.data.len();
        let (chosen, seen) = (vec![false; count], vec![0; count]);
        Self { points, dominators, weights, rule, chosen, seen, searches: 0 }
    }

    fn choose(mut self, wanted: &[Point]) -> Vec<Point> {
        wanted.iter().for_each(|point| self.chosen[point.position()] = true);
        let mut order = wanted.to_vec();
        order.sort_by_key(|point| (Reverse(self.weights[point.position()]), *point));
        let mut dropped: Vec<Point> = Vec::new();
        for &point in &order {
            self.chosen[point.position()] = false;
            if self.holds(point, &dropped) {
                dropped.push(point);
            } else {
                self.chosen[point.position()] = true;
            }
        }
        if self.rule == Rule::Anywhere {
            self.leave_loops(&order, &mut dropped);
        }
        self.points.data.indices().filter(|it| self.chosen[it.position()]).collect()
    }

    /// Whether the rule holds for a point and for those that may rely on it.
    fn holds(&mut self, point: Point, dropped: &[Point]) -> bool {
        let relying = |it: &&Point| self.dominators.dominates(**it, point);
        let relying: Vec<Point> = dropped.iter().filter(relying).copied().collect();
        self.is_known(point) && relying.into_iter().all(|it| self.is_known(it))
    }

    /// Whether a point that is not probed is known.
    fn is_known(&mut self, point: Point) -> bool {
        self.searches += 1;
        let mut pending = vec![point];
        self.seen[point.position()] = self.searches;
        while let Some(here) = pending.pop() {
            let is_bad = match self.rule {
                Rule::Anywhere => self.points.ends[here.position()],
                Rule::Here => {
                    !self.points.data[here].quiet && !self.dominators.dominates(point, here)
                }
            };
            if is_bad {
                return false;
            }
            for next in self.points.flow.successors(here) {
                let tells = self.chosen[next.position()] && self.dominators.dominates(point, next);
                if !tells && self.seen[next.position()] != self.searches {
                    self.seen[next.position()] = self.searches;
                    pending.push(next);
                }
            }
        }
        true
    }

    /// Replaces probes in loops by others behind them, where that is cheaper.
    fn leave_loops(&mut self, order: &[Point], dropped: &mut Vec<Point>) {
        let components = Components::new(&self.points.flow);
        for &point in order.iter().filter(|it| self.points.flow.out_edges(**it).len() < 64) {
            if !self.chosen[point.position()] {
                continue;
            }
            let Some(behind) = self.behind_loop(point, &components) else { continue };
            let weight = |it: &Point| self.weights[it.position()];
            let added: Vec<Point> =
                behind.into_iter().filter(|it| !self.chosen[it.position()]).collect();
            if added.iter().map(weight).sum::<u64>() >= weight(&point) {
                continue;
            }
            added.iter().for_each(|it| self.chosen[it.position()] = true);
            self.chosen[point.position()] = false;
            if self.holds(point, dropped) {
                dropped.push(point);
                continue;
            }
            added.iter().for_each(|it| self.chosen[it.position()] = false);
            self.chosen[point.position()] = true;
        }
    }

    /// The first points behind the outermost loop of a point, if it is in one and
    /// dominates them all.
    fn behind_loop(&self, point: Point, components: &Components<Point>) -> Option<Vec<Point>> {
        let own = components.of(point);
        let inside = |it: Point| components.of(it) == own;
        let mut pending = vec![point];
        let mut seen = std::collections::BTreeSet::from([point]);
        let mut behind = Vec::new();
        let mut goes_round = false;
        while let Some(here) = pending.pop() {
            if self.points.ends[here.position()] {
                return None;
            }
            for next in self.points.flow.successors(here) {
                goes_round |= next == point;
                if !seen.insert(next) {
                    continue;
                }
                match inside(next) {
                    true => pending.push(next),
                    false if self.dominators.dominates(point, next) => behind.push(next),
                    false => return None,
                }
            }
        }
        goes_round.then_some(behind)
    }
}
