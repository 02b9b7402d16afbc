//! Reading a trace file, from wherever one likes.

use std::io::{Read, Seek, SeekFrom};

use backtrail_foreign::packed::unpack_exactly;

use super::chunk::{CHUNK_STEPS, Frame, Steps};
use super::{
    END_MAGIC, HEADER_BYTES, INDEX_LIMIT, Index, Legend, MAGIC, Merged, OLDEST, Step,
    TRAILER_BYTES, ThreadIndex, VERSION, checksum, corrupt,
};
use crate::Error;

/// An open trace file.
#[derive(Debug)]
pub struct TraceFile<R> {
    input: R,
    length: u64,
    index: Index,
}

const WHAT: &str = "trace file";

fn unread(source: std::io::Error) -> Error {
    Error::Read { what: WHAT, source }
}

impl<R: Read + Seek> TraceFile<R> {
    /// Reads what is behind the chunks.
    pub fn open(mut input: R) -> Result<Self, Error> {
        let length = input.seek(SeekFrom::End(0)).map_err(unread)?;
        input.seek(SeekFrom::Start(0)).map_err(unread)?;
        let mut header = Vec::new();
        input.by_ref().take(HEADER_BYTES).read_to_end(&mut header).map_err(unread)?;
        let Some(version) = header.strip_prefix(&MAGIC) else {
            let mut found = [0; 8];
            let known = header.len().min(8);
            found[..known].copy_from_slice(&header[..known]);
            return Err(Error::NotOurs { what: WHAT, found });
        };
        let unfinished = || Error::UnfinishedTrace;
        let version = u32::from_le_bytes(version.try_into().map_err(|_| unfinished())?);
        if !(OLDEST..=VERSION).contains(&version) {
            return Err(Error::UnsupportedTrace(version));
        }
        let trailer_at = length.checked_sub(TRAILER_BYTES).filter(|&at| at >= HEADER_BYTES);
        let trailer_at = trailer_at.ok_or_else(unfinished)?;
        let trailer = read_at(&mut input, trailer_at, TRAILER_BYTES)?;
        let Some(trailer) = trailer.strip_suffix(&END_MAGIC) else { return Err(unfinished()) };
        let number = |at: usize| {
            let bytes = trailer[at * 8..].first_chunk().expect("a trailer has three numbers");
            u64::from_le_bytes(*bytes)
        };
        let (offset, bytes, raw) = (number(0), number(1), number(2));
        let end = offset.checked_add(bytes).filter(|&end| end == trailer_at);
        if end.is_none() || offset < HEADER_BYTES || raw > INDEX_LIMIT {
            return Err(corrupt("its index is not where it should be"));
        }
        let packed = read_at(&mut input, offset, bytes)?;
        if blake3::hash(&packed).as_bytes() != &trailer[24..] {
            return Err(corrupt("the checksum of its index is wrong"));
        }
        let mut raw = unpack_exactly(&packed, raw)
            .map_err(|_| corrupt("its index cannot be decompressed"))?;
        // What it did not say: nothing of it.
        raw.extend((version..VERSION).map(|_| 0));
        let mut index: Index =
            postcard::from_bytes(&raw).map_err(|_| corrupt("its index cannot be read"))?;
        index.legend.inlined = std::mem::take(&mut index.inlined);
        index.legend.check()?;
        for thread in &index.threads {
            let steps = thread.chunks.iter().try_fold(0u64, |sum, chunk| {
                let fits = chunk.offset.checked_add(chunk.bytes).is_some_and(|end| end <= offset);
                let fits = fits && chunk.steps <= CHUNK_STEPS as u64;
                fits.then(|| sum.checked_add(chunk.steps))?
            });
            if steps != Some(thread.steps) {
                return Err(corrupt("its index does not fit"));
            }
        }
        Ok(Self { input, length, index })
    }

    /// How long the file is.
    pub fn bytes(&self) -> u64 {
        self.length
    }

    /// What its places are.
    pub fn legend(&self) -> &Legend {
        &self.index.legend
    }

    /// The signal that ended the program, if one did.
    pub fn ended_by(&self) -> Option<i32> {
        self.index.ended_by
    }

    /// How far the runs were compared that it was put together from, if it was.
    pub fn merged(&self) -> Option<&Merged> {
        self.index.merged.as_ref()
    }

    /// Its threads.
    pub fn threads(&self) -> &[ThreadIndex] {
        &self.index.threads
    }

    /// The steps of a thread, by its position in the file, from step `from` on.
    pub fn steps(&mut self, thread: usize, from: u64) -> Result<FileSteps<'_, R>, Error> {
        let mut steps = FileSteps { file: self, thread, chunk: 0, current: Vec::new(), at: 0 };
        let mut skip = from;
        let chunks = steps.file.index.threads.get(thread).map_or(&[][..], |it| &it.chunks);
        for chunk in chunks {
            if skip < chunk.steps {
                break;
            }
            skip -= chunk.steps;
            steps.chunk += 1;
        }
        if skip > 0 && steps.chunk < chunks.len() {
            steps.fill()?;
            steps.at = skip as usize;
        }
        Ok(steps)
    }

    /// The frames of a thread just before step `at`, the outermost first.
    pub fn frames(&mut self, thread: usize, at: u64) -> Result<Vec<Frame>, Error> {
        let chunks = self.index.threads.get(thread).map_or(&[][..], |it| &it.chunks);
        let mut skip = at;
        for number in 0..chunks.len() {
            let chunk = self.index.threads[thread].chunks[number].clone();
            let is_last = number + 1 == self.index.threads[thread].chunks.len();
            if skip < chunk.steps || is_last {
                let bytes = self.chunk(thread, number)?;
                let mut steps = Steps::new(&bytes, chunk.steps)?;
                for step in steps.by_ref().take(skip as usize) {
                    step?;
                }
                return Ok(steps.frames().to_vec());
            }
            skip -= chunk.steps;
        }
        Ok(Vec::new())
    }

    fn chunk(&mut self, thread: usize, number: usize) -> Result<Vec<u8>, Error> {
        let chunk = self.index.threads[thread].chunks[number].clone();
        let bytes = read_at(&mut self.input, chunk.offset, chunk.bytes)?;
        if checksum(&bytes) != chunk.checksum {
            return Err(corrupt("the checksum of a chunk is wrong"));
        }
        Ok(bytes)
    }
}

fn read_at(input: &mut (impl Read + Seek), offset: u64, bytes: u64) -> Result<Vec<u8>, Error> {
    input.seek(SeekFrom::Start(offset)).map_err(unread)?;
    let mut found = Vec::new();
    input.take(bytes).read_to_end(&mut found).map_err(unread)?;
    if found.len() as u64 != bytes {
        return Err(corrupt("it ends too early"));
    }
    Ok(found)
}

/// Steps of a thread, chunk by chunk.
#[derive(Debug)]
pub struct FileSteps<'f, R> {
    file: &'f mut TraceFile<R>,
    thread: usize,
    /// The next chunk.
    chunk: usize,
    current: Vec<Step>,
    at: usize,
}

impl<R: Read + Seek> FileSteps<'_, R> {
    /// Decodes the next chunk, if there is one.
    fn fill(&mut self) -> Result<bool, Error> {
        let thread = self.file.index.threads.get(self.thread);
        let Some(steps) = thread.and_then(|it| it.chunks.get(self.chunk)).map(|it| it.steps) else {
            return Ok(false);
        };
        let bytes = self.file.chunk(self.thread, self.chunk)?;
        self.chunk += 1;
        self.at = 0;
        self.current.clear();
        for step in Steps::new(&bytes, steps)? {
            self.current.push(step?);
        }
        Ok(true)
    }
}

impl<R: Read + Seek> Iterator for FileSteps<'_, R> {
    type Item = Result<Step, Error>;

    #[inline]
    fn next(&mut self) -> Option<Self::Item> {
        loop {
            if let Some(&step) = self.current.get(self.at) {
                self.at += 1;
                return Some(Ok(step));
            }
            match self.fill() {
                Ok(true) => {}
                Ok(false) => return None,
                Err(error) => {
                    self.chunk = usize::MAX;
                    self.current.clear();
                    return Some(Err(error));
                }
            }
        }
    }
}
