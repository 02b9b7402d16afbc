//! A set of edges of one graph.
//!
//! One bit per edge: sets of one graph are joined and compared word by word.

use fixedbitset::FixedBitSet;

use crate::digraph::Edge;
use crate::index::Index;

/// A set of the edges of a graph.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct EdgeSet {
    bits: FixedBitSet,
}

impl EdgeSet {
    /// No edge of a graph of `edges` edges.
    pub fn none(edges: usize) -> Self {
        Self { bits: FixedBitSet::with_capacity(edges) }
    }

    /// Every edge of a graph of `edges` edges.
    pub fn all(edges: usize) -> Self {
        let mut bits = FixedBitSet::with_capacity(edges);
        bits.insert_range(..);
        Self { bits }
    }

    /// How many edges the graph has.
    pub fn edge_count(&self) -> usize {
        self.bits.len()
    }

    /// How many are in the set.
    pub fn len(&self) -> usize {
        self.bits.count_ones(..)
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.bits.is_clear()
    }

    /// Whether every edge of the graph is.
    pub fn is_all(&self) -> bool {
        self.bits.is_full()
    }

    /// Whether `edge` is.
    pub fn contains(&self, edge: Edge) -> bool {
        self.bits.contains(edge.position())
    }

    /// Adds `edge`.
    ///
    /// # Panics
    /// If the graph has no such edge.
    pub fn insert(&mut self, edge: Edge) {
        self.bits.insert(edge.position());
    }

    /// Takes `edge` out.
    ///
    /// # Panics
    /// If the graph has no such edge.
    pub fn remove(&mut self, edge: Edge) {
        self.bits.set(edge.position(), false);
    }

    /// Adds the edges of `other`, a set of the same graph.
    pub fn union_with(&mut self, other: &Self) {
        self.bits.union_with(&other.bits);
    }

    /// Whether every edge of this set is in `other`.
    pub fn is_subset(&self, other: &Self) -> bool {
        self.bits.is_subset(&other.bits)
    }

    /// The edges, in order.
    pub fn iter(&self) -> impl Iterator<Item = Edge> + '_ {
        self.bits.ones().map(Edge::new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_what_was_put_into_it() {
        let mut set = EdgeSet::none(70);
        assert!(set.is_empty() && !set.is_all());
        for position in [69, 3, 64] {
            set.insert(Edge::new(position));
        }
        set.remove(Edge::new(3));
        assert_eq!(set.iter().map(Index::position).collect::<Vec<_>>(), [64, 69]);
        assert!(set.contains(Edge::new(69)) && !set.contains(Edge::new(3)));
        let mut all = EdgeSet::all(70);
        assert!(all.is_all() && set.is_subset(&all) && !all.is_subset(&set));
        all.remove(Edge::new(0));
        assert_eq!((all.len(), all.edge_count()), (69, 70));
        set.union_with(&all);
        assert_eq!(set, all);
        // A graph without edges has all of them.
        assert!(EdgeSet::none(0).is_all());
    }
}
