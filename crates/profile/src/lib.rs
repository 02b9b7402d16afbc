//! Exact path profiles: which way each function went, and how often.
//!
//! After Ball and Larus, *Efficient Path Profiling*, MICRO 1996, and for
//! parts Afraz, Saha and Kanade, *P3: Partitioned Path Profiling*, ESEC/FSE 2015.
//!
//! | module | holds |
//! | --- | --- |
//! | [`function_graph`] | the graph whose paths are counted: pieces of blocks |
//! | [`frequency`] | how often edges are taken, guessed |
//! | [`path_plan`] | a function's paths: their probes, what their numbers mean |
//! | [`partition`] | k copies that each count a part of the paths |
//! | [`unit_plan`] | the plan of a whole module, and what its counters mean |
//! | [`skeleton`] | a profile without counts: a program's functions |
//! | [`decode`] | from counters to a profile |
//! | [`log_walk`] | a profile from a log of blocks, the slow twin |
//! | [`model`] | a profile as plain data: functions, paths, counts |
//! | [`file`](mod@file) | its bytes |
//! | [`merge`] | the sum of profiles of one build |
//! | [`compare`] | what changed from one to another |
//! | [`export`](mod@export) | other tools' formats |
//! | [`derived`] | counts of edges, blocks and lines that follow from those of paths |
//! | [`known`] | what is known where counts are not exact |
//! | `evidence` | what follows from counts of other functions, there |

#![forbid(unsafe_code)]

pub mod compare;
pub mod decode;
pub mod derived;
mod error;
mod evidence;
pub mod export;
pub mod file;
pub mod frequency;
pub mod function_graph;
pub mod known;
pub mod log_walk;
pub mod merge;
pub mod model;
mod partial;
pub mod partition;
pub mod path_plan;
pub mod skeleton;
pub mod unit_plan;

pub use error::Error;
