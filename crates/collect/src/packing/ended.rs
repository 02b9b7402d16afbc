//! Counters of processes that have ended.
//!
//! A file of counters is allocated as a whole, so that no count meets a full disk, and
//! most of it is zero for ever. A test suite of a shell has thousands of processes. So
//! a file that nobody can count in any more is replaced by one that holds the same and is
//! small. Whoever is stopped while it is written leaves both, and then the first counts.
//!
//! Nobody can count in it if nobody has it open or mapped, and neither the file of its
//! process, which is mapped as long as a process lives that may open others. The kernel
//! tells at once ([`Users`]). Where it does not, a process is gone if its number is
//! nobody's and no process has its files mapped. The latter is asked of all processes
//! there are, since one may share the memory of a dead one, or have its number in a
//! namespace of its own. A process that is just mapping its file shows neither, so a file
//! has to be found so twice. The maps of processes of other users cannot be read, and need
//! not: files are for their owner alone.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use backtrail_abi::counts::{COUNTS_FILE_PREFIX, ENDED_FILE_PREFIX};
use backtrail_abi::log::PROCESS_FILE;

use super::users::{Use, Users};
use super::{entries, space};
use crate::counts::pack;
use crate::records::process_name;

/// How many folders are packed by several threads, and by how many.
const MANY: usize = 32;
const THREADS: usize = 4;

/// How often all processes are asked what they have mapped.
const SCAN: Duration = Duration::from_millis(100);

/// Finds files of counters of processes that have ended, and packs them.
#[derive(Default)]
pub(super) struct Ended {
    users: Users,
    /// By folder of a process: whether it is done with, or there is nothing to pack.
    known: HashMap<PathBuf, bool>,
    /// By path, files that nobody seemed to use, and their numbers.
    unused: BTreeMap<PathBuf, u64>,
    /// What is packed takes so many bytes.
    taken: u64,
    /// When they were looked for.
    scanned: Option<Instant>,
}

impl Ended {
    /// What the folders that are done with take.
    pub(super) fn taken(&self) -> u64 {
        self.taken
    }

    /// A folder is done with, and takes so many bytes.
    fn finish(&mut self, folder: PathBuf, taken: u64) {
        self.taken += taken;
        self.known.insert(folder, true);
    }

    /// Packs the files in those of these folders that the kernel says nobody uses. When
    /// processes end faster than one thread packs, there are several.
    fn pack_unused(&self, folders: &[&PathBuf]) -> Vec<Outcome> {
        let users = &self.users;
        let all = |folders: &[&PathBuf]| -> Vec<Outcome> {
            folders.iter().map(|folder| pack_if_unused(folder, users)).collect()
        };
        if folders.len() < MANY {
            return all(folders);
        }
        let all = &all;
        std::thread::scope(|scope| {
            let share = folders.len().div_ceil(THREADS);
            let started: Vec<_> = folders
                .chunks(share)
                .map(|share| {
                    (share, std::thread::Builder::new().spawn_scoped(scope, || all(share)))
                })
                .collect();
            let outcome = |(share, thread): (&[&PathBuf], io::Result<_>)| match thread {
                Ok(thread) => std::thread::ScopedJoinHandle::join(thread)
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
                Err(_) => all(share),
            };
            started.into_iter().flat_map(outcome).collect()
        })
    }

    /// From now on all processes are asked.
    pub(super) fn forget_leases(&mut self) {
        self.users = Users::NONE;
    }

    /// Whether nothing more can be done in the folder of a process.
    pub(super) fn has_done(&self, folder: &Path) -> bool {
        self.known.get(folder) == Some(&true)
    }

    /// Packs the files in these folders of processes that nobody uses any more; where
    /// only [`SCAN`] tells, those that were unused when it was told last.
    pub(super) fn pack(&mut self, folders: &[PathBuf], is_last: bool) {
        let known = &self.known;
        let new: Vec<&PathBuf> = folders.iter().filter(|it| !known.contains_key(*it)).collect();
        let mut untold = Vec::new();
        for (folder, outcome) in new.iter().zip(self.pack_unused(&new)) {
            match outcome {
                Outcome::Used => {}
                Outcome::Untold => untold.push(*folder),
                // There is a log, which is packed elsewhere.
                Outcome::Empty => drop(self.known.insert((*folder).clone(), false)),
                Outcome::Packed(taken) => self.finish((*folder).clone(), taken),
            }
        }
        if is_last || self.scanned.is_none_or(|scanned| scanned.elapsed() >= SCAN) {
            self.pack_scanned(&untold);
            self.scanned = Some(Instant::now());
        }
    }

    fn pack_scanned(&mut self, folders: &[&PathBuf]) {
        // Without it nothing is known of any process.
        if !Path::new("/proc/self/maps").exists() {
            return;
        }
        let mut candidates = BTreeMap::new();
        for &folder in folders {
            let Some((pid, _)) = process_name(folder) else { continue };
            if !Path::new(&format!("/proc/{pid}")).exists() {
                candidates.insert(folder.clone(), files_in(folder));
            }
        }
        if candidates.is_empty() {
            return;
        }
        let mapped = mapped_files();
        let mut unused = BTreeMap::new();
        for (folder, files) in candidates {
            let is_unused = |(path, inode): &(PathBuf, u64)| {
                !mapped.contains(inode) && self.unused.get(path) == Some(inode)
            };
            // Without files there is a log, or nothing yet.
            if !files.is_empty() && files.iter().all(is_unused) {
                let taken = replace_all(&folder, &files);
                self.finish(folder, taken);
            } else {
                unused.extend(files.into_iter().filter(|(_, inode)| !mapped.contains(inode)));
            }
        }
        self.unused = unused;
    }
}

/// What was done with the folder of a process.
enum Outcome {
    /// Nothing: it is used.
    Used,
    /// Nothing: whether it is used is not told.
    Untold,
    /// Nothing: it has no counters.
    Empty,
    /// Its files are packed and take so many bytes.
    Packed(u64),
}

fn pack_if_unused(folder: &Path, users: &Users) -> Outcome {
    match users.of(&folder.join(PROCESS_FILE)) {
        Use::Somebody => Outcome::Used,
        Use::Untold => Outcome::Untold,
        Use::Nobody => {
            let files = files_in(folder);
            if files.is_empty() {
                Outcome::Empty
            } else if files.iter().all(|(path, _)| users.of(path) == Use::Nobody) {
                Outcome::Packed(replace_all(folder, &files))
            } else {
                Outcome::Used
            }
        }
    }
}

/// Packs these files of a folder; what all in it take then.
fn replace_all(folder: &Path, files: &[(PathBuf, u64)]) -> u64 {
    // What cannot be packed is read as it is.
    files.iter().for_each(|(path, _)| drop(replace(path)));
    entries(folder).iter().map(|path| space(path)).sum()
}

/// The files of counters of a process, with their numbers.
fn files_in(folder: &Path) -> Vec<(PathBuf, u64)> {
    let mut files = Vec::new();
    for path in entries(folder) {
        let name = path.file_name().and_then(|name| name.to_str());
        if name.is_some_and(|name| name.starts_with(COUNTS_FILE_PREFIX))
            && let Ok(found) = fs::symlink_metadata(&path)
            && found.is_file()
        {
            files.push((path, found.ino()));
        }
    }
    files
}

/// The numbers of all files that processes share memory with, as far as that is shown.
fn mapped_files() -> BTreeSet<u64> {
    let mut mapped = BTreeSet::new();
    for process in entries(Path::new("/proc")) {
        let name = process.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if !name.bytes().all(|byte| byte.is_ascii_digit()) {
            continue;
        }
        let Ok(maps) = fs::read(process.join("maps")) else { continue };
        for line in maps.split(|&byte| byte == b'\n') {
            // Addresses, rights, offset, device, number, path.
            let mut fields = line.split(|&byte| byte == b' ');
            let shared = fields.nth(1).is_some_and(|rights| rights.ends_with(b"s"));
            let inode =
                fields.nth(2).and_then(|field| str::from_utf8(field).ok()?.parse::<u64>().ok());
            mapped.extend(inode.filter(|_| shared));
        }
    }
    mapped
}

/// Replaces a file of counters by one that is packed, whose name is another: a file
/// system may wait for the disk when one is renamed over another.
fn replace(path: &Path) -> io::Result<()> {
    let no_follow = nix::libc::O_NOFOLLOW;
    let file = OpenOptions::new().read(true).custom_flags(no_follow).open(path)?;
    let Some(packed) = pack(&file)? else { return Ok(()) };
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let ended = path.with_file_name(name.replacen(COUNTS_FILE_PREFIX, ENDED_FILE_PREFIX, 1));
    // What somebody who was stopped has left of it.
    let _ = fs::remove_file(&ended);
    match write(&ended, &packed) {
        // Only now: while both are there, this one counts.
        Ok(()) => fs::remove_file(path),
        Err(error) => {
            let _ = fs::remove_file(&ended);
            Err(error)
        }
    }
}

fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(bytes)
}
