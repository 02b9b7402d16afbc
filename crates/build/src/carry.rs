//! What objects and executables carry.
//!
//! Every object that `backtrail cc` makes holds one [`unit`](mod@unit) record in the
//! section [`UNIT_SECTION`](backtrail_abi::UNIT_SECTION). The linker puts those
//! of the objects it really links one after another, whoever calls it; archives
//! and `ld -r` carry them along. After the link, the driver adds one [`recipe`]
//! record: how to link again. [`file`](mod@file) reads both back.

pub mod file;
pub mod frame;
pub mod kept;
pub mod recipe;
pub mod unit;
pub mod variant;

pub use file::Carried;
pub use recipe::{Input, InputKind, Member, Recipe, RecipeArg};
pub use unit::{Generator, IrState, UnitMeta, UnitRecord};
pub use variant::VariantMark;
