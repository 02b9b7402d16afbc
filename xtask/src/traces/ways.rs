//! The ways in which a program is traced.

/// One of them: options of `backtrail trace`.
pub type Way = Vec<&'static str>;

const RUNS: [&str; 6] = ["1", "2", "3", "4", "5", "6"];
const STRATEGIES: [&str; 3] = ["fine", "function", "grouped"];
const KINDS: [&str; 2] = ["edge", "node"];
const LIMITS: [&[&str]; 4] = [&[], &["--limit", "5"], &["--limit", "12"], &["--limit", "30"]];

/// Every strategy, kind of witness, limit and number of runs.
pub fn all() -> Vec<Way> {
    let mut ways: Vec<Way> =
        KINDS.map(|kind| vec!["--strategy", "single", "--witness", kind]).into();
    for runs in RUNS {
        for strategy in STRATEGIES {
            for kind in KINDS {
                let way = ["--runs", runs, "--strategy", strategy, "--witness", kind];
                ways.extend(LIMITS.map(|limit| [&way[..], limit].concat()));
            }
        }
    }
    ways
}

/// For programs of thousands of blocks, with a limit that leaves not too many
/// executions: each strategy, kind, and number of runs.
pub fn of_large(limit: &'static str) -> Vec<Way> {
    let several =
        |runs, strategy, kind| vec!["--runs", runs, "--strategy", strategy, "--witness", kind];
    vec![
        vec!["--strategy", "single"],
        vec!["--strategy", "single", "--witness", "node"],
        several("1", "fine", "edge"),
        several("2", "fine", "edge"),
        several("2", "function", "node"),
        several("3", "grouped", "edge"),
        several("3", "fine", "node"),
        several("4", "function", "edge"),
        several("4", "grouped", "node"),
        several("5", "fine", "edge"),
        several("6", "grouped", "edge"),
        several("6", "function", "node"),
        [several("1", "fine", "edge"), vec!["--limit", limit]].concat(),
        [several("3", "function", "node"), vec!["--limit", limit]].concat(),
    ]
}

/// So many of those for the program of this seed, such that programs in a row have all.
pub fn in_turns(limit: &'static str, seed: u64, count: usize) -> Vec<Way> {
    let all = of_large(limit);
    (0..count).map(|it| all[(seed as usize * count + it) % all.len()].clone()).collect()
}

/// For programs that take long to plan for: each strategy and kind, up to three runs.
pub fn of_largest() -> Vec<Way> {
    of_large("").into_iter().take(6).collect()
}

/// For a program of tens of thousands of blocks: one run by each kind, and two runs.
pub fn of_huge() -> Vec<Way> {
    let of_large = of_large("");
    [0, 1, 4].map(|it| of_large[it].clone()).into()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn all_are_different_and_come_by_turns() {
        let ways = all();
        assert_eq!(ways.iter().collect::<BTreeSet<_>>().len(), 146);
        let turned: BTreeSet<Way> = (1..=5).flat_map(|seed| in_turns("50", seed, 3)).collect();
        assert_eq!(turned.len(), of_large("50").len());
    }

    #[test]
    fn large_programs_have_every_strategy_kind_and_number_of_runs() {
        let words: BTreeSet<&str> = of_large("50").into_iter().flatten().collect();
        let wanted = STRATEGIES.into_iter().chain(KINDS).chain(RUNS).chain(["single", "50"]);
        assert!(wanted.into_iter().all(|word| words.contains(word)));
    }
}
