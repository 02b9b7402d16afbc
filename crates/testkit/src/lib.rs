//! What the tests share: generators of random graphs and units, slow,
//! obvious twins of the fast algorithms, and programs that die.
//!
//! Everything random is a function of a seed, so that a failure names what
//! reproduces it. Nothing that is shipped depends on this crate.

#![forbid(unsafe_code)]

pub mod cores;
mod joined;
pub mod random_frames;
pub mod random_graph;
pub mod random_link;
pub mod random_profile;
pub mod random_unit;
pub mod sample_profile;
pub mod slow_graph;
pub mod slow_link;

pub use joined::joined;
