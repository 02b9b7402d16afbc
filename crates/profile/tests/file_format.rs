//! A profile file gives back the profile, or an error.

use backtrail_plan::merged::Merged;
use backtrail_profile::Error;
use backtrail_profile::file::verify::verify;
use backtrail_profile::file::{VERSION, read_profile, write_profile};
use backtrail_profile::model::{
    Begun, Decision, Edge, End, Inexact, Instrumented, PartialPath, Path, PathTotal, Profile, Start,
};
use backtrail_testkit::random_profile::{program, run};
use fastrand::Rng;

fn sample(seed: u64) -> Profile {
    run(&program(seed, 6, 10), seed).0
}

#[test]
fn what_was_written_is_read() {
    for seed in 0..200 {
        let profile = sample(seed);
        assert_eq!(read_profile(&write_profile(&profile).unwrap()).unwrap(), profile, "{seed}");
    }
}

#[test]
fn every_prefix_is_an_error_that_says_so() {
    let bytes = write_profile(&sample(1)).unwrap();
    assert_eq!(read_profile(&[]), Err(Error::NotAProfile));
    for length in 1..bytes.len() {
        let error = read_profile(&bytes[..length]).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { found, expected }
                if found == length as u64 && expected > found),
            "{length}: {error}"
        );
    }
}

#[test]
fn every_corruption_is_an_error() {
    let bytes = write_profile(&sample(2)).unwrap();
    for position in 0..bytes.len() {
        for bit in 0..8 {
            let mut bytes = bytes.clone();
            bytes[position] ^= 1 << bit;
            let error = read_profile(&bytes).unwrap_err();
            assert!(!matches!(error, Error::Invalid { .. }), "{position}: {error}");
        }
    }
    let mut rng = Rng::with_seed(3);
    for _ in 0..5_000 {
        let mut bytes = bytes.clone();
        for _ in 0..rng.usize(1..8) {
            let at = rng.usize(0..bytes.len());
            match rng.u8(0..4) {
                0 => drop(bytes.remove(at)),
                1 => bytes.insert(at, rng.u8(..)),
                2 => bytes[at..].reverse(),
                _ => bytes[at] = bytes[at].wrapping_add(rng.u8(1..)),
            }
        }
        if let Ok(read) = read_profile(&bytes) {
            assert_eq!(read, sample(2));
        }
    }
}

#[test]
fn what_is_wrong_is_told_apart() {
    let mut bytes = write_profile(&sample(4)).unwrap();
    assert_eq!(read_profile(b"\x7fELF and more of it").unwrap_err(), Error::NotAProfile);
    bytes.push(0);
    assert!(matches!(read_profile(&bytes), Err(Error::Corrupt { .. })));
    bytes[8] = 77;
    let error = read_profile(&bytes).unwrap_err();
    assert_eq!(error, Error::Version { found: 77, readable: VERSION });
}

/// A file whose checksum fits but whose body was not written by us.
fn forge(raw: &[u8], claimed: u64) -> Vec<u8> {
    let body = zstd::bulk::compress(raw, 1).unwrap();
    let mut behind = (body.len() as u64).to_le_bytes().to_vec();
    behind.extend_from_slice(&claimed.to_le_bytes());
    behind.extend_from_slice(&body);
    let mut bytes = b"BTPROF\r\n".to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(blake3::hash(&behind).as_bytes());
    bytes.extend_from_slice(&behind);
    bytes
}

#[test]
fn a_forged_body_is_no_profile_or_a_valid_one() {
    let raw = postcard::to_stdvec(&sample(5)).unwrap();
    assert_eq!(read_profile(&forge(&raw, raw.len() as u64)).unwrap(), sample(5));
    let corrupt = |bytes: &[u8]| matches!(read_profile(bytes), Err(Error::Corrupt { .. }));
    assert!(corrupt(&forge(&raw, raw.len() as u64 - 1)));
    assert!(corrupt(&forge(&raw, u64::MAX)));
    let mut rng = Rng::with_seed(6);
    let mut valid = 0;
    for _ in 0..20_000 {
        let mut raw = raw.clone();
        for _ in 0..rng.usize(1..4) {
            let at = rng.usize(0..raw.len());
            raw[at] = if rng.bool() { rng.u8(..) } else { raw[at] ^ 1 << rng.u8(0..8) };
        }
        if let Ok(profile) = read_profile(&forge(&raw, raw.len() as u64)) {
            verify(&profile).unwrap();
            // Whatever is derived from it holds, too.
            backtrail_profile::derived::compute_line_counts(&profile);
            valid += 1;
        }
    }
    assert!(valid > 100, "names can be changed: {valid}");
}

#[test]
fn every_rule_refuses_what_breaks_it() {
    let whole = (0..).map(sample).find(|profile| {
        let has = |function: &&backtrail_profile::model::Function| {
            function.paths.len() > 2 && function.paths.iter().any(|path| path.blocks.len() > 2)
        };
        profile.functions.iter().find(has).is_some()
    });
    let whole = whole.unwrap();
    let at = whole
        .functions
        .iter()
        .position(|f| f.paths.len() > 2 && f.paths.iter().any(|path| path.blocks.len() > 2))
        .unwrap();
    let long = whole.functions[at].paths.iter().position(|path| path.blocks.len() > 2).unwrap();
    type Break = fn(&mut Profile, usize, usize);
    let rules: &[(&str, Break)] = &[
        ("is in file", |p, _, _| p.files.clear()),
        ("is inlined at a later", |p, _, _| p.locations[0].inlined_at = Some(0)),
        ("a location that", |p, f, _| p.functions[f].location = Some(1 << 30)),
        ("a location that", |p, f, _| p.functions[f].blocks[0].locations.push(u32::MAX)),
        ("an edge between", |p, f, _| p.functions[f].edges[0].to = u32::MAX),
        ("edges out of order", |p, f, _| p.functions[f].edges.reverse()),
        ("was not instrumented", |p, f, _| {
            p.functions[f].instrumented = Instrumented::No("why".to_owned());
        }),
        ("paths out of order", |p, f, _| p.functions[f].paths.reverse()),
        ("was never taken", |p, f, l| p.functions[f].paths[l].count = 0),
        ("without blocks", |p, f, l| p.functions[f].paths[l].blocks.clear()),
        ("a block that does not exist", |p, f, l| p.functions[f].paths[l].blocks[0] = u32::MAX),
        ("no edge does", |p, f, l| {
            let step = (p.functions[f].paths[l].blocks[0], p.functions[f].paths[l].blocks[1]);
            p.functions[f].edges.retain(|edge| (edge.from, edge.to) != step);
        }),
        ("no edge does", |p, f, l| p.functions[f].paths[l].ends = End::Loop(u32::MAX)),
        ("activations began", |p, f, _| p.functions[f].entries += 1),
        ("64 bits", |p, f, l| {
            p.incomplete.push("why".to_owned());
            p.functions[f].paths[l].count = u64::MAX;
        }),
        ("64 bits", |p, f, _| {
            p.incomplete.push("why".to_owned());
            p.functions[f].entries = u64::MAX;
            p.functions[f].inherited = u64::MAX;
        }),
    ];
    verify(&whole).unwrap();
    for (number, (message, change)) in rules.iter().enumerate() {
        let mut profile = whole.clone();
        change(&mut profile, at, long);
        let error = verify(&profile).unwrap_err().to_string();
        assert!(error.contains(message), "rule {number}: {error}");
        assert!(write_profile(&profile).is_err());
    }
}

/// A profile with one of everything.
fn everything() -> Profile {
    let mut profile = backtrail_testkit::sample_profile::profile("scan.c");
    profile.incomplete = vec!["why".to_owned()];
    let kinds = [Instrumented::Whole, Instrumented::Cut, Instrumented::No("why".to_owned())];
    for (function, kind) in profile.functions.iter_mut().zip(kinds) {
        function.instrumented = kind;
    }
    let function = &mut profile.functions[0];
    function.acyclic_paths = PathTotal { count: 1 << 100, exact: false };
    let decisions = [
        Decision::Always,
        Decision::True,
        Decision::False,
        Decision::Cases { values: vec![-1, 2], default: true },
        Decision::Returned,
        Decision::Unwound,
        Decision::Computed,
    ];
    function.edges =
        (0..).zip(decisions).map(|(to, decision)| Edge { from: 0, to, decision }).collect();
    let starts = [Start::Entry, Start::Loop, Start::Cut, Start::CutWithin, Start::ReturnTwice];
    let ends = [End::Exit, End::Loop(1), End::Cut(1), End::CutWithin, End::Call];
    let paths = (0..).zip(starts.into_iter().zip(ends));
    function.paths = paths
        .map(|(id, (starts, ends))| Path { id, count: 300, starts, ends, blocks: vec![0] })
        .collect();
    profile.partial =
        [(0, Start::Entry, vec![0]), (0, Start::Entry, vec![0, 1]), (1, Start::Loop, vec![0])]
            .map(|(function, starts, blocks)| PartialPath { function, starts, blocks, count: 300 })
            .to_vec();
    profile.ended_by = vec![(2, 1), (15, 300)];
    profile.functions[0].edges_exact = false;
    let ran = vec![Begun { block: 1, positions: 0 }, Begun { block: 3, positions: 1 }];
    let (unknown, ran_edges, unknown_edges) = (vec![2, 4], vec![0, 6], vec![1]);
    let (function, activations_exact) = (0, false);
    let known = Inexact { function, activations_exact, ran, ran_edges, unknown, unknown_edges };
    profile.inexact = vec![known];
    let (by, unseen) = (vec!["how they ended".to_owned()], vec!["ways".to_owned()]);
    profile.merged = vec![Merged { runs: 3, checked: true, by, unseen }];
    verify(&profile).unwrap();
    profile
}

#[test]
fn files_of_the_versions_before_are_read() {
    let mut profile = everything();
    profile.merged.clear();
    // They end before what is said of runs, before what is known of functions, the older
    // before the list of signals, and the oldest before that of partial paths.
    for version in [5u32, 4, 3, 2] {
        match version {
            4 => profile.inexact.clear(),
            3 => profile.ended_by.clear(),
            2 => profile.partial.clear(),
            _ => {}
        }
        let mut raw = postcard::to_stdvec(&profile).unwrap();
        for _ in version..VERSION {
            assert_eq!(raw.pop(), Some(0));
        }
        let mut bytes = forge(&raw, raw.len() as u64);
        assert!(matches!(read_profile(&bytes), Err(Error::Corrupt { .. })));
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        assert_eq!(read_profile(&bytes), Ok(profile.clone()));
        // And not the other way round.
        let mut bytes = write_profile(&everything()).unwrap();
        bytes[8..12].copy_from_slice(&version.to_le_bytes());
        assert!(matches!(read_profile(&bytes), Err(Error::Corrupt { .. })));
    }
}

#[test]
fn signals_end_runs() {
    for ended_by in [vec![(0, 1)], vec![(65, 1)], vec![(15, 0)], vec![(15, 1), (2, 1)]] {
        let profile = Profile { ended_by: ended_by.clone(), ..everything() };
        assert!(matches!(verify(&profile), Err(Error::Invalid { .. })), "{ended_by:?}");
    }
}

#[test]
fn partial_paths_are_those_of_functions() {
    type Change = fn(&mut PartialPath);
    let changes: [Change; 6] = [
        |path| path.function = 9,
        |path| path.function = 2,
        |path| path.count = 0,
        |path| path.blocks.clear(),
        |path| path.blocks = vec![0, 0],
        |path| path.blocks = vec![1 << 20],
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut profile = everything();
        change(&mut profile.partial[2]);
        assert!(matches!(verify(&profile), Err(Error::Invalid { .. })), "{number}");
    }
    let mut profile = everything();
    profile.partial.swap(0, 1);
    assert!(verify(&profile).unwrap_err().to_string().contains("out of order"));
}

#[test]
fn what_is_known_is_of_functions_that_are_not_exact() {
    type Change = fn(&mut Profile);
    let changes: [Change; 8] = [
        |profile| profile.inexact[0].function = 9,
        |profile| profile.functions[0].edges_exact = true,
        |profile| profile.inexact[0].unknown = vec![1],
        |profile| profile.inexact[0].unknown = vec![1 << 20],
        |profile| profile.inexact[0].ran.swap(0, 1),
        |profile| profile.inexact[0].ran[0].positions = 1 << 20,
        |profile| profile.inexact[0].unknown_edges = vec![0],
        |profile| profile.inexact.push(profile.inexact[0].clone()),
    ];
    for (number, change) in changes.into_iter().enumerate() {
        let mut profile = everything();
        change(&mut profile);
        assert!(matches!(verify(&profile), Err(Error::Invalid { .. })), "{number}");
    }
}

#[test]
fn another_encoding_is_another_version() {
    let profile = everything();
    assert_eq!(read_profile(&write_profile(&profile).unwrap()).unwrap(), profile);
    let hash = blake3::hash(&postcard::to_stdvec(&profile).unwrap()).to_hex();
    assert_eq!(
        (VERSION, &hash[..16]),
        (6, "9df7d6e38d0f4812"),
        "profiles are encoded differently: raise VERSION and put the new hash here"
    );
}

#[test]
fn a_small_file_does_not_unpack_to_gigabytes() {
    let raw = 1u64 << 28;
    let body = zstd::bulk::compress(&vec![0; raw as usize], 19).unwrap();
    let mut behind = (body.len() as u64).to_le_bytes().to_vec();
    behind.extend(raw.to_le_bytes());
    behind.extend(body);
    let mut bytes = write_profile(&sample(1)).unwrap()[..8].to_vec();
    bytes.extend(VERSION.to_le_bytes());
    bytes.extend(blake3::hash(&behind).as_bytes());
    bytes.extend(behind);
    let error = read_profile(&bytes).unwrap_err();
    assert!(error.to_string().contains("unpacks to far more"), "{error}");
}
