//! Valid containers around any contents, written from the descriptions of the
//! formats and not by the code under test.

/// What stands before a carried record's body: magic, version, length and half
/// of a hash, which covers the length as well.
pub fn frame(magic: [u8; 8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u64).to_le_bytes();
    let hash = blake3::hash(&[&length, body].concat());
    let version = 1u32.to_le_bytes();
    [&magic[..], &version, &length, &hash.as_bytes()[..16], body].concat()
}

/// Byte strings one after another, each with its length.
pub fn strings(parts: &[&[u8]]) -> Vec<u8> {
    let with_length = |part: &&[u8]| [&(part.len() as u64).to_le_bytes(), *part].concat();
    parts.iter().flat_map(with_length).collect()
}

/// A profile file with this body, before it is compressed.
pub fn profile_file(body: &[u8]) -> Vec<u8> {
    let compressed = compressed(body);
    let lengths = [(compressed.len() as u64).to_le_bytes(), (body.len() as u64).to_le_bytes()];
    let behind = [&lengths[0][..], &lengths[1], &compressed].concat();
    let version = backtrail_profile::file::VERSION.to_le_bytes();
    [b"BTPROF\r\n", &version[..], blake3::hash(&behind).as_bytes(), &behind].concat()
}

/// `bytes` as zstd has them.
pub fn compressed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).expect("memory can be compressed")
}
