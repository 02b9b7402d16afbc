//! Running a variant as a local process, in the program's place.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus};

use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::signal::{self, Signal};
use nix::sys::time::TimeVal;

use crate::Error;

/// What to run. Standard input, output and error are inherited.
pub struct Run<'a> {
    /// The variant.
    pub executable: &'a Path,
    /// The name it is started under.
    pub name: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// Variables to set.
    pub environment: &'a [(&'a str, &'a OsStr)],
}

/// Runs a variant to its end. Signals from the keyboard are for the program
/// alone: it decides what they mean.
pub fn run(run: &Run<'_>) -> Result<ExitStatus, Error> {
    let from_keyboard = [Signal::SIGINT, Signal::SIGQUIT];
    let mut blocked = signal::SigSet::empty();
    from_keyboard.into_iter().for_each(|it| blocked.add(it));
    let mut command = Command::new(run.executable);
    command.arg0(run.name).args(run.arguments).envs(run.environment.iter().copied());
    let failed = |source| Error::Start { path: run.executable.to_owned(), source };
    let mut child = command.spawn().map_err(failed)?;
    // Only after the child was started, which inherits what is blocked. What
    // arrived meanwhile is never delivered: the child had it, too.
    let _ = blocked.thread_block();
    let status = child.wait().map_err(failed)?;
    Ok(status)
}

/// Processor time of processes that this one has waited for, in user mode and in the
/// kernel.
pub fn child_seconds() -> (f64, f64) {
    let Ok(usage) = getrusage(UsageWho::RUSAGE_CHILDREN) else { return (0.0, 0.0) };
    let seconds = |time: TimeVal| time.tv_sec() as f64 + time.tv_usec() as f64 / 1e6;
    (seconds(usage.user_time()), seconds(usage.system_time()))
}

/// Ends this process by a signal, as the program ended.
pub fn end_by(signal: i32) {
    // The program's core is of interest, ours is not.
    let _ = setrlimit(Resource::RLIMIT_CORE, 0, 0);
    if let Ok(signal) = Signal::try_from(signal) {
        let mut set = signal::SigSet::empty();
        set.add(signal);
        let _ = set.thread_unblock();
        let _ = signal::raise(signal);
    }
}

/// Fails if the file at `path` is not there or may not be executed.
pub fn check_executable(path: &Path) -> Result<(), Error> {
    let failed = |source| Error::Read { path: path.to_owned(), source };
    let mode = std::fs::metadata(path).map_err(failed)?.permissions().mode();
    if mode & 0o111 == 0 {
        return Err(Error::NotExecutable(path.to_owned()));
    }
    Ok(())
}
