//! Depth-first search from one node: orders, and what each edge is.
//!
//! Edges are taken in the graph's order, so the result depends on the graph
//! alone. An edge is *retreating* if it leads to a node that is still under way
//! (an ancestor in the tree, or the node itself): without the retreating edges
//! what was reached is acyclic, whether the loops are reducible or not. On a
//! reducible graph these are the back edges of the natural loops.
//!
//! Cost O(nodes + edges), on a stack of our own instead of recursion.

use crate::digraph::{Digraph, Edge};
use crate::index::Index;

/// What an edge is to a search.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EdgeKind {
    /// Its target was first reached over it.
    Tree,
    /// To a node below that was reached already.
    Forward,
    /// To a node that is still under way: itself or one above.
    Retreating,
    /// To a node that was finished before its source was reached.
    Cross,
    /// Its source was not reached.
    Unreached,
}

/// The result of a search.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DepthFirst<N> {
    preorder: Vec<N>,
    postorder: Vec<N>,
    entered: Vec<u32>,
    finished: Vec<u32>,
    kinds: Vec<EdgeKind>,
    tree_edges: Vec<Option<Edge>>,
}

const NEVER: u32 = u32::MAX;

impl<N: Index> DepthFirst<N> {
    /// Searches `graph` from `root`.
    pub fn new(graph: &Digraph<N>, root: N) -> Self {
        let nodes = graph.node_count();
        let mut search = Self {
            preorder: Vec::new(),
            postorder: Vec::new(),
            entered: vec![NEVER; nodes],
            finished: vec![NEVER; nodes],
            kinds: vec![EdgeKind::Unreached; graph.edge_count()],
            tree_edges: vec![None; nodes],
        };
        // Each entry: a node under way, and how many of its edges are done.
        let mut stack = Vec::new();
        search.enter(root);
        stack.push((root, 0));
        while let Some((node, done)) = stack.last_mut() {
            let Some(&edge) = graph.out_edges(*node).get(*done) else {
                let node = *node;
                stack.pop();
                search.finished[node.position()] = search.postorder.len() as u32;
                search.postorder.push(node);
                continue;
            };
            *done += 1;
            let target = graph.target(edge);
            let kind = if search.entered[target.position()] == NEVER {
                EdgeKind::Tree
            } else if search.finished[target.position()] == NEVER {
                EdgeKind::Retreating
            } else if search.entered[target.position()] > search.entered[node.position()] {
                EdgeKind::Forward
            } else {
                EdgeKind::Cross
            };
            search.kinds[edge.position()] = kind;
            if kind == EdgeKind::Tree {
                search.tree_edges[target.position()] = Some(edge);
                search.enter(target);
                stack.push((target, 0));
            }
        }
        search
    }

    fn enter(&mut self, node: N) {
        self.entered[node.position()] = self.preorder.len() as u32;
        self.preorder.push(node);
    }

    /// The nodes reached, in the order they were reached.
    pub fn preorder(&self) -> &[N] {
        &self.preorder
    }

    /// The nodes reached, in the order they were finished. Without the
    /// retreating edges this is a reverse topological order.
    pub fn postorder(&self) -> &[N] {
        &self.postorder
    }

    /// The reverse of [`Self::postorder`]: nodes before their successors, except
    /// over retreating edges.
    pub fn reverse_postorder(&self) -> impl ExactSizeIterator<Item = N> + '_ {
        self.postorder.iter().rev().copied()
    }

    /// Whether `node` can be reached from the root.
    pub fn is_reached(&self, node: N) -> bool {
        self.entered[node.position()] != NEVER
    }

    /// The position of `node` in [`Self::preorder`].
    pub fn preorder_number(&self, node: N) -> Option<usize> {
        let number = self.entered[node.position()];
        (number != NEVER).then_some(number as usize)
    }

    /// The position of `node` in [`Self::postorder`].
    pub fn postorder_number(&self, node: N) -> Option<usize> {
        let number = self.finished[node.position()];
        (number != NEVER).then_some(number as usize)
    }

    /// The edge over which `node` was first reached.
    pub fn tree_edge(&self, node: N) -> Option<Edge> {
        self.tree_edges[node.position()]
    }

    /// What `edge` is.
    pub fn kind(&self, edge: Edge) -> EdgeKind {
        self.kinds[edge.position()]
    }

    /// The retreating edges, in the graph's order.
    pub fn retreating_edges(&self) -> impl Iterator<Item = Edge> + '_ {
        let kinds = self.kinds.iter().enumerate();
        kinds.filter(|(_, kind)| **kind == EdgeKind::Retreating).map(|(edge, _)| Edge::new(edge))
    }
}
