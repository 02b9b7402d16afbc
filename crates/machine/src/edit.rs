//! Adds sections to an ELF file and takes them away.
//!
//! What is loaded keeps its place in the file, and section numbers do not
//! change, so nothing that refers to them has to be rewritten: new sections get
//! headers at the end of the table, removed ones leave an inactive header
//! (`SHT_NULL`, which the ELF specification provides for that). The names and
//! the table of headers are written anew at the end of the file.
//!
//! In an executable or shared library the sections behind the last loaded byte
//! are laid out anew, so that removing one gives its bytes back; in an object
//! sections stay where they are and new ones follow.

use object::elf;

use crate::Error;

/// A section to add: not loaded, aligned to one byte.
pub struct NewSection<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its contents.
    pub data: &'a [u8],
}

/// Changes to an ELF file.
#[derive(Default)]
pub struct Edit<'a> {
    /// Names of the sections to take away; those that do not exist are ignored.
    pub remove: &'a [&'a str],
    /// Sections to add, behind all others.
    pub add: &'a [NewSection<'a>],
    /// Another beginning for the names of sections that begin like the first of
    /// these, and how it is from then on.
    pub rename: Option<(&'a str, &'a str)>,
}

const HEADER_BYTES: usize = 64;

/// A section header, as the ELF specification lays it out for 64 bits.
#[derive(Clone, Copy, Default)]
struct SectionHeader {
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

impl SectionHeader {
    fn read(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_BYTES] = bytes.get(..HEADER_BYTES)?.try_into().ok()?;
        let word = |at: usize| {
            u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let long = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        Some(Self {
            name: word(0),
            kind: word(4),
            flags: long(8),
            address: long(16),
            offset: long(24),
            size: long(32),
            link: word(40),
            info: word(44),
            align: long(48),
            entry_size: long(56),
        })
    }

    fn write(&self, out: &mut Vec<u8>) {
        out.extend(self.name.to_le_bytes());
        out.extend(self.kind.to_le_bytes());
        for long in [self.flags, self.address, self.offset, self.size] {
            out.extend(long.to_le_bytes());
        }
        out.extend(self.link.to_le_bytes());
        out.extend(self.info.to_le_bytes());
        out.extend(self.align.to_le_bytes());
        out.extend(self.entry_size.to_le_bytes());
    }

    /// Whether it names a section, by number.
    fn refers_to(&self, section: usize) -> bool {
        let is_relocation = [elf::SHT_REL.0, elf::SHT_RELA.0].contains(&self.kind);
        let by_info = is_relocation || self.flags & elf::SHF_INFO_LINK.0 != 0;
        self.link as usize == section || by_info && self.info as usize == section
    }

    fn is_in_file(&self) -> bool {
        self.kind != elf::SHT_NULL.0 && self.kind != elf::SHT_NOBITS.0
    }

    fn range(&self) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(self.offset).ok()?;
        Some(start..start.checked_add(usize::try_from(self.size).ok()?)?)
    }
}

/// The parts of the file header that an edit reads or changes.
struct FileHeader {
    relocatable: bool,
    programs: Vec<std::ops::Range<usize>>,
    sections: Vec<SectionHeader>,
    names: usize,
}

fn corrupt(what: &str) -> Error {
    Error::Corrupt(what.to_owned())
}

fn number(bytes: &[u8], at: usize, size: usize) -> Result<u64, Error> {
    let field = at.checked_add(size).and_then(|end| bytes.get(at..end));
    let field = field.ok_or_else(|| corrupt("the file header is cut short"))?;
    Ok(field.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte)))
}

impl FileHeader {
    fn read(bytes: &[u8]) -> Result<Self, Error> {
        crate::elf::Elf::parse(bytes)?;
        let programs = Self::read_programs(bytes)?;
        let start = number(bytes, 0x28, 8)? as usize;
        let first = bytes.get(start..).and_then(SectionHeader::read);
        let first =
            first.filter(|_| start != 0).ok_or_else(|| corrupt("it has no section headers"))?;
        // Past 65,279 sections the real numbers stand in the first header.
        let count = match number(bytes, 0x3c, 2)? {
            0 => first.size as usize,
            count => count as usize,
        };
        let names = match number(bytes, 0x3e, 2)? as u32 {
            0xffff => first.link as usize,
            names => names as usize,
        };
        let headers = bytes[start..].chunks_exact(HEADER_BYTES).take(count);
        let sections: Vec<_> = headers.filter_map(SectionHeader::read).collect();
        if sections.len() != count || names >= count {
            return Err(corrupt("the section headers are cut short"));
        }
        let relocatable = number(bytes, 0x10, 2)? == u64::from(elf::ET_REL.0);
        Ok(Self { relocatable, programs, sections, names })
    }

    /// The ranges of the file that program headers speak of, and the headers.
    fn read_programs(bytes: &[u8]) -> Result<Vec<std::ops::Range<usize>>, Error> {
        let start = number(bytes, 0x20, 8)? as usize;
        let size = number(bytes, 0x36, 2)? as usize;
        let count = number(bytes, 0x38, 2)? as usize;
        let mut ranges = vec![0..HEADER_BYTES, start..start.saturating_add(size * count)];
        for index in 0..count {
            let at = start.saturating_add(index * size);
            let offset = number(bytes, at.saturating_add(8), 8)? as usize;
            let length = number(bytes, at.saturating_add(32), 8)? as usize;
            ranges.push(offset..offset.saturating_add(length));
        }
        Ok(ranges)
    }
}

fn name_in(table: &[u8], offset: u32) -> &[u8] {
    let rest = table.get(offset as usize..).unwrap_or_default();
    rest.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// Where the next name goes.
fn name_offset(table: &[u8]) -> Result<u32, Error> {
    u32::try_from(table.len()).map_err(|_| corrupt("the names of its sections are too long"))
}

fn pad(out: &mut Vec<u8>, align: u64) {
    let align = usize::try_from(align.max(1)).unwrap_or(1).min(4096);
    out.resize(out.len().next_multiple_of(align), 0);
}

/// `bytes` with the edits made.
pub fn edit(bytes: &[u8], edit: &Edit<'_>) -> Result<Vec<u8>, Error> {
    let FileHeader { relocatable, programs, mut sections, names } = FileHeader::read(bytes)?;
    let contents = |section: &SectionHeader| {
        section
            .range()
            .and_then(|range| bytes.get(range))
            .ok_or_else(|| corrupt("a section lies outside the file"))
    };
    let mut table = contents(&sections[names])?.to_vec();
    // As the specification has it: the first name is empty, and each is ended.
    if sections[names].kind != elf::SHT_STRTAB.0
        || table.first() != Some(&0)
        || table.last() != Some(&0)
    {
        return Err(corrupt("the names of its sections are no table of strings"));
    }
    // Behind the table come the names that are added.
    if sections.iter().any(|section| section.name as usize >= table.len()) {
        return Err(corrupt("the name of a section is not in the table of names"));
    }
    for section in &mut sections {
        let name = name_in(&table, section.name);
        if edit.remove.iter().any(|removed| removed.as_bytes() == name) {
            *section = SectionHeader::default();
        }
    }

    if let Some((from, to)) = edit.rename {
        for section in sections.iter_mut().filter(|section| section.kind != elf::SHT_NULL.0) {
            let name = name_in(&table, section.name).to_vec();
            let Some(rest) = name.strip_prefix(from.as_bytes()) else { continue };
            section.name = name_offset(&table)?;
            table.extend(to.bytes().chain(rest.iter().copied()).chain([0]));
        }
    }

    // Headers at the end can go altogether, unless something refers to them in spite of
    // their being none.
    while sections.len() > names + 1
        && sections.last().is_some_and(|last| last.kind == elf::SHT_NULL.0)
        && !sections.iter().any(|it| it.refers_to(sections.len() - 1))
    {
        sections.pop();
    }

    let mut out;
    if relocatable {
        out = bytes.to_vec();
    } else {
        let fixed_sections = sections
            .iter()
            .filter(|section| section.is_in_file() && section.flags & elf::SHF_ALLOC.0 != 0);
        let ends =
            fixed_sections.filter_map(SectionHeader::range).chain(programs).map(|range| range.end);
        let fixed = ends.max().unwrap_or(HEADER_BYTES);
        out =
            bytes.get(..fixed).ok_or_else(|| corrupt("a segment lies outside the file"))?.to_vec();
        for (index, section) in sections.iter_mut().enumerate() {
            let loaded = section.flags & elf::SHF_ALLOC.0 != 0;
            if loaded || !section.is_in_file() || index == names {
                continue;
            }
            pad(&mut out, section.align);
            let data = contents(section)?;
            section.offset = out.len() as u64;
            out.extend(data);
        }
    }

    for added in edit.add {
        let offset = out.len() as u64;
        out.extend(added.data);
        let name = name_offset(&table)?;
        table.extend(added.name.bytes().chain([0]));
        let size = added.data.len() as u64;
        let header = SectionHeader {
            name,
            kind: elf::SHT_PROGBITS.0,
            offset,
            size,
            align: 1,
            ..Default::default()
        };
        sections.push(header);
    }
    sections[names].offset = out.len() as u64;
    sections[names].size = table.len() as u64;
    out.extend(&table);
    pad(&mut out, 8);

    let headers = out.len() as u64;
    let count = sections.len();
    let small = u16::try_from(count).ok().filter(|&count| count < 0xff00);
    if small.is_none() {
        sections[0].size = count as u64;
    }
    for section in &sections {
        section.write(&mut out);
    }
    out[0x28..0x30].copy_from_slice(&headers.to_le_bytes());
    out[0x3c..0x3e].copy_from_slice(&small.unwrap_or(0).to_le_bytes());
    Ok(out)
}
