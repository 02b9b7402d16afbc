//! The frame around every carried record: magic, version, length, checksum.
//!
//! ```text
//! 8 bytes  magic
//! 4 bytes  version, little endian
//! 8 bytes  length of the body, little endian
//! 16 bytes first half of the body's BLAKE3 hash
//! …        the body
//! ```
//! Frames stand one after another; zeros between them (a linker's padding) are
//! skipped.

/// The version of all carried records.
pub const VERSION: u32 = 4;

const HEADER: usize = 8 + 4 + 8 + 16;

/// What is wrong with a sequence of frames.
#[derive(Debug, PartialEq, Eq)]
pub enum FrameError {
    /// Damaged, and how.
    Damaged(String),
    /// Of another version.
    Version(u32),
}

/// The first half of a BLAKE3 hash.
pub fn hash(parts: &[&[u8]]) -> [u8; 16] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&(part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hasher.finalize().as_bytes()[..16].try_into().expect("half of 32 bytes")
}

/// `body` in its frame.
pub fn wrap(magic: [u8; 8], body: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(HEADER + body.len());
    out.extend(magic);
    out.extend(VERSION.to_le_bytes());
    out.extend((body.len() as u64).to_le_bytes());
    out.extend(hash(&[body]));
    out.extend(body);
    out
}

/// The bodies of all frames in `bytes`.
pub fn unwrap_all(magic: [u8; 8], bytes: &[u8]) -> Result<Vec<&[u8]>, FrameError> {
    let total = bytes.len();
    let mut rest = bytes;
    let mut bodies = Vec::new();
    loop {
        let padding = rest.iter().take_while(|&&byte| byte == 0).count();
        rest = &rest[padding..];
        if rest.is_empty() {
            return Ok(bodies);
        }
        let damaged = |what: &str| {
            FrameError::Damaged(format!("{what} at byte {} of {total}", total - rest.len()))
        };
        let (header, behind) = rest.split_at_checked(HEADER).ok_or_else(|| damaged("cut short"))?;
        if header[..8] != magic {
            return Err(damaged("no record where one should begin,"));
        }
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            return Err(FrameError::Version(version));
        }
        let length = u64::from_le_bytes(header[12..20].try_into().expect("eight bytes"));
        let length = usize::try_from(length).map_err(|_| damaged("an impossible length"))?;
        let (body, behind) =
            behind.split_at_checked(length).ok_or_else(|| damaged("a record is cut short"))?;
        if header[20..36] != hash(&[body]) {
            return Err(damaged("the checksum of a record does not hold"));
        }
        bodies.push(body);
        rest = behind;
    }
}

/// Puts byte strings one after another, each with its length.
pub fn join_parts(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::with_capacity(parts.iter().map(|part| part.len() + 8).sum());
    for part in parts {
        out.extend((part.len() as u64).to_le_bytes());
        out.extend(*part);
    }
    out
}

/// The inverse of [`join_parts`].
pub fn split_parts(mut bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let mut parts = Vec::new();
    while !bytes.is_empty() {
        let (length, behind) = bytes.split_at_checked(8)?;
        let length = usize::try_from(u64::from_le_bytes(length.try_into().ok()?)).ok()?;
        let (part, behind) = behind.split_at_checked(length)?;
        parts.push(part);
        bytes = behind;
    }
    Some(parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAGIC: [u8; 8] = *b"TESTING\n";

    #[test]
    fn frames_come_back_with_padding_between_them() {
        let mut bytes = wrap(MAGIC, b"one");
        bytes.extend([0; 5]);
        bytes.extend(wrap(MAGIC, b""));
        bytes.extend(wrap(MAGIC, b"three"));
        assert_eq!(unwrap_all(MAGIC, &bytes), Ok(vec![&b"one"[..], b"", b"three"]));
    }

    #[test]
    fn every_prefix_and_every_flip_is_an_error_or_the_truth() {
        let whole = [wrap(MAGIC, b"first"), wrap(MAGIC, b"second")].concat();
        for end in 0..whole.len() {
            if let Ok(bodies) = unwrap_all(MAGIC, &whole[..end]) {
                assert!([&b"first"[..], b"second"].starts_with(&bodies), "prefix of {end} bytes");
            }
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x10;
            assert!(unwrap_all(MAGIC, &bytes).is_err(), "flip at {at}");
        }
    }

    #[test]
    fn parts_come_back() {
        let parts: [&[u8]; 3] = [b"a", b"", b"ccc"];
        let joined = join_parts(&parts);
        assert_eq!(split_parts(&joined).unwrap(), parts);
        assert!((1..joined.len()).any(|end| split_parts(&joined[..end]).is_none()));
    }
}
