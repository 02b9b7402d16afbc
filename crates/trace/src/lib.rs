//! Traces: which blocks a run executed, in order.
//!
//! Decoders take bytes and give facts; where the bytes come from is the
//! caller's business. Nothing here panics on what it reads.
//!
//! A trace is had in two ways. [`block_log`] reads what a variant wrote that logs
//! every block. The other modules are about *partial traces*: several runs on the
//! same input, each of which observes few places, and one trace put together from
//! what they saw (Saha, Dhoolia and Paul, *Distributed Program Tracing*, ESEC/FSE
//! 2013).
//!
//! | module | what it is |
//! | --- | --- |
//! | [`icfg`] | the traced graph: blocks, calls, returns, what is unseen; from a program's units |
//! | [`distribution`] | profiles: what is observed in which run; what that costs |
//! | [`first_witness`] | what a profile can see next |
//! | [`realizability`] | whether profiles suffice, for every execution |
//! | [`witness_tree`], [`planning`] | profiles that do, and are cheap |
//! | [`machine_graph`] | the traced graph of an executable that carries nothing |
//! | [`lower_bound`] | what no plan can stay below |
//! | [`probes`], [`path_events`], [`witness_log`] | witnesses in the code, one by one or whole paths; what they logged |
//! | [`rebuild`] | from partial traces to the trace |
//! | [`places`] | numbers and names for the blocks of a program |
//! | [`file`](mod@file) | a trace on disk, compressed, to be read from anywhere |
//! | [`call_tree`] | who was called by whom, in a trace |
//!
//! From a program to its trace:
//!
//! ```
//! # fn main() -> Result<(), backtrail_trace::Error> {
//! use backtrail_trace::distribution::Costs;
//! use backtrail_trace::icfg::{Builder, Role, WayKind};
//! use backtrail_trace::planning::{Options, Strategy, distribute};
//! use backtrail_trace::rebuild::{Ending, Event, Rebuild, Tables};
//!
//! // A loop of one block behind the entry: or `ProgramGraph::new` of a program.
//! let mut builder = Builder::new();
//! let main = builder.routine();
//! let nodes: Vec<_> = (0..3).map(|number| builder.node(main, Role::Block(number))).collect();
//! builder.way(nodes[0], WayKind::Step(nodes[1]));
//! builder.way(nodes[1], WayKind::Step(nodes[1]));
//! builder.way(nodes[1], WayKind::Step(nodes[2]));
//! builder.way(nodes[2], WayKind::Return);
//! builder.root(main);
//! let icfg = builder.build()?;
//!
//! // Where to observe: breakpoints, that is nodes; each passed as often as thought.
//! let costs = Costs::nodes(&icfg, vec![1; icfg.place_count()]);
//! let options = Options { runs: 1, strategy: Strategy::Fine, limit: None, trials: 100 };
//! let plan = distribute(&icfg, &costs, options)?;
//!
//! // What each run saw: the positions of witnesses in its profile.
//! let stop = plan.profiles[0].witness(icfg.place_of_node(nodes[1]));
//! let seen = vec![Event { witness: stop.unwrap(), depth: 0 }; 3];
//!
//! let tables = Tables::new(&icfg, &plan.profiles)?;
//! let trace = Rebuild::new(&tables, main, [(seen.into_iter(), Ending::Whole)]);
//! let blocks: Vec<_> = trace.collect::<Result<_, _>>()?;
//! assert_eq!(blocks, [nodes[0], nodes[1], nodes[1], nodes[1], nodes[2]]);
//! # Ok(())
//! # }
//! ```
//!
//! Probes are connected by [`probes`]: for each profile, a variant with a probe at
//! each of its places, which logs the witness's number; at a landing also the
//! depth of its frame. To connect breakpoints: a graph of machine
//! code, made with [`icfg::Builder`], and the address of each witness's node.

#![forbid(unsafe_code)]

mod agenda;
mod bit_rows;
pub mod block_log;
pub mod call_tree;
pub mod distribution;
pub mod file;
pub mod first_witness;
mod folding;
pub mod icfg;
pub mod lower_bound;
pub mod machine_graph;
mod obstacle_packing;
pub mod path_events;
pub mod places;
pub mod planning;
pub mod probes;
pub mod realizability;
pub mod rebuild;
mod separation;
pub mod unfollowed;
pub mod witness_log;
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
    /// Something ran that the traced graph has no way to.
    #[error("{0} of the traced graph ran, which it holds impossible")]
    Impossible(icfg::Routine),
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
    /// A plan that takes too many executions.
    #[error("this limit takes more than {most} executions: give a higher limit")]
    Executions {
        /// How many there may be.
        most: usize,
    },
    /// A plan with a limit that would take too long to make.
    #[error(
        "with a limit, ways are told apart pair by pair, and there are {pairs} pairs, more than \
         {most}: trace without a limit"
    )]
    Pairs {
        /// How many pairs there are.
        pairs: u64,
        /// How many are looked at.
        most: u64,
    },
    /// A log of witnesses with a gap, or with something between a landing and its
    /// depth.
    #[error("events of a thread were lost: it left the handler of a signal while it logged one")]
    LostEvents,
    /// A trace file that is not what was written.
    #[error("the trace file is corrupt: {0}; trace the program again")]
    CorruptTrace(&'static str),
    /// A trace file without its end.
    #[error("the trace file was not finished, or was cut: trace the program again")]
    UnfinishedTrace,
    /// A trace file of another version.
    #[error(
        "the trace file has format version {0}, this backtrail reads version {version}: \
         read it with the backtrail that wrote it",
        version = file::VERSION
    )]
    UnsupportedTrace(u32),
    /// The bytes could not be put anywhere.
    #[error("the {what} cannot be written: {source}")]
    Write {
        /// Which file.
        what: &'static str,
        /// Why.
        source: std::io::Error,
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
