//! Starts LLVM workers.

use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backtrail_plan::worker::{Request, Response};

use crate::Error;

/// The hidden verb under which `backtrail` is a worker.
pub const VERB: &str = "__worker";

/// The environment variable that names another executable to use as worker.
pub const WORKER_VARIABLE: &str = "BACKTRAIL_WORKER";

fn program() -> PathBuf {
    match std::env::var_os(WORKER_VARIABLE) {
        Some(program) => program.into(),
        None => std::env::current_exe().unwrap_or_else(|_| "backtrail".into()),
    }
}

/// Carries out `request` in a process of its own.
pub fn call(request: &Request) -> Result<Response, Error> {
    let failed = |why: String| Error::Worker { unit: request.name.clone(), why };
    let message = postcard::to_stdvec(request).expect("serialising into memory does not fail");
    let mut child = Command::new(program())
        .arg(VERB)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|error| failed(format!("cannot start the LLVM worker: {error}")))?;
    // A worker that dies early closes the pipe; how it ended says more.
    let _ = child.stdin.take().expect("stdin is a pipe").write_all(&message);
    let output = child
        .wait_with_output()
        .map_err(|error| failed(format!("lost the LLVM worker: {error}")))?;
    match postcard::from_bytes(&output.stdout) {
        Ok(Response::Failed(why)) => Err(failed(why)),
        Ok(response) => Ok(response),
        Err(_) => {
            let said = String::from_utf8_lossy(&output.stderr);
            let line =
                said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
            let end = match output.status.signal() {
                Some(signal) => format!("signal {signal}"),
                None => format!("status {}", output.status.code().unwrap_or(-1)),
            };
            Err(failed(format!("the LLVM worker ended with {end}: {line}")))
        }
    }
}

/// Fails if the library a worker needs is not there.
pub fn check_library(unit: &str, version: &str, library: &Path) -> Result<(), Error> {
    match library.is_file() {
        true => Ok(()),
        false => Err(Error::LibraryGone {
            unit: unit.to_owned(),
            version: version.to_owned(),
            library: library.to_owned(),
        }),
    }
}
