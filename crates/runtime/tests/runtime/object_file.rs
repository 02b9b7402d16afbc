//! What the object asks of a program, and what it shows to it.

use object::{Object, ObjectSection, ObjectSymbol, SectionKind, SymbolKind, elf};

use crate::program::{counts_object, runtime_object};

/// The symbols others see, and those that are used if they are there.
fn check_symbols(path: &std::path::Path, expected: &[(&str, SymbolKind, bool, bool)]) {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut undefined: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| (symbol.name().unwrap(), symbol.is_weak()))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    undefined.sort_unstable();
    // What is used if it is there.
    let optional = [
        "__backtrail_module",
        "__backtrail_variant",
        "__dso_handle",
        "__register_atfork",
        "pthread_atfork",
    ];
    assert_eq!(undefined, optional.map(|name| (name, true)));
    let mut shown: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_global() && !symbol.is_undefined())
        .map(|symbol| {
            let object::SymbolFlags::Elf { st_other, .. } = symbol.flags() else { panic!() };
            let hidden = st_other.visibility() == elf::STV_HIDDEN;
            (symbol.name().unwrap(), symbol.kind(), symbol.is_weak(), hidden)
        })
        .collect();
    shown.sort_by_key(|symbol| symbol.0);
    assert_eq!(shown, expected);
}

#[test]
fn it_needs_nothing_and_shows_nothing_to_other_modules() {
    let [begin, end, resume, say] =
        ["begin", "end", "resume", "say"].map(|it| format!("__backtrail_{it}"));
    let of_frames = |name| (name, SymbolKind::Text, true, true);
    let enter = ("__backtrail_enter", SymbolKind::Text, true, true);
    let interrupt = ("__backtrail_interrupt", SymbolKind::Text, true, true);
    let land = ("__backtrail_land", SymbolKind::Text, true, true);
    let load = ("__backtrail_load", SymbolKind::Text, true, true);
    let log = ("__backtrail_log", SymbolKind::Text, true, true);
    let note = ("__backtrail_note", SymbolKind::Text, true, true);
    let thread = ("__backtrail_thread", SymbolKind::Tls, true, true);
    let [begin, end, resume, say] = [&begin[..], &end, &resume, &say].map(of_frames);
    let all = [begin, end, enter, interrupt, land, load, log, note, resume, say, thread];
    check_symbols(runtime_object(), &all);
    check_symbols(counts_object(), &[enter, load]);
}

#[test]
fn counters_need_no_thread_storage() {
    let bytes = std::fs::read(counts_object()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    for section in file.sections() {
        let kind = section.kind();
        let is_tls = matches!(kind, SectionKind::Tls | SectionKind::UninitializedTls);
        assert!(!is_tls, "{}", section.name().unwrap());
    }
}

#[test]
fn it_has_one_constructor_and_little_data() {
    let bytes = std::fs::read(runtime_object()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    for section in file.sections() {
        let name = section.name().unwrap();
        if name == ".init_array.00000" {
            assert_eq!(section.size(), 8);
            continue;
        }
        let forbidden = [".init", ".fini", ".ctors", ".dtors", ".preinit", ".data", ".tdata"];
        assert!(
            section.size() == 0 || !forbidden.iter().any(|start| name.starts_with(start)),
            "{name}"
        );
        assert!(section.size() < 16 << 10, "{name} has {} bytes", section.size());
    }
}
