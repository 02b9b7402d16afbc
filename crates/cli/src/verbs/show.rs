//! `backtrail show`: walks the blocks that a run executed, in order: a trace file,
//! or the records of a block log.

mod calls;
pub mod trace;

use std::collections::{BTreeMap, VecDeque};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_collect::records::{ProcessRecord, ThreadFile};
use backtrail_ir::Unit;
use backtrail_trace::block_log::{Events, Process, ProgramMap, Step, ThreadLog};
use globset::{Glob, GlobMatcher};
use serde::Serialize;

use crate::args;
use crate::exit::Unreadable;
use crate::json::write_line;
use crate::recorded::read_processes;
use crate::source::Sources;
use crate::style::{bold, demangle, dim, number};

/// The first line of `--json`.
#[derive(Serialize)]
struct Header {
    schema: &'static str,
    processes: Vec<ProcessRow>,
}

#[derive(Serialize)]
struct ProcessRow {
    process: u32,
    parent: u32,
    forked_from: Option<u32>,
    program: String,
    threads: usize,
    incomplete: Option<String>,
}

/// One executed block.
#[derive(Serialize)]
struct Row<'a> {
    process: u32,
    thread: u32,
    event: u64,
    function: &'a str,
    block: String,
    line: Option<String>,
}

/// Runs the verb.
pub fn run(args: &args::Show) -> anyhow::Result<u8> {
    let filter = match &args.function {
        Some(glob) => {
            Some(Glob::new(glob).map_err(|error| Unreadable(error.to_string()))?.compile_matcher())
        }
        None => None,
    };
    let mut out = BufWriter::new(io::stdout().lock());
    if args.record.is_file() {
        match (args.tree, &args.html, args.to) {
            (true, ..) => calls::tree(args, filter.as_ref(), &mut out)?,
            (_, Some(folder), _) => calls::page(args, folder, &mut out)?,
            (.., Some(args::TraceTarget::Perfetto)) => calls::perfetto(args, &mut out)?,
            _ => trace::run(args, filter.as_ref(), &mut out)?,
        }
        out.flush()?;
        return Ok(0);
    }
    if args.tree || args.html.is_some() || args.to.is_some() {
        anyhow::bail!(Unreadable(format!(
            "{} is not a trace file; make one with 'backtrail trace'",
            args.record.display()
        )));
    }
    let (processes, _) = read_processes(&args.record)?;
    let mut opened = Vec::new();
    for record in &processes {
        opened.push(open_process(record)?);
    }
    if args.json {
        let rows = processes.iter().zip(&opened).map(|(record, process)| ProcessRow {
            process: record.pid,
            parent: record.parent,
            forked_from: record.forked_from,
            program: record.executable.display().to_string(),
            threads: record.threads.len(),
            incomplete: process.incomplete.map(|gap| gap.to_string()),
        });
        let header = Header { schema: "backtrail.show/1", processes: rows.collect() };
        write_line(&mut out, &header)?;
    }
    // Processes of one executable share what is read from it.
    let mut models: BTreeMap<PathBuf, Vec<(UnitId, Unit)>> = BTreeMap::new();
    for (record, process) in processes.iter().zip(&opened) {
        let program = args.exe.clone().unwrap_or_else(|| record.executable.clone());
        if !models.contains_key(&program) {
            models.insert(program.clone(), read_models(&program)?);
        }
        let map = ProgramMap::new(models[&program].iter().map(|(id, unit)| (*id, unit)));
        let walk =
            Walk { args, record, process, map: &map, filter: filter.as_ref(), program: &program };
        walk.run(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

fn open_process(record: &ProcessRecord) -> anyhow::Result<Process> {
    let path = record.process_file();
    let bytes = std::fs::read(&path).map_err(Error::read(&path))?;
    Process::read(&bytes).map_err(|error| Unreadable(format!("{}: {error}", path.display())).into())
}

/// The program models of an executable and of its own shared libraries.
fn read_models(program: &Path) -> Result<Vec<(UnitId, Unit)>, Error> {
    let carried = Carried::read(program)?;
    let libraries = own_libraries(&carried)?;
    let mut models = Vec::new();
    for file in [&carried].into_iter().chain(libraries.values()) {
        for unit in &file.units {
            let model = unit.model().map_err(|damaged| Error::Damaged {
                path: file.path.clone(),
                what: format!("{}: {}", unit.meta.name, damaged.0),
            })?;
            models.extend(model.map(|model| (unit.id(), model)));
        }
    }
    Ok(models)
}

/// One process's record, on its way to the output.
struct Walk<'a> {
    args: &'a args::Show,
    record: &'a ProcessRecord,
    process: &'a Process,
    map: &'a ProgramMap<'a>,
    filter: Option<&'a GlobMatcher>,
    program: &'a Path,
}

impl Walk<'_> {
    fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        if !self.args.json {
            let name = self.program.file_name().unwrap_or_default().to_string_lossy();
            let fork = match self.record.forked_from {
                Some(from) => format!(", a fork of process {from}"),
                None => String::new(),
            };
            writeln!(out, "{}  {name}{fork}", bold(&format!("process {}", self.record.pid)))?;
            if let Some(gap) = self.process.incomplete {
                writeln!(out, "  incomplete: {gap}")?;
            }
        }
        for (index, file) in self.record.threads.iter().enumerate() {
            self.thread(out, index as u32 + 1, file)?;
        }
        Ok(())
    }

    fn thread(&self, out: &mut impl Write, thread: u32, file: &ThreadFile) -> anyhow::Result<()> {
        let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
        let unreadable = |error: backtrail_trace::Error| {
            let hint = format!(
                "if {} was derived again since, give the one that ran with --exe",
                self.program.display()
            );
            Unreadable(format!("{}: {error}; {hint}", file.path.display()))
        };
        let mut events = Events::new(self.process, input).map_err(unreadable)?;
        if !self.args.json {
            writeln!(out, "{}", bold(&format!("thread {thread}")))?;
        }
        let mut lines = Lines::new(self, thread);
        let mut last = VecDeque::new();
        let mut left = self.args.count.unwrap_or(u64::MAX);
        for event in &mut events {
            let event = event.map_err(unreadable)?;
            if event.number < self.args.from || left == 0 {
                continue;
            }
            let step = self.map.step(&event).map_err(unreadable)?;
            if !self.is_wanted(&step) {
                continue;
            }
            match self.args.last {
                Some(wanted) => {
                    if last.len() as u64 == wanted {
                        last.pop_front();
                    }
                    last.push_back((event.number, step));
                }
                None => {
                    lines.push(out, event.number, step)?;
                    left -= 1;
                    // Only the summary needs the rest.
                    if left == 0 && self.args.json {
                        break;
                    }
                }
            }
        }
        for (event, step) in last {
            lines.push(out, event, step)?;
        }
        lines.flush(out)?;
        let summary = events.summary();
        if !self.args.json {
            writeln!(out, "  {}", dim(&format!("{} blocks in all", number(summary.events))))?;
        }
        if summary.lost > 0 || summary.truncated {
            let cut = if summary.truncated { ", and the file was cut" } else { "" };
            eprintln!("backtrail: {}: {} events were lost{cut}", file.path.display(), summary.lost);
        }
        Ok(())
    }

    fn is_wanted(&self, step: &Step) -> bool {
        let Some(filter) = self.filter else { return true };
        let name = self.function(step);
        filter.is_match(name) || filter.is_match(demangle(name))
    }

    fn function(&self, step: &Step) -> &str {
        let unit = self.map.unit(step.unit).expect("a step is of a unit of the map");
        &unit.symbols[unit.functions[step.func].symbol].name
    }

    fn place(&self, step: &Step) -> Option<(&str, u32)> {
        let unit = self.map.unit(step.unit)?;
        let location = self.map.location(step)?;
        Some((&unit.files[location.file], location.line))
    }
}

/// Prints steps, repetitions of one block folded into one line.
struct Lines<'a> {
    walk: &'a Walk<'a>,
    thread: u32,
    pending: Option<(u64, Step, u64)>,
    sources: Sources,
}

impl<'a> Lines<'a> {
    fn new(walk: &'a Walk<'a>, thread: u32) -> Self {
        Self { walk, thread, pending: None, sources: Sources::default() }
    }

    fn push(&mut self, out: &mut impl Write, event: u64, step: Step) -> io::Result<()> {
        if self.walk.args.json {
            let row = Row {
                process: self.walk.record.pid,
                thread: self.thread,
                event,
                function: self.walk.function(&step),
                block: step.block.to_string(),
                line: self.walk.place(&step).map(|(file, line)| format!("{file}:{line}")),
            };
            return write_line(out, &row);
        }
        if let Some((first, pending, times)) = &mut self.pending
            && *pending == step
            && *first + *times == event
        {
            *times += 1;
            return Ok(());
        }
        self.flush(out)?;
        self.pending = Some((event, step, 1));
        Ok(())
    }

    fn flush(&mut self, out: &mut impl Write) -> io::Result<()> {
        let Some((event, step, times)) = self.pending.take() else { return Ok(()) };
        let function = demangle(self.walk.function(&step));
        let place = self.walk.place(&step);
        let line = place.map_or(String::new(), |(file, line)| {
            let file =
                Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{file}:{line}")
        });
        let text = place.and_then(|(file, line)| self.sources.line(file, line)).unwrap_or_default();
        let times = if times > 1 { format!("  ({} times)", number(times)) } else { String::new() };
        let block = step.block.to_string();
        let text = dim(text.trim());
        writeln!(out, "{event:>10}  {function:<24} {block:<5} {line:<20} {text}{times}")
    }
}
