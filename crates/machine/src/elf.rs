//! What an ELF file is and what it holds.

use std::borrow::Cow;

use backtrail_foreign::packed::most;
use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::{
    Dyn, ElfFile64, ElfSection64, FileHeader as _, ProgramHeader as _, SectionHeader as _,
};
use object::read::{CompressedData, CompressionFormat, Object, ObjectSection, ObjectSymbol};

use crate::Error;

/// An ELF file of 64 bits, little endian, for x86-64, held in memory.
pub struct Elf<'data> {
    file: ElfFile64<'data, LE>,
}

/// What kind of file it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An object to be linked.
    Relocatable,
    /// An executable at a fixed address.
    Executable,
    /// An executable that can be loaded anywhere.
    PositionIndependentExecutable,
    /// A shared library.
    SharedLibrary,
    /// A core dump.
    Core,
}

/// A symbol that other files can refer to.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct DefinedSymbol {
    /// Its name.
    pub name: String,
    /// Whether another definition may take precedence.
    pub weak: bool,
}

/// A section of an object that becomes part of what is linked, with its own name there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LinkedSection {
    /// Its name.
    pub name: String,
    /// How many bytes it has; they need not be in the file.
    pub size: u64,
    /// A power of two; 0 is 1.
    pub align: u64,
}

impl<'data> Elf<'data> {
    /// Reads the headers of `bytes`.
    pub fn parse(bytes: &'data [u8]) -> Result<Self, Error> {
        if !bytes.starts_with(&elf::ELFMAG) {
            return Err(Error::NotElf);
        }
        if bytes.get(4) != Some(&elf::ELFCLASS64.0) || bytes.get(5) != Some(&elf::ELFDATA2LSB.0) {
            return Err(Error::Unsupported("not 64-bit little-endian".into()));
        }
        let file = ElfFile64::parse(bytes)?;
        let machine = file.elf_header().e_machine(LE);
        if machine != elf::EM_X86_64 {
            return Err(Error::Unsupported(format!("machine {machine}, not x86-64")));
        }
        Ok(Self { file })
    }

    /// What kind of file this is.
    pub fn kind(&self) -> Result<Kind, Error> {
        match self.file.elf_header().e_type(LE) {
            elf::ET_REL => Ok(Kind::Relocatable),
            elf::ET_EXEC => Ok(Kind::Executable),
            elf::ET_CORE => Ok(Kind::Core),
            elf::ET_DYN if self.is_position_independent_executable() => {
                Ok(Kind::PositionIndependentExecutable)
            }
            elf::ET_DYN => Ok(Kind::SharedLibrary),
            other => Err(Error::Unsupported(format!("file type {other}"))),
        }
    }

    /// A PIE has an interpreter, or says so in its flags (static PIE).
    fn is_position_independent_executable(&self) -> bool {
        let interpreted = self
            .file
            .elf_program_headers()
            .iter()
            .any(|header| header.p_type(LE) == elf::PT_INTERP);
        interpreted || self.dynamic(elf::DT_FLAGS_1).any(|flags| flags & elf::DF_1_PIE.0 != 0)
    }

    fn dynamic(&self, tag: elf::DynamicTag) -> impl Iterator<Item = u64> + '_ {
        let entries = self
            .file
            .elf_program_headers()
            .iter()
            .find_map(|header| header.dynamic(LE, self.file.data()).ok().flatten())
            .unwrap_or_default();
        entries.iter().filter(move |entry| entry.d_tag(LE) == tag).map(|entry| entry.d_val(LE))
    }

    fn dynamic_strings(&self, tag: elf::DynamicTag) -> Vec<String> {
        let Some(table) = self.section(".dynstr").ok().flatten() else { return Vec::new() };
        let string = |offset: u64| {
            let rest = table.get(usize::try_from(offset).ok()?..)?;
            let end = rest.iter().position(|&byte| byte == 0)?;
            String::from_utf8(rest[..end].to_vec()).ok()
        };
        self.dynamic(tag).filter_map(string).collect()
    }

    /// The shared libraries it asks for.
    pub fn needed(&self) -> Vec<String> {
        self.dynamic_strings(elf::DT_NEEDED)
    }

    /// Where it asks for shared libraries to be looked for, `$ORIGIN` unexpanded.
    pub fn run_path(&self) -> Vec<String> {
        let mut paths = self.dynamic_strings(elf::DT_RUNPATH);
        if paths.is_empty() {
            paths = self.dynamic_strings(elf::DT_RPATH);
        }
        paths.iter().flat_map(|path| path.split(':')).map(str::to_owned).collect()
    }

    /// The name other files ask for it by, if it is a shared library.
    pub fn soname(&self) -> Option<String> {
        self.dynamic_strings(elf::DT_SONAME).pop()
    }

    /// The build id, if it has one.
    pub fn build_id(&self) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.file.build_id()?.map(<[u8]>::to_vec))
    }

    /// The contents of a section, decompressed, if there is one of that name.
    pub fn section(&self, name: &str) -> Result<Option<Vec<u8>>, Error> {
        let Some(section) = self.file.section_by_name(name) else { return Ok(None) };
        Ok(Some(uncompressed(section.compressed_data()?)?.into_owned()))
    }

    /// The names of all sections.
    pub fn section_names(&self) -> Vec<String> {
        self.file.sections().filter_map(|section| Some(section.name().ok()?.to_owned())).collect()
    }

    /// The defined symbols that other files can refer to, sorted.
    pub fn defined_symbols(&self) -> Vec<DefinedSymbol> {
        let mut symbols: Vec<_> = self
            .file
            .symbols()
            .filter(|symbol| symbol.is_global() && !symbol.is_undefined())
            .filter_map(|symbol| {
                Some(DefinedSymbol { name: symbol.name().ok()?.to_owned(), weak: symbol.is_weak() })
            })
            .collect();
        symbols.sort();
        symbols
    }

    /// The sections that are loaded and are not empty, in their order. Left out are those
    /// that linkers put together in ways of their own: what is in groups, of which one of
    /// many is kept, what is merged, notes, and unwind tables.
    pub fn linked_sections(&self) -> Vec<LinkedSection> {
        let is_linked = |section: &ElfSection64<'_, '_, LE>| {
            let header = section.elf_section_header();
            let flags = header.sh_flags(LE).0;
            flags & elf::SHF_ALLOC.0 != 0
                && flags & (elf::SHF_GROUP.0 | elf::SHF_MERGE.0) == 0
                && ![elf::SHT_NOTE, elf::SHT_X86_64_UNWIND].contains(&header.sh_type(LE))
                && section.size() != 0
                && section.name().is_ok_and(|name| name != ".eh_frame")
        };
        let linked = |section: ElfSection64<'_, '_, LE>| {
            let name = section.name().ok()?.to_owned();
            Some(LinkedSection { name, size: section.size(), align: section.align() })
        };
        self.file.sections().filter(is_linked).filter_map(linked).collect()
    }
}

/// The contents of a section, unless it says that they are far more than such
/// contents are.
pub(crate) fn uncompressed(data: CompressedData<'_>) -> Result<Cow<'_, [u8]>, Error> {
    let is_more = data.uncompressed_size > most(data.data.len());
    if data.format != CompressionFormat::None && is_more {
        return Err(Error::Unsupported("a section that unpacks to far more than it has".into()));
    }
    Ok(data.decompress()?)
}
