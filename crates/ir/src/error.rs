//! What can be wrong with a unit, with its text, or with its bytes.

use std::fmt;

use crate::{Block, Func, Inst};

/// Why a unit is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The unit breaks an invariant that [`crate::verify`] lists.
    #[error("{place}{what}")]
    Invalid {
        /// Where.
        place: Place,
        /// Which, in words.
        what: String,
    },
    /// The text form is not well-formed.
    #[error("line {line}: {what}")]
    Text {
        /// The line, counted from 1.
        line: u32,
        /// What is wrong with it.
        what: String,
    },
    /// The bytes are something else.
    #[error("not a program model: its first bytes are not those of one")]
    NotAUnit,
    /// The bytes are a unit in another version of the format.
    #[error(
        "the program model has format version {found}, this backtrail reads version {readable}"
    )]
    Version {
        /// The version of the bytes.
        found: u32,
        /// The version that can be read.
        readable: u32,
    },
    /// The bytes end too early.
    #[error("the program model is truncated")]
    Truncated,
    /// The bytes are not what was written.
    #[error("the program model is corrupt ({what})")]
    Corrupt {
        /// What does not fit.
        what: &'static str,
    },
}

/// Where in a unit something is: prints as `f3 'main': b2: i7: `.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Place {
    /// The function, and its name if it has one.
    pub function: Option<(Func, String)>,
    /// The block of the function.
    pub block: Option<Block>,
    /// The instruction of the function.
    pub inst: Option<Inst>,
    /// A symbol, location or COMDAT group of the unit, as it prints.
    pub entity: Option<String>,
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(entity) = &self.entity {
            write!(f, "{entity}: ")?;
        }
        if let Some((function, name)) = &self.function {
            write!(f, "{function} '{}': ", name.escape_debug())?;
        }
        if let Some(block) = self.block {
            write!(f, "{block}: ")?;
        }
        if let Some(inst) = self.inst {
            write!(f, "{inst}: ")?;
        }
        Ok(())
    }
}
