//! Profiles of one build add up; others are refused by name.

use backtrail_profile::Error;
use backtrail_profile::derived::Counts;
use backtrail_profile::merge::{merge, merge_all};
use backtrail_testkit::random_profile::{program, run};

#[test]
fn the_sum_counts_what_all_runs_executed() {
    for seed in 0..300 {
        let program = program(seed, 4, 10);
        let runs: Vec<_> = (0..4).map(|number| run(&program, seed * 10 + number)).collect();
        let sum = merge_all(runs.iter().map(|run| run.0.clone())).unwrap().unwrap();
        let backwards = merge_all(runs.iter().rev().map(|run| run.0.clone())).unwrap().unwrap();
        assert_eq!(sum, backwards);
        assert_eq!(sum.processes, 4);
        for (number, function) in sum.functions.iter().enumerate() {
            let parts = || runs.iter().map(|run| &run.0.functions[number]);
            assert_eq!(function.entries, parts().map(|part| part.entries).sum::<u64>());
            assert_eq!(function.unfinished, parts().map(|part| part.unfinished).sum::<u64>());
            assert_eq!(function.edges_exact, parts().all(|part| part.edges_exact));
            if function.edges_exact {
                let blocks = Counts::of(function).blocks;
                for (block, &count) in blocks.iter().enumerate() {
                    let executed = runs.iter().map(|run| run.1[number].blocks[block]).sum();
                    assert_eq!(count, executed, "{seed}");
                }
            }
        }
    }
}

#[test]
fn reasons_for_incompleteness_are_kept_once() {
    let program = program(1, 2, 4);
    let mut a = run(&program, 1).0;
    let mut b = run(&program, 2).0;
    a.incomplete = vec!["the disk was full".to_owned()];
    b.incomplete = vec!["a kill".to_owned(), "the disk was full".to_owned()];
    assert_eq!(merge(a, &b).unwrap().incomplete, ["a kill", "the disk was full"]);
}

#[test]
fn another_build_is_refused_by_name() {
    let a = run(&program(1, 2, 4), 1).0;
    let mut b = run(&program(2, 2, 4), 1).0;
    b.build_id.clear();
    let error = merge(a.clone(), &b).unwrap_err().to_string();
    assert!(error.contains("program1 (build id 00") && error.contains("program2 (build id none)"));

    // One that claims to be of the same build is believed only if it is.
    b.layout = a.layout;
    assert!(matches!(merge(a, &b), Err(Error::Invalid { .. })));
}

#[test]
fn a_sum_that_does_not_fit_is_an_error() {
    let mut a = run(&program(1, 2, 4), 1).0;
    a.incomplete = vec!["why".to_owned()];
    a.functions.iter_mut().find(|f| f.is_instrumented()).unwrap().entries = u64::MAX - 1_000_000;
    assert!(matches!(merge(a.clone(), &a), Err(Error::Overflow { .. })));
    let mut b = run(&program(1, 2, 4), 1).0;
    b.processes = u64::MAX;
    assert!(matches!(merge(b.clone(), &b), Err(Error::Overflow { .. })));
}
