//! Running a variant as a local process, in the program's place.

use std::ffi::{OsStr, OsString};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command, ExitStatus};

use backtrail_foreign::file;
use backtrail_interruption::Environment;
use nix::sys::resource::{Resource, UsageWho, getrusage, setrlimit};
use nix::sys::time::TimeVal;

use crate::Error;
use crate::handing_on::{self, HandingOn};

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

/// Runs a variant to its end. Signals that ask us to end are for the program: it decides
/// what they mean. It does not outlive this process.
pub fn run(run: &Run<'_>) -> Result<ExitStatus, Error> {
    let mut command = Command::new(run.executable);
    command.arg0(run.name).args(run.arguments);
    if !run.environment.is_empty() {
        let mut environment = Environment::own();
        run.environment.iter().for_each(|(name, value)| environment.set(name, value));
        environment.give(&mut command);
    }
    let failed = |source| Error::Start { path: run.executable.to_owned(), source };
    let signals = HandingOn::prepare().map_err(failed)?;
    signals.catch_up(&mut command);
    let start = || backtrail_interruption::spawn_program(&mut command);
    let mut child = signals.start(start, Child::id).map_err(failed)?;
    let status = child.wait().map_err(failed)?;
    signals.finish();
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
    handing_on::end_by(signal);
}

/// What people call a signal.
pub fn signal_name(signal: i32) -> String {
    match nix::sys::signal::Signal::try_from(signal) {
        Ok(signal) => signal.as_str().to_owned(),
        // Those of real time.
        Err(_) => format!("signal {signal}"),
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

/// Fails if a variant cannot stand in the place of the program at `path`.
pub fn check_replaceable(path: &Path) -> Result<(), Error> {
    check_executable(path)?;
    match file::gains_privileges(path) {
        true => Err(Error::Privileged(path.to_owned())),
        false => Ok(()),
    }
}
