//! Trace files, `PROG.bttrace`: the blocks of a run, in order, thread by thread.
//!
//! A trace is a sequence of [`Step`]s for each thread: a place, the depth of its
//! frame, and whether the frame begins there. What places are called is in the
//! file's [`Legend`], so that a trace can be read without the program: they are
//! blocks of the program model, or addresses of machine code.
//!
//! ```text
//! magic     8 bytes  "BTTRACE\n"
//! version   u32      all numbers are little endian
//! chunks             of each thread, one behind the other (`chunk`)
//! index              zstd of postcard of an [`Index`]
//! trailer            where the index is: offset u64, length u64, raw length u64,
//!                    blake3 of the index 32 bytes, magic 8 bytes
//! ```
//!
//! A file is written as a stream and read where one likes: a chunk holds about a
//! million steps and the call stack at its start, so that step *n* is found by
//! reading one chunk. A file without a trailer was not finished, and is refused.
//! Reading never trusts: checksums are compared before anything is decoded, and
//! for any bytes there is a trace or an error.
//!
//! ```
//! # fn main() -> Result<(), backtrail_trace::Error> {
//! use backtrail_trace::file::{Ending, FunctionName, Kind, Legend, PlaceName, Step};
//! use backtrail_trace::file::{TraceFile, Writer};
//!
//! let mut writer = Writer::new(Vec::new())?;
//! writer.begin_thread(4711, 1)?;
//! writer.push(Step { place: 0, depth: 1, enters: true })?; // main
//! writer.push(Step { place: 2, depth: 2, enters: true })?; // f, called by main
//! writer.push(Step { place: 1, depth: 1, enters: false })?; // main, behind the call
//! writer.end_thread(Ending::Whole)?;
//! let place = |function, label| PlaceName { function, label, file: None, line: 0 };
//! let bytes = writer.finish(Legend {
//!     program: "prog".into(),
//!     build_id: String::new(),
//!     kind: Kind::Blocks,
//!     functions: ["main", "f"].map(|name| FunctionName { name: name.into() }).into(),
//!     files: vec![],
//!     places: vec![(0, place(0, 0)), (1, place(0, 1)), (2, place(1, 0))],
//!     incomplete: vec![],
//!     inlined: Default::default(),
//! })?;
//!
//! let mut file = TraceFile::open(std::io::Cursor::new(bytes))?;
//! let thread = &file.threads()[0];
//! assert_eq!((thread.process, thread.steps), (4711, 3));
//! let second = file.steps(0, 1)?.next().unwrap()?;
//! assert_eq!(file.legend().name(second.place), Some(("f", "b0".to_owned())));
//! # Ok(())
//! # }
//! ```

mod chunk;
mod range_coder;
mod read;
mod write;

use std::collections::BTreeMap;

use backtrail_plan::merged::Merged;
use serde::{Deserialize, Serialize};

use crate::Error;
pub use chunk::{CHUNK_STEPS, Frame, NOWHERE};
pub use read::{FileSteps, TraceFile};
pub use write::Writer;

/// The first bytes.
pub const MAGIC: [u8; 8] = *b"BTTRACE\n";
/// The last bytes.
pub const END_MAGIC: [u8; 8] = *b"BTTREND\n";
/// The version of the format.
pub const VERSION: u32 = 4;
/// The oldest version that can be read: version 1 did not say [`TraceFile::ended_by`],
/// version 2 not [`Legend::inlined`], and version 3 not [`TraceFile::merged`].
const OLDEST: u32 = 1;
/// The extension of trace files.
pub const EXTENSION: &str = "bttrace";

const HEADER_BYTES: u64 = 12;
const TRAILER_BYTES: u64 = 8 + 8 + 8 + 32 + 8;
/// The largest index, decompressed.
const INDEX_LIMIT: u64 = 1 << 31;

/// One executed block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Step {
    /// The block, by a number of the writer's choice that [`Legend::places`]
    /// explains.
    pub place: u32,
    /// How many frames there are, its own included: at least 1.
    pub depth: u32,
    /// Whether its frame begins here. A call from the same block may make a frame
    /// of the same depth as that of the one before it.
    pub enters: bool,
}

/// What places are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Kind {
    /// Blocks of the program model: labels are their numbers in their functions.
    Blocks,
    /// Machine code: labels are addresses relative to the module.
    Code,
}

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FunctionName {
    /// Its linkage name, or what it is called for want of one.
    pub name: String,
}

/// A place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlaceName {
    /// Its function, by position in [`Legend::functions`].
    pub function: u32,
    /// The number of the block, or its address.
    pub label: u64,
    /// The source file, by position in [`Legend::files`].
    pub file: Option<u32>,
    /// The line; 0 if it is not known.
    pub line: u32,
}

/// What a reader has to know of the program.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Legend {
    /// The program's name.
    pub program: String,
    /// Its build id, in hexadecimal; empty if it has none.
    pub build_id: String,
    /// What places are.
    pub kind: Kind,
    /// The functions.
    pub functions: Vec<FunctionName>,
    /// Source files.
    pub files: Vec<String>,
    /// The places, by increasing number. The writer keeps those that occur.
    pub places: Vec<(u32, PlaceName)>,
    /// Why the trace does not have everything, a line each.
    pub incomplete: Vec<String>,
    /// Where the lines of places were inlined, of those that were: file and line, from the
    /// innermost outwards.
    #[serde(skip)]
    pub inlined: BTreeMap<u32, Vec<(u32, u32)>>,
}

impl Legend {
    /// Fails unless every number in it is of something that there is, and the places
    /// are in order.
    fn check(&self) -> Result<(), Error> {
        if !self.places.is_sorted_by(|a, b| a.0 < b.0) {
            return Err(corrupt("its places are out of order"));
        }
        for (_, place) in &self.places {
            if place.function as usize >= self.functions.len() {
                return Err(corrupt("a place is in a function that is not there"));
            }
            if place.file.is_some_and(|file| file as usize >= self.files.len()) {
                return Err(corrupt("a place is in a file that is not there"));
            }
        }
        let mut files = self.inlined.values().flatten().map(|(file, _)| *file);
        if files.any(|file| file as usize >= self.files.len()) {
            return Err(corrupt("a place was inlined in a file that is not there"));
        }
        Ok(())
    }

    /// What a place is.
    pub fn place(&self, place: u32) -> Option<&PlaceName> {
        let at = self.places.binary_search_by_key(&place, |(number, _)| *number).ok()?;
        Some(&self.places[at].1)
    }

    /// The name of a place's function.
    pub fn function(&self, place: u32) -> Option<&str> {
        let function = self.place(place)?.function;
        Some(&self.functions.get(function as usize)?.name)
    }

    /// A label as it is written: `b3`, `0x12f0`.
    pub fn label(&self, place: &PlaceName) -> String {
        match self.kind {
            Kind::Blocks => format!("b{}", place.label),
            Kind::Code => format!("{:#x}", place.label),
        }
    }

    /// The function and the label of a place.
    pub fn name(&self, place: u32) -> Option<(&str, String)> {
        Some((self.function(place)?, self.label(self.place(place)?)))
    }

    /// The source file and the line of a place.
    pub fn line(&self, place: u32) -> Option<(&str, u32)> {
        let place = self.place(place)?;
        let file = self.files.get(place.file? as usize)?;
        (place.line != 0).then_some((file, place.line))
    }

    /// The source file and the line of a place, and those where it was inlined, from the
    /// innermost outwards.
    pub fn lines(&self, place: u32) -> impl Iterator<Item = (&str, u32)> {
        let outer = self.inlined.get(&place).into_iter().flatten();
        let outer =
            outer.filter_map(|&(file, line)| Some((self.files.get(file as usize)?.as_str(), line)));
        self.line(place).into_iter().chain(outer)
    }
}

/// How the trace of a thread ends.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Ending {
    /// With the thread.
    Whole,
    /// Before: what followed is not known, because of this.
    Unknown(String),
}

/// A thread in a trace file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ThreadIndex {
    /// The process.
    pub process: u32,
    /// The number of the thread in it, from 1, in the order of first steps.
    pub thread: u32,
    /// How many steps there are.
    pub steps: u64,
    /// How they end.
    pub ending: Ending,
    chunks: Vec<ChunkIndex>,
}

impl ThreadIndex {
    /// How many bytes its chunks take.
    pub fn bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.bytes).sum()
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct ChunkIndex {
    offset: u64,
    bytes: u64,
    steps: u64,
    checksum: [u8; 16],
}

/// What is behind the chunks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Index {
    legend: Legend,
    threads: Vec<ThreadIndex>,
    /// The signal that ended the program.
    ended_by: Option<i32>,
    /// [`Legend::inlined`].
    inlined: BTreeMap<u32, Vec<(u32, u32)>>,
    /// How far the runs were compared that it was put together from.
    merged: Option<Merged>,
}

fn checksum(bytes: &[u8]) -> [u8; 16] {
    *blake3::hash(bytes).as_bytes().first_chunk().expect("a hash is longer")
}

/// A trace file that cannot be.
fn corrupt(what: &'static str) -> Error {
    Error::CorruptTrace(what)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_legend_names_what_is_there() {
        let place = |function, file| PlaceName { function, label: 0, file, line: 1 };
        let check = |places: Vec<(u32, PlaceName)>| {
            let legend = Legend {
                program: String::new(),
                build_id: String::new(),
                kind: Kind::Code,
                functions: vec![FunctionName { name: "f".into() }],
                files: vec!["a.c".into()],
                places,
                incomplete: vec![],
                inlined: BTreeMap::new(),
            };
            legend.check().is_ok()
        };
        assert!(check(vec![]) && check(vec![(3, place(0, None)), (u32::MAX, place(0, Some(0)))]));
        assert!(!check(vec![(3, place(1, None))]));
        assert!(!check(vec![(3, place(0, Some(1)))]));
        assert!(!check(vec![(3, place(0, None)), (2, place(0, None))]));
    }

    /// Those before said nothing of inlining, and the first nothing of signals.
    #[test]
    fn files_of_earlier_versions_are_read() {
        let legend = || Legend {
            program: "p".into(),
            build_id: String::new(),
            kind: Kind::Blocks,
            functions: vec![FunctionName { name: "f".into() }],
            files: vec!["a.c".into()],
            places: vec![(0, PlaceName { function: 0, label: 0, file: Some(0), line: 7 })],
            incomplete: vec![],
            inlined: BTreeMap::new(),
        };
        let mut writer = Writer::new(Vec::new()).unwrap();
        writer.begin_thread(1, 1).unwrap();
        writer.push(Step { place: 0, depth: 1, enters: true }).unwrap();
        writer.end_thread(Ending::Whole).unwrap();
        let bytes = writer.finish(legend()).unwrap();
        let trailer = bytes.len() - TRAILER_BYTES as usize;
        let offset = u64::from_le_bytes(*bytes[trailer..].first_chunk().unwrap()) as usize;
        let index = zstd::decode_all(&bytes[offset..trailer]).unwrap();
        for (version, missing) in [(VERSION, 0), (3, 1), (2, 2), (1, 3)] {
            let raw = &index[..index.len() - missing];
            let packed = zstd::encode_all(raw, 3).unwrap();
            let mut old = bytes[..offset].to_vec();
            old[MAGIC.len()..HEADER_BYTES as usize].copy_from_slice(&version.to_le_bytes());
            old.extend(&packed);
            for number in [offset, packed.len(), raw.len()] {
                old.extend((number as u64).to_le_bytes());
            }
            old.extend(blake3::hash(&packed).as_bytes());
            old.extend(END_MAGIC);
            let mut file = TraceFile::open(std::io::Cursor::new(old)).unwrap();
            assert_eq!((file.legend(), file.ended_by()), (&legend(), None), "{version}");
            assert_eq!(file.legend().lines(0).collect::<Vec<_>>(), [("a.c", 7)]);
            assert_eq!(file.steps(0, 0).unwrap().count(), 1, "{version}");
        }
    }
}
