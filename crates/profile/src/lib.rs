//! Exact path profiles: which way each function went, and how often.
//!
//! After Ball and Larus, *Efficient Path Profiling*, MICRO 1996.
//!
//! | module | holds |
//! | --- | --- |
//! | [`model`] | a profile as plain data: functions, paths, counts |

#![forbid(unsafe_code)]

pub mod model;
