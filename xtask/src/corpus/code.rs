//! Comparing the code of two executables, function by function.
//!
//! Where the executable sections of both are the same bytes, every function is.
//! Where one function differs, everything after it has moved and so has every
//! distance to it: then each function is decoded in both, and two instructions
//! are the same when their bytes are, operands that hold a distance apart, and
//! these lead to the same place. A place is a symbol and an offset; for slots
//! of the global offset table and stubs of the linkage table, the symbol they
//! stand for; for data without a symbol, the section, and the text where it is
//! one (a switch's table holds distances itself, so its bytes say nothing).

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result};
use iced_x86::{Decoder, DecoderOptions, FlowControl, Instruction, OpKind};
use object::elf::FileHeader64;
use object::read::elf::ElfFile;
use object::{
    LittleEndian, Object, ObjectSection, ObjectSymbol, ObjectSymbolTable, RelocationTarget,
    SectionFlags, SymbolKind, elf,
};

/// The code of one executable.
pub struct Code {
    functions: BTreeMap<Name, Function>,
    sections: Vec<Section>,
    /// Start of each symbol with a size, to find what an address is in.
    symbols: BTreeMap<u64, (u64, String)>,
    /// What the dynamic linker puts into a slot.
    slots: BTreeMap<u64, Slot>,
}

/// A function's name and which of those with that name it is, in the order of
/// the symbol table: local functions of two units can have one name.
type Name = (String, usize);

struct Function {
    address: u64,
    size: u64,
}

struct Section {
    name: String,
    address: u64,
    size: u64,
    executable: bool,
    data: Vec<u8>,
}

enum Slot {
    Symbol(String),
    Address(u64),
}

/// What came out of a comparison.
#[derive(Debug, Default)]
pub struct Comparison {
    /// How many functions are the same.
    pub identical: usize,
    /// Those that are not.
    pub different: BTreeSet<String>,
    /// Those that only one side has.
    pub unmatched: BTreeSet<String>,
}

impl Code {
    /// Reads an executable that has a symbol table.
    pub fn read(path: &Path) -> Result<Code> {
        let bytes =
            std::fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Code::parse(&bytes).with_context(|| format!("cannot read the code of {}", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Code> {
        let file = ElfFile::<FileHeader64<LittleEndian>>::parse(bytes)?;
        let mut sections = Vec::new();
        for section in file.sections() {
            let SectionFlags::Elf { sh_flags, .. } = section.flags() else { continue };
            let has = |flag: elf::SectionFlags| sh_flags & flag == flag;
            if !has(elf::SHF_ALLOC) {
                continue;
            }
            sections.push(Section {
                name: section.name()?.to_owned(),
                address: section.address(),
                size: section.size(),
                executable: has(elf::SHF_EXECINSTR),
                data: section.data()?.to_vec(),
            });
        }
        let mut functions = BTreeMap::new();
        let mut symbols = BTreeMap::new();
        let mut seen: BTreeMap<String, usize> = BTreeMap::new();
        for symbol in file.symbols().filter(|symbol| symbol.size() > 0 && !symbol.is_undefined()) {
            let name = symbol.name()?.to_owned();
            let (address, size) = (symbol.address(), symbol.size());
            if symbol.kind() == SymbolKind::Text {
                let number = seen.entry(name.clone()).or_default();
                functions.insert((name.clone(), *number), Function { address, size });
                *number += 1;
            }
            // Of several names for one place the first in alphabetical order,
            // in both executables.
            let entry = symbols.entry(address).or_insert((size, name.clone()));
            if name < entry.1 {
                *entry = (size, name);
            }
        }
        let mut slots = BTreeMap::new();
        for (address, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let slot = match relocation.target() {
                RelocationTarget::Symbol(index) => {
                    let table = file.dynamic_symbol_table().context("no dynamic symbols")?;
                    Slot::Symbol(table.symbol_by_index(index)?.name()?.to_owned())
                }
                _ => Slot::Address(relocation.addend() as u64),
            };
            slots.insert(address, slot);
        }
        Ok(Code { functions, sections, symbols, slots })
    }

    fn section_at(&self, address: u64) -> Option<&Section> {
        self.sections.iter().find(|section| {
            address >= section.address && address - section.address < section.size.max(1)
        })
    }

    fn bytes(&self, address: u64, size: u64) -> Option<&[u8]> {
        let section = self.section_at(address)?;
        let start = usize::try_from(address - section.address).ok()?;
        section.data.get(start..start.checked_add(usize::try_from(size).ok()?)?)
    }

    /// Where an address leads, in words that hold for another executable too.
    fn place(&self, address: u64) -> Option<String> {
        let mut address = address;
        // A stub leads to a slot, a slot to a symbol or on to an address; no
        // chain is longer than that.
        for _ in 0..4 {
            if let Some((&start, (size, name))) = self.symbols.range(..=address).next_back()
                && address - start < *size
            {
                return Some(format!("{name}+{}", address - start));
            }
            match self.slots.get(&address) {
                Some(Slot::Symbol(name)) => return Some(format!("slot of {name}")),
                Some(Slot::Address(target)) => {
                    address = *target;
                    continue;
                }
                None => {}
            }
            let section = self.section_at(address)?;
            if !section.name.starts_with(".plt") {
                let start = usize::try_from(address - section.address).ok()?;
                let text = printable(section.data.get(start..).unwrap_or_default());
                return Some(format!("{} {text:?}", section.name));
            }
            address = self.slot_of_stub(address)?;
        }
        None
    }

    fn slot_of_stub(&self, address: u64) -> Option<u64> {
        let bytes = self.bytes(address, 16)?;
        let mut decoder = Decoder::with_ip(64, bytes, address, DecoderOptions::NONE);
        let jump = decoder.iter().find(|one| one.flow_control() == FlowControl::IndirectBranch)?;
        jump.is_ip_rel_memory_operand().then(|| jump.ip_rel_memory_address())
    }

    /// Whether all executable sections are the same bytes at the same places.
    fn same_bytes(&self, other: &Code) -> bool {
        let executable = |code: &Code| {
            let sections = code.sections.iter().filter(|section| section.executable);
            sections.map(|one| (one.address, one.data.clone())).collect::<Vec<_>>()
        };
        executable(self) == executable(other)
    }
}

/// The text at the start of some bytes, up to a zero; empty if it is not text.
fn printable(bytes: &[u8]) -> &str {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(0);
    let text = &bytes[..end];
    let is_text = text.iter().all(|byte| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    if is_text { std::str::from_utf8(text).unwrap_or_default() } else { "" }
}

/// Compares the functions that `counts` says yes to.
pub fn compare(left: &Code, right: &Code, counts: impl Fn(&str) -> bool) -> Comparison {
    let same_bytes = left.same_bytes(right);
    let mut comparison = Comparison::default();
    for (name, function) in left.functions.iter().filter(|(name, _)| counts(&name.0)) {
        let Some(twin) = right.functions.get(name) else {
            comparison.unmatched.insert(name.0.clone());
            continue;
        };
        let same_place = function.address == twin.address && function.size == twin.size;
        if same_bytes && same_place || same_function((left, function), (right, twin)) {
            comparison.identical += 1;
        } else {
            comparison.different.insert(name.0.clone());
        }
    }
    for (name, _) in right.functions.iter().filter(|(name, _)| counts(&name.0)) {
        if !left.functions.contains_key(name) {
            comparison.unmatched.insert(name.0.clone());
        }
    }
    comparison
}

fn same_function(left: (&Code, &Function), right: (&Code, &Function)) -> bool {
    if left.1.size != right.1.size {
        return false;
    }
    let bytes = |(code, function): (&Code, &Function)| {
        code.bytes(function.address, function.size).map(<[u8]>::to_vec)
    };
    let (Some(left_bytes), Some(right_bytes)) = (bytes(left), bytes(right)) else { return false };
    let decoder = |bytes, (_, function): (&Code, &Function)| {
        Decoder::with_ip(64, bytes, function.address, DecoderOptions::NONE)
    };
    let mut left_decoder = decoder(&left_bytes, left);
    let mut right_decoder = decoder(&right_bytes, right);
    while left_decoder.can_decode() && right_decoder.can_decode() {
        let at = left_decoder.position();
        if at != right_decoder.position() {
            return false;
        }
        let left_one = left_decoder.decode();
        let right_one = right_decoder.decode();
        let fixed = fixed_bytes(&left_bytes[at..], &left_one, &left_decoder);
        if fixed != fixed_bytes(&right_bytes[at..], &right_one, &right_decoder)
            || !same_target((left, &left_one), (right, &right_one))
        {
            return false;
        }
    }
    left_decoder.can_decode() == right_decoder.can_decode()
}

/// The bytes of an instruction with a distance in it set to zero.
fn fixed_bytes(bytes: &[u8], instruction: &Instruction, decoder: &Decoder<'_>) -> Vec<u8> {
    let mut bytes = bytes[..instruction.len()].to_vec();
    let offsets = decoder.get_constant_offsets(instruction);
    let mut clear = |from: usize, size: usize| bytes[from..from + size].fill(0);
    if instruction.is_ip_rel_memory_operand() {
        clear(offsets.displacement_offset(), offsets.displacement_size());
    }
    if is_near_branch(instruction) {
        clear(offsets.immediate_offset(), offsets.immediate_size());
    }
    bytes
}

fn is_near_branch(instruction: &Instruction) -> bool {
    instruction.op_count() > 0 && instruction.op0_kind() == OpKind::NearBranch64
}

type Site<'a> = ((&'a Code, &'a Function), &'a Instruction);

fn same_target(left: Site<'_>, right: Site<'_>) -> bool {
    let target = |instruction: &Instruction| {
        if instruction.is_ip_rel_memory_operand() {
            Some(instruction.ip_rel_memory_address())
        } else if is_near_branch(instruction) {
            Some(instruction.near_branch_target())
        } else {
            None
        }
    };
    let (Some(left_target), Some(right_target)) = (target(left.1), target(right.1)) else {
        return target(left.1) == target(right.1);
    };
    let within = |(_, function): (&Code, &Function), target: u64| {
        target.checked_sub(function.address).filter(|offset| *offset < function.size)
    };
    match (within(left.0, left_target), within(right.0, right_target)) {
        (None, None) => {
            let place = left.0.0.place(left_target);
            place.is_some() && place == right.0.0.place(right_target)
        }
        (left, right) => left == right,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command;
    use std::process::Command;

    const SOURCE: &str = r#"
        #include <stdio.h>
        static int table[4] = {1, 2, 3, 4};
        #ifdef MORE
        __attribute__((noinline)) int more(int x) { return printf("moved %d\n", x); }
        #endif
        __attribute__((noinline)) static int local(int x) { return table[x & 3] + ADD; }
        __attribute__((noinline)) int first(int x) { puts("first"); return local(x) * 3; }
        __attribute__((noinline)) int second(int x) {
            switch (x) { case 0: return puts("a"); case 1: return puts("b"); case 2: return 7;
                         case 3: return first(x); case 4: return puts("c"); default: return -x; }
        }
        int main(int argc, char **argv) { (void)argv;
        #ifdef MORE
            more(argc);
        #endif
            return first(argc) + second(argc); }
    "#;

    fn compiled(folder: &Path, name: &str, options: &[&str]) -> Code {
        let source = folder.join("x.c");
        std::fs::write(&source, SOURCE).unwrap();
        let out = folder.join(name);
        let mut clang = Command::new("clang-19");
        clang.args(["-O2", "-o"]).arg(&out).arg(&source).args(options);
        command::output(&mut clang).unwrap();
        Code::read(&out).unwrap()
    }

    #[test]
    fn moved_code_is_the_same_and_changed_code_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let plain = compiled(folder.path(), "plain", &["-DADD=1"]);
        let again = compiled(folder.path(), "again", &["-DADD=1"]);
        let moved = compiled(folder.path(), "moved", &["-DADD=1", "-DMORE"]);
        let other = compiled(folder.path(), "other", &["-DADD=2"]);
        let counts = |name: &str| matches!(name, "local" | "first" | "second" | "main" | "more");
        let names = |names: &BTreeSet<String>| names.iter().cloned().collect::<Vec<_>>().join(" ");

        let same = compare(&plain, &again, counts);
        assert_eq!((same.identical, names(&same.different)), (4, String::new()));
        assert!(!plain.same_bytes(&moved), "nothing moved");
        let shifted = compare(&plain, &moved, counts);
        assert_eq!(names(&shifted.different), "main");
        assert_eq!((shifted.identical, names(&shifted.unmatched)), (3, "more".to_owned()));
        let changed = compare(&plain, &other, counts);
        assert_eq!((changed.identical, names(&changed.different)), (3, "local".to_owned()));
    }

    #[test]
    fn what_is_no_executable_is_an_error() {
        assert!(Code::parse(b"#!/bin/sh\n").is_err());
        assert!(Code::parse(b"").is_err());
    }
}
