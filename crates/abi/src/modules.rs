//! Which variants a process is made of.
//!
//! Every executable or library that records has a [`Variant`] in its memory, which says
//! which one it is: two have one id only if whatever they record means the same. The
//! runtime lists those of a process, each once, in the process's file: a row in the
//! place of a [`Registration`] whose base is [`MODULE_BASE`], and behind it, in
//! as many rows as that takes, the path of the file, as the kernel names what is mapped.
//! An executable has none: that is [`ProcessHeader::executable`]. Neither has a library
//! whose path could not be found out.
//!
//! A module is listed before the first of what it records, and, of those that are loaded
//! with the program, before `main` runs. Such as were loaded and unloaded before the
//! process recorded anything have recorded nothing, and need not be listed. The child of
//! a fork lists what its parent did.
//!
//! [`ProcessHeader::executable`]: crate::log::ProcessHeader::executable

use crate::log::{PATH_BYTES, Registration};

/// The module's own [`Variant`], hidden.
pub const VARIANT_SYMBOL: &str = "__backtrail_variant";

/// What a module says of itself.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// [`crate::VERSION`].
    pub version: u32,
    /// 1 for an executable, 0 for a library.
    pub is_executable: u32,
    /// Which one it is.
    pub id: [u8; 16],
}

/// [`Registration::base`] of a module, which is that of no unit.
pub const MODULE_BASE: u32 = 0;

/// Set in [`Registration::blocks`] of a module that is an executable; the rest is how many
/// bytes its path has.
pub const EXECUTABLE: u32 = 1 << 31;

/// How many rows the path of a module takes.
pub const fn path_rows(bytes: u32) -> u32 {
    bytes.div_ceil(Registration::BYTES as u32)
}

/// The row of a module.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleRow {
    /// Which variant it is.
    pub id: [u8; 16],
    /// Whether it is an executable.
    pub is_executable: bool,
    /// How many bytes its path has, in the rows behind this one.
    pub path_bytes: u32,
}

impl ModuleRow {
    /// As it stands among registrations.
    pub const fn to_registration(self) -> Registration {
        let kind = if self.is_executable { EXECUTABLE } else { 0 };
        Registration { unit: self.id, base: MODULE_BASE, blocks: self.path_bytes | kind }
    }

    /// The module that a row stands for, if it is one of a module.
    pub const fn of(row: &Registration) -> Option<Self> {
        let path_bytes = row.blocks & !EXECUTABLE;
        if row.base != MODULE_BASE || path_bytes as usize > PATH_BYTES {
            return None;
        }
        let is_executable = row.blocks & EXECUTABLE != 0;
        Some(Self { id: row.unit, is_executable, path_bytes })
    }

    /// How many rows it takes, its own included.
    pub const fn rows(self) -> u32 {
        1 + path_rows(self.path_bytes)
    }
}
