//! The folder of a process's record: private, and known again.
//!
//! The program's descriptors are its own, so nothing is held open: the folder is
//! opened by its path each time that a file in it is made or grows. Somebody else
//! may have changed by then what is at that path, so what was opened is compared
//! with what was made. Nothing is concluded from a path before it is opened.
//!
//! That the folder is ours to begin with shows in the first file that we make there:
//! its owner must own the folder, too. So it holds wherever owners are others than
//! processes think (user namespaces, network file systems), or are not kept at all.
//! The same goes for rights: others may write to the folder only where a file that is
//! made private does not become it.
//!
//! The folder for the records of all processes may belong to anybody if it was named.
//! The one that is taken when nothing is said must be ours; it is no link, and not
//! everybody may write there, or else nobody may remove what others have.

use crate::name::Text;
use crate::sys::{self, Descriptor, Error, Path, Status};

/// What tells the folder from others.
pub(crate) struct Place {
    folder: Status,
    /// The folder for records, if it was not named.
    default_root: Option<Status>,
}

/// The folder of a process.
#[derive(Clone, Copy)]
pub(crate) struct Folder<'a> {
    /// Its absolute path.
    pub(crate) path: Path<'a>,
    pub(crate) place: &'a Place,
}

impl Folder<'_> {
    /// Opens it, if it is what was made.
    pub(crate) fn open(&self) -> Result<Descriptor, Error> {
        let folder = open(Descriptor(sys::AT_FDCWD), self.path)?;
        let made = &self.place.folder;
        let is_it = |found: Status| {
            (found.device, found.inode, found.owner) == (made.device, made.inode, made.owner)
        };
        match sys::status(folder).map(is_it) {
            Ok(true) => Ok(folder),
            other => {
                sys::close(folder);
                Err(other.err().unwrap_or(sys::ESTALE))
            }
        }
    }

    /// Whether the folder belongs to whoever has just made `file` in it.
    pub(crate) fn is_makers(&self, file: &Status) -> bool {
        const STICKY: u32 = 0o1000;
        let Place { folder, default_root } = self.place;
        let open_to = |who: u32, folder: &Status| folder.mode & who & !file.mode != 0;
        let is_ours = |root: &Status| {
            root.owner == file.owner && (root.mode & STICKY != 0 || !open_to(0o002, root))
        };
        folder.owner == file.owner
            && !open_to(0o022, folder)
            && default_root.as_ref().is_none_or(is_ours)
    }

    /// Whether `owner` is who made the folder.
    pub(crate) fn is_of(&self, owner: u32) -> bool {
        self.place.folder.owner == owner
    }
}

/// Makes the folder of process `pid` in the folder for records, which ends with a zero
/// and is made, too, if it is not there. Writes its path to `path`, and what it is to
/// `place`; gives the path's length with the final zero.
pub(crate) fn make(
    root: &[u8],
    is_default: bool,
    pid: u32,
    path: &mut [u8],
    place: &mut Option<Place>,
) -> Result<usize, Error> {
    let mut made = make_here(root, is_default, pid, path, place);
    if let Err(sys::EMFILE) = made {
        let mut again = || made = make_here(root, is_default, pid, path, place);
        sys::with_free_descriptors(&mut again)?;
    }
    made
}

fn make_here(
    root: &[u8],
    is_default: bool,
    pid: u32,
    path: &mut [u8],
    place: &mut Option<Place>,
) -> Result<usize, Error> {
    let open_root = || {
        let path = Path::new(root).ok_or(sys::ENOENT)?;
        let follow = if is_default { sys::O_NOFOLLOW } else { 0 };
        let flags = sys::O_PATH | sys::O_DIRECTORY | follow;
        sys::open(Descriptor(sys::AT_FDCWD), path, flags, 0)
    };
    let mut opened = open_root();
    if let Err(sys::ENOENT) = opened {
        make_root(root, path);
        opened = open_root();
    }
    let root_folder = opened?;
    let made = make_in(root_folder, root, pid, path);
    let status = sys::status(root_folder);
    sys::close(root_folder);
    let (length, folder) = made?;
    let default_root = if is_default { Some(status?) } else { None };
    *place = Some(Place { folder, default_root });
    Ok(length)
}

/// Makes the folder for records, and those above it that are missing. Whether
/// that worked shows when it is opened.
fn make_root(root: &[u8], room: &mut [u8]) {
    const PRIVATE: u32 = 0o700;
    let here = Descriptor(sys::AT_FDCWD);
    Text::after(room, 0).push(root);
    let Some(path) = room.get_mut(..root.len()) else { return };
    for end in 1..path.len() {
        let byte = path.get(end).copied().unwrap_or(0);
        // The last one ends with the zero, or with a slash before it.
        let is_last = path.get(end..).is_some_and(|rest| rest.iter().all(|it| b"/\0".contains(it)));
        if byte != b'/' && byte != 0 {
            continue;
        }
        if let Some(place) = path.get_mut(end) {
            *place = 0;
        }
        let mode = if is_last { PRIVATE } else { 0o777 };
        if let Some(made) = path.get(..=end).and_then(Path::new).map(|it| make_one(here, it, mode))
        {
            let _ = made.map(sys::close);
        }
        if let Some(place) = path.get_mut(end) {
            *place = byte;
        }
        if is_last {
            return;
        }
    }
}

fn make_in(
    root_folder: Descriptor,
    root: &[u8],
    pid: u32,
    path: &mut [u8],
) -> Result<(usize, Status), Error> {
    const ATTEMPTS: u64 = 1000;
    let root = root.split_last().map_or(root, |(_, path)| path);
    let now = sys::now();
    for nonce in now..now.saturating_add(ATTEMPTS) {
        let mut text = Text::after(path, 0);
        text.push(root).push_byte(b'/').push_decimal(pid).push_byte(b'-');
        let length = text.push_hexadecimal(nonce).push_byte(0).length();
        let length = length.ok_or(sys::ENAMETOOLONG)?;
        let name = path.get(root.len() + 1..length).and_then(Path::new);
        match make_one(root_folder, name.ok_or(sys::ENAMETOOLONG)?, 0o700) {
            Ok(folder) => {
                let status = sys::status(folder);
                sys::close(folder);
                return Ok((length, status?));
            }
            Err(sys::EEXIST) => {}
            Err(error) => return Err(error),
        }
    }
    Err(sys::EEXIST)
}

/// Makes a folder that we can use, whatever the program's umask, and opens it.
fn make_one(within: Descriptor, name: Path<'_>, mode: u32) -> Result<Descriptor, Error> {
    const OWNER: u32 = 0o700;
    sys::make_folder(within, name, mode)?;
    let folder = open(within, name)?;
    if sys::status(folder).is_ok_and(|found| found.mode & OWNER != OWNER) {
        // A descriptor that is only a place takes no other mode, but has a path.
        let mut buffer = [0; 32];
        let mut text = Text::after(&mut buffer, 0);
        text.push(b"/proc/self/fd/").push_decimal(folder.0.unsigned_abs()).push_byte(0);
        let length = text.length().unwrap_or(0);
        let _ = buffer.get(..length).and_then(Path::new).map(|it| sys::change_mode(it, OWNER));
    }
    Ok(folder)
}

fn open(within: Descriptor, name: Path<'_>) -> Result<Descriptor, Error> {
    sys::open(within, name, sys::O_PATH | sys::O_DIRECTORY | sys::O_NOFOLLOW, 0)
}
