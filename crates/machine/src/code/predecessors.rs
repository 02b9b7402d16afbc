//! What can come before a stretch.
//!
//! Few stretches are asked for, of all that a program has, and what can follow changes with
//! every table that is found. So nothing is kept but who jumps where; what goes on into a
//! stretch from before it is looked for when it is asked for.

use super::descent::Descent;

/// The jumps among pairs of a target and a jump, in order, that lead to `start`.
fn jumps_to(start: u64, pairs: &[(u64, u64)]) -> impl Iterator<Item = u64> {
    let first = pairs.partition_point(|pair| pair.0 < start);
    pairs[first..].iter().take_while(move |pair| pair.0 == start).map(|pair| pair.1)
}

/// What can come before stretches.
pub(crate) struct Predecessors<'a, 'b> {
    descent: &'a Descent<'b>,
    /// Targets of computed jumps, in order, and these.
    tables: Vec<(u64, u64)>,
}

impl<'a, 'b> Predecessors<'a, 'b> {
    /// As far as is known now.
    pub fn new(descent: &'a Descent<'b>) -> Self {
        let all = descent.tables.iter();
        let mut tables: Vec<(u64, u64)> =
            all.flat_map(|(&jump, targets)| targets.iter().map(move |&to| (to, jump))).collect();
        tables.sort_unstable();
        tables.dedup();
        Self { descent, tables }
    }

    /// The stretch that leads to another, if there is but one way to it.
    pub fn only_one(&self, start: u64) -> Option<u64> {
        let descent = self.descent;
        let fallen = descent.decoded.ending_at(start);
        // What goes on here if it does not jump here is among those.
        let ends_elsewhere =
            |&jump: &u64| descent.decoded.get(jump).is_none_or(|it| it.next != start);
        let jumps = jumps_to(start, descent.jumps()).chain(jumps_to(start, &self.tables));
        let jumps = jumps.filter(ends_elsewhere);
        let mut found = None;
        for last in fallen.chain(jumps) {
            for before in descent.stretches_to(last) {
                let stretch = descent.stretches.get(&before);
                let ways = stretch.into_iter().flat_map(|it| descent.successors(it));
                for _ in ways.filter(|&next| next == start) {
                    if found.replace(before).is_some() {
                        return None;
                    }
                }
            }
        }
        found
    }
}
