//! Backtrail's own model of a program, free of LLVM.
//!
//! A [`Unit`] is what one compilation produced: symbols, functions with their
//! blocks, instructions and edges, and the source positions they come from.
//! Front ends (`llvm` for bitcode, `machine` for machine code) lower into this
//! model; everything else reads it. It is what the executable carries beside
//! the bitcode, so that verbs that only explain records need no LLVM.
//!
//! Numbers are stable: `b3` of a function is the fourth block in the order of
//! the bitcode, and stays so in every verb for one build.

#![forbid(unsafe_code)]

pub mod encode;
pub mod error;
pub mod function;
pub mod program;
pub mod text;
pub mod unit;
pub mod verify;

pub use backtrail_graph::{Index, IndexMap, PathCount};
pub use error::{Error, Place};
pub use unit::*;
