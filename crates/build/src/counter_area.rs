//! The object that holds a module's counters: see [`backtrail_abi::counts`].

use backtrail_abi::UnitId;
use backtrail_abi::counts::{
    LOAD_FUNCTION, MODULE_SYMBOL, Module, OWNER_SYMBOL, PAGE_BYTES, UNIT_SYMBOL_PREFIX,
};
use backtrail_plan::counters::Layout;
use object::write::{Object, Relocation, Symbol, SymbolSection};
use object::{
    Architecture, BinaryFormat, Endianness, RelocationFlags, SectionFlags, SectionKind,
    SymbolFlags, SymbolKind, SymbolScope, elf,
};

/// An object with an area of this layout, which is identified by `id`. That of
/// an executable makes itself known before any constructor runs; a library must
/// not have such an entry, and has a constructor of its own in the runtime.
pub fn object(layout: &Layout, id: [u8; 16], is_executable: bool) -> Vec<u8> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
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
    if is_executable {
        add_early_call(&mut object);
    }
    object.write().expect("an object of two sections can be written")
}

/// Has [`LOAD_FUNCTION`] called before anything else of the program.
fn add_early_call(object: &mut Object<'_>) {
    let load = object.add_symbol(Symbol {
        name: LOAD_FUNCTION.into(),
        value: 0,
        size: 0,
        kind: SymbolKind::Text,
        scope: SymbolScope::Unknown,
        weak: false,
        section: SymbolSection::Undefined,
        flags: SymbolFlags::None,
    });
    let array = object.add_section(Vec::new(), b".preinit_array".to_vec(), SectionKind::Data);
    object.section_mut(array).flags = SectionFlags::Elf {
        sh_type: elf::SHT_PREINIT_ARRAY,
        sh_flags: elf::SHF_ALLOC | elf::SHF_WRITE,
    };
    object.append_section_data(array, &[0; 8], 8);
    let relocation = Relocation {
        offset: 0,
        symbol: load,
        addend: 0,
        flags: RelocationFlags::Elf { r_type: elf::R_X86_64_64 },
    };
    object.add_relocation(array, relocation).expect("the relocation is one ELF has");
}
