//! Counting paths gives what walking over a log of all blocks gives: every path
//! of every function, entries, and activations that did not finish.

mod cargo_project;
mod profile_program;

use cargo_project::Project;
use profile_program::{BACKTRAIL, LEVELS, Profile, Program, fixture};

/// How many functions were entered.
fn entered(profile: &Profile) -> usize {
    profile.functions.values().filter(|function| function.entries > 0).count()
}

#[test]
fn a_text_processor_in_c() {
    for level in ["-O0", "-O1", "-O2", "-Os", "-O3"] {
        let (ran, profile) = Program::c(&fixture("words.c"), &[level]).equal(&["9"]);
        assert!(ran.status == 0 && ran.stdout.contains("belief 4\n"), "{level}: {}", ran.stdout);
        assert!(entered(&profile) >= 3, "{level}");
        assert!(profile.executions() > 2000, "{level}: {}", profile.executions());
        assert!(profile.functions.values().all(|it| it.unfinished == 0), "{level}");
    }
}

#[test]
fn control_flow_of_every_kind() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/oracle/control.c");
    let source = std::fs::read_to_string(path).unwrap();
    for level in LEVELS {
        let (_, profile) = Program::c(&source, &[level]).equal(&["one", "two"]);
        assert!(profile.executions() > 50, "{level}");
    }
}

#[test]
fn exceptions_and_virtual_calls_in_cxx() {
    for level in LEVELS {
        let (ran, profile) = Program::cxx(&fixture("shapes.cc"), &[level, "-std=c++20"]).equal(&[]);
        assert_eq!(ran.status, 0, "{level}");
        let plain = profile.function("_ZL5plaini");
        assert!(plain.entries == 50 && (1..50).contains(&plain.unfinished), "{level}: {plain:?}");
        let unwound: u64 = profile.functions.values().map(|it| it.decided("unwound")).sum();
        assert!(unwound >= 20, "{level}: {unwound}");
        assert!(entered(&profile) >= 15, "{level}: {}", entered(&profile));
    }
}

#[test]
fn panics_iterators_and_threads_in_rust() {
    let project = Project::new("paths");
    for (words, folder) in [(&["build"][..], "debug"), (&["build", "--release"], "release")] {
        project.cargo(words).succeeded();
        let program = format!("target/{folder}/paths");
        let [counted, logged] = ["profile", "log"].map(|scheme| {
            let variant = project.variant(&program, scheme);
            let records = project.path(&format!("records-{folder}-{scheme}"));
            let folder = format!("BACKTRAIL_DIR={}", records.display());
            let ran = project.run("setarch", &["-R", "env", &folder, &variant]).succeeded();
            let words = ["paths", "--json", records.to_str().unwrap()];
            let document = project.run(BACKTRAIL, &words).succeeded().stdout;
            (ran, Profile::read(&document))
        });
        assert_eq!(counted.0, logged.0, "{folder}");
        counted.1.assert_equal(&logged.1, &[]);
        let profile = counted.1;
        assert_eq!(profile.incomplete, None);
        assert!(entered(&profile) >= 10, "{folder}: {}", entered(&profile));
        let of = |part: &str| {
            let found =
                profile.functions.iter().filter(|(id, it)| id.contains(part) && it.entries > 0);
            found.map(|(_, it)| it.entries).sum::<u64>()
        };
        // 200 in the first thread, 50 in each of two others.
        assert_eq!(of("5paths5chain17h"), 300, "{folder}");
        assert_eq!(of("5paths5words17h"), 1, "{folder}");
        assert_eq!(of("5paths7fragile17h"), 60, "{folder}");
    }
}

#[test]
fn a_compressor_in_c() {
    for level in LEVELS {
        let (ran, profile) = Program::c(&fixture("squeeze.c"), &[level]).equal(&["1"]);
        assert_eq!((ran.status, &ran.stdout[..]), (0, "1184 bytes, 1617 bits, restored\n"));
        assert!(profile.executions() > 100_000, "{level}: {}", profile.executions());
    }
}
