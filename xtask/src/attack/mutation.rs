//! Damages to bytes: by chance, and where it hurts.

use fastrand::Rng;

/// Numbers at which something turns over.
const NUMBERS: [u64; 12] = [
    0,
    1,
    2,
    0x7f,
    0x80,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_ffff_ffff,
];

/// The most that is put in or doubled at once.
const LONGEST: usize = 256;

/// `bytes` with one to four damages; never as they were.
pub fn damaged(rng: &mut Rng, bytes: &[u8]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..rng.usize(1..=4) {
        damage(rng, &mut out);
    }
    while out == bytes {
        damage(rng, &mut out);
    }
    out
}

fn damage(rng: &mut Rng, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(rng.u8(..));
    }
    let at = place(rng, bytes);
    let length = rng.usize(1..=LONGEST).min(bytes.len() - at);
    match rng.u8(0..12) {
        0..=2 => (0..rng.usize(1..=8)).for_each(|_| {
            let at = place(rng, bytes);
            bytes[at] ^= 1 << rng.u8(0..8);
        }),
        3 | 4 => bytes[at] = rng.u8(..),
        5 => bytes.truncate(at),
        6 => drop(bytes.drain(at..at + length)),
        7 => {
            let behind = bytes.split_off(at);
            bytes.extend((0..length).map(|_| rng.u8(..)));
            bytes.extend(behind);
        }
        // A piece of it somewhere else.
        8 => {
            let piece = bytes[at..at + length].to_vec();
            let to = place(rng, bytes);
            let end = bytes.len().min(to + piece.len());
            bytes.splice(to..if rng.bool() { to } else { end }, piece);
        }
        // What may be a length, a count or a place.
        9 | 10 => {
            let width = [1, 2, 4, 8][rng.usize(0..4)];
            let at = if rng.bool() { at - at % width } else { at };
            let near = (bytes.len() as u64).wrapping_add(rng.u64(0..3)).wrapping_sub(1);
            let number = *rng.choice(&NUMBERS).unwrap_or(&near);
            let number = if rng.u8(0..4) == 0 { near } else { number };
            let end = bytes.len().min(at + width);
            bytes[at..end].copy_from_slice(&number.to_le_bytes()[..end - at]);
        }
        // The same in postcard's form, of seven bits in a byte.
        _ => {
            let mut number = *rng.choice(&NUMBERS).unwrap_or(&0);
            let mut varint = Vec::new();
            while number >= 0x80 {
                varint.push(number as u8 | 0x80);
                number >>= 7;
            }
            varint.push(number as u8);
            bytes.splice(at..=at, varint);
        }
    }
}

/// Where: anywhere before the zeros at the end, and often near the begin, where most
/// formats say what follows.
fn place(rng: &mut Rng, bytes: &[u8]) -> usize {
    let used = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    let most = match rng.u8(0..8) {
        0..=1 => used.min(64),
        2 => used.min(1024),
        3 => bytes.len(),
        _ => used,
    };
    rng.usize(0..most.clamp(1, bytes.len().max(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_damage_damages_and_seeds_repeat() {
        let whole: Vec<u8> = (0..200).chain([0; 100]).collect();
        let mut seen = std::collections::BTreeSet::new();
        for seed in 0..2000 {
            let made = damaged(&mut Rng::with_seed(seed), &whole);
            assert_ne!(made, whole);
            assert_eq!(made, damaged(&mut Rng::with_seed(seed), &whole));
            seen.insert(made);
        }
        assert!(seen.len() > 1900, "{} different ones", seen.len());
        assert!(seen.iter().any(|it| it.len() < 100) && seen.iter().any(|it| it.len() > 300));
        assert!(!damaged(&mut Rng::with_seed(1), b"").is_empty());
    }
}
