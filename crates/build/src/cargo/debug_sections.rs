//! Objects without the debug information that only their IR should have.
//!
//! Sections of an object are referred to by number (by symbols, groups and
//! relocations), so none may go. Those of debug information become empty and
//! are marked to be left out by the linker (`SHF_EXCLUDE`); the other sections
//! move together.

use backtrail_machine::Error;
use object::elf::{self, FileHeader64, SectionHeader64};
use object::endian::{LittleEndian as LE, U64};
use object::pod;
use object::read::elf::{FileHeader as _, SectionHeader as _};

/// The object `bytes` with its debug sections emptied; `None` if it has none.
pub fn empty(bytes: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let header = FileHeader64::<LE>::parse(bytes)?;
    let table = header.sections(LE, bytes)?;
    let mut sections: Vec<SectionHeader64<LE>> = table.iter().copied().collect();
    let mut contents = Vec::with_capacity(sections.len());
    let mut found = false;
    for (section, original) in sections.iter_mut().zip(table.iter()) {
        let name = table.section_name(LE, original)?;
        // `.debug_gdb_scripts` is part of the program: rustc lets `main` read it.
        let loaded = original.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0;
        let is_debug = name.starts_with(b".debug_") || name.starts_with(b".rela.debug_");
        if is_debug && !loaded {
            found = true;
            section.sh_size = U64::new(LE, 0);
            section.sh_flags = U64::new(LE, original.sh_flags(LE) | elf::SHF_EXCLUDE);
            contents.push(&bytes[..0]);
        } else {
            contents.push(original.data(LE, bytes)?);
        }
    }
    if !found {
        return Ok(None);
    }

    let mut out = bytes[..size_of::<FileHeader64<LE>>()].to_vec();
    for (section, data) in sections.iter_mut().zip(contents) {
        if section.sh_type(LE) == elf::SHT_NULL {
            continue;
        }
        let align = usize::try_from(section.sh_addralign(LE)).unwrap_or(1).clamp(1, 4096);
        out.resize(out.len().next_multiple_of(align), 0);
        section.sh_offset = U64::new(LE, out.len() as u64);
        out.extend(data);
    }
    out.resize(out.len().next_multiple_of(8), 0);
    let start = U64::new(LE, out.len() as u64);
    out.extend(pod::bytes_of_slice(&sections));
    let place = std::mem::offset_of!(FileHeader64<LE>, e_shoff);
    out[place..place + 8].copy_from_slice(pod::bytes_of(&start));
    Ok(Some(out))
}
