//! `backtrail show`: walks the blocks that a run executed, in order: a trace file,
//! or the records of a block log.

mod calls;
pub mod trace;

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::io::{self, Write};
use std::path::Path;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_collect::records::{ProcessRecord, ThreadFile};
use backtrail_foreign::say;
use backtrail_foreign::text::{shown, source};
use backtrail_ir::Unit;
use backtrail_report::name::shortened;
use backtrail_trace::block_log::{
    Events, LogFrames, Moment, Moments, Process, ProgramMap, Step, ThreadLog,
};
use serde::Serialize;

use crate::args;
use crate::exit::Unreadable;
use crate::json::write_line;
use crate::named::{self, Named};
use crate::own_code::told;
use crate::recorded::{read_process, read_processes};
use crate::source::Sources;
use crate::stdout;
use crate::style::{Detail, bold, counted, demangle, detail, dim, lost_blocks, terminal};
use crate::variants::{MadeOf, Variants};

/// The first line of `--json`.
#[derive(Serialize)]
struct Header {
    schema: &'static str,
    /// Why processes are missing.
    incomplete: Option<String>,
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
    /// The user's own line, of code of a library the one that it was inlined into.
    own_line: Option<String>,
}

/// The name of a function as a line has it: on a terminal it leaves room for the rest,
/// unless all of it is wanted.
fn name_shown(full: bool, name: &str) -> String {
    let name = shown(&demangle(name));
    match (detail(full), terminal().screen) {
        (Detail::Short, Some(screen)) => shortened(&name, (screen.columns / 3).max(24)),
        _ => name,
    }
}

/// Runs the verb.
pub fn run(args: &args::Show) -> anyhow::Result<u8> {
    let filter = args.function.as_ref().map(Named::by);
    let is_document = args.json || (args.to.is_some() && args.output.is_none());
    let mut out = stdout::open(stdout::form(is_document));
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
    let (processes, missing) = read_processes(&args.record)?;
    let mut opened = Vec::new();
    let mut variants = Variants::new(&args.exe)?;
    for record in &processes {
        opened.push(open_process(record)?);
    }
    variants.check_given(&args.record, opened.iter())?;
    for (record, process) in processes.iter().zip(&opened) {
        variants.look(record, process)?;
    }
    let made = processes.iter().zip(&opened);
    let made: Vec<MadeOf> = made
        .map(|(record, process)| variants.made_of(record, process))
        .collect::<Result<_, _>>()?;
    // What processes have in common is read once.
    let mut models: BTreeMap<[u8; 16], Vec<(UnitId, Unit)>> = BTreeMap::new();
    for module in made.iter().flat_map(|made| &made.modules) {
        let id = module.variant.as_ref().map(|mark| mark.id).unwrap_or_default();
        if let Entry::Vacant(entry) = models.entry(id) {
            entry.insert(read_models(module)?);
        }
    }
    if let Some(named) = &filter {
        let units = models.values().flatten().map(|(_, unit)| unit);
        named.check(args.record.display(), named::names(units))?;
    }
    if args.json {
        let all = processes.iter().zip(&opened).zip(&made);
        let rows = all.map(|((record, process), made)| ProcessRow {
            process: record.pid,
            parent: record.parent,
            forked_from: record.forked_from,
            program: record.executable.display().to_string(),
            threads: record.threads.len(),
            incomplete: Some(incomplete(process, made))
                .filter(|why| !why.is_empty())
                .map(|why| why.join("; ")),
        });
        let incomplete = (!missing.is_empty()).then(|| missing.join("; "));
        let processes = rows.collect();
        let header = Header { schema: "backtrail.show/1", incomplete, processes };
        write_line(&mut out, &header)?;
    }
    for ((record, process), made) in processes.iter().zip(&opened).zip(&made) {
        let mut units = Vec::new();
        for module in &made.modules {
            let id = module.variant.as_ref().map(|mark| mark.id).unwrap_or_default();
            units.extend(models[&id].iter().map(|(id, unit)| (*id, unit)));
        }
        let map = ProgramMap::new(units);
        let incomplete = incomplete(process, made);
        let walk = Walk { args, record, process, map: &map, filter: filter.as_ref(), incomplete };
        walk.run(&mut out)?;
    }
    out.flush()?;
    Ok(0)
}

/// Why something is not in what is shown of a process, a line each.
fn incomplete(process: &Process, made: &MadeOf) -> Vec<String> {
    let gap = process.incomplete.map(|gap| gap.to_string());
    gap.into_iter().chain(made.missing.iter().cloned()).collect()
}

fn open_process(record: &ProcessRecord) -> anyhow::Result<Process> {
    let path = record.process_file();
    let process = read_process(record)?.of_blocks();
    process.map_err(|error| Unreadable(format!("{}: {error}", path.display())).into())
}

/// The program models of a variant.
pub fn read_models(file: &Carried) -> Result<Vec<(UnitId, Unit)>, Error> {
    let mut models = Vec::new();
    for unit in &file.units {
        let model = unit.model().map_err(|damaged| Error::Damaged {
            path: file.path.clone(),
            what: format!("{}: {}", unit.meta.name, damaged.0),
        })?;
        models.extend(model.map(|model| (unit.id(), model)));
    }
    Ok(models)
}

/// One process's record, on its way to the output.
struct Walk<'a> {
    args: &'a args::Show,
    record: &'a ProcessRecord,
    process: &'a Process,
    map: &'a ProgramMap<'a>,
    filter: Option<&'a Named>,
    /// Why something is missing.
    incomplete: Vec<String>,
}

impl Walk<'_> {
    fn run(&self, out: &mut impl Write) -> anyhow::Result<()> {
        if !self.args.json {
            let name = self.record.executable.file_name().unwrap_or_default().to_string_lossy();
            let fork = match self.record.forked_from {
                Some(from) => format!(", a fork of process {from}"),
                None => String::new(),
            };
            let name = shown(&name);
            writeln!(out, "{}  {name}{fork}", bold(&format!("process {}", self.record.pid)))?;
            for why in &self.incomplete {
                writeln!(out, "  incomplete: {}", shown(why))?;
            }
        }
        for (index, file) in self.record.threads.iter().enumerate() {
            self.thread(out, index as u32 + 1, file)?;
        }
        Ok(())
    }

    fn thread(&self, out: &mut impl Write, thread: u32, file: &ThreadFile) -> anyhow::Result<()> {
        let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
        let unreadable =
            |error: backtrail_trace::Error| Unreadable(format!("{}: {error}", file.path.display()));
        let events = Events::new(self.process, input).map_err(unreadable)?;
        let mut frames = LogFrames::default();
        let mut moments = Moments::new(self.map, events, &mut frames);
        if !self.args.json {
            writeln!(out, "{}", bold(&format!("thread {thread}")))?;
        }
        let mut lines = Lines::new(self, thread);
        let mut last = VecDeque::new();
        let mut left = self.args.count.unwrap_or(u64::MAX);
        let mut unseen = 0u64;
        for moment in &mut moments {
            let (number, step) = match moment.map_err(unreadable)? {
                Moment::Block { number, step, .. } => (number, step),
                Moment::Unseen { .. } => {
                    unseen += 1;
                    continue;
                }
                _ => continue,
            };
            if number < self.args.from || left == 0 {
                continue;
            }
            if !self.is_wanted(&step) {
                continue;
            }
            match self.args.last {
                Some(wanted) => {
                    if last.len() as u64 == wanted {
                        last.pop_front();
                    }
                    last.push_back((number, step));
                }
                None => {
                    lines.push(out, number, step)?;
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
        let summary = moments.summary();
        if !self.args.json {
            writeln!(out, "  {}", dim(&format!("{} in all", counted(summary.events, "block"))))?;
        }
        if unseen > 0 {
            say!(
                "backtrail: {}: not shown: {} of a library that is not found",
                file.path.display(),
                counted(unseen, "block")
            );
        }
        if summary.lost > 0 || summary.truncated {
            let cut = if summary.truncated { ", and the file was cut" } else { "" };
            let lost = lost_blocks(summary.lost, "event");
            say!("backtrail: {}: {lost} lost{cut}", file.path.display());
        }
        Ok(())
    }

    fn is_wanted(&self, step: &Step) -> bool {
        let Some(filter) = self.filter else { return true };
        filter.has(self.function(step))
    }

    fn function(&self, step: &Step) -> &str {
        let unit = self.map.unit(step.unit).expect("a step is of a unit of the map");
        &unit.symbols[unit.functions[step.func].symbol].name
    }

    /// The lines of a step, from the innermost outwards.
    fn lines(&self, step: &Step) -> impl Iterator<Item = (&str, u32)> {
        let unit = self.map.unit(step.unit);
        let locations = self.map.locations(step).filter(|location| location.line > 0);
        locations.filter_map(move |it| Some((unit?.files[it.file].as_str(), it.line)))
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
            let written = |(file, line): (&str, u32)| format!("{file}:{line}");
            let own = told(self.walk.lines(&step)).filter(|(_, is_own)| *is_own);
            let row = Row {
                process: self.walk.record.pid,
                thread: self.thread,
                event,
                function: self.walk.function(&step),
                block: step.block.to_string(),
                line: self.walk.lines(&step).next().map(written),
                own_line: own.map(|(line, _)| written(line)),
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
        let function = name_shown(self.walk.args.full, self.walk.function(&step));
        let place = match detail(self.walk.args.full) {
            Detail::Short => told(self.walk.lines(&step)).map(|(line, _)| line),
            Detail::Full => self.walk.lines(&step).next(),
        };
        let line = place.map_or(String::new(), |(file, line)| {
            let file =
                Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{file}:{line}")
        });
        let text = place.and_then(|(file, line)| self.sources.line(file, line)).unwrap_or_default();
        let times =
            if times > 1 { format!("  ({})", counted(times, "time")) } else { String::new() };
        let block = step.block.to_string();
        let text = dim(&source(text));
        let line = shown(&line);
        writeln!(out, "{event:>10}  {function:<24} {block:<5} {line:<20} {text}{times}")
    }
}
