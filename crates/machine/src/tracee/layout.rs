//! Where the files of a traced program are in its memory.
//!
//! Blocks have places, which are addresses of their files ([`crate::code`]); a
//! program that runs has others. Libraries are found by the list that the dynamic
//! linker keeps for debuggers (`struct r_debug` of `<link.h>`), in its order, which is
//! also the order in which names are looked up.

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::PathBuf;

use super::Tracee;
use crate::Error;
use crate::code::Code;

/// Where a file is.
#[derive(Debug, Clone, Copy)]
struct Part {
    /// The addresses of its code in memory.
    start: u64,
    end: u64,
    /// What to add to a place.
    shift: u64,
}

/// Where each module of a code is.
#[derive(Debug, Default)]
pub(super) struct Layout {
    parts: Vec<Part>,
}

impl Layout {
    /// The place of an address, if it is in code that is seen.
    pub fn place(&self, address: u64) -> Option<u64> {
        let part = self.parts.iter().find(|it| it.start <= address && address < it.end)?;
        Some(address.wrapping_sub(part.shift))
    }

    /// The place of an address that may be just behind the last instruction.
    pub fn place_behind(&self, address: u64) -> Option<u64> {
        self.place(address).or_else(|| Some(self.place(address.wrapping_sub(1))?.wrapping_add(1)))
    }

    /// The address of a place.
    pub fn address(&self, place: u64) -> u64 {
        let module = crate::code::module_of(place);
        place.wrapping_add(self.parts.get(module).map_or(0, |it| it.shift))
    }

    /// By module: the addresses of its code.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        self.parts.iter().map(|it| (it.start, it.end))
    }

    fn add(&mut self, range: &std::ops::Range<u64>, shift: u64) {
        let [start, end] = [range.start, range.end].map(|place| place.wrapping_add(shift));
        self.parts.push(Part { start, end, shift });
    }
}

/// A library that is loaded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LoadedLibrary {
    /// Where its file is, by the name it was loaded under.
    pub path: PathBuf,
    /// What was added to the addresses of the file.
    pub bias: u64,
}

impl Tracee {
    /// Finds out where the modules of its code are.
    pub(super) fn locate(&mut self, code: &Code) -> Result<(), Error> {
        let mut layout = Layout::default();
        let mut libraries = None;
        for (number, module) in code.modules.iter().enumerate() {
            if number == 0 {
                layout.add(&module.range, self.bias);
                continue;
            }
            let libraries = match &libraries {
                Some(libraries) => libraries,
                None => libraries.insert(self.libraries()?),
            };
            let Some(library) = libraries.iter().find(|it| it.path == module.path) else {
                let path = module.path.display();
                return Err(self.wrong(format!("{path} was not loaded when its own code began")));
            };
            let space = code.place(number, 0);
            layout.add(&module.range, library.bias.wrapping_sub(space));
        }
        self.layout = layout;
        Ok(())
    }

    /// The libraries that are loaded, in the order in which names are looked up,
    /// without the dynamic linker and what has no file.
    pub fn libraries(&self) -> Result<Vec<LoadedLibrary>, Error> {
        /// More than there are.
        const MOST: usize = 4096;
        let Some(mut link) = self.link_map()? else { return Ok(Vec::new()) };
        let linker = self.auxiliary(AT_BASE).unwrap_or(0);
        let mut found = Vec::new();
        for number in 0..MOST {
            if link == 0 {
                break;
            }
            let [bias, name, _, next] = self.words(link)?;
            link = next;
            // The first is the executable.
            let path = PathBuf::from(OsString::from_vec(self.text(name)?));
            let has_file = path.as_os_str().as_bytes().contains(&b'/');
            if number == 0 || bias == linker || !has_file {
                continue;
            }
            let path = std::path::absolute(&path)
                .map_err(|error| self.wrong(format!("{}: {error}", path.display())))?;
            found.push(LoadedLibrary { path, bias });
        }
        Ok(found)
    }

    /// The first of the dynamic linker's list, if there is one.
    fn link_map(&self) -> Result<Option<u64>, Error> {
        const PT_DYNAMIC: u64 = 2;
        const DT_DEBUG: u64 = 21;
        let (Some(headers), Some(count)) = (self.auxiliary(AT_PHDR), self.auxiliary(AT_PHNUM))
        else {
            return Ok(None);
        };
        for number in 0..count.min(64) {
            // Kind and flags, offset, address.
            let [kind, _, address, _] = self.words(headers + 56 * number)?;
            if kind & 0xffff_ffff != PT_DYNAMIC {
                continue;
            }
            let table = address.wrapping_add(self.bias);
            for entry in 0..1024 {
                let [tag, value] = self.words(table + 16 * entry)?;
                match tag {
                    0 => break,
                    DT_DEBUG if value != 0 => {
                        let [_, first] = self.words(value)?;
                        return Ok(Some(first));
                    }
                    _ => {}
                }
            }
        }
        Ok(None)
    }

    fn words<const N: usize>(&self, address: u64) -> Result<[u64; N], Error> {
        let mut bytes = vec![0; 8 * N];
        self.read(address, &mut bytes)?;
        let mut words = [0; N];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().unwrap_or([0; 8]));
        }
        Ok(words)
    }

    /// Bytes up to one that is 0.
    fn text(&self, address: u64) -> Result<Vec<u8>, Error> {
        let mut text = Vec::new();
        while text.len() < 4096 {
            let mut byte = [0];
            self.read(address + text.len() as u64, &mut byte)?;
            if byte == [0] {
                break;
            }
            text.push(byte[0]);
        }
        Ok(text)
    }

    /// A value of the auxiliary vector (`getauxval(3)`).
    pub(super) fn auxiliary(&self, kind: u64) -> Option<u64> {
        let vector = std::fs::read(format!("/proc/{}/auxv", self.pid)).ok()?;
        let word = |bytes: &[u8]| bytes.try_into().ok().map(u64::from_le_bytes);
        let mut pairs =
            vector.chunks_exact(16).filter_map(|it| Some((word(&it[..8])?, word(&it[8..])?)));
        pairs.find(|&(it, _)| it == kind).map(|(_, value)| value)
    }
}

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
pub(super) const AT_ENTRY: u64 = 9;
