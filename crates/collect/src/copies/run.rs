//! Running one copy to its end.

use std::fs::File;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::sys::wait::{Id, WaitPidFlag, waitid};
use nix::unistd::Pid;

use super::input::Input;
use super::output::{self, Stream};
use super::process::{self, Spec};
use super::signals::Watch;
use crate::Error;

/// How one copy went.
pub(super) struct Ran {
    pub status: ExitStatus,
    /// What it printed.
    pub output: File,
    /// What it printed on standard error.
    pub error: File,
    /// Its standard input, if that was a file.
    pub input: Option<File>,
}

/// Runs a copy, whose folder is `scratch`. What it prints is kept there, and
/// passed through if it is `live`.
pub(super) fn run_copy(
    entry: &Path,
    spec: &Spec,
    scratch: &Path,
    input: &Input,
    live: bool,
    watch: &Watch,
) -> Result<Ran, Error> {
    let write = |source| Error::Write { path: scratch.to_owned(), source };
    let path = scratch.join("copy.json");
    spec.write(&path).map_err(write)?;
    let keep = |name| {
        let path = scratch.join(name);
        let mut options = std::fs::OpenOptions::new();
        options.read(true).write(true).create(true).truncate(true).open(path).map_err(write)
    };
    let (output, error) = (keep("stdout")?, keep("stderr")?);
    let input = input.open().map_err(write)?;
    let mut command = process::command(entry, process::BECOME, &path);
    command.stdin(input.stdio).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = |source| Error::Start { path: entry.to_owned(), source };
    let mut child = command.spawn().map_err(start)?;
    // The command holds our end of its input.
    drop(command);
    let group = Pid::from_raw(child.id() as i32);
    watch.add(group.as_raw());
    let over = AtomicBool::new(false);
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let mut threadless = None;
    let (kept, status) = thread::scope(|scope| {
        // Nothing may be written to it or read from it by nobody.
        let mut give_up = |source| {
            let _ = killpg(group, Signal::SIGKILL);
            threadless = Some(source);
        };
        if let (Some(stream), Some(pipe)) = (&input.stream, pipes.0) {
            let over = &over;
            let feed = move || stream.feed(pipe, &|| over.load(Ordering::Acquire));
            let _ = thread::Builder::new().spawn_scoped(scope, feed).map_err(&mut give_up);
        }
        let read_error = pipes.2.and_then(|pipe| {
            let read = move || output::keep(pipe, error, live.then_some(Stream::Error));
            thread::Builder::new().spawn_scoped(scope, read).map_err(&mut give_up).ok()
        });
        let output = pipes.1.map(|pipe| output::keep(pipe, output, live.then_some(Stream::Output)));
        let error = read_error.map(|reader| reader.join().expect("a reader does not panic"));
        let status = wait(&mut child, group, watch);
        over.store(true, Ordering::Release);
        if let Some(stream) = &input.stream {
            stream.wake();
        }
        ((output, error), status)
    });
    let status = status.map_err(start)?;
    if let Some(source) = threadless {
        let what = format!(
            "a copy needs a thread of this process, and there is none: {source}; see the limits \
             on memory and processes (ulimit -v, ulimit -u)"
        );
        return Err(Error::Engine { engine: "local", what });
    }
    if let Ok(why) = std::fs::read_to_string(&spec.failure) {
        let source = std::io::Error::other(why);
        return Err(Error::Start { path: spec.executable.clone(), source });
    }
    let status = match &spec.watched {
        Some(watched) => watched.status()?,
        None => status,
    };
    let (Some(output), Some(error)) = kept else { unreachable!("both were asked for as pipes") };
    let (output, error) = (output.map_err(write)?, error.map_err(write)?);
    if let Some(kind) = input.stream.and_then(|stream| stream.failure()) {
        return Err(write(kind.into()));
    }
    Ok(Ran { status, output, error, input: input.file })
}

/// Waits for the program, and ends what it left running in its process group.
/// The program stays a zombie as long as the group is of interest, so that its
/// number means nobody else.
fn wait(child: &mut Child, group: Pid, watch: &Watch) -> std::io::Result<ExitStatus> {
    let flags = WaitPidFlag::WEXITED | WaitPidFlag::WNOWAIT;
    while let Err(nix::errno::Errno::EINTR) = waitid(Id::Pid(group), flags) {}
    watch.remove(group.as_raw());
    let _ = killpg(group, Signal::SIGKILL);
    let status = child.wait();
    // What was killed is not yet gone, and may still have files open. Signal 0
    // does nothing to whoever might have the number next. Not for ever: nobody
    // may be there to reap the dead.
    for _ in 0..200 {
        if killpg(group, None).is_err() {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    status
}
