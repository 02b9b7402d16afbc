//! The symbols of a file without a unit.

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use backtrail_ir::program::{NativeDefinition, NativeObject, Strength};
use object::{Object as _, ObjectComdat as _, ObjectSymbol as _, ObjectSymbolTable as _};
use object::{RelocationTarget, SectionIndex};

/// Those of an object, and the names that it cannot do without, in order. It refers to what
/// it does not define, and to what it does if another definition may take its place.
pub fn of_object(name: &str, bytes: &[u8]) -> Option<(NativeObject, Vec<String>)> {
    let file = object::File::parse(bytes).ok()?;
    let mut groups: HashMap<SectionIndex, &str> = HashMap::new();
    for comdat in file.comdats() {
        if let Ok(name) = comdat.name() {
            groups.extend(comdat.sections().map(|section| (section, name)));
        }
    }
    let mut definitions = Vec::new();
    let mut references = BTreeSet::new();
    let mut needs = Vec::new();
    // What starts the program calls it once, which is no news.
    let is_start = Path::new(name)
        .file_name()
        .is_some_and(|name| name.to_str().is_some_and(|name| name.ends_with("crt1.o")));
    for symbol in file.symbols().filter(|symbol| !symbol.is_local()) {
        let Ok(name) = symbol.name() else { continue };
        // `name@VERSION`, as `.symver` writes it.
        let name = name.split('@').next().unwrap_or_default();
        if name.is_empty() {
            continue;
        }
        if symbol.is_undefined() {
            if !symbol.is_weak() {
                needs.push(name.to_owned());
            }
            if !(is_start && name == "main") {
                references.insert(name.to_owned());
            }
            continue;
        }
        let strength = match (symbol.is_weak(), symbol.is_common()) {
            (true, _) => Strength::Weak,
            (_, true) => Strength::Common(symbol.size()),
            _ => Strength::Strong,
        };
        let comdat = symbol.section_index().and_then(|section| groups.get(&section));
        if strength != Strength::Strong || comdat.is_some() {
            references.insert(name.to_owned());
        }
        let comdat = comdat.map(|group| (*group).to_owned());
        definitions.push(NativeDefinition { name: name.to_owned(), strength, comdat, means: None });
    }
    let references = references.into_iter().collect();
    let name = name.to_owned();
    Some((NativeObject { name, shared: false, system: false, definitions, references }, needs))
}

/// Those of a shared library, which refers to what it is bound to when it is loaded, be it
/// its own.
pub fn of_library(name: &str, bytes: &[u8]) -> NativeObject {
    let mut library = NativeObject {
        name: name.to_owned(),
        shared: true,
        system: true,
        ..NativeObject::default()
    };
    let Ok(file) = object::File::parse(bytes) else { return library };
    let mut references = BTreeSet::new();
    for symbol in file.dynamic_symbols() {
        let Ok(name) = symbol.name() else { continue };
        if symbol.is_undefined() {
            references.insert(name.to_owned());
        } else if symbol.is_definition() {
            library.definitions.push(NativeDefinition {
                name: name.to_owned(),
                strength: Strength::Strong,
                comdat: None,
                means: None,
            });
        }
    }
    let table = file.dynamic_symbol_table();
    let relocations = file.dynamic_relocations().into_iter().flatten();
    for (_, relocation) in relocations {
        let RelocationTarget::Symbol(index) = relocation.target() else { continue };
        let symbol = table.as_ref().and_then(|table| table.symbol_by_index(index).ok());
        references.extend(symbol.and_then(|symbol| Some(symbol.name().ok()?.to_owned())));
    }
    library.references = references.into_iter().filter(|name| !name.is_empty()).collect();
    library
}
