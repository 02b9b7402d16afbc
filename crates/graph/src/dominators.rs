//! The dominator tree.
//!
//! A node dominates another if every path from the root to the other goes
//! through it. The algorithm is Semi-NCA (Georgiadis, *Linear-Time Algorithms
//! for Dominators and Related Problems*, 2005, section 2.3): semidominators as
//! Lengauer and Tarjan compute them, then each immediate dominator as the
//! nearest common ancestor of semidominator and parent. O(n²) at worst in the
//! last step, close to linear on the graphs of programs; no recursion.
//!
//! For post-dominators, give the reversed graph with a node that every exit
//! leads to as the root.

use crate::depth_first::DepthFirst;
use crate::digraph::Digraph;
use crate::index::Index;

/// The dominator tree of the nodes that can be reached from a root.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dominators<N> {
    immediate: Vec<Option<N>>,
    /// For each node the range of its subtree's numbers, empty if not reached.
    subtree: Vec<(u32, u32)>,
}

impl<N: Index> Dominators<N> {
    /// Computes the dominators of `graph` from `root`.
    pub fn new(graph: &Digraph<N>, root: N) -> Self {
        let search = DepthFirst::new(graph, root);
        let order = search.preorder();
        let above = immediate_numbers(graph, &search);

        let mut immediate = vec![None; graph.node_count()];
        for (number, &node) in order.iter().enumerate().skip(1) {
            immediate[node.position()] = Some(order[above[number]]);
        }

        // Sizes of subtrees bottom-up (a dominator comes before what it
        // dominates in preorder), then ranges top-down.
        let mut sizes = vec![1u32; order.len()];
        for number in (1..order.len()).rev() {
            sizes[above[number]] += sizes[number];
        }
        let mut subtree = vec![(0, 0); graph.node_count()];
        let mut next_child = vec![0u32; order.len()];
        for (number, &node) in order.iter().enumerate() {
            let first = if number == 0 { 0 } else { next_child[above[number]] };
            if number > 0 {
                next_child[above[number]] += sizes[number];
            }
            next_child[number] = first + 1;
            subtree[node.position()] = (first, first + sizes[number]);
        }
        Self { immediate, subtree }
    }

    /// The immediate dominator of `node`: none for the root and for what cannot
    /// be reached.
    pub fn immediate(&self, node: N) -> Option<N> {
        self.immediate[node.position()]
    }

    /// Whether `node` can be reached from the root.
    pub fn is_reached(&self, node: N) -> bool {
        let (first, end) = self.subtree[node.position()];
        first < end
    }

    /// Whether `above` dominates `below`; every reached node dominates itself.
    /// False if either cannot be reached. O(1).
    pub fn dominates(&self, above: N, below: N) -> bool {
        let (first, end) = self.subtree[above.position()];
        let (number, number_end) = self.subtree[below.position()];
        number < number_end && first <= number && number < end
    }
}

/// For each preorder number that of the immediate dominator; the root's is its own.
fn immediate_numbers<N: Index>(graph: &Digraph<N>, search: &DepthFirst<N>) -> Vec<usize> {
    let order = search.preorder();
    let number = |node| search.preorder_number(node);
    let tree_parent = |node| search.tree_edge(node).and_then(|edge| number(graph.source(edge)));
    let parents: Vec<usize> = order.iter().map(|&node| tree_parent(node).unwrap_or(0)).collect();

    let mut forest = Forest {
        ancestor: parents.clone(),
        best: (0..order.len()).collect(),
        semi: (0..order.len()).collect(),
        path: Vec::new(),
    };
    for current in (1..order.len()).rev() {
        let mut semi = parents[current];
        for predecessor in graph.predecessors(order[current]).filter_map(number) {
            let best = forest.best_above(predecessor, current + 1);
            semi = semi.min(forest.semi[best]);
        }
        forest.semi[current] = semi;
    }

    let mut above = parents;
    for current in 1..order.len() {
        while above[current] > forest.semi[current] {
            above[current] = above[above[current]];
        }
    }
    above
}

/// The part of the search tree that is done, as trees whose paths get shorter
/// each time they are asked for.
struct Forest {
    ancestor: Vec<usize>,
    /// Of the compressed path to the ancestor, the node of least semidominator.
    best: Vec<usize>,
    semi: Vec<usize>,
    path: Vec<usize>,
}

impl Forest {
    /// The node of least semidominator on the tree path from `node` up to, not
    /// including, the first node below `linked`; `node` itself if it is below.
    fn best_above(&mut self, node: usize, linked: usize) -> usize {
        let mut top = node;
        while self.ancestor[top] >= linked {
            self.path.push(top);
            top = self.ancestor[top];
        }
        while let Some(lower) = self.path.pop() {
            if self.semi[self.best[top]] < self.semi[self.best[lower]] {
                self.best[lower] = self.best[top];
            }
            self.ancestor[lower] = self.ancestor[top];
            top = lower;
        }
        self.best[node]
    }
}
