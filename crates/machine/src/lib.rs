//! Machine-level files: ELF objects, executables and shared libraries, core
//! dumps and debug information.
//!
//! | module | holds |
//! | --- | --- |
//! | [`elf`] | what a file is and what it holds |
//! | [`edit`] | adding sections to a file and taking them away, without moving anything that is loaded |
//! | [`dynamic_names`] | the names by which a file asks for libraries |
//! | [`code`] | routines and blocks of an executable, found in its machine code |
//! | [`core_file`] | core dumps: notes, segments; compressed and truncated ones |
//! | [`memory`] | the memory of a process, out of the core and the mapped files |
//! | [`image`] | an ELF file that was mapped: sections and symbols, read when needed |
//! | [`debug_file`] | where separate debug information is |
//! | [`modules`] | the files that were mapped, checked by build id; the vDSO |
//! | [`process`] | all of that together |
//! | [`registers`] | the registers of one frame |
//! | [`signal`] | names of signals, and why they were sent |
//! | [`unwind`] | from a thread's registers to its frames |
//! | [`backtrace`] | the frames of a thread, as many as anyone will look at |
//! | [`symbolise`] | functions and lines at an address |
//! | [`tracee`] | running a program under ptrace: single steps, breakpoints |
//!
//! Nothing here panics on what a file holds, and nothing is unsafe but what
//! `tracee::sys` asks of the system.

#![deny(unsafe_code)]

pub mod backtrace;
mod bytes;
mod call_site;
pub mod code;
pub mod core_file;
pub mod debug_file;
pub mod dynamic_names;
pub mod edit;
pub mod elf;
mod error;
pub mod image;
mod link_map;
mod live;
mod load_order;
pub mod memory;
pub mod modules;
pub mod process;
pub mod registers;
pub mod signal;
pub mod symbolise;
pub mod tracee;
pub mod unwind;

pub use error::Error;
