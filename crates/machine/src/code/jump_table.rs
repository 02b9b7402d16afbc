//! Where computed jumps go to.
//!
//! Compilers write a dense `switch` as a table and a jump through it: of 32-bit
//! distances from the table (or, at times, from elsewhere), or of addresses. A
//! forward analysis says which registers hold the address of such a table, an
//! entry of it, or the sum that is jumped to, at every place of a function: meeting
//! ways agree, or nothing is known. It goes through the whole function, because the
//! address of a table is often loaded far away, before a loop, and kept on the stack
//! meanwhile, as an entry may be. Where that finds no table, ways are left out on which
//! nothing is known, if others know something: such are those behind calls of functions
//! that never return, which nobody can tell.
//!
//! How many entries a table has is read off what is done to the index before
//! ([`super::index`]). A table ends before the next one; where nothing is compared,
//! also before the next address that code mentions, and before the first entry that
//! does not lead to an instruction of the same function. If something is found later
//! to begin within a table, or an entry to lead into the middle of an instruction, all
//! begins anew, and the table ends before it.
//!
//! Cost: each register and word of each block changes at most a few times.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use iced_x86::{
    Code as Opcode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::decoded::{Flow, Goto, decode};
use super::descent::{Descent, Entry, Stretch};
use super::index::{self, Bound, Bytes, Reader};
use super::loaded::Loaded;
use super::predecessors::Predecessors;

/// What is known of a register, or of a word of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// No way leads here yet.
    Unreached,
    Nothing,
    Address(u64),
    /// A byte of a table, by the instruction that reads it.
    Byte(u64),
    /// A 32-bit entry of a table.
    Distance(Entries),
    /// An entry that is always the same.
    Number(i32),
    /// An 8-byte entry of a table.
    Pointer(Entries),
    /// An entry of the first, added to the second.
    Sum(Entries, u64),
    /// Ways that know something do not agree.
    Several,
}

/// What is known where ways meet that do not agree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Meeting {
    /// Nothing.
    Sure,
    /// What those know that know something.
    Hopeful,
}

/// A table that an entry is read of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entries {
    start: u64,
    /// The instruction that reads it, or [`ANYONE`].
    reader: u64,
}

/// Where ways meet, it may be anyone.
const ANYONE: u64 = u64::MAX;

impl Entries {
    fn meet(self, other: Self) -> Option<Self> {
        (self.start == other.start).then_some(Self { reader: ANYONE, ..self })
    }
}

impl Known {
    fn meet(self, other: Self, how: Meeting) -> Self {
        match (self, other) {
            (Self::Unreached, it) | (it, Self::Unreached) => it,
            (one, other) if one == other => one,
            (Self::Nothing, it) | (it, Self::Nothing) if how == Meeting::Hopeful => it,
            (Self::Distance(one), Self::Distance(other)) => {
                one.meet(other).map_or(how.otherwise(), Self::Distance)
            }
            (Self::Pointer(one), Self::Pointer(other)) => {
                one.meet(other).map_or(how.otherwise(), Self::Pointer)
            }
            (Self::Sum(one, base), Self::Sum(other, base_too)) if base == base_too => {
                one.meet(other).map_or(how.otherwise(), |it| Self::Sum(it, base))
            }
            _ => how.otherwise(),
        }
    }
}

impl Meeting {
    fn otherwise(self) -> Known {
        match self {
            Self::Sure => Known::Nothing,
            Self::Hopeful => Known::Several,
        }
    }
}

/// How many words of the stack are followed beside the registers.
const SLOTS: usize = 8;

/// Of the registers, then of words of the stack.
type State = [Known; 16 + SLOTS];

const NOTHING: State = [Known::Nothing; 16 + SLOTS];
const UNREACHED: State = [Known::Unreached; 16 + SLOTS];

/// A word of the stack: the register it is addressed by, and how far from it.
type Slot = (Register, u64);

/// The word of the stack that an instruction's memory operand is, or is in.
fn slot(instruction: &Instruction) -> Option<Slot> {
    let is_plain = instruction.memory_index() == Register::None
        && instruction.segment_prefix() == Register::None;
    match instruction.memory_base() {
        base @ (Register::RSP | Register::RBP) if is_plain => {
            Some((base, instruction.memory_displacement64()))
        }
        _ => None,
    }
}

/// The word of the stack that an instruction reads whole.
fn slot_read(instruction: &Instruction) -> Option<Slot> {
    let reads = match instruction.code() {
        Opcode::Mov_r64_rm64 | Opcode::Add_r64_rm64 => instruction.op1_kind(),
        Opcode::Jmp_rm64 => instruction.op0_kind(),
        _ => return None,
    };
    if reads == OpKind::Memory { slot(instruction) } else { None }
}

fn number(register: Register) -> Option<usize> {
    register.is_gpr().then(|| register.full_register().number())
}

/// The address of this file that an instruction puts somewhere.
pub(crate) fn constant(loaded: &Loaded, instruction: &Instruction) -> Option<u64> {
    match instruction.mnemonic() {
        Mnemonic::Lea if instruction.is_ip_rel_memory_operand() => {
            Some(instruction.ip_rel_memory_address())
        }
        // Addresses are small numbers in code that is bound to its place.
        Mnemonic::Mov | Mnemonic::Push if loaded.fixed => {
            let kind = instruction.op_kind(instruction.op_count().checked_sub(1)?);
            match kind {
                OpKind::Immediate32 => Some(u64::from(instruction.immediate32())),
                OpKind::Immediate32to64 | OpKind::Immediate64 => {
                    Some(instruction.immediate(instruction.op_count() - 1))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

struct Tracker<'a> {
    loaded: &'a Loaded,
    info: InstructionInfoFactory,
    /// Who reads tables, by address.
    readers: HashMap<u64, Reader>,
    /// Who reads tables of bytes.
    bytes: HashMap<u64, Bytes>,
    /// The words of the stack that are followed, at most [`SLOTS`].
    slots: Vec<Slot>,
}

impl<'a> Tracker<'a> {
    fn new(loaded: &'a Loaded) -> Self {
        let info = InstructionInfoFactory::new();
        let (readers, bytes) = (HashMap::new(), HashMap::new());
        Self { loaded, info, readers, bytes, slots: Vec::new() }
    }

    /// Chooses the words of the stack that are followed: those that are read before
    /// jumps that are not known, the last ones first. What is jumped to is kept there
    /// where registers do not suffice.
    fn look_at_stack(&mut self, jumps: impl Iterator<Item = (u64, u64)>) {
        self.slots.clear();
        for (start, last) in jumps {
            let mut read = Vec::new();
            let mut address = start;
            while address <= last {
                let Some(instruction) = decode(self.loaded, address) else { break };
                read.extend(slot_read(&instruction));
                address = instruction.next_ip();
            }
            for slot in read.into_iter().rev() {
                if self.slots.len() < SLOTS && !self.slots.contains(&slot) {
                    self.slots.push(slot);
                }
            }
        }
    }

    /// What is known of the word of the stack that an instruction reads.
    fn of_slot(&self, state: &State, instruction: &Instruction) -> Option<Known> {
        let read = slot_read(instruction)?;
        let place = self.slots.iter().position(|&it| it == read)?;
        Some(state[16 + place])
    }

    /// Forgets words of the stack that an instruction changes, all where it changes
    /// what they are addressed by, and keeps what it writes whole.
    fn step_slots(&self, state: &mut State, instruction: &Instruction, changed: &[bool; 16]) {
        let written = (instruction.op0_kind() == OpKind::Memory)
            .then(|| slot(instruction))
            .flatten()
            .map(|it| (it, instruction.memory_size().size() as u64));
        for (place, &(base, offset)) in self.slots.iter().enumerate() {
            let is_written = written.is_some_and(|((by, from), size)| {
                let overlaps = from.wrapping_sub(offset) < 8 || offset.wrapping_sub(from) < size;
                by == base && overlaps
            });
            if is_written || changed[base.number()] {
                state[16 + place] = Known::Nothing;
            }
        }
        if instruction.code() == Opcode::Mov_rm64_r64
            && let Some((slot, _)) = written
            && let Some(place) = self.slots.iter().position(|&it| it == slot)
            && let Some(source) = number(instruction.op1_register())
        {
            state[16 + place] = state[source];
        }
    }

    /// The table that a memory operand reads an entry of.
    fn table(&mut self, state: &State, instruction: &Instruction) -> Option<Entries> {
        let (start, index) = self.table_start(state, instruction)?;
        let bytes = match state[number(index)?] {
            Known::Byte(reader) => self.bytes.get(&reader).copied(),
            _ => None,
        };
        let at = instruction.ip();
        self.readers.insert(at, Reader { at, index, bytes });
        Some(Entries { start, reader: at })
    }

    /// Where that table begins, and the register that says which entry.
    fn table_start(&self, state: &State, instruction: &Instruction) -> Option<(u64, Register)> {
        let of = |register: Register| match number(register) {
            Some(number) => state[number],
            None => Known::Nothing,
        };
        let offset = instruction.memory_displacement64();
        let (base, index) = (instruction.memory_base(), instruction.memory_index());
        if base == Register::RIP {
            return None;
        }
        match (of(base), of(index)) {
            (Known::Address(table), _) if index != Register::None => {
                Some((table.wrapping_add(offset), index))
            }
            (_, Known::Address(table))
                if base != Register::None && instruction.memory_index_scale() == 1 =>
            {
                Some((table.wrapping_add(offset), base))
            }
            _ if self.loaded.fixed && (offset != 0 && offset < 1 << 31) => match (base, index) {
                (Register::None, Register::None) => None,
                (Register::None, one) | (one, Register::None) => Some((offset, one)),
                _ => None,
            },
            _ => None,
        }
    }

    fn value(&mut self, state: &State, instruction: &Instruction) -> Option<Known> {
        let of = |register: Register| number(register).map_or(Known::Nothing, |it| state[it]);
        if let (Some(address), OpKind::Register) =
            (constant(self.loaded, instruction), instruction.op0_kind())
        {
            return Some(Known::Address(address));
        }
        let add = |one: Known, other: Known| match (one, other) {
            (Known::Distance(table), Known::Address(base))
            | (Known::Address(base), Known::Distance(table)) => Some(Known::Sum(table, base)),
            (Known::Number(distance), Known::Address(base))
            | (Known::Address(base), Known::Number(distance)) => {
                Some(Known::Address(base.wrapping_add_signed(i64::from(distance))))
            }
            _ => None,
        };
        match instruction.code() {
            Opcode::Mov_r64_rm64 | Opcode::Mov_rm64_r64 => match instruction.op1_kind() {
                OpKind::Register => Some(of(instruction.op1_register())),
                OpKind::Memory => self
                    .of_slot(state, instruction)
                    .or_else(|| self.table(state, instruction).map(Known::Pointer)),
                _ => None,
            },
            Opcode::Movzx_r32_rm8 => match instruction.op1_kind() {
                OpKind::Register => match of(instruction.op1_register()) {
                    it @ Known::Byte(_) => Some(it),
                    _ => None,
                },
                OpKind::Memory => {
                    let (start, index) = self.table_start(state, instruction)?;
                    let reader = instruction.ip();
                    self.bytes.insert(reader, Bytes { start, reader, index });
                    Some(Known::Byte(reader))
                }
                _ => None,
            },
            Opcode::Movsxd_r64_rm32 if instruction.is_ip_rel_memory_operand() => {
                let place = instruction.ip_rel_memory_address();
                self.loaded.constant_half(place).map(Known::Number)
            }
            Opcode::Movsxd_r64_rm32 | Opcode::Mov_r32_rm32 => match instruction.op1_kind() {
                OpKind::Register => match of(instruction.op1_register()) {
                    it @ (Known::Distance(_) | Known::Byte(_)) => Some(it),
                    _ => None,
                },
                OpKind::Memory => self.table(state, instruction).map(Known::Distance),
                _ => None,
            },
            Opcode::Add_r64_rm64 | Opcode::Add_rm64_r64 => {
                let other = match instruction.op1_kind() {
                    OpKind::Register => of(instruction.op1_register()),
                    _ => self.of_slot(state, instruction)?,
                };
                add(of(instruction.op0_register()), other)
            }
            Opcode::Lea_r64_m
                if instruction.memory_index_scale() == 1
                    && instruction.memory_displacement64() == 0 =>
            {
                add(of(instruction.memory_base()), of(instruction.memory_index()))
            }
            _ => None,
        }
    }

    /// Where a jump goes.
    fn aim(&mut self, state: &State, jump: &Instruction) -> Option<Aim> {
        let known = match jump.op0_kind() {
            OpKind::Register => state[number(jump.op0_register())?],
            OpKind::Memory => match self.of_slot(state, jump) {
                Some(known) => known,
                None => Known::Pointer(self.table(state, jump)?),
            },
            _ => return None,
        };
        match known {
            Known::Sum(entries, base) => Some(Aim::Table(Table::Distances { entries, base })),
            Known::Pointer(entries) => Some(Aim::Table(Table::Pointers { entries })),
            Known::Address(target) => Some(Aim::One(target)),
            _ => None,
        }
    }

    fn step(&mut self, state: &mut State, instruction: &Instruction) {
        // Sign extension of `eax` has no operands.
        if instruction.code() == Opcode::Cdqe
            && matches!(state[0], Known::Distance(_) | Known::Byte(_))
        {
            return;
        }
        let value = self.value(state, instruction);
        let info = self.info.info(instruction);
        let mut changed = [false; 16];
        for used in info.used_registers() {
            let writes = matches!(
                used.access(),
                OpAccess::Write
                    | OpAccess::CondWrite
                    | OpAccess::ReadWrite
                    | OpAccess::ReadCondWrite
            );
            if let (true, Some(number)) = (writes, number(used.register())) {
                state[number] = Known::Nothing;
                changed[number] = true;
            }
        }
        self.step_slots(state, instruction, &changed);
        if let (Some(value), Some(target)) = (value, number(instruction.op0_register())) {
            state[target] = value;
        }
    }
}

/// What calls return something in (System V ABI, AMD64 supplement, section 3.2.3).
/// Of others it need not be known whether a call preserves them: code that goes on to
/// use what one held before relies on it (compilers that see the callee do, of
/// registers that the ABI lets it change), and code that does not asks nothing.
const RETURNED: [usize; 2] = [0, 2];

/// The computed jumps that were not known, with their targets.
pub(crate) fn resolve(all: &mut Descent<'_>) -> Vec<(u64, Vec<u64>)> {
    let descent = &*all;
    // Only functions with such jumps, and only if there is more of them than when
    // they were looked at before.
    let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for (&start, stretch) in descent.stretches.iter().filter(|(_, it)| descent.is_open(it)) {
        open.entry(descent.function_around(stretch.last)).or_default().push(start);
    }
    let mut tracker = Tracker::new(all.loaded);
    let (mut jumps, mut aims) = (Vec::new(), Vec::new());
    for (range, starts) in open {
        let size = all.stretches.range(range.0..range.1).count();
        if all.looked_at.insert(range.0, size) == Some(size) {
            continue;
        }
        let region = Region::new(all, range);
        tracker.look_at_stack(starts.iter().map(|start| (*start, all.stretches[start].last)));
        let mut waiting = starts;
        for how in [Meeting::Sure, Meeting::Hopeful] {
            let states = region.states(all, &mut tracker, how);
            waiting.retain(|&start| {
                let stretch = &all.stretches[&start];
                let mut state = region.number(start).map_or(NOTHING, |it| states[it]);
                run(&mut tracker, &mut state, start, stretch);
                let jump = decode(all.loaded, stretch.last);
                let aim = jump.and_then(|jump| tracker.aim(&state, &jump));
                match aim {
                    Some(Aim::Table(table)) if how == Meeting::Sure || table.is_plain() => {
                        let reader = tracker.readers.get(&table.entries().reader).copied();
                        jumps.push((stretch.last, table, reader));
                        false
                    }
                    // Code that is found by that may lead here with another.
                    Some(Aim::One(target)) if all.may_begin(target) => {
                        aims.push(target);
                        true
                    }
                    _ => true,
                }
            });
            if waiting.is_empty() {
                break;
            }
        }
    }
    all.aims.extend(aims);
    if jumps.is_empty() {
        return Vec::new();
    }
    all.begin_tables(jumps.iter().map(|(_, table, _)| table.entries().start));
    all.sort_jumps();
    let (predecessors, parts) = (Predecessors::new(all), parts(all));
    let limits = Limits { descent: all, predecessors, parts };
    let mut entries = Vec::new();
    let mut found = Vec::new();
    for (jump, table, reader) in jumps {
        let read = limits.entries(jump, table, reader);
        let mut targets: Vec<u64> = read.iter().map(|entry| entry.target).collect();
        targets.sort_unstable();
        targets.dedup();
        if !targets.is_empty() {
            found.push((jump, targets));
        }
        entries.extend(read);
    }
    all.entries.extend(entries);
    found
}

/// Runs the tracker up to the last instruction of a stretch, without it.
fn run(tracker: &mut Tracker<'_>, state: &mut State, start: u64, stretch: &Stretch) {
    let mut address = start;
    while address < stretch.last {
        let Some(instruction) = decode(tracker.loaded, address) else { return };
        tracker.step(state, &instruction);
        address = instruction.next_ip();
    }
}

/// The stretches between two addresses, numbered.
struct Region {
    start: u64,
    starts: Vec<u64>,
    /// By number: what can follow.
    next: Vec<Vec<usize>>,
}

impl Region {
    fn new(descent: &Descent<'_>, range: (u64, u64)) -> Self {
        let within = || descent.stretches.range(range.0..range.1);
        let mut region =
            Self { start: range.0, starts: within().map(|it| *it.0).collect(), next: Vec::new() };
        region.next = within()
            .map(|(_, stretch)| {
                descent.successors(stretch).filter_map(|it| region.number(it)).collect()
            })
            .collect();
        region
    }

    fn number(&self, start: u64) -> Option<usize> {
        self.starts.binary_search(&start).ok()
    }

    /// What is known where each stretch begins.
    fn states(&self, descent: &Descent<'_>, tracker: &mut Tracker<'_>, how: Meeting) -> Vec<State> {
        let mut is_entry = vec![true; self.starts.len()];
        self.next.iter().flatten().for_each(|&it| is_entry[it] = false);
        for start in &self.starts {
            if let Flow::Call(Goto::Code(target)) = descent.stretches[start].flow
                && let Some(called) = self.number(target)
            {
                is_entry[called] = true;
            }
        }
        if let Some(first) = self.number(self.start) {
            is_entry[first] = true;
        }
        let mut states: Vec<State> =
            is_entry.iter().map(|&it| if it { NOTHING } else { UNREACHED }).collect();
        let mut waiting: BTreeSet<usize> =
            (0..states.len()).filter(|&number| is_entry[number]).collect();
        while let Some(number) = waiting.pop_first() {
            let start = self.starts[number];
            let stretch = &descent.stretches[&start];
            let mut state = states[number];
            run(tracker, &mut state, start, stretch);
            if let Flow::Call(_) = stretch.flow {
                RETURNED.into_iter().for_each(|it| state[it] = Known::Nothing);
            } else if let Some(last) = decode(tracker.loaded, stretch.last) {
                tracker.step(&mut state, &last);
            }
            for &next in &self.next[number] {
                let mut is_changed = false;
                for (one, &other) in states[next].iter_mut().zip(&state) {
                    let met = one.meet(other, how);
                    is_changed |= met != *one;
                    *one = met;
                }
                if is_changed {
                    waiting.insert(next);
                }
            }
        }
        states
    }
}

#[derive(Debug, Clone, Copy)]
enum Table {
    Distances { entries: Entries, base: u64 },
    Pointers { entries: Entries },
}

/// Where a jump goes.
#[derive(Debug, Clone, Copy)]
enum Aim {
    /// There, on all ways that are known: a label.
    One(u64),
    Table(Table),
}

impl Table {
    /// Whether distances are from the table itself, as they nearly always are.
    fn is_plain(self) -> bool {
        match self {
            Self::Distances { entries, base } => entries.start == base,
            Self::Pointers { .. } => true,
        }
    }

    fn entries(self) -> Entries {
        match self {
            Self::Distances { entries, .. } | Self::Pointers { entries } => entries,
        }
    }
}

struct Limits<'a, 'b> {
    descent: &'a Descent<'b>,
    predecessors: Predecessors<'a, 'b>,
    /// Pairs of stretches of code with unwind information that are parts of one
    /// function.
    parts: BTreeSet<(u64, u64)>,
}

/// What is jumped into, not to its start, is part of what jumps: compilers move away
/// what runs seldom.
fn parts(descent: &Descent<'_>) -> BTreeSet<(u64, u64)> {
    let mut found = BTreeSet::new();
    // That of the target before, which is that of most others behind.
    let mut here = 0..0;
    for &(target, jump) in descent.jumps() {
        if !here.contains(&target) {
            here = descent.framed(target);
        }
        if here.start != target
            && here.contains(&target)
            && !here.contains(&jump)
            && let Some(from) = descent.frame_of(jump)
        {
            found.insert((from.start, here.start));
            found.insert((here.start, from.start));
        }
    }
    found
}

/// The most entries of a table whose size is not known.
const MOST_GUESSED: u64 = 4096;
/// The most entries of a table: more than compilers make.
const MOST_ENTRIES: u64 = 1 << 20;

impl Limits<'_, '_> {
    fn entries(&self, jump: u64, table: Table, reader: Option<Reader>) -> Vec<Entry> {
        let first = table.entries().start;
        let bound = reader.and_then(|it| index::bound(self.descent, &self.predecessors, it));
        let bound = bound.filter(|it| it.count <= MOST_ENTRIES);
        let is_compared = bound.is_some_and(|it| it.is_compared);
        let count = bound.map_or(MOST_GUESSED, |Bound { count, .. }| count);
        let width = match table {
            Table::Distances { .. } => 4,
            Table::Pointers { .. } => 8,
        };
        let end = self.descent.end_of_table(first, is_compared);
        let function = self.descent.frame_of(jump);
        let (mut found, mut has_own) = (Vec::new(), false);
        for entry in 0..count {
            let place = first.wrapping_add(width * entry);
            if end.is_some_and(|end| end <= place) {
                break;
            }
            let target = match table {
                Table::Distances { base, .. } => {
                    let distance = self.descent.loaded.half(place);
                    distance.map(|it| base.wrapping_add_signed(i64::from(it)))
                }
                Table::Pointers { .. } => self.descent.loaded.pointer(place),
            };
            let Some(target) = target else { break };
            let in_function = function.is_none_or(|it| {
                let parts = self.descent.frame_of(target).map(|other| (it.start, other.start));
                (it.start..it.end).contains(&target)
                    || parts.is_some_and(|parts| self.parts.contains(&parts))
            });
            let is_right = self.descent.may_begin(target) && (in_function || is_compared);
            if !is_right {
                break;
            }
            has_own |= in_function;
            found.push(Entry { table: first, place, target, is_compared });
        }
        // Pointers that all lead elsewhere are to functions that are called.
        if width == 8 && !has_own {
            found.clear();
        }
        found
    }
}
