//! The code of an executable: its routines and blocks, without its source.
//!
//! Where functions begin is known from symbols, unwind tables, the entry point,
//! what runs before and behind `main`, and pointers in data; the rest is followed
//! from there (`descent`), with tables of jumps (`jump_table`), calls that do
//! not return, and landing pads (`frames`). Nothing of that needs symbols or
//! debug information: executables as distributions ship them have neither.
//!
//! A *block* is a stretch of instructions that is entered at its start only and
//! left at its end only; a call ends one. A *routine* is a head and the blocks
//! that can be reached from it without passing another head. Heads are what is
//! called or may be, and what several routines jump to: so each block is of one
//! routine, a jump to another routine's head hands over the frame, and parts that
//! compilers move away (`.cold`) stay with their function.
//!
//! Stubs of the procedure linkage table are no blocks: a call of one is a call of
//! the function it stands for.
//!
//! What is *assumed*: that a computed jump for which no table was found, in a
//! function none of whose inner labels has its address taken where the stack is as
//! high, is a call in tail position. Such jumps are listed ([`Code::open_jumps`]).
//! Whoever follows an execution will notice when the assumption does not hold.

mod constants;
mod decoded;
mod descent;
mod frames;
mod index;
mod instructions;
mod joined;
mod jump_table;
mod loaded;
mod no_return;
mod ownership;
mod predecessors;
mod spans;

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::Error;
use crate::image::Image;
use backtrail_foreign::file;
use decoded::{Flow, Goto, stub};
use descent::{Descent, Stretch, TableEnds};
use frames::{FrameRange, Height};
use loaded::Loaded;

pub(crate) use joined::module_of;
pub use joined::{Library, Module};

/// Whom a call calls.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Callee {
    /// The routine of this number.
    Routine(usize),
    /// A function of another file, by its name.
    External(String),
    /// Whatever a pointer points to.
    Pointer,
}

/// Who is called by the instruction that asks the kernel for something.
pub const KERNEL: &str = "(kernel)";

/// What follows a block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Exit {
    /// Any of these blocks: one, two, or as many as a table has.
    Blocks(Vec<usize>),
    /// Any of these blocks, or a call in tail position.
    BlocksOrTail(Vec<usize>, Callee),
    /// A call, and this block if it returns.
    Call(Callee, Option<usize>),
    /// A call in tail position.
    Tail(Callee),
    /// The caller.
    Return,
    /// Nothing: the program is stopped.
    Nothing,
}

/// A block.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    /// Its first address.
    pub start: u64,
    /// The address of its last instruction.
    pub last: u64,
    /// The address behind it.
    pub end: u64,
    /// The number of its routine.
    pub routine: usize,
    /// What follows.
    pub exit: Exit,
    /// Whether exceptions land here.
    pub pad: bool,
    /// Whether its first byte may be replaced: not so if other instructions
    /// were found to overlap it.
    pub plain: bool,
}

/// A routine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RoutineCode {
    /// The block it begins with.
    pub head: usize,
    /// Its name, if a symbol has one.
    pub name: Option<String>,
    /// Whether its address is taken, so that pointers may lead to it.
    pub taken: bool,
    /// Whether it is no function, but code that several functions jump to: their
    /// frame stays.
    pub shared: bool,
}

/// The code of an executable. Addresses are the file's own; those of libraries that
/// are seen with it are moved apart ([`Code::with_libraries`]).
#[derive(Debug, Clone)]
pub struct Code {
    /// Its blocks, by address.
    pub blocks: Vec<Block>,
    /// Its routines, by the address of their heads.
    pub routines: Vec<RoutineCode>,
    /// The routine where it begins to run.
    pub entry: usize,
    /// Computed jumps whose targets are assumed.
    pub open_jumps: Vec<u64>,
    /// Whether the file is bound to its addresses.
    pub fixed: bool,
    /// Whether a dynamic linker loads it.
    pub interpreted: bool,
    /// The files whose code it is: the executable, and libraries.
    pub modules: Vec<Module>,
    /// Whether a library that is seen defines what one that is not does, too: then any
    /// unseen function may call it.
    pub replaces_unseen: bool,
    /// What else is code: stubs and other ranges that hold no blocks.
    stubs: Vec<(u64, u64)>,
}

impl Code {
    /// Finds the code of the executable at `path`.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        Self::of_module(path, false)
    }

    fn of_module(path: &Path, is_library: bool) -> Result<Self, Error> {
        let bytes = file::read(path).map_err(Error::read(path))?;
        let image = Image::open(path)?;
        let loaded = Loaded::parse(&bytes, is_library)?;
        let frames = frames::read(&image, &loaded);
        // Others may call these by name.
        let exported: Vec<u64> = joined::Names::parse(&bytes)?.addresses().collect();
        let mut ends = TableEnds::default();
        let mut data = BTreeSet::new();
        for _ in 0..MOST_ROUNDS {
            let mut finder = Finder::new(&loaded, &frames, &data);
            finder.taken.extend(exported.iter().filter(|&&it| loaded.is_code(it)));
            match finder.find(ends.clone())? {
                Found::Code(mut code) => {
                    let stubs = code.stubs.iter().copied();
                    let blocks = code.blocks.iter().map(|block| (block.start, block.end));
                    let (start, end) = stubs
                        .chain(blocks)
                        .fold((u64::MAX, 0), |all, it| (all.0.min(it.0), all.1.max(it.1)));
                    let (path, blocks) = (path.to_owned(), 0..code.blocks.len());
                    code.modules = vec![Module { path, blocks, range: start..end }];
                    return Ok(code);
                }
                Found::Wrong(better) => ends = better,
                Found::Data(found) => data.extend(found),
            }
        }
        Err(Error::Corrupt("its tables of jumps contradict its code".to_owned()))
    }

    /// The block that begins at an address.
    pub fn block_at(&self, address: u64) -> Option<usize> {
        self.blocks.binary_search_by_key(&address, |block| block.start).ok()
    }

    /// A block that an address is in.
    pub fn block_around(&self, address: u64) -> Option<usize> {
        let after = self.blocks.partition_point(|block| block.start <= address);
        // Blocks may overlap where code is jumped into; few do, and not by much.
        let near = self.blocks[..after].iter().enumerate().rev().take(4);
        near.into_iter().find(|(_, block)| address < block.end).map(|(number, _)| number)
    }

    /// Whether an address is in a stub.
    pub fn is_stub(&self, address: u64) -> bool {
        self.stubs.iter().any(|&(start, end)| start <= address && address < end)
    }

    /// The name of a routine, or its address; with that of its file if that is a
    /// library.
    pub fn name(&self, routine: usize) -> String {
        let data = &self.routines[routine];
        let start = self.blocks[data.head].start;
        match &data.name {
            Some(name) => self.qualified(start, name),
            None => self.shown(start),
        }
    }

    /// A name of something at a place, behind that of its file if that is a library.
    pub fn qualified(&self, place: u64, name: &str) -> String {
        match self.module(place) {
            (0, _) => name.to_owned(),
            (_, module) => format!("{}:{name}", module.name()),
        }
    }

    /// A place as it is written: the address in its file.
    pub fn shown(&self, place: u64) -> String {
        self.qualified(place, &format!("{:#x}", self.file_address(place)))
    }

    /// The file that a place is in, with its number.
    pub fn module(&self, place: u64) -> (usize, &Module) {
        let number = module_of(place).min(self.modules.len().saturating_sub(1));
        (number, &self.modules[number])
    }

    /// The address of a place in its own file.
    pub fn file_address(&self, place: u64) -> u64 {
        joined::address_of(place)
    }

    /// The place of an address of a module's file.
    pub(crate) fn place(&self, module: usize, address: u64) -> u64 {
        joined::place_of(module, address)
    }
}

/// How often tables may turn out to be too long.
const MOST_ROUNDS: usize = 64;

enum Found {
    Code(Code),
    /// Tables were too long; they end here.
    Wrong(TableEnds),
    /// What was thought to be code is read or written by what was found later.
    Data(Vec<u64>),
}

struct Finder<'a> {
    loaded: &'a Loaded,
    frames: &'a [FrameRange],
    /// Functions whose address is taken.
    taken: BTreeSet<u64>,
    /// Labels within functions whose address is taken.
    labels: BTreeSet<u64>,
    /// Pointers that data holds and of which nothing says that they lead to code.
    doubtful: Vec<u64>,
    /// What is known to be data.
    data: &'a BTreeSet<u64>,
}

impl<'a> Finder<'a> {
    fn new(loaded: &'a Loaded, frames: &'a [FrameRange], data: &'a BTreeSet<u64>) -> Self {
        let (taken, labels) = (BTreeSet::new(), BTreeSet::new());
        Self { loaded, frames, taken, labels, doubtful: Vec::new(), data }
    }

    /// Whether a function is known to begin at an address.
    fn is_function(&self, descent: &Descent<'_>, address: u64) -> bool {
        self.loaded.symbols.contains_key(&address)
            || descent.frame_of(address).is_some_and(|frame| frame.start == address)
    }

    /// Sorts a pointer to code into functions and labels.
    fn add_pointer(&mut self, descent: &Descent<'_>, target: u64) {
        if stub(self.loaded, target).is_some() {
            return;
        }
        if self.is_function(descent, target) {
            self.taken.insert(target);
            return;
        }
        let is_known = self.taken.contains(&target) || self.labels.contains(&target);
        let is_code = !is_known
            && !self.data.contains(&target)
            && !descent.is_inside_an_instruction(target)
            && !constants::is_accessed(descent, target);
        if is_code && descent.frame_of(target).is_some() {
            self.labels.insert(target);
        } else if is_code && !self.loaded.fixed && constants::may_be_code(descent, target) {
            self.taken.insert(target);
        }
    }

    fn find(mut self, ends: TableEnds) -> Result<Found, Error> {
        let stubs = self.loaded.stubs();
        let in_stubs = |address: u64| stubs.iter().any(|it| (it.0..it.1).contains(&address));
        let mut descent = Descent::new(self.loaded, self.frames, ends);
        self.loaded.entry.into_iter().for_each(|entry| descent.lead(entry));
        self.taken.extend(self.loaded.starters.iter().copied());
        for pointer in self.loaded.code_pointers() {
            match self.is_function(&descent, pointer) {
                true => self.add_pointer(&descent, pointer),
                false => self.doubtful.push(pointer),
            }
        }
        let roots = self.taken.iter().chain(self.loaded.symbols.keys()).copied();
        let starts = self.frames.iter().map(|frame| frame.start);
        for root in roots.chain(starts).filter(|&it| !in_stubs(it)) {
            descent.lead(root);
        }
        for site in self.frames.iter().flat_map(|frame| &frame.sites) {
            descent.lead(site.pad);
        }
        descent.run();
        // Pointers that code computes, and labels: what they lead to may compute more.
        // Labels last: in code that is bound to its place any number may look like one,
        // so they must not lead into instructions.
        let mut are_led = false;
        loop {
            let before = (self.taken.len(), self.labels.len());
            let pointers = descent.mentioned.keys().chain(&descent.aims).chain(&self.doubtful);
            for target in pointers.copied().collect::<Vec<_>>() {
                self.add_pointer(&descent, target);
            }
            let is_new = (self.taken.len(), self.labels.len()) != before;
            let mut targets: Vec<u64> = self.taken.iter().copied().collect();
            if is_new {
                are_led = false;
            } else {
                // Before their code is followed: it may have jumps through tables that are
                // known on the way there.
                let is_used_anew = self.use_labels(&mut descent);
                if are_led && !is_used_anew {
                    break;
                }
                targets = self.used_labels(&descent);
                are_led = true;
            }
            for target in targets {
                if !in_stubs(target) && !descent.is_inside_an_instruction(target) {
                    descent.lead(target);
                }
            }
            descent.run();
        }
        let unsure = self.taken.iter().chain(&self.labels).copied();
        let unsure = unsure.filter(|&it| !self.is_function(&descent, it));
        let data: Vec<u64> = unsure.filter(|&it| constants::is_accessed(&descent, it)).collect();
        if !data.is_empty() {
            return Ok(Found::Data(data));
        }
        match descent.better_ends() {
            Some(ends) => Ok(Found::Wrong(ends)),
            None => self.finish(&descent, stubs).map(Found::Code),
        }
    }

    /// Labels that a jump may go to: in code that is bound to its place, those of
    /// functions with computed jumps that have no table.
    fn used_labels(&self, descent: &Descent<'_>) -> Vec<u64> {
        let open = descent.stretches.values().filter(|stretch| descent.needs_labels(stretch));
        let frame_at = |address: u64| descent.frame_of(address).map(|frame| frame.start);
        let frames: BTreeSet<u64> = open.filter_map(|it| frame_at(it.last)).collect();
        let is_used = |label: u64| frame_at(label).is_some_and(|it| frames.contains(&it));
        let labels = self.labels.iter().copied();
        labels.filter(|&it| !self.loaded.fixed || is_used(it)).collect()
    }

    /// Computed jumps without a table go to those labels of their function where the
    /// stack is as high as at the jump; where it is as high as where the function began,
    /// they may be calls in tail position, too. Whether any goes to others than before.
    fn use_labels(&self, descent: &mut Descent<'_>) -> bool {
        let mut found = Vec::new();
        for stretch in descent.stretches.values().filter(|it| descent.needs_labels(it)) {
            let Some(frame) = descent.frame_of(stretch.last) else { continue };
            let height = frame.height(stretch.last);
            let labels = self.labels.range(frame.start..frame.end).copied();
            let labels: Vec<u64> = labels
                .filter(|&it| !descent.is_inside_an_instruction(it))
                .filter(|&it| height.is_none() || frame.height(it) == height)
                .collect();
            if !labels.is_empty() {
                let may_leave = height.is_none_or(|it| it == Height::OF_CALLER);
                found.push((stretch.last, labels, may_leave));
            }
        }
        let mut is_changed = false;
        for (jump, labels, may_leave) in found {
            is_changed |= descent.add_labels(jump, labels, may_leave);
        }
        is_changed
    }

    fn finish(&self, descent: &Descent<'_>, stubs: Vec<(u64, u64)>) -> Result<Code, Error> {
        let stretches = &descent.stretches;
        let numbers: BTreeMap<u64, usize> =
            stretches.keys().enumerate().map(|(number, &start)| (start, number)).collect();
        let entry = match self.loaded.entry {
            Some(entry) => Some(numbers.get(&entry).copied().ok_or_else(|| {
                Error::Corrupt("there is no code where the program begins".to_owned())
            })?),
            None => None,
        };
        let pads: BTreeSet<u64> =
            self.frames.iter().flat_map(|frame| &frame.sites).map(|site| site.pad).collect();
        let followers: Vec<Vec<usize>> =
            stretches.values().map(|stretch| self.followers(descent, stretch, &numbers)).collect();
        let heads = self.heads(descent, &numbers);
        let owners = ownership::owners(&followers, &heads);
        let routine_heads: Vec<usize> =
            (0..owners.len()).filter(|&block| owners[block] == block).collect();
        let routine_of =
            |block: usize| routine_heads.binary_search(&owners[block]).unwrap_or_default();
        let mut blocks: Vec<Block> = stretches
            .iter()
            .enumerate()
            .map(|(number, (&start, stretch))| Block {
                start,
                last: stretch.last,
                end: stretch.end,
                routine: routine_of(number),
                exit: exit(descent, stretch, &numbers, &routine_of),
                pad: pads.contains(&start),
                plain: true,
            })
            .collect();
        let mut furthest = 0;
        for block in &mut blocks {
            // The first byte of what begins earlier, such as a prefix that is jumped
            // over, is its own.
            block.plain = block.start >= furthest;
            furthest = furthest.max(block.end);
        }
        let routines = routine_heads.iter().map(|&head| {
            let start = blocks[head].start;
            RoutineCode {
                head,
                name: self.loaded.symbols.get(&start).cloned(),
                taken: self.taken.contains(&start),
                shared: !heads.contains(&head)
                    && descent.frame_of(start).is_none_or(|frame| frame.start != start),
            }
        });
        let open = stretches.values().filter(|stretch| descent.is_open(stretch));
        Ok(Code {
            routines: routines.collect(),
            // Nobody asks for that of a library.
            entry: entry.map_or(0, routine_of),
            open_jumps: open.map(|stretch| stretch.last).collect(),
            blocks,
            fixed: self.loaded.fixed,
            interpreted: self.loaded.interpreted,
            modules: Vec::new(),
            replaces_unseen: false,
            stubs,
        })
    }

    /// What can follow in the same activation, with landing pads.
    fn followers(
        &self,
        descent: &Descent<'_>,
        stretch: &Stretch,
        numbers: &BTreeMap<u64, usize>,
    ) -> Vec<usize> {
        let next = descent.successors(stretch);
        let mut found: Vec<usize> = next.filter_map(|it| numbers.get(&it)).copied().collect();
        if let (Flow::Call(_), Some(frame)) = (&stretch.flow, descent.frame_of(stretch.last)) {
            let sites = frame.sites.iter();
            let covering = sites.filter(|it| (it.start..it.end).contains(&stretch.last));
            found.extend(covering.filter_map(|it| numbers.get(&it.pad)));
        }
        found
    }

    fn heads(&self, descent: &Descent<'_>, numbers: &BTreeMap<u64, usize>) -> BTreeSet<usize> {
        let mut addresses: BTreeSet<u64> = self.taken.clone();
        addresses.extend(self.loaded.entry);
        let is_part = |name: &str| name.contains(".cold");
        let named = self.loaded.symbols.iter().filter(|(_, name)| !is_part(name));
        addresses.extend(named.map(|(&address, _)| address));
        for stretch in descent.stretches.values() {
            if let Flow::Call(Goto::Code(target)) = &stretch.flow {
                addresses.insert(*target);
            }
        }
        addresses.iter().filter_map(|it| numbers.get(it)).copied().collect()
    }
}

/// What follows a block, once routines are known.
fn exit(
    descent: &Descent<'_>,
    stretch: &Stretch,
    numbers: &BTreeMap<u64, usize>,
    routine_of: &impl Fn(usize) -> usize,
) -> Exit {
    let callee = |target: &Goto| match target {
        Goto::Code(target) => match numbers.get(target) {
            Some(&block) => Callee::Routine(routine_of(block)),
            None => Callee::Pointer,
        },
        Goto::External(name) => Callee::External(name.clone()),
        Goto::Computed => Callee::Pointer,
    };
    let next: Vec<usize> =
        descent.successors(stretch).filter_map(|it| numbers.get(&it)).copied().collect();
    match &stretch.flow {
        Flow::Return => Exit::Return,
        Flow::Stop => Exit::Nothing,
        Flow::Call(target) => Exit::Call(callee(target), next.first().copied()),
        Flow::Branch(target @ (Goto::External(_) | Goto::Computed))
        | Flow::Jump(target @ (Goto::External(_) | Goto::Computed))
            if descent.may_leave(stretch.last) =>
        {
            match next.is_empty() {
                true => Exit::Tail(callee(target)),
                false => Exit::BlocksOrTail(next, callee(target)),
            }
        }
        _ if next.is_empty() => Exit::Nothing,
        _ => Exit::Blocks(next),
    }
}
