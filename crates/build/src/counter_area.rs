//! The object that holds a module's counters: see [`backtrail_abi::counts`].

use backtrail_abi::UnitId;
use backtrail_abi::counts::{
    MODULE_SYMBOL, Module, ORDER_OFFSET, ORDER_SYMBOL, OWNER_SYMBOL, PAGE_BYTES, UNIT_SYMBOL_PREFIX,
};
use backtrail_plan::counters::Layout;
use object::write::{Relocation, Symbol, SymbolSection};
use object::{RelocationFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf};

use crate::generated_object;

/// An object with an area of this layout, which is identified by `id`.
pub fn object(layout: &Layout, id: [u8; 16]) -> Vec<u8> {
    let mut object = generated_object::begin();
    let area =
        object.add_section(Vec::new(), b".bss.backtrail".to_vec(), SectionKind::UninitializedData);
    object.append_section_bss(area, layout.bytes, PAGE_BYTES);
    let mut define = |name: String, section, value, size| {
        object.add_symbol(Symbol {
            name: name.into_bytes(),
            value,
            size,
            kind: SymbolKind::Data,
            // Hidden: known to the whole module, and to nobody else.
            scope: SymbolScope::Linkage,
            weak: false,
            section: SymbolSection::Section(section),
            flags: SymbolFlags::None,
        })
    };
    let owner = define(OWNER_SYMBOL.to_owned(), area, 0, 8);
    define(ORDER_SYMBOL.to_owned(), area, ORDER_OFFSET, 8);
    for unit in &layout.units {
        let name = format!("{UNIT_SYMBOL_PREFIX}{}", UnitId(unit.unit));
        define(name, area, unit.offset, u64::from(unit.counters) * 8);
    }
    let data = object.add_section(Vec::new(), b".data.backtrail".to_vec(), SectionKind::Data);
    let mut module = vec![0u8; size_of::<Module>()];
    let mut put = |at: usize, bytes: &[u8]| module[at..at + bytes.len()].copy_from_slice(bytes);
    put(core::mem::offset_of!(Module, version), &backtrail_abi::VERSION.to_le_bytes());
    put(core::mem::offset_of!(Module, layout), &id);
    put(core::mem::offset_of!(Module, bytes), &layout.bytes.to_le_bytes());
    object.append_section_data(data, &module, 8);
    object.add_symbol(Symbol {
        name: MODULE_SYMBOL.into(),
        value: 0,
        size: module.len() as u64,
        kind: SymbolKind::Data,
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(data),
        flags: SymbolFlags::None,
    });
    // The distance from the structure, not from the field.
    let field = core::mem::offset_of!(Module, area) as u64;
    let relocation = Relocation {
        offset: field,
        symbol: owner,
        addend: field as i64,
        flags: RelocationFlags::Elf { r_type: elf::R_X86_64_PC64 },
    };
    object.add_relocation(data, relocation).expect("the relocation is one ELF has");
    object.write().expect("an object of two sections can be written")
}
