//! The runtime that is linked into variants, as objects made by this crate's
//! build script.

/// What counts: it needs no thread storage.
pub const COUNTS: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/backtrail_counts.o"));

/// The same with the block log.
pub const LOG: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/backtrail_runtime.o"));
