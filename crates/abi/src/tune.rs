//! Functions of which an executable holds several variants.
//!
//! The function itself is a springboard: one jump, `e9` and a distance of four
//! bytes, to the variant that is on. Behind what the compiler puts in front of
//! every function (`endbr64`), nothing else is there. Whoever switches a function
//! writes another distance into the file.
//!
//! What was on in a process that died is not told by its file, which may have been
//! switched since. So each function has a byte in the data segment, private memory
//! that a core dump contains, which is written along with the jump: the number of
//! the variant that is on, 0 at first. Nothing reads or changes it while the
//! program runs.
//!
//! The symbol of these bytes is hidden; whoever links the module defines the
//! arrays of all its units.

/// How the symbol of a unit's bytes begins; its id follows.
pub const UNIT_SYMBOL_PREFIX: &str = "__backtrail_tuned_";

/// What stands between the name of a function and the number of a variant in the
/// name of that variant.
pub const VARIANT_INFIX: &str = ".backtrail.";

/// The section of a variant that lists the functions that can be switched. Not
/// allocated. It stays when the tables of frames are put aside.
pub const SECTION: &str = ".backtrail.tune";

/// The first byte of the jump of a springboard.
pub const JUMP: u8 = 0xe9;

/// What may stand before it: `endbr64`.
pub const LANDING: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// The name of the function that `name` is a variant of, or itself.
pub fn plain_name(name: &str) -> &str {
    let variant = name.rsplit_once(VARIANT_INFIX);
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|it| it.is_ascii_digit());
    variant.filter(|(_, number)| is_number(number)).map_or(name, |(function, _)| function)
}

#[cfg(test)]
mod tests {
    use super::plain_name;

    #[test]
    fn variants_are_known_by_their_function() {
        assert_eq!(plain_name("f.backtrail.12"), "f");
        assert_eq!(plain_name("f.backtrail."), "f.backtrail.");
        assert_eq!(plain_name("f.part.1"), "f.part.1");
    }
}
