//! Programs that say what they did last, and how that is read out of a core.
//!
//! A program derived by a tracing scheme keeps, in the frame of each activation,
//! the acyclic path it is on and the last paths it took
//! ([`backtrail_abi::record`]). Nothing is written anywhere else, and nothing is
//! left of an activation that has ended.
//!
//! # Planning
//! - [`scheme`]: what is asked for on the command line, by function;
//! - [`regions`]: how a function is divided, and what tells ways through it apart;
//!   which division costs least is tried out;
//! - [`traced`]: the probes of a function, and what its record means;
//! - [`points`], [`placement`]: what coverage is of, where activations
//!   end, and which points need a probe;
//! - [`covered`]: the probes of coverage, and what its bytes and marks mean;
//! - [`unit_plan`]: the same for a unit;
//! - [`tunable`]: the same for functions that can be switched.
//!
//! # Concluding
//! - [`evidence`]: what a core tells of a run, as plain data;
//! - [`active`]: what can have run, if that is known.
//!
//! # Reading
//! The variant carries a table ([`backtrail_abi::record::FRAMES_SECTION`]) and
//! the models of its units. [`Frames`] holds both; [`Frames::recover`] takes a
//! frame as an unwinder finds it and says which way it came:
//!
//! ```no_run
//! use backtrail_crash::{Frame, Frames};
//! # fn models(_: [u8; 16]) -> Option<backtrail_ir::Unit> { None }
//! # fn memory(_: u64, _: &mut [u8]) -> bool { false }
//! # let (section, return_address, bias, cfa) = (vec![], 0x5555_0000_1234u64, 0x5555_0000_0000, 0);
//! let frames = Frames::new(&section, &models)?;
//! let frame = Frame {
//!     // Of an outer frame the address of the call: the return address less one.
//!     address: return_address - 1 - bias,
//!     is_call: true,
//!     frame_address: cfa,
//!     register: &|_dwarf_number| None,
//!     memory: &memory,
//! };
//! let recovered = frames.recover(&frame)?;
//! for block in &recovered.path {
//!     println!("{block}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`Frames::add_coverage`] adds what bytes and marks tell to an
//! [`Evidence`](evidence::Evidence).
//!
//! The blocks of [`Recovered::older`], oldest first, and then those of
//! [`Recovered::path`] are what a log of every block of this activation ends with.

#![forbid(unsafe_code)]

pub mod active;
mod coverage;
pub mod covered;
mod edge_changes;
mod error;
pub mod evidence;
mod frames;
mod frequency;
pub mod placement;
pub mod points;
pub mod regions;
pub mod scheme;
mod search;
mod trace_graph;
pub mod traced;
pub mod tunable;
pub mod unit_plan;
pub mod walks;

pub use error::{Error, Unread};
pub use frames::{Frame, Frames, Known, OlderPath, Recovered};
