//! What a program learns from outside while it runs, written down so that runs can be
//! compared: what system calls return and write into its memory, signals, and what it is
//! started with.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`record`](mod@record) | traces a program with all it starts, and writes down what comes in |
//! | `calls`, `outputs` | which system calls write what where |
//! | `start` | what a program finds on its stack when it begins |
//! | `event` | what is written down |
//! | [`compare`](mod@compare) | the first thing that two runs were told differently |
//!
//! **Fixed, so that it is the same in all runs**: random numbers of the kernel
//! (`getrandom`, `/dev/urandom`, `AT_RANDOM`) are made from one seed. The vDSO is not shown
//! to the program, so that its clocks become system calls; `rseq`, by which the kernel tells
//! the number of the core without being asked, is not there; `rdtsc` traps. Addresses are
//! not randomised and numbers of processes begin with the same, which is for whoever starts
//! the program.
//!
//! **Left out**: calls of the code that was put into a variant, which has a mark behind each
//! ([`backtrail_abi::OWN_CALL`]); what the dynamic linker reads in files that are not the
//! same in all runs, because they are variants; where memory is, and turns of threads
//! (`futex`).
//!
//! **May differ, and is told if it does**: numbers and times of files that a run has of its
//! own, and addresses. **Not seen**, and told always: [`UNSEEN`].
//!
//! Threads are known by who started them: the second that thread 1 started is 1.2. What a
//! thread did that was ended by another is compared as far as both went.

mod calls;
pub mod compare;
mod event;
mod outputs;
pub mod record;
mod start;

pub use compare::{Different, compare};
pub use event::Recorded;
pub use record::{Ended, How, record};

/// What decides what a program does and is no input that is compared here.
pub const UNSEEN: [&str; 3] = [
    "addresses",
    "what the processor says of itself or at random (cpuid, rdpid, rdrand, rdseed)",
    "pages of the kernel that can be read without a call (vsyscall)",
];

/// That, where there is more than one thread, or memory that processes share.
pub const TURNS: &str = "the order in which threads and processes access memory that they share";
