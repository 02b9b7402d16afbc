//! Source positions, with inlining and changes of file.

use backtrail_ir::{Loc, SymbolKind, Unit};

use crate::toolchain::{Workshop, lower, source};

fn describe(unit: &Unit, loc: Loc) -> String {
    let mut text = String::new();
    let mut next = Some(loc);
    while let Some(loc) = next {
        let it = &unit.locations[loc];
        let file = unit.files[it.file].rsplit('/').next().unwrap_or_default();
        text += &format!("{}@{file}:{} ", it.scope, it.line);
        next = it.inlined_at;
    }
    text.trim_end().to_owned()
}

fn positions(unit: &Unit, name: &str) -> Vec<String> {
    let function = unit.functions.values().find(|it| unit.symbols[it.symbol].name == name);
    let function = function.unwrap_or_else(|| panic!("no function {name}"));
    let mut positions: Vec<_> =
        function.insts.values().filter_map(|it| it.location).map(|it| describe(unit, it)).collect();
    positions.dedup();
    positions
}

#[test]
fn inlined_positions_keep_their_history() {
    for flag in ["-gline-tables-only", "-g"] {
        let unit = lower(&Workshop::new().bitcode("inlined.c", &["-O2", flag]));
        let called = positions(&unit, "called");
        let innermost = "inner@inlined.c:3 outer@inlined.c:7 called@inlined.c:11";
        assert!(called.contains(&innermost.to_owned()), "{called:?}");
        assert_eq!(called.last().map(String::as_str), Some("called@inlined.c:11"));
        let elsewhere = positions(&unit, "elsewhere");
        assert!(elsewhere.iter().all(|it| it.ends_with("made_up.h:101")), "{elsewhere:?}");
    }
}

#[test]
fn functions_have_a_position_and_files_a_path() {
    let unit = lower(&Workshop::new().bitcode("inlined.c", &["-O2", "-gline-tables-only"]));
    let of = |name: &str| {
        let function = unit.functions.values().find(|it| unit.symbols[it.symbol].name == name);
        describe(&unit, function.expect("it is there").location.expect("it is known"))
    };
    assert_eq!(of("called"), "called@inlined.c:10");
    assert_eq!(of("elsewhere"), "elsewhere@made_up.h:100");
    let path = source("inlined.c");
    assert!(unit.files.values().any(|it| *it == path.to_string_lossy()), "{:?}", unit.files);
}

#[test]
fn linkage_names_are_preferred_and_positions_are_shared() {
    for flags in [["-O2", "-gline-tables-only"], ["-O2", "-g"]] {
        let unit = lower(&Workshop::new().bitcode("objects.cpp", &flags));
        let scopes: Vec<_> = unit.locations.values().map(|it| it.scope.as_str()).collect();
        assert!(scopes.contains(&"_ZNK7Derived5valueEi"));
        assert!(scopes.contains(&"main"), "C linkage has no linkage name");
        let distinct: std::collections::HashSet<_> = unit.locations.values().collect();
        assert_eq!(distinct.len(), unit.locations.len());
    }
}

#[test]
fn without_debug_information_there_are_no_positions() {
    let unit = lower(&Workshop::new().bitcode("control.c", &["-O2"]));
    assert!(unit.locations.is_empty() && unit.files.is_empty());
    assert!(unit.symbols.values().any(|it| matches!(it.kind, SymbolKind::Function(_))));
}
