//! An ELF file that was mapped into a process: its program headers, build id,
//! sections and symbols.
//!
//! Sections are read when they are asked for, and only those: the debug
//! information of a large program is larger than everything else. The vDSO has
//! no file; its image is the process's own memory. Addresses here are the
//! file's own; a [`crate::modules::Module`] knows by how much they moved.

use std::fs::File;
use std::io::{self, Cursor, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use backtrail_foreign::file;
use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _, ReadCache, SymbolKind};

use crate::Error;

/// The bytes of debug information and unwind tables.
pub(crate) type Slice = gimli::EndianArcSlice<gimli::LittleEndian>;

/// Bytes, to be read with gimli.
pub(crate) fn slice(bytes: Arc<[u8]>) -> Slice {
    Slice::new(bytes, gimli::LittleEndian)
}

/// An ELF file.
#[derive(Debug)]
pub struct Image {
    source: Source,
    /// Its build id, if it has one.
    pub build_id: Option<Vec<u8>>,
    /// Whether it is bound to its addresses.
    pub fixed: bool,
    /// Where its program headers are, once loaded, by its own addresses.
    pub(crate) headers_address: Option<u64>,
    /// Where it begins to run.
    pub(crate) entry: u64,
    /// What is loaded of it, in the order of the file.
    pub loads: Vec<Load>,
    unwind_header: Option<(u64, u64)>,
}

/// A part of the file that is loaded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// Its address.
    pub address: u64,
    /// How long it is in memory.
    pub size: u64,
    /// Where it is in the file.
    pub offset: u64,
    /// How long it is there.
    pub in_file: u64,
    /// Whether it is code.
    pub executable: bool,
}

/// A section: its address and its contents, decompressed.
#[derive(Debug, Clone)]
pub(crate) struct Section {
    pub address: u64,
    pub bytes: Arc<[u8]>,
}

/// A function of the symbol table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Symbol {
    /// Its address.
    pub address: u64,
    /// Its size; 0 if it is not known.
    pub size: u64,
    /// Its linkage name.
    pub name: String,
    /// Whether other files can refer to it.
    pub global: bool,
}

#[derive(Debug, Clone)]
enum Source {
    File(PathBuf),
    Memory(Arc<[u8]>),
}

enum Stream {
    File(File),
    Memory(Cursor<Arc<[u8]>>),
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::File(file) => file.read(buffer),
            Self::Memory(bytes) => bytes.read(buffer),
        }
    }
}

impl Seek for Stream {
    fn seek(&mut self, place: SeekFrom) -> io::Result<u64> {
        match self {
            Self::File(file) => file.seek(place),
            Self::Memory(bytes) => bytes.seek(place),
        }
    }
}

type Parsed<'a> = ElfFile64<'a, LE, &'a ReadCache<Stream>>;

impl Image {
    /// Reads the headers of a file.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(Source::File(path.to_owned()))
    }

    /// Reads the headers of an image that is in memory.
    pub fn from_memory(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(Source::Memory(bytes.into()))
    }

    fn new(source: Source) -> Result<Self, Error> {
        let mut image = Self {
            source,
            build_id: None,
            fixed: false,
            headers_address: None,
            entry: 0,
            loads: Vec::new(),
            unwind_header: None,
        };
        let found = image.with(|file| {
            let header = file.elf_header();
            let headers = file.elf_program_headers();
            let of = |kind| headers.iter().filter(move |header| header.p_type(LE) == kind);
            let loads: Vec<Load> = of(elf::PT_LOAD)
                .map(|load| Load {
                    address: load.p_vaddr(LE),
                    size: load.p_memsz(LE),
                    offset: load.p_offset(LE),
                    in_file: load.p_filesz(LE),
                    executable: load.p_flags(LE).0 & elf::PF_X.0 != 0,
                })
                .collect();
            let place = header.e_phoff(LE);
            let at = loads.iter().find(|load| {
                (load.offset..load.offset.saturating_add(load.in_file)).contains(&place)
            });
            let at = at.map(|load| load.address.wrapping_add(place - load.offset));
            let unwind = of(elf::PT_GNU_EH_FRAME).next();
            let unwind = unwind.map(|header| (header.p_vaddr(LE), header.p_memsz(LE)));
            // Damage elsewhere must not hide the rest.
            let build_id = file.build_id().ok().flatten().map(<[u8]>::to_vec);
            let fixed = header.e_type(LE) == elf::ET_EXEC;
            Ok((build_id, fixed, at, header.e_entry(LE), loads, unwind))
        })?;
        (
            image.build_id,
            image.fixed,
            image.headers_address,
            image.entry,
            image.loads,
            image.unwind_header,
        ) = found;
        Ok(image)
    }

    /// Where the file is, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match &self.source {
            Source::File(path) => Some(path),
            Source::Memory(_) => None,
        }
    }

    fn with<T>(&self, use_it: impl FnOnce(&Parsed<'_>) -> Result<T, Error>) -> Result<T, Error> {
        let mut stream = match &self.source {
            Source::File(path) => Stream::File(file::open(path).map_err(Error::read(path))?),
            Source::Memory(bytes) => Stream::Memory(Cursor::new(bytes.clone())),
        };
        let mut start = Vec::new();
        let read = stream.by_ref().take(20).read_to_end(&mut start);
        if let (Err(error), Some(path)) = (read, self.path()) {
            return Err(Error::Read { path: path.to_owned(), source: error });
        }
        if !start.starts_with(&elf::ELFMAG) || start.len() < 20 {
            return Err(Error::NotElf);
        }
        let machine = u16::from_le_bytes([start[18], start[19]]);
        if start[4] != elf::ELFCLASS64.0
            || start[5] != elf::ELFDATA2LSB.0
            || machine != elf::EM_X86_64.0
        {
            return Err(Error::Unsupported("not for x86-64".to_owned()));
        }
        let cache = ReadCache::new(stream);
        use_it(&Parsed::parse(&cache)?)
    }

    /// Whether the part of the file at an offset is loaded as code.
    pub(crate) fn is_code(&self, offset: u64) -> bool {
        self.loads.iter().any(|load| {
            let start = load.offset & !0xfff;
            load.executable && (start..load.offset.saturating_add(load.in_file)).contains(&offset)
        })
    }

    /// The lowest address of what is loaded, rounded down to a page.
    pub(crate) fn lowest(&self) -> Option<u64> {
        self.loads.iter().map(|load| load.address & !0xfff).min()
    }

    /// Sections of these names, `None` for those that are missing or damaged.
    pub(crate) fn sections<const N: usize>(&self, names: [&str; N]) -> [Option<Section>; N] {
        let found = self.with(|file| {
            Ok(names.map(|name| {
                let section = file.section_by_name(name)?;
                // `objcopy --only-keep-debug` keeps the headers of sections
                // whose contents it takes away.
                if section.elf_section_header().sh_type.get(LE) == elf::SHT_NOBITS {
                    return None;
                }
                let bytes = crate::elf::uncompressed(section.compressed_data().ok()?).ok()?;
                Some(Section { address: section.address(), bytes: bytes.as_ref().into() })
            }))
        });
        found.unwrap_or([const { None }; N])
    }

    /// Whether there is a section of that name, with contents.
    pub fn has_section(&self, name: &str) -> bool {
        let found = self.with(|file| {
            let section = file.section_by_name(name);
            Ok(section.is_some_and(|section| {
                section.elf_section_header().sh_type.get(LE) != elf::SHT_NOBITS
            }))
        });
        found.unwrap_or(false)
    }

    /// The libraries it asks for.
    pub(crate) fn needed(&self) -> Vec<String> {
        self.dynamic_strings(elf::DT_NEEDED)
    }

    /// The name others ask for it by.
    pub(crate) fn soname(&self) -> Option<String> {
        self.dynamic_strings(elf::DT_SONAME).pop()
    }

    fn dynamic_strings(&self, tag: elf::DynamicTag) -> Vec<String> {
        let found = self.with(|file| {
            let table = file.elf_dynamic_table()?;
            let entries = table.iter().filter(|entry| entry.tag == tag);
            let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            Ok(entries.filter_map(|entry| table.string(entry).ok()).map(text).collect())
        });
        found.unwrap_or_default()
    }

    /// `.eh_frame_hdr` and `.eh_frame` by the program headers, for a file
    /// without section headers.
    pub(crate) fn unwind_segment(&self) -> Option<(Section, Section)> {
        let (address, size) = self.unwind_header?;
        let header = Section { address, bytes: self.loaded(address, size)? };
        let bases = gimli::BaseAddresses::default().set_eh_frame_hdr(address);
        let parsed = gimli::EhFrameHdr::from(slice(header.bytes.clone()));
        let frames = match parsed.parse(&bases, 8).ok()?.eh_frame_ptr() {
            gimli::Pointer::Direct(address) => address,
            gimli::Pointer::Indirect(_) => return None,
        };
        let load = self.load_of(frames)?;
        let size = load.in_file - (frames - load.address);
        Some((header, Section { address: frames, bytes: self.loaded(frames, size)? }))
    }

    fn load_of(&self, address: u64) -> Option<&Load> {
        self.loads
            .iter()
            .find(|load| address >= load.address && address - load.address < load.in_file)
    }

    /// What the file has for some addresses.
    fn loaded(&self, address: u64, size: u64) -> Option<Arc<[u8]>> {
        let load = self.load_of(address)?;
        let within = address - load.address;
        let size = size.min(load.in_file - within);
        let offset = load.offset.checked_add(within)?;
        self.with(|file| {
            use object::read::ReadRef as _;
            let bytes = file.data().read_bytes_at(offset, size).map_err(|()| Error::NotElf)?;
            Ok(bytes.into())
        })
        .ok()
    }

    /// The functions of the symbol tables, by address.
    pub(crate) fn symbols(&self) -> Vec<Symbol> {
        let found = self.with(|file| {
            let mut symbols = Vec::new();
            for symbol in file.symbols().chain(file.dynamic_symbols()) {
                let function = symbol.kind() == SymbolKind::Text && !symbol.is_undefined();
                let Ok(name) = symbol.name() else { continue };
                if function && !name.is_empty() {
                    symbols.push(Symbol {
                        address: symbol.address(),
                        size: symbol.size(),
                        name: name.to_owned(),
                        global: symbol.is_global(),
                    });
                }
            }
            Ok(symbols)
        });
        let mut symbols = found.unwrap_or_default();
        symbols.sort_by(|a, b| {
            let key = |symbol: &Symbol| (symbol.address, symbol.size, !symbol.global);
            key(a).cmp(&key(b)).then_with(|| a.name.cmp(&b.name))
        });
        symbols.dedup();
        symbols
    }

    /// The name of the file with its debug information.
    pub(crate) fn debug_link(&self) -> Option<String> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.with(|file| Ok(file.gnu_debuglink()?.map(|(name, _)| text(name)))).ok().flatten()
    }

    /// The file, and its build id, with debug information that several share
    /// (dwz).
    pub(crate) fn shared_debug_link(&self) -> Option<(String, Vec<u8>)> {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let found = self
            .with(|file| Ok(file.gnu_debugaltlink()?.map(|(name, id)| (text(name), id.to_vec()))));
        found.ok().flatten()
    }
}

/// A build id as people write it.
pub fn build_id_text(id: &[u8]) -> String {
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}
