//! The runtime that is linked into variants, as an object.

/// One relocatable object, made by this crate's build script.
pub const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/backtrail_runtime.o"));
