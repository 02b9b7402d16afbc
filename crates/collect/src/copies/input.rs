//! Standard input, read once and given to every copy.
//!
//! A file is opened again for each copy, so that it is still a file to the
//! program and each copy has an offset of its own; where the first copy stopped
//! reading is where our own standard input stands afterwards. A device that gives the
//! same to whoever reads it (`/dev/null`, `/dev/zero`, `/dev/full`) is inherited, and a
//! folder is opened again. Anything else (a pipe, a terminal) comes to the copies through a pipe each: what was read is
//! kept in an unnamed file, from which every copy is fed at its own pace, and
//! more is read only when a copy has had all there is. So input that never ends,
//! or never comes, stops nobody who does not ask for it, and a person is asked
//! once. More may be read than the program reads, as before any pipe.

use std::fs::File;
use std::io::{self, ErrorKind, Seek as _, SeekFrom, Write as _};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::{ChildStdin, Stdio};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::stat::{SFlag, fstat, makedev};

use crate::Error;

/// The most that is handed over at once.
const PIECE: usize = 1 << 16;

/// `/dev/null`, `/dev/zero` and `/dev/full`, as Documentation/admin-guide/devices.txt of
/// Linux numbers them.
const SAME_FOR_ALL: [u64; 3] = [makedev(1, 3), makedev(1, 5), makedev(1, 7)];

/// Where the copies' input comes from.
pub(super) enum Input {
    /// There is none.
    Empty,
    /// Our own, which is the same for all.
    Inherited,
    /// A file, and where reading begins.
    File { file: File, offset: u64 },
    /// Anything else.
    Stream(Arc<Stream>),
}

/// The input of one copy: what to start it with, and what to do meanwhile.
pub(super) struct CopyInput {
    pub stdio: Stdio,
    /// Shares the copy's offset.
    pub file: Option<File>,
    pub stream: Option<Arc<Stream>>,
}

impl Input {
    /// This process's standard input. A file below the folder `written`, to which a copy
    /// might write while others read it, is copied.
    pub fn of_this_process(written: Option<&Path>) -> io::Result<Self> {
        let stdin = io::stdin();
        // It may be closed.
        let Ok(stat) = fstat(stdin.as_fd()) else { return Ok(Input::Empty) };
        let kind = SFlag::from_bits_truncate(stat.st_mode & SFlag::S_IFMT.bits());
        if kind == SFlag::S_IFCHR && SAME_FOR_ALL.contains(&stat.st_rdev) {
            return Ok(Input::Inherited);
        }
        let flags = fcntl(stdin.as_fd(), FcntlArg::F_GETFL).unwrap_or(0);
        let mode = OFlag::from_bits_truncate(flags) & OFlag::O_ACCMODE;
        let own = Path::new("/proc/self/fd/0");
        if (kind == SFlag::S_IFREG || kind == SFlag::S_IFDIR)
            && mode != OFlag::O_WRONLY
            && let Ok(mut file) = File::open(own)
        {
            let offset = rustix::fs::tell(stdin.as_fd())?;
            let is_below =
                |folder: &Path| std::fs::read_link(own).is_ok_and(|it| it.starts_with(folder));
            if kind == SFlag::S_IFREG && written.is_some_and(is_below) {
                let mut kept = tempfile::tempfile()?;
                io::copy(&mut file, &mut kept)?;
                file = kept;
            }
            return Ok(Input::File { file, offset });
        }
        Ok(Input::Stream(Arc::new(Stream::new(tempfile::tempfile()?))))
    }

    /// A file, from its beginning.
    pub fn of_file(path: &Path) -> Result<Self, Error> {
        let file = File::open(path);
        let file = file.map_err(|source| Error::Read { path: path.to_owned(), source })?;
        Ok(Input::File { file, offset: 0 })
    }

    /// For one copy.
    pub fn open(&self) -> io::Result<CopyInput> {
        Ok(match self {
            Input::Empty => CopyInput { stdio: Stdio::null(), file: None, stream: None },
            Input::Inherited => CopyInput { stdio: Stdio::inherit(), file: None, stream: None },
            Input::File { file, offset } => {
                // Opened again, it has an offset of its own.
                let mut file = File::open(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
                file.seek(SeekFrom::Start(*offset))?;
                CopyInput { stdio: file.try_clone()?.into(), file: Some(file), stream: None }
            }
            Input::Stream(stream) => {
                let stream = Some(Arc::clone(stream));
                CopyInput { stdio: Stdio::piped(), file: None, stream }
            }
        })
    }

    /// Whether something was read that cannot be read again.
    pub fn was_consumed(&self) -> bool {
        matches!(self, Input::Stream(stream) if stream.progress().length > 0)
    }

    /// Our own standard input has been read as far as that of a copy.
    pub fn advance(&self, copy: &File) {
        if let (Input::File { .. }, Ok(offset)) = (self, rustix::fs::tell(copy)) {
            let _ = rustix::fs::seek(io::stdin().as_fd(), rustix::fs::SeekFrom::Start(offset));
        }
    }
}

/// Input that can be read once, and what was read of it.
pub(super) struct Stream {
    kept: File,
    progress: Mutex<Progress>,
    changed: Condvar,
}

#[derive(Default)]
struct Progress {
    /// How much is kept.
    length: u64,
    /// Nothing follows; with an error if what followed could not be kept.
    ended: Option<Option<ErrorKind>>,
    /// A thread waits for input.
    reading: bool,
}

impl Stream {
    fn new(kept: File) -> Self {
        Self { kept, progress: Mutex::default(), changed: Condvar::new() }
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Feeds one copy, until the input or the copy's interest in it ends.
    pub fn feed(self: &Arc<Self>, mut pipe: ChildStdin, is_over: &dyn Fn() -> bool) {
        let mut buffer = vec![0; PIECE];
        let mut position = 0;
        loop {
            let mut progress = self.progress();
            while progress.length == position && progress.ended.is_none() {
                if is_over() {
                    return;
                }
                if !progress.reading {
                    progress.reading = true;
                    let stream = Arc::clone(self);
                    // Not joined: it may wait for ever for somebody to type.
                    std::thread::spawn(move || stream.read());
                }
                progress = self.changed.wait(progress).unwrap_or_else(PoisonError::into_inner);
            }
            drop(progress);
            let Ok(read @ 1..) = self.kept.read_at(&mut buffer, position) else { return };
            // A broken pipe: it wants no more.
            if pipe.write_all(&buffer[..read]).is_err() {
                return;
            }
            position += read as u64;
        }
    }

    /// A copy has ended: whoever feeds it should look.
    pub fn wake(&self) {
        drop(self.progress());
        self.changed.notify_all();
    }

    /// Reads one piece, for all.
    fn read(&self) {
        let mut buffer = vec![0; PIECE];
        let read = loop {
            match nix::unistd::read(io::stdin().as_fd(), &mut buffer) {
                Err(nix::errno::Errno::EINTR) => {}
                Err(_) => break 0,
                Ok(read) => break read,
            }
        };
        let mut progress = self.progress();
        match self.kept.write_all_at(&buffer[..read], progress.length) {
            Ok(()) if read > 0 => progress.length += read as u64,
            Ok(()) => progress.ended = Some(None),
            Err(error) => progress.ended = Some(Some(error.kind())),
        }
        progress.reading = false;
        self.changed.notify_all();
    }

    /// Why input was cut, if it was.
    pub fn failure(&self) -> Option<ErrorKind> {
        self.progress().ended.flatten()
    }
}
