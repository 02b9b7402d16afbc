//! Reading the block log, the format of [`backtrail_abi::log`].
//!
//! [`Process`] is a process file: which event numbers stand for which unit's
//! blocks. [`Events`] walks a thread's log with it, whose bytes
//! [`ThreadLog`] has in order. [`ProgramMap`] turns the
//! numbers into functions, blocks and lines, and [`Moments`] says which activations they
//! are of. For each thread of each process:
//!
//! ```
//! # fn main() -> Result<(), backtrail_trace::Error> {
//! # let process_bytes = backtrail_trace::block_log::example_process();
//! # let thread_bytes = backtrail_trace::block_log::example_thread();
//! use backtrail_trace::block_log::{Events, Process};
//!
//! let process = Process::read(&process_bytes)?;
//! let mut events = Events::new(&process, thread_bytes.as_slice())?;
//! for event in &mut events {
//!     let event = event?;
//!     println!("{} {} {}", event.number, event.unit, event.block);
//! }
//! assert_eq!(events.summary().lost, 0);
//! # Ok(())
//! # }
//! ```

mod events;
mod frames;
mod inherited;
mod moments;
mod process;
mod program_map;
mod segments;

pub use events::{Event, Events, Summary};
pub use frames::Placed;
pub use inherited::{InheritedLog, Part};
pub use moments::{LogFrames, Moment, Moments};
pub use process::{Gap, Module, Process, Range};
pub use program_map::{ProgramMap, Step};
pub use segments::ThreadLog;

/// A process file with one unit of three blocks, for the example above.
#[doc(hidden)]
pub fn example_process() -> Vec<u8> {
    use backtrail_abi::log::{PROCESS_MAGIC, ProcessHeader};
    let mut bytes = PROCESS_MAGIC.to_vec();
    [backtrail_abi::VERSION, 10, 1, 0, 0, 0, 1, 0]
        .iter()
        .for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.resize(ProcessHeader::BYTES, 0);
    bytes.extend([7; 16]);
    [1u32, 3].iter().for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes
}

/// A thread file with two events, for the example above.
#[doc(hidden)]
pub fn example_thread() -> Vec<u8> {
    let mut bytes = backtrail_abi::log::THREAD_MAGIC.to_vec();
    [backtrail_abi::VERSION, 10, 0, 0, 0, 1, 3]
        .iter()
        .for_each(|number| bytes.extend(number.to_le_bytes()));
    bytes.resize(4096, 0);
    bytes
}
