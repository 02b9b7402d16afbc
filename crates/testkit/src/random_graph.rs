//! Random control-flow graphs.
//!
//! Reducible ones are made as compilers make them, by nesting sequences,
//! branches and loops; the others by throwing edges. Both may have parallel
//! edges, self loops and blocks that cannot be reached.

use backtrail_graph::{Digraph, Index, define_index};
use fastrand::Rng;

define_index!(
    /// A node of a random graph. The first is the entry.
    Node, "n"
);

/// What a random graph looks like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// Made of nested sequences, branches and loops with one entry each.
    Reducible,
    /// Any edges: mostly irreducible.
    Any,
    /// Any edges that lead from a lower to a higher node.
    Acyclic,
}

/// Every shape.
pub const SHAPES: [Shape; 3] = [Shape::Reducible, Shape::Any, Shape::Acyclic];

/// A graph of `shape` with roughly `size` nodes, at least one, which depends on
/// the seed alone.
pub fn graph(seed: u64, shape: Shape, size: usize) -> Digraph<Node> {
    let (nodes, edges) = edges(&mut Rng::with_seed(seed), shape, size);
    Digraph::new(nodes, edges.into_iter().map(|(from, to)| (Node::new(from), Node::new(to))))
}

/// The number of nodes and the edges of a random graph.
pub fn edges(rng: &mut Rng, shape: Shape, size: usize) -> (usize, Vec<(usize, usize)>) {
    let size = size.max(1);
    match shape {
        Shape::Reducible => {
            let mut builder = Builder { rng, edges: Vec::new(), nodes: 1 };
            builder.nested(0, size);
            builder.unreachable();
            (builder.nodes, builder.edges)
        }
        Shape::Any => {
            // Few edges alone would mostly leave nearly everything out of reach.
            let connected = rng.bool();
            let mut edges = Vec::new();
            for node in (1..size).filter(|_| connected) {
                edges.push((rng.usize(0..node), node));
            }
            for _ in 0..rng.usize(0..=2 * size) {
                edges.push((rng.usize(0..size), rng.usize(0..size)));
            }
            (size, edges)
        }
        Shape::Acyclic => {
            let edges = rng.usize(0..=2 * size);
            let pairs = (0..edges).map(|_| (rng.usize(0..size), rng.usize(0..size)));
            (size, pairs.filter(|(from, to)| from < to).collect())
        }
    }
}

struct Builder<'a> {
    rng: &'a mut Rng,
    edges: Vec<(usize, usize)>,
    nodes: usize,
}

impl Builder<'_> {
    fn node_after(&mut self, from: usize) -> usize {
        self.nodes += 1;
        self.edges.push((from, self.nodes - 1));
        self.nodes - 1
    }

    /// Adds about `budget` nodes behind `from`; returns where control goes on.
    fn nested(&mut self, from: usize, budget: usize) -> usize {
        if budget < 2 {
            return from;
        }
        let part = self.rng.usize(1..budget);
        match self.rng.u8(0..7) {
            0 => self.node_after(from),
            // A branch, with or without an else.
            1 | 2 => {
                let first = self.node_after(from);
                let first_end = self.nested(first, part);
                let second = if self.rng.bool() { from } else { self.node_after(from) };
                let second_end =
                    if second == from { from } else { self.nested(second, budget - part) };
                let join = self.node_after(first_end);
                self.edges.push((second_end, join));
                join
            }
            // A loop, tested at the bottom, perhaps with further ways back.
            3 | 4 => {
                let head = self.node_after(from);
                let end = self.nested(head, part);
                self.edges.push((end, head));
                if self.rng.u8(0..4) == 0 {
                    self.edges.push((end, head));
                }
                if self.rng.u8(0..8) == 0 { end } else { self.node_after(end) }
            }
            // A way out.
            5 => {
                self.node_after(from);
                self.nested(from, budget - 1)
            }
            _ => {
                let middle = self.nested(from, part);
                self.nested(middle, budget - part)
            }
        }
    }

    /// Sometimes adds nodes that nothing leads to.
    fn unreachable(&mut self) {
        for _ in 0..self.rng.usize(0..3) {
            self.nodes += 1;
            let to = self.rng.usize(0..self.nodes);
            self.edges.push((self.nodes - 1, to));
        }
    }
}
