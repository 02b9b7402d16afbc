//! What follows from some points having been reached, and others not.
//!
//! The walks that are possible avoid the points that were not reached. A point was
//! not reached if no such walk goes through it; and it was reached if all walks
//! through some point that was reached go through it: it dominates that point, or
//! post-dominates it. Both are exact as far as one walk at a time is looked at, and
//! neither can be wrong as long as what it starts from is right.

use backtrail_graph::{Digraph, Dominators, Index};

use crate::evidence::Seen;
use crate::points::{Point, Points};

/// What the probes of a point say: `None` if it has none or it cannot be read.
pub type Bits = Vec<Option<bool>>;

/// The possible walks from the entry to some ends.
struct Walks {
    /// Whether a point is on one of them.
    on: Vec<bool>,
    /// From the entry, ends or not.
    dominators: Dominators<Point>,
    /// To the ends, among the points of walks; the last node stands for all ends.
    after: Dominators<Point>,
    last: Point,
}

impl Walks {
    fn new(points: &Points, open: &[bool], ends: &dyn Fn(Point) -> bool) -> Self {
        let count = points.data.len();
        let flow = &points.flow;
        let is_open = |point: Point| open[point.position()];
        let between = |edge: &backtrail_graph::Edge| {
            is_open(flow.source(*edge)) && is_open(flow.target(*edge))
        };
        let edges: Vec<(Point, Point)> = flow
            .edges()
            .filter(between)
            .map(|edge| (flow.source(edge), flow.target(edge)))
            .collect();
        let forward = Digraph::new(count, edges.iter().copied());
        let dominators = Dominators::new(&forward, points.entry());
        let last = Point::new(count);
        let reached = |point: Point| is_open(point) && dominators.is_reached(point);
        let ending = points.data.indices().filter(|&it| reached(it) && ends(it));
        let inner = edges.iter().filter(|(from, _)| reached(*from));
        let backward: Vec<(Point, Point)> =
            ending.map(|end| (last, end)).chain(inner.map(|&(from, to)| (to, from))).collect();
        let after = Dominators::new(&Digraph::new(count + 1, backward), last);
        let on = points.data.indices().map(|it| reached(it) && after.is_reached(it)).collect();
        Self { on, dominators, after, last }
    }

    /// Marks what all walks through `point` go through.
    fn mark_with(&self, point: Point, found: &mut [bool]) {
        let mut here = Some(point);
        while let Some(above) = here {
            found[above.position()] = true;
            here = self.dominators.immediate(above);
        }
        let mut here = Some(point);
        while let Some(below) = here.filter(|it| *it != self.last) {
            found[below.position()] = true;
            here = self.after.immediate(below);
        }
    }

    /// Marks what comes before `point` on all walks to it.
    fn mark_before(&self, point: Point, found: &mut [bool]) {
        let mut here = Some(point);
        while let Some(above) = here {
            found[above.position()] = true;
            here = self.dominators.immediate(above);
        }
    }
}

/// A live activation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Live {
    /// Where it may be.
    pub at: Vec<Point>,
    /// What it reached.
    pub reached: Vec<Seen>,
}

impl Live {
    /// What a live activation, which is at one of the points `at`, reached; by what
    /// all activations together did, and by its own marks.
    pub fn new(points: &Points, at: Vec<Point>, anywhere: &Bits, here: &Bits) -> Self {
        let count = points.data.len();
        // Where it stands, the probe may be yet to come.
        let open: Vec<bool> = points
            .data
            .indices()
            .map(|it| {
                let is_zero = |bits: &Bits| bits[it.position()] == Some(false);
                at.contains(&it) || !is_zero(anywhere) && !is_zero(here)
            })
            .collect();
        let walks = Walks::new(points, &open, &|point| at.contains(&point));
        let mut reached = vec![Seen::Unknown; count];
        if at.is_empty() || !walks.on[0] {
            return Self { at, reached };
        }
        let mut yes = vec![false; count];
        for point in points.data.indices().filter(|it| walks.on[it.position()]) {
            if here[point.position()] == Some(true) {
                walks.mark_with(point, &mut yes);
            }
        }
        walks.mark_with(points.entry(), &mut yes);
        for (number, seen) in reached.iter_mut().enumerate() {
            *seen = match (yes[number], walks.on[number]) {
                (true, _) => Seen::Yes,
                (false, true) => Seen::Unknown,
                (false, false) => Seen::No,
            };
        }
        Self { at, reached }
    }
}

/// What any activation reached: by the bytes, by what those reached that are still
/// alive, and by whether these are `all` that are.
pub fn reached_anywhere(points: &Points, anywhere: &Bits, live: &[Live], all: bool) -> Vec<Seen> {
    let count = points.data.len();
    let stands = |point: Point| live.iter().any(|it| it.at.contains(&point));
    let bit = |point: Point| anywhere[point.position()];
    let open: Vec<bool> =
        points.data.indices().map(|it| bit(it) != Some(false) || stands(it)).collect();
    let walks = Walks::new(points, &open, &|point| points.ends[point.position()]);
    let mut yes = vec![false; count];
    for point in points.data.indices().filter(|&it| bit(it) == Some(true)) {
        let is_no = |it: &Live| it.reached[point.position()] == Seen::No;
        yes[point.position()] = true;
        if !walks.dominators.is_reached(point) {
            continue;
        }
        match all && live.iter().all(is_no) && walks.on[point.position()] {
            // By one that is over.
            true => walks.mark_with(point, &mut yes),
            false => walks.mark_before(point, &mut yes),
        }
    }
    let seen = |point: Point| {
        let number = point.position();
        let is = |wanted: Seen| move |it: &Live| it.reached[number] == wanted;
        let came = open[number] && walks.dominators.is_reached(point);
        if yes[number] || live.iter().any(is(Seen::Yes)) {
            Seen::Yes
        } else if !came || !walks.on[number] && all && live.iter().all(is(Seen::No)) {
            Seen::No
        } else {
            Seen::Unknown
        }
    };
    points.data.indices().map(seen).collect()
}
