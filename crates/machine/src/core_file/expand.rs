//! Compressed cores.
//!
//! A core that was compressed is expanded into a temporary file without a
//! name: memory is read from it at random, and cores can be larger than
//! memory. Blocks of zeros become holes.

use std::fs::File;
use std::io::{self, Read, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use crate::Error;
use backtrail_foreign::file;

const ZSTD: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const LZ4_FRAME: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];
/// Of formats that are not read, to name them.
const OTHERS: [(&[u8], &str, &str); 4] = [
    (&[0x1f, 0x8b], "gzip", "gunzip"),
    (&[0xfd, b'7', b'z', b'X', b'Z'], "xz", "unxz"),
    (b"BZh", "bzip2", "bunzip2"),
    (&[0x02, 0x21, 0x4c, 0x18], "old lz4", "lz4 -d"),
];

const BLOCK: usize = 64 << 10;

/// Opens a core, expanded if it was compressed.
pub fn open(path: &Path, remarks: &mut Vec<String>) -> Result<File, Error> {
    if path.is_dir() {
        let what = "a folder, not a core dump".to_owned();
        return Err(Error::Core { path: path.to_owned(), what });
    }
    let mut file = file::open(path).map_err(Error::read(path))?;
    let mut magic = [0; 6];
    let got = read_start(&mut file, &mut magic).map_err(Error::read(path))?;
    let magic = &magic[..got];
    if let Some((_, name, tool)) = OTHERS.iter().find(|(start, ..)| magic.starts_with(start)) {
        let what = format!(
            "compressed with {name}, which is not read (zstd and lz4 are): expand it with `{tool}` \
             first"
        );
        return Err(Error::Core { path: path.to_owned(), what });
    }
    let start = |file: &mut File| file.seek(SeekFrom::Start(0)).map_err(Error::read(path));
    let expanded = if magic.starts_with(&ZSTD) {
        start(&mut file)?;
        let decoder = zstd::stream::read::Decoder::new(file).map_err(Error::read(path))?;
        expand(decoder)
    } else if magic.starts_with(&LZ4_FRAME) {
        start(&mut file)?;
        expand(lz4_flex::frame::FrameDecoder::new(file))
    } else {
        return Ok(file);
    };
    let (file, length, problem) = expanded.map_err(Error::read(path))?;
    if let Some(problem) = problem {
        remarks.push(format!(
            "the compressed core ends early or is damaged ({problem}): {length} bytes of it could \
             be expanded"
        ));
    }
    Ok(file)
}

fn read_start(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    let mut filled = 0;
    while filled < buffer.len() {
        match file.read(&mut buffer[filled..])? {
            0 => break,
            count => filled += count,
        }
    }
    file.seek(SeekFrom::Start(0))?;
    Ok(filled)
}

/// What could be expanded, how much that is, and why it is not all.
fn expand(mut from: impl Read) -> io::Result<(File, u64, Option<String>)> {
    let mut file = tempfile::tempfile()?;
    let mut length = 0u64;
    let mut block = vec![0; BLOCK];
    let mut problem = None;
    loop {
        let count = match from.read(&mut block) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                problem = Some(error.to_string().to_lowercase());
                break;
            }
        };
        let block = &block[..count];
        if block.iter().any(|&byte| byte != 0) {
            file.seek(SeekFrom::Start(length))?;
            file.write_all(block)?;
        }
        length += count as u64;
    }
    file.set_len(length)?;
    Ok((file, length, problem))
}
