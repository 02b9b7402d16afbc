//! Loops as they are without debug information.
//!
//! With debug information, clang gives every loop an identity (`!llvm.loop`)
//! that holds where the loop begins and ends. Without, only loops with some
//! property have one, which in C excludes loops on a constant condition
//! (`while (1)`). The optimiser does not look through this: it leaves branches
//! alone whose metadata it would lose, so line tables change the code. (Of 47
//! files of bzip2 and Lua one, and one function of sqlite3, at -O2.)
//!
//! Identities that hold positions alone are taken away before optimisation, and
//! the code is the same with and without line tables.

use backtrail_llvm_ffi::{Metadata, MetadataKind, Module};

const LOOP: &str = "llvm.loop";

/// Whether there are loop identities that hold nothing but source positions.
pub fn has_positions_only(module: &Module<'_>) -> bool {
    let mut blocks = module.functions().flat_map(|function| function.blocks());
    blocks.any(|block| {
        let terminator = block.instructions().last();
        terminator.and_then(|it| it.metadata(LOOP)).is_some_and(holds_only_positions)
    })
}

/// Takes away loop identities that hold nothing but source positions; how many.
pub fn forget_positions(module: &Module<'_>) -> usize {
    let mut forgotten = 0;
    for function in module.functions() {
        for block in function.blocks() {
            let Some(terminator) = block.instructions().last() else { continue };
            if terminator.metadata(LOOP).is_some_and(holds_only_positions) {
                terminator.unmark(LOOP);
                forgotten += 1;
            }
        }
    }
    forgotten
}

/// The first entry of a loop's identity is the identity itself.
fn holds_only_positions(identity: Metadata<'_>) -> bool {
    let entries = identity.entries();
    entries.first().is_some_and(|it| it.id() == identity.id())
        && entries[1..].iter().all(|it| it.kind() == MetadataKind::Location)
}
