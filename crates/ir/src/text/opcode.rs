//! LLVM's names of the instructions the model does not tell apart.
//!
//! Numbers are those of the C API's `LLVMOpcode` (llvm-c/Core.h), which are kept
//! from version to version.

const NAMES: [(u16, &str); 46] = [
    (8, "add"),
    (9, "fadd"),
    (10, "sub"),
    (11, "fsub"),
    (12, "mul"),
    (13, "fmul"),
    (14, "udiv"),
    (15, "sdiv"),
    (16, "fdiv"),
    (17, "urem"),
    (18, "srem"),
    (19, "frem"),
    (20, "shl"),
    (21, "lshr"),
    (22, "ashr"),
    (23, "and"),
    (24, "or"),
    (25, "xor"),
    (30, "trunc"),
    (31, "zext"),
    (32, "sext"),
    (33, "fptoui"),
    (34, "fptosi"),
    (35, "uitofp"),
    (36, "sitofp"),
    (37, "fptrunc"),
    (38, "fpext"),
    (39, "ptrtoint"),
    (40, "inttoptr"),
    (41, "bitcast"),
    (49, "va_arg"),
    (50, "extractelement"),
    (51, "insertelement"),
    (52, "shufflevector"),
    (53, "extractvalue"),
    (54, "insertvalue"),
    (60, "addrspacecast"),
    (61, "cleanupret"),
    (62, "catchret"),
    (63, "catchpad"),
    (64, "cleanuppad"),
    (65, "catchswitch"),
    (66, "fneg"),
    (68, "freeze"),
    (47, "userop1"),
    (48, "userop2"),
];

/// The name for a number.
pub(super) fn name(number: u16) -> Option<&'static str> {
    NAMES.iter().find(|(other, _)| *other == number).map(|(_, name)| *name)
}

/// The number for a name.
pub(super) fn number(name: &str) -> Option<u16> {
    NAMES.iter().find(|(_, other)| *other == name).map(|(number, _)| *number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_are_one_to_one() {
        for (opcode, text) in NAMES {
            assert_eq!((name(opcode), number(text)), (Some(text), Some(opcode)));
        }
    }
}
