//! A program that is run under the eyes of this process, from its entry point on.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`launch`] | starts it and stops it where its code begins |
//! | [`breakpoints`] | which of some blocks it passes: one stop for each |
//! | [`inputs`] | what comes into it from outside, with all that it starts |
//! | [`single_step`] | which blocks it passes, one instruction after another: slow and obvious |
//!
//! The program runs with the addresses of its file, without randomisation, on the
//! core its tracer is on: a stop that stays on one core costs a tenth of one that
//! does not. It does not outlive its tracer (`PTRACE_O_EXITKILL`), nor a
//! [`Tracee`] that is dropped.

pub mod breakpoints;
mod children;
mod displaced;
mod frames;
mod handlers;
mod in_process;
pub mod inputs;
pub mod launch;
mod layout;
mod pages;
mod scratch;
pub mod single_step;
mod sys;
mod threads;
mod untraced;

pub use launch::{Launch, Tracee};
pub use layout::LoadedLibrary;
pub use untraced::{Untraced, is_everybodys};

/// Why a program cannot have breakpoints that is not good for them, and what can be done.
const SIGTRAP_IS_ITS_OWN: &str = "it blocks SIGTRAP or handles it itself, which breakpoints \
                                  need: trace it with probes (leave out --witness breakpoint; \
                                  what carries no IR is built with 'backtrail cc' first)";

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// With this status.
    Exited(i32),
    /// By this signal.
    Killed(i32),
}
