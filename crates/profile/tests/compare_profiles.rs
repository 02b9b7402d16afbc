//! What changed between two profiles.

use backtrail_profile::compare::compare;
use backtrail_testkit::random_profile::{program, run};
use backtrail_testkit::sample_profile;

#[test]
fn a_profile_does_not_differ_from_itself() {
    for seed in 0..100 {
        let a = run(&program(seed, 5, 10), seed).0;
        let mut b = a.clone();
        let same = compare(&a, &b);
        assert!(same.functions.is_empty() && !same.by_lines);
        let ran = a.functions.iter().filter(|function| !function.paths.is_empty()).count();
        assert_eq!(same.unchanged, ran);
        // Nor from one whose paths have to be matched by their looks.
        b.layout = [0xff; 16];
        assert_eq!((compare(&a, &b).functions.len(), compare(&a, &b).by_lines), (0, true));
    }
}

#[test]
fn what_moved_is_between_none_and_all_and_the_same_both_ways() {
    for seed in 0..100 {
        let program = program(seed, 5, 10);
        let [a, b] = [1, 2].map(|number| run(&program, 10 * seed + number).0);
        let (there, back) = (compare(&a, &b), compare(&b, &a));
        assert_eq!(there.functions.len(), back.functions.len());
        for change in &there.functions {
            assert!((0.0..=1.0).contains(&change.moved));
            let [Some(place), _] = change.functions else { panic!("one build") };
            let sum = |profile: &backtrail_profile::model::Profile| -> u64 {
                profile.functions[place].paths.iter().map(|path| path.count).sum()
            };
            assert_eq!(change.executions, [sum(&a), sum(&b)]);
            let other = back.functions.iter().find(|other| other.functions == change.functions);
            assert!((other.unwrap().moved - change.moved).abs() < 1e-9);
        }
    }
}

#[test]
fn numbers_of_a_known_change() {
    let [a, b] = [sample_profile::profile("scan.c"), sample_profile::other_profile("scan.c")];
    let comparison = compare(&a, &b);
    let [change] = &comparison.functions[..] else { panic!("one function changed") };
    assert_eq!(change.executions, [1_600_000, 1_900_000]);
    assert_eq!(change.executions_percent(), Some(18.75));
    // From 1/16 to 4/19.
    assert!((change.moved - (4.0 / 19.0 - 1.0 / 16.0)).abs() < 1e-9, "{}", change.moved);
    assert!(change.is_over(18.7) && !change.is_over(18.75));

    // A function that ran in one only has moved as a whole.
    let mut gone = b.clone();
    gone.functions.remove(0);
    gone.layout = [0; 16];
    let comparison = compare(&gone, &b);
    let [change] = &comparison.functions[..] else { panic!("one function changed") };
    assert_eq!((change.moved, change.executions_percent()), (1.0, None));
    assert!(change.is_over(1e9));
}
