//! Packing the logs of threads while their program runs, so that its own threads
//! neither compress nor wait, and what they log takes little space.
//!
//! A [`Packer`] looks through folders of records for segments that are full,
//! compresses each into the packed file beside its log, and gives it back:
//! [`backtrail_abi::log`] says what a segment is, and why nothing is lost whoever is
//! stopped at whatever moment. Segments are read and written by system calls, not
//! mapped: each state is one byte that is not zero or all zeros, and what is written
//! first is seen first.
//!
//! Files of counters are packed when their processes have ended (`ended.rs`).
//!
//! What cannot be packed stays where it is, for whoever reads the log: a log whose
//! files cannot be opened, one whose disk is full. A program that logs faster than it
//! is packed finds no free segment and extends its file; once packed, such segments
//! become holes.

mod ended;
mod folders;
mod users;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use backtrail_abi::log::{
    FREE, FULL, PACKED_FILE_PREFIX, PROCESS_FILE, PackedHeader, ProcessHeader, SEGMENT,
    SEGMENT_EVENTS, SegmentHeader, THREAD_FILE_PREFIX,
};
use backtrail_foreign::say;
use folders::Folders;
use nix::fcntl::{FallocateFlags, fallocate};

/// How thoroughly: the program may log a gigabyte a second.
const LEVEL: i32 = 1;

/// How many full segments a thread may have before they are copied and not compressed:
/// it should not run out of free ones.
const TOO_MANY: usize = 16;

/// How long to wait when there was something to pack, and at most.
const SHORTEST: Duration = Duration::from_micros(500);
const LONGEST: Duration = Duration::from_millis(20);

/// How often to look for new processes and threads, and for processes that have ended.
const SEARCH: Duration = Duration::from_millis(10);

/// How many times as long as looking takes to wait before looking again.
const PAUSES: u32 = 4;

/// Folders of records that take so many bytes are large, and those that take so many
/// times as many again.
const LARGE: u64 = 1 << 30;
const LARGER: u64 = 4;

/// Packs until it is dropped.
#[derive(Debug)]
pub struct Packer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Packer {
    /// Packs what is logged in these folders of records, which need not be there yet.
    pub fn start(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let mut packing = Packing::new(roots);
        let stopped = Arc::clone(&stop);
        let pack = move || packing.go_on(|| stopped.load(Ordering::Relaxed));
        // Without such a thread everything is as it would be without packing.
        let thread = std::thread::Builder::new().name("packer".to_owned()).spawn(pack).ok();
        Self { stop, thread }
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}

/// What packs, and what it knows.
#[derive(Default)]
pub struct Packing {
    roots: Vec<Folders>,
    /// By path; those that cannot be packed are none.
    logs: BTreeMap<PathBuf, Option<Log>>,
    /// Counters of processes that have ended.
    ended: ended::Ended,
    /// By folder of a process: bytes of packed files, and kibibytes it was told of.
    packed: BTreeMap<PathBuf, (u64, u64)>,
    /// How often it was said that the folders are large.
    said: u32,
}

impl Packing {
    /// Will pack what is logged in these folders of records, which need not be there
    /// yet.
    pub fn new(roots: impl IntoIterator<Item = PathBuf>) -> Self {
        Self { roots: roots.into_iter().map(Folders::new).collect(), ..Self::default() }
    }

    /// As where the kernel does not tell who uses a file.
    pub fn without_leases(mut self) -> Self {
        self.ended.forget_leases();
        self
    }

    /// Packs what is full at the moment; gives how many segments that were.
    pub fn step(&mut self) -> usize {
        self.search(true);
        self.pack(&|| false)
    }

    fn go_on(&mut self, is_stopped: impl Fn() -> bool) {
        let mut search = Instant::now();
        let mut pause = SHORTEST;
        while !is_stopped() {
            let now = Instant::now();
            if now >= search {
                let took = self.search(false);
                search = Instant::now() + SEARCH.max(took * PAUSES);
            }
            let packed = self.pack(&is_stopped);
            pause = if packed > 0 { SHORTEST } else { (pause * 2).min(LONGEST) };
            std::thread::park_timeout(pause);
        }
        // Those that ended since.
        self.search(true);
        self.search(true);
    }

    /// Looks for logs that are not known yet, and packs the counters of processes that
    /// have ended; how long the looking took. With many processes it takes a while, and
    /// the program needs the processor, too.
    fn search(&mut self, is_last: bool) -> Duration {
        let began = Instant::now();
        let is_done = |folder: &Path| self.ended.has_done(folder);
        let living = self.roots.iter_mut().flat_map(|root| root.living(is_done));
        let folders: Vec<PathBuf> = living.cloned().collect();
        let mut taken = self.ended.taken();
        for folder in &folders {
            for path in entries(folder) {
                taken += space(&path);
                let name = path.file_name().and_then(|name| name.to_str());
                let Some(name) = name.and_then(|name| name.strip_prefix(THREAD_FILE_PREFIX)) else {
                    continue;
                };
                let packed = folder.join(format!("{PACKED_FILE_PREFIX}{name}"));
                if let Entry::Vacant(entry) = self.logs.entry(path) {
                    let log = Log::open(entry.key(), packed);
                    entry.insert(log);
                }
            }
        }
        self.tell_large(taken);
        let took = began.elapsed();
        self.ended.pack(&folders, is_last);
        took
    }

    /// Says that the folders of records are large, once they are, before they are larger.
    fn tell_large(&mut self, taken: u64) {
        let Some(root) = self.roots.first() else { return };
        if taken >= LARGE.saturating_mul(LARGER.saturating_pow(self.said)) {
            self.said += 1;
            say!(
                "backtrail: warning: what is recorded in {} takes {:.1} GiB by now; \
                 BACKTRAIL_DISK bounds what each process may take",
                root.root().display(),
                taken as f64 / f64::from(1 << 30)
            );
        }
    }

    /// Packs what is full; gives how many segments.
    fn pack(&mut self, is_stopped: &impl Fn() -> bool) -> usize {
        let mut count = 0;
        for (path, entry) in &mut self.logs {
            let Some(log) = entry else { continue };
            let folder = path.parent().unwrap_or(Path::new("."));
            let told = self.packed.entry(folder.to_owned()).or_default();
            match log.pack(&mut told.0, is_stopped) {
                Ok(packed) => count += packed,
                // What is not packed is read where it is.
                Err(_) => *entry = None,
            }
            let kibibytes = told.0.div_ceil(1024);
            if kibibytes != told.1 {
                tell(&folder.join(PROCESS_FILE), kibibytes);
                told.1 = kibibytes;
            }
        }
        count
    }
}

/// Tells a process what its packed files take.
fn tell(process_file: &Path, kibibytes: u64) {
    let place = std::mem::offset_of!(ProcessHeader, packed_kibibytes) as u64;
    let number = u32::try_from(kibibytes).unwrap_or(u32::MAX);
    if let Ok(file) = OpenOptions::new().write(true).open(process_file) {
        // A process that is not told only takes more space.
        let _ = file.write_all_at(&number.to_le_bytes(), place);
    }
}

/// What a file takes on disk.
fn space(path: &Path) -> u64 {
    fs::symlink_metadata(path).map_or(0, |it| it.blocks() * 512)
}

fn entries(folder: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(folder).into_iter().flatten();
    let mut paths: Vec<PathBuf> = found.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    paths
}

/// The log of a thread.
struct Log {
    file: File,
    path_of_packed: PathBuf,
    packed: Option<File>,
    /// Segments, by their position, that the thread has left and that are packed.
    holes: BTreeSet<u64>,
    compressor: zstd::bulk::Compressor<'static>,
    events: Vec<u8>,
    frame: Vec<u8>,
}

impl Log {
    fn open(path: &Path, path_of_packed: PathBuf) -> Option<Self> {
        // Nothing of it is packed by anybody else.
        if path_of_packed.exists() {
            return None;
        }
        let no_follow = nix::libc::O_NOFOLLOW;
        let file =
            OpenOptions::new().read(true).write(true).custom_flags(no_follow).open(path).ok()?;
        let mut compressor = zstd::bulk::Compressor::new(LEVEL).ok()?;
        compressor.include_checksum(true).ok()?;
        let (packed, holes, events) = (None, BTreeSet::new(), Vec::new());
        let frame = Vec::with_capacity(zstd::zstd_safe::compress_bound(SEGMENT_EVENTS));
        Some(Self { file, path_of_packed, packed, holes, compressor, events, frame })
    }

    /// Packs full segments, as they were filled; gives how many.
    fn pack(&mut self, bytes: &mut u64, is_stopped: &impl Fn() -> bool) -> io::Result<usize> {
        let length = self.file.metadata()?.len();
        let mut full = BTreeMap::new();
        for position in 1..length / SEGMENT {
            if self.holes.contains(&position) {
                continue;
            }
            let header = self.header(position)?;
            match header.state {
                FULL => drop(full.insert(header.sequence, position)),
                FREE if header.left != 0 => self.punch(position),
                _ => {}
            }
        }
        let (mut count, in_a_hurry) = (0, full.len() > TOO_MANY);
        for (sequence, position) in full {
            if is_stopped() {
                break;
            }
            *bytes += self.pack_segment(sequence, position, in_a_hurry)?;
            if self.header(position)?.left != 0 {
                self.punch(position);
            }
            count += 1;
        }
        Ok(count)
    }

    fn header(&self, position: u64) -> io::Result<SegmentHeader> {
        let mut bytes = [0; SegmentHeader::BYTES];
        self.file.read_exact_at(&mut bytes, position * SEGMENT)?;
        Ok(SegmentHeader::read(&bytes))
    }

    /// Packs a segment; gives how many bytes that took.
    fn pack_segment(&mut self, sequence: u64, position: u64, in_a_hurry: bool) -> io::Result<u64> {
        static ZEROS: [u8; SEGMENT_EVENTS] = [0; SEGMENT_EVENTS];
        let start = position * SEGMENT;
        let first = start + SegmentHeader::BYTES as u64;
        self.events.resize(SEGMENT_EVENTS, 0);
        self.file.read_exact_at(&mut self.events, first)?;
        let mut packed_events = &self.events;
        if !in_a_hurry {
            self.frame.clear();
            self.compressor.compress_to_buffer(&self.events, &mut self.frame)?;
            if self.frame.len() < SEGMENT_EVENTS {
                packed_events = &self.frame;
            }
        }
        let header = PackedHeader { sequence, bytes: packed_events.len() as u32 };
        if self.packed.is_none() {
            let path = &self.path_of_packed;
            self.packed = Some(OpenOptions::new().append(true).create_new(true).open(path)?);
        }
        if let Some(packed) = &mut self.packed {
            packed.write_all(&header.to_bytes())?;
            packed.write_all(packed_events)?;
        }
        // In this order: the thread may take it when it is free.
        self.file.write_all_at(&ZEROS, first)?;
        let state = start + SegmentHeader::STATE_OFFSET as u64;
        self.file.write_all_at(&FREE.to_le_bytes(), state)?;
        Ok((PackedHeader::BYTES + packed_events.len()) as u64)
    }

    /// Makes a hole of a segment that is packed, if the file system can.
    fn punch(&mut self, position: u64) {
        let flags = FallocateFlags::FALLOC_FL_PUNCH_HOLE | FallocateFlags::FALLOC_FL_KEEP_SIZE;
        let range = (position * SEGMENT) as i64;
        let _ = fallocate(&self.file, flags, range, SEGMENT as i64);
        self.holes.insert(position);
    }
}
