//! The bytes of a unit, as an executable carries them.
//!
//! ```text
//! magic    8 bytes  "BTUNIT\r\n"
//! version  u32, little endian
//! form     1 byte   0: columns; 1: postcard, for units that do not verify
//! body
//! ```
//!
//! The body in columns is made for a general compressor to follow: the facts of
//! each kind are a stream of their own, references are distances, and whatever
//! the verifier promises (ranges that follow one another, numbers of operands
//! and successors) is left out. `columns` has the streams, `write` and `read`
//! say what goes into them. Encoding and decoding are linear.
//!
//! A unit that does not verify is a mistake of whoever made it; it is written
//! such that reading it tells the mistake.
//!
//! Reading never trusts: [`from_bytes`] gives a verified unit or an error, for
//! any bytes. No allocation follows from a length alone; what is allocated is
//! bounded by a constant times the bytes that are there. For strings, of which
//! each is written once however often it is mentioned, that is seen to by a
//! limit, which units that exceed it get around by repeating their strings.

mod columns;
mod read;
mod tags;
mod write;

use columns::{Reader, Writer};

use crate::{Error, Unit, verify};

/// The first bytes of an encoded unit. The line ends show a file that was
/// treated as text.
pub const MAGIC: [u8; 8] = *b"BTUNIT\r\n";

/// The version of the format. Other versions are refused by name.
pub const VERSION: u32 = 4;

const COLUMNS: u8 = 0;
const POSTCARD: u8 = 1;

/// Encodes `unit`.
pub fn to_bytes(unit: &Unit) -> Vec<u8> {
    let mut start = MAGIC.to_vec();
    start.extend_from_slice(&VERSION.to_le_bytes());
    if verify::verify(unit).is_err() {
        start.push(POSTCARD);
        return postcard::to_extend(unit, start).expect("plain data can always be written");
    }
    start.push(COLUMNS);
    let with_strings = |strings| {
        let mut writer = Writer::new();
        let mentioned = write::unit(unit, &mut writer, strings);
        let mut body = Vec::new();
        writer.finish(&mut body);
        (body, mentioned)
    };
    let (mut body, mentioned) = with_strings(write::Strings::new(false));
    if mentioned > string_limit(&body) {
        (body, _) = with_strings(write::Strings::new(true));
    }
    start.extend_from_slice(&body);
    start
}

/// Decodes a unit and verifies it.
pub fn from_bytes(bytes: &[u8]) -> Result<Unit, Error> {
    let is_prefix = |whole: &[u8]| whole.starts_with(bytes);
    let Some(rest) = bytes.strip_prefix(&MAGIC) else {
        return Err(if is_prefix(&MAGIC) { Error::Truncated } else { Error::NotAUnit });
    };
    let (version, rest) = rest.split_first_chunk::<4>().ok_or(Error::Truncated)?;
    let found = u32::from_le_bytes(*version);
    if found != VERSION {
        return Err(Error::Version { found, readable: VERSION });
    }
    let (&form, body) = rest.split_first().ok_or(Error::Truncated)?;
    // So that nothing read from it has more items than indices can count.
    if u32::try_from(body.len()).is_err() {
        return Err(Error::Corrupt { what: "it is longer than any unit" });
    }
    let unit = match form {
        COLUMNS => {
            let mut reader = Reader::new(body)?;
            let unit = read::unit(&mut reader, string_limit(body))?;
            reader.finish()?;
            unit
        }
        POSTCARD => read_postcard(body)?,
        _ => return Err(Error::Corrupt { what: "its form is unknown" }),
    };
    verify::verify(&unit)?;
    Ok(unit)
}

/// How many bytes of strings may be made from a body.
fn string_limit(body: &[u8]) -> u64 {
    (body.len() as u64).saturating_mul(64).saturating_add(1 << 20)
}

fn read_postcard(body: &[u8]) -> Result<Unit, Error> {
    let (unit, rest) = postcard::take_from_bytes(body).map_err(|error| match error {
        postcard::Error::DeserializeUnexpectedEnd => Error::Truncated,
        _ => Error::Corrupt { what: "a field does not decode" },
    })?;
    match rest {
        [] => Ok(unit),
        _ => Err(Error::Corrupt { what: "bytes follow its end" }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Index, Location};

    /// A unit whose every location is in one function of a very long name.
    fn long_scopes() -> Unit {
        let location = |line| Location {
            file: Index::new(0),
            line,
            column: 1,
            scope: "x".repeat(2_000),
            scope_line: 1,
            inlined_at: None,
        };
        Unit {
            files: ["a.c".to_string()].into_iter().collect(),
            locations: (0..2_000).map(location).collect(),
            ..Unit::default()
        }
    }

    #[test]
    fn a_little_that_would_become_much_is_refused() {
        let unit = long_scopes();
        let mut writer = Writer::new();
        write::unit(&unit, &mut writer, write::Strings::new(false));
        let mut bytes = [&MAGIC[..], &VERSION.to_le_bytes(), &[COLUMNS]].concat();
        writer.finish(&mut bytes);
        assert!(bytes.len() < 30_000, "{}", bytes.len());
        assert_eq!(from_bytes(&bytes), Err(Error::Corrupt { what: "its strings are too long" }));
    }

    #[test]
    fn what_would_be_refused_is_written_otherwise() {
        let unit = long_scopes();
        assert_eq!(from_bytes(&to_bytes(&unit)), Ok(unit));
    }
}
