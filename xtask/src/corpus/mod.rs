//! `cargo xtask corpus`: the tool on real programs.

pub mod code;
pub mod fetch;
pub mod program;
pub mod records;
pub mod results;
pub mod tree;
