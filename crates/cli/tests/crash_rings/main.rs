//! What the frames of a crashed program tell is how the log of the same crash
//! ends: at every level of optimisation, stripped and not, with and without the
//! user's own debug information.

mod coverage;
mod crash;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_crash::Known;
use backtrail_machine::elf::Elf;

use crash::{Crash, Live};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_rings/fixtures").join(name)
}

/// That everything is exactly known, and something is.
#[track_caller]
fn assert_exact(frames: &[Live]) {
    for frame in frames {
        assert_eq!(frame.recovered.known, Known::Exact, "{frame:#?}");
        assert_eq!(frame.recovered.note, None, "{frame:#?}");
    }
}

const WAYS: [&str; 8] =
    ["segfault", "abort", "recursion", "loop", "jump", "goto", "callback", "arguments"];

#[test]
fn crashes_of_c_at_every_level() {
    for words in
        [&["-O0"][..], &["-O2"], &["-O3", "-g"], &["-O2", "-g", "-fstack-protector-strong"]]
    {
        let crash = Crash::new("cc", &fixture("crash.c"), words);
        crash.derive("pt", 10);
        for way in WAYS {
            let threads = crash.check("traced", &[way]);
            assert_exact(&threads[0]);
            let names: Vec<&str> = threads[0].iter().map(|it| it.name.as_str()).collect();
            assert_eq!(names.last(), Some(&"main"), "{words:?} {way}");
        }
    }
}

#[test]
fn coverage_is_what_the_log_says() {
    let mut total = coverage::Told::default();
    for (verb, source, words) in [
        ("cc", "crash.c", &["-O0"][..]),
        ("cc", "crash.c", &["-O2", "-s"]),
        ("c++", "thrown.cc", &["-O2"]),
        ("cc", "threads.c", &["-O2", "-pthread", "-static"]),
    ] {
        let crash = Crash::new(verb, &fixture(source), words);
        let ways: &[&[&str]] = match source {
            "crash.c" => &[&["segfault"], &["abort"], &["loop"], &["jump"], &["callback"]],
            "thrown.cc" => &[&["caught"], &["uncaught"]],
            _ => &[&[]],
        };
        for scheme in ["fc", "cc", "bc", "full"] {
            crash.derive(scheme, 10);
            for way in ways {
                let told = coverage::check(&crash, "traced", way);
                let (known, unknown) = (told.yes + told.no, told.unknown);
                assert!(known > 0, "{source} {words:?} {scheme} {way:?}: {told:?}");
                if matches!(scheme, "bc" | "full") {
                    assert!(unknown * 10 < known, "{source} {words:?} {scheme} {way:?}: {told:?}");
                    total.own_yes += told.own_yes;
                    total.own_no += told.own_no;
                    total.own_unknown += told.own_unknown;
                }
                if scheme == "full" {
                    crash.check("traced", way);
                }
            }
        }
    }
    assert!(total.own_yes > 50 && total.own_no > 50, "{total:?}");
    assert!(total.own_unknown * 10 < total.own_yes, "{total:?}");
}

#[test]
fn a_stripped_executable_tells_the_same() {
    let crash = Crash::new("cc", &fixture("crash.c"), &["-O2", "-g"]);
    crash.derive("pt", 10);
    let (from, to) = (crash.path("traced"), crash.path("stripped"));
    let done = Command::new("strip").arg(&from).arg("-o").arg(&to).status().unwrap();
    assert!(done.success());
    for way in WAYS {
        let told = |threads: Vec<Vec<Live>>| -> Vec<_> {
            threads[0].iter().map(|it| (it.name.clone(), it.blocks())).collect()
        };
        assert_eq!(told(crash.check("stripped", &[way])), told(crash.check("traced", &[way])));
    }
}

#[test]
fn what_was_detached_is_found_by_build_id() {
    let crash = Crash::new("cc", &fixture("crash.c"), &["-O2"]);
    crash.derive("full", 10);
    let before = std::fs::metadata(crash.path("traced")).unwrap().len();
    crash.backtrail(&["detach", "traced"]);
    let bytes = std::fs::read(crash.path("traced")).unwrap();
    let names = Elf::parse(&bytes).unwrap().section_names();
    assert!(!names.iter().any(|it| it.starts_with(".backtrail")), "{names:?}");
    assert!((bytes.len() as u64) < before);
    assert_exact(&crash.check("traced", &["loop"])[0]);
    coverage::check(&crash, "traced", &["loop"]);
    let core = crash.core_of(&crash.path("traced"), &["loop"]);
    let shown = crash.backtrail(&["autopsy", "--json", core.to_str().unwrap()]);
    let shown: serde_json::Value = serde_json::from_slice(&shown.stdout).unwrap();
    let frames = shown["threads"][0]["frames"].as_array().unwrap();
    let walk = frames.iter().find(|frame| frame["function"] == "walk").unwrap();
    assert!(!walk["path"].as_array().unwrap().is_empty(), "{walk}");
}

#[test]
fn a_record_holds_as_many_paths_as_were_asked_for() {
    let crash = Crash::new("cc", &fixture("crash.c"), &["-O1"]);
    for ring in [1, 20, 64] {
        crash.derive("pt", ring);
        let threads = crash.check("traced", &["loop"]);
        let walk = threads[0].iter().find(|it| it.name == "walk").unwrap();
        let older = walk.recovered.older.len();
        assert!(older >= ring.min(50) as usize, "{older} of {ring}");
        assert_eq!(walk.recovered.truncated, ring < 50);
    }
}

#[test]
fn every_thread_tells_its_own() {
    let crash = Crash::new("cc", &fixture("threads.c"), &["-O2", "-pthread"]);
    crash.derive("pt", 10);
    let threads = crash.check("traced", &[]);
    assert_exact(&threads[0]);
    let working = threads.iter().filter(|it| it.iter().any(|live| live.name == "work"));
    assert_eq!(working.count(), 4);
}

#[test]
fn exceptions_leave_frames_as_they_are() {
    for words in [&["-O0"][..], &["-O2"]] {
        let crash = Crash::new("c++", &fixture("thrown.cc"), words);
        crash.derive("pt", 10);
        for way in ["caught", "uncaught"] {
            let threads = crash.check("traced", &[way]);
            assert_exact(&threads[0]);
        }
    }
}

#[test]
fn only_chosen_functions_keep_records() {
    let crash = Crash::new("cc", &fixture("crash.c"), &["-O2"]);
    crash.derive("pt,walk=none", 10);
    let threads = crash.check("traced", &["loop"]);
    let of = |name: &str| threads[0].iter().find(|it| it.name == name).unwrap();
    assert!(of("main").recovered.traced);
    assert!(!of("walk").recovered.traced && of("walk").recovered.block.is_some());
}

/// The functions in a disassembly that check a guard of their frame.
fn guarded(program: &Path) -> BTreeSet<String> {
    let output = Command::new("objdump").arg("-d").arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let mut found = BTreeSet::new();
    let mut function = String::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        match line.strip_suffix(">:").and_then(|line| line.split_once('<')) {
            Some((_, name)) => function = name.to_owned(),
            None if line.contains("call") && line.contains("<__stack_chk_fail") => {
                found.insert(function.clone());
            }
            None => {}
        }
    }
    found
}

#[test]
fn records_neither_add_guards_nor_take_them() {
    for words in [&["-O0", "-fstack-protector-strong"][..], &["-O2", "-fstack-protector-strong"]] {
        let crash = Crash::new("cc", &fixture("crash.c"), words);
        crash.derive("pt", 10);
        let before = guarded(&crash.path("program"));
        assert_eq!(before, guarded(&crash.path("traced")), "{words:?}");
        assert!(before.contains("main") && !before.contains("walk"), "{before:?}");
    }
}

#[test]
fn debug_information_is_the_users_own() {
    for (words, wanted) in [(&["-O2", "-g"][..], true), (&["-O2"], false), (&["-g", "-s"], false)] {
        let crash = Crash::new("cc", &fixture("crash.c"), words);
        crash.derive("pt", 10);
        let bytes = std::fs::read(crash.path("traced")).unwrap();
        let names = Elf::parse(&bytes).unwrap().section_names();
        let has = |name: &str| names.iter().any(|it| it.starts_with(name));
        assert_eq!(has(".debug_info"), wanted, "{words:?}: {names:?}");
        assert!(!has(".debug_bt_") && has(".backtrail.frames"), "{words:?}: {names:?}");
        assert_eq!(has(".symtab"), !words.contains(&"-s"), "{words:?}: {names:?}");
        assert_exact(&crash.check("traced", &["recursion"])[0]);
    }
}
