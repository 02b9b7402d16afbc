//! Walking a trace file.

use std::fs::File;
use std::io::{self, BufReader, Write};
use std::path::Path;

use backtrail_build::Error;
use backtrail_collect::local::signal_name;
use backtrail_foreign::file;
use backtrail_foreign::text::{shown, source};
use backtrail_report::merged::Merged;
use backtrail_trace::file::{Ending, Legend, Step, TraceFile};
use serde::Serialize;

use super::name_shown;
use crate::alike;
use crate::args;
use crate::exit::Unreadable;
use crate::json::write_line;
use crate::named::Named;
use crate::own_code::told;
use crate::source::Sources;
use crate::style::{Detail, bold, counted, detail, dim, terminal};

/// The first line of `--json`.
#[derive(Serialize)]
struct Header<'a> {
    schema: &'static str,
    program: &'a str,
    build_id: &'a str,
    incomplete: Option<String>,
    ended_by: Option<String>,
    /// How far the runs were compared that it was put together from.
    merged: Option<Merged>,
    threads: Vec<ThreadRow>,
}

#[derive(Serialize)]
struct ThreadRow {
    process: u32,
    thread: u32,
    blocks: u64,
    unknown: Option<String>,
}

/// One executed block.
#[derive(Serialize)]
struct Row<'a> {
    process: u32,
    thread: u32,
    event: u64,
    depth: u32,
    function: &'a str,
    block: String,
    line: Option<String>,
    /// The user's own line, of code of a library the one that it was inlined into.
    own_line: Option<String>,
}

/// Opens the trace file at `path`.
pub fn open(path: &Path) -> anyhow::Result<TraceFile<BufReader<File>>> {
    let file = file::open(path).map_err(Error::read(path))?;
    let file = TraceFile::open(BufReader::new(file));
    file.map_err(|error| {
        let hint = match error {
            backtrail_trace::Error::NotOurs { .. } => {
                "; show takes what 'backtrail trace' writes, or a folder of records"
            }
            _ => "",
        };
        Unreadable(format!("{}: {error}{hint}", path.display())).into()
    })
}

/// Fails if nothing that ran is named so: a trace knows no other functions.
pub fn check(named: Option<&Named>, legend: &Legend) -> anyhow::Result<()> {
    let Some(named) = named else { return Ok(()) };
    let whole = format!("{} that ran", legend.program);
    Ok(named.check(whole, legend.functions.iter().map(|it| &*it.name))?)
}

/// Shows a trace file.
pub fn run(args: &args::Show, filter: Option<&Named>, out: &mut impl Write) -> anyhow::Result<()> {
    let mut file = open(&args.record)?;
    let legend = file.legend().clone();
    check(filter, &legend)?;
    let names = Names::new(&legend, filter);
    let threads = file.threads().to_vec();
    let ended_by = file.ended_by().map(signal_name);
    let merged = file.merged().map(alike::view);
    if args.json {
        let incomplete = (!legend.incomplete.is_empty()).then(|| legend.incomplete.join("; "));
        let row = |thread: &backtrail_trace::file::ThreadIndex| ThreadRow {
            process: thread.process,
            thread: thread.thread,
            blocks: thread.steps,
            unknown: match &thread.ending {
                Ending::Whole => None,
                Ending::Unknown(why) => Some(why.clone()),
            },
        };
        let (program, build_id) = (&legend.program[..], &legend.build_id[..]);
        let threads = threads.iter().map(row).collect();
        let schema = "backtrail.show/1";
        let header = Header { schema, program, build_id, incomplete, ended_by, merged, threads };
        write_line(out, &header)?;
    } else {
        writeln!(out, "{}", bold(&legend.program))?;
        for why in &legend.incomplete {
            writeln!(out, "  incomplete: {}", shown(why))?;
        }
        if let Some(signal) = ended_by {
            writeln!(out, "  ended by {signal}")?;
        }
        for (what, said) in merged.iter().flat_map(|it| it.lines(terminal())) {
            writeln!(out, "  {what}: {said}")?;
        }
    }
    let bytes = file.bytes();
    let mut sources = Sources::default();
    for (position, thread) in threads.iter().enumerate() {
        if !args.json {
            let title = format!("process {} thread {}", thread.process, thread.thread);
            writeln!(out, "{}", bold(&title))?;
        }
        let ids = (thread.process, thread.thread);
        let mut walk = Walk { args, legend: &legend, ids, pending: None, sources: &mut sources };
        let from = match args.last {
            // With a filter, the last ones that pass it are not known yet.
            Some(last) if filter.is_none() => thread.steps.saturating_sub(last),
            _ => args.from,
        };
        let mut last = std::collections::VecDeque::new();
        let mut left = args.count.unwrap_or(u64::MAX);
        let steps = file.steps(position, from);
        let unreadable = |error: backtrail_trace::Error| {
            Unreadable(format!("{}: {error}", args.record.display()))
        };
        for (event, step) in (from..).zip(steps.map_err(unreadable)?) {
            if left == 0 {
                break;
            }
            let step = step.map_err(unreadable)?;
            if !names.is_wanted(step.place) {
                continue;
            }
            match args.last {
                Some(wanted) => {
                    if last.len() as u64 == wanted {
                        last.pop_front();
                    }
                    last.push_back((event, step));
                }
                None => {
                    walk.push(out, event, step)?;
                    left -= 1;
                }
            }
        }
        for (event, step) in last {
            walk.push(out, event, step)?;
        }
        walk.flush(out)?;
        if !args.json {
            if let Ending::Unknown(why) = &thread.ending {
                writeln!(out, "  {}", dim(&format!("what followed is not known: {why}")))?;
            }
            writeln!(out, "  {}", dim(&format!("{} in all", counted(thread.steps, "block"))))?;
        }
    }
    let total: u64 = threads.iter().map(|thread| thread.steps).sum();
    if !args.json && total > 0 {
        let bits = bytes as f64 * 8.0 / total as f64;
        let size = crate::style::size(bytes);
        writeln!(out, "{}", dim(&format!("{size}, {bits:.3} bits per block")))?;
    }
    Ok(())
}

/// Which places pass the filter.
struct Names {
    /// By increasing number.
    wanted: Option<Vec<u32>>,
}

impl Names {
    fn new(legend: &Legend, filter: Option<&Named>) -> Self {
        let wanted = filter.map(|filter| {
            let functions: Vec<bool> =
                legend.functions.iter().map(|it| filter.has(&it.name)).collect();
            let is_wanted = |function: u32| functions.get(function as usize) == Some(&true);
            let places = legend.places.iter().filter(|(_, name)| is_wanted(name.function));
            places.map(|(place, _)| *place).collect()
        });
        Self { wanted }
    }

    fn is_wanted(&self, place: u32) -> bool {
        let wanted = self.wanted.as_ref();
        wanted.is_none_or(|it| it.binary_search(&place).is_ok())
    }
}

/// Prints steps, repetitions of one block folded into one line.
struct Walk<'a> {
    args: &'a args::Show,
    legend: &'a Legend,
    ids: (u32, u32),
    pending: Option<(u64, Step, u64)>,
    sources: &'a mut Sources,
}

impl Walk<'_> {
    fn push(&mut self, out: &mut impl Write, event: u64, step: Step) -> io::Result<()> {
        if self.args.json {
            let (function, block) = self.legend.name(step.place).unwrap_or(("?", "?".into()));
            let written = |(file, line): (&str, u32)| format!("{file}:{line}");
            let line = self.legend.line(step.place).map(written);
            let own = told(self.legend.lines(step.place)).filter(|(_, is_own)| *is_own);
            let own_line = own.map(|(line, _)| written(line));
            let (process, thread) = self.ids;
            let depth = step.depth;
            let row = Row { process, thread, event, depth, function, block, line, own_line };
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
        let (function, block) = self.legend.name(step.place).unwrap_or(("?", "?".into()));
        let place = match detail(self.args.full) {
            Detail::Short => told(self.legend.lines(step.place)).map(|(line, _)| line),
            Detail::Full => self.legend.line(step.place),
        };
        let line = place.map_or(String::new(), |(file, line)| {
            let file =
                Path::new(file).file_name().unwrap_or_default().to_string_lossy().into_owned();
            format!("{file}:{line}")
        });
        let text = place.and_then(|(file, line)| self.sources.line(file, line)).unwrap_or_default();
        let times =
            if times > 1 { format!("  ({})", counted(times, "time")) } else { String::new() };
        let name = format!(
            "{:1$}{2}",
            "",
            2 * (step.depth.clamp(1, 20) as usize - 1),
            name_shown(self.args.full, function)
        );
        let text = dim(&source(text));
        let line = shown(&line);
        writeln!(out, "{event:>10}  {name:<24} {block:<5} {line:<20} {text}{times}")
    }
}
