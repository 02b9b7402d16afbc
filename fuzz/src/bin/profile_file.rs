//! Profile files: as they are (0), or a body in a valid container (1). What is
//! read can be written, shown, exported, added up and compared.

#![no_main]

use backtrail_fuzz::{choose, chosen, container, fixtures};
use backtrail_profile::compare::compare;
use backtrail_profile::derived::compute_line_counts;
use backtrail_profile::export::{Format, Options, export};
use backtrail_profile::file::{read_profile, write_profile};
use backtrail_profile::merge::merge;
use backtrail_profile::model::Profile;
use backtrail_testkit::{random_profile, sample_profile};
use libfuzzer_sys::fuzz_target;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let Some((form, rest)) = choose(data, 2) else { return };
    let file = if form == 0 { rest.to_vec() } else { container::profile_file(rest) };
    let Ok(profile) = read_profile(&file) else { return };
    let written = write_profile(&profile).expect("what was read can be written");
    assert_eq!(read_profile(&written).as_ref(), Ok(&profile));
    use_it(&profile);
});

fn use_it(profile: &Profile) {
    compute_line_counts(profile);
    let options = Options { wanted: &|_| true, demangle: &str::to_owned };
    for format in [Format::Lcov, Format::Callgrind, Format::Autofdo, Format::Pprof, Format::Dot] {
        // A format may have no place for something: that is said, no more.
        let _ = export(profile, format, &options);
    }
    let change = compare(profile, profile);
    assert!(change.functions.is_empty(), "a profile differs from itself");
    if let Ok(sum) = merge(profile.clone(), profile) {
        assert_eq!(sum.processes, profile.processes * 2);
        // Sums that do not fit are noticed at the latest when they are written.
        let _ = write_profile(&sum);
    }
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = vec![chosen(0, &from.read("program.btprof"))];
    let read = read_profile(&inputs[0][1..]).expect("the fixture is a profile");
    let mut profiles = vec![read, sample_profile::profile("a.c")];
    for seed in 0..20 {
        let program = random_profile::program(seed, 3, 8);
        profiles.push(random_profile::run(&program, seed).0);
        profiles.push(program);
    }
    for profile in &profiles {
        inputs.push(chosen(1, &postcard::to_stdvec(profile).expect("it is plain data")));
    }
    inputs
}
