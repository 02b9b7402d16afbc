//! Slow twins of the algorithms of `graph`, each written from the definition.

use std::collections::BTreeSet;

use backtrail_graph::{Digraph, Edge, Index, PathDag};

/// The nodes that can be reached from `root` without going through `without`.
pub fn reached<N: Index>(graph: &Digraph<N>, root: N, without: Option<N>) -> BTreeSet<N> {
    let mut reached = BTreeSet::new();
    let mut work = vec![root];
    while let Some(node) = work.pop() {
        if Some(node) != without && reached.insert(node) {
            work.extend(graph.successors(node));
        }
    }
    reached
}

/// Whether `above` dominates `below`: without it, `below` is out of reach.
pub fn dominates<N: Index>(graph: &Digraph<N>, root: N, above: N, below: N) -> bool {
    let before = reached(graph, root, None);
    before.contains(&above)
        && before.contains(&below)
        && !reached(graph, root, Some(above)).contains(&below)
}

/// The immediate dominator: the strict dominator that all others dominate.
pub fn immediate_dominator<N: Index>(graph: &Digraph<N>, root: N, node: N) -> Option<N> {
    let strict = |&above: &N| above != node && dominates(graph, root, above, node);
    let above: Vec<N> = graph.nodes().filter(strict).collect();
    let nearest = |&a: &N| above.iter().all(|&b| dominates(graph, root, b, a));
    above.iter().copied().find(nearest)
}

/// Whether each of two nodes can be reached from the other.
pub fn connected<N: Index>(graph: &Digraph<N>, a: N, b: N) -> bool {
    reached(graph, a, None).contains(&b) && reached(graph, b, None).contains(&a)
}

/// Whether some of the nodes reached from `root` lie on a cycle that takes none
/// of the edges in `without`.
pub fn has_cycle<N: Index>(graph: &Digraph<N>, root: N, without: &BTreeSet<Edge>) -> bool {
    let kept = graph.edges().filter(|edge| !without.contains(edge));
    let ends = kept.map(|edge| (graph.source(edge), graph.target(edge)));
    let rest = Digraph::new(graph.node_count(), ends);
    let on_cycle =
        |node: &N| rest.successors(*node).any(|next| reached(&rest, next, None).contains(node));
    reached(graph, root, None).iter().any(on_cycle)
}

/// Every path from ENTRY to EXIT, as the edges of the graph it takes; none if
/// there are more than `limit`.
pub fn paths(dag: &PathDag, limit: usize) -> Option<Vec<Vec<Edge>>> {
    let mut found = Vec::new();
    let mut work = vec![(dag.entry(), Vec::new())];
    while let Some((node, path)) = work.pop() {
        if node == dag.exit() {
            found.push(path);
            if found.len() > limit {
                return None;
            }
            continue;
        }
        for &edge in dag.graph().out_edges(node).iter().rev() {
            let mut longer = path.clone();
            longer.push(edge);
            work.push((dag.graph().target(edge), longer));
        }
    }
    Some(found)
}

/// The pieces that walks through a control-flow graph are divided into, told
/// without any acyclic graph: a piece begins at the start of the walk or behind
/// one of the `back` edges, and ends where the walk must or with such an edge.
/// Each is given as whether it begins at the start of the walk, its first node,
/// the edges it takes, and the back edge it ends with.
pub fn walked_pieces<N: Index>(
    graph: &Digraph<N>,
    first: N,
    back: &BTreeSet<Edge>,
) -> BTreeSet<(bool, N, Vec<Edge>, Option<Edge>)> {
    let mut pieces = BTreeSet::new();
    let mut begun = BTreeSet::new();
    let mut starts = vec![(true, first)];
    while let Some((at_entry, start)) = starts.pop() {
        if !begun.insert((at_entry, start)) {
            continue;
        }
        let mut work = vec![(start, Vec::new())];
        while let Some((node, path)) = work.pop() {
            if graph.out_edges(node).is_empty() {
                pieces.insert((at_entry, start, path.clone(), None));
            }
            for &edge in graph.out_edges(node) {
                if back.contains(&edge) {
                    pieces.insert((at_entry, start, path.clone(), Some(edge)));
                    starts.push((false, graph.target(edge)));
                } else {
                    let mut longer = path.clone();
                    longer.push(edge);
                    work.push((graph.target(edge), longer));
                }
            }
        }
    }
    pieces
}
