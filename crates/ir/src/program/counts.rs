//! How large a program is.

use super::{Fate, Program, Resolution};
use crate::Callee;

/// What the functions of a program add up to.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Units.
    pub units: u64,
    /// Functions whose code is in the program.
    pub functions: u64,
    /// Those among them whose symbol means another definition.
    pub overridden: u64,
    /// Functions in COMDAT groups of which another copy was kept.
    pub discarded: u64,
    /// Bodies that no code is made from.
    pub without_code: u64,
    /// Blocks of the functions in the program.
    pub blocks: u64,
    /// Their edges; several from one block to another are one.
    pub edges: u64,
    /// Their instructions.
    pub insts: u64,
    /// Their calls.
    pub calls: Calls,
}

/// Calls, by whom they call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Calls {
    /// A function of the program with a body.
    pub known: u64,
    /// Something else by name: native code, an ifunc, null.
    pub native: u64,
    /// Whatever an address leads to.
    pub indirect: u64,
    /// LLVM's own functions.
    pub intrinsic: u64,
    /// Inline assembly.
    pub asm: u64,
}

pub(super) fn of(program: &Program<'_>) -> Counts {
    let mut counts = Counts::default();
    for (object, unit) in program.units() {
        counts.units += 1;
        for (func, function) in unit.functions.iter() {
            match program.fate(object, func) {
                Fate::Kept => {}
                Fate::Overridden => counts.overridden += 1,
                Fate::Discarded => {
                    counts.discarded += 1;
                    continue;
                }
                Fate::NoCode => {
                    counts.without_code += 1;
                    continue;
                }
            }
            counts.functions += 1;
            counts.blocks += function.blocks.len() as u64;
            counts.edges += function.control_flow().edge_count() as u64;
            counts.insts += function.insts.len() as u64;
            for call in function.insts.values().filter_map(|inst| inst.op.call()) {
                let kind = match call.callee {
                    Callee::Direct(symbol) => match program.resolve(object, symbol) {
                        Resolution::Function(..) => &mut counts.calls.known,
                        _ => &mut counts.calls.native,
                    },
                    Callee::Indirect => &mut counts.calls.indirect,
                    Callee::Intrinsic(_) => &mut counts.calls.intrinsic,
                    Callee::Asm => &mut counts.calls.asm,
                };
                *kind += 1;
            }
        }
    }
    counts
}
