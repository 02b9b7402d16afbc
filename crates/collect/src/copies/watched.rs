//! A copy whose inputs are written down while it runs.
//!
//! Numbers of processes differ from run to run, and programs read them. So each copy has a
//! namespace of processes, in which they are the same in all copies: the first process there
//! is ours, and only takes the dead; the second traces; the third is the program. What the
//! program finds under `/proc` are the processes of its namespace.
//!
//! ```text
//! this process ── 1: takes the dead ── 2: traces ── 3: the program
//! ```
//!
//! They are one process group, which is that of the copy: signals that are handed on to it
//! come to the program as they would without all this, and ours block them. They do not
//! hold standard input, output and error open: whoever is at the other end sees the
//! program's end. When the second is done, the first leaves, and the kernel ends whatever
//! is left in the namespace (pid_namespaces(7)).
#![allow(unsafe_code)]

use std::fs::{self, File};
use std::io::{BufWriter, PipeReader, PipeWriter, Read as _, Write as _, pipe};
use std::os::fd::{AsFd as _, AsRawFd as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use backtrail_machine::tracee::inputs::{self, Ended, How, Recorded};
use nix::errno::Errno;
use nix::libc;
use nix::mount::{MsFlags, mount};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, unshare};
use nix::sys::prctl;
use nix::sys::signal::{SigSet, SigmaskHow, Signal};
use nix::sys::wait::{WaitStatus, waitpid};
use nix::unistd::{ForkResult, Pid, fork, setpgid};
use serde::{Deserialize, Serialize};

use super::process::{Spec, enter, execute};
use super::{Copies, Difference};
use crate::Error;

/// How a copy is watched.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Watched {
    /// The folder for what is written.
    pub folder: PathBuf,
    /// When the first of the runs began: seconds, nanoseconds.
    pub since: (i64, i64),
    /// What random numbers are made of, in all copies.
    pub seed: u64,
}

impl Watched {
    /// For the copies of a run that begins now; the folder is each copy's own.
    pub fn begin(copies: &Copies<'_>) -> Result<Option<Self>, Error> {
        if !copies.inputs {
            return Ok(None);
        }
        let read = |source| Error::Read { path: "/dev/urandom".into(), source };
        let mut seed = [0; 8];
        File::open("/dev/urandom").and_then(|mut it| it.read_exact(&mut seed)).map_err(read)?;
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let now = now.unwrap_or_default();
        let since = (now.as_secs().cast_signed(), i64::from(now.subsec_nanos()));
        // Times of files are those of the last tick, which may be before now.
        let since = (since.0 - 1, since.1);
        Ok(Some(Self { folder: PathBuf::new(), since, seed: u64::from_le_bytes(seed) }))
    }

    /// The same, with its folder.
    pub fn within(&self, folder: &Path) -> Self {
        Self { folder: folder.to_owned(), ..self.clone() }
    }

    fn record(&self) -> PathBuf {
        self.folder.join("inputs")
    }

    fn status_file(&self) -> PathBuf {
        self.folder.join("status")
    }

    /// Where it is said why it could not be watched.
    fn failure(&self) -> PathBuf {
        self.folder.join("inputs.failure")
    }

    /// How the program ended.
    pub fn status(&self) -> Result<ExitStatus, Error> {
        let failed = |what: String| Error::Engine { engine: "--check inputs", what };
        if let Ok(why) = fs::read_to_string(self.failure()) {
            return Err(failed(why));
        }
        let status = fs::read_to_string(self.status_file()).ok();
        let status = status.and_then(|text| text.trim().parse().ok());
        let ended = || failed("what traces the program was ended".to_owned());
        status.map(ExitStatus::from_raw).ok_or_else(ended)
    }

    /// What came into it.
    fn recorded(&self) -> Result<Recorded, Error> {
        let path = self.record();
        let bytes = fs::read(&path).map_err(|source| Error::Read { path, source })?;
        let wrong = |error: backtrail_machine::Error| Error::Engine {
            engine: "--check inputs",
            what: error.to_string(),
        };
        Recorded::read(&bytes).map_err(wrong)
    }
}

/// What came into copies: the number of the first that differs, from 1, or what is not seen.
pub(super) fn compare(
    watched: &[&Watched],
) -> Result<Result<Vec<String>, (usize, Difference)>, Error> {
    let Some((first, others)) = watched.split_first() else { return Ok(Ok(Vec::new())) };
    let first = first.recorded()?;
    let mut unseen: Vec<String> = inputs::UNSEEN.map(str::to_owned).into();
    let mut more = first.notes.clone();
    for (index, other) in others.iter().enumerate() {
        let other = other.recorded()?;
        match inputs::compare(&first, &other) {
            Ok(differing) => more.extend(differing),
            Err(different) => return Ok(Err((index + 2, Difference::Input(different)))),
        }
        more.extend(other.notes);
    }
    unseen.extend(more);
    Ok(Ok(unseen))
}

/// Becomes what watches the program of `spec`, and comes back when that is over.
pub(super) fn run(spec: &Spec, watched: &Watched) -> Result<(), String> {
    let failed = |why: &str| drop(fs::write(watched.failure(), why));
    let before = SigSet::all().thread_swap_mask(SigmaskHow::SIG_SETMASK);
    let before = before.map_err(|error| format!("signals: {error}"))?;
    enter(&spec.mounts)?;
    if let Err(error) = unshare(CloneFlags::CLONE_NEWPID) {
        failed(&format!("the kernel allows no namespace of processes: {error}"));
        return Ok(());
    }
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    // Its other end is open as long as this process lives.
    let (alive, ours) = pipe().map_err(|error| format!("pipe: {error}"))?;
    match forked()? {
        Some(first) => {
            let_go_of_streams()?;
            wait_for(first);
            drop(ours);
        }
        None => {
            drop(ours);
            let result = take_the_dead(spec, watched, &before, &alive);
            result.unwrap_or_else(|why| failed(&why));
            std::process::exit(0);
        }
    }
    Ok(())
}

/// A process like this one; `None` in that.
fn forked() -> Result<Option<Pid>, String> {
    // SAFETY: there is one thread, so that nothing is left half done in the copy.
    match unsafe { fork() }.map_err(|error| format!("fork: {error}"))? {
        ForkResult::Parent { child } => Ok(Some(child)),
        ForkResult::Child => Ok(None),
    }
}

fn wait_for(process: Pid) {
    while let Err(Errno::EINTR) = waitpid(process, None) {}
}

/// Standard input, output and error are the program's alone.
fn let_go_of_streams() -> Result<(), String> {
    let failed = |error: std::io::Error| format!("/dev/null: {error}");
    let null = File::options().read(true).write(true).open("/dev/null").map_err(failed)?;
    for stream in 0..3 {
        // SAFETY: numbers in, a number out; nobody here relies on what these were.
        if unsafe { libc::dup2(null.as_raw_fd(), stream) } < 0 {
            return Err(failed(std::io::Error::last_os_error()));
        }
    }
    Ok(())
}

/// The first process of the namespace.
fn take_the_dead(
    spec: &Spec,
    watched: &Watched,
    before: &SigSet,
    alive: &PipeReader,
) -> Result<(), String> {
    prctl::set_pdeathsig(Signal::SIGKILL).map_err(|error| format!("prctl: {error}"))?;
    // Whoever started us may have died meanwhile.
    let mut closed = [PollFd::new(alive.as_fd(), PollFlags::POLLIN)];
    if poll(&mut closed, PollTimeout::ZERO) != Ok(0) {
        return Err("whoever started it is gone".to_owned());
    }
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
    let proc = Path::new("proc");
    mount(Some(proc), "/proc", Some(proc), flags, None::<&Path>).map_err(|error| {
        format!("the kernel allows no /proc of its own in a namespace of processes: {error}")
    })?;
    match forked()? {
        Some(second) => {
            let_go_of_streams()?;
            loop {
                match waitpid(None, None) {
                    Ok(WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..))
                        if pid == second =>
                    {
                        return Ok(());
                    }
                    Err(Errno::ECHILD) => return Ok(()),
                    _ => {}
                }
            }
        }
        None => trace(spec, watched, before),
    }
}

/// The second process.
fn trace(spec: &Spec, watched: &Watched, before: &SigSet) -> Result<(), String> {
    let failed = |error: std::io::Error| format!("{}: {error}", watched.folder.display());
    let record = File::create(watched.record()).map_err(failed)?;
    let (waits, begin) = pipe().map_err(failed)?;
    let Some(program) = forked()? else {
        drop((begin, record));
        become_traced(spec, waits, before);
    };
    drop(waits);
    let_go_of_streams()?;
    // What the program sends to its group is not for this process.
    setpgid(Pid::from_raw(0), Pid::from_raw(0)).map_err(|error| format!("setpgid: {error}"))?;
    let executable = spec.executable.parent().unwrap_or(Path::new("/"));
    let how = How { own: executable, since: watched.since, seed: watched.seed };
    let begin = move || drop(PipeWriter::write_all(&mut { begin }, &[0]));
    let out = BufWriter::with_capacity(1 << 16, record);
    let Ended(status) = inputs::record(program, &how, out, begin)?;
    fs::write(watched.status_file(), status.to_string()).map_err(failed)
}

/// The third process, which becomes the program when it is traced.
fn become_traced(spec: &Spec, mut waits: PipeReader, before: &SigSet) -> ! {
    let mut byte = [0];
    let begins = waits.read_exact(&mut byte).is_ok();
    drop(waits);
    if begins {
        // The processor's clock traps (<linux/prctl.h>: PR_SET_TSC, PR_TSC_SIGSEGV).
        // SAFETY: numbers in, a number out.
        unsafe { libc::prctl(libc::PR_SET_TSC, libc::PR_TSC_SIGSEGV, 0, 0, 0) };
        let _ = before.thread_set_mask();
        let why = execute(spec);
        let _ = fs::write(&spec.failure, why);
    }
    std::process::exit(126);
}
