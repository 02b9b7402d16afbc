//! Which routine each block is of.
//!
//! Heads own themselves. Any other block is owned by the head that owns all
//! blocks before it; where these have different owners, the block is a head, too.
//! That is to say: with a root that leads to all heads, blocks that only the root
//! dominates are heads, and any other is owned by the uppermost of its dominators
//! below the root.
//!
//! What no head leads to is dead, as far as is known, such as the padding that a
//! part of a function may begin with. It gets heads of its own, and what it leads to
//! is not shared for that reason.

use std::collections::BTreeSet;

use backtrail_graph::{Digraph, Dominators, Index as _};
use backtrail_ir::Block as Node;

/// The head that owns each block, by number.
pub(super) fn owners(followers: &[Vec<usize>], heads: &BTreeSet<usize>) -> Vec<usize> {
    let root = Node::new(followers.len());
    let mut heads: Vec<usize> = heads.iter().copied().collect();
    let mut is_reached = vec![false; followers.len()];
    let mut edges: Vec<(Node, Node)> = Vec::new();
    let mut dead = 0;
    loop {
        // Only what was not reached before follows from later heads.
        let mut waiting = std::mem::take(&mut heads);
        edges.extend(waiting.iter().map(|&head| (root, Node::new(head))));
        let before = is_reached.clone();
        while let Some(block) = waiting.pop() {
            if !std::mem::replace(&mut is_reached[block], true) {
                let new = followers[block].iter().copied().filter(|&next| !before[next]);
                edges.extend(new.clone().map(|next| (Node::new(block), Node::new(next))));
                waiting.extend(new);
            }
        }
        while is_reached.get(dead) == Some(&true) {
            dead += 1;
        }
        if dead == followers.len() {
            break;
        }
        heads.push(dead);
    }
    let graph = Digraph::new(followers.len() + 1, edges);
    let dominators = Dominators::new(&graph, root);
    let mut owner = vec![usize::MAX; followers.len()];
    for block in 0..followers.len() {
        let mut chain = vec![block];
        let found = loop {
            let last = chain[chain.len() - 1];
            if owner[last] != usize::MAX {
                break owner[last];
            }
            match dominators.immediate(Node::new(last)) {
                Some(above) if above != root => chain.push(above.position()),
                _ => break last,
            }
        };
        chain.into_iter().for_each(|block| owner[block] = found);
    }
    owner
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shared_tails_become_routines() {
        // 0 → 2, 1 → 2, 2 → 3, 0 → 4 → 0.
        let followers = [vec![2, 4], vec![2], vec![3], vec![], vec![0]];
        let owners = owners(&followers, &BTreeSet::from([0, 1]));
        assert_eq!(owners, [0, 1, 2, 2, 0]);
    }

    #[test]
    fn what_follows_a_shared_block_is_with_it() {
        // 0 → 1 → 2 → 3 and 5 → 4 → 2; 6 and 7 in a loop of their own.
        let followers = [vec![1], vec![2], vec![3], vec![], vec![2], vec![4], vec![7], vec![6]];
        let owners = owners(&followers, &BTreeSet::from([0, 5]));
        assert_eq!(owners, [0, 0, 2, 2, 5, 5, 6, 6]);
    }

    #[test]
    fn dead_code_shares_nothing() {
        // 0 → 2; nothing leads to 1 → 2.
        let owners = owners(&[vec![2], vec![2], vec![]], &BTreeSet::from([0]));
        assert_eq!(owners, [0, 1, 0]);
    }
}
