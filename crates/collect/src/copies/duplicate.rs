//! Copying files and folders as they are.
//!
//! Kinds, contents, permissions, owners (as far as they may be given away),
//! times, holes, and which names are the same file are kept. Nothing is shared
//! with the original but what the file system shares by itself and takes apart
//! when one is written to. Extended attributes are not kept.

use std::collections::HashMap;
use std::fs::{self, File, Metadata, OpenOptions, Permissions};
use std::io;
use std::os::unix::fs::{
    FileTypeExt as _, MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _, lchown, symlink,
};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, FileType, Mode, SeekFrom, Timespec, Timestamps, mknodat, seek};
use rustix::io::Errno;

use super::signals::received;
use super::tree::{Ours, look, walk};
use crate::Error;

/// Copies everything below `from` but what is `ours` to the folder `to`, which
/// is there.
pub(super) fn copy_folder(from: &Path, to: &Path, ours: &Ours) -> Result<(), Error> {
    let mut files = HashMap::new();
    let mut folders = vec![(PathBuf::new(), look(from)?)];
    walk(from, ours, &mut |name, metadata| {
        if let Some(signal) = received() {
            return Err(Error::Interrupted { signal });
        }
        let (source, target) = (from.join(name), to.join(name));
        if metadata.is_dir() {
            folders.push((name.to_owned(), Some(metadata.clone())));
            return fs::create_dir(&target).map_err(write(&target));
        }
        if metadata.nlink() > 1 {
            let first = files.entry((metadata.dev(), metadata.ino())).or_insert(target.clone());
            if *first != target {
                return fs::hard_link(first, &target).map_err(write(&target));
            }
        }
        copy_entry(&source, metadata, &target)
    })?;
    // Last: a folder that may not be written to cannot be filled, and filling
    // it changes its time.
    for (name, metadata) in folders.iter().rev() {
        if let Some(metadata) = metadata {
            let target = if name.as_os_str().is_empty() { to.to_owned() } else { to.join(name) };
            copy_attributes(metadata, &target)?;
        }
    }
    Ok(())
}

/// Copies anything but a folder to where nothing is.
pub(super) fn copy_entry(source: &Path, metadata: &Metadata, target: &Path) -> Result<(), Error> {
    let kind = metadata.file_type();
    if kind.is_file() {
        let read = |source_error| Error::Read { path: source.to_owned(), source: source_error };
        let input = File::open(source).map_err(read)?;
        let mut options = OpenOptions::new();
        let output = options.write(true).create_new(true).mode(0o600).open(target);
        copy_contents(&input, &output.map_err(write(target))?).map_err(write(target))?;
    } else if kind.is_symlink() {
        let link = fs::read_link(source)
            .map_err(|error| Error::Read { path: source.to_owned(), source: error })?;
        symlink(link, target).map_err(write(target))?;
    } else {
        let kind = if kind.is_fifo() {
            FileType::Fifo
        } else if kind.is_socket() {
            FileType::Socket
        } else if kind.is_block_device() {
            FileType::BlockDevice
        } else {
            FileType::CharacterDevice
        };
        mknodat(CWD, target, kind, Mode::RUSR | Mode::WUSR, metadata.rdev())
            .map_err(|error| write(target)(error.into()))?;
    }
    copy_attributes(metadata, target)
}

/// Copies the contents of a file to an empty one, leaving holes where there are
/// holes.
pub(super) fn copy_contents(input: &File, output: &File) -> io::Result<()> {
    let length = input.metadata()?.len();
    let mut start = 0;
    while start < length {
        start = match seek(input, SeekFrom::Data(start)) {
            Ok(start) => start,
            // Only a hole follows.
            Err(Errno::NXIO) => break,
            Err(error) => return Err(error.into()),
        };
        let end = seek(input, SeekFrom::Hole(start))?;
        seek(input, SeekFrom::Start(start))?;
        seek(output, SeekFrom::Start(start))?;
        // By the kernel, which may share the blocks until one is written to.
        let mut piece = io::Read::take(input, end - start);
        let mut target = output;
        if io::copy(&mut piece, &mut target)? == 0 {
            // It was cut meanwhile.
            break;
        }
        start = end;
    }
    output.set_len(length)
}

/// Gives `target` the owner, permissions and times in `metadata`.
pub(super) fn copy_attributes(metadata: &Metadata, target: &Path) -> Result<(), Error> {
    let now = fs::symlink_metadata(target).map_err(write(target))?;
    if (now.uid(), now.gid()) != (metadata.uid(), metadata.gid()) {
        // Only root may: an ordinary user's copies are the user's own.
        let _ = lchown(target, Some(metadata.uid()), Some(metadata.gid()));
    }
    if !metadata.is_symlink() {
        let mode = Permissions::from_mode(metadata.mode() & 0o7777);
        fs::set_permissions(target, mode).map_err(write(target))?;
    }
    let time = |seconds, nanoseconds| Timespec { tv_sec: seconds, tv_nsec: nanoseconds };
    let times = Timestamps {
        last_access: time(metadata.atime(), metadata.atime_nsec()),
        last_modification: time(metadata.mtime(), metadata.mtime_nsec()),
    };
    rustix::fs::utimensat(CWD, target, &times, AtFlags::SYMLINK_NOFOLLOW)
        .map_err(|error| write(target)(error.into()))
}

fn write(path: &Path) -> impl FnOnce(io::Error) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Write { path, source }
}
