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
    fill_up(costs, &mut vec![0; copies])
}

/// The same for copies that have something to do already. Their loads grow.
pub fn fill_up(costs: &[u64], loads: &mut [u64]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..costs.len()).collect();
    order.sort_by_key(|&task| Reverse(costs[task]));
    let mut tasks = vec![0usize; loads.len()];
    let mut homes = vec![0; costs.len()];
    for task in order {
        let copies = 0..loads.len();
        let home = copies.min_by_key(|&copy| (loads[copy], tasks[copy])).unwrap_or_default();
        loads[home] = loads[home].saturating_add(costs[task]);
        tasks[home] += 1;
        homes[task] = home;
    }
    homes
}
