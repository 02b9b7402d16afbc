//! Units compiled by the real compilers, through the worker and back.
//!
//! Needs clang-19 with its libLLVM, and rustc with its own; without them the
//! tests fail and say so.

mod block_log;
mod errors;
mod line_tables;
mod lowering;
mod object_files;
mod round_trip;
mod rust_units;
mod text_form;
mod toolchain;
