//! A unit that nothing was inserted into compiles to the compiler's own object.

use std::path::Path;

use backtrail_plan::worker::{DebugKept, Output, Request};
use object::{Object, ObjectSection, ObjectSymbol};

use crate::toolchain::{Workshop, compiler, request, run, serve_done};

/// What an object holds, by section.
fn sections(path: &Path) -> Vec<(String, Vec<u8>, Vec<String>)> {
    let bytes = std::fs::read(path).expect("the compiler wrote it");
    let file = object::File::parse(&*bytes).expect("an object");
    let describe = |section: object::Section<'_, '_>| {
        let relocations = section.relocations().map(|(offset, it)| format!("{offset:x} {it:?}"));
        let name = section.name().expect("a name").to_owned();
        (name, section.data().expect("content").to_vec(), relocations.collect())
    };
    let mut sections: Vec<_> = file.sections().map(describe).collect();
    let symbols = file.symbols().map(|it| {
        format!("{} {:x} {} {:?}", it.name().unwrap_or("?"), it.address(), it.size(), it.flags())
    });
    sections.push(("symbols".to_owned(), Vec::new(), symbols.collect()));
    sections
}

fn check(fixture: &str, flags: &[&str]) {
    let workshop = Workshop::new();
    let expected = workshop.object(fixture, flags);
    let bitcode = workshop.bitcode(fixture, flags);
    let again = workshop.path("again.bc");
    let output = Some(Output::Bitcode(again.clone()));
    serve_done(&Request { output, lower: true, ..request(&bitcode) });
    let found = workshop.generate(fixture, &again, flags);
    let (expected_sections, found_sections) = (sections(&expected), sections(&found));
    assert!(expected_sections.len() > 3);
    for (expected, found) in expected_sections.iter().zip(&found_sections) {
        assert_eq!(found.0, expected.0, "{fixture} {flags:?}");
        assert!(found == expected, "{fixture} {flags:?}: {} differs", expected.0);
    }
    assert_eq!(found_sections.len(), expected_sections.len());
    let read = |path| std::fs::read(path).expect("it is there");
    assert!(read(&found) == read(&expected), "{fixture} {flags:?}: the files differ");
}

#[test]
fn c_units_come_back_identical() {
    for fixture in ["control.c", "linkage.c", "inlined.c"] {
        check(fixture, &["-O0"]);
        check(fixture, &["-O2"]);
        check(fixture, &["-O2", "-g", "-fPIC"]);
        check(fixture, &["-Os", "-ffunction-sections", "-fdata-sections", "-gline-tables-only"]);
    }
    check("control.c", &["-O3", "-march=x86-64-v3", "-fstack-protector-strong"]);
    check("control.c", &["-O1", "-fsanitize=address,undefined"]);
}

#[test]
fn cxx_units_come_back_identical() {
    for fixture in ["objects.cpp", "coroutine.cpp"] {
        check(fixture, &["-std=c++20", "-O0", "-g"]);
        check(fixture, &["-std=c++20", "-O2"]);
        check(fixture, &["-std=c++20", "-O2", "-g", "-fPIC", "-fvisibility=hidden"]);
    }
}

#[test]
fn lowering_changes_nothing() {
    let workshop = Workshop::new();
    let bitcode = workshop.bitcode("objects.cpp", &["-O2", "-g"]);
    let written = |name: &str, lower: bool| {
        let path = workshop.path(name);
        let output = Some(Output::Bitcode(path.clone()));
        serve_done(&Request { lower, output, ..request(&bitcode) });
        std::fs::read(path).expect("it was written")
    };
    assert!(written("a.bc", true) == written("b.bc", false));
}

#[test]
fn stripping_leaves_code_without_debug_information() {
    let workshop = Workshop::new();
    let flags = ["-O2"];
    let expected = workshop.object("inlined.c", &flags);
    let bitcode = workshop.bitcode("inlined.c", &["-O2", "-gline-tables-only"]);
    let stripped = workshop.path("stripped.bc");
    let output = Some(Output::Bitcode(stripped.clone()));
    let unit = serve_done(&Request {
        debug: DebugKept::Nothing,
        lower: true,
        output,
        ..request(&bitcode)
    });
    assert!(!unit.expect("asked for").locations.is_empty(), "lowered as it was read");
    let found = workshop.generate("inlined.c", &stripped, &flags);
    assert!(sections(&found) == sections(&expected));
}

/// Compiles with line tables that are taken away before code generation, in
/// one optimising step or in two; whether the code is the compiler's own.
fn is_same_without_debug(fixture: &str, in_two_steps: bool) -> bool {
    let workshop = Workshop::new();
    let expected = workshop.object(fixture, &["-O2"]);
    let lines = ["-O2", "-gline-tables-only"];
    let rewrite = |from: &Path, output: Output, debug: DebugKept| {
        serve_done(&Request { debug, output: Some(output), ..request(from) });
    };
    let optimised = if in_two_steps {
        let passes_off = [&lines[..], &["-Xclang", "-disable-llvm-passes"]].concat();
        let early = workshop.bitcode(fixture, &passes_off);
        let (plain, optimised) = (workshop.path("plain.bc"), workshop.path("optimised.bc"));
        rewrite(&early, Output::Unoptimised(plain.clone()), DebugKept::All);
        run(compiler(fixture)
            .args(lines)
            .args(["-emit-llvm", "-c", "-o"])
            .args([&optimised, &plain]));
        optimised
    } else {
        workshop.bitcode(fixture, &lines)
    };
    let stripped = workshop.path("stripped.bc");
    rewrite(&optimised, Output::Bitcode(stripped.clone()), DebugKept::Nothing);
    let found = workshop.generate(fixture, &stripped, &["-O2"]);
    sections(&found) == sections(&expected)
}

#[test]
fn line_tables_change_no_code_when_loops_are_made_plain_first() {
    for fixture in ["endless.c", "control.c", "linkage.c", "objects.cpp"] {
        assert!(is_same_without_debug(fixture, true), "{fixture}");
    }
    // What this is for. If a later compiler has it right, the detour can go.
    assert!(!is_same_without_debug("endless.c", false));
}
