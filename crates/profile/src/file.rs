//! The bytes of a profile file, `PROG.btprof`.
//!
//! ```text
//! magic     8 bytes   "BTPROF\r\n"
//! version   u32       all numbers are little endian
//! checksum  32 bytes  blake3 of everything behind it
//! length    u64       of the body that follows
//! raw       u64       of the body, decompressed
//! body                zstd of postcard of a [`Profile`]
//! ```
//!
//! Version 2 ends before [`Profile::partial`], version 3 before
//! [`Profile::ended_by`], version 4 before [`Profile::inexact`], and version 5 before
//! [`Profile::merged`], which they did not have; such files are read, and have none.
//!
//! Reading never trusts: [`read_profile`] gives a profile that was written, and
//! that [`verify`](fn@verify) finds nothing wrong with, or an error, for any bytes. What
//! is allocated before the checksum was compared is nothing, and behind it no
//! more than a constant times the raw length, which has a limit.

pub mod verify;

use crate::error::Error;
use crate::model::Profile;
use backtrail_foreign::packed::{pack, unpack_exactly};
use verify::verify;

/// The first bytes. The line end shows a file that was treated as text.
pub const MAGIC: [u8; 8] = *b"BTPROF\r\n";

/// The version of the format, [`crate::model`] included: a test notices if that
/// is encoded differently. Other versions are refused by name.
pub const VERSION: u32 = 6;

/// The oldest version that can be read.
const OLDEST: u32 = 2;

/// The extension of profile files.
pub const EXTENSION: &str = "btprof";

/// The largest body, decompressed. A profile of a program with 100,000
/// functions is a hundredth of it.
const RAW_LIMIT: u64 = 1 << 32;

const HEADER: usize = 8 + 4 + 32 + 8 + 8;

/// zstd's default: profiles are written once and small.
const LEVEL: i32 = 3;

/// Encodes `profile`, if it holds together.
pub fn write_profile(profile: &Profile) -> Result<Vec<u8>, Error> {
    verify(profile)?;
    let raw = postcard::to_stdvec(profile).expect("plain data can always be written");
    if raw.len() as u64 > RAW_LIMIT {
        return Err(Error::Invalid { what: format!("it takes {} bytes", raw.len()) });
    }
    let body = pack(&raw, LEVEL);
    let mut behind = (body.len() as u64).to_le_bytes().to_vec();
    behind.extend_from_slice(&(raw.len() as u64).to_le_bytes());
    behind.extend_from_slice(&body);
    let mut bytes = MAGIC.to_vec();
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(blake3::hash(&behind).as_bytes());
    bytes.extend_from_slice(&behind);
    Ok(bytes)
}

/// Decodes a profile and verifies it.
pub fn read_profile(bytes: &[u8]) -> Result<Profile, Error> {
    let found = bytes.len() as u64;
    let truncated = |expected| Error::Truncated { found, expected };
    let corrupt = |what: &str| Error::Corrupt { what: what.to_owned() };
    let Some(rest) = bytes.strip_prefix(&MAGIC) else {
        let is_start = !bytes.is_empty() && MAGIC.starts_with(bytes);
        return Err(if is_start { truncated(HEADER as u64) } else { Error::NotAProfile });
    };
    let short = || truncated(HEADER as u64);
    let (version, rest) = rest.split_first_chunk::<4>().ok_or_else(short)?;
    let version = u32::from_le_bytes(*version);
    if !(OLDEST..=VERSION).contains(&version) {
        return Err(Error::Version { found: version, readable: VERSION });
    }
    let (checksum, behind) = rest.split_first_chunk::<32>().ok_or_else(short)?;
    let (length, rest) = behind.split_first_chunk::<8>().ok_or_else(short)?;
    let (raw, body) = rest.split_first_chunk::<8>().ok_or_else(short)?;
    let (length, raw) = (u64::from_le_bytes(*length), u64::from_le_bytes(*raw));
    if (body.len() as u64) < length {
        return Err(truncated(length.saturating_add(HEADER as u64)));
    }
    if body.len() as u64 > length {
        return Err(corrupt("there is something behind its end"));
    }
    if blake3::hash(behind) != *checksum {
        return Err(corrupt("its checksum does not fit"));
    }
    if raw > RAW_LIMIT {
        return Err(corrupt("it says that it is larger than profiles are"));
    }
    let mut decoded = unpack_exactly(body, raw)
        .map_err(|error| Error::Corrupt { what: format!("it cannot be decompressed: {error}") })?;
    // Lists that it did not have: the length of an empty one.
    decoded.extend((version..VERSION).map(|_| 0));
    let (profile, rest) = postcard::take_from_bytes::<Profile>(&decoded)
        .map_err(|error| Error::Corrupt { what: format!("its body cannot be read: {error}") })?;
    if !rest.is_empty() {
        return Err(corrupt("its body has something behind its end"));
    }
    verify(&profile)?;
    Ok(profile)
}
