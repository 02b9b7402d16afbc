//! From bitcode to the program model, and from plans to changed bitcode.
//!
//! - [`lower`]: a module, as it was read, to [`backtrail_ir::Unit`];
//! - [`apply`]: a [`backtrail_plan::UnitPlan`] to a module;
//! - [`object`]: an object file from a module, for compilers that do not take
//!   bitcode back;
//! - [`loops`]: loops as they are without debug information;
//! - [`worker`]: all of it for one unit, in a process of its own.
//!
//! There is no analysis here: what to insert where was decided on the model.

#![forbid(unsafe_code)]

pub mod apply;
mod assembly;
mod error;
mod identity;
pub mod loops;
pub mod lower;
pub mod object;
mod switch;
pub mod worker;

pub use error::Error;
