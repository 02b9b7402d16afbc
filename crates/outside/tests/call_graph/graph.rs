//! The call graph of a shared library, from its machine code.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, Mnemonic, OpKind, Register};
use object::read::elf::{ElfFile64, FileHeader};
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolFlags, elf};

/// The name of what is chosen when the library is loaded.
pub const CHOSEN: &str = "(chosen)";

/// A function, as far as it calls.
#[derive(Debug, Default)]
pub struct Data {
    /// All names it has.
    pub names: BTreeSet<String>,
    /// The functions of the library it calls or takes the address of.
    pub calls: BTreeSet<u64>,
    /// What it calls by name, through the dynamic linker.
    pub imports: BTreeSet<String>,
    /// Whether it calls through pointers.
    pub calls_through_pointers: bool,
}

impl Data {
    /// All names it has.
    pub fn names(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}

/// A shared library.
#[derive(Debug)]
pub struct Graph {
    /// By where they begin.
    pub functions: BTreeMap<u64, Data>,
    /// By name: where the functions begin that are exported under it, in any version.
    pub exported: BTreeMap<String, BTreeSet<u64>>,
}

impl Graph {
    /// Reads a library and the symbols of it that are installed apart.
    pub fn read(path: &Path) -> Self {
        Self::read_with(path, true)
    }

    /// Reads a library of which but what it exports is known, and where the functions begin
    /// that can be unwound.
    pub fn read_exported(path: &Path) -> Self {
        Self::read_with(path, false)
    }

    fn read_with(path: &Path, with_symbols: bool) -> Self {
        let bytes = std::fs::read(path).unwrap();
        let file: ElfFile64<'_> = ElfFile64::parse(&*bytes).unwrap();
        let mut graph = Self { functions: BTreeMap::new(), exported: BTreeMap::new() };
        if with_symbols {
            let debug = symbols_of(&file);
            let debug: ElfFile64<'_> = ElfFile64::parse(&*debug).unwrap();
            debug.symbols().filter(is_function).for_each(|it| graph.add(&it));
        } else {
            for begin in unwound(&file) {
                graph.functions.entry(begin).or_default();
            }
        }
        for symbol in file.dynamic_symbols().filter(is_function) {
            graph.add(&symbol);
            let name = plain(symbol.name().unwrap());
            graph.exported.entry(name).or_default().insert(symbol.address());
        }
        let slots = slots(&file);
        let stubs = stubs(&file, &slots);
        let text = file.section_by_name(".text").unwrap();
        let range = text.address()..text.address() + text.size();
        graph.functions.retain(|at, _| range.contains(at));
        graph.exported.values_mut().for_each(|it| it.retain(|at| range.contains(at)));
        graph.decode(text.data().unwrap(), text.address(), &slots, &stubs);
        graph
    }

    /// Whether the function that begins here has this name.
    pub fn is_named(&self, function: u64, name: &str) -> bool {
        self.functions.get(&function).is_some_and(|it| it.names.contains(name))
    }

    fn add<'d>(&mut self, symbol: &impl ObjectSymbol<'d>) {
        let names = &mut self.functions.entry(symbol.address()).or_default().names;
        names.insert(plain(symbol.name().unwrap()));
    }

    fn decode(
        &mut self,
        code: &[u8],
        base: u64,
        slots: &BTreeMap<u64, String>,
        stubs: &BTreeMap<u64, String>,
    ) {
        let starts: Vec<u64> = self.functions.keys().copied().collect();
        let start_of = |at: u64| starts[..starts.partition_point(|it| *it <= at)].last().copied();
        let mut decoder = Decoder::with_ip(64, code, base, DecoderOptions::NONE);
        let mut before = [Instruction::default(); 4];
        while decoder.can_decode() {
            let it = decoder.decode();
            let Some(here) = start_of(it.ip()) else { continue };
            let mut data = std::mem::take(self.functions.get_mut(&here).unwrap());
            let slot = it.is_ip_rel_memory_operand().then(|| it.ip_rel_memory_address());
            match it.flow_control() {
                FlowControl::Call
                | FlowControl::UnconditionalBranch
                | FlowControl::ConditionalBranch
                    if it.op0_kind() == OpKind::NearBranch64 =>
                {
                    let target = it.near_branch_target();
                    match stubs.get(&target) {
                        Some(import) => data.imports.extend([import.clone()]),
                        None => data.calls.extend(start_of(target).filter(|it| *it != here)),
                    }
                }
                FlowControl::IndirectCall | FlowControl::IndirectBranch => {
                    match slot.map(|slot| slots.get(&slot)) {
                        Some(Some(import)) => data.imports.extend([import.clone()]),
                        Some(None) => data.calls_through_pointers = true,
                        None => data.calls_through_pointers |= !is_switch(&it, &before),
                    }
                }
                // The address of a function, or of what stands for one.
                _ => match slot.map(|slot| (slot, slots.get(&slot))) {
                    Some((_, Some(import))) => data.imports.extend([import.clone()]),
                    Some((slot, None)) => {
                        data.calls.extend(starts.binary_search(&slot).is_ok().then_some(slot));
                    }
                    None => {}
                },
            }
            self.functions.insert(here, data);
            before.rotate_left(1);
            before[3] = it;
        }
    }
}

/// Where functions begin that can be unwound, from the table that is there to find them.
fn unwound(file: &ElfFile64<'_>) -> Vec<u64> {
    let section = file.section_by_name(".eh_frame_hdr").unwrap();
    let data = section.data().unwrap();
    // Version, and how numbers are written: those of the table relative to the section.
    assert_eq!(data[..4], [1, 0x1b, 0x03, 0x3b], "another table than of the GNU linker");
    let entries = data[12..].chunks_exact(8);
    let begin = |entry: &[u8]| i32::from_le_bytes(entry[..4].try_into().unwrap());
    entries.map(|entry| section.address().wrapping_add_signed(begin(entry).into())).collect()
}

/// The symbols of a library that are installed apart, by its build id.
fn symbols_of(file: &ElfFile64<'_>) -> Vec<u8> {
    let id = file.build_id().unwrap().expect("libraries have build ids");
    let id: String = id.iter().map(|it| format!("{it:02x}")).collect();
    let path = format!("/usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    std::fs::read(&path).unwrap_or_else(|error| {
        panic!("{path}: {error}; the symbols of the C library are in the package libc6-dbg")
    })
}

/// Whether a jump through a register is one within a function, by a table of distances
/// that were added to it.
fn is_switch(jump: &Instruction, before: &[Instruction]) -> bool {
    let is_sum = |it: &Instruction| {
        matches!(it.mnemonic(), Mnemonic::Add | Mnemonic::Sub)
            && it.op0_register() == jump.op0_register()
    };
    let is_jump = jump.flow_control() == FlowControl::IndirectBranch;
    is_jump
        // With the prefix `notrack`, which compilers give to tables alone.
        && (jump.segment_prefix() == Register::DS
            || jump.op0_kind() == OpKind::Register && before.iter().any(is_sum))
}

fn is_function<'d>(symbol: &impl ObjectSymbol<'d>) -> bool {
    let SymbolFlags::Elf { st_info, .. } = symbol.flags() else { return false };
    let is_code = [elf::STT_FUNC, elf::STT_GNU_IFUNC].contains(&(st_info.st_type()));
    is_code && !symbol.is_undefined() && symbol.address() != 0
}

fn plain(name: &str) -> String {
    let name = name.split('@').next().unwrap_or(name);
    name.strip_prefix("__GI_").unwrap_or(name).to_owned()
}

/// The slots that the dynamic linker fills, and with what.
fn slots<H: FileHeader<Endian = object::Endianness>>(
    file: &object::read::elf::ElfFile<'_, H>,
) -> BTreeMap<u64, String> {
    let symbols = file.dynamic_symbol_table().unwrap();
    let mut slots = BTreeMap::new();
    for (at, relocation) in file.dynamic_relocations().into_iter().flatten() {
        if let RelocationTarget::Symbol(symbol) = relocation.target() {
            let symbol = object::ObjectSymbolTable::symbol_by_index(&symbols, symbol).unwrap();
            slots.insert(at, plain(symbol.name().unwrap()));
        }
    }
    slots
}

/// The code that jumps to what is in a slot, by where it begins.
fn stubs<H: FileHeader<Endian = object::Endianness>>(
    file: &object::read::elf::ElfFile<'_, H>,
    slots: &BTreeMap<u64, String>,
) -> BTreeMap<u64, String> {
    let mut stubs = BTreeMap::new();
    for section in [".plt", ".plt.got", ".plt.sec"] {
        let Some(section) = file.section_by_name(section) else { continue };
        let code = section.data().unwrap();
        let mut decoder = Decoder::with_ip(64, code, section.address(), DecoderOptions::NONE);
        while decoder.can_decode() {
            let it = decoder.decode();
            if !it.is_ip_rel_memory_operand() || it.mnemonic() != Mnemonic::Jmp {
                continue;
            }
            let name = slots.get(&it.ip_rel_memory_address());
            // Resolvers choose among what is within, and is not followed: all of it works on
            // memory and strings.
            let name = name.cloned().unwrap_or_else(|| CHOSEN.to_owned());
            // It begins with the jump, or with a mark that it may be jumped to.
            stubs.insert(it.ip(), name.clone());
            stubs.insert(it.ip() - 4, name);
        }
    }
    stubs
}
