//! Libraries that an ELF file asks for by a path, asked for by their file names.
//!
//! The loader opens a name with a slash in it as it is, and looks for others in folders.
//! What is behind the last slash of a string in the table of strings is a string, too, so
//! only offsets change: of the libraries that are needed, of those that versions are
//! needed of, which the loader compares with them, and of the file's own name.

use object::elf;
use object::endian::LittleEndian as LE;
use object::pod::bytes_of;
use object::read::elf::{Dyn as _, ElfFile64};

use crate::Error;

/// Makes `bytes` ask for the libraries by their file names whose names with a path
/// `is_one` says, and be called by its own.
pub fn shorten(bytes: &mut [u8], is_one: impl Fn(&str) -> bool) -> Result<(), Error> {
    for (at, size, value) in changes(bytes, is_one)? {
        bytes[at..at + size].copy_from_slice(&value.to_le_bytes()[..size]);
    }
    Ok(())
}

/// Where so many bytes have to become this number.
fn changes(bytes: &[u8], is_one: impl Fn(&str) -> bool) -> Result<Vec<(usize, usize, u64)>, Error> {
    let file: ElfFile64<'_, LE> = ElfFile64::parse(bytes)?;
    let sections = file.elf_section_table();
    let mut changes = Vec::new();
    // Everything is in `bytes`: the parser gives parts of it.
    let place = |part: &[u8]| part.as_ptr() as usize - bytes.as_ptr() as usize;
    let file_name = |name: &[u8]| {
        let name = str::from_utf8(name).ok().filter(|name| is_one(name))?;
        name.rfind('/').map(|slash| slash as u64 + 1)
    };
    if let Some((entries, strings)) = sections.dynamic(LE, bytes)? {
        let strings = sections.strings(LE, bytes, strings)?;
        for entry in entries.iter().filter(|it| it.d_tag(LE) != elf::DT_NULL) {
            if ![elf::DT_NEEDED, elf::DT_SONAME].contains(&entry.d_tag(LE)) {
                continue;
            }
            let offset = u32::try_from(entry.d_val(LE)).ok();
            let name = offset.and_then(|offset| strings.get(offset).ok());
            if let Some(more) = name.and_then(file_name) {
                changes.push((place(bytes_of(entry)) + 8, 8, entry.d_val(LE) + more));
            }
        }
    }
    if let Some((mut needs, strings)) = sections.gnu_verneed(LE, bytes)? {
        let strings = sections.strings(LE, bytes, strings)?;
        while let Some((need, _)) = needs.next()? {
            let offset = need.vn_file.get(LE);
            if let Some(more) = strings.get(offset).ok().and_then(file_name) {
                changes.push((place(bytes_of(need)) + 4, 4, u64::from(offset) + more));
            }
        }
    }
    Ok(changes)
}
