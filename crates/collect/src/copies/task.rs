//! One copy as a task of a job array: what happens on the node.
//!
//! The task finds everything in the staging folder, and leaves everything there:
//! so whatever becomes of it, removing that folder removes its traces. It works
//! in `work/NNNN-JOB-RESTART`, of which there is one for each attempt, and says
//! that it has finished by a file `done/NNNN`, renamed into place as the last
//! thing it does. A task without that file has failed, whoever killed it, and
//! what it left is never looked at. A program that was killed (signal 9) may
//! have been so by somebody who wanted memory or the node back: such a task has
//! failed, too, unless it is the last attempt.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};

use backtrail_abi::log::DIR_VARIABLE;
use backtrail_foreign::say;
use nix::sys::signal::Signal;
use serde::{Deserialize, Serialize};

use super::Isolation;
use super::Variant;
use super::input::Input;
use super::local::{Places, make};
use super::process::Spec;
use super::run::run_copy;
use super::signals::Watch;
use super::tree::{Changes, Ours, let_the_clock_tick};
use super::view::{Means, Method, View};
use crate::Error;
use crate::packing::Packer;

/// The staging folder's parts.
pub(super) struct Staging(pub PathBuf);

impl Staging {
    pub fn job(&self) -> PathBuf {
        self.0.join("job.json")
    }
    pub fn entry(&self) -> PathBuf {
        self.0.join("backtrail")
    }
    pub fn variant(&self, index: usize) -> PathBuf {
        self.0.join("variants").join(format!("{index:04}"))
    }
    pub fn snapshot(&self) -> PathBuf {
        self.0.join("snapshot")
    }
    pub fn stdin(&self) -> PathBuf {
        self.0.join("stdin")
    }
    pub fn done(&self) -> PathBuf {
        self.0.join("done")
    }
    pub fn done_file(&self, index: usize) -> PathBuf {
        self.done().join(format!("{index:04}"))
    }
    /// Where a task says why it failed, if it can.
    pub fn failed_file(&self, index: usize) -> PathBuf {
        self.0.join("failed").join(format!("{index:04}"))
    }
    pub fn log(&self) -> PathBuf {
        self.0.join("log")
    }
    pub fn work(&self) -> PathBuf {
        self.0.join("work")
    }
}

/// What all tasks have in common.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Job {
    pub name: OsString,
    /// The file name of the executable, in each variant's folder.
    pub executables: Vec<OsString>,
    pub arguments: Vec<OsString>,
    pub environment: Vec<(OsString, OsString)>,
    pub directory: PathBuf,
    pub isolation: Kept,
    /// Whether the staging folder is below the working directory, where a view
    /// would hide it.
    pub is_inside: bool,
    /// How often each copy may still be run again, when this was written.
    pub retries: BTreeMap<usize, usize>,
}

/// [`Isolation`], in a file.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) enum Kept {
    Auto,
    Copy,
    Overlay,
    Together,
}

impl From<Isolation> for Kept {
    fn from(isolation: Isolation) -> Self {
        match isolation {
            Isolation::Auto => Kept::Auto,
            Isolation::Copy => Kept::Copy,
            Isolation::Overlay => Kept::Overlay,
            Isolation::None => Kept::Together,
        }
    }
}

impl From<Kept> for Isolation {
    fn from(kept: Kept) -> Self {
        match kept {
            Kept::Auto => Isolation::Auto,
            Kept::Copy => Isolation::Copy,
            Kept::Overlay => Isolation::Overlay,
            Kept::Together => Isolation::None,
        }
    }
}

/// What a task that finished says.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Done {
    /// As `wait` gives it.
    pub status: i32,
    pub node: String,
    /// Its folder in [`Staging::work`].
    pub work: PathBuf,
    pub changes: Option<Changes>,
    /// Where the changed files are.
    pub changed: Option<PathBuf>,
}

/// Runs the task of this process, which Slurm started. Whether it finished.
pub(super) fn run(staging: &Path) -> bool {
    let staging = Staging(staging.to_owned());
    let Some(index) = number("SLURM_ARRAY_TASK_ID") else {
        say!("backtrail: this is for a task of a job array");
        return false;
    };
    match try_run(&staging, index) {
        Ok(()) => true,
        Err(why) => {
            say!("backtrail: {why}");
            let _ = fs::write(staging.failed_file(index), why);
            false
        }
    }
}

fn number(variable: &str) -> Option<usize> {
    std::env::var(variable).ok()?.parse().ok()
}

fn try_run(staging: &Staging, index: usize) -> Result<(), String> {
    let watch = Watch::begin();
    let job = fs::read(staging.job()).map_err(|error| format!("job.json: {error}"))?;
    let job: Job = serde_json::from_slice(&job).map_err(|error| format!("job.json: {error}"))?;
    let executable = job.executables.get(index).ok_or(format!("there is no copy {index}"))?;
    let id = number("SLURM_JOB_ID").unwrap_or(0);
    let restart = number("SLURM_RESTART_COUNT").unwrap_or(0);
    let work = staging.work().join(format!("{index:04}-{id}-{restart}"));
    let done =
        copy(staging, &job, index, executable, &work, &watch).map_err(|error| error.to_string())?;
    if let Some(signal) = watch.received() {
        return Err(format!("the task was asked to end, by signal {signal}"));
    }
    let killed = std::process::ExitStatus::from_raw(done.status).signal();
    let may_repeat = job.retries.get(&index).is_some_and(|&retries| retries > 0);
    if killed == Some(Signal::SIGKILL as i32) && may_repeat {
        return Err("the program was killed".to_owned());
    }
    let write = || -> std::io::Result<()> {
        let unfinished = work.join("done");
        fs::write(&unfinished, serde_json::to_vec(&done)?)?;
        fs::File::open(&unfinished)?.sync_all()?;
        fs::rename(&unfinished, staging.done_file(index))
    };
    write().map_err(|error| format!("{} cannot be written: {error}", work.display()))
}

fn copy(
    staging: &Staging,
    job: &Job,
    index: usize,
    executable: &std::ffi::OsStr,
    work: &Path,
    watch: &Watch,
) -> Result<Done, Error> {
    let (directory, entry) = (&job.directory, &staging.entry());
    let records = work.join("records");
    make(&records)?;
    let isolation = Isolation::from(job.isolation);
    let is_shared = isolation == Isolation::None;
    let base = if is_shared { directory.clone() } else { staging.snapshot() };
    let notice = |event| say!("backtrail: {event:?}");
    // Where the working directory does not exist, or would hide the staging
    // folder, the copy sees its own at another path.
    let means = if !is_shared && (job.is_inside || !directory.is_dir()) {
        Means { method: Method::Copy, mounts: false }
    } else {
        Means::find(isolation, &base, directory, entry, work, &notice)?
    };
    let ours = Ours::below(&base, [staging.0.clone()]);
    let view = View::new(&means, &base, directory, work, &ours, false)?;
    let places = Places::new(&staging.0, means.mounts)?;
    let variant = Variant { executable: staging.variant(index).join(executable), records };
    let mut mounts = places.mounts(&variant)?;
    mounts.extend(view.mounts.iter().cloned());
    let spec = Spec {
        executable: places.executable(&variant)?,
        name: job.name.clone(),
        arguments: job.arguments.clone(),
        environment: Some(job.environment.clone()),
        variables: vec![(DIR_VARIABLE.into(), places.records(&variant)?.into())],
        directory: view.directory.clone(),
        cores: Vec::new(),
        mounts,
        failure: work.join("failure"),
        watched: None,
    };
    let_the_clock_tick();
    let input = Input::of_file(&staging.stdin())?;
    let packer = Packer::start([variant.records]);
    let ran = run_copy(entry, &spec, work, &input, false, watch)?;
    drop(packer);
    Ok(Done {
        status: ran.status.into_raw(),
        node: std::env::var("SLURMD_NODENAME").unwrap_or_default(),
        work: work.to_owned(),
        changes: view.changes()?,
        changed: view.apart().map(Path::to_owned),
    })
}
