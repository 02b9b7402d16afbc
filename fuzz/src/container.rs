//! Valid containers around any contents, written from the descriptions of the
//! formats and not by the code under test.

use backtrail_trace::file::{self, Ending, Kind, Legend};

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

/// What is before the chunks of a trace file, and behind its index.
const TRACE_HEADER: usize = 12;
const TRACE_TRAILER: usize = 64;

/// A chunk in the index of a trace file: where, how long, steps, half of a hash.
type Chunk = (u64, u64, u64, [u8; 16]);

/// A thread in it: process, thread, steps, how it ends, chunks.
type Thread = (u32, u32, u64, Ending, Vec<Chunk>);

/// A trace file with this index, before it is compressed, and these chunks.
pub fn trace_file(index: &[u8], chunks: &[u8]) -> Vec<u8> {
    let packed = compressed(index);
    let offset = (TRACE_HEADER + chunks.len()) as u64;
    let numbers = [offset, packed.len() as u64, index.len() as u64].map(u64::to_le_bytes);
    let hash = blake3::hash(&packed);
    let version = file::VERSION.to_le_bytes();
    let head = [&b"BTTRACE\n"[..], &version, chunks, &packed].concat();
    [&head[..], numbers.as_flattened(), hash.as_bytes(), b"BTTREND\n"].concat()
}

/// A trace file of one chunk with this table, before it is compressed.
pub fn trace_of_chunk(steps: u64, table: &[u8], decisions: &[u8]) -> Vec<u8> {
    let packed = compressed(table);
    let lengths = [table.len() as u32, packed.len() as u32].map(u32::to_le_bytes);
    let chunk = [lengths.as_flattened(), &packed, decisions].concat();
    let hash = blake3::hash(&chunk);
    let hash = *hash.as_bytes().first_chunk().expect("a hash is longer");
    let chunks = vec![(TRACE_HEADER as u64, chunk.len() as u64, steps, hash)];
    let threads: Vec<Thread> = vec![(1, 1, steps, Ending::Whole, chunks)];
    let legend = Legend {
        program: "program".into(),
        build_id: String::new(),
        kind: Kind::Blocks,
        functions: Vec::new(),
        files: Vec::new(),
        places: Vec::new(),
        incomplete: Vec::new(),
    };
    let index = postcard::to_stdvec(&(legend, threads)).expect("memory can be written");
    trace_file(&index, &chunk)
}

/// The index of a valid trace file, decompressed, and what is before it.
pub fn parts_of_trace(file: &[u8]) -> (Vec<u8>, &[u8]) {
    let (body, trailer) = file.split_at(file.len() - TRACE_TRAILER);
    let number = |at: usize| {
        let bytes = trailer[at * 8..].first_chunk().expect("a trailer has three numbers");
        u64::from_le_bytes(*bytes) as usize
    };
    let (chunks, packed) = body.split_at(number(0));
    let index = zstd::bulk::decompress(packed, number(2)).expect("the file is valid");
    (index, &chunks[TRACE_HEADER..])
}

/// The chunks of a valid trace file: steps, table, decisions.
pub fn chunks_of_trace(file: &[u8]) -> Vec<(u64, Vec<u8>, &[u8])> {
    let (index, _) = parts_of_trace(file);
    let (_, threads): (Legend, Vec<Thread>) =
        postcard::from_bytes(&index).expect("the file is valid");
    let cut = |(offset, bytes, steps, _): Chunk| {
        let chunk = &file[offset as usize..][..bytes as usize];
        let (lengths, rest) = chunk.split_at(8);
        let number = |at: usize| {
            let bytes = lengths[at * 4..].first_chunk().expect("there are two numbers");
            u32::from_le_bytes(*bytes) as usize
        };
        let (packed, decisions) = rest.split_at(number(1));
        let table = zstd::bulk::decompress(packed, number(0)).expect("the file is valid");
        (steps, table, decisions)
    };
    threads.into_iter().flat_map(|it| it.4).map(cut).collect()
}
