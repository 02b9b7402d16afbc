//! The runtime inside real programs.
//!
//! Each test compiles a C program from `programs/` that calls
//! `__backtrail_log` by hand and keeps its own list of what it logged, runs it,
//! and compares its records with that list.

mod counts;
mod library;
mod linking;
mod object_file;
mod ownership;
mod packing;
mod processes;
mod program;
mod refusals;
mod sequences;
mod signals;

include!("../../recipe.rs");
