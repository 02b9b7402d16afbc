//! The object by which a module that records knows which variant it is:
//! [`backtrail_abi::modules`].

use std::mem::offset_of;

use backtrail_abi::counts::LOAD_FUNCTION;
use backtrail_abi::modules::{VARIANT_SYMBOL, Variant};
use object::write::{Object, Relocation, Symbol, SymbolSection};
use object::{
    RelocationFlags, SectionFlags, SectionKind, SymbolFlags, SymbolKind, SymbolScope, elf,
};

use crate::generated_object;

/// The object of this variant. That of an executable makes itself known before any
/// constructor runs; a library must not have such an entry, and has a constructor of its
/// own in the runtime.
pub fn object(id: [u8; 16], is_executable: bool) -> Vec<u8> {
    let mut object = generated_object::begin();
    let data =
        object.add_section(Vec::new(), b".rodata.backtrail".to_vec(), SectionKind::ReadOnlyData);
    let mut variant = vec![0u8; size_of::<Variant>()];
    let mut put = |at: usize, bytes: &[u8]| variant[at..at + bytes.len()].copy_from_slice(bytes);
    put(offset_of!(Variant, version), &backtrail_abi::VERSION.to_le_bytes());
    put(offset_of!(Variant, is_executable), &u32::from(is_executable).to_le_bytes());
    put(offset_of!(Variant, id), &id);
    object.append_section_data(data, &variant, 8);
    object.add_symbol(Symbol {
        name: VARIANT_SYMBOL.into(),
        value: 0,
        size: variant.len() as u64,
        kind: SymbolKind::Data,
        // Hidden: known to the whole module, and to nobody else.
        scope: SymbolScope::Linkage,
        weak: false,
        section: SymbolSection::Section(data),
        flags: SymbolFlags::None,
    });
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
