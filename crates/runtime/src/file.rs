//! Files that are allocated on disk, then mapped, then closed.
//!
//! Space is allocated before it is mapped, because a store into a mapped page
//! that has no room on the disk is SIGBUS. A file is opened anew each time it
//! grows and closed before the program goes on, so the program's descriptors
//! are its own.
//!
//! Files are for their owner alone. One that is opened again must be the one that was
//! made and as long as it was left, or its bytes are somebody else's.

use core::sync::atomic::{AtomicU64, Ordering};

use backtrail_abi::log::Incomplete;

use crate::folder::Folder;
use crate::sys::{self, Descriptor, Error, Path, Status};

/// Why recording cannot go on.
#[derive(Clone, Copy)]
pub(crate) struct Failure {
    pub(crate) why: Incomplete,
    pub(crate) error: Error,
}

impl Failure {
    pub(crate) fn new(why: Incomplete, error: Error) -> Self {
        Self { why, error }
    }
}

/// A file to be extended and mapped.
pub(crate) struct Request<'a> {
    /// The folder of the process.
    pub(crate) folder: Folder<'a>,
    /// The file's name in it.
    pub(crate) name: Path<'a>,
    /// What tells it from other files: noted here when it is created; 0 if that is not
    /// known any more.
    pub(crate) inode: &'a AtomicU64,
    /// Its length now; 0 creates it, and then it must not exist.
    pub(crate) from: u64,
    /// Its length afterwards.
    pub(crate) to: u64,
    /// Where the mapping begins; it ends with the file.
    pub(crate) mapped_from: u64,
}

impl Request<'_> {
    /// Bytes mapped.
    pub(crate) fn bytes(&self) -> usize {
        self.to.saturating_sub(self.mapped_from) as usize
    }

    /// Opens, extends, maps and closes the file; gives the mapping's address.
    pub(crate) fn map(&self) -> Result<usize, Failure> {
        self.extend(|file| sys::map_file(file, self.mapped_from, self.bytes()))
    }

    /// Opens and extends the file, does something with it that ends with a
    /// mapping, and closes it. What is done may be done twice if it fails.
    pub(crate) fn extend<T>(
        &self,
        mut act: impl FnMut(Descriptor) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let mut result = self.extend_here(&mut act);
        if let Err(Failure { error: sys::EMFILE, .. }) = result {
            let _ = sys::with_free_descriptors(&mut || result = self.extend_here(&mut act));
        }
        result
    }

    fn extend_here<T>(
        &self,
        act: &mut impl FnMut(Descriptor) -> Result<T, Error>,
    ) -> Result<T, Failure> {
        let file = self.open().map_err(|error| match error {
            sys::ESTALE => Failure::new(Incomplete::Changed, sys::Error(0)),
            error => Failure::new(Incomplete::Create, error),
        })?;
        let result = allocate(file, self.from, self.to)
            .map_err(|error| Failure::new(Incomplete::Extend, error))
            .and_then(|()| act(file).map_err(|error| Failure::new(Incomplete::Map, error)));
        sys::close(file);
        result
    }

    fn open(&self) -> Result<Descriptor, Error> {
        let folder = self.folder.open()?;
        let creating = if self.is_new() { sys::O_CREAT | sys::O_EXCL } else { 0 };
        // Not to wait for a pipe that somebody put there.
        let flags = sys::O_RDWR | sys::O_NOFOLLOW | sys::O_NONBLOCK | creating;
        let opened = sys::open(folder, self.name, flags, 0o600).and_then(|file| {
            let checked = sys::status(file).and_then(|found| self.check(file, &found));
            if checked.is_err() {
                sys::close(file);
                if self.is_new() {
                    sys::remove(folder, self.name);
                }
            }
            checked.map(|()| file)
        });
        sys::close(folder);
        opened
    }

    fn is_new(&self) -> bool {
        self.from == 0
    }

    /// Checks that the file is ours.
    fn check(&self, file: Descriptor, found: &Status) -> Result<(), Error> {
        const OURS: u32 = 0o600;
        if self.is_new() {
            if !self.folder.is_makers(found) {
                return Err(sys::EPERM);
            }
            if found.mode & OURS != OURS {
                // The umask would keep us out when it is opened again.
                sys::change_mode_of(file, OURS)?;
            }
            self.inode.store(found.inode, Ordering::Relaxed);
            return Ok(());
        }
        let noted = self.inode.load(Ordering::Relaxed);
        let is_it = found.is_file()
            && self.folder.is_of(found.owner)
            && (found.links, found.length) == (1, self.from)
            && (noted == 0 || noted == found.inode);
        if is_it { Ok(()) } else { Err(sys::ESTALE) }
    }
}

/// Extends a file from one length to another with space that is really there.
///
/// Past the limit on file sizes the kernel also sends a signal, which ends a
/// program that does not expect it. All signals are blocked here, so it waits
/// and can be taken away, unless the program had one waiting already.
fn allocate(file: Descriptor, from: u64, to: u64) -> Result<(), Error> {
    if from == to {
        return Ok(());
    }
    let already_pending = sys::size_signal_pending();
    let result = match sys::allocate(file, from, to.saturating_sub(from)) {
        Err(sys::EOPNOTSUPP | sys::ENOSYS) => write_zeros(file, from, to),
        result => result,
    };
    if result == Err(sys::EFBIG) && !already_pending {
        sys::take_size_signal();
    }
    result
}

/// For file systems that cannot allocate ahead.
fn write_zeros(file: Descriptor, from: u64, to: u64) -> Result<(), Error> {
    static ZEROS: [u8; sys::PAGE] = [0; sys::PAGE];
    let mut at = from;
    while at < to {
        let rest = to.saturating_sub(at).min(sys::PAGE as u64) as usize;
        match sys::write_at(file, ZEROS.get(..rest).unwrap_or(&ZEROS), at) {
            Ok(0) => return Err(sys::EIO),
            Ok(written) => at += written as u64,
            Err(sys::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}
