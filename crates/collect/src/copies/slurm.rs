//! Copies as tasks of a Slurm job array.
//!
//! One array, one task for each copy; how many run at once is for Slurm. All that
//! tasks need is put into a staging folder, which nodes and this machine must
//! both see: a copy of this executable, the variants, standard input, read to its
//! end, and a snapshot of the working directory. Tasks run as local copies do
//! (same name, arguments and environment; a view each), and leave what they
//! printed, changed and recorded there. Then it is as with local copies: all are
//! compared, and what the first one printed and changed is what remains. Its
//! output is shown when all have finished, because a task may be run again.
//!
//! The staging folder is `.backtrail-slurm-XXXXXX` beside the working directory,
//! if that can be written to, or in [`SlurmOptions::folder`]. In the working
//! directory itself it is only if nothing else is possible: then copies see
//! their own at different paths, because the usual one would hide the folder.
//!
//! A task that left the queue without saying that it finished (its node failed,
//! it was preempted, killed, or out of time) is submitted again, up to
//! [`SlurmOptions::retries`] times. What Slurm requeues by itself is not counted.
//! A database of jobs is not needed: `squeue` says who is still to come, and
//! the tasks say themselves that they are done.
//!
//! Whatever happens, no task is in the queue and no folder is left afterwards.
//! After an interruption the working directory is as it was before.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use super::divergence::{Ending, Stream};
use super::duplicate::copy_folder;
use super::local::{conclude, first_difference, make};
use super::output::show;
use super::overlay::put_in_place;
use super::signals::Watch;
use super::staging::{StagingFolder, stage};
use super::task::{Done, Job, Staging};
use super::tree::Ours;
use super::{Copies, Event, Outcome};
use crate::Error;

/// How a job array is submitted.
#[derive(Debug, Clone)]
pub struct SlurmOptions {
    /// Further arguments of `sbatch`, such as `--partition=short`.
    pub arguments: Vec<OsString>,
    /// Where the staging folder is made: somewhere nodes see, too.
    pub folder: Option<PathBuf>,
    /// How often a copy may be run again whose task failed.
    pub retries: usize,
}

impl Default for SlurmOptions {
    fn default() -> Self {
        Self { arguments: Vec::new(), folder: None, retries: 3 }
    }
}

/// How often the queue is asked.
const POLL: Duration = Duration::from_millis(700);

/// How long the controller may not answer, and how long a task may take to end
/// after it was cancelled.
const PATIENCE: Duration = Duration::from_secs(120);

fn failed(what: impl Into<String>) -> Error {
    Error::Engine { engine: "slurm", what: what.into() }
}

/// Runs them.
pub(super) fn run(copies: &Copies<'_>, options: &SlurmOptions) -> Result<Outcome, Error> {
    let watch = Watch::begin();
    let directory = std::env::current_dir()
        .map_err(|source| Error::Read { path: PathBuf::from("."), source })?;
    let folder = StagingFolder::new(options, &directory)?;
    let staging = Staging(folder.0.clone());
    copies.variants.iter().try_for_each(|variant| make(&variant.records))?;
    stage(copies, &staging, &directory, &watch)?;
    let mut queue = Queue { jobs: BTreeSet::new(), silent_since: None };
    let mut array =
        Array { copies, options, staging: &staging, directory: &directory, watch: &watch };
    let (done, repeated) = array.run(&mut queue)?;
    if !queue.leave() {
        copies.notice("tasks that have ended are still in the queue; does their node answer?");
    }
    let mut endings = Vec::new();
    for done in &done {
        endings.push(Ending {
            status: ExitStatus::from_raw(done.status),
            output: open(&done.work.join("stdout"))?,
            error: open(&done.work.join("stderr"))?,
            changes: done.changes.clone(),
        });
    }
    if let (Some(first), Some(done)) = (endings.first(), done.first()) {
        for (stream, name) in [(Stream::Output, "stdout"), (Stream::Error, "stderr")] {
            pass_through(stream, &done.work.join(name))?;
        }
        if let (Some(changes), Some(from)) = (&first.changes, &done.changed) {
            put_in_place(changes, from, &directory)?;
        }
    }
    let difference = first_difference(&endings)?;
    for (variant, done) in copies.variants.iter().zip(&done) {
        let from = done.work.join("records");
        copy_folder(&from, &variant.records, &Ours::default())?;
        // Nothing was recorded, if it can be removed.
        let _ = fs::remove_dir(&variant.records);
    }
    let outcome = conclude(endings, difference, watch.received(), copies.variants.len())?;
    let nodes = done.into_iter().map(|done| done.node).collect();
    Ok(Outcome { nodes, repeated, ..outcome })
}

fn open(path: &Path) -> Result<File, Error> {
    File::open(path).map_err(|source| Error::Read { path: path.to_owned(), source })
}

fn pass_through(stream: Stream, path: &Path) -> Result<(), Error> {
    let mut file = open(path)?;
    let mut buffer = vec![0; 1 << 16];
    loop {
        let read = io::Read::read(&mut file, &mut buffer)
            .map_err(|source| Error::Read { path: path.to_owned(), source })?;
        // Nobody listens any more, or that was all.
        if read == 0 || show(stream, &buffer[..read]).is_err() {
            return Ok(());
        }
    }
}

/// The copies, as tasks.
struct Array<'a> {
    copies: &'a Copies<'a>,
    options: &'a SlurmOptions,
    staging: &'a Staging,
    directory: &'a Path,
    watch: &'a Watch,
}

impl Array<'_> {
    /// Runs all tasks to their end; how often one was run again.
    fn run(&mut self, queue: &mut Queue) -> Result<(Vec<Done>, usize), Error> {
        let of = self.copies.variants.len();
        let mut retries: BTreeMap<usize, usize> =
            (0..of).map(|index| (index, self.options.retries)).collect();
        let (mut repeated, mut gone_before) = (0, BTreeSet::new());
        self.submit(&(0..of).collect(), &retries, queue)?;
        loop {
            let waiting = queue.ask()?;
            // After the queue was asked: who is done and no longer in it has
            // said so before.
            let missing: BTreeSet<usize> =
                (0..of).filter(|&index| !self.staging.done_file(index).exists()).collect();
            self.report(of, &missing, &waiting);
            if missing.is_empty() {
                break;
            }
            if let Some(signal) = self.watch.received() {
                return Err(Error::Interrupted { signal });
            }
            let gone: BTreeSet<usize> =
                missing.iter().copied().filter(|index| !waiting.contains_key(index)).collect();
            // Twice in a row, as a shared folder may be late to show a file.
            let failed: BTreeSet<usize> = gone.intersection(&gone_before).copied().collect();
            gone_before = gone;
            if !failed.is_empty() {
                for index in &failed {
                    let left = retries.get_mut(index).expect("each copy has a number of them");
                    *left = left.checked_sub(1).ok_or_else(|| self.gave_up(*index))?;
                    repeated += 1;
                    let why = self.why_failed(*index);
                    self.copies.notice(&format!("copy {} is run again: {why}", index + 1));
                }
                self.submit(&failed, &retries, queue)?;
                gone_before.clear();
            }
            self.refresh();
            std::thread::sleep(POLL);
        }
        let done = (0..of).map(|index| {
            let path = self.staging.done_file(index);
            let bytes = fs::read(&path).map_err(|source| Error::Read { path, source })?;
            serde_json::from_slice(&bytes).map_err(|error| {
                failed(format!("the end of copy {} cannot be read: {error}", index + 1))
            })
        });
        Ok((done.collect::<Result<_, _>>()?, repeated))
    }

    fn submit(
        &self,
        tasks: &BTreeSet<usize>,
        retries: &BTreeMap<usize, usize>,
        queue: &mut Queue,
    ) -> Result<(), Error> {
        let job = Job {
            name: self.copies.name.to_owned(),
            executables: self
                .copies
                .variants
                .iter()
                .map(|variant| variant.executable.file_name().unwrap_or_default().to_owned())
                .collect(),
            arguments: self.copies.arguments.to_vec(),
            environment: std::env::vars_os()
                .chain(self.copies.environment.iter().cloned())
                .collect(),
            directory: self.directory.to_owned(),
            isolation: self.copies.isolation.into(),
            is_inside: self.staging.0.starts_with(self.directory),
            retries: retries.clone(),
        };
        let path = self.staging.job();
        // Whole, whenever a task looks.
        let unfinished = path.with_extension("unfinished");
        let bytes = serde_json::to_vec(&job).map_err(|error| failed(error.to_string()))?;
        fs::write(&unfinished, bytes)
            .and_then(|()| fs::rename(&unfinished, &path))
            .map_err(|source| Error::Write { path, source })?;
        for index in tasks {
            let _ = fs::remove_file(self.staging.failed_file(*index));
        }
        let list: Vec<String> = tasks.iter().map(usize::to_string).collect();
        let mut command = Command::new("sbatch");
        command.args(["--parsable", "--job-name=backtrail", "--requeue", "--ntasks=1"]);
        command.arg(format!("--array={}", list.join(",")));
        command.arg("--output").arg(self.staging.log().join("%a"));
        command.arg("--chdir").arg(&self.staging.0);
        command.args(&self.options.arguments).arg(self.staging.0.join("task.sh"));
        let said = said_by(&mut command)?;
        let said = said.map_err(|why| failed(format!("sbatch rejected the job: {why}")))?;
        // NUMBER or NUMBER;CLUSTER, perhaps after words of the site's own.
        let number = said.lines().last().and_then(|line| line.split(';').next());
        let number = number.map(str::trim).filter(|number| number.parse::<u64>().is_ok());
        queue.jobs.insert(number.ok_or_else(|| failed(format!("sbatch said: {said}")))?.to_owned());
        Ok(())
    }

    fn report(&self, of: usize, missing: &BTreeSet<usize>, waiting: &BTreeMap<usize, String>) {
        let mut states: BTreeMap<&str, usize> = BTreeMap::new();
        for (_, state) in waiting.iter().filter(|(index, _)| missing.contains(index)) {
            *states.entry(state).or_default() += 1;
        }
        let states: Vec<String> =
            states.iter().map(|(state, count)| format!("{count} {state}")).collect();
        let event = Event::Progress { done: of - missing.len(), of, what: states.join(", ") };
        (self.copies.listener)(event);
    }

    /// Makes a file server look at the folder again: it has a new file.
    fn refresh(&self) {
        let probe = self.staging.done().join("look");
        let _ = File::create(&probe).and_then(|_| fs::remove_file(&probe));
    }

    fn why_failed(&self, index: usize) -> String {
        let said = fs::read_to_string(self.staging.failed_file(index)).ok();
        let logged = || {
            let log = fs::read_to_string(self.staging.log().join(index.to_string())).ok()?;
            log.lines().rev().find(|line| !line.trim().is_empty()).map(str::to_owned)
        };
        said.or_else(logged).unwrap_or_else(|| {
            "its task left the queue and said nothing (was it killed, did its node fail?)"
                .to_owned()
        })
    }

    fn gave_up(&self, index: usize) -> Error {
        failed(format!(
            "copy {} failed {} times, the last time so: {}",
            index + 1,
            self.options.retries + 1,
            self.why_failed(index)
        ))
    }
}

/// Our jobs in the queue; cancelled when it is dropped.
struct Queue {
    jobs: BTreeSet<String>,
    silent_since: Option<Instant>,
}

impl Queue {
    /// The tasks that are in the queue, each with its state.
    fn ask(&mut self) -> Result<BTreeMap<usize, String>, Error> {
        let jobs: Vec<&str> = self.jobs.iter().map(String::as_str).collect();
        let mut command = Command::new("squeue");
        command.args(["--noheader", "--array", "--format=%K|%T|%r"]);
        command.arg(format!("--jobs={}", jobs.join(",")));
        let text = match said_by(&mut command)? {
            Ok(text) => text,
            // They are so long gone that nobody remembers them.
            Err(why) if why.contains("Invalid job id") => String::new(),
            Err(why) => {
                let since = *self.silent_since.get_or_insert_with(Instant::now);
                if since.elapsed() > PATIENCE {
                    return Err(failed(format!("squeue does not answer: {why}")));
                }
                std::thread::sleep(POLL);
                return self.ask();
            }
        };
        self.silent_since = None;
        Ok(text.lines().filter_map(read_task).collect())
    }

    /// Waits until nothing of ours is in the queue. False if that takes too long.
    fn wait_until_empty(&mut self, limit: Duration) -> bool {
        let begun = Instant::now();
        while !self.jobs.is_empty() {
            match self.ask() {
                Ok(tasks) if tasks.is_empty() => self.jobs.clear(),
                _ if begun.elapsed() > limit => return false,
                _ => std::thread::sleep(POLL / 4),
            }
        }
        true
    }

    /// Takes all that is left out of the queue. Those that have just finished go
    /// by themselves; others are attempts that were given up and did not end. A
    /// task whose node does not answer stays, and nobody can help that.
    fn leave(&mut self) -> bool {
        if self.wait_until_empty(POLL * 8) {
            return true;
        }
        self.cancel();
        let left = self.wait_until_empty(PATIENCE / 4);
        self.jobs.clear();
        left
    }

    fn cancel(&self) {
        let mut command = Command::new("scancel");
        command.arg("--quiet").args(&self.jobs);
        // It may have ended meanwhile.
        let _ = said_by(&mut command);
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        if !self.jobs.is_empty() {
            self.cancel();
            self.wait_until_empty(PATIENCE);
        }
    }
}

/// Takes a line of squeue: index, state, reason.
fn read_task(line: &str) -> Option<(usize, String)> {
    let mut parts = line.trim().splitn(3, '|');
    let index = parts.next()?.parse().ok()?;
    let state = parts.next()?.to_lowercase();
    let reason = parts.next().filter(|reason| !matches!(*reason, "" | "None"));
    let reason = reason.filter(|_| state == "pending");
    Some((index, reason.map_or(state.clone(), |reason| format!("{state} ({reason})"))))
}

/// What a command of Slurm's prints; if it fails, what it says about that.
fn said_by(command: &mut Command) -> Result<Result<String, String>, Error> {
    let name = command.get_program().display().to_string();
    let output = command.stdin(Stdio::null()).output().map_err(|error| {
        failed(format!("{name} cannot be started ({error}); is Slurm installed, and on the path?"))
    })?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(Ok(text(&output.stdout)));
    }
    let said = text(&output.stderr);
    Ok(Err(if said.is_empty() { output.status.to_string() } else { said.replace('\n', "; ") }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_the_queue() {
        assert_eq!(read_task("3|RUNNING|None"), Some((3, "running".to_owned())));
        let pending = Some((0, "pending (Resources)".to_owned()));
        assert_eq!(read_task("0|PENDING|Resources"), pending);
        assert_eq!(read_task("12|COMPLETING|"), Some((12, "completing".to_owned())));
        assert_eq!(read_task("N/A|RUNNING|None"), None);
        assert_eq!(read_task(""), None);
    }
}
