//! When two files made by compilers are the same.
//!
//! For ELF files: the same sections in the same order, with the same type,
//! flags, address, alignment and bytes; the same symbols; the same relocations,
//! by the names of their symbols. Not compared are the tables that hold indices
//! of sections and names (`.symtab`, `.strtab`, `.shstrtab`, the raw bytes of
//! relocations), because one more section moves them, and the build id.

use std::fs;
use std::path::Path;

use object::read::archive::ArchiveFile;
use object::{Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionFlags};

/// Fails unless both files are the same.
#[track_caller]
pub fn assert_same(ours: &Path, plain: &Path, what: &str) {
    if ours.is_symlink() {
        assert_eq!(fs::read_link(ours).unwrap(), fs::read_link(plain).unwrap(), "{what}");
        return;
    }
    let [ours, plain] = [ours, plain].map(|path| fs::read(path).unwrap());
    if ours == plain {
        return;
    }
    if plain.starts_with(b"\x7fELF") {
        assert_same_elf(&ours, &plain, what);
    } else if plain.starts_with(b"!<arch>\n") {
        let [ours, plain] = [&ours, &plain].map(|bytes| members(bytes));
        assert_eq!(ours.len(), plain.len(), "members of {what}");
        for ((name, ours), (other, plain)) in ours.iter().zip(&plain) {
            assert_eq!(name, other, "members of {what}");
            assert_same_elf(ours, plain, &format!("{what}({name})"));
        }
    } else if plain.starts_with(b"!<thin>\n") {
        // It holds sizes, names and an index; the members are files.
    } else {
        let [ours, plain] = [&ours, &plain].map(|bytes| String::from_utf8_lossy(bytes));
        assert_eq!(ours, plain, "{what}");
    }
}

fn members(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let archive = ArchiveFile::parse(bytes).unwrap();
    let members = archive.members().map(|member| member.unwrap());
    members
        .map(|member| {
            let name = String::from_utf8_lossy(member.name()).into_owned();
            (name, member.data(bytes).unwrap().to_vec())
        })
        .collect()
}

#[track_caller]
fn assert_same_elf(ours: &[u8], plain: &[u8], what: &str) {
    let [ours, plain] = [ours, plain].map(describe);
    if let Some((ours, plain)) = ours.iter().zip(&plain).find(|(ours, plain)| ours != plain) {
        panic!("{what} differs:\n  ours  {ours}\n  clang {plain}");
    }
    assert_eq!(ours.len(), plain.len(), "{what} has more or less in it");
}

/// An ELF file, line by line.
pub fn describe(bytes: &[u8]) -> Vec<String> {
    let file = object::File::parse(bytes).unwrap();
    let mut lines = vec![format!("{:?} entry {:#x}", file.kind(), file.entry())];
    for section in file.sections() {
        let name = section.name().unwrap();
        let is_table = [".symtab", ".strtab", ".shstrtab", ".llvm_addrsig"].contains(&name)
            || (name.starts_with(".rela") && section.address() == 0)
            || name == ".group";
        if name.starts_with(".backtrail") || is_table || name.is_empty() {
            continue;
        }
        let data = section.data().unwrap();
        let data = if name == ".note.gnu.build-id" { &data[..16] } else { data };
        let SectionFlags::Elf { sh_flags, .. } = section.flags() else { panic!("not an ELF file") };
        lines.push(format!(
            "section {name} at {:#x} size {:#x} align {} flags {sh_flags:?} bytes {}",
            section.address(),
            section.size(),
            section.align(),
            digest(data),
        ));
        for (offset, relocation) in section.relocations() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    symbol_name(&file, &file.symbol_by_index(index).unwrap())
                }
                other => format!("{other:?}"),
            };
            let flags = relocation.flags();
            lines.push(format!("{name}+{offset:#x}: {flags:?} {target} {}", relocation.addend()));
        }
    }
    for symbol in file.symbols() {
        let name = symbol_name(&file, &symbol);
        if name.starts_with(".backtrail") {
            continue;
        }
        let place = symbol
            .section_index()
            .map(|index| file.section_by_index(index).unwrap().name().unwrap().to_owned());
        lines.push(format!(
            "symbol {name} {:#x}+{:#x} in {place:?} {:?} {:?} weak {} global {}",
            symbol.address(),
            symbol.size(),
            symbol.kind(),
            symbol.scope(),
            symbol.is_weak(),
            symbol.is_global(),
        ));
    }
    lines
}

/// Symbols of sections have no names of their own.
fn symbol_name(file: &object::File<'_>, symbol: &object::Symbol<'_, '_>) -> String {
    let own = symbol.name().unwrap_or_default();
    match symbol.section_index() {
        Some(index) if own.is_empty() => {
            file.section_by_index(index).unwrap().name().unwrap().to_owned()
        }
        _ => own.to_owned(),
    }
}

/// Short sections in full, long ones by a hash.
fn digest(bytes: &[u8]) -> String {
    if bytes.len() <= 64 {
        return bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    }
    // FNV-1a: equal bytes give equal digests; that is all that is needed.
    let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325_u64, |hash, &byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{} with hash {hash:016x}", bytes.len())
}
