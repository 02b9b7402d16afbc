//! Starts LLVM workers.

use std::fs::File;
use std::io::{Read as _, Seek as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use backtrail_interruption::bind;
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
    Worker::default().call(request)
}

/// A worker for several requests about one unit. It is started when it is first
/// needed, and again after it failed.
#[derive(Debug, Default)]
pub struct Worker {
    process: Option<Process>,
}

#[derive(Debug)]
struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: ChildStdout,
    /// What it says to people.
    said: Option<File>,
}

impl Worker {
    /// Carries out `request`.
    pub fn call(&mut self, request: &Request) -> Result<Response, Error> {
        let failed = |why: String| Error::Worker { unit: request.name.clone(), why };
        let mut process = match self.process.take() {
            Some(process) => process,
            None => Process::start()
                .map_err(|error| failed(format!("cannot start the LLVM worker: {error}")))?,
        };
        match process.ask(request) {
            Some(Response::Failed(why)) => Err(failed(why)),
            Some(response) => {
                self.process = Some(process);
                Ok(response)
            }
            None => Err(failed(process.how_it_ended())),
        }
    }
}

impl Process {
    fn start() -> std::io::Result<Self> {
        // Into a file, since nobody reads it before the end.
        let said = tempfile::tempfile().ok();
        let stderr = said.as_ref().and_then(|file| file.try_clone().ok());
        let mut child = bind(&mut Command::new(program()))
            .arg(VERB)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(stderr.map_or_else(Stdio::null, Stdio::from))
            .spawn()?;
        let output = child.stdout.take().expect("stdout is a pipe");
        Ok(Self { input: child.stdin.take(), output, child, said })
    }

    /// Its response, or none if it died.
    fn ask(&mut self, request: &Request) -> Option<Response> {
        let message = postcard::to_stdvec(request).expect("serialising into memory does not fail");
        let input = self.input.as_mut()?;
        input.write_all(&u32::try_from(message.len()).ok()?.to_le_bytes()).ok()?;
        input.write_all(&message).ok()?;
        let mut length = [0; 4];
        self.output.read_exact(&mut length).ok()?;
        let mut response = Vec::new();
        let length = u64::from(u32::from_le_bytes(length));
        (&mut self.output).take(length).read_to_end(&mut response).ok()?;
        postcard::from_bytes(&response).ok()
    }

    fn how_it_ended(mut self) -> String {
        self.input = None;
        let status = match self.child.wait() {
            Ok(status) => status,
            Err(error) => return format!("lost the LLVM worker: {error}"),
        };
        let end = match status.signal() {
            Some(signal) => format!("signal {signal}"),
            None => format!("status {}", status.code().unwrap_or(-1)),
        };
        let mut said = Vec::new();
        if let Some(file) = &mut self.said {
            let _ = file.rewind().and_then(|()| file.read_to_end(&mut said));
        }
        let said = String::from_utf8_lossy(&said);
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        format!("the LLVM worker ended with {end}: {line}")
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The end of its input is the end of the worker.
        self.input = None;
        let _ = self.child.wait();
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
