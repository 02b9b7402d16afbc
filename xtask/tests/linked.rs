//! A part of `cargo xtask fuzz linked`, the same each time: programs written by hand that
//! code outside of their units calls into or overrides, and some that are drawn.

use std::path::Path;

use xtask::linked::Place;
use xtask::linked::trial::{self, Found};
use xtask::workspace::{self, Profile};

/// Programs that together have wrappers and dlsym, tables and virtual calls, streams and
/// static linking, a library and its callbacks.
const NUMBERS: [u64; 4] = [2, 16, 4, 11];

fn place(folder: &Path) -> Place {
    Place::new(workspace::build_tool(Profile::Dev).unwrap(), folder.to_owned(), 1)
}

/// All are programs, everything was looked at, and nothing is wrong.
fn assert_right(found: &[Found]) {
    let wrong: Vec<String> = found
        .iter()
        .flat_map(|it| it.wrong().map(move |(way, verdict)| (it, way, verdict)))
        .map(|(it, way, verdict)| format!("{:?} {way}: {}", it.features, verdict.shown()))
        .collect();
    for it in found {
        assert_eq!(it.unfit, None, "{:?}", it.features);
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    for it in found {
        let traced = trial::ways().into_iter().filter(|way| !way.starts_with("autopsy"));
        for way in traced {
            assert!(it.verdicts.contains_key(way), "{way} of {:?}", it.features);
        }
        assert!(it.blocks >= 2, "{:?}", it.features);
    }
}

#[test]
fn programs_written_by_hand_are_as_their_logs() {
    let folder = tempfile::tempdir().unwrap();
    let found = place(folder.path()).try_rows().unwrap();
    assert_eq!(found.len(), 16);
    assert!(found.iter().any(|it| it.verdicts.contains_key("autopsy of full")));
    assert_right(&found);
}

#[test]
fn random_programs_are_as_their_logs() {
    let folder = tempfile::tempdir().unwrap();
    let place = place(folder.path());
    for number in NUMBERS {
        let found = place.try_numbers(number..number + 1).unwrap();
        assert!(found[0].verdicts.contains_key("autopsy of full"), "{:?}", found[0].features);
        assert_right(&found);
    }
}
