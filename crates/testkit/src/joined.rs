//! Programs of which nothing is known but their units.

use backtrail_ir::Unit;
use backtrail_ir::program::{Input, Link, Program};

/// Joins units, in link order, of a link of which no more is known.
pub fn joined<'u>(units: impl IntoIterator<Item = &'u Unit>) -> Program<'u> {
    let inputs = units.into_iter().map(Input::Unit).collect();
    Program::new(Link { inputs, ..Link::default() })
}
