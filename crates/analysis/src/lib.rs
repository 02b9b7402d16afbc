//! Questions about a whole program, asked of its units joined by symbols.
//!
//! | module | answers |
//! | --- | --- |
//! | [`call_targets`] | who can be called, from where |

#![forbid(unsafe_code)]

pub mod call_targets;

pub use call_targets::{Body, CallTargets, Target};
