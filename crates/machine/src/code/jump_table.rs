//! Where computed jumps go to.
//!
//! Compilers write a dense `switch` as a table and a jump through it: of 32-bit
//! distances from the table (or, at times, from elsewhere), or of addresses. A
//! forward analysis says which registers hold the address of such a table, an
//! entry of it, or the sum that is jumped to, at every place of a function: meeting
//! ways agree, or nothing is known. It goes through the whole function, because the
//! address of a table is often loaded far away, before a loop.
//!
//! How many entries a table has is read off the comparison before the jump; where
//! the index is a byte of another table (as in glibc's `printf`), and it is not that
//! byte which is compared, the largest of the bytes tells. Where
//! there is none, a table ends before the next one, before the next address that
//! code mentions, and before the first entry that does not lead to an instruction
//! of the same function; if one is found to lead into the middle of an instruction
//! later, all begins anew, and the table ends before it.
//!
//! Cost: each register of each block changes at most a few times.

use std::collections::{BTreeMap, BTreeSet};

use iced_x86::{
    Code as Opcode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::decoded::{Flow, Goto, decode};
use super::descent::{Descent, Stretch};
use super::loaded::Loaded;

/// What is known of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// No way leads here yet.
    Unreached,
    Nothing,
    Address(u64),
    /// A byte of a table.
    Byte(Bytes),
    /// A 32-bit entry of a table.
    Distance(Entries),
    /// An 8-byte entry of a table.
    Pointer(Entries),
    /// An entry of the first, added to the second.
    Sum(Entries, u64),
}

/// A table that an entry is read of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Entries {
    start: u64,
    /// The table of bytes that the index is one of, if it is.
    index: Option<Bytes>,
}

impl Entries {
    /// Where ways meet, the index may be any.
    fn meet(self, other: Self) -> Option<Self> {
        (self.start == other.start).then_some(Self { index: None, ..self })
    }
}

/// A table that a byte is read of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Bytes {
    start: u64,
    /// Which instruction reads.
    reader: u64,
}

impl Known {
    fn meet(self, other: Self) -> Self {
        match (self, other) {
            (Self::Unreached, it) | (it, Self::Unreached) => it,
            (one, other) if one == other => one,
            (Self::Distance(one), Self::Distance(other)) => {
                one.meet(other).map_or(Self::Nothing, Self::Distance)
            }
            (Self::Pointer(one), Self::Pointer(other)) => {
                one.meet(other).map_or(Self::Nothing, Self::Pointer)
            }
            (Self::Sum(one, base), Self::Sum(other, base_too)) if base == base_too => {
                one.meet(other).map_or(Self::Nothing, |it| Self::Sum(it, base))
            }
            _ => Self::Nothing,
        }
    }
}

type State = [Known; 16];

const NOTHING: State = [Known::Nothing; 16];

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
}

impl Tracker<'_> {
    /// The table that a memory operand reads an entry of.
    fn table(&self, state: &State, instruction: &Instruction) -> Option<Entries> {
        let start = self.table_start(state, instruction)?;
        let registers = [instruction.memory_index(), instruction.memory_base()];
        let index = registers.into_iter().find_map(|it| match state[number(it)?] {
            Known::Byte(table) => Some(table),
            _ => None,
        });
        Some(Entries { start, index })
    }

    fn table_start(&self, state: &State, instruction: &Instruction) -> Option<u64> {
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
                Some(table.wrapping_add(offset))
            }
            (_, Known::Address(table))
                if base != Register::None && instruction.memory_index_scale() == 1 =>
            {
                Some(table.wrapping_add(offset))
            }
            _ if self.loaded.fixed && (base == Register::None || index == Register::None) => {
                (offset != 0
                    && offset < 1 << 31
                    && (base, index) != (Register::None, Register::None))
                    .then_some(offset)
            }
            _ => None,
        }
    }

    fn value(&self, state: &State, instruction: &Instruction) -> Option<Known> {
        let of = |register: Register| number(register).map_or(Known::Nothing, |it| state[it]);
        if let (Some(address), OpKind::Register) =
            (constant(self.loaded, instruction), instruction.op0_kind())
        {
            return Some(Known::Address(address));
        }
        let add = |one: Known, other: Known| match (one, other) {
            (Known::Distance(table), Known::Address(base))
            | (Known::Address(base), Known::Distance(table)) => Some(Known::Sum(table, base)),
            _ => None,
        };
        match instruction.code() {
            Opcode::Mov_r64_rm64 | Opcode::Mov_rm64_r64 => match instruction.op1_kind() {
                OpKind::Register => Some(of(instruction.op1_register())),
                OpKind::Memory => self.table(state, instruction).map(Known::Pointer),
                _ => None,
            },
            Opcode::Movzx_r32_rm8 => match instruction.op1_kind() {
                OpKind::Register => match of(instruction.op1_register()) {
                    it @ Known::Byte(_) => Some(it),
                    _ => None,
                },
                OpKind::Memory => {
                    let start = self.table_start(state, instruction)?;
                    Some(Known::Byte(Bytes { start, reader: instruction.ip() }))
                }
                _ => None,
            },
            Opcode::Movsxd_r64_rm32 | Opcode::Mov_r32_rm32 => match instruction.op1_kind() {
                OpKind::Register => match of(instruction.op1_register()) {
                    it @ (Known::Distance(_) | Known::Byte(_)) => Some(it),
                    _ => None,
                },
                OpKind::Memory => self.table(state, instruction).map(Known::Distance),
                _ => None,
            },
            Opcode::Add_r64_rm64 | Opcode::Add_rm64_r64
                if instruction.op1_kind() == OpKind::Register =>
            {
                add(of(instruction.op0_register()), of(instruction.op1_register()))
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

    fn step(&mut self, state: &mut State, instruction: &Instruction) {
        // Sign extension of `eax` has no operands.
        if instruction.code() == Opcode::Cdqe
            && matches!(state[0], Known::Distance(_) | Known::Byte(_))
        {
            return;
        }
        let value = self.value(state, instruction);
        let info = self.info.info(instruction);
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
            }
        }
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
    let is_open = |descent: &Descent<'_>, stretch: &Stretch| {
        stretch.flow == Flow::Jump(Goto::Computed) && !descent.tables.contains_key(&stretch.last)
    };
    let descent = &*all;
    // Only functions with such jumps, and only if there is more of them than when
    // they were looked at before.
    let mut open: BTreeMap<(u64, u64), Vec<u64>> = BTreeMap::new();
    for (&start, stretch) in descent.stretches.iter().filter(|(_, it)| is_open(descent, it)) {
        let range = descent.frame_of(stretch.last).map_or((0, u64::MAX), |it| (it.start, it.end));
        open.entry(range).or_default().push(start);
    }
    let mut states = BTreeMap::new();
    let mut starts = Vec::new();
    for (range, jumps) in open {
        let size = all.stretches.range(range.0..range.1).count();
        if all.looked_at.insert(range.0, size) != Some(size) {
            states.extend(states_at_starts(all, range));
            starts.extend(jumps);
        }
    }
    let descent = &*all;
    let mut tracker = Tracker { loaded: descent.loaded, info: InstructionInfoFactory::new() };
    let mut jumps = Vec::new();
    for start in starts {
        let stretch = &descent.stretches[&start];
        let mut state = states.get(&start).copied().unwrap_or(NOTHING);
        run(&mut tracker, &mut state, descent, start, stretch);
        let Some(jump) = decode(descent.loaded, stretch.last) else { continue };
        let table = match jump.op0_kind() {
            OpKind::Register => match number(jump.op0_register()).map(|it| state[it]) {
                Some(Known::Sum(entries, base)) => Some(Table::Distances { entries, base }),
                Some(Known::Pointer(entries)) => Some(Table::Pointers { entries }),
                _ => None,
            },
            OpKind::Memory => {
                tracker.table(&state, &jump).map(|entries| Table::Pointers { entries })
            }
            _ => None,
        };
        if let Some(table) = table {
            jumps.push((start, stretch.last, table));
        }
    }
    let ends: BTreeSet<u64> = jumps.iter().map(|(.., table)| table.entries().start).collect();
    if jumps.is_empty() {
        return Vec::new();
    }
    let limits = Limits { descent, predecessors: predecessors(descent), ends };
    let mut guessed: Vec<(u64, u64, u64)> = Vec::new();
    let mut found = Vec::new();
    for (start, jump, table) in jumps {
        let (targets, is_guessed) = limits.targets(start, jump, table);
        if is_guessed {
            let entries =
                targets.iter().map(|&(place, target)| (table.entries().start, place, target));
            guessed.extend(entries);
        }
        let mut targets: Vec<u64> = targets.into_iter().map(|(_, target)| target).collect();
        targets.sort_unstable();
        targets.dedup();
        if !targets.is_empty() {
            found.push((jump, targets));
        }
    }
    all.guessed.extend(guessed);
    found
}

/// Runs the tracker up to the last instruction of a stretch, without it.
fn run(
    tracker: &mut Tracker<'_>,
    state: &mut State,
    descent: &Descent<'_>,
    start: u64,
    stretch: &Stretch,
) {
    let mut address = start;
    while address < stretch.last {
        let Some(instruction) = decode(descent.loaded, address) else { return };
        tracker.step(state, &instruction);
        address = instruction.next_ip();
    }
}

/// What is known where each stretch between two addresses begins.
fn states_at_starts(descent: &Descent<'_>, range: (u64, u64)) -> BTreeMap<u64, State> {
    let within = || descent.stretches.range(range.0..range.1);
    let mut states: BTreeMap<u64, State> = BTreeMap::new();
    let mut has_predecessor = BTreeSet::new();
    let mut called = BTreeSet::new();
    for (_, stretch) in within() {
        has_predecessor.extend(descent.successors(stretch));
        if let Flow::Call(Goto::Code(target)) = &stretch.flow {
            called.insert(*target);
        }
    }
    let mut waiting: BTreeSet<u64> = BTreeSet::new();
    for (&start, _) in within() {
        if start == range.0 || !has_predecessor.contains(&start) || called.contains(&start) {
            states.insert(start, NOTHING);
            waiting.insert(start);
        }
    }
    let mut tracker = Tracker { loaded: descent.loaded, info: InstructionInfoFactory::new() };
    while let Some(start) = waiting.pop_first() {
        let stretch = &descent.stretches[&start];
        let mut state = states[&start];
        run(&mut tracker, &mut state, descent, start, stretch);
        if let Flow::Call(_) = stretch.flow {
            RETURNED.into_iter().for_each(|it| state[it] = Known::Nothing);
        } else if let Some(last) = decode(descent.loaded, stretch.last) {
            tracker.step(&mut state, &last);
        }
        for next in descent.successors(stretch) {
            if !(range.0..range.1).contains(&next) || !descent.stretches.contains_key(&next) {
                continue;
            }
            let before = states.get(&next).copied().unwrap_or([Known::Unreached; 16]);
            let mut after = before;
            for (one, other) in after.iter_mut().zip(&state) {
                *one = one.meet(*other);
            }
            if after != before {
                states.insert(next, after);
                waiting.insert(next);
            }
        }
    }
    states
}

fn predecessors(descent: &Descent<'_>) -> BTreeMap<u64, Vec<u64>> {
    let mut found: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for (&start, stretch) in &descent.stretches {
        for next in descent.successors(stretch) {
            found.entry(next).or_default().push(start);
        }
    }
    found
}

#[derive(Debug, Clone, Copy)]
enum Table {
    Distances { entries: Entries, base: u64 },
    Pointers { entries: Entries },
}

impl Table {
    fn entries(self) -> Entries {
        match self {
            Self::Distances { entries, .. } | Self::Pointers { entries } => entries,
        }
    }
}

/// What a comparison says.
#[derive(Debug, Clone, Copy)]
struct Bound {
    count: u64,
    /// Whether an entry of a table was compared, not an index.
    of_entry: bool,
}

struct Limits<'a, 'b> {
    descent: &'a Descent<'b>,
    predecessors: BTreeMap<u64, Vec<u64>>,
    ends: BTreeSet<u64>,
}

/// How far before a jump its comparison is looked for, in stretches.
const FAR: usize = 12;
/// The most entries of a table whose size is not known.
const MOST_ENTRIES: u64 = 4096;

impl Limits<'_, '_> {
    /// Entries, with their places, and whether their number is a guess.
    fn targets(&self, start: u64, jump: u64, table: Table) -> (Vec<(u64, u64)>, bool) {
        let compared = self.bound(start);
        let Entries { start: first, index } = table.entries();
        let bound = match index {
            Some(bytes) if (start..jump).contains(&bytes.reader) => match compared {
                Some(Bound { count, of_entry: false }) => self.largest(bytes.start, count),
                other => other.map(|it| it.count),
            },
            _ => compared.map(|it| it.count),
        };
        let width = match table {
            Table::Distances { .. } => 4,
            Table::Pointers { .. } => 8,
        };
        let ends = &self.descent.ends;
        let next = |set: &BTreeSet<u64>| set.range(first.saturating_add(1)..).next().copied();
        let nexts = [next(&self.ends), next(&ends.mentioned), next(&ends.wrong)];
        let end = nexts.into_iter().flatten().min().unwrap_or(u64::MAX);
        let function = self.descent.frame_of(jump);
        let mut targets = Vec::new();
        for entry in 0..bound.unwrap_or(MOST_ENTRIES).min(MOST_ENTRIES) {
            let place = first.wrapping_add(width * entry);
            if bound.is_none() && place >= end {
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
            let in_function = function.is_none_or(|it| (it.start..it.end).contains(&target));
            let is_right = self.descent.loaded.is_code(target)
                && !self.descent.is_inside_an_instruction(target)
                && (in_function || (bound.is_some() && width == 4));
            if !is_right {
                break;
            }
            targets.push((place, target));
        }
        (targets, bound.is_none())
    }

    /// How many entries the first bytes of a table can be indices of.
    fn largest(&self, bytes: u64, count: u64) -> Option<u64> {
        let bytes = self.descent.loaded.bytes(bytes).get(..usize::try_from(count).ok()?)?;
        Some(u64::from(*bytes.iter().max()?) + 1)
    }

    /// How many entries the comparison before a jump lets through.
    fn bound(&self, start: u64) -> Option<Bound> {
        let mut at = start;
        for _ in 0..FAR {
            let [before] = self.predecessors.get(&at)?[..] else { return None };
            let stretch = &self.descent.stretches[&before];
            if let Flow::Branch(target) = &stretch.flow {
                let taken = *target == Goto::Code(at);
                let branch = decode(self.descent.loaded, stretch.last)?;
                let more = match (branch.mnemonic(), taken) {
                    (Mnemonic::Ja, false) | (Mnemonic::Jbe, true) => Some(1),
                    (Mnemonic::Jae, false) | (Mnemonic::Jb, true) => Some(0),
                    _ => None,
                };
                if let Some(more) = more {
                    let Bound { count, of_entry } = self.compared(before, stretch)?;
                    return Some(Bound { count: count.saturating_add(more), of_entry });
                }
            }
            at = before;
        }
        None
    }

    /// The constant that the last comparison of a stretch has.
    fn compared(&self, start: u64, stretch: &Stretch) -> Option<Bound> {
        let mut found = None;
        // By register: whether it holds what was read of a table.
        let mut entries = [false; 16];
        let mut address = start;
        while address < stretch.last {
            let instruction = decode(self.descent.loaded, address)?;
            if instruction.mnemonic() == Mnemonic::Cmp {
                let kind = instruction.op1_kind();
                let is_constant = !matches!(kind, OpKind::Register | OpKind::Memory);
                let compared = number(instruction.op0_register()).map(|it| entries[it]);
                found = is_constant.then(|| Bound {
                    count: instruction.immediate(1) & 0xffff_ffff,
                    of_entry: compared.unwrap_or(true),
                });
            } else if let Some(target) = number(instruction.op0_register()) {
                entries[target] = instruction.code() == Opcode::Movzx_r32_rm8
                    && match number(instruction.op1_register()) {
                        Some(source) => entries[source],
                        None => instruction.memory_index() != Register::None,
                    };
            }
            address = instruction.next_ip();
        }
        found
    }
}
