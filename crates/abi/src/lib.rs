//! The contract between the code Backtrail injects, the runtime that is linked
//! into variants, and the readers of what they leave behind.
//!
//! One crate for both sides of the boundary. A change of any layout here is a
//! new [`VERSION`].

#![no_std]
#![forbid(unsafe_code)]

pub mod counts;
pub mod cover;
pub mod frames;
pub mod log;
pub mod modules;
pub mod record;
pub mod tune;

/// The version of every layout in this crate.
pub const VERSION: u32 = 5;

/// The section of an object or executable that holds unit records, one after
/// another (the linker concatenates them). Not allocated.
pub const UNIT_SECTION: &str = ".backtrail.units";

/// The section of an executable or shared library that holds its link recipe.
pub const LINK_SECTION: &str = ".backtrail.link";

/// The section of a variant that says which one it is ([`modules`]). Not allocated.
pub const VARIANT_SECTION: &str = ".backtrail.variant";

/// What is behind each `syscall` instruction of the runtime: `nopl 0x72746b42(%rax)`, which
/// does nothing. Whoever compares the system calls of runs leaves the runtime's out by it.
pub const OWN_CALL: [u8; 7] = [0x0f, 0x1f, 0x80, b'B', b'k', b't', b'r'];

/// Identifies a unit: the first half of a BLAKE3 hash of what was compiled.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct UnitId(pub [u8; 16]);

impl core::fmt::Display for UnitId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl core::fmt::Debug for UnitId {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        core::fmt::Display::fmt(self, f)
    }
}
