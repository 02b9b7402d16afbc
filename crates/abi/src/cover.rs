//! Coverage: what was ever executed, by any activation in any thread.
//!
//! Each unit has an array of bytes, all 0 at first, in the data segment of its
//! module: private memory, which a core dump contains. A probe sets its byte to 1;
//! bytes are only ever set, so threads need not know of each other, and a signal's
//! handler may come at any time. Nothing reads them while the program runs. Which
//! byte stands for what is the business of the scheme that planned the probes.
//!
//! The symbol is hidden; whoever links the module defines the arrays of all its
//! units.

/// How the symbol of a unit's bytes begins; its id follows.
pub const UNIT_SYMBOL_PREFIX: &str = "__backtrail_covered_";
