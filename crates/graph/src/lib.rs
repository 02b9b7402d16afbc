//! Pure graph algorithms on typed indices.
//!
//! Nothing here knows of programs, files or LLVM: a graph is a set of dense
//! nodes and edges, and every algorithm is deterministic and free of recursion
//! on the depth of the graph.
//!
//! | module | computes |
//! | --- | --- |
//! | [`index`] | typed dense indices and maps keyed by them |
//! | [`digraph`] | the graph itself, edges with a number of their own |
//! | [`depth_first`] | orders and the kinds of edges, retreating edges among them |
//! | [`dominators`] | the dominator tree |
//! | [`components`] | strongly connected components |
//! | [`path_dag`] | the acyclic graph of a function's paths, and how many there are |
//! | [`path_numbering`], [`path_cuts`] | numbers of paths, and how to keep them few |
//! | [`selective_labels`] | labels that tell some paths from all others |
//! | [`path_increments`], [`spanning_tree`], [`edge_agreement`] | labels moved to few and cheap edges |
//! | [`min_cut`] | the cheapest cut between two vertices |
//! | [`edge_set`] | a set of edges |

#![forbid(unsafe_code)]

pub mod components;
pub mod depth_first;
pub mod digraph;
pub mod dominators;
pub mod edge_agreement;
pub mod edge_set;
pub mod index;
pub mod min_cut;
pub mod path_cuts;
pub mod path_dag;
pub mod path_increments;
pub mod path_numbering;
pub mod selective_labels;
pub mod spanning_tree;

pub use components::{Component, Components};
pub use depth_first::{DepthFirst, EdgeKind};
pub use digraph::{Digraph, Edge};
pub use dominators::Dominators;
pub use edge_set::EdgeSet;
pub use index::{Index, IndexMap};
pub use path_dag::{PathCount, PathDag};
pub use path_increments::PathIncrements;
pub use path_numbering::PathNumbering;
pub use selective_labels::SelectiveLabels;
pub use spanning_tree::SpanningTree;
