//! What a copy prints: kept, and passed through if it is the first.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

/// One of the two streams a program prints on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    /// Standard output.
    Output,
    /// Standard error.
    Error,
}

impl std::fmt::Display for Stream {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stream::Output => "standard output",
            Stream::Error => "standard error",
        })
    }
}

/// Keeps everything that comes through `pipe` in `kept`. With `live`, it goes
/// also where that stream of ours goes; when nobody reads there any more, the
/// copy is not told, so that all copies are treated alike.
pub(super) fn keep(mut pipe: impl Read, mut kept: File, live: Option<Stream>) -> io::Result<File> {
    let mut live = live;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = match pipe.read(&mut buffer) {
            Ok(0) => return Ok(kept),
            Ok(read) => read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        let bytes = &buffer[..read];
        if live.is_some_and(|stream| show(stream, bytes).is_err()) {
            live = None;
        }
        kept.write_all(bytes)?;
    }
}

/// Passes bytes through at once.
pub(super) fn show(stream: Stream, bytes: &[u8]) -> io::Result<()> {
    match stream {
        Stream::Output => {
            let mut output = io::stdout().lock();
            output.write_all(bytes)?;
            output.flush()
        }
        Stream::Error => io::stderr().lock().write_all(bytes),
    }
}

/// The files below `directory` that our own streams go to, by their names in it.
pub(super) fn files_below(directory: &Path) -> Vec<PathBuf> {
    let streams = ["/proc/self/fd/1", "/proc/self/fd/2"];
    let targets = streams.iter().filter_map(|stream| fs::read_link(stream).ok());
    let below = targets.filter_map(|path| Some(path.strip_prefix(directory).ok()?.to_owned()));
    below.filter(|name| !name.as_os_str().is_empty()).collect()
}
