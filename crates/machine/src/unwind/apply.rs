//! Applying a rule of the unwind tables to a frame.

use gimli::{Encoding, EvaluationResult, Format, Location, Value as Typed};

use super::tables::{Rule, Saved, Value};
use crate::image::Slice;
use crate::memory::{Absent, Memory};
use crate::registers::{COUNT, RIP, RSP, Registers};

/// Why tables did not lead to a caller.
pub(super) enum Stuck {
    /// There are none for this address.
    NoTables,
    /// They need something that is not known.
    Unknown(&'static str),
    /// The return address is in memory that is not there.
    Absent(u64, Absent),
    /// The return address leads to no code; the registers that would be the
    /// caller's.
    Overwritten {
        /// Where it leads.
        target: u64,
        /// The registers.
        registers: Box<Registers>,
    },
    /// The frame would end below the one it called.
    Circular,
}

/// Expressions of unwind tables have a few operations.
const MOST_OPERATIONS: u32 = 1000;

const ENCODING: Encoding = Encoding { format: Format::Dwarf32, version: 4, address_size: 8 };

/// The end of a frame, and its caller's registers, unless it has no caller.
pub(super) fn apply(
    rule: &Rule,
    registers: &Registers,
    memory: &Memory,
) -> Result<(u64, Option<Registers>), (Option<u64>, Stuck)> {
    let end = match &rule.cfa {
        Value::Register(register, offset) => {
            registers.get(*register).map(|value| value.wrapping_add_signed(*offset))
        }
        Value::Expression(expression) => evaluate(expression, None, registers, memory),
    };
    let Some(end) = end else {
        return Err((None, Stuck::Unknown("a register that its unwind table needs is not known")));
    };
    let mut caller = registers.after_call();
    caller.set(RSP, Some(end));
    for number in 0..COUNT as u16 {
        let value = match &rule.registers[usize::from(number)] {
            Saved::Unspecified => continue,
            Saved::Undefined if number == RIP => return Ok((end, None)),
            Saved::Undefined => None,
            Saved::Same => registers.get(number),
            Saved::At(offset) => {
                let place = end.wrapping_add_signed(*offset);
                match memory.word(place) {
                    Ok(value) => Some(value),
                    Err(why) if number == RIP => {
                        return Err((Some(end), Stuck::Absent(place, why)));
                    }
                    Err(_) => None,
                }
            }
            Saved::Offset(offset) => Some(end.wrapping_add_signed(*offset)),
            Saved::In(other) => registers.get(*other),
            Saved::AtExpression(expression) => evaluate(expression, Some(end), registers, memory)
                .and_then(|place| memory.word(place).ok()),
            Saved::Expression(expression) => evaluate(expression, Some(end), registers, memory),
        };
        caller.set(number, value);
    }
    match caller.program_counter() {
        Some(_) => Ok((end, Some(caller))),
        None => Err((Some(end), Stuck::Unknown("its return address is not known"))),
    }
}

/// The value of an expression over registers and memory, if all it needs is
/// known.
fn evaluate(
    expression: &gimli::Expression<Slice>,
    start: Option<u64>,
    registers: &Registers,
    memory: &Memory,
) -> Option<u64> {
    let mut evaluation = expression.clone().evaluation(ENCODING);
    evaluation.set_max_iterations(MOST_OPERATIONS);
    if let Some(start) = start {
        evaluation.set_initial_value(start);
    }
    let mut state = evaluation.evaluate().ok()?;
    loop {
        state = match state {
            EvaluationResult::Complete => break,
            EvaluationResult::RequiresMemory { address, size, .. } => {
                let mut bytes = [0; 8];
                memory.read(address, bytes.get_mut(..usize::from(size))?).ok()?;
                evaluation.resume_with_memory(Typed::Generic(u64::from_le_bytes(bytes))).ok()?
            }
            EvaluationResult::RequiresRegister { register, .. } => {
                let value = registers.get(register.0)?;
                evaluation.resume_with_register(Typed::Generic(value)).ok()?
            }
            EvaluationResult::RequiresCallFrameCfa => {
                evaluation.resume_with_call_frame_cfa(start?).ok()?
            }
            _ => return None,
        };
    }
    match evaluation.as_result() {
        [gimli::Piece { location: Location::Address { address }, .. }] => Some(*address),
        [gimli::Piece { location: Location::Value { value: Typed::Generic(value) }, .. }] => {
            Some(*value)
        }
        _ => None,
    }
}
