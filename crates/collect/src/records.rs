//! The folder of records: one folder per process, in it one file per thread that
//! logged (and one of what was packed of it), or per copy of a module's counters.
//!
//! The layout is that of [`backtrail_abi::log`] and [`backtrail_abi::counts`]. Whatever else is in the folder
//! is reported and otherwise left alone, and a process whose header cannot be
//! read does not hide the others.

use std::ffi::OsStr;
use std::fs;
use std::io::{ErrorKind, Read};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use backtrail_abi::VERSION;
use backtrail_abi::counts::{COUNTS_FILE_PREFIX, CountsHeader, ENDED_FILE_PREFIX};
use backtrail_abi::log::{
    HeaderError, PACKED_FILE_PREFIX, PROCESS_FILE, ProcessHeader, THREAD_FILE_PREFIX, ThreadHeader,
};
use backtrail_foreign::file;

use crate::Error;
use crate::counts::check_header;

/// What one process recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProcessRecord {
    /// The process.
    pub pid: u32,
    /// Its parent when it began to record.
    pub parent: u32,
    /// The recorded process it is a fork of; `None` if it began with an `exec`.
    pub forked_from: Option<u32>,
    /// Where that process was when it forked, if it is known.
    pub forked_at: Option<ForkPlace>,
    /// Its executable.
    pub executable: PathBuf,
    /// Its folder.
    pub folder: PathBuf,
    /// Orders processes by their first event.
    pub nonce: u64,
    /// Its threads, ordered by their first event.
    pub threads: Vec<ThreadFile>,
    /// Its files of counters, ordered by module and copy.
    pub counts: Vec<CountsPath>,
}

/// Where a thread was when it forked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ForkPlace {
    /// The thread, by [`ThreadFile::ordinal`].
    pub thread: u32,
    /// How many events it had logged.
    pub events: u64,
}

impl ProcessRecord {
    /// The path of the process file.
    pub fn process_file(&self) -> PathBuf {
        self.folder.join(PROCESS_FILE)
    }
}

/// A thread's file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadFile {
    /// Orders the threads of a process by their first event.
    pub ordinal: u32,
    /// The thread.
    pub tid: u32,
    /// The file.
    pub path: PathBuf,
}

/// A file of counters, which [`crate::counts::CountsFile`] reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CountsPath {
    /// The number of the module within its process.
    pub module: u32,
    /// The number of the copy of the module's counters.
    pub copy: u32,
    /// The file.
    pub path: PathBuf,
}

/// Something in the folder that is not a record that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Foreign {
    /// The file or folder.
    pub path: PathBuf,
    /// What it is or why it cannot be read.
    pub why: String,
    /// Whether something was recorded there that is now missing.
    pub lost: bool,
}

/// Everything in a folder of records.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Records {
    /// The processes, ordered by their first event.
    pub processes: Vec<ProcessRecord>,
    /// Everything else, by path.
    pub foreign: Vec<Foreign>,
}

impl Records {
    /// Reads the folder `dir`.
    pub fn read(dir: &Path) -> Result<Self, Error> {
        let mut records = Self::default();
        for path in entries(dir)? {
            let Unreadable { why, lost } = match process_name(&path) {
                None => Unreadable::nothing("not the folder of a process"),
                Some(_) if !path.is_dir() => {
                    Unreadable::nothing("named like the folder of a process, but a file")
                }
                Some((_, nonce)) => match records.read_process(&path, nonce) {
                    Ok(process) => {
                        records.processes.push(process);
                        continue;
                    }
                    Err(unreadable) => unreadable,
                },
            };
            records.foreign.push(Foreign { path, why, lost });
        }
        records.processes.sort_by_key(|process| (process.nonce, process.pid));
        records.foreign.sort_by(|left, right| left.path.cmp(&right.path));
        Ok(records)
    }

    fn read_process(&mut self, folder: &Path, nonce: u64) -> Result<ProcessRecord, Unreadable> {
        let header = read_header(&folder.join(PROCESS_FILE))?;
        let (mut threads, mut counts) = (Vec::new(), Vec::new());
        for path in entries(folder).map_err(|error| Unreadable::lost(error.to_string()))? {
            // What is packed belongs to the file of its thread.
            if path.file_name() == Some(OsStr::new(PROCESS_FILE))
                || numbers(&path, PACKED_FILE_PREFIX).is_some()
            {
                continue;
            }
            let Unreadable { why, lost } =
                if let Some((tid, ordinal)) = numbers(&path, THREAD_FILE_PREFIX) {
                    threads.push(ThreadFile { ordinal, tid, path });
                    continue;
                } else if let Some((module, copy)) =
                    numbers(&path, COUNTS_FILE_PREFIX).or_else(|| numbers(&path, ENDED_FILE_PREFIX))
                {
                    // Of one that was being packed, both are there.
                    let unpacked = folder.join(format!("{COUNTS_FILE_PREFIX}{module}-{copy}"));
                    if path != unpacked && unpacked.exists() {
                        continue;
                    }
                    match check_counts(&path, module, copy) {
                        Ok(()) => {
                            counts.push(CountsPath { module, copy, path });
                            continue;
                        }
                        Err(unreadable) => unreadable,
                    }
                } else {
                    Unreadable::nothing("not the file of a thread or of counters")
                };
            self.foreign.push(Foreign { path, why, lost });
        }
        counts.sort_by_key(|counts: &CountsPath| (counts.module, counts.copy));
        threads.sort_by_key(|thread: &ThreadFile| (thread.ordinal, thread.tid));
        let forked_from = (header.forked_from != 0).then_some(header.forked_from);
        let begins = forked_from.and_then(|_| threads.first()).filter(|first| first.ordinal == 0);
        Ok(ProcessRecord {
            pid: header.pid,
            parent: header.parent,
            forked_from,
            forked_at: begins.and_then(|first| forked_at(&first.path)),
            executable: OsStr::from_bytes(header.executable()).into(),
            folder: folder.into(),
            nonce,
            threads,
            counts,
        })
    }
}

/// Where a process was forked, by the log of its first thread.
fn forked_at(path: &Path) -> Option<ForkPlace> {
    let mut bytes = [0; ThreadHeader::BYTES];
    file::open(path).and_then(|mut file| file.read_exact(&mut bytes)).ok()?;
    // What else is wrong with it is found by whoever reads it.
    let header = ThreadHeader::read(&bytes).ok()?;
    let events = u64::from(header.forked_at).checked_sub(1)?;
    Some(ForkPlace { thread: header.forked_by, events })
}

/// A process, and which of the others it was forked by.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Descendant {
    /// What it recorded.
    pub record: ProcessRecord,
    /// By position among all.
    pub parent: Option<usize>,
}

/// Processes such that each is followed by those that it forked, thread by thread, in the
/// order in which they did, which is the same whichever of them was faster. `processes` are ordered by
/// their first event.
pub fn in_order_of_forks(processes: Vec<ProcessRecord>) -> Vec<Descendant> {
    // Numbers are used again: the parent is the last process of that number before.
    let parents: Vec<Option<usize>> = processes
        .iter()
        .enumerate()
        .map(|(at, process)| {
            processes[..at].iter().rposition(|it| Some(it.pid) == process.forked_from)
        })
        .collect();
    let mut waiting: Vec<(usize, Option<usize>)> = Vec::new();
    let children = |of: Option<usize>| {
        let mut found: Vec<usize> =
            (0..processes.len()).filter(|&child| parents[child] == of).collect();
        let place = |&child: &usize| processes[child].forked_at;
        found.sort_by_key(|child| (place(child).is_none(), place(child)));
        found.into_iter().rev()
    };
    waiting.extend(children(None).map(|root| (root, None)));
    let mut order = Vec::new();
    while let Some((process, parent)) = waiting.pop() {
        let place = order.len();
        order.push(Descendant { record: processes[process].clone(), parent });
        waiting.extend(children(Some(process)).map(|child| (child, Some(place))));
    }
    order
}

/// The processes that logged something, as if there had been no others: who was forked by
/// one that did not, was forked by whom that was forked by, where that was.
pub fn those_that_logged(mut processes: Vec<ProcessRecord>) -> Vec<ProcessRecord> {
    for at in 0..processes.len() {
        // Those before have been looked at: one step is enough.
        let parent = processes[..at].iter().rfind(|it| Some(it.pid) == processes[at].forked_from);
        if let Some(silent) = parent.filter(|it| it.threads.is_empty()) {
            processes[at].forked_from = silent.forked_from;
        }
    }
    processes.retain(|process| !process.threads.is_empty());
    processes
}

fn entries(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let failed = |source: std::io::Error| match source.kind() {
        ErrorKind::NotFound => Error::Missing(dir.into()),
        _ => Error::Read { path: dir.into(), source },
    };
    let mut paths = fs::read_dir(dir)
        .map_err(failed)?
        .map(|entry| entry.map(|entry| entry.path()).map_err(failed))
        .collect::<Result<Vec<_>, _>>()?;
    paths.sort();
    Ok(paths)
}

/// Takes `PID-NONCE` apart.
pub(crate) fn process_name(path: &Path) -> Option<(u32, u64)> {
    let (pid, nonce) = path.file_name()?.to_str()?.split_once('-')?;
    let nonce = (nonce.len() == 16).then(|| u64::from_str_radix(nonce, 16).ok())??;
    Some((decimal(pid)?, nonce))
}

/// Takes a file's name apart that has two numbers behind `prefix`.
fn numbers(path: &Path, prefix: &str) -> Option<(u32, u32)> {
    let name = path.file_name()?.to_str()?;
    let (first, second) = name.strip_prefix(prefix)?.split_once('-')?;
    Some((decimal(first)?, decimal(second)?))
}

/// Digits only: `parse` alone would take a sign.
fn decimal(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Why something is not a record that can be read.
struct Unreadable {
    why: String,
    lost: bool,
}

impl Unreadable {
    /// Nothing was recorded there.
    fn nothing(why: impl Into<String>) -> Self {
        Self { why: why.into(), lost: false }
    }

    /// What was recorded there is missing.
    fn lost(why: impl Into<String>) -> Self {
        Self { why: why.into(), lost: true }
    }
}

fn read_header(path: &Path) -> Result<ProcessHeader, Unreadable> {
    let mut bytes = Vec::with_capacity(ProcessHeader::BYTES);
    file::open(path)
        .and_then(|file| file.take(ProcessHeader::BYTES as u64).read_to_end(&mut bytes))
        .map_err(|error| Unreadable::lost(format!("its process file cannot be read: {error}")))?;
    ProcessHeader::read(&bytes).map_err(|error| match error {
        HeaderError::Short(0) | HeaderError::Unwritten => Unreadable::nothing(
            "its process was stopped, or could go no further, before it recorded anything",
        ),
        HeaderError::Short(found) => Unreadable::lost(format!(
            "its process file has {found} bytes, fewer than a header: it was cut"
        )),
        HeaderError::Magic(_) => Unreadable::lost("its process file is not one of ours"),
        HeaderError::Version(found) => Unreadable::lost(format!(
            "its process file has format version {found}, this backtrail reads version {VERSION}"
        )),
    })
}

/// Looks at the header and the length of a file of counters, which must be what
/// its name says.
fn check_counts(path: &Path, module: u32, copy: u32) -> Result<(), Unreadable> {
    let unreadable =
        |error: std::io::Error| Unreadable::lost(format!("it cannot be read: {error}"));
    let file = file::open(path).map_err(unreadable)?;
    let length = file.metadata().map_err(unreadable)?.len();
    let mut bytes = Vec::with_capacity(CountsHeader::BYTES);
    file.take(CountsHeader::BYTES as u64).read_to_end(&mut bytes).map_err(unreadable)?;
    let header = check_header(&bytes, length).map_err(|error| Unreadable {
        lost: !matches!(error, Error::NoCounts),
        why: error.to_string(),
    })?;
    if (header.module, header.copy) != (module, copy) {
        return Err(Unreadable::lost(format!(
            "it holds the counts of module {}, copy {}: it was renamed",
            header.module, header.copy
        )));
    }
    Ok(())
}
