//! Tasks to copies.
//!
//! Longest processing time first (Graham, *Bounds on Multiprocessing Timing
//! Anomalies*, 1969): tasks by decreasing cost, each to the copy that has least
//! so far. The greatest load is at most 4/3 of the least possible one. Among
//! copies of equal load that with the fewest tasks comes first, so that tasks
//! that cost nothing are spread, too. Cost O(tasks · (log tasks + copies)).

use std::cmp::Reverse;

/// The copy of each task, given what each costs.
pub fn assign_by_size(costs: &[u64], copies: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&task| Reverse(costs[task]));
    let mut loads = vec![(0u64, 0usize); copies];
    let mut homes = vec![0; costs.len()];
    for task in order {
        let home = (0..copies).min_by_key(|&copy| loads[copy]).unwrap_or_default();
        loads[home].0 = loads[home].0.saturating_add(costs[task]);
        loads[home].1 += 1;
        homes[task] = home;
    }
    homes
}
