//! Switching functions of an executable: see [`backtrail_abi::tune`].
//!
//! Everything is checked before a byte changes: that the file says where its
//! springboards are, that there is a jump to one of its variants at each, and that
//! the byte which says what is on agrees. What is written are distances and bytes;
//! the file keeps its size, its build id and everything else.

use std::path::{Path, PathBuf};

use backtrail_abi::tune::{JUMP, SECTION};
use backtrail_foreign::file;
use backtrail_machine::elf::Elf;
use backtrail_plan::tuning::{TunableFunction, TuneTable};
use object::read::elf::ElfFile64;
use object::{Object as _, ObjectSegment as _};

use crate::Error;
use crate::carry::file::one_record;
use crate::carry::frame;

/// The first bytes of the section.
const MAGIC: [u8; 8] = *b"BTTUNE\r\n";

/// The contents of the section that lists `table`.
pub fn section(table: &TuneTable) -> Vec<u8> {
    frame::wrap(MAGIC, &table.to_bytes())
}

/// A file with functions that can be switched.
pub struct Tuned {
    path: PathBuf,
    bytes: Vec<u8>,
    functions: Vec<Function>,
}

/// A function that can be switched.
pub struct Function {
    /// What it is and what there is of it.
    pub tunable: TunableFunction,
    /// The variant that is on.
    pub on: usize,
    /// Where the distance of its jump and its byte are in the file.
    places: (usize, usize),
}

impl Tuned {
    /// Reads `path`.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let bytes = file::read(path).map_err(Error::read(path))?;
        let functions = functions(path, &bytes)?;
        Ok(Self { path: path.to_owned(), bytes, functions })
    }

    /// The functions, by address.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// Switches the function at `place` to its variant `on`.
    pub fn switch(&mut self, place: usize, on: usize) -> Result<(), Error> {
        let function = &mut self.functions[place];
        let distance = function.tunable.distance_to(on).zip(u8::try_from(on).ok());
        let Some((distance, state)) = distance else {
            return Err(damaged(&self.path)(&function.tunable, "its variants are out of reach"));
        };
        let (jump, byte) = function.places;
        self.bytes[jump..jump + 4].copy_from_slice(&distance.to_le_bytes());
        self.bytes[byte] = state;
        function.on = on;
        Ok(())
    }

    /// The file as it is now.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

fn damaged(path: &Path) -> impl Fn(&TunableFunction, &str) -> Error + use<> {
    let path = path.to_owned();
    move |function, what| Error::Damaged {
        path: path.clone(),
        what: format!("{}: {what}", function.name),
    }
}

fn functions(path: &Path, bytes: &[u8]) -> Result<Vec<Function>, Error> {
    let elf = Elf::parse(bytes).map_err(Error::machine(path))?;
    let section = elf.section(SECTION).map_err(Error::machine(path))?;
    let Some(section) = section else {
        return Err(Error::NotTunable { path: path.to_owned() });
    };
    let table = one_record(path, MAGIC, &section)?;
    let table = TuneTable::from_bytes(table).ok_or_else(|| Error::Damaged {
        path: path.to_owned(),
        what: "its list of functions that can be switched cannot be read".to_owned(),
    })?;
    let file: ElfFile64<'_> =
        ElfFile64::parse(bytes).map_err(|error| Error::machine(path)(error.into()))?;
    let damaged = damaged(path);
    let mut functions = Vec::new();
    for tunable in table.functions {
        let place = |address| place(&file, address).filter(|it| *it + 4 <= bytes.len());
        let (Some(jump), Some(byte)) = (place(tunable.distance), place(tunable.state)) else {
            return Err(damaged(&tunable, "its springboard is not in the file"));
        };
        let distance = [bytes[jump], bytes[jump + 1], bytes[jump + 2], bytes[jump + 3]];
        let on = tunable.reached(i32::from_le_bytes(distance));
        let has_jump = jump.checked_sub(1).is_some_and(|before| bytes[before] == JUMP);
        let Some(on) = on.filter(|_| has_jump) else {
            return Err(damaged(&tunable, "its springboard leads elsewhere"));
        };
        let state = usize::from(bytes[byte]);
        let is_same = |other: usize| {
            let start = |place: usize| tunable.variants.get(place).map(|it| it.start);
            start(other) == start(on)
        };
        // Linkers can make one of variants that are alike.
        if !is_same(state) {
            return Err(damaged(&tunable, "its springboard and its byte say different things"));
        }
        functions.push(Function { tunable, on: state, places: (jump, byte) });
    }
    Ok(functions)
}

/// Where in the file an address is.
fn place(file: &ElfFile64<'_>, address: u64) -> Option<usize> {
    let within = file.segments().find_map(|segment| {
        let (start, _) = segment.file_range();
        let distance = address.checked_sub(segment.address())?;
        (distance < segment.file_range().1).then(|| start.checked_add(distance))?
    });
    usize::try_from(within?).ok()
}
