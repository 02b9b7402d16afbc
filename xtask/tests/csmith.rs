//! A handful of random programs behave as clang alone makes them, at both
//! levels of optimisation. `cargo xtask fuzz csmith` runs hundreds.

use xtask::csmith::{self, Level, Verdict};
use xtask::workspace::{self, Profile};

#[test]
fn random_programs_print_the_same_and_their_profiles_are_their_logs() {
    let tool = workspace::build_tool(Profile::Dev).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (seed, level) in [
        (3, Level::Zero),
        (3, Level::Two),
        (10, Level::Zero),
        (12, Level::Two),
        (4, Level::Zero),
        (25, Level::Two),
    ] {
        let verdict = csmith::compare(&tool, &folder.path().join("x"), seed, level, 60).unwrap();
        assert_eq!(verdict, Verdict::Equal, "seed {seed} at {level:?}");
    }
}
