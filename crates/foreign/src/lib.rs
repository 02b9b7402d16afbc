//! What others made, and nobody has looked at: executables, traces, profiles,
//! cores, records, sources and the names in all of them.
//!
//! | module | holds |
//! | --- | --- |
//! | [`text`] | text on its way to a terminal: what it would obey is shown |
//! | [`mod@file`] | opening what should be a file, and is one |
//! | [`count`] | how many, in words that one and many have |
//! | [`packed`] | unpacking what is compressed, as far as that is what it should be |
//!
//! It uses no other crate of the workspace, so that each can use it.

#![forbid(unsafe_code)]

pub mod count;
pub mod file;
pub mod packed;
pub mod text;
