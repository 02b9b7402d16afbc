//! Traces: which blocks a run executed, in order.
//!
//! Decoders take bytes and give facts; where the bytes come from is the
//! caller's business. Nothing here panics on what it reads.

#![forbid(unsafe_code)]

mod bit_rows;
pub mod block_log;
pub mod distribution;
pub mod first_witness;
pub mod icfg;
pub mod lower_bound;
mod min_cut;
mod obstacle_packing;
pub mod planning;
pub mod realizability;
pub mod rebuild;
mod separation;
pub mod witness_tree;

use backtrail_abi::UnitId;
use backtrail_abi::log::HeaderError;

/// What can be wrong with a record.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The record ended before its header did.
    #[error("the {what} is {found} bytes long, its header alone has {needed}: the record was cut")]
    Short {
        /// Which file.
        what: &'static str,
        /// The bytes it has.
        found: usize,
        /// The bytes of its header.
        needed: usize,
    },
    /// The process was stopped before it wrote its header.
    #[error(
        "the {0} has no header yet: its process was stopped, or could go no further, at the start"
    )]
    Unwritten(&'static str),
    /// Events without a header before them.
    #[error("the thread file is corrupt: it has events and no header")]
    Headless,
    /// Something else than a record.
    #[error("this is not a {what}: it begins with {found:02x?}")]
    NotOurs {
        /// Which file it should be.
        what: &'static str,
        /// What it begins with.
        found: [u8; 8],
    },
    /// A record of another version.
    #[error(
        "the {what} has format version {found}, this backtrail reads version {version}: \
         read it with the backtrail that made the variant",
        version = backtrail_abi::VERSION
    )]
    Unsupported {
        /// Which file.
        what: &'static str,
        /// Its version.
        found: u32,
    },
    /// A registration that cannot be.
    #[error("registration {index} of the process file is corrupt: {why}")]
    Registration {
        /// Its place in the file.
        index: u32,
        /// What is wrong with it.
        why: &'static str,
    },
    /// An event no unit has.
    #[error("event {number} of the thread file is corrupt: no unit has the number {event}")]
    Event {
        /// Its place in the log.
        number: u64,
        /// What was read.
        event: u32,
    },
    /// A unit that is not known here.
    #[error(
        "the record names unit {0}, which the program does not carry: give the program that was run"
    )]
    MissingUnit(UnitId),
    /// A block number past the unit's end.
    #[error(
        "unit {unit} has {blocks} blocks and the record names block {block}: give the program that was run"
    )]
    MissingBlock {
        /// The unit.
        unit: UnitId,
        /// How many blocks it has.
        blocks: u32,
        /// The block named.
        block: u32,
    },
    /// A traced graph that cannot be.
    #[error("the traced graph is wrong: {0}")]
    Graph(String),
    /// The partial traces are not of one execution.
    #[error("the partial runs diverged: {0}")]
    Diverged(rebuild::Divergence),
    /// A plan under which executions cannot be told apart.
    #[error("the plan does not tell all executions apart: {0}")]
    Plan(String),
    /// A limit that two ways of one predicate do not fit into.
    #[error(
        "to tell two ways apart takes a run with {needed} witnesses, and the limit is {limit}: \
         give a higher limit"
    )]
    Limit {
        /// How many it takes.
        needed: usize,
        /// How many there may be.
        limit: usize,
    },
    /// The bytes could not be had.
    #[error("the {what} cannot be read: {source}")]
    Read {
        /// Which file.
        what: &'static str,
        /// Why.
        source: std::io::Error,
    },
}

impl Error {
    fn from_header(what: &'static str, needed: usize, error: HeaderError) -> Self {
        match error {
            HeaderError::Short(found) => Self::Short { what, found, needed },
            HeaderError::Unwritten => Self::Unwritten(what),
            HeaderError::Magic(found) => Self::NotOurs { what, found },
            HeaderError::Version(found) => Self::Unsupported { what, found },
        }
    }
}
