//! Which variant an executable or library is, for whoever reads what it recorded
//! ([`backtrail_abi::modules`]).

use serde::{Deserialize, Serialize};

use super::frame;
use super::unit::Damaged;

/// The first bytes of the record.
pub const MAGIC: [u8; 8] = *b"BTVARI\r\n";

/// Which one it is, and with which others it was made. Two variants have one id only if
/// what they record means the same, wherever they are and whatever they are called.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct VariantMark {
    /// As it stands in its memory, too.
    pub id: [u8; 16],
    /// The shared libraries that were derived with it. It is loaded with all of them.
    pub libraries: Vec<DerivedLibrary>,
}

/// A shared library that was derived with a program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DerivedLibrary {
    /// By which it is asked for.
    pub name: String,
    /// Which variant it is.
    pub id: [u8; 16],
}

impl VariantMark {
    /// The record as it stands in a section.
    pub fn to_bytes(&self) -> Vec<u8> {
        let body = postcard::to_stdvec(self).expect("serialising into memory does not fail");
        frame::wrap(MAGIC, &body)
    }

    /// Reads the body of a record.
    pub fn from_body(body: &[u8]) -> Result<Self, Damaged> {
        postcard::from_bytes(body).map_err(|error| Damaged(format!("which variant it is: {error}")))
    }
}
