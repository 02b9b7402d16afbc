//! One run, traced: by the tool itself, or by a copy of it among others.
//!
//! A copy is started as a script whose first line is this tool with [`VERB`] and the
//! name of a file that says what to do, a [`Job`]. It leaves what was recorded in the
//! folder for records, and then ends as the program did.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Instant;

use backtrail_build::Error;
use backtrail_collect::handing_on::HandingOn;
use backtrail_collect::local;
use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_machine::code::Code;
use backtrail_machine::tracee::breakpoints::{Breakpoints, Stop};
use backtrail_machine::tracee::{Ended, Launch, Tracee};
use backtrail_trace::distribution::Profile;
use backtrail_trace::icfg::Place;
use backtrail_trace::machine_graph::{MachineGraph, Recorded, Recorder};
use serde::{Deserialize, Serialize};

use super::modules::Modules;
use super::partial::{EventWriter, Partial, Summary, ThreadSummary};
use super::{Request, hide_records};
use crate::exit::{ENGINE, Refused, Unreadable};

/// The first argument of a copy, up to the name of the job.
pub const VERB: &str = "breakpoints-of=";

/// What a copy does.
#[derive(Debug, Serialize, Deserialize)]
pub struct Job {
    modules: Modules,
    name: Vec<u8>,
    /// The witnesses.
    places: Vec<u32>,
    in_process: bool,
}

impl Job {
    /// One run of a program.
    pub fn new(
        modules: &Modules,
        request: &Request<'_>,
        profile: &Profile,
    ) -> anyhow::Result<Self> {
        Ok(Self {
            modules: modules.clone(),
            name: request.program.name().as_bytes().to_vec(),
            places: profile.places().iter().map(|place| place.position() as u32).collect(),
            in_process: request.in_process,
        })
    }

    /// Writes it to a file.
    pub fn write(&self, path: &Path) -> Result<(), Error> {
        let bytes = serde_json::to_vec(self).unwrap_or_default();
        std::fs::write(path, bytes).map_err(Error::write(path))
    }

    fn read(path: &Path) -> anyhow::Result<Self> {
        let bytes = std::fs::read(path).map_err(Error::read(path))?;
        let unreadable = |error| Unreadable(format!("{}: {error}", path.display()));
        Ok(serde_json::from_slice(&bytes).map_err(unreadable)?)
    }

    fn program(&self) -> PathBuf {
        self.modules.program()
    }
}

/// Traces one run.
pub fn trace(
    job: &Job,
    arguments: &[OsString],
    partial: &Partial,
    code: &Code,
    graph: &MachineGraph,
) -> anyhow::Result<Summary> {
    let places = job.places.iter().map(|&place| Place::new(place as usize));
    let profile = Profile::new(&graph.icfg, places);
    let recorder = Recorder::new(graph, code, &profile);
    let breakpoints =
        Breakpoints { code, blocks: recorder.blocks(), is_landing: recorder.is_landing() };
    let unstarted = |source| backtrail_collect::Error::Start { path: job.program(), source };
    let signals = HandingOn::prepare().map_err(unstarted)?;
    let launch = Launch {
        executable: &job.program(),
        name: OsStr::from_bytes(&job.name),
        arguments,
        input: None,
        output: None,
        errors: None,
        prepare: Some(&|command| {
            hide_records(command);
            signals.catch_up(command);
        }),
    };
    let mut tracee = signals.start(|| launch.start(code), Tracee::id)?;
    let process = tracee.id();
    let mut record = Record { partial, threads: Vec::new(), handlers: HashMap::new() };
    record.begin(Vec::new())?;
    let mut unwritten = None;
    let visit = |thread: usize, stop: Stop<'_>| {
        if unwritten.is_none() {
            unwritten = record.push(thread, &stop, recorder.record(thread, &stop)).err();
        }
        Ok(())
    };
    let started = Instant::now();
    let ran = match job.in_process {
        true => breakpoints.run_in_process(&mut tracee, partial.folder(), visit)?,
        false => breakpoints.run(&mut tracee, visit)?,
    };
    let seconds = started.elapsed().as_secs_f64();
    signals.finish();
    if let Some(error) = unwritten {
        return Err(error.into());
    }
    // A signal leaves no call in which the run ended.
    let is_known = matches!(ran.ended, Ended::Exited(_)) || ran.replaced;
    let threads = record.finish(is_known)?;
    let is_foreign = |(number, thread): (usize, &ThreadSummary)| number > 0 && thread.events > 0;
    if graph.thread_root().is_none() && threads.iter().enumerate().any(is_foreign) {
        anyhow::bail!(Refused {
            code: ENGINE,
            message: format!(
                "{} runs in a thread that a library started, and its code does not tell with \
                 which function: build it with backtrail and trace it with probes",
                job.program().display()
            ),
        });
    }
    Ok(Summary::new(process, ran, threads, seconds))
}

/// What is recorded of a run, thread by thread.
struct Record<'a> {
    partial: &'a Partial,
    threads: Vec<(EventWriter, ThreadSummary)>,
    /// By thread: the frames of handlers that run, and whether that was an event.
    handlers: HashMap<usize, Vec<(u64, bool)>>,
}

impl Record<'_> {
    fn begin(&mut self, line: Vec<u32>) -> Result<(), Error> {
        let writer = self.partial.writer(self.threads.len())?;
        self.threads.push((writer, ThreadSummary { line, ..ThreadSummary::default() }));
        Ok(())
    }

    #[inline]
    fn push(&mut self, thread: usize, stop: &Stop<'_>, recorded: Recorded) -> Result<(), Error> {
        if let Stop::Handles { frame, .. } = *stop {
            let handlers = self.handlers.entry(thread).or_default();
            handlers.retain(|it| it.0 != frame);
            handlers.push((frame, recorded != Recorded::Nothing));
        }
        if let (Stop::Landing { stack, .. }, Some(handlers)) =
            (stop, self.handlers.get_mut(&thread))
        {
            handlers.retain(|it| it.0 >= *stack);
        }
        if let Stop::Resumes(frame) = *stop {
            let handlers = self.handlers.entry(thread).or_default();
            // Those above it were left by a jump.
            let found = handlers.iter().rposition(|it| it.0 == frame);
            let returned = found.and_then(|at| handlers.drain(at..).next());
            if !returned.is_some_and(|(_, is_event)| is_event) {
                return Ok(());
            }
        }
        if let Stop::Begins(parent) = *stop {
            let Some((_, parent)) = self.threads.get_mut(parent) else { return Ok(()) };
            let line = [&parent.line[..], &[parent.children]].concat();
            parent.children += 1;
            return self.begin(line);
        }
        let Some((writer, summary)) = self.threads.get_mut(thread) else { return Ok(()) };
        let event = match recorded {
            Recorded::Nothing => None,
            Recorded::Event(event) => Some(event),
            Recorded::End(event) => {
                summary.is_whole = true;
                event
            }
        };
        if let Some(event) = event {
            summary.events += 1;
            writer.push(event, matches!(stop, Stop::Landing { .. }))?;
        }
        Ok(())
    }

    fn finish(self, is_known: bool) -> Result<Vec<ThreadSummary>, Error> {
        let threads = self.threads.into_iter().map(|(writer, summary)| {
            writer.finish()?;
            let is_whole = summary.is_whole && is_known;
            Ok(ThreadSummary { is_whole, ..summary })
        });
        threads.collect()
    }
}

/// The whole of a copy.
pub fn main(job: &Path, arguments: &[OsString]) -> ExitCode {
    let Some(records) = std::env::var_os(backtrail_abi::log::DIR_VARIABLE) else {
        say!("backtrail: {VERB} is not for you; see 'backtrail --help'");
        return ExitCode::from(2);
    };
    let partial = Partial::new(Path::new(&records));
    match run(job, arguments, &partial) {
        Ok(summary) => match summary.ended() {
            Ended::Exited(code) => ExitCode::from(code as u8),
            Ended::Killed(signal) => {
                local::end_by(signal);
                ExitCode::from(128u8.wrapping_add(signal as u8))
            }
        },
        Err(error) => {
            let code = crate::exit::code_of(&error);
            if let Some(signal) = crate::exit::signal_of(&error) {
                local::end_by(signal);
                return ExitCode::from(code);
            }
            partial.fail(code, &format!("{error:#}"));
            ExitCode::from(code)
        }
    }
}

fn run(job: &Path, arguments: &[OsString], partial: &Partial) -> anyhow::Result<Summary> {
    let job = Job::read(job)?;
    job.modules.check()?;
    let code = job.modules.code()?;
    let graph = MachineGraph::new(&code)?;
    let summary = trace(&job, arguments, partial, &code, &graph)?;
    partial.finish(&summary)?;
    Ok(summary)
}
