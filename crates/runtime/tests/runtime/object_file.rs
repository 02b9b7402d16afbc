//! What the object asks of a program, and what it shows to it.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind, elf};

use crate::program::runtime_object;

#[test]
fn it_needs_nothing_and_shows_two_weak_functions() {
    let bytes = std::fs::read(runtime_object()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut undefined: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| (symbol.name().unwrap(), symbol.is_weak()))
        .filter(|(name, _)| !name.is_empty())
        .collect();
    undefined.sort_unstable();
    // What is used if it is there.
    let optional = ["__backtrail_module", "__dso_handle", "__register_atfork", "pthread_atfork"];
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
    assert_eq!(
        shown,
        [
            ("__backtrail_enter", SymbolKind::Text, true, false),
            ("__backtrail_load", SymbolKind::Text, true, true),
            ("__backtrail_log", SymbolKind::Text, true, false),
            ("__backtrail_thread", SymbolKind::Tls, true, true),
        ]
    );
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
