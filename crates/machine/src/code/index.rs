//! How large the index of a table of jumps can be.
//!
//! From the instruction that reads an entry, the index is followed back along the
//! only way that leads there: through copies between registers and memory, sums with
//! constants, shifts, and a table of bytes that it is read of (as in glibc's
//! `printf`). What it is compared with on this way, or what is masked out of it, says
//! how many entries there are.
//!
//! *Assumed*: that memory which the index is kept in is not written by another name
//! between the comparison and the use, as compilers make sure; and that a comparison
//! of its low bits is one of all of it.

use iced_x86::{
    Code as Opcode, Instruction, InstructionInfoFactory, Mnemonic, OpAccess, OpKind, Register,
};

use super::decoded::{Flow, Goto, decode};
use super::descent::Descent;
use super::predecessors::Predecessors;

/// An instruction that reads an entry of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Reader {
    pub at: u64,
    /// The register that says which entry.
    pub index: Register,
    /// The table of bytes that the index is one of, if it is.
    pub bytes: Option<Bytes>,
}

/// A table that a byte is read of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bytes {
    pub start: u64,
    /// Which instruction reads.
    pub reader: u64,
    /// The register that says which byte.
    pub index: Register,
}

/// Where something is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Register(Register),
    Memory { base: Register, index: Register, scale: u32, offset: u64 },
}

impl Place {
    fn register(register: Register) -> Option<Self> {
        register.is_gpr().then(|| Self::Register(register.full_register()))
    }

    /// The place that an operand names.
    fn of(instruction: &Instruction, operand: u32) -> Option<Self> {
        match instruction.op_kind(operand) {
            OpKind::Register => Self::register(instruction.op_register(operand)),
            OpKind::Memory => Some(Self::Memory {
                base: instruction.memory_base(),
                index: instruction.memory_index(),
                scale: instruction.memory_index_scale(),
                offset: instruction.memory_displacement64(),
            }),
            _ => None,
        }
    }

    /// The registers that it is found by.
    fn registers(self) -> [Register; 2] {
        match self {
            Self::Register(register) => [register, Register::None],
            Self::Memory { base, index, .. } => [base, index],
        }
    }
}

/// What is in a place, and a constant added to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Value {
    place: Place,
    more: i32,
}

impl Value {
    fn of(instruction: &Instruction, operand: u32) -> Option<Self> {
        Some(Self { place: Place::of(instruction, operand)?, more: 0 })
    }
}

/// How many values an index can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Bound {
    pub count: u64,
    /// Whether it was compared, so that there is an entry for each; fewer bits may hold
    /// values that the compiler knows not to occur.
    pub is_compared: bool,
}

/// What is done to a value before it is an index.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Then {
    /// It is shifted to the right by so many bits.
    Shifted(u8),
    /// It selects one of the bytes that begin here.
    Selects(u64),
}

impl Then {
    /// How many values there are behind it, if there were `count` before.
    fn count(self, descent: &Descent<'_>, count: u64) -> Option<u64> {
        match self {
            Self::Shifted(bits) => Some((count.checked_sub(1)? >> bits) + 1),
            Self::Selects(start) => {
                let bytes = descent.loaded.bytes(start).get(..usize::try_from(count).ok()?)?;
                Some(u64::from(*bytes.iter().max()?) + 1)
            }
        }
    }
}

/// What an instruction does to a value that is known behind it.
enum Before {
    /// It was this.
    Was(Value),
    /// It was this, and something was done to it.
    Made(Value, Then),
    /// It is smaller than that.
    Below(u64),
    Unknown,
}

/// How far before a jump its comparison is looked for, in stretches.
const FAR: usize = 12;

/// How many entries of its table a reader can read, if that is known.
pub(crate) fn bound(
    descent: &Descent<'_>,
    predecessors: &Predecessors<'_, '_>,
    reader: Reader,
) -> Option<Bound> {
    let walk = |bytes| {
        let (value, done) = (Value { place: Place::register(reader.index)?, more: 0 }, Vec::new());
        let info = InstructionInfoFactory::new();
        Walk { descent, info, bytes, value, done }.bound(predecessors, reader.at)
    };
    // The byte itself may be compared, in its table.
    walk(None).or_else(|| walk(Some(reader.bytes?)))
}

/// What calls preserve (System V ABI, AMD64 supplement, figure 3.4).
fn is_preserved(register: Register) -> bool {
    use Register::{R12, R13, R14, R15, RBP, RBX, RIP, RSP};
    matches!(register, Register::None | RBX | RBP | RSP | R12 | R13 | R14 | R15 | RIP)
}

struct Walk<'a> {
    descent: &'a Descent<'a>,
    info: InstructionInfoFactory,
    /// The table of bytes that is to be looked through.
    bytes: Option<Bytes>,
    /// What becomes the index,
    value: Value,
    /// once this is done to it, the last first.
    done: Vec<Then>,
}

impl Walk<'_> {
    fn bound(mut self, predecessors: &Predecessors<'_, '_>, reader: u64) -> Option<Bound> {
        let (&start, _) = self.descent.stretches.range(..=reader).next_back()?;
        let mut at = start;
        let mut instructions = self.between(start, reader);
        for _ in 0..FAR {
            for instruction in instructions.iter().rev() {
                match self.before(instruction, self.value) {
                    Before::Was(value) => self.value = value,
                    Before::Made(value, then) if self.value.more == 0 => {
                        self.value = value;
                        self.done.push(then);
                    }
                    Before::Below(count) if self.value.more == 0 => {
                        let count = self.entries(count)?;
                        return Some(Bound { count, is_compared: false });
                    }
                    _ => return None,
                }
            }
            let before = predecessors.only_one(at)?;
            let stretch = &self.descent.stretches[&before];
            instructions = self.between(before, stretch.last);
            match &stretch.flow {
                Flow::Branch(target) => {
                    let taken = *target == Goto::Code(at);
                    let branch = decode(self.descent.loaded, stretch.last)?;
                    if let Some(count) = self.compared(&instructions, &branch, taken) {
                        let count = self.entries(count)?;
                        return Some(Bound { count, is_compared: true });
                    }
                }
                Flow::Call(_) if !self.value.place.registers().into_iter().all(is_preserved) => {
                    return None;
                }
                _ => {}
            }
            at = before;
        }
        None
    }

    /// How many entries `count` values select.
    fn entries(&self, count: u64) -> Option<u64> {
        self.done.iter().rev().try_fold(count, |count, then| then.count(self.descent, count))
    }

    /// The instructions from one address up to another.
    fn between(&self, start: u64, end: u64) -> Vec<Instruction> {
        let mut address = start;
        let mut found = Vec::new();
        while address < end
            && let Some(instruction) = decode(self.descent.loaded, address)
        {
            address = instruction.next_ip();
            found.push(instruction);
        }
        found
    }

    /// What a value was before an instruction.
    fn before(&mut self, instruction: &Instruction, value: Value) -> Before {
        let Value { place, more } = value;
        let is_written = instruction.op_count() > 0
            && Place::of(instruction, 0) == Some(place)
            && is_write(self.info.info(instruction).op0_access());
        if is_written {
            if let Some(bytes) = self.bytes.filter(|it| it.reader == instruction.ip()) {
                let index = Place::register(bytes.index);
                return index.map_or(Before::Unknown, |place| {
                    Before::Made(Value { place, more: 0 }, Then::Selects(bytes.start))
                });
            }
            return match written(instruction, place) {
                Before::Was(it) => {
                    Before::Was(Value { place: it.place, more: it.more.wrapping_add(more) })
                }
                other => other,
            };
        }
        // Sign extension of `eax` has no operands.
        if instruction.code() == Opcode::Cdqe && place == Place::Register(Register::RAX) {
            return Before::Was(value);
        }
        let used = self.info.info(instruction).used_registers();
        let is_lost = |register: Register| {
            used.iter().any(|it| is_write(it.access()) && it.register().full_register() == register)
        };
        match place.registers().into_iter().any(is_lost) {
            true => Before::Unknown,
            false => Before::Was(value),
        }
    }

    /// How many values the branch behind some instructions lets through, if it is
    /// taken or not.
    fn compared(
        &mut self,
        instructions: &[Instruction],
        branch: &Instruction,
        taken: bool,
    ) -> Option<u64> {
        let more = match (branch.mnemonic(), taken) {
            (Mnemonic::Ja, false) | (Mnemonic::Jbe, true) => 1,
            (Mnemonic::Jae, false) | (Mnemonic::Jb, true) => 0,
            _ => return None,
        };
        let at = instructions.iter().rposition(|it| it.rflags_modified() != 0)?;
        let comparison = &instructions[at];
        if comparison.mnemonic() != Mnemonic::Cmp || !is_constant(comparison, 1) {
            return None;
        }
        let operand = Value::of(comparison, 0)?;
        // Either it is compared itself, or both were the same before.
        let value = self.value;
        let is_it = self.back(&instructions[at..], value) == Some(operand) || {
            let before = self.back(&instructions[..at], operand);
            before.is_some() && before == self.back(instructions, value)
        };
        let bits = operand_size(comparison).min(32);
        let count = comparison.immediate(1) & ((1 << bits) - 1);
        is_it.then_some(count + more)
    }

    /// What a value was before some instructions, if nothing was done to it.
    fn back(&mut self, instructions: &[Instruction], value: Value) -> Option<Value> {
        let mut latest = instructions.iter().rev();
        latest.try_fold(value, |value, it| match self.before(it, value) {
            Before::Was(value) => Some(value),
            _ => None,
        })
    }
}

fn is_write(access: OpAccess) -> bool {
    use OpAccess::{CondWrite, ReadCondWrite, ReadWrite, Write};
    matches!(access, Write | CondWrite | ReadWrite | ReadCondWrite)
}

fn is_constant(instruction: &Instruction, operand: u32) -> bool {
    instruction.op_count() > operand
        && !matches!(instruction.op_kind(operand), OpKind::Register | OpKind::Memory)
}

/// How many bits the first operand has.
fn operand_size(instruction: &Instruction) -> usize {
    match instruction.op0_kind() {
        OpKind::Register => instruction.op0_register().size() * 8,
        _ => instruction.memory_size().size() * 8,
    }
}

/// What a place held before an instruction that writes it.
fn written(instruction: &Instruction, place: Place) -> Before {
    let was = |place: Option<Place>, more: i64| match place {
        // Indices have 32 bits at most.
        #[expect(clippy::cast_possible_truncation)]
        Some(place) => Before::Was(Value { place, more: more as i32 }),
        None => Before::Unknown,
    };
    let constant = || instruction.immediate(1).cast_signed();
    match instruction.mnemonic() {
        Mnemonic::Mov | Mnemonic::Movzx | Mnemonic::Movsx | Mnemonic::Movsxd => {
            was(Place::of(instruction, 1), 0)
        }
        Mnemonic::Add if is_constant(instruction, 1) => was(Some(place), constant()),
        Mnemonic::Sub if is_constant(instruction, 1) => was(Some(place), -constant()),
        Mnemonic::Inc => was(Some(place), 1),
        Mnemonic::Dec => was(Some(place), -1),
        Mnemonic::Lea => {
            let offset = instruction.memory_displacement64().cast_signed();
            match (instruction.memory_base(), instruction.memory_index()) {
                (base, Register::None) => was(Place::register(base), offset),
                // How far an entry is from the start of its table.
                (Register::None, index)
                    if matches!(instruction.memory_index_scale(), 4 | 8) && offset == 0 =>
                {
                    was(Place::register(index), 0)
                }
                _ => Before::Unknown,
            }
        }
        Mnemonic::And if is_constant(instruction, 1) => match u64::try_from(constant()) {
            Ok(mask) => Before::Below(mask.saturating_add(1)),
            // Bits are cleared at the bottom.
            Err(_) => Before::Unknown,
        },
        Mnemonic::Shr | Mnemonic::Sar if instruction.op1_kind() == OpKind::Immediate8 => {
            let bits = instruction.immediate8();
            let left = operand_size(instruction).saturating_sub(bits.into());
            match instruction.mnemonic() == Mnemonic::Shr && left <= 8 {
                true => Before::Below(1 << left),
                false => Before::Made(Value { place, more: 0 }, Then::Shifted(bits)),
            }
        }
        _ => Before::Unknown,
    }
}
