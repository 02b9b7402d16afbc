//! What a module was linked with besides its units, and what it is to other modules.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Input, Link, NativeObject, Wrapping};
use crate::Unit;

/// Everything of a link but its units.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Surroundings {
    /// Objects without a unit, of archives only the members that were taken, and shared
    /// libraries; in link order.
    pub natives: Vec<SurroundingNative>,
    /// The names given with `--wrap`.
    pub wrapped: Vec<String>,
    /// Which references these names concern.
    pub wrapping: Wrapping,
    /// What it is once it is loaded.
    pub loaded: Loaded,
}

/// An object without a unit.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SurroundingNative {
    /// How many of the module's units come before it.
    pub units_before: u32,
    /// Its symbols.
    pub object: NativeObject,
}

/// What a module is to the others that are loaded with it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// The names it exports.
    pub exports: BTreeSet<String>,
    /// Those of them that mean, in the module itself too, what the first module defines
    /// that exports them.
    pub preemptible: BTreeSet<String>,
    /// Whether it is loaded with libraries of which it is not known what they refer to.
    pub has_unknown: bool,
}

impl Surroundings {
    /// The whole link of a module, with its units.
    pub(super) fn link<'u>(&self, units: Vec<&'u Unit>) -> Link<'u> {
        let mut natives = self.natives.iter().peekable();
        let mut inputs = Vec::new();
        for (place, unit) in units.into_iter().enumerate() {
            while let Some(native) = natives.next_if(|it| it.units_before as usize <= place) {
                inputs.push(Input::Native(native.object.clone()));
            }
            inputs.push(Input::Unit(unit));
        }
        inputs.extend(natives.map(|native| Input::Native(native.object.clone())));
        Link { inputs, wrapped: self.wrapped.clone(), wrapping: self.wrapping }
    }
}
