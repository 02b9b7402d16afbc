//! What can be wrong.

use backtrail_abi::UnitId;

/// What is wrong with a scheme or with what an executable carries.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The table of frames cannot be read.
    #[error("its table of frames is damaged; derive the variant again")]
    DamagedTable,
    /// A scheme is not one.
    #[error("{word:?} is no scheme: {why}")]
    Scheme {
        /// The part of it.
        word: String,
        /// What is wrong with it.
        why: String,
    },
}

/// Why nothing can be said of a frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unread {
    /// Its code is not of a unit that was compiled by Backtrail.
    #[error("its code was not compiled by Backtrail")]
    NotOurs,
    /// The model of its unit is missing.
    #[error("the program model of unit {0} is missing")]
    NoModel(UnitId),
    /// The plan and the model of its function do not fit together.
    #[error("what is carried of function {function} of unit {unit} is damaged")]
    Damaged {
        /// The unit.
        unit: UnitId,
        /// The function.
        function: u32,
    },
}
