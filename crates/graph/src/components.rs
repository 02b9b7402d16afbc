//! Strongly connected components.
//!
//! Tarjan, *Depth-First Search and Linear Graph Algorithms*, 1972, on a stack
//! of our own. Components are numbered in reverse topological order: an edge
//! never leads to a component of a higher number. O(nodes + edges).

use crate::define_index;
use crate::digraph::Digraph;
use crate::index::{Index, IndexMap};

define_index!(
    /// A strongly connected component.
    Component, "scc"
);

/// The strongly connected components of a graph.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Components<N> {
    of: Vec<Component>,
    members: IndexMap<Component, Vec<N>>,
}

const NEVER: u32 = u32::MAX;

impl<N: Index> Components<N> {
    /// Computes the components of `graph`.
    pub fn new(graph: &Digraph<N>) -> Self {
        let nodes = graph.node_count();
        let mut found =
            Self { of: vec![Component::new(u32::MAX as usize); nodes], members: IndexMap::new() };
        let mut entered = vec![NEVER; nodes];
        // The least number a node of the open components can reach.
        let mut low = vec![0u32; nodes];
        let mut closed = vec![false; nodes];
        let mut next = 0;
        let mut open = Vec::new();
        let mut stack: Vec<(N, usize)> = Vec::new();
        for root in graph.nodes() {
            if entered[root.position()] != NEVER {
                continue;
            }
            stack.push((root, 0));
            while let Some((node, done)) = stack.last_mut() {
                let node = *node;
                let at = node.position();
                if *done == 0 && entered[at] == NEVER {
                    entered[at] = next;
                    low[at] = next;
                    next += 1;
                    open.push(node);
                }
                if let Some(&edge) = graph.out_edges(node).get(*done) {
                    *done += 1;
                    let target = graph.target(edge);
                    if entered[target.position()] == NEVER {
                        stack.push((target, 0));
                    } else if !closed[target.position()] {
                        low[at] = low[at].min(entered[target.position()]);
                    }
                    continue;
                }
                stack.pop();
                if let Some((parent, _)) = stack.last() {
                    low[parent.position()] = low[parent.position()].min(low[at]);
                }
                if low[at] == entered[at] {
                    let first = open.iter().rposition(|&other| other == node);
                    let mut members = open.split_off(first.expect("a node under way is open"));
                    let component = found.members.next_index();
                    for member in &members {
                        found.of[member.position()] = component;
                        closed[member.position()] = true;
                    }
                    members.sort_unstable();
                    found.members.push(members);
                }
            }
        }
        found
    }

    /// How many components there are.
    pub fn count(&self) -> usize {
        self.members.len()
    }

    /// All components, callees before callers: in reverse topological order.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = Component> + ExactSizeIterator {
        self.members.indices()
    }

    /// The component of `node`.
    pub fn of(&self, node: N) -> Component {
        self.of[node.position()]
    }

    /// The nodes of `component`, in order.
    pub fn members(&self, component: Component) -> &[N] {
        &self.members[component]
    }
}
