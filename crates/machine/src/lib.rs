//! Machine-level files: ELF objects, executables and shared libraries.
//!
//! [`elf`] tells what a file is and what it holds; [`edit`] adds sections to
//! it and takes them away, without moving anything that is loaded.

#![forbid(unsafe_code)]

pub mod edit;
pub mod elf;
mod error;

pub use error::Error;
