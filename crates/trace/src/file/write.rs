//! Writing a trace file, as a stream.
//!
//! Steps of a chunk are collected and then encoded by another thread, so that
//! whoever finds them out goes on meanwhile. Memory does not depend on the length
//! of the trace.

use std::collections::VecDeque;
use std::io::Write;
use std::thread::JoinHandle;

use backtrail_foreign::packed::pack;
use fixedbitset::FixedBitSet;

use super::chunk::{self, CHUNK_STEPS, Frames};
use super::{
    ChunkIndex, END_MAGIC, Ending, HEADER_BYTES, Index, Legend, MAGIC, Merged, Step, ThreadIndex,
    VERSION, checksum,
};
use crate::Error;

/// Chunks that are being encoded at once.
const AT_WORK: usize = 2;

/// Writes a trace file.
pub struct Writer<W> {
    out: W,
    offset: u64,
    threads: Vec<ThreadIndex>,
    /// The frames before the first of `steps`, and behind the last.
    start: Frames,
    frames: Frames,
    steps: Vec<Step>,
    /// Chunks on the way: their steps, and who encodes them.
    encoding: VecDeque<(u64, JoinHandle<Vec<u8>>)>,
    used: FixedBitSet,
    ended_by: Option<i32>,
    merged: Option<Merged>,
}

fn failed(source: std::io::Error) -> Error {
    Error::Write { what: "trace file", source }
}

impl<W: Write> Writer<W> {
    /// Begins a file.
    pub fn new(mut out: W) -> Result<Self, Error> {
        out.write_all(&MAGIC).map_err(failed)?;
        out.write_all(&VERSION.to_le_bytes()).map_err(failed)?;
        Ok(Self {
            out,
            offset: HEADER_BYTES,
            threads: Vec::new(),
            start: Frames::default(),
            frames: Frames::default(),
            steps: Vec::new(),
            encoding: VecDeque::new(),
            used: FixedBitSet::new(),
            ended_by: None,
            merged: None,
        })
    }

    /// Begins the trace of a thread, behind those before it.
    pub fn begin_thread(&mut self, process: u32, thread: u32) -> Result<(), Error> {
        let ending = Ending::Unknown("it was not written to its end".into());
        let chunks = Vec::new();
        self.threads.push(ThreadIndex { process, thread, steps: 0, ending, chunks });
        self.start = Frames::default();
        self.frames = Frames::default();
        Ok(())
    }

    /// The next step of the thread under way.
    ///
    /// # Panics
    /// If no thread was begun.
    #[inline]
    pub fn push(&mut self, step: Step) -> Result<(), Error> {
        self.steps.push(step);
        if self.steps.len() == CHUNK_STEPS { self.flush() } else { Ok(()) }
    }

    /// How many steps of the thread under way there are.
    pub fn steps(&self) -> u64 {
        self.threads.last().map_or(0, |thread| thread.steps) + self.steps.len() as u64
    }

    /// Has the steps that were collected encoded.
    fn flush(&mut self) -> Result<(), Error> {
        let steps = std::mem::take(&mut self.steps);
        for &step in &steps {
            self.frames.go(step);
            self.used.grow_and_insert(step.place as usize);
        }
        let start = std::mem::replace(&mut self.start, self.frames.clone());
        let thread = self.threads.last_mut().expect("a thread was begun");
        thread.steps += steps.len() as u64;
        self.steps.reserve_exact(CHUNK_STEPS.min(steps.len() * 2));
        let count = steps.len() as u64;
        let work = std::thread::spawn(move || chunk::encode(&start, &steps));
        self.encoding.push_back((count, work));
        if self.encoding.len() > AT_WORK { self.write_one() } else { Ok(()) }
    }

    /// Writes the chunk that was begun first.
    fn write_one(&mut self) -> Result<(), Error> {
        let Some((steps, work)) = self.encoding.pop_front() else { return Ok(()) };
        let bytes = work.join().expect("encoding does not panic");
        self.out.write_all(&bytes).map_err(failed)?;
        let thread = self.threads.last_mut().expect("a thread was begun");
        let length = bytes.len() as u64;
        let chunk =
            ChunkIndex { offset: self.offset, bytes: length, steps, checksum: checksum(&bytes) };
        thread.chunks.push(chunk);
        self.offset += length;
        Ok(())
    }

    /// Ends the trace of the thread under way.
    ///
    /// # Panics
    /// If no thread was begun.
    pub fn end_thread(&mut self, ending: Ending) -> Result<(), Error> {
        if !self.steps.is_empty() {
            self.flush()?;
        }
        while !self.encoding.is_empty() {
            self.write_one()?;
        }
        self.threads.last_mut().expect("a thread was begun").ending = ending;
        Ok(())
    }

    /// Whether the trace has come to a place so far.
    pub fn has(&self, place: u32) -> bool {
        self.used.contains(place as usize)
    }

    /// Notes that a signal ended the program.
    pub fn ended_by(&mut self, signal: i32) {
        self.ended_by = Some(signal);
    }

    /// Notes how far the runs were compared that it is put together from.
    pub fn merged(&mut self, merged: Merged) {
        self.merged = Some(merged);
    }

    /// Ends the file. Of the legend, what the trace uses is kept.
    pub fn finish(mut self, mut legend: Legend) -> Result<W, Error> {
        legend.places.retain(|(place, _)| self.used.contains(*place as usize));
        legend.places.sort_by_key(|(place, _)| *place);
        restrict(&mut legend);
        let inlined = std::mem::take(&mut legend.inlined);
        let (threads, ended_by, merged) = (self.threads, self.ended_by, self.merged);
        let index = Index { legend, threads, ended_by, inlined, merged };
        let raw = postcard::to_stdvec(&index).expect("plain data can always be written");
        let packed = pack(&raw, 9);
        let mut tail = packed.clone();
        tail.extend(self.offset.to_le_bytes());
        tail.extend((packed.len() as u64).to_le_bytes());
        tail.extend((raw.len() as u64).to_le_bytes());
        tail.extend(blake3::hash(&packed).as_bytes());
        tail.extend(END_MAGIC);
        self.out.write_all(&tail).map_err(failed)?;
        self.out.flush().map_err(failed)?;
        Ok(self.out)
    }
}

/// Drops what is known of other places, and functions and source files that no place names.
fn restrict(legend: &mut Legend) {
    let mut functions = vec![None; legend.functions.len()];
    let mut files = vec![None; legend.files.len()];
    let (mut kept_functions, mut kept_files) = (Vec::new(), Vec::new());
    let mut kept_file = |file: u32| {
        let new = files.get_mut(file as usize)?;
        Some(*new.get_or_insert_with(|| {
            kept_files.push(legend.files[file as usize].clone());
            kept_files.len() as u32 - 1
        }))
    };
    for (_, place) in &mut legend.places {
        if let Some(new) = functions.get_mut(place.function as usize) {
            place.function = *new.get_or_insert_with(|| {
                kept_functions.push(legend.functions[place.function as usize].clone());
                kept_functions.len() as u32 - 1
            });
        }
        place.file = place.file.and_then(&mut kept_file);
    }
    let is_kept = |number: &u32| legend.places.binary_search_by_key(number, |it| it.0).is_ok();
    legend.inlined.retain(|number, _| is_kept(number));
    for lines in legend.inlined.values_mut() {
        lines.retain_mut(|(file, _)| {
            let new = kept_file(*file);
            *file = new.unwrap_or_default();
            new.is_some()
        });
    }
    legend.functions = kept_functions;
    legend.files = kept_files;
}
