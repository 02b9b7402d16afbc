//! Which mappings of a file are one copy of it that was loaded.
//!
//! A linker may put several segments into one page of the file, and a loader then maps
//! that page several times: where mappings begin in the file says nothing of where a copy
//! begins. Its program headers say over which addresses a copy extends, and no two copies
//! share any. They are read from the memory of the process, which has them in all but
//! truncated cores; then, from the file of that name, and if there is none, a mapping of
//! the beginning is taken to begin a copy.
//!
//! A program may also map a file as data, as those do that look up their own symbols.
//! Such a mapping of a file that is loaded elsewhere is no copy: nothing runs in it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::Path;

use object::elf;

use crate::bytes::Bytes;
use crate::core_file::notes::MappedFile;
use crate::image::{Image, Load};
use crate::memory::Memory;

/// Mappings of one copy of a file.
pub(super) struct Group<'a> {
    /// The lowest of them.
    pub first: &'a MappedFile,
    /// All of them, by address.
    pub files: Vec<&'a MappedFile>,
    /// The ELF header, if it is there.
    pub header: Option<ElfInMemory>,
    /// Where the copy is, if its program headers are known.
    extent: Option<Extent>,
}

/// Where a copy of a file is.
#[derive(Debug, PartialEq, Eq)]
struct Extent {
    addresses: Range<u64>,
    /// The first page of its code, and where that is in the file.
    code: Option<(u64, u64)>,
}

/// The mappings of each copy of a file, by address.
pub(super) fn groups<'a>(files: &'a [MappedFile], memory: &Memory) -> Vec<Group<'a>> {
    let executable = files.iter().filter(|file| memory.is_executable(file.start));
    let with_code: BTreeSet<&Path> = executable.map(|file| &*file.path).collect();
    let mut groups: Vec<Group<'a>> = Vec::new();
    let mut latest: BTreeMap<&Path, usize> = BTreeMap::new();
    let mut before = None;
    for file in files {
        let known = latest.get(&*file.path).copied();
        let known = known.filter(|&it| groups[it].holds(file, before == Some(it)));
        let number = known.unwrap_or(groups.len());
        match known {
            Some(number) => groups[number].files.push(file),
            None => groups.push(Group::new(file, memory, with_code.contains(&*file.path))),
        }
        latest.insert(&file.path, number);
        before = Some(number);
    }
    let runs: Vec<bool> = groups.iter().map(|group| group.has_code(memory)).collect();
    let loaded: BTreeSet<&Path> =
        groups.iter().zip(&runs).filter(|it| *it.1).map(|(group, _)| &*group.first.path).collect();
    let kept = groups.into_iter().zip(runs);
    let kept = kept.filter(|(group, runs)| *runs || !loaded.contains(&*group.first.path));
    kept.map(|(group, _)| group).collect()
}

impl<'a> Group<'a> {
    fn new(first: &'a MappedFile, memory: &Memory, with_code: bool) -> Self {
        let header = ElfInMemory::read(memory, first.start);
        let of_file = || Image::open(&first.path).ok().filter(|_| with_code);
        let extent = match &header {
            Some(header) => Extent::new(&header.loads, first),
            None => of_file().and_then(|image| Extent::new(&image.loads, first)),
        };
        Self { first, files: vec![first], header, extent }
    }

    /// Whether a mapping of the same file is part of it; `follows`, if no other file is
    /// between them.
    fn holds(&self, file: &MappedFile, follows: bool) -> bool {
        match &self.extent {
            Some(extent) => extent.addresses.contains(&file.start),
            None => follows && (file.offset != 0 || self.first.offset != 0),
        }
    }

    /// Whether something can run in it. What is not known to be data counts as code: gcore
    /// leaves out segments of which it writes nothing.
    fn has_code(&self, memory: &Memory) -> bool {
        let Some(extent) = &self.extent else {
            return self.files.iter().any(|file| memory.is_executable(file.start));
        };
        let is_there = |(address, offset): (u64, u64)| {
            let mut files = self.files.iter();
            files.any(|file| {
                (file.start..file.end).contains(&address)
                    && file.offset.checked_add(address - file.start) == Some(offset)
            }) && memory.segment(address).is_none_or(|segment| segment.executable)
        };
        extent.code.is_some_and(is_there)
    }
}

/// The first address of the page that an address is in.
fn page(address: u64) -> u64 {
    address & !0xfff
}

impl Extent {
    /// Where a copy with these segments is whose first mapping is `first`.
    fn new(loads: &[Load], first: &MappedFile) -> Option<Self> {
        let lowest = loads.iter().map(|load| page(load.address)).min()?;
        let end = |load: &Load| load.address.saturating_add(load.size);
        let highest = loads.iter().map(end).max()?;
        let start = first.start;
        let moved = |address: u64| start.checked_add(address.checked_sub(lowest)?);
        let addresses = start..moved(highest)?;
        let code = loads.iter().filter(|load| load.executable).min_by_key(|load| load.address);
        let code = code.and_then(|load| Some((moved(page(load.address))?, page(load.offset))));
        addresses.contains(&start).then_some(Self { addresses, code })
    }
}

/// The ELF header of a file, as it was mapped.
pub(super) struct ElfInMemory {
    /// What is added to the file's own addresses.
    pub bias: u64,
    loads: Vec<Load>,
    notes: Vec<(u64, u64)>,
}

impl ElfInMemory {
    fn read(memory: &Memory, start: u64) -> Option<Self> {
        let mut header = [0; 64];
        memory.read(start, &mut header).ok()?;
        if !header.starts_with(&elf::ELFMAG) || header[4] != elf::ELFCLASS64.0 {
            return None;
        }
        let header = Bytes(&header);
        let (place, size, count) = (header.word(32), header.half(54), header.half(56));
        let table = start.checked_add(place)?;
        let mut bytes = vec![0; usize::from(size) * usize::from(count.min(256))];
        memory.read(table, &mut bytes).ok()?;
        let mut loads = Vec::new();
        let mut notes = Vec::new();
        for entry in bytes.chunks_exact(usize::from(size.max(56))).map(Bytes) {
            let (address, size) = (entry.word(16), entry.word(40));
            match elf::ProgramType(entry.quarter(0)) {
                elf::PT_LOAD => loads.push(Load {
                    address,
                    size,
                    offset: entry.word(8),
                    in_file: entry.word(32),
                    executable: entry.quarter(4) & elf::PF_X.0 != 0,
                }),
                elf::PT_NOTE => notes.push((address, size)),
                _ => {}
            }
        }
        let lowest = loads.iter().map(|load| page(load.address)).min()?;
        Some(Self { bias: start.wrapping_sub(lowest), loads, notes })
    }

    /// The build id, if the process has it.
    pub fn build_id(&self, memory: &Memory) -> Option<Vec<u8>> {
        for &(address, size) in &self.notes {
            let mut bytes = vec![0; size.min(4096) as usize];
            if memory.read(address.wrapping_add(self.bias), &mut bytes).is_err() {
                continue;
            }
            let mut rest = &bytes[..];
            while rest.len() >= 12 {
                let note = Bytes(rest);
                let (name, size) = (note.quarter(0) as usize, note.quarter(4) as usize);
                let padded = |length: usize| length.saturating_add(3) & !3;
                let start = 12usize.saturating_add(padded(name));
                let description = rest.get(start..start.saturating_add(size));
                if note.quarter(8) == elf::NT_GNU_BUILD_ID.0 && rest.get(12..16) == Some(b"GNU\0") {
                    return description.map(<[u8]>::to_vec);
                }
                rest = rest.get(start.saturating_add(padded(size))..).unwrap_or_default();
            }
        }
        None
    }
}
