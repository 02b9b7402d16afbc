//! What is in a folder, and what a program changed in it.
//!
//! Before a run, each file's state is noted: its number, size and times. After
//! it, files whose state is the same were not touched, because a change sets the
//! time of change, which nobody can set back, to the kernel's clock; that clock
//! has to have ticked in between ([`let_the_clock_tick`]). Only the others are
//! read. So the cost is one walk and the contents of what was changed.
//!
//! Names are relative to the folder, and in order: a folder comes before what is
//! in it.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, Metadata};
use std::os::unix::fs::{FileExt as _, FileTypeExt as _, MetadataExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Error;

/// What two copies must have in common of a file. Not its times.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Description {
    pub kind: Kind,
    /// Permissions, with set-user-id and the like.
    pub mode: u32,
    pub user: u32,
    pub group: u32,
}

/// What a file is and holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Kind {
    File { length: u64, hash: [u8; 32], is_core: bool },
    Folder,
    Link(OsString),
    Pipe,
    Socket,
    Device { is_block: bool, number: u64 },
}

impl Kind {
    /// In messages.
    pub fn name(&self) -> &'static str {
        match self {
            Kind::File { .. } => "a file",
            Kind::Folder => "a folder",
            Kind::Link(_) => "a symbolic link",
            Kind::Pipe => "a named pipe",
            Kind::Socket => "a socket",
            Kind::Device { .. } => "a device",
        }
    }
}

/// Describes what is at `path`, if anything is.
pub(super) fn describe(path: &Path) -> Result<Option<Description>, Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let Some(metadata) = look(path)? else { return Ok(None) };
    let kind = metadata.file_type();
    let kind = if kind.is_file() {
        let mut hash = blake3::Hasher::new();
        let file = File::open(path).map_err(failed)?;
        let is_core = is_core(&file);
        hash.update_reader(file).map_err(failed)?;
        Kind::File { length: metadata.len(), hash: *hash.finalize().as_bytes(), is_core }
    } else if kind.is_dir() {
        Kind::Folder
    } else if kind.is_symlink() {
        Kind::Link(fs::read_link(path).map_err(failed)?.into())
    } else if kind.is_fifo() {
        Kind::Pipe
    } else if kind.is_socket() {
        Kind::Socket
    } else {
        Kind::Device { is_block: kind.is_block_device(), number: metadata.rdev() }
    };
    Ok(Some(Description {
        kind,
        mode: metadata.mode() & 0o7777,
        user: metadata.uid(),
        group: metadata.gid(),
    }))
}

/// Whether a file is an ELF file that the kernel wrote when a process crashed.
fn is_core(file: &File) -> bool {
    const CORE: [u8; 2] = [4, 0];
    let mut start = [0; 18];
    file.read_exact_at(&mut start, 0).is_ok() && start[..4] == *b"\x7fELF" && start[16..] == CORE
}

/// What is at `path` itself, if anything is.
pub(super) fn look(path: &Path) -> Result<Option<Metadata>, Error> {
    use std::io::ErrorKind::{NotADirectory, NotFound};
    match fs::symlink_metadata(path) {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if matches!(error.kind(), NotFound | NotADirectory) => Ok(None),
        Err(source) => Err(Error::Read { path: path.to_owned(), source }),
    }
}

/// Parts of a folder that are not looked at: ours.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Ours(Vec<PathBuf>);

impl Ours {
    /// Those of `paths` that are below `root`.
    pub fn below(root: &Path, paths: impl IntoIterator<Item = PathBuf>) -> Self {
        let resolved = paths.into_iter().map(|path| path.canonicalize().unwrap_or(path));
        let relative = resolved.filter_map(|path| Some(path.strip_prefix(root).ok()?.to_owned()));
        Self(relative.filter(|path| !path.as_os_str().is_empty()).collect())
    }

    /// Whether the name is one of them.
    pub fn has(&self, name: &Path) -> bool {
        self.0.iter().any(|ours| ours == name)
    }
}

/// Calls `visit` with the name of everything below `root`, in order, and with
/// what it is. Links are not followed.
pub(super) fn walk(
    root: &Path,
    ours: &Ours,
    visit: &mut dyn FnMut(&Path, &Metadata) -> Result<(), Error>,
) -> Result<(), Error> {
    let mut pending = vec![PathBuf::new()];
    while let Some(name) = pending.pop() {
        let path = if name.as_os_str().is_empty() { root.to_owned() } else { root.join(&name) };
        // Somebody else may have removed it.
        let Some(metadata) = look(&path)? else { continue };
        if !name.as_os_str().is_empty() {
            visit(&name, &metadata)?;
        }
        if metadata.is_dir() {
            let mut names = list(&path)?;
            // The first is taken next.
            names.reverse();
            let names = names.into_iter().map(|child| name.join(child));
            pending.extend(names.filter(|name| !ours.has(name)));
        }
    }
    Ok(())
}

/// The names in a folder, in order.
pub(super) fn list(folder: &Path) -> Result<Vec<OsString>, Error> {
    let failed = |source| Error::Read { path: folder.to_owned(), source };
    let entries = fs::read_dir(folder).map_err(failed)?;
    let mut names = entries
        .map(|entry| entry.map(|entry| entry.file_name()).map_err(failed))
        .collect::<Result<Vec<_>, _>>()?;
    names.sort();
    Ok(names)
}

/// What cannot stay the same when a file is changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct State {
    inode: (u64, u64),
    size: u64,
    mode: u32,
    modified: (i64, i64),
    changed: (i64, i64),
}

impl State {
    fn of(metadata: &Metadata) -> Self {
        // A folder's own state changes with every name in it, and these are
        // looked at one by one.
        let is_folder = metadata.is_dir();
        let unless_folder = |time| if is_folder { (0, 0) } else { time };
        Self {
            inode: (metadata.dev(), metadata.ino()),
            size: if is_folder { 0 } else { metadata.size() },
            mode: metadata.mode(),
            modified: unless_folder((metadata.mtime(), metadata.mtime_nsec())),
            changed: unless_folder((metadata.ctime(), metadata.ctime_nsec())),
        }
    }
}

/// The states of everything in a folder.
#[derive(Debug, Clone)]
pub(super) struct States(BTreeMap<PathBuf, State>);

impl States {
    /// Notes them.
    pub fn note(root: &Path, ours: &Ours) -> Result<Self, Error> {
        let mut states = BTreeMap::new();
        walk(root, ours, &mut |name, metadata| {
            states.insert(name.to_owned(), State::of(metadata));
            Ok(())
        })?;
        Ok(Self(states))
    }

    /// What was changed since.
    pub fn changes(&self, root: &Path, ours: &Ours) -> Result<Changes, Error> {
        let mut changed = BTreeMap::new();
        let mut left = self.0.clone();
        walk(root, ours, &mut |name, metadata| {
            let before = left.remove(name);
            if before != Some(State::of(metadata)) {
                changed.insert(name.to_owned(), describe(&root.join(name))?);
            }
            Ok(())
        })?;
        changed.extend(left.into_keys().map(|name| (name, None)));
        Ok(Changes { changed, unchanged: root.to_owned() })
    }
}

/// Waits until a change is told from what was there before.
pub(super) fn let_the_clock_tick() {
    // File times are taken from a clock that ticks at least a hundred times a
    // second.
    std::thread::sleep(Duration::from_millis(25));
}

/// What a copy changed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Changes {
    /// What is there now, by name; nothing if it was removed.
    pub changed: BTreeMap<PathBuf, Option<Description>>,
    /// Where everything else is.
    pub unchanged: PathBuf,
}

impl Changes {
    /// What the copy has by a name.
    pub fn describe(&self, name: &Path) -> Result<Option<Description>, Error> {
        match self.changed.get(name) {
            Some(description) => Ok(description.clone()),
            None => describe(&self.unchanged.join(name)),
        }
    }
}
