//! Build once, derive anything.
//!
//! - [`driver`] is the drop-in compiler: it asks clang what it would do
//!   ([`jobs`]), compiles each unit in two steps ([`compile`]) and links
//!   ([`link`]).
//! - [`cargo`] is the drop-in cargo: what it adds to rustc's work and to links.
//! - [`carry`] is what an object or executable carries: the units and the link
//!   recipe.
//! - [`trust`] says what of a recipe from elsewhere is carried out.
//! - [`variant`] derives other executables from one that carries its units,
//!   with [`cache`] keeping what was made before.
//!
//! LLVM is never loaded here: a [`worker`] process does that.

#![forbid(unsafe_code)]

pub mod cache;
pub mod cargo;
pub mod carry;
pub mod clang;
pub mod codegen_args;
pub mod compile;
mod counter_area;
mod coverage_area;
mod debug_graft;
pub mod driver;
mod driver_args;
pub mod endless_loops;
mod error;
mod frame_table;
mod generated_object;
pub mod in_place;
pub mod job_templates;
pub mod jobs;
pub mod libraries;
pub mod link;
pub mod link_args;
pub mod output;
mod own_object;
pub mod relink;
pub mod response_file;
mod runtime;
mod space;
mod stripping;
pub mod surroundings;
pub mod trust;
pub mod tuning;
mod unit_object;
pub mod variant;
mod variant_object;
pub mod worker;

pub use error::Error;
