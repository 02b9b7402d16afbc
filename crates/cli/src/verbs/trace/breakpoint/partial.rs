//! A partial trace on disk: for each thread the numbers of witnesses as they were
//! passed, four bytes each, with the depth behind those that are landings, and where
//! handlers were called and returned; and how the run went.
//!
//! Threads of different runs are the same if they have the same *line*: which child
//! of which child of the first they are.

use std::fs::File;
use std::io::{BufReader, BufWriter, Read as _, Write as _};
use std::path::{Path, PathBuf};

use backtrail_build::Error;
use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_machine::tracee::Ended;
use backtrail_machine::tracee::breakpoints::Ran;
use backtrail_trace::distribution::{Profile, Witness};
use backtrail_trace::icfg::PlaceKind;
use backtrail_trace::machine_graph::MachineGraph;
use backtrail_trace::rebuild::{Ending, Event};
use serde::{Deserialize, Serialize};

use crate::exit::{Refused, Unreadable};
use crate::style::counted;

/// How a run went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Summary {
    /// The program's process id.
    pub process: u32,
    /// How many stops there were.
    pub stops: u64,
    /// How long it took, from its entry point on.
    pub seconds: f64,
    /// Its threads, the first one first.
    pub threads: Vec<ThreadSummary>,
    /// The libraries whose code is not traced.
    pub libraries: Vec<String>,
    /// How many processes it started.
    pub processes: u64,
    /// The program that it became.
    pub became: Option<String>,
    /// Whether it had code that no file holds.
    pub has_made_code: bool,
    status: Option<i32>,
    signal: Option<i32>,
}

/// How a thread went.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct ThreadSummary {
    /// Which child it is of which; empty for the first thread.
    pub line: Vec<u32>,
    /// How many threads it started.
    pub children: u32,
    /// How many witnesses it passed.
    pub events: u64,
    /// Whether it is known how it ended.
    pub is_whole: bool,
}

impl ThreadSummary {
    /// How its partial trace ends.
    pub fn ending(&self) -> Ending {
        if self.is_whole { Ending::Whole } else { Ending::Cut }
    }
}

impl Summary {
    /// Of a run.
    pub fn new(process: u32, ran: Ran, threads: Vec<ThreadSummary>, seconds: f64) -> Self {
        let (status, signal) = match ran.ended {
            Ended::Exited(status) => (Some(status), None),
            Ended::Killed(signal) => (None, Some(signal)),
        };
        Self {
            process,
            stops: ran.stops,
            seconds,
            threads,
            libraries: ran.untraced.libraries.into_iter().collect(),
            processes: ran.untraced.processes,
            became: ran.untraced.became,
            has_made_code: ran.untraced.has_made_code,
            status,
            signal,
        }
    }

    /// What the program did that is not traced, in words; nothing if it did nothing else.
    pub fn untraced(&self) -> Option<String> {
        let mut parts = Vec::new();
        if !self.libraries.is_empty() {
            let libraries = counted(self.libraries.len() as u64, "library");
            parts.push(format!("{libraries} besides the C library (--library GLOB)"));
        }
        if self.processes > 0 {
            parts.push(format!("{} that it started", counted(self.processes, "process")));
        }
        parts.extend(self.became.as_ref().map(|program| format!("{program}, which it became")));
        let (last, others) = parts.split_last()?;
        Some(match others {
            [] => last.clone(),
            others => format!("{} and {last}", others.join(", ")),
        })
    }

    /// How it ended.
    pub fn ended(&self) -> Ended {
        match (self.status, self.signal) {
            (_, Some(signal)) => Ended::Killed(signal),
            (status, None) => Ended::Exited(status.unwrap_or(0)),
        }
    }
}

/// What a copy says if it could not trace.
#[derive(Debug, Serialize, Deserialize)]
struct Failure {
    code: u8,
    message: String,
}

/// A folder with what one run left.
#[derive(Debug, Clone)]
pub struct Partial {
    folder: PathBuf,
}

impl Partial {
    /// In this folder.
    pub fn new(folder: &Path) -> Self {
        Self { folder: folder.to_owned() }
    }

    /// The folder, which is there.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    fn events_path(&self, thread: usize) -> PathBuf {
        self.path(&format!("events-{thread}"))
    }

    /// To write the events of a thread.
    pub fn writer(&self, thread: usize) -> Result<EventWriter, Error> {
        std::fs::create_dir_all(&self.folder).map_err(Error::write(&self.folder))?;
        let path = self.events_path(thread);
        let file = File::create(&path).map_err(Error::write(&path))?;
        Ok(EventWriter { file: BufWriter::with_capacity(1 << 16, file), path })
    }

    /// Notes how it went.
    pub fn finish(&self, summary: &Summary) -> Result<(), Error> {
        let path = self.path("summary");
        let bytes = serde_json::to_vec(summary).unwrap_or_default();
        std::fs::write(&path, bytes).map_err(Error::write(&path))
    }

    /// Notes why it did not go.
    pub fn fail(&self, code: u8, message: &str) {
        let failure = Failure { code, message: message.to_owned() };
        let bytes = serde_json::to_vec(&failure).unwrap_or_default();
        let _ = std::fs::create_dir_all(&self.folder);
        if std::fs::write(self.path("failure"), bytes).is_err() {
            say!("backtrail: {message}");
        }
    }

    /// Fails if the copy could not trace.
    pub fn check(&self) -> anyhow::Result<()> {
        let Ok(bytes) = std::fs::read(self.path("failure")) else { return Ok(()) };
        match serde_json::from_slice::<Failure>(&bytes) {
            Ok(Failure { code, message }) => Err(Refused { code, message }.into()),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether it is known how it went.
    pub fn is_finished(&self) -> bool {
        self.path("summary").exists()
    }

    /// How it went.
    pub fn summary(&self) -> anyhow::Result<Summary> {
        let path = self.path("summary");
        let bytes = std::fs::read(&path).map_err(Error::read(&path))?;
        let unreadable = |error| Unreadable(format!("{}: {error}", path.display()));
        Ok(serde_json::from_slice(&bytes).map_err(unreadable)?)
    }

    /// The events of a thread, of a run with these witnesses.
    pub fn events(
        &self,
        thread: usize,
        graph: &MachineGraph,
        profile: &Profile,
    ) -> Result<Events, Error> {
        let path = self.events_path(thread);
        let file = File::open(&path).map_err(Error::read(&path))?;
        let icfg = &graph.icfg;
        let is_landing = profile.places().iter().map(|&place| match icfg.place(place) {
            PlaceKind::Node(node) => icfg.nodes()[node].landing,
            PlaceKind::Way(_) => false,
        });
        let file = BufReader::with_capacity(1 << 16, file);
        Ok(Events { file, is_landing: is_landing.collect() })
    }
}

/// Writes events.
pub struct EventWriter {
    file: BufWriter<File>,
    path: PathBuf,
}

impl EventWriter {
    /// Another event.
    pub fn push(&mut self, event: Event, is_landing: bool) -> Result<(), Error> {
        let mut write = |number: u32| self.file.write_all(&number.to_le_bytes());
        let mut written = write(event.witness.position() as u32);
        if is_landing || event.interrupted_by().is_some() {
            written = written.and_then(|()| write(event.depth));
        }
        written.map_err(Error::write(&self.path))
    }

    /// No more events.
    pub fn finish(mut self) -> Result<(), Error> {
        self.file.flush().map_err(Error::write(&self.path))
    }
}

/// Whether a number says that a handler was called: its routine follows.
fn is_interrupt(number: u32) -> bool {
    let event = Event { witness: Witness::new(number as usize), depth: 0 };
    event.interrupted_by().is_some()
}

/// Reads events; ends where the file does.
pub struct Events {
    file: BufReader<File>,
    is_landing: Vec<bool>,
}

impl Events {
    fn number(&mut self) -> Option<u32> {
        let mut bytes = [0; 4];
        self.file.read_exact(&mut bytes).ok()?;
        Some(u32::from_le_bytes(bytes))
    }
}

impl Iterator for Events {
    type Item = Event;

    #[inline]
    fn next(&mut self) -> Option<Event> {
        let number = self.number()?;
        let is_landing = self.is_landing.get(number as usize).copied();
        let is_deep = is_landing.unwrap_or_else(|| is_interrupt(number));
        let depth = if is_deep { self.number()? } else { 0 };
        Some(Event { witness: Witness::new(number as usize), depth })
    }
}
