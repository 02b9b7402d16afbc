//! Questions about a whole program, asked of its units joined by symbols.
//!
//! | module | answers |
//! | --- | --- |
//! | [`call_targets`] | who can be called, from where |
//! | [`calls`] | what is known of a call: whether it comes back, once; whether it ends its caller |
//! | [`external`] | what code that is not of the units may do on behalf of a call |
//! | [`forking`] | what may be under way when the program forks |
//! | [`leaving`] | at which calls activations may end otherwise than by a return |
//! | [`mod@reachable`] | what has a caller at all |
//! | [`unseen`] | the same, where no more than a name is known |

#![forbid(unsafe_code)]

pub mod call_targets;
pub mod calls;
pub mod external;
pub mod forking;
pub mod leaving;
pub mod reachable;
pub mod unseen;

pub use call_targets::{Body, CallTargets, Target};
pub use external::{CalledBack, External, Externals, jumps};
pub use forking::under_way_at_forks;
pub use leaving::{Leaving, LeavingCalls};
pub use reachable::reachable;
pub use unseen::{Behaviour, CallsBack};
