//! Data that is compressed with zstd in a file, for example carried bitcode.
//!
//! A hundred bytes can unpack to a hundred megabytes of zeros: what a file takes
//! must not be left to the file. So no more is unpacked than [`most`] says, which
//! is what any program's data stay below by far; data of that kind compress to a
//! tenth. Where a format says how long its data are, that is a second bound.
//!
//! Data that do compress so well, such as a huge table of one value, are kept
//! readable by whoever writes them: [`pack`] fills up with a frame that zstd skips
//! (RFC 8878, 3.1.2) until they are within the bound.

use std::io::{self, Read as _};

/// What is unpacked whatever it was packed to.
const FREE: u64 = 16 << 20;

/// How many bytes one packed byte may stand for beyond that.
const RATIO: u64 = 256;

/// The most that so many packed bytes may unpack to.
pub fn most(packed: usize) -> u64 {
    (packed as u64).saturating_mul(RATIO).saturating_add(FREE)
}

fn too_much() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "it unpacks to far more than such data do")
}

/// Unpacks, at most `limit` bytes, and no more than [`most`].
pub fn unpack(packed: &[u8], limit: u64) -> io::Result<Vec<u8>> {
    let limit = limit.min(most(packed.len()));
    let mut bytes = Vec::new();
    zstd::stream::read::Decoder::with_buffer(packed)?.take(limit + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(too_much());
    }
    Ok(bytes)
}

/// Unpacks what is said to have this length, and has.
pub fn unpack_exactly(packed: &[u8], length: u64) -> io::Result<Vec<u8>> {
    if length > most(packed.len()) {
        return Err(too_much());
    }
    let bytes = unpack(packed, length)?;
    if bytes.len() as u64 != length {
        let what = "it does not unpack to the length it says";
        return Err(io::Error::new(io::ErrorKind::InvalidData, what));
    }
    Ok(bytes)
}

/// Packs, so that [`unpack`] takes it.
pub fn pack(bytes: &[u8], level: i32) -> Vec<u8> {
    let mut packed = zstd::bulk::compress(bytes, level).expect("memory can always be compressed");
    let length = bytes.len() as u64;
    if length > most(packed.len()) {
        let missing = (length - FREE).div_ceil(RATIO) as usize - packed.len();
        // What is said of its own length takes eight bytes.
        let filling = missing.saturating_sub(8);
        packed.extend(0x184d_2a50_u32.to_le_bytes());
        packed.extend(u32::try_from(filling).unwrap_or(u32::MAX).to_le_bytes());
        packed.resize(packed.len() + filling, 0);
    }
    packed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_packed_is_unpacked() {
        let many = vec![7; (FREE + 5_000_000) as usize];
        for bytes in [&b""[..], b"text", &many, &many[..FREE as usize], &many[..1 << 24 | 1]] {
            let packed = pack(bytes, 3);
            assert!(packed.len() < 100_000);
            assert!(unpack(&packed, u64::MAX - 1).unwrap() == bytes);
            assert!(unpack_exactly(&packed, bytes.len() as u64).unwrap() == bytes);
            assert!(unpack_exactly(&packed, bytes.len() as u64 + 1).is_err());
            if let Some(less) = (bytes.len() as u64).checked_sub(1) {
                assert!(unpack(&packed, less).is_err() && unpack_exactly(&packed, less).is_err());
            }
        }
    }

    #[test]
    fn what_grows_without_end_is_refused() {
        let bomb = zstd::bulk::compress(&vec![0; 1 << 28], 19).unwrap();
        assert!(bomb.len() < 30_000);
        assert!(unpack(&bomb, u64::MAX - 1).is_err());
        assert!(unpack_exactly(&bomb, 1 << 28).is_err());
        assert!(unpack(&bomb[..bomb.len() / 2], u64::MAX - 1).is_err());
        assert!(unpack(b"no zstd", u64::MAX - 1).is_err());
    }
}
