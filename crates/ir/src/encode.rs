//! The bytes of a unit, as an executable carries them.
//!
//! ```text
//! magic    8 bytes  "BTUNIT\r\n"
//! version  u32, little endian
//! body     postcard
//! ```
//!
//! Reading never trusts: [`from_bytes`] gives a verified unit or an error, for
//! any bytes. No allocation follows from a length alone; what is allocated is
//! bounded by a constant times the bytes that are there.

use crate::{Error, Unit, verify};

/// The first bytes of an encoded unit. The line ends show a file that was
/// treated as text.
pub const MAGIC: [u8; 8] = *b"BTUNIT\r\n";

/// The version of the format. Other versions are refused by name.
pub const VERSION: u32 = 1;

/// Encodes `unit`.
pub fn to_bytes(unit: &Unit) -> Vec<u8> {
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    postcard::to_extend(unit, bytes).expect("a unit is plain data, and memory does not run out")
}

/// Decodes a unit and verifies it.
pub fn from_bytes(bytes: &[u8]) -> Result<Unit, Error> {
    let is_prefix = |whole: &[u8]| whole.starts_with(bytes);
    let Some(rest) = bytes.strip_prefix(&MAGIC) else {
        return Err(if is_prefix(&MAGIC) { Error::Truncated } else { Error::NotAUnit });
    };
    let (version, body) = rest.split_first_chunk::<4>().ok_or(Error::Truncated)?;
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(Error::Version { found, readable: VERSION });
    }
    let (unit, rest) = postcard::take_from_bytes(body).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => Error::Truncated,
        _ => Error::Corrupt { what: "a field does not decode" },
    })?;
    if !rest.is_empty() {
        return Err(Error::Corrupt { what: "bytes follow its end" });
    }
    verify::verify(&unit)?;
    Ok(unit)
}
