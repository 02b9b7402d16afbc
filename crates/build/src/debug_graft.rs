//! Adds the debug information of one object to another with the same code.
//!
//! A unit whose user wants debug information is compiled twice, once with theirs
//! and once with lines that stand for blocks. Debug information changes no code,
//! which is checked here to the byte; then what the second object says of it is
//! true of the first, and its sections are added to it under other names, with
//! their relocations.
//!
//! Relocations of debug information refer to sections, by symbols that the other
//! object may lack. Such symbols are local, and local symbols come before all
//! others: whatever refers to one of those is numbered anew. A section of hints
//! that lists symbols by number (`.llvm_addrsig`) is left out: without it no
//! functions are folded into one.

use std::collections::BTreeMap;

use backtrail_machine::Error;
use backtrail_plan::block_lines::SECTION_PREFIX;
use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::{ElfFile64, FileHeader as _, Rela as _, SectionHeader as _, Sym as _};

const HEADER_BYTES: usize = 64;
const SYMBOL_BYTES: usize = 24;
const RELOCATION_BYTES: usize = 24;
/// The type of `.llvm_addrsig` (`SHT_LLVM_ADDRSIG` of LLVM's `ELF.h`).
const ADDRESS_SIGNIFICANCE: u32 = 0x6fff_4c03;
/// Section numbers of symbols from here on mean something else.
const RESERVED: usize = 0xff00;

type Header = elf::SectionHeader64<LE>;

/// An object file.
struct Object<'d> {
    bytes: &'d [u8],
    sections: Vec<Header>,
    names: Vec<Vec<u8>>,
    file: ElfFile64<'d, LE>,
}

fn unusable(what: &str) -> Error {
    Error::Unsupported(format!("an object whose debug information cannot be moved: {what}"))
}

impl<'d> Object<'d> {
    fn read(bytes: &'d [u8]) -> Result<Self, Error> {
        let file: ElfFile64<'d, LE> = ElfFile64::parse(bytes)?;
        let table = file.elf_section_table();
        let sections: Vec<Header> = table.iter().copied().collect();
        let mut names = Vec::new();
        for section in &sections {
            names.push(table.section_name(LE, section)?.to_vec());
        }
        Ok(Self { bytes, sections, names, file })
    }

    fn data(&self, section: usize) -> Result<&'d [u8], Error> {
        Ok(self.sections[section].data(LE, self.bytes)?)
    }

    /// The sections that are loaded when the program runs, by number.
    fn loaded(&self) -> impl Iterator<Item = usize> {
        let is_loaded = |section: &Header| section.sh_flags(LE).0 & elf::SHF_ALLOC.0 != 0;
        (0..self.sections.len()).filter(move |&it| is_loaded(&self.sections[it]))
    }

    fn is_debug(&self, section: usize) -> bool {
        self.names[section].starts_with(b".debug_")
    }

    fn symbol_table(&self) -> Result<usize, Error> {
        let mut numbers = 0..self.sections.len();
        let found = numbers.find(|&it| self.sections[it].sh_type(LE) == elf::SHT_SYMTAB);
        found.ok_or_else(|| unusable("it has no symbols"))
    }
}

/// Whether both objects have the same code and data, and in what order: the
/// number in the second of each loaded section of the first.
fn same_code(
    one: &Object<'_>,
    other: &Object<'_>,
) -> Result<Option<BTreeMap<usize, usize>>, Error> {
    let (first, second): (Vec<_>, Vec<_>) = (one.loaded().collect(), other.loaded().collect());
    if first.len() != second.len() {
        return Ok(None);
    }
    let mut same = BTreeMap::new();
    for (&a, &b) in first.iter().zip(&second) {
        let (x, y) = (&one.sections[a], &other.sections[b]);
        let alike = one.names[a] == other.names[b]
            && x.sh_type(LE) == y.sh_type(LE)
            && x.sh_size(LE) == y.sh_size(LE)
            && one.data(a)? == other.data(b)?;
        if !alike {
            return Ok(None);
        }
        same.insert(b, a);
    }
    Ok(Some(same))
}

/// `object` with the debug information of `donor` in sections of other names;
/// `None` if the two have different code.
pub fn graft(object: &[u8], donor: &[u8]) -> Result<Option<Vec<u8>>, Error> {
    let (object, donor) = (Object::read(object)?, Object::read(donor)?);
    let Some(mut places) = same_code(&object, &donor)? else { return Ok(None) };
    let debug: Vec<usize> = (0..donor.sections.len()).filter(|&it| donor.is_debug(it)).collect();
    // Debug sections follow all others, each with its relocations behind it.
    for (position, &section) in debug.iter().enumerate() {
        places.insert(section, object.sections.len() + 2 * position);
    }
    let mut graft = Graft::new(&object)?;
    let mut added = Vec::new();
    for &section in &debug {
        added.push((section, graft.relocations(&donor, section, &places)?));
    }
    Ok(Some(graft.write(&donor, &added)?))
}

struct Graft<'a, 'd> {
    object: &'a Object<'d>,
    symbol_table: usize,
    /// How many local symbols there are.
    locals: usize,
    /// The sections that get a symbol, in order.
    symbols: Vec<usize>,
}

impl<'a, 'd> Graft<'a, 'd> {
    fn new(object: &'a Object<'d>) -> Result<Self, Error> {
        let symbol_table = object.symbol_table()?;
        let is_extended = |section: &Header| section.sh_type(LE) == elf::SHT_SYMTAB_SHNDX;
        if object.sections.iter().any(is_extended) {
            return Err(unusable("it has too many sections"));
        }
        let locals = object.sections[symbol_table].sh_info(LE) as usize;
        Ok(Self { object, symbol_table, locals, symbols: Vec::new() })
    }

    /// The number of the symbol of a section.
    fn symbol_of(&mut self, section: usize) -> usize {
        let found = self.symbols.iter().position(|&it| it == section);
        self.locals
            + found.unwrap_or_else(|| {
                self.symbols.push(section);
                self.symbols.len() - 1
            })
    }

    /// The relocations of a section of the donor, for the object.
    fn relocations(
        &mut self,
        donor: &Object<'_>,
        section: usize,
        places: &BTreeMap<usize, usize>,
    ) -> Result<Vec<u8>, Error> {
        let symbols = donor.file.elf_symbol_table();
        let mut out = Vec::new();
        for header in &donor.sections {
            if header.sh_type(LE) != elf::SHT_RELA || header.sh_info(LE) as usize != section {
                continue;
            }
            let list = header.rela(LE, donor.bytes)?;
            for relocation in list.iter().flat_map(|(list, _)| list.iter()) {
                let symbol = relocation
                    .symbol(LE, false)
                    .ok_or_else(|| unusable("a relocation has no symbol"))?;
                let symbol = symbols.symbol(symbol)?;
                let defined = usize::from(symbol.st_shndx(LE).0);
                let place = (defined < RESERVED).then(|| places.get(&defined)).flatten();
                let place = *place.ok_or_else(|| unusable("it refers to another object"))?;
                let number = self.symbol_of(place) as u64;
                let kind = relocation.r_type(LE, false);
                let addend = relocation.r_addend(LE).wrapping_add_unsigned(symbol.st_value(LE));
                out.extend(relocation.r_offset(LE).to_le_bytes());
                out.extend((number << 32 | u64::from(kind.0)).to_le_bytes());
                out.extend(addend.to_le_bytes());
            }
        }
        Ok(out)
    }

    /// The number of a symbol of the object, now that others were added.
    fn renumbered(&self, symbol: u64) -> u64 {
        if symbol < self.locals as u64 { symbol } else { symbol + self.symbols.len() as u64 }
    }

    fn write(&self, donor: &Object<'_>, added: &[(usize, Vec<u8>)]) -> Result<Vec<u8>, Error> {
        let object = self.object;
        let mut out = object.bytes.to_vec();
        let mut headers: Vec<RawHeader> = object.sections.iter().map(RawHeader::of).collect();
        for (number, header) in object.sections.iter().enumerate() {
            match header.sh_type(LE) {
                elf::SHT_RELA if header.sh_link(LE) as usize == self.symbol_table => {
                    let start = header.sh_offset(LE) as usize;
                    let length = object.data(number)?.len();
                    for relocation in out[start..start + length].chunks_exact_mut(RELOCATION_BYTES)
                    {
                        let symbol = u32::from_le_bytes([
                            relocation[12],
                            relocation[13],
                            relocation[14],
                            relocation[15],
                        ]);
                        let symbol = self.renumbered(symbol.into()) as u32;
                        relocation[12..16].copy_from_slice(&symbol.to_le_bytes());
                    }
                }
                elf::SHT_GROUP => {
                    headers[number].info = self.renumbered(headers[number].info.into()) as u32;
                }
                kind if kind.0 == ADDRESS_SIGNIFICANCE => headers[number] = RawHeader::default(),
                _ => {}
            }
        }
        let names = object.file.elf_header().shstrndx(LE, object.bytes)? as usize;
        let mut table = object.data(names)?.to_vec();
        for (section, relocations) in added {
            let mut header = RawHeader::of(&donor.sections[*section]);
            let name = String::from_utf8_lossy(&donor.names[*section]);
            let name = name.replacen(".debug_", SECTION_PREFIX, 1);
            header.name = add_name(&mut table, &name)?;
            header.place(&mut out, donor.data(*section)?);
            let number = headers.len();
            headers.push(header);
            let mut header = RawHeader {
                name: add_name(&mut table, &format!(".rela{name}"))?,
                kind: elf::SHT_RELA.0,
                flags: elf::SHF_INFO_LINK.0,
                link: self.symbol_table as u32,
                info: number as u32,
                align: 8,
                entry_size: RELOCATION_BYTES as u64,
                ..RawHeader::default()
            };
            header.place(&mut out, relocations);
            headers.push(header);
        }
        let symbols = self.symbol_bytes()?;
        headers[self.symbol_table].info = (self.locals + self.symbols.len()) as u32;
        headers[self.symbol_table].place(&mut out, &symbols);
        headers[names].place(&mut out, &table);
        if headers.len() >= RESERVED {
            return Err(unusable("it has too many sections"));
        }
        out.resize(out.len().next_multiple_of(8), 0);
        let start = out.len() as u64;
        headers.iter().for_each(|header| header.write(&mut out));
        out[0x28..0x30].copy_from_slice(&start.to_le_bytes());
        out[0x3c..0x3e].copy_from_slice(&(headers.len() as u16).to_le_bytes());
        Ok(out)
    }

    /// The symbols of the object and those that were added.
    fn symbol_bytes(&self) -> Result<Vec<u8>, Error> {
        let old = self.object.data(self.symbol_table)?;
        let split = (self.locals * SYMBOL_BYTES).min(old.len());
        let mut new = old[..split].to_vec();
        for &section in &self.symbols {
            let number =
                u16::try_from(section).map_err(|_| unusable("it has too many sections"))?;
            new.extend([0; 4]);
            new.push(elf::STT_SECTION.0);
            new.push(0);
            new.extend(number.to_le_bytes());
            new.extend([0; 16]);
        }
        new.extend(&old[split..]);
        Ok(new)
    }
}

fn add_name(table: &mut Vec<u8>, name: &str) -> Result<u32, Error> {
    let at = u32::try_from(table.len()).map_err(|_| unusable("its names are too long"))?;
    table.extend(name.bytes().chain([0]));
    Ok(at)
}

/// A section header as it is written.
#[derive(Clone, Copy, Default)]
struct RawHeader {
    name: u32,
    kind: u32,
    flags: u64,
    address: u64,
    offset: u64,
    size: u64,
    link: u32,
    info: u32,
    align: u64,
    entry_size: u64,
}

impl RawHeader {
    fn of(header: &Header) -> Self {
        Self {
            name: header.sh_name.get(LE),
            kind: header.sh_type(LE).0,
            flags: header.sh_flags(LE).0,
            address: header.sh_addr.get(LE),
            offset: header.sh_offset.get(LE),
            size: header.sh_size.get(LE),
            link: header.sh_link.get(LE),
            info: header.sh_info.get(LE),
            align: header.sh_addralign.get(LE),
            entry_size: header.sh_entsize.get(LE),
        }
    }

    /// Puts the contents of the section at the end of the file.
    fn place(&mut self, out: &mut Vec<u8>, contents: &[u8]) {
        let align = self.align.clamp(1, 4096) as usize;
        out.resize(out.len().next_multiple_of(align), 0);
        self.offset = out.len() as u64;
        self.size = contents.len() as u64;
        out.extend(contents);
    }

    fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend(self.name.to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        for long in [self.flags, self.address, self.offset, self.size] {
            out.extend(long.to_le_bytes());
        }
        out.extend(self.link.to_le_bytes());
        out.extend(self.info.to_le_bytes());
        out.extend(self.align.to_le_bytes());
        out.extend(self.entry_size.to_le_bytes());
        debug_assert_eq!(out.len() - start, HEADER_BYTES);
    }
}
