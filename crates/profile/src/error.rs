//! What can be wrong with a profile.

/// An error of this crate.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It begins otherwise.
    #[error("not a path profile; `backtrail profile` writes them")]
    NotAProfile,
    /// It ends too early.
    #[error("truncated: the profile ends after {found} of {expected} bytes; copy it again")]
    Truncated {
        /// How many bytes there are.
        found: u64,
        /// How many there should be, as far as can be told.
        expected: u64,
    },
    /// Its bytes are not those that were written.
    #[error("corrupt: {what}; copy it or collect it again")]
    Corrupt {
        /// What does not fit.
        what: String,
    },
    /// It was written by another version.
    #[error(
        "a path profile of version {found}, and this backtrail reads version {readable}; \
         use the one that wrote it"
    )]
    Version {
        /// Its version.
        found: u32,
        /// Ours.
        readable: u32,
    },
    /// It contradicts itself.
    #[error("not a valid profile: {what}")]
    Invalid {
        /// What contradicts what, and where.
        what: String,
    },
    /// It is of another program, or of another build.
    #[error(
        "profiles of different builds cannot be added: {ours} and {theirs}; \
         compare them with --compare"
    )]
    OtherBuild {
        /// What was merged so far.
        ours: String,
        /// What does not fit.
        theirs: String,
    },
    /// A sum passes what 64 bits hold.
    #[error("the counts of {what} add up to more than 64 bits hold")]
    Overflow {
        /// Whose counts.
        what: String,
    },
    /// Copies of one run did not do the same.
    #[error("the copies did not run alike: {what}; nothing was merged")]
    Diverged {
        /// The first difference.
        what: String,
    },
    /// Something ran that cannot, if the model of the program is right.
    #[error("{what}; nothing was merged, profile it without --copies")]
    Impossible {
        /// What ran.
        what: String,
    },
    /// An export cannot be made.
    #[error("{what}")]
    Export {
        /// Why.
        what: String,
    },
}
