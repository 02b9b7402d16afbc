//! What can be wrong with a machine-level file.

/// What is wrong with a machine-level file.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not ELF at all.
    #[error("not an ELF file")]
    NotElf,
    /// ELF, but of a kind Backtrail does not handle.
    #[error("unsupported ELF file: {0}")]
    Unsupported(String),
    /// ELF by its first bytes, damaged further on.
    #[error("damaged ELF file: {0}")]
    Corrupt(String),
}

impl From<object::Error> for Error {
    fn from(error: object::Error) -> Self {
        Self::Corrupt(error.to_string().to_lowercase())
    }
}
