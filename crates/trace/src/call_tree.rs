//! The call tree of a trace: who was called by whom, how often, and how many
//! blocks were executed there.
//!
//! One node for each different stack of functions. Where a recursion goes deeper
//! than [`DEEPEST`], what is below counts for the node at that depth, so that the
//! tree stays small.
//!
//! Cost: a table lookup for each call, memory in proportion to the nodes.

use std::collections::HashMap;

use crate::file::{Legend, Step};

/// The deepest nodes.
pub const DEEPEST: usize = 400;

/// A function in the tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallNode {
    /// By position in [`Legend::functions`]; `u32::MAX` is a thread.
    pub function: u32,
    /// The caller, by position; its own for a root.
    pub parent: u32,
    /// How often it was called from there.
    pub calls: u64,
    /// Blocks executed in it.
    pub own: u64,
}

/// Builds a call tree, step by step.
#[derive(Debug)]
pub struct CallTree {
    /// The function of each place, by increasing place.
    functions: Vec<(u32, u32)>,
    nodes: Vec<CallNode>,
    children: HashMap<(u32, u32), u32>,
    /// The nodes of the frames there are.
    stack: Vec<u32>,
    root: u32,
}

impl CallTree {
    /// An empty tree of a trace with this legend.
    pub fn new(legend: &Legend) -> Self {
        let functions = legend.places.iter().map(|(place, name)| (*place, name.function)).collect();
        let (nodes, children) = (Vec::new(), HashMap::new());
        Self { functions, nodes, children, stack: Vec::new(), root: 0 }
    }

    /// Begins a thread, which is a root.
    pub fn begin_thread(&mut self) {
        self.root = self.nodes.len() as u32;
        self.nodes.push(CallNode { function: u32::MAX, parent: self.root, calls: 1, own: 0 });
        self.stack.clear();
    }

    /// The next step of the thread.
    pub fn push(&mut self, step: Step) {
        let found = self.functions.binary_search_by_key(&step.place, |it| it.0);
        let function = found.map_or(u32::MAX - 1, |at| self.functions[at].1);
        let enters = step.enters || self.stack.is_empty();
        let below = (step.depth as usize).saturating_sub(usize::from(step.enters));
        self.stack.truncate(below);
        if enters {
            let parent = self.stack.last().copied().unwrap_or(self.root);
            let node = if self.stack.len() >= DEEPEST {
                parent
            } else {
                *self.children.entry((parent, function)).or_insert_with(|| {
                    self.nodes.push(CallNode { function, parent, calls: 0, own: 0 });
                    self.nodes.len() as u32 - 1
                })
            };
            self.nodes[node as usize].calls += u64::from(step.enters);
            self.stack.push(node);
        }
        let node = self.stack.last().copied().unwrap_or(self.root);
        self.nodes[node as usize].own += 1;
    }

    /// The nodes, callers before those they called; and of each the blocks
    /// executed in it and below.
    pub fn finish(self) -> (Vec<CallNode>, Vec<u64>) {
        let mut totals: Vec<u64> = self.nodes.iter().map(|node| node.own).collect();
        for (number, node) in self.nodes.iter().enumerate().rev() {
            if node.parent as usize != number {
                totals[node.parent as usize] += totals[number];
            }
        }
        (self.nodes, totals)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{FunctionName, Kind, PlaceName};

    #[test]
    fn calls_and_blocks_are_counted_where_they_are() {
        let place = |function| PlaceName { function, label: 0, file: None, line: 0 };
        let legend = Legend {
            program: String::new(),
            build_id: String::new(),
            kind: Kind::Blocks,
            functions: ["main", "f", "g"].map(|name| FunctionName { name: name.into() }).into(),
            files: Vec::new(),
            places: vec![(0, place(0)), (1, place(1)), (2, place(2)), (3, place(0))],
            incomplete: Vec::new(),
            inlined: Default::default(),
        };
        let mut tree = CallTree::new(&legend);
        tree.begin_thread();
        // main, f twice, the second time with g in it, g from main, main.
        let steps =
            [(0, 1, true), (1, 2, true), (1, 2, true), (2, 3, true), (2, 2, true), (3, 1, false)];
        for (place, depth, enters) in steps {
            tree.push(Step { place, depth, enters });
        }
        let (nodes, totals) = tree.finish();
        let found: Vec<(u32, u32, u64, u64)> =
            nodes.iter().map(|it| (it.function, it.parent, it.calls, it.own)).collect();
        let expected =
            [(u32::MAX, 0, 1, 0), (0, 0, 1, 2), (1, 1, 2, 2), (2, 2, 1, 1), (2, 1, 1, 1)];
        assert_eq!(found, expected);
        assert_eq!(totals, [6, 6, 3, 1, 1]);
    }

    #[test]
    fn a_deep_recursion_stays_small() {
        let name = PlaceName { function: 0, label: 0, file: None, line: 0 };
        let legend = Legend {
            program: String::new(),
            build_id: String::new(),
            kind: Kind::Code,
            functions: vec![FunctionName { name: "f".into() }],
            files: Vec::new(),
            places: vec![(0, name)],
            incomplete: Vec::new(),
            inlined: Default::default(),
        };
        let mut tree = CallTree::new(&legend);
        tree.begin_thread();
        for depth in 1..5000 {
            tree.push(Step { place: 0, depth, enters: true });
        }
        let (nodes, totals) = tree.finish();
        assert_eq!(nodes.len(), DEEPEST + 1);
        assert_eq!(totals[0], 4999);
        assert_eq!(nodes.iter().map(|it| it.calls).sum::<u64>(), 5000);
    }
}
