//! Objects that no compiler made, but we did.

use object::write::Object;
use object::{Architecture, BinaryFormat, Endianness, SectionFlags, SectionKind, elf};

/// An object with nothing in it but the word that it needs no executable stack. GNU
/// ld and gold make the stack of a whole program executable for one object that does
/// not say so (ld's manual, `-z execstack`).
pub fn begin() -> Object<'static> {
    let mut object = Object::new(BinaryFormat::Elf, Architecture::X86_64, Endianness::Little);
    let note = object.add_section(Vec::new(), b".note.GNU-stack".to_vec(), SectionKind::Other);
    object.section_mut(note).flags =
        SectionFlags::Elf { sh_type: elf::SHT_PROGBITS, sh_flags: Default::default() };
    object
}
