//! Where the files of a traced program are in its memory.
//!
//! Blocks have places, which are addresses of their files ([`crate::code`]); a
//! program that runs has others. Libraries are found by the dynamic linker's own list
//! ([`crate::link_map`]).

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt as _;
use std::path::PathBuf;

use super::Tracee;
use crate::Error;
use crate::code::Code;
use crate::core_file::notes::{AT_PHDR, AT_PHNUM};
use crate::link_map::{Headers, links};

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
        let (Some(address), Some(count)) = (self.auxiliary(AT_PHDR), self.auxiliary(AT_PHNUM))
        else {
            return Ok(Vec::new());
        };
        let linker = self.auxiliary(AT_BASE).unwrap_or(0);
        let headers = Headers { address, count, bias: self.bias };
        let links = links(&headers, |at, bytes| self.read(at, bytes))?;
        let mut found = Vec::new();
        // The first is the executable.
        for link in links.into_iter().skip(1) {
            if link.bias == linker || !link.name.contains(&b'/') {
                continue;
            }
            let path = PathBuf::from(OsString::from_vec(link.name));
            let path = std::path::absolute(&path)
                .map_err(|error| self.wrong(format!("{}: {error}", path.display())))?;
            found.push(LoadedLibrary { path, bias: link.bias });
        }
        Ok(found)
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

const AT_BASE: u64 = 7;
pub(super) const AT_ENTRY: u64 = 9;
