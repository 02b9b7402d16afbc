//! No machine code of the C library that a listed function can reach does what its row
//! does not say.
//!
//! Reached is whatever direct calls and jumps lead to, and whatever function's address is
//! taken on the way. That says more than what can happen, and nothing less, but for calls
//! through pointers. So each function of the library that makes some is in a table here,
//! with what they may lead to; one that is not in it fails the test. A few functions are
//! not followed, and it is said why.
//!
//! Functions that are not exported have names in the symbols of the package `libc6-dbg`.

#[path = "call_graph/graph.rs"]
mod graph;
mod installed;
#[path = "call_graph/sites.rs"]
mod sites;

use std::collections::BTreeSet;

use backtrail_outside::{Class, Family, Function, Whom, functions};

use graph::{Data, Graph};
use sites::{CATCHES, Claim, PASSED, TAKES_ADDRESSES, claims_of, in_short};

/// What a row admits.
fn admitted(function: &Function) -> BTreeSet<Claim> {
    let by_name = |family, claim| function.by_name.has(family).then_some(claim);
    let runs = |class, claim| function.runs.has(class).then_some(claim);
    let found = [
        by_name(Family::Malloc, Claim::Malloc),
        by_name(Family::String, Claim::Strings),
        by_name(Family::Library, Claim::Library),
        runs(Class::Stream, Claim::Stream),
        runs(Class::Printf, Claim::Printf),
        runs(Class::Obstack, Claim::Obstack),
        runs(Class::Error, Claim::Error),
        runs(Class::AtExit, Claim::AtExit),
        runs(Class::AtFork, Claim::AtFork),
    ];
    found.into_iter().flatten().collect()
}

/// What a function does itself; nothing if it calls through pointers and nobody knows whom.
fn own_claims(graph: &Graph, data: &Data) -> Option<BTreeSet<Claim>> {
    let mut claims = BTreeSet::new();
    // Whoever calls by a stream's table of functions looks first whose it is.
    let is_of_streams = data.calls.iter().any(|it| graph.is_named(*it, "_IO_vtable_check"));
    if is_of_streams {
        claims.extend([Claim::Stream, Claim::Malloc, Claim::Strings]);
    }
    if data.calls_through_pointers {
        let known = claims_of(&data.names());
        claims.extend(known.or_else(|| is_of_streams.then(Vec::new))?);
    }
    // The dynamic linker allocates by the program's allocator.
    let allocates = ["_dl_allocate_tls", "_dl_deallocate_tls", "_dl_exception_create"];
    let is_allocator = |it: &String| Family::Malloc.has(it) || allocates.contains(&it.as_str());
    claims.extend(data.imports.iter().any(is_allocator).then_some(Claim::Malloc));
    Some(claims)
}

/// What the functions that begin here can reach.
fn claims(graph: &Graph, begin: &BTreeSet<u64>) -> Result<BTreeSet<Claim>, String> {
    let mut found = BTreeSet::new();
    let (mut reached, mut pending) = (begin.clone(), Vec::from_iter(begin.clone()));
    while let Some(function) = pending.pop() {
        let data = &graph.functions[&function];
        let in_short = in_short(&data.names()).filter(|_| !begin.contains(&function));
        if let Some(claims) = in_short {
            found.extend(claims);
            continue;
        }
        let unknown = || format!("nobody says whom {:?} calls through pointers", data.names);
        found.extend(own_claims(graph, data).ok_or_else(unknown)?);
        pending.extend(data.calls.iter().filter(|it| reached.insert(**it)));
    }
    Ok(found)
}

#[test]
fn what_functions_reach_is_in_their_rows() {
    let graph = Graph::read(&installed::library("libc.so.6"));
    let mut wrong = Vec::new();
    let mut compared = 0;
    for function in functions().filter(|it| !it.anything && !PASSED.contains(&it.name)) {
        let Some(begin) = graph.exported.get(function.name) else { continue };
        compared += 1;
        let admitted = admitted(function);
        match claims(&graph, begin) {
            Ok(found) if found.is_subset(&admitted) => {}
            Ok(found) => {
                let missing: Vec<&Claim> = found.difference(&admitted).collect();
                wrong.push(format!("{}: the row lacks {missing:?}", function.name));
            }
            Err(unknown) => wrong.push(format!("{}: {unknown}", function.name)),
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 1500, "only {compared} functions were compared");
}

/// So that a graph without calls does not pass.
#[test]
fn what_is_known_to_call_is_seen_to_call() {
    let graph = Graph::read(&installed::library("libc.so.6"));
    for (name, claim) in [
        ("strdup", Claim::Malloc),
        ("setlocale", Claim::Malloc),
        ("fgets", Claim::Stream),
        ("exit", Claim::AtExit),
        ("mbrtowc", Claim::Strings),
        ("getpwnam", Claim::Library),
        ("dprintf", Claim::Printf),
        ("error", Claim::Error),
        ("fork", Claim::AtFork),
        ("obstack_printf", Claim::Obstack),
    ] {
        let found = claims(&graph, &graph.exported[name]).unwrap();
        assert!(found.contains(&claim), "{name} is seen to call {found:?}");
    }
    for name in ["strlen", "strtod", "getenv", "read", "malloc", "qsort_compare"] {
        let Some(begin) = graph.exported.get(name) else { continue };
        assert_eq!(claims(&graph, begin), Ok(BTreeSet::new()), "{name}");
    }
}

/// What the functions that begin here import, and whether they call through pointers.
fn imports(graph: &Graph, begin: &BTreeSet<u64>) -> (BTreeSet<String>, bool) {
    let (mut imports, mut through_pointers) = (BTreeSet::new(), false);
    let (mut reached, mut pending) = (begin.clone(), Vec::from_iter(begin.clone()));
    while let Some(at) = pending.pop() {
        let data = &graph.functions[&at];
        imports.extend(data.imports.iter().cloned());
        through_pointers |= data.calls_through_pointers;
        pending.extend(data.calls.iter().filter(|it| reached.insert(**it)));
    }
    (imports, through_pointers)
}

/// Functions of other libraries than that of C call others by name, as they are imported.
fn compare_imports(library: &str, harmless: &[&str], at_least: usize) {
    let graph = match library {
        "libm.so.6" => Graph::read(&installed::library(library)),
        _ => Graph::read_exported(&installed::library(library)),
    };
    let mut wrong = Vec::new();
    let mut compared = 0;
    for (name, begin) in &graph.exported {
        let Some(function) = backtrail_outside::of(name).filter(|it| !it.anything) else {
            continue;
        };
        if TAKES_ADDRESSES.contains(&name.as_str()) {
            continue;
        }
        compared += 1;
        let (imports, through_pointers) = imports(&graph, begin);
        let may_call = |it: &str| {
            let is_maths = library == "libm.so.6";
            let is_own = is_maths && (graph.exported.contains_key(it) || it.contains("_nan"));
            let is_data = ["_ZT", "_ZGV", "_ITM"].iter().any(|begin| it.starts_with(begin));
            is_data || harmless.contains(&it) || is_own || function.may_call_by_name(it)
        };
        let more: Vec<&String> = imports.iter().filter(|it| !may_call(it)).collect();
        if !more.is_empty() {
            wrong.push(format!("{name}: the row does not say that it calls {more:?}"));
        }
        // What they do in turn.
        let followed = imports.iter().filter(|it| !harmless.contains(&it.as_str()));
        for callee in followed.filter_map(|it| backtrail_outside::of(it)) {
            let runs = callee.runs.without(function.runs);
            let by_name = callee.by_name.without(function.by_name);
            let leaves = callee.leaves && !CATCHES.contains(&name.as_str());
            if callee.ends && !function.ends || leaves && !function.leaves {
                wrong.push(format!("{name}: ends or leaves as {} does", callee.name));
            }
            if !runs.is_empty() || !by_name.is_empty() {
                let callee = callee.name;
                wrong.push(format!("{name}: lacks runs {runs:?}, uses {by_name:?} of {callee}"));
            }
        }
        let is_row_plain = function.calls == Whom::Nobody && function.by_name.is_empty();
        if through_pointers && is_row_plain {
            wrong.push(format!("{name}: nobody says whom it calls through pointers"));
        }
    }
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared >= at_least, "only {compared} functions were compared");
}

#[test]
fn functions_of_mathematics_call_nobody() {
    // Data, and errors of programs that were linked before glibc 2.27.
    let harmless = [
        "_LIB_VERSION",
        "__assert_fail",
        "__signgam",
        "__stack_chk_fail",
        "_rtld_global_ro",
        "errno",
        "fputs",
        "fwrite",
        "signgam",
        "stderr",
        graph::CHOSEN,
    ];
    compare_imports("libm.so.6", &harmless, 300);
}

#[test]
fn functions_of_the_cxx_library_call_whom_their_rows_say() {
    // Data, and the end of a library that finds itself inconsistent.
    let harmless = [
        "__gmon_start__",
        "__libc_single_threaded",
        "__stack_chk_fail",
        "abort",
        "stderr",
        "stdin",
        "stdout",
    ];
    compare_imports("libstdc++.so.6", &harmless, 50);
    compare_imports("libgcc_s.so.1", &harmless, 20);
}
