//! The cheapest cut between a source and a sink.
//!
//! Ford and Fulkerson with shortest augmenting paths (Edmonds and Karp, 1972):
//! O(vertices · edges²) at worst, on regions of one routine. Of the cheapest cuts
//! the one nearest to the source is given.

use std::collections::VecDeque;

/// A flow network.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// By vertex: its last edge.
    last: Vec<u32>,
    /// The reverse of an edge is next to it.
    edges: Vec<Edge>,
}

#[derive(Debug, Clone, Copy)]
struct Edge {
    to: u32,
    /// The edge before it from the same vertex.
    before: u32,
    /// What is left of the capacity.
    left: u64,
}

/// A capacity that no cut may include.
pub const UNCUTTABLE: u64 = u64::MAX / 4;

impl Network {
    /// A network without edges.
    pub fn new(vertices: usize) -> Self {
        Self { last: vec![NO_EDGE; vertices], edges: Vec::new() }
    }

    /// Without vertices and edges, but with the memory that it has.
    pub fn clear(&mut self, vertices: usize) {
        self.last.clear();
        self.last.resize(vertices, NO_EDGE);
        self.edges.clear();
    }

    /// Adds an edge and returns its number.
    pub fn add(&mut self, from: usize, to: usize, capacity: u64) -> usize {
        let number = self.edges.len();
        self.add_half(from, to, capacity);
        self.add_half(to, from, 0);
        number
    }

    fn add_half(&mut self, from: usize, to: usize, left: u64) {
        let number = self.edges.len() as u32;
        let before = std::mem::replace(&mut self.last[from], number);
        self.edges.push(Edge { to: to as u32, before, left });
    }

    /// The cost of the cheapest cut and which edges (by number) it consists of;
    /// nothing if every cut has an edge that cannot be cut.
    pub fn min_cut(&mut self, source: usize, sink: usize) -> Option<(u64, Vec<usize>)> {
        let mut total = 0u64;
        let (mut came_by, mut waiting) = (Vec::new(), VecDeque::new());
        loop {
            self.search(source, sink, &mut came_by, &mut waiting);
            if came_by[sink] == NOT_REACHED {
                let is_reached = |vertex: u32| came_by[vertex as usize] != NOT_REACHED;
                let cut = (0..self.edges.len()).step_by(2).filter(|&edge| {
                    let (to, from) = (self.edges[edge].to, self.edges[edge + 1].to);
                    is_reached(from) && !is_reached(to)
                });
                return Some((total, cut.collect()));
            }
            let mut least = u64::MAX;
            let mut vertex = sink;
            while vertex != source {
                let edge = came_by[vertex] as usize;
                least = least.min(self.edges[edge].left);
                vertex = self.edges[edge ^ 1].to as usize;
            }
            if least >= UNCUTTABLE / 2 {
                return None;
            }
            let mut vertex = sink;
            while vertex != source {
                let edge = came_by[vertex] as usize;
                self.edges[edge].left -= least;
                self.edges[edge ^ 1].left += least;
                vertex = self.edges[edge ^ 1].to as usize;
            }
            total += least;
        }
    }

    /// Finds, by vertex, the edge by which it is reached; ends at the sink.
    fn search(
        &self,
        source: usize,
        sink: usize,
        came_by: &mut Vec<u32>,
        waiting: &mut VecDeque<usize>,
    ) {
        came_by.clear();
        came_by.resize(self.last.len(), NOT_REACHED);
        came_by[source] = NO_EDGE;
        waiting.clear();
        waiting.push_back(source);
        while let Some(vertex) = waiting.pop_front() {
            let mut number = self.last[vertex];
            while number != NO_EDGE {
                let Edge { to, before, left } = self.edges[number as usize];
                let to = to as usize;
                if left > 0 && came_by[to] == NOT_REACHED {
                    came_by[to] = number;
                    if to == sink {
                        return;
                    }
                    waiting.push_back(to);
                }
                number = before;
            }
        }
    }
}

const NOT_REACHED: u32 = u32::MAX;
const NO_EDGE: u32 = u32::MAX - 1;

#[cfg(test)]
mod tests {
    use super::*;

    /// All subsets of edges, by brute force.
    fn cheapest(vertices: usize, edges: &[(usize, usize, u64)]) -> u64 {
        let reaches = |kept: u32| {
            let mut reached = vec![false; vertices];
            reached[0] = true;
            for _ in 0..vertices {
                for (number, &(from, to, _)) in edges.iter().enumerate() {
                    if kept >> number & 1 == 1 && reached[from] {
                        reached[to] = true;
                    }
                }
            }
            reached[vertices - 1]
        };
        let cost = |kept: u32| {
            let cut = edges.iter().enumerate().filter(|(number, _)| kept >> number & 1 == 0);
            cut.map(|(_, edge)| edge.2).sum::<u64>()
        };
        (0..1u32 << edges.len()).filter(|&kept| !reaches(kept)).map(cost).min().unwrap()
    }

    #[test]
    fn the_cut_is_the_cheapest_and_cuts() {
        for seed in 0..300 {
            let mut rng = fastrand::Rng::with_seed(seed);
            let vertices = rng.usize(2..6);
            let edges: Vec<(usize, usize, u64)> = (0..rng.usize(1..11))
                .map(|_| (rng.usize(0..vertices), rng.usize(0..vertices), rng.u64(0..9)))
                .collect();
            let mut network = Network::new(vertices);
            for &(from, to, capacity) in &edges {
                network.add(from, to, capacity);
            }
            let (cost, cut) = network.min_cut(0, vertices - 1).unwrap();
            assert_eq!(cost, cheapest(vertices, &edges), "seed {seed}");
            assert_eq!(cost, cut.iter().map(|edge| edges[edge / 2].2).sum::<u64>());
        }
    }

    #[test]
    fn what_cannot_be_cut_is_not() {
        let mut network = Network::new(3);
        network.add(0, 1, UNCUTTABLE);
        network.add(1, 2, UNCUTTABLE);
        assert!(network.min_cut(0, 2).is_none());
    }
}
