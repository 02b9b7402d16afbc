//! What the object asks of a program, and what it shows to it.

use object::{Object, ObjectSection, ObjectSymbol, SymbolKind, elf};

use crate::program::runtime_object;

#[test]
fn it_needs_nothing_and_shows_one_weak_function() {
    let bytes = std::fs::read(runtime_object()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let undefined: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_undefined())
        .map(|symbol| symbol.name().unwrap())
        .filter(|name| !name.is_empty())
        .collect();
    assert_eq!(undefined, [] as [&str; 0]);
    let mut shown: Vec<_> = file
        .symbols()
        .filter(|symbol| symbol.is_global())
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
            ("__backtrail_log", SymbolKind::Text, true, false),
            ("__backtrail_thread", SymbolKind::Tls, true, true),
        ]
    );
}

#[test]
fn it_has_no_constructor_and_little_data() {
    let bytes = std::fs::read(runtime_object()).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    for section in file.sections() {
        let name = section.name().unwrap();
        let forbidden = [".init", ".fini", ".ctors", ".dtors", ".preinit", ".data", ".tdata"];
        assert!(
            section.size() == 0 || !forbidden.iter().any(|start| name.starts_with(start)),
            "{name}"
        );
        assert!(section.size() < 16 << 10, "{name} has {} bytes", section.size());
    }
}
