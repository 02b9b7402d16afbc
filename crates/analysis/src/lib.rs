//! Questions about a whole program, asked of its units joined by symbols.
//!
//! | module | answers |
//! | --- | --- |
//! | [`call_targets`] | who can be called, from where |
//! | [`unseen`] | what code that is not seen may do on behalf of a call |

#![forbid(unsafe_code)]

pub mod call_targets;
pub mod unseen;

pub use call_targets::{Body, CallTargets, Target};
pub use unseen::{Behaviour, CallsBack};
