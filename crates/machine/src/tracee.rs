//! A program that is run under the eyes of this process, from its entry point on.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`launch`] | starts it and stops it where its code begins |
//! | [`single_step`] | which blocks it passes, one instruction after another: slow and obvious |
//!
//! The program runs with the addresses of its file, without randomisation, on the
//! core its tracer is on: a stop that stays on one core costs a tenth of one that
//! does not. It does not outlive its tracer (`PTRACE_O_EXITKILL`), nor a
//! [`Tracee`] that is dropped.

mod children;
pub mod launch;
pub mod single_step;
mod sys;

pub use launch::{Launch, Tracee};
