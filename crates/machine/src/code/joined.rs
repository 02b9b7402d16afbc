//! The code of an executable together with that of shared libraries.
//!
//! Each file keeps the addresses it has, in a *space* of its own: places of the
//! library of number n are its addresses with n in the uppermost 16 bits, and the
//! executable's are its addresses. Where files are once they are loaded is for
//! whoever runs them to know ([`crate::tracee`]), and the same code can be planned
//! for before that, and on another machine.
//!
//! Calls by name are calls of whatever the dynamic linker finds first: in the
//! executable, then in libraries in the order in which they were loaded. If that is a
//! function of a file that is seen, the call is one of that function. It is a call
//! through a pointer if the file chooses among several (`IFUNC`, several versions of
//! one name), and else one of unseen code. The rule leaves out what is rare (libraries
//! that look at themselves first, by `DT_SYMBOLIC`): a call that goes elsewhere is
//! noticed, because every exported function has its address taken, and whoever follows
//! an execution sees who is called.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;
use std::path::{Path, PathBuf};

use backtrail_foreign::file;
use object::elf;
use object::endian::LittleEndian as LE;
use object::read::elf::ElfFile64;
use object::read::{Object as _, ObjectSymbol as _, SymbolFlags, SymbolKind};

use super::{Callee, Code, Exit};
use crate::Error;

/// How far apart spaces are.
const SPACE: u32 = 48;

/// A file whose code is seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Module {
    /// Where it is.
    pub path: PathBuf,
    /// Its blocks.
    pub blocks: Range<usize>,
    /// From its first block or stub to the end of the last, by places.
    pub range: Range<u64>,
}

impl Module {
    /// The name of the file.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }
}

/// A library of a process, in the order in which names are looked up.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Library {
    /// Where its file is.
    pub path: PathBuf,
    /// Whether its code is to be seen.
    pub traced: bool,
}

/// The number of the module that a place is in.
pub(crate) fn module_of(place: u64) -> usize {
    (place >> SPACE) as usize
}

/// The address of a place in its own file.
pub(crate) fn address_of(place: u64) -> u64 {
    place & ((1 << SPACE) - 1)
}

/// The place of an address of a module's file.
pub(crate) fn place_of(module: usize, address: u64) -> u64 {
    ((module as u64) << SPACE) | address
}

/// What a file offers to others by name.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Functions by name: their addresses, and whether one of them is to be asked for
    /// the function it stands for.
    functions: HashMap<String, (BTreeSet<u64>, bool)>,
}

impl Names {
    /// Those of a file.
    pub fn parse(bytes: &[u8]) -> Result<Self, Error> {
        let file = ElfFile64::<LE>::parse(bytes)?;
        let mut names = Self::default();
        for symbol in file.dynamic_symbols().filter(|it| !it.is_local()) {
            let Ok(name) = symbol.name() else { continue };
            if symbol.kind() == SymbolKind::Text && !symbol.is_undefined() && symbol.address() != 0
            {
                let chooses = matches!(
                    symbol.flags(),
                    SymbolFlags::Elf { st_info, .. } if st_info.st_type() == elf::STT_GNU_IFUNC
                );
                let (addresses, any) = names.functions.entry(name.to_owned()).or_default();
                addresses.insert(symbol.address());
                *any |= chooses;
            }
        }
        Ok(names)
    }

    /// Where its functions are.
    pub fn addresses(&self) -> impl Iterator<Item = u64> {
        self.functions.values().flat_map(|(addresses, _)| addresses.iter().copied())
    }
}

impl Code {
    /// Finds the code of an executable, and of those of its libraries that are wanted.
    pub fn with_libraries(executable: &Path, libraries: &[Library]) -> Result<Self, Error> {
        let mut files = vec![(executable, true)];
        files.extend(libraries.iter().map(|library| (library.path.as_path(), library.traced)));
        let mut names = Vec::new();
        // By number of the file: that of its module.
        let mut numbers = BTreeMap::new();
        let mut code: Option<Code> = None;
        for (file, &(path, is_seen)) in files.iter().enumerate() {
            let bytes = file::read(path).map_err(Error::read(path))?;
            names.push(Names::parse(&bytes)?);
            if is_seen {
                let part = Self::of_module(path, file > 0)?;
                match &mut code {
                    None => code = Some(part),
                    Some(code) => code.append(part),
                }
                numbers.insert(file, numbers.len());
            }
        }
        let mut code = code.ok_or_else(|| Error::Corrupt("there is no code".to_owned()))?;
        Scope { names: &names, numbers: &numbers }.link(&mut code);
        Ok(code)
    }

    /// Adds the code of another file.
    fn append(&mut self, part: Code) {
        let base = place_of(self.modules.len(), 0);
        let (blocks, routines) = (self.blocks.len(), self.routines.len());
        let callee = |callee: Callee| match callee {
            Callee::Routine(routine) => Callee::Routine(routine + routines),
            other => other,
        };
        let moved = |next: Vec<usize>| next.into_iter().map(|it| it + blocks).collect();
        self.blocks.extend(part.blocks.into_iter().map(|mut block| {
            block.start += base;
            block.last += base;
            block.end += base;
            block.routine += routines;
            block.exit = match block.exit {
                Exit::Blocks(next) => Exit::Blocks(moved(next)),
                Exit::BlocksOrTail(next, other) => Exit::BlocksOrTail(moved(next), callee(other)),
                Exit::Call(other, back) => Exit::Call(callee(other), back.map(|it| it + blocks)),
                Exit::Tail(other) => Exit::Tail(callee(other)),
                other => other,
            };
            block
        }));
        self.routines.extend(part.routines.into_iter().map(|mut routine| {
            routine.head += blocks;
            routine
        }));
        self.open_jumps.extend(part.open_jumps.into_iter().map(|it| it + base));
        self.stubs.extend(part.stubs.into_iter().map(|(start, end)| (start + base, end + base)));
        self.modules.extend(part.modules.into_iter().map(|module| Module {
            path: module.path,
            blocks: module.blocks.start + blocks..module.blocks.end + blocks,
            range: module.range.start + base..module.range.end + base,
        }));
    }
}

/// The files of a process, in the order in which names are looked up.
struct Scope<'a> {
    names: &'a [Names],
    /// By file that is seen: the number of its module.
    numbers: &'a BTreeMap<usize, usize>,
}

impl Scope<'_> {
    /// Whom a call by name calls.
    fn callee(&self, code: &Code, name: &str) -> Option<Callee> {
        let plain = name.split('@').next().unwrap_or(name);
        let file = self.names.iter().position(|it| it.functions.contains_key(plain))?;
        let module = *self.numbers.get(&file)?;
        let (addresses, chooses) = &self.names[file].functions[plain];
        let routine = match addresses.first() {
            Some(&address) if addresses.len() == 1 && !chooses => routine_at(code, module, address),
            _ => None,
        };
        Some(routine.map_or(Callee::Pointer, Callee::Routine))
    }

    /// Turns calls by name into calls of what the name stands for.
    fn link(&self, code: &mut Code) {
        let mut known: HashMap<String, Option<Callee>> = HashMap::new();
        for block in 0..code.blocks.len() {
            let name = match &code.blocks[block].exit {
                Exit::Call(Callee::External(name), _)
                | Exit::Tail(Callee::External(name))
                | Exit::BlocksOrTail(_, Callee::External(name)) => name.clone(),
                _ => continue,
            };
            let found = match known.get(&name) {
                Some(found) => found.clone(),
                None => {
                    let found = self.callee(code, &name);
                    known.insert(name, found.clone());
                    found
                }
            };
            if let (
                Some(found),
                Exit::Call(callee, _) | Exit::Tail(callee) | Exit::BlocksOrTail(_, callee),
            ) = (found, &mut code.blocks[block].exit)
            {
                *callee = found;
            }
        }
        let is_seen = |file: &usize| self.numbers.contains_key(file);
        let unseen: Vec<usize> = (0..self.names.len()).filter(|it| !is_seen(it)).collect();
        let is_elsewhere = |name: &String| {
            unseen.iter().any(|&file| self.names[file].functions.contains_key(name))
        };
        let seen = self.numbers.keys().filter(|&&file| file > 0);
        code.replaces_unseen =
            seen.flat_map(|&file| self.names[file].functions.keys()).any(is_elsewhere);
    }
}

/// The routine that begins at an address of a module's file.
fn routine_at(code: &Code, module: usize, address: u64) -> Option<usize> {
    let block = code.block_at(place_of(module, address))?;
    let routine = code.blocks[block].routine;
    (code.routines[routine].head == block).then_some(routine)
}
