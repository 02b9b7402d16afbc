//! Entries against callgrind, which runs the variant itself and shares nothing
//! with us: it finds calls in the machine code as it is executed.
//!
//! Compared are all functions of the program, by linkage name. Three things in
//! callgrind's names are made even: recursive calls, which it gives names of
//! their own (`f'2`); names of one function (a constructor for whole objects
//! and the one for parts of others are aliases); and functions of one name,
//! which it cannot tell apart and which are added up on both sides.

mod profile_program;

use std::collections::BTreeMap;

use profile_program::{LEVELS, Program, Ran, Scheme, fixture};

/// A name that is the same for all aliases of a function.
fn plain(name: &str) -> String {
    let name = name.split('\'').next().unwrap();
    let mut name = name.to_owned();
    for (alias, function) in [("C1E", "C2E"), ("D1E", "D2E")] {
        if name.starts_with("_ZN") {
            name = name.replace(alias, function);
        }
    }
    name
}

/// How often each function was called, by callgrind's file.
fn calls(file: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, String> = BTreeMap::new();
    let mut calls = BTreeMap::new();
    let mut called = String::new();
    for line in file.lines() {
        if let Some(name) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            // The number alone, or the number and, the first time, the name.
            let (number, name) = name.split_once(' ').unwrap_or((name, ""));
            if !name.is_empty() {
                names.insert(number, plain(name));
            }
            if line.starts_with("cfn=") {
                called = names[number].clone();
            }
        } else if let Some(count) = line.strip_prefix("calls=") {
            let count: u64 = count.split(' ').next().unwrap().parse().unwrap();
            *calls.entry(called.clone()).or_default() += count;
        }
    }
    calls
}

/// Functions that were entered.
fn check(program: &Program, words: &[&str], what: &str) -> usize {
    let plain_run = Ran::of(&program.command("./program").args(words).output().unwrap());
    let variant = program.variant(Scheme::Profile);
    let mut valgrind = program.command("valgrind");
    valgrind.args(["-q", "--tool=callgrind", "--demangle=no", "--callgrind-out-file=calls"]);
    valgrind.arg(variant).args(words).env("BACKTRAIL_DIR", program.records(Scheme::Profile));
    let ran = Ran::of(&valgrind.output().unwrap());
    assert_eq!((ran.status, &ran.stdout), (plain_run.status, &plain_run.stdout), "{what}");
    let calls = calls(&std::fs::read_to_string(program.path("calls")).unwrap());
    let profile = program.recorded(Scheme::Profile);
    let mut entries: BTreeMap<String, u64> = BTreeMap::new();
    for (id, function) in &profile.functions {
        let name = id.rsplit('#').next().unwrap();
        assert!(!function.instrumented.starts_with("no"), "{what}: {id}");
        *entries.entry(plain(name)).or_default() += function.entries;
    }
    for (name, &entries) in &entries {
        let called = calls.get(name).copied().unwrap_or(0);
        assert_eq!(entries, called, "{what}: entries and calls of {name}");
    }
    entries.values().filter(|entries| **entries > 0).count()
}

#[test]
fn a_compressor_in_c() {
    for level in LEVELS {
        let program = Program::c(&fixture("squeeze.c"), &[level]);
        let entered = check(&program, &["1"], level);
        assert!(entered >= if level == "-O0" { 10 } else { 2 }, "{level}: {entered}");
    }
}

#[test]
fn a_text_processor_in_c() {
    for level in LEVELS {
        let program = Program::c(&fixture("words.c"), &[level]);
        let entered = check(&program, &["9"], level);
        assert!(entered >= 5, "{level}: {entered}");
    }
}

#[test]
fn exceptions_and_virtual_calls_in_cxx() {
    for level in LEVELS {
        let program = Program::cxx(&fixture("shapes.cc"), &[level, "-std=c++20"]);
        let entered = check(&program, &[], level);
        assert!(entered >= 15, "{level}: {entered}");
    }
}
