//! The numbers by which streams tell kinds apart.

use crate::{CallData, Callee, Linkage, Op, Tail, Traits, Visibility};

/// The linkages by number.
pub(super) const LINKAGES: [Linkage; 8] = [
    Linkage::External,
    Linkage::Weak,
    Linkage::WeakOdr,
    Linkage::ExternWeak,
    Linkage::Common,
    Linkage::Internal,
    Linkage::AvailableExternally,
    Linkage::Appending,
];

/// The visibilities by number.
pub(super) const VISIBILITIES: [Visibility; 3] =
    [Visibility::Default, Visibility::Hidden, Visibility::Protected];

/// Kinds of symbols.
pub(super) mod symbol {
    pub const FUNCTION: u64 = 0;
    pub const EXTERNAL_FUNCTION: u64 = 1;
    pub const DATA: u64 = 2;
    pub const DECLARED_DATA: u64 = 3;
    pub const CONSTANT_DATA: u64 = 4;
    pub const DECLARED_CONSTANT_DATA: u64 = 5;
    pub const ALIAS: u64 = 6;
    pub const IFUNC: u64 = 7;
}

/// Kinds of instructions.
pub(super) mod op {
    pub const ALLOCA: u64 = 0;
    pub const LOAD: u64 = 1;
    pub const STORE: u64 = 2;
    pub const ATOMIC_UPDATE: u64 = 3;
    pub const FENCE: u64 = 4;
    pub const ADDRESS: u64 = 5;
    pub const CONSTANT_ADDRESS: u64 = 6;
    pub const PHI: u64 = 7;
    /// A phi whose values come from the same blocks, in the same order, as
    /// those of the phi before it.
    pub const SAME_PHI: u64 = 8;
    pub const SELECT: u64 = 9;
    pub const COMPARE: u64 = 10;
    pub const LANDING_PAD: u64 = 11;
    pub const RETURN: u64 = 12;
    pub const JUMP: u64 = 13;
    pub const BRANCH: u64 = 14;
    pub const SWITCH: u64 = 15;
    pub const INDIRECT_JUMP: u64 = 16;
    pub const RESUME: u64 = 17;
    pub const UNREACHABLE: u64 = 18;
    pub const OTHER_TERMINATOR: u64 = 19;
    /// Plus two bits for `volatile` and `atomic`.
    pub const FLAGGED_LOAD: u64 = 20;
    pub const FLAGGED_STORE: u64 = 24;
    pub const FLAGGED_ATOMIC_UPDATE: u64 = 28;
    /// Plus the kind of callee.
    pub const CALL: u64 = 32;
    pub const INVOKE: u64 = 36;
    pub const ASM_GOTO: u64 = 40;
    /// Plus the opcode.
    pub const COMPUTE: u64 = 44;
}

/// Kinds of callees.
pub(super) mod callee {
    pub const DIRECT: u64 = 0;
    pub const INDIRECT: u64 = 1;
    pub const INTRINSIC: u64 = 2;
    pub const ASM: u64 = 3;
}

/// Kinds of operands.
pub(super) mod value {
    pub const PARAM: u64 = 0;
    pub const INT: u64 = 1;
    pub const SYMBOL: u64 = 2;
    pub const SYMBOL_AND_OFFSET: u64 = 3;
    pub const EXPR: u64 = 4;
    pub const BLOCK_ADDRESS: u64 = 5;
    pub const OPAQUE: u64 = 6;
    /// Plus how far before, as a signed number.
    pub const INST: u64 = 7;
}

/// How many operands an operation has, where it says so.
pub(super) fn operand_count(op: &Op) -> Option<u32> {
    let (least, most) = op.operand_counts();
    (least == most).then_some(least)
}

/// The traits as bits.
pub(super) fn trait_bits(traits: Traits) -> u64 {
    let Traits { no_return, no_unwind, returns_twice, naked, opt_none, variadic } = traits;
    let flags = [no_unwind, no_return, variadic, opt_none, returns_twice, naked];
    flags.iter().rev().fold(0, |bits, &flag| bits << 1 | u64::from(flag))
}

/// The traits that `bits` stand for.
pub(super) fn traits(bits: u64) -> Traits {
    let flag = |bit: u32| bits >> bit & 1 == 1;
    Traits {
        no_unwind: flag(0),
        no_return: flag(1),
        variadic: flag(2),
        opt_none: flag(3),
        returns_twice: flag(4),
        naked: flag(5),
    }
}

/// The bits behind those of traits, for calls.
const MAY_TAIL: u64 = 1 << 6;
const MUST_TAIL: u64 = 1 << 7;

/// Whether a call reuses the caller's frame, as bits.
pub(super) fn tail_bits(tail: Tail) -> u64 {
    match tail {
        Tail::No => 0,
        Tail::May => MAY_TAIL,
        Tail::Must => MUST_TAIL,
    }
}

/// What `bits` say of it.
pub(super) fn tail(bits: u64) -> Tail {
    match (bits & MUST_TAIL != 0, bits & MAY_TAIL != 0) {
        (true, _) => Tail::Must,
        (false, true) => Tail::May,
        (false, false) => Tail::No,
    }
}

/// The kind of a call's callee.
pub(super) fn callee_kind(call: &CallData) -> u64 {
    match call.callee {
        Callee::Direct(_) => callee::DIRECT,
        Callee::Indirect => callee::INDIRECT,
        Callee::Intrinsic(_) => callee::INTRINSIC,
        Callee::Asm => callee::ASM,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn traits_come_back() {
        for bits in 0..64 {
            assert_eq!(trait_bits(traits(bits)), bits);
        }
    }
}
