//! The object that holds a module's bytes of coverage: see
//! [`backtrail_abi::cover`].

use backtrail_abi::UnitId;
use backtrail_abi::cover::UNIT_SYMBOL_PREFIX;
use object::write::{Object, Symbol, SymbolSection};
use object::{Architecture, BinaryFormat, Endianness, SectionKind, SymbolFlags};
use object::{SymbolKind, SymbolScope};

/// The symbol of a unit's bytes.
pub fn symbol(unit: [u8; 16]) -> String {
    format!("{UNIT_SYMBOL_PREFIX}{}", UnitId(unit))
}

/// An object with the bytes of these units, of which there are so many each; none
/// if there are none at all.
pub fn object(units: &[([u8; 16], u32)]) -> Option<Vec<u8>> {
    let total: u64 = units.iter().map(|(_, bytes)| u64::from(*bytes)).sum();
    if total == 0 {
        return None;
    }
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let area =
        object.add_section(Vec::new(), b".bss.backtrail".to_vec(), SectionKind::UninitializedData);
    object.append_section_bss(area, total, 64);
    let mut next = 0;
    for &(unit, bytes) in units.iter().filter(|(_, bytes)| *bytes > 0) {
        object.add_symbol(Symbol {
            name: symbol(unit).into_bytes(),
            value: next,
            size: bytes.into(),
            kind: SymbolKind::Data,
            // Hidden: known to the whole module, and to nobody else.
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(area),
            flags: SymbolFlags::None,
        });
        next += u64::from(bytes);
    }
    Some(object.write().expect("an object of one section can be written"))
}
