//! Pure graph algorithms on typed indices.
//!
//! Nothing here knows of programs, files or LLVM: a graph is a set of dense
//! nodes and edges, and every algorithm is deterministic and free of recursion
//! on the depth of the graph.

#![forbid(unsafe_code)]

pub mod index;

pub use index::{Index, IndexMap};
