//! Plain data to terminal tables, JSON and HTML.
//!
//! Nothing here knows where the data comes from: this crate uses no other of
//! the workspace but `foreign`, for names that others chose, reads no file and
//! decides nothing but how things look.
//!
//! | module | holds |
//! | --- | --- |
//! | [`name`] | names of functions, short enough to be read |
//! | [`terminal`] | colours, widths, numbers and tables |
//! | [`merged`] | how far runs were compared that were put together |
//! | [`paths`] | a path profile as data to be shown; text, JSON and HTML |
//! | [`plan`] | what counting with several copies would cost; text, JSON |
//! | [`autopsy`] | what led to a crash; text, JSON and HTML |
//! | [`flame`] | a call tree as a page |
//! | [`comparison`] | two profiles, compared; text |

#![forbid(unsafe_code)]

pub mod autopsy;
pub mod comparison;
pub mod flame;
mod html;
pub mod merged;
pub mod name;
pub mod paths;
pub mod plan;
pub mod terminal;
