//! The files of the tool, taken apart and put together again around other contents.
//!
//! A file that is damaged anywhere is refused by the sum that it has, and what is
//! behind the sum is never reached. So a file is seen as layers here: the file as it is,
//! and each part of it that is compressed or has a sum, by itself. Contents that were
//! changed are compressed again, get the length and the sum that they should have, and
//! stand in a file that is otherwise the same. This is written from the descriptions of
//! the formats and shares nothing with the code under test, which therefore cannot be
//! wrong in the same way.

use anyhow::{Context as _, Result, ensure};
use object::{Object as _, ObjectSection as _};
use serde::{Deserialize, Serialize};

/// The file with other contents somewhere.
type Put<'a> = Box<dyn Fn(&[u8]) -> Vec<u8> + 'a>;

/// Something in a file.
pub struct Layer<'a> {
    /// What it is called on the page.
    pub name: &'static str,
    /// As it is, decompressed.
    pub contents: Vec<u8>,
    /// Whether there is a sum before it.
    pub has_sum: bool,
    put: Put<'a>,
}

impl<'a> Layer<'a> {
    fn new(name: &'static str, contents: Vec<u8>, put: impl Fn(&[u8]) -> Vec<u8> + 'a) -> Self {
        Self { name, contents, has_sum: true, put: Box::new(put) }
    }

    /// The file with other contents here.
    pub fn put(&self, contents: &[u8]) -> Vec<u8> {
        (self.put)(contents)
    }

    /// A layer of what is a layer itself.
    fn within(self, outer: impl Fn(&[u8]) -> Vec<u8> + 'a) -> Self {
        let put = self.put;
        Self { put: Box::new(move |contents| outer(&put(contents))), ..self }
    }
}

/// The sections of ELF files that are read without a sum, or by others first.
const SECTIONS: [(&str, &str); 11] = [
    (".backtrail.frames", "table of frames"),
    (".backtrail.layout", "layout of counters"),
    (".debug_info", "DWARF"),
    (".debug_abbrev", "DWARF"),
    (".debug_line", "DWARF"),
    (".debug_str", "DWARF"),
    (".eh_frame", "unwind tables"),
    (".symtab", "symbols"),
    (".strtab", "symbols"),
    (".dynamic", "ELF"),
    (".text", "code"),
];

/// The layers of a file, without the file itself.
pub fn layers(file: &[u8]) -> Result<Vec<Layer<'_>>> {
    if file.starts_with(b"\x7fELF") {
        return of_elf(file);
    }
    if file.starts_with(b"BTSIDE\r\n") {
        return of_side_file(file);
    }
    if file.starts_with(b"BTPROF\r\n") {
        return Ok(vec![of_profile(file)?]);
    }
    if file.starts_with(b"BTTRACE\n") {
        return of_trace(file);
    }
    Ok(Vec::new())
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    zstd::bulk::compress(bytes, 1).expect("memory can be compressed")
}

fn unpacked(bytes: &[u8]) -> Result<Vec<u8>> {
    zstd::stream::decode_all(bytes).context("a valid file is not compressed by zstd")
}

fn number(bytes: &[u8], at: usize) -> Result<u64> {
    let bytes = bytes.get(at..at + 8).context("a valid file is too short")?;
    Ok(u64::from_le_bytes(bytes.try_into()?))
}

/// A carried record: its kind (magic and version), length, half of a hash of length and
/// body, and the body.
fn frame(kind: &[u8], body: &[u8]) -> Vec<u8> {
    let length = (body.len() as u64).to_le_bytes();
    let hash = blake3::hash(&[&length, body].concat());
    [kind, &length, &hash.as_bytes()[..16], body].concat()
}

/// The bytes of a record's kind.
const KIND: usize = 12;

/// The bytes before a record's body.
const FRAME: usize = KIND + 24;

/// The bodies of the records in a section, and where each record is.
fn frames(section: &[u8]) -> Result<Vec<(std::ops::Range<usize>, &[u8])>> {
    let (mut found, mut at) = (Vec::new(), 0);
    loop {
        at += section[at..].iter().take_while(|&&byte| byte == 0).count();
        if at == section.len() {
            return Ok(found);
        }
        let end = at + FRAME + number(section, at + KIND)? as usize;
        let body = section.get(at + FRAME..end).context("a valid record is cut short")?;
        ensure!(
            frame(&section[at..at + KIND], body) == section[at..end],
            "a valid sum does not hold"
        );
        found.push((at..end, body));
        at = end;
    }
}

/// The strings in a body, each of which has its length before it.
fn strings(mut body: &[u8]) -> Result<Vec<&[u8]>> {
    let mut found = Vec::new();
    while !body.is_empty() {
        let length = number(body, 0)? as usize;
        found.push(body.get(8..8 + length).context("a valid string is cut short")?);
        body = &body[8 + length..];
    }
    Ok(found)
}

fn join(strings: &[&[u8]]) -> Vec<u8> {
    let with_length = |it: &&[u8]| [&(it.len() as u64).to_le_bytes(), *it].concat();
    strings.iter().flat_map(with_length).collect()
}

/// `strings` with another at a place.
fn with_string(strings: &[&[u8]], place: usize, other: &[u8]) -> Vec<u8> {
    let mut strings = strings.to_vec();
    strings[place] = other;
    join(&strings)
}

/// The contents of the records in a section: of each unit three, of the link one.
fn of_records(section: Vec<u8>, are_units: bool) -> Result<Vec<Layer<'static>>> {
    const PARTS: [&str; 3] = ["unit", "bitcode", "program model"];
    let mut found = Vec::new();
    for (range, body) in frames(&section)? {
        let with_record = |kind: Vec<u8>| {
            let (before, behind) = (section[..range.start].to_vec(), section[range.end..].to_vec());
            move |body: &[u8]| [&before[..], &frame(&kind, body), &behind].concat()
        };
        let kind = section[range.start..range.start + KIND].to_vec();
        if !are_units {
            let put = with_record(kind);
            let contents = unpacked(body)?;
            found.push(Layer::new("link recipe", contents, move |new| put(&packed(new))));
            continue;
        }
        let parts: Vec<Vec<u8>> = strings(body)?.iter().map(|it| it.to_vec()).collect();
        for (place, name) in PARTS.into_iter().enumerate() {
            let Some(part) = parts.get(place).filter(|it| !it.is_empty()) else { continue };
            let (put, contents, parts) =
                (with_record(kind.clone()), unpacked(part)?, parts.clone());
            found.push(Layer::new(name, contents, move |new| {
                let parts: Vec<&[u8]> = parts.iter().map(Vec::as_slice).collect();
                put(&with_string(&parts, place, &packed(new)))
            }));
        }
    }
    Ok(found)
}

fn of_elf(file: &[u8]) -> Result<Vec<Layer<'_>>> {
    let elf = object::File::parse(file)?;
    let mut found = Vec::new();
    let contents = |name: &str| -> Result<Option<Vec<u8>>> {
        let section = elf.section_by_name(name);
        section.map(|it| Ok(it.data()?.to_vec())).transpose()
    };
    for (name, are_units) in [(".backtrail.units", true), (".backtrail.link", false)] {
        let Some(section) = contents(name)? else { continue };
        for layer in of_records(section, are_units)? {
            found.push(layer.within(move |new| with_section(file, name, new)));
        }
    }
    if let Some(section) = contents(".backtrail.tune")? {
        for (range, body) in frames(&section)? {
            let kind = section[range.start..range.start + KIND].to_vec();
            found.push(Layer::new("switches", body.to_vec(), move |new| {
                with_section(file, ".backtrail.tune", &frame(&kind, new))
            }));
        }
    }
    for (name, called) in SECTIONS {
        if let Some(section) = contents(name)?.filter(|it| !it.is_empty()) {
            let layer = Layer::new(called, section, move |new| with_section(file, name, new));
            found.push(Layer { has_sum: false, ..layer });
        }
    }
    Ok(found)
}

/// An ELF file whose section `name` has other contents: in its place if they are no
/// longer, or else behind everything. A section that is not there stays so.
fn with_section(file: &[u8], name: &str, new: &[u8]) -> Vec<u8> {
    const HEADER: usize = 64;
    let mut out = file.to_vec();
    let place = object::File::parse(file).ok().and_then(|elf| {
        let section = elf.section_by_name(name)?;
        Some((section.index().0, section.file_range()?))
    });
    let Some((index, (offset, size))) = place else { return out };
    let headers = number(file, 40).unwrap_or_default() as usize;
    let header = headers + index * HEADER;
    let begin = if new.len() as u64 <= size { offset as usize } else { out.len() };
    if begin == out.len() {
        out.extend(new);
    } else {
        out[begin..begin + new.len()].copy_from_slice(new);
    }
    out[header + 24..header + 32].copy_from_slice(&(begin as u64).to_le_bytes());
    out[header + 32..header + 40].copy_from_slice(&(new.len() as u64).to_le_bytes());
    out
}

/// A side file: a record of strings, two of which are sections of records.
fn of_side_file(file: &[u8]) -> Result<Vec<Layer<'_>>> {
    let (_, body) = *frames(file)?.first().context("a valid side file is empty")?;
    let parts = strings(body)?;
    let put = |place: usize| {
        let parts = parts.clone();
        move |new: &[u8]| frame(&file[..KIND], &with_string(&parts, place, new))
    };
    let mut found = Vec::new();
    for (place, are_units) in [(1, true), (2, false)] {
        for layer in of_records(parts[place].to_vec(), are_units)? {
            found.push(layer.within(put(place)));
        }
    }
    if let Some(frames) = parts.get(3) {
        found.push(Layer::new("table of frames", frames.to_vec(), put(3)));
    }
    found.push(Layer::new("side file", body.to_vec(), |new| frame(&file[..KIND], new)));
    Ok(found)
}

/// A profile: magic, version, a hash of what follows, two lengths, the body.
fn of_profile(file: &[u8]) -> Result<Layer<'_>> {
    let body = file.get(60..).context("a valid profile is too short")?;
    Ok(Layer::new("profile", unpacked(body)?, |new| {
        let body = packed(new);
        let lengths = [body.len() as u64, new.len() as u64].map(u64::to_le_bytes);
        let behind = [lengths.as_flattened(), &body].concat();
        [&file[..12], blake3::hash(&behind).as_bytes(), &behind].concat()
    }))
}

/// The index of a trace, as far as it has to be known: postcard has numbers of any
/// width and the variants of an enumeration in the same form.
#[derive(Serialize, Deserialize, Clone)]
struct Index {
    legend: Legend,
    threads: Vec<(u32, u32, u64, Ending, Vec<Chunk>)>,
    /// The signal that ended the program.
    ended_by: Option<i32>,
    /// By place: files and lines that it was inlined into.
    inlined: Vec<(u32, Vec<(u32, u32)>)>,
    merged: Option<Merged>,
}

/// How many runs, whether they were compared, by what, what could differ.
type Merged = (u32, bool, Vec<String>, Vec<String>);

/// Program, build id, kind, functions, files, places, why it is not complete.
type Legend = (String, String, u32, Vec<String>, Vec<String>, Vec<(u32, Place)>, Vec<String>);

/// Function, label, file, line.
type Place = (u32, u64, Option<u32>, u32);

#[derive(Serialize, Deserialize, Clone)]
enum Ending {
    Whole,
    Unknown(String),
}

/// Where it is, how long, how many steps, half of a hash.
type Chunk = (u64, u64, u64, [u8; 16]);

/// A trace: magic and version, chunks, index, and where the index is.
fn of_trace(file: &[u8]) -> Result<Vec<Layer<'_>>> {
    const HEADER: usize = 12;
    const TRAILER: usize = 64;
    let end = file.len().checked_sub(TRAILER).context("a valid trace is too short")?;
    let offset = number(file, end)? as usize;
    let index = unpacked(&file[offset..end])?;
    let with_index = |chunks: &[u8], index: &[u8]| {
        let body = packed(index);
        let numbers = [(HEADER + chunks.len()) as u64, body.len() as u64, index.len() as u64];
        let numbers = numbers.map(u64::to_le_bytes);
        let hash = blake3::hash(&body);
        let parts = [&file[..HEADER], chunks, &body, numbers.as_flattened(), hash.as_bytes()];
        [&parts.concat()[..], b"BTTREND\n"].concat()
    };
    let read: Index = postcard::from_bytes(&index).context("the index of a valid trace")?;
    ensure!(postcard::to_stdvec(&read)? == index, "the index of a valid trace is another");
    let mut found = vec![Layer::new("index of a trace", index, move |new| {
        with_index(&file[HEADER..offset], new)
    })];
    for (thread, of_thread) in read.threads.iter().enumerate() {
        for (place, &(offset, bytes, ..)) in of_thread.4.iter().enumerate() {
            let range = offset as usize..(offset + bytes) as usize;
            let chunk = &file[range.clone()];
            // Chunks are put behind all others when they change, and found there.
            let read = read.clone();
            let before = file[HEADER..number(file, end)? as usize].to_vec();
            let put = move |new: &[u8]| {
                let mut index = read.clone();
                let hash = *blake3::hash(new).as_bytes();
                let (at, length) = ((HEADER + before.len()) as u64, new.len() as u64);
                let entry = &mut index.threads[thread].4[place];
                let half = *hash.first_chunk().expect("a hash is longer");
                (entry.0, entry.1, entry.3) = (at, length, half);
                let index = postcard::to_stdvec(&index).expect("memory can be written");
                with_index(&[&before[..], new].concat(), &index)
            };
            // Two lengths, a table that is compressed, and decisions.
            let length = u32::from_le_bytes(chunk[4..8].try_into()?) as usize;
            let (table, decisions) =
                (unpacked(&chunk[8..8 + length])?, chunk[8 + length..].to_vec());
            found.push(Layer::new("chunk of a trace", chunk.to_vec(), put.clone()));
            found.push(Layer::new("table of a chunk", table, move |new| {
                let body = packed(new);
                let lengths = [new.len() as u32, body.len() as u32].map(u32::to_le_bytes);
                put(&[lengths.as_flattened(), &body, &decisions].concat())
            }));
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Contents that are put back give the file, and others are read again as they are.
    fn check(file: &[u8], names: &[&str]) {
        let all = layers(file).unwrap();
        assert_eq!(all.iter().map(|it| it.name).collect::<Vec<_>>(), names);
        for (place, layer) in all.iter().enumerate() {
            let again = layer.put(&layer.contents);
            assert_eq!(layers(&again).unwrap()[place].contents, layer.contents, "{}", layer.name);
        }
    }

    #[test]
    fn profiles_get_the_sums_that_they_should_have() {
        let header = [&b"BTPROF\r\n\x03\0\0\0"[..], &[0; 48]].concat();
        let file = of_profile(&[header, packed(b"some profile")].concat()).unwrap().put(b"another");
        check(&file, &["profile"]);
        assert_eq!(file[12..44], *blake3::hash(&file[44..]).as_bytes());
        assert_eq!(unpacked(&file[60..]).unwrap(), b"another");
    }

    #[test]
    fn side_files_hold_units_and_recipes() {
        let unit = join(&[&packed(b"meta"), &packed(b"BC"), &packed(b"model")]);
        let units = [
            frame(b"BTUNIT\r\n\x03\0\0\0", &unit),
            vec![0; 3],
            frame(b"BTUNIT\r\n\x03\0\0\0", &unit),
        ];
        let link = frame(b"BTLINK\r\n\x03\0\0\0", &packed(b"recipe"));
        let body = join(&[b"id", &units.concat(), &link, b"frames"]);
        let file = frame(b"BTSIDE\r\n\x03\0\0\0", &body);
        let parts = ["unit", "bitcode", "program model"];
        let behind = ["link recipe", "table of frames", "side file"];
        check(&file, &[&parts[..], &parts, &behind].concat());
        let other = layers(&file).unwrap()[1].put(b"other bitcode");
        let read: Vec<Vec<u8>> =
            layers(&other).unwrap().into_iter().map(|it| it.contents).collect();
        assert_eq!(read[..4], [&b"meta"[..], b"other bitcode", b"model", b"meta"]);
    }

    #[test]
    fn chunks_of_traces_are_found_where_the_index_says() {
        let table = packed(b"table");
        let lengths = [5u32, table.len() as u32].map(u32::to_le_bytes);
        let chunk = [lengths.as_flattened(), &table, b"decisions"].concat();
        let half = *blake3::hash(&chunk).as_bytes().first_chunk().unwrap();
        let chunks = vec![(12, chunk.len() as u64, 3, half)];
        let ending = Ending::Unknown("killed".into());
        let threads = vec![(1, 1, 3, ending, chunks)];
        let merged = Some((2, true, vec!["their ends".to_owned()], vec![]));
        let inlined = vec![(0, vec![(1, 2)])];
        let legend = Legend::default();
        let index = Index { legend, threads, ended_by: Some(15), inlined, merged };
        let body = packed(&postcard::to_stdvec(&index).unwrap());
        let numbers = [(12 + chunk.len()) as u64, body.len() as u64, 0].map(u64::to_le_bytes);
        let header = b"BTTRACE\n\x04\0\0\0";
        let file = [&header[..], &chunk, &body, numbers.as_flattened(), &[0; 32], b"BTTREND\n"];
        let file = file.concat();
        check(&file, &["index of a trace", "chunk of a trace", "table of a chunk"]);
        let other = layers(&file).unwrap()[2].put(b"a longer table");
        let read = layers(&other).unwrap();
        assert_eq!(read[2].contents, b"a longer table");
        assert!(read[1].contents.ends_with(b"decisions"));
    }

    #[test]
    fn sections_that_grow_are_put_behind_everything() {
        let file = std::fs::read(std::env::current_exe().unwrap()).unwrap();
        for length in [3, 1_000_000] {
            let made = with_section(&file, ".comment", &vec![7; length]);
            let elf = object::File::parse(&*made).unwrap();
            assert_eq!(elf.section_by_name(".comment").unwrap().data().unwrap().len(), length);
        }
        assert_eq!(with_section(&file, ".none", b"x"), file);
    }
}
