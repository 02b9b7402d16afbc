//! What the targets share. A target is a file in `src/bin`: it says what its
//! input is, which inputs it starts from, and what holds of whatever is read.
//!
//! Readers check sums of what they read. An input that coverage chose would
//! never get past them, so a target's input is a choice, in its first byte,
//! between a file as it is and contents that the target puts into a valid
//! [`container`].

#![forbid(unsafe_code)]

pub mod container;
pub mod fixtures;

/// The choice in the first byte of an input, among `among`, and the rest.
pub fn choose(data: &[u8], among: u8) -> Option<(u8, &[u8])> {
    let (&first, rest) = data.split_first()?;
    Some((first % among, rest))
}

/// The input that stands for choice `choice` with `rest` behind it.
pub fn chosen(choice: u8, rest: &[u8]) -> Vec<u8> {
    [&[choice], rest].concat()
}

/// Cuts the input into parts that have their lengths, of two bytes, before
/// them; the last takes what is left.
pub fn parts<const N: usize>(mut data: &[u8]) -> [&[u8]; N] {
    std::array::from_fn(|number| {
        if number + 1 == N {
            return std::mem::take(&mut data);
        }
        let (length, rest) = data.split_first_chunk::<2>().unwrap_or((&[0; 2], &[]));
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, rest) = rest.split_at(length);
        data = rest;
        part
    })
}

/// The inverse of [`parts`]; parts but the last are cut to 65,535 bytes.
pub fn joined(parts: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    for (number, part) in parts.iter().enumerate() {
        if number + 1 == parts.len() {
            out.extend_from_slice(part);
        } else {
            let length = part.len().min(usize::from(u16::MAX));
            out.extend((length as u16).to_le_bytes());
            out.extend_from_slice(&part[..length]);
        }
    }
    out
}
