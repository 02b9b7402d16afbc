//! What a file looks like once it is loaded, before it runs: its segments, and
//! what the dynamic linker will write into them.
//!
//! Read by program headers and the dynamic table, so that a file without section
//! headers is no exception. Where there are some, they say which part of an executable
//! segment is code: linkers may put constants beside it. Addresses are the file's own.

use std::collections::{BTreeMap, HashSet};
use std::ops::Range;

use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::{ElfFile64, FileHeader as _, ProgramHeader as _};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};

use super::no_return::never_returns;
use super::spans::Spans;
use crate::Error;

/// What a word of memory will hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Slot {
    /// This address of the same file, until the program writes another.
    Address(u64),
    /// This address of the same file, for good: only the linker writes there.
    Linked(u64),
    /// The address of a function of another file, for good.
    External(String),
    /// What the function at this address returns.
    Resolver(u64),
}

#[derive(Debug)]
struct Segment {
    start: u64,
    end: u64,
    bytes: Vec<u8>,
    executable: bool,
    writable: bool,
}

impl Segment {
    /// What the file has of it.
    fn range(&self) -> Range<u64> {
        self.start..self.end.min(self.start.saturating_add(self.bytes.len() as u64))
    }
}

/// A file as it is loaded.
#[derive(Debug)]
pub(crate) struct Loaded {
    segments: Vec<Segment>,
    /// Where there is code, in order.
    code: Vec<Range<u64>>,
    /// The same.
    pub spans: Spans,
    /// Where stubs are, if sections tell.
    stubs: Option<Vec<Range<u64>>>,
    /// By address: words that are written at start.
    pub slots: BTreeMap<u64, Slot>,
    /// Where it begins to run; nothing for a library.
    pub entry: Option<u64>,
    /// Whether it is bound to its addresses.
    pub fixed: bool,
    /// Whether it asks for a dynamic linker.
    pub interpreted: bool,
    /// What is called before and behind `main`.
    pub starters: Vec<u64>,
    /// Functions by the symbol tables.
    pub symbols: BTreeMap<u64, String>,
    /// Those of other files that never return, by name.
    endless: HashSet<String>,
    /// Those of this file whose names say that they never return.
    endless_here: HashSet<u64>,
    /// Whether what it defines itself may come from another file.
    is_library: bool,
    /// What nobody can write once the dynamic linker has (`PT_GNU_RELRO`).
    sealed: Range<u64>,
}

/// The most words of an array or relocations of a table that are believed.
const MOST: u64 = 1 << 24;

/// Where there is code, in order: sections of code, or segments that have none or are
/// not described.
fn code_ranges(
    file: &ElfFile64<'_, LE>,
    segments: &[Segment],
    entry: Option<u64>,
) -> Vec<Range<u64>> {
    let whole = segments.iter().filter(|it| it.executable).map(Segment::range);
    let whole: Vec<Range<u64>> = whole.collect();
    let of_code = elf::SHF_ALLOC | elf::SHF_EXECINSTR;
    let mut parts: Vec<Range<u64>> = Vec::new();
    for section in file.sections() {
        let object::SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
        let (start, end) = (section.address(), section.address().saturating_add(section.size()));
        let is_whole = whole.iter().any(|it| it.start <= start && end <= it.end);
        if sh_flags & of_code == of_code && start < end && is_whole {
            parts.push(start..end);
        }
    }
    // Headers that are wrong about where the program begins are not believed.
    let is_believed = |entry: u64| parts.iter().any(|it| it.contains(&entry));
    let mut found = whole.clone();
    if entry.is_none_or(is_believed) {
        found.retain(|it| !parts.iter().any(|part| it.start <= part.start && part.end <= it.end));
        found.extend(parts);
    }
    found.sort_unstable_by_key(|it| it.start);
    found
}

/// The sections with nothing but stubs, if there are sections.
fn stub_ranges(file: &ElfFile64<'_, LE>) -> Option<Vec<Range<u64>>> {
    let is_stubs = |name: &str| name.starts_with(".plt") || name.starts_with(".iplt");
    let has_code = file.sections().any(|it| it.kind() == object::SectionKind::Text);
    let stubs = file.sections().filter(|it| it.name().is_ok_and(is_stubs));
    let ranges = stubs.map(|it| it.address()..it.address().saturating_add(it.size()));
    has_code.then(|| ranges.collect())
}

impl Loaded {
    /// Reads a file: an executable, or a library.
    pub fn parse(bytes: &[u8], is_library: bool) -> Result<Self, Error> {
        let file = ElfFile64::<LE>::parse(bytes)?;
        let header = file.elf_header();
        let mut segments = Vec::new();
        let mut dynamic = None;
        let mut interpreted = false;
        let mut sealed = 0..0;
        for program in file.elf_program_headers() {
            match program.p_type(LE) {
                elf::PT_INTERP => interpreted = true,
                elf::PT_GNU_RELRO => {
                    let start = program.p_vaddr(LE);
                    sealed = start..start.saturating_add(program.p_memsz(LE));
                }
                elf::PT_DYNAMIC => dynamic = Some((program.p_vaddr(LE), program.p_memsz(LE))),
                elf::PT_LOAD => {
                    let data = program
                        .data(LE, bytes)
                        .map_err(|()| Error::Corrupt("a segment is not in the file".to_owned()))?;
                    let start = program.p_vaddr(LE);
                    let end = start.checked_add(program.p_memsz(LE));
                    let end = end.ok_or_else(|| Error::Corrupt("a segment wraps".to_owned()))?;
                    let flag = |flag: u32| program.p_flags(LE).0 & flag != 0;
                    let (executable, writable) = (flag(elf::PF_X.0), flag(elf::PF_W.0));
                    let length = data.len().min(usize::try_from(end - start).unwrap_or(usize::MAX));
                    let bytes = data[..length].to_vec();
                    segments.push(Segment { start, end, bytes, executable, writable });
                }
                _ => {}
            }
        }
        let entry = (!is_library).then(|| header.e_entry(LE));
        let code = code_ranges(&file, &segments, entry);
        let mut loaded = Self {
            spans: Spans::new(&code),
            code,
            stubs: stub_ranges(&file),
            segments,
            slots: BTreeMap::new(),
            entry,
            fixed: header.e_type(LE) == elf::ET_EXEC,
            interpreted,
            starters: Vec::new(),
            symbols: BTreeMap::new(),
            endless: HashSet::new(),
            endless_here: HashSet::new(),
            is_library,
            sealed,
        };
        for symbol in file.dynamic_symbols().chain(file.symbols()) {
            let is_function = symbol.kind() == object::SymbolKind::Text && !symbol.is_undefined();
            if let (true, Ok(name)) = (is_function, symbol.name())
                && !name.is_empty()
                && loaded.is_code(symbol.address())
            {
                loaded.symbols.entry(symbol.address()).or_insert_with(|| name.to_owned());
            }
        }
        if let Some((address, size)) = dynamic {
            loaded.read_dynamic(address, size);
        } else {
            // A static executable: what it relocates itself has no table but this.
            for section in file.sections().filter(|it| it.name() == Ok(".rela.plt")) {
                loaded.read_relocations(section.address(), section.size(), 0, 0);
            }
            loaded.read_starters(&file);
        }
        loaded.find_endless();
        Ok(loaded)
    }

    /// Looks up which functions never return, once for all their calls.
    fn find_endless(&mut self) {
        let names = self.slots.values().filter_map(|slot| match slot {
            Slot::External(name) => Some(name),
            _ => None,
        });
        self.endless = names.filter(|name| never_returns(name)).cloned().collect();
        // Only such names as a program does not give to functions of its own.
        let is_endless = |name: &str| name.starts_with('_') && never_returns(name);
        let here = self.symbols.iter().filter(|(_, name)| is_endless(name));
        self.endless_here = here.map(|(&address, _)| address).collect();
    }

    /// Whether no call of a function of another file comes back.
    pub fn is_endless(&self, name: &str) -> bool {
        self.endless.contains(name)
    }

    /// Whether the name of what begins at an address says that no call of it comes back.
    pub fn is_endless_here(&self, address: u64) -> bool {
        self.endless_here.contains(&address)
    }

    fn segment(&self, address: u64) -> Option<&Segment> {
        self.segments.iter().find(|it| it.start <= address && address < it.end)
    }

    /// Whether there is code at an address.
    pub fn is_code(&self, address: u64) -> bool {
        self.spans.position(address).is_some()
    }

    /// Where stubs are, as far as sections tell.
    pub fn stubs(&self) -> Vec<(u64, u64)> {
        self.stubs.iter().flatten().map(|it| (it.start, it.end)).collect()
    }

    /// Whether a stub may be at an address: a function may end with the same jump.
    pub fn may_be_stub(&self, address: u64) -> bool {
        let stubs = self.stubs.as_ref();
        stubs.is_none_or(|stubs| stubs.iter().any(|it| it.contains(&address)))
    }

    /// Whether constants are known not to be where code is.
    fn tells_constants(&self) -> bool {
        let is_constant = |it: &Segment| !it.executable && !it.writable;
        let is_divided = |it: &Segment| it.executable && !self.code.contains(&it.range());
        self.segments.iter().any(|it| is_constant(it) || is_divided(it))
    }

    /// The bytes from an address to the end of what the file has there.
    pub fn bytes(&self, address: u64) -> &[u8] {
        let bytes = self
            .segment(address)
            .and_then(|it| it.bytes.get(usize::try_from(address - it.start).ok()?..));
        bytes.unwrap_or_default()
    }

    /// A word as the file has it.
    fn word(&self, address: u64) -> Option<u64> {
        Some(u64::from_le_bytes(self.bytes(address).get(..8)?.try_into().ok()?))
    }

    /// A word of 32 bits as the file has it.
    pub fn half(&self, address: u64) -> Option<i32> {
        Some(i32::from_le_bytes(self.bytes(address).get(..4)?.try_into().ok()?))
    }

    /// A word of 32 bits that nobody can write.
    pub fn constant_half(&self, address: u64) -> Option<i32> {
        let is_constant = self.segment(address).is_some_and(|it| !it.writable);
        if is_constant { self.half(address) } else { None }
    }

    /// The address that a word holds once the program runs, if it is of this file.
    pub fn pointer(&self, address: u64) -> Option<u64> {
        match self.slots.get(&address) {
            Some(Slot::Address(target) | Slot::Linked(target)) => Some(*target),
            Some(_) => None,
            None if self.fixed => self.word(address),
            None => None,
        }
    }

    /// The code that a word points to for as long as the program runs, if it does.
    pub fn sealed_code(&self, address: u64) -> Option<u64> {
        match self.slots.get(&address)? {
            Slot::Address(target) if self.sealed.contains(&address) => {
                Some(*target).filter(|&it| self.is_code(it))
            }
            _ => None,
        }
    }

    /// All pointers to code that data holds.
    pub fn code_pointers(&self) -> Vec<u64> {
        let mut found: Vec<u64> = self
            .slots
            .values()
            .filter_map(|slot| match slot {
                Slot::Address(target) | Slot::Linked(target) | Slot::Resolver(target) => {
                    Some(*target)
                }
                Slot::External(_) => None,
            })
            .collect();
        if self.fixed {
            let tells = self.tells_constants();
            for segment in &self.segments {
                let skew = segment.start.wrapping_neg() as usize % 8;
                let words = segment.bytes.get(skew..).unwrap_or_default().chunks_exact(8);
                let start = segment.start.wrapping_add(skew as u64);
                let place = |number: usize| start.wrapping_add(8 * number as u64);
                let data = words.enumerate().filter(|it| !(tells && self.is_code(place(it.0))));
                found.extend(
                    data.map(|(_, word)| u64::from_le_bytes(word.try_into().unwrap_or([0; 8]))),
                );
            }
        }
        found.retain(|&target| self.is_code(target));
        found.sort_unstable();
        found.dedup();
        found
    }

    fn read_dynamic(&mut self, address: u64, size: u64) {
        let mut tags = BTreeMap::new();
        for entry in 0..(size / 16).min(MOST) {
            let Some(tag) = self.word(address + 16 * entry).filter(|&tag| tag != 0) else { break };
            let Some(value) = self.word(address + 16 * entry + 8) else { break };
            tags.insert(tag as i64, value);
        }
        let of = |tag: elf::DynamicTag| tags.get(&tag.0).copied().unwrap_or(0);
        let (symbols, strings) = (of(elf::DT_SYMTAB), of(elf::DT_STRTAB));
        self.read_packed_relocations(of(elf::DT_RELR), of(elf::DT_RELRSZ));
        self.read_relocations(of(elf::DT_RELA), of(elf::DT_RELASZ), symbols, strings);
        self.read_relocations(of(elf::DT_JMPREL), of(elf::DT_PLTRELSZ), symbols, strings);
        let singles = [of(elf::DT_INIT), of(elf::DT_FINI)];
        self.starters.extend(singles.into_iter().filter(|&it| it != 0));
        for (array, size) in [
            (elf::DT_PREINIT_ARRAY, elf::DT_PREINIT_ARRAYSZ),
            (elf::DT_INIT_ARRAY, elf::DT_INIT_ARRAYSZ),
            (elf::DT_FINI_ARRAY, elf::DT_FINI_ARRAYSZ),
        ] {
            let (array, count) = (of(array), (of(size) / 8).min(MOST));
            let words = (0..count).filter_map(|word| self.pointer(array.wrapping_add(8 * word)));
            let words: Vec<u64> = words.collect();
            self.starters.extend(words);
        }
        self.starters.retain(|&it| it != 0);
    }

    /// What runs before and after `main`, by sections.
    fn read_starters(&mut self, file: &ElfFile64<'_, LE>) {
        for section in file.sections() {
            match section.name() {
                Ok(".init" | ".fini") => self.starters.push(section.address()),
                Ok(".preinit_array" | ".init_array" | ".fini_array") => {
                    let words = (0..(section.size() / 8).min(MOST))
                        .filter_map(|word| self.pointer(section.address().wrapping_add(8 * word)));
                    let words: Vec<u64> = words.collect();
                    self.starters.extend(words);
                }
                _ => {}
            }
        }
        self.starters.retain(|&it| it != 0);
    }

    fn read_relocations(&mut self, table: u64, size: u64, symbols: u64, strings: u64) {
        for entry in 0..(size / 24).min(MOST) {
            let at = table.wrapping_add(24 * entry);
            let words = [0, 8, 16].map(|offset| self.word(at.wrapping_add(offset)));
            let [Some(place), Some(info), Some(addend)] = words else { break };
            let symbol = || self.symbol(symbols, strings, info >> 32);
            let slot = match info as u32 {
                kind if kind == elf::R_X86_64_RELATIVE.0 => Some(Slot::Address(addend)),
                kind if kind == elf::R_X86_64_IRELATIVE.0 => Some(Slot::Resolver(addend)),
                kind if kind == elf::R_X86_64_64.0 => {
                    symbol().and_then(|(_, value)| Some(Slot::Address(value?.wrapping_add(addend))))
                }
                kind if kind == elf::R_X86_64_GLOB_DAT.0 || kind == elf::R_X86_64_JUMP_SLOT.0 => {
                    symbol().map(|(name, value)| match value {
                        // An executable's own definition comes first.
                        Some(value) if !self.is_library => Slot::Linked(value),
                        _ => Slot::External(name),
                    })
                }
                _ => None,
            };
            if let Some(slot) = slot {
                self.slots.insert(place, slot);
            }
        }
    }

    /// `DT_RELR`: an address, then bit maps of the words behind it.
    fn read_packed_relocations(&mut self, table: u64, size: u64) {
        let mut next = 0u64;
        for entry in 0..(size / 8).min(MOST) {
            let Some(word) = self.word(table.wrapping_add(8 * entry)) else { break };
            if word & 1 == 0 {
                self.add_relative(word);
                next = word.wrapping_add(8);
            } else {
                for bit in (1..64).filter(|bit| word >> bit & 1 == 1) {
                    self.add_relative(next.wrapping_add(8 * (bit - 1)));
                }
                next = next.wrapping_add(8 * 63);
            }
        }
    }

    fn add_relative(&mut self, place: u64) {
        if let Some(target) = self.word(place) {
            self.slots.insert(place, Slot::Address(target));
        }
    }

    /// The name of a symbol, and its address if the file defines it.
    fn symbol(&self, symbols: u64, strings: u64, number: u64) -> Option<(String, Option<u64>)> {
        let entry = self.bytes(symbols.checked_add(24 * number)?).get(..24)?;
        let name = u32::from_le_bytes(entry[..4].try_into().ok()?);
        let section = u16::from_le_bytes(entry[6..8].try_into().ok()?);
        let value = u64::from_le_bytes(entry[8..16].try_into().ok()?);
        let name = self.bytes(strings.checked_add(u64::from(name))?);
        let length = name.iter().position(|&byte| byte == 0)?;
        let name = String::from_utf8_lossy(&name[..length]).into_owned();
        Some((name, (section != 0 && value != 0).then_some(value)))
    }
}
