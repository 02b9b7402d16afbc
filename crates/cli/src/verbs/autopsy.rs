//! `backtrail autopsy`: what led to a crash.

mod agreement;
mod conclusion;
mod evidence;
mod model_place;
mod records;
mod way;

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use anyhow::Context as _;
use backtrail_abi::tune::plain_name;
use backtrail_build::output;
use backtrail_crash::{Recovered, Unread};
use backtrail_graph::Index as _;
use backtrail_machine::image::build_id_text;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_machine::symbolise::Place;
use backtrail_machine::{signal, unwind};
use backtrail_report::autopsy::{self, Autopsy, Frame, Gap, html, json, text};

use crate::args;
use crate::json::{write_document, write_line};
use crate::own_code::Owner;
use crate::progress::Phase;
use crate::source::{self, Sources};
use crate::stdout;
use crate::style::{Detail, demangle, detail, extent, terminal};
use conclusion::{Concluded, Never, Stops, Tables};
use records::{Records, Recovery, Walk};

/// Said of a program that has nothing of ours.
const NOT_OURS: &str = "This program was not built with `backtrail cc`, which would add the last \
                        paths of these functions and what never ran.";

/// Runs the verb.
pub fn run(args: &args::Autopsy, quiet: bool) -> anyhow::Result<u8> {
    let options = Options {
        executable: args.exe.clone(),
        debug_folders: args.debug_dir.clone(),
        core_folder: None,
    };
    let shown =
        text::Options { detail: detail(args.full), extent: extent(args.all), style: terminal() };
    let mut found = Vec::new();
    let total = args.cores.len() + usize::from(args.pid.is_some());
    let examining = Phase::counted("examining", total, "processes", quiet);
    for (place, core) in args.cores.iter().enumerate() {
        examining.at(place, total);
        examining.note(&core.display().to_string());
        let process = Process::of_core(core, &options)?;
        found.push(examine(&process, &core.display().to_string(), &args.source_map));
    }
    if let Some(pid) = args.pid {
        let process = Process::of_pid(pid, &options)?;
        found.push(examine(&process, &format!("process {pid}"), &args.source_map));
    }
    drop(examining);
    if let Some(folder) = &args.html {
        write_pages(&found, folder, shown.detail, quiet || args.json)?;
        if !args.json {
            return Ok(0);
        }
    }
    let common = (found.len() > 1).then(|| agreement::compare(&found));
    let mut out = stdout::open(stdout::form(args.json));
    for (place, Examined { autopsy, .. }) in found.iter().enumerate() {
        if args.json {
            let document = json::Document::new(autopsy);
            let document = if args.blocks { document.with_blocks(autopsy) } else { document };
            // One is for people, too; of several, each is a line.
            match common {
                Some(_) => write_line(&mut out, &document)?,
                None => write_document(&mut out, &document)?,
            }
        } else {
            if place > 0 {
                writeln!(out)?;
            }
            write!(out, "{}", text::render(autopsy, &shown))?;
        }
    }
    match &common {
        Some(common) if args.json => write_line(&mut out, &common.document())?,
        Some(common) => write!(out, "\n{}", common.text(&shown))?,
        None => {}
    }
    out.flush()?;
    Ok(0)
}

fn write_pages(
    found: &[Examined],
    folder: &Path,
    detail: Detail,
    quiet: bool,
) -> anyhow::Result<()> {
    std::fs::create_dir_all(folder)
        .with_context(|| format!("cannot make the folder {}", folder.display()))?;
    for (place, Examined { autopsy, .. }) in found.iter().enumerate() {
        let name = match found.len() {
            1 => "index.html".to_owned(),
            _ => format!("{}.html", place + 1),
        };
        let page = folder.join(name);
        let text = html::render(autopsy, detail, &mut source::read);
        output::write_whole(&page, text.as_bytes(), output::Mode::Data)?;
        if !quiet {
            stdout::line(page.display())?;
        }
    }
    Ok(())
}

/// What was found out about a process.
pub struct Examined {
    autopsy: Autopsy,
    /// What was concluded, and the tables it was concluded by.
    concluded: Option<(Concluded, Tables)>,
}

/// All that a process tells.
fn examine(process: &Process, core: &str, map: &[SourceMap]) -> Examined {
    let main = process.main();
    let program = match (main, &process.notes.program) {
        (Some(main), _) => main.path.clone(),
        (None, Some(program)) => program.name.clone(),
        (None, None) => String::new(),
    };
    let program = Path::new(&program).file_name().map(|name| name.to_string_lossy().into_owned());
    let info = process.signal_info();
    let crashed = process.crashed().map(|thread| thread.id);
    let mut records = Records::new(process);
    let threads = process.notes.threads.iter();
    let walks: Vec<Walk<'_>> =
        threads.map(|thread| Walk::new(process, thread, &mut records)).collect();
    let concluded = Concluded::new(process, &mut records, &walks);
    let mut remarks = remarks(process);
    remarks.append(&mut records.remarks);
    let mut examiner = Examiner {
        process,
        map,
        sources: Sources::default(),
        places: BTreeMap::new(),
        records,
        concluded: concluded.as_ref(),
        stops: Stops::new(),
    };
    let walks = walks.iter().enumerate();
    let threads = walks.map(|(place, walk)| examiner.thread(place, walk, crashed)).collect();
    let conclusion = examiner.conclusion();
    let mut tables = Tables::new();
    for path in concluded.iter().flat_map(Concluded::paths) {
        tables.extend(examiner.records.take(path).map(|table| (path.to_owned(), table)));
    }
    let image = main.and_then(|main| main.image.as_ref());
    let ours = image.is_some_and(|image| {
        image.has_section(backtrail_abi::UNIT_SECTION)
            || image.has_section(backtrail_abi::LINK_SECTION)
    });
    let autopsy = Autopsy {
        core: core.to_owned(),
        program: program.unwrap_or_else(|| "a program of unknown name".to_owned()),
        build_id: main
            .and_then(|main| main.build_id.as_deref())
            .map_or_else(String::new, build_id_text),
        command: process.notes.program.as_ref().map_or_else(String::new, |it| it.command.clone()),
        signal: process.signal().map(signal::name),
        reason: info.and_then(|info| info.reason()),
        fault_address: info.and_then(|info| info.fault_address()),
        remarks,
        hint: (image.is_some() && !ours).then(|| NOT_OURS.to_owned()),
        threads,
        conclusion,
    };
    Examined { autopsy, concluded: concluded.map(|it| (it, tables)) }
}

/// What is missing or uncertain.
fn remarks(process: &Process) -> Vec<String> {
    let mut remarks = process.remarks.clone();
    for module in &process.modules.list {
        let Some(why) = &module.remark else { continue };
        let missing = module.image.is_none();
        let consequence = if !missing {
            ""
        } else if process.main().is_some_and(|main| std::ptr::eq(main, module)) {
            " (its functions have no names, and their frames are found by frame pointer or scan; \
             give the executable that ran with --exe)"
        } else {
            " (its functions have no names, and frames behind them are found by frame pointer or \
             scan)"
        };
        remarks.push(format!("{why}{consequence}"));
    }
    if process.main().is_none() {
        let hint = "the core does not say which executable ran: give it with --exe";
        remarks.push(hint.to_owned());
    }
    remarks
}

struct Examiner<'a> {
    process: &'a Process,
    map: &'a [SourceMap],
    sources: Sources,
    /// The functions at each instruction seen so far.
    places: BTreeMap<u64, Vec<Place>>,
    records: Records<'a>,
    concluded: Option<&'a Concluded>,
    /// Where live frames stopped.
    stops: Stops,
}

/// A frame that is being looked at.
struct Looked<'a> {
    frame: &'a unwind::Frame,
    recovery: Option<&'a Recovery>,
    /// The places of its thread and of itself.
    place: (usize, usize),
    /// The name of the function that it called.
    called: Option<&'a str>,
}

impl Examiner<'_> {
    fn places(&mut self, instruction: u64) -> &[Place] {
        let process = self.process;
        self.places.entry(instruction).or_insert_with(|| {
            let mut places = process.places(instruction);
            for name in places.iter_mut().filter_map(|place| place.function.as_mut()) {
                name.truncate(plain_name(name).len());
            }
            places
        })
    }

    fn thread(&mut self, place: usize, walk: &Walk<'_>, crashed: Option<u32>) -> autopsy::Thread {
        let (thread, backtrace) = (walk.thread, &walk.backtrace);
        let mut frames: Vec<Frame> = Vec::new();
        let mut gap = None;
        let mut number = 0;
        let mut called: Option<String> = None;
        for (at, frame) in backtrace.frames.iter().enumerate() {
            if let Some(left_out) = backtrace.gap.as_ref().filter(|gap| gap.behind == at) {
                // Inlined functions count, here as above.
                let functions = |(&at, &times): (&u64, &usize)| {
                    self.places(at).len().max(1) as u64 * times as u64
                };
                let count = left_out.instructions.iter().map(functions).sum();
                let cycle = left_out.cycle.map(|cycle| {
                    let last = &backtrace.frames[at - cycle..at];
                    last.iter().map(|it| self.places(it.instruction()).len().max(1) as u64).sum()
                });
                gap = Some(Gap { behind: frames.len(), count, cycle });
                number += count;
                called = None;
            }
            let before = frames.len();
            let looked = Looked {
                frame,
                recovery: walk.recoveries[at].as_ref(),
                place: (place, at),
                called: called.as_deref(),
            };
            self.frame(&looked, number, &mut frames);
            number += (frames.len() - before) as u64;
            called = frames.last().and_then(|frame| frame.function.clone());
        }
        let lost = match &backtrace.end {
            unwind::End::Outermost | unwind::End::Left => None,
            unwind::End::Lost(why) => Some(why.clone()),
            unwind::End::TooMany => {
                Some(format!("there are more than {} frames", unwind::MOST_FRAMES))
            }
        };
        autopsy::Thread { id: thread.id, crashed: crashed == Some(thread.id), frames, gap, lost }
    }

    /// A frame, and the functions that were inlined into it before.
    fn frame(&mut self, looked: &Looked<'_>, number: u64, out: &mut Vec<Frame>) {
        let frame = looked.frame;
        let found_by = match frame.found_by {
            unwind::FoundBy::Registers | unwind::FoundBy::UnwindTables => autopsy::FoundBy::Tables,
            unwind::FoundBy::FramePointer => autopsy::FoundBy::FramePointer,
            unwind::FoundBy::Scan => autopsy::FoundBy::Scan,
        };
        let instruction = frame.instruction();
        let mut places = self.places(instruction).to_vec();
        if places.is_empty() {
            places.push(Place::default());
        }
        let module = self.process.modules.of(instruction).map(|module| module.path.clone());
        let mut remark = frame.remark.clone();
        let recovered = looked.recovery.and_then(|it| Some((it, it.found.as_ref().ok()?)));
        if let Some((recovery, found)) = recovered
            && places.iter().all(|place| place.line.is_none())
            && let Some(model) = self.place_of_model(looked, recovery, found)
        {
            places = model.places;
            if remark.is_none() && !model.unclear.is_empty() {
                let lines: Vec<String> = model.unclear.iter().map(u32::to_string).collect();
                remark = Some(format!(
                    "it is at one of the lines {} (no debug information tells which)",
                    lines.join(", ")
                ));
            }
        }
        let line = places[0].line;
        let mut way = looked.recovery.and_then(|recovery| self.way(recovery));
        if let Some((recovery, found)) = recovered
            && let Some(block) = found.block
            && let Some(unit) = self.records.model(&recovery.module, found.unit)
        {
            let reached = match frame.interrupted {
                true => None,
                false => model_place::call_under_way(unit, found.function, block, looked.called),
            };
            let count = way::lines_reached(unit, found.function, block, reached, line);
            if let Some(last) = way.as_mut().and_then(|way| way.path.last_mut())
                && found.path.last() == Some(&block)
            {
                last.lines.truncate(count);
            }
            let key = (found.unit, found.function.position() as u32, block);
            let most = self.stops.entry(key).or_insert(count);
            *most = count.max(*most);
        }
        if let Some(way) = &way
            && way.known == "exact"
            && let [place] = &mut places[..]
            && place.line.is_none()
            && let Some(last) = way.path.iter().rev().find_map(|it| it.lines.last())
        {
            // One call may be left of several lines' calls.
            (place.file, place.line) = (Some(last.file.clone()), Some(last.line));
            let note = "its own line is not known, this is the last one before it";
            remark.get_or_insert_with(|| note.to_owned());
        }
        let mut never = self.never(looked);
        for (place, number) in places.iter().zip(number..) {
            let (file, path) = match &place.file {
                Some(file) => {
                    let (file, path) = self.mapped(file, place.folder.as_deref());
                    (Some(file), Some(path))
                }
                None => (None, None),
            };
            let own = path.as_deref().is_some_and(|path| Owner::of(path) == Owner::User);
            let source = path.as_deref().zip(place.line);
            let source = source.and_then(|(path, line)| self.sources.line(path, line));
            out.push(Frame {
                number,
                address: frame.program_counter(),
                demangled: place.function.as_deref().map(demangle),
                function: place.function.clone(),
                source: source.map(str::to_owned),
                file,
                line: place.line,
                module: module.clone(),
                found_by,
                uncertain: frame.uncertain,
                inlined: place.inlined,
                own,
                signal: frame.signal,
                // Of the function whose frame it is.
                remark: remark.clone().filter(|_| !place.inlined),
                way: if place.inlined { None } else { way.take() },
                never: if place.inlined { Vec::new() } else { std::mem::take(&mut never.lines) },
                never_told: if place.inlined {
                    Vec::new()
                } else {
                    std::mem::take(&mut never.told)
                },
            });
        }
    }

    /// Where a frame is by the program model.
    fn place_of_model(
        &self,
        looked: &Looked<'_>,
        recovery: &Recovery,
        found: &Recovered,
    ) -> Option<model_place::ModelPlace> {
        let unit = self.records.model(&recovery.module, found.unit)?;
        let is_call = !looked.frame.interrupted;
        Some(model_place::find(unit, found.function, found.block?, is_call, looked.called))
    }

    /// The way a frame came, if its function records that.
    fn way(&mut self, recovery: &Recovery) -> Option<autopsy::Way> {
        let table = self.records.table(&recovery.module)?;
        match &recovery.found {
            Ok(found) => {
                let covered = found.covered.name();
                let scheme = match (covered.is_empty(), found.traced) {
                    (true, false) => return None,
                    (true, true) => "pt".to_owned(),
                    (false, false) => covered,
                    (false, true) => format!("{covered}+pt"),
                };
                Some(way::way(table.model(found.unit)?, found, &scheme))
            }
            Err(Unread::NotOurs) => None,
            Err(why) => {
                let note = Some(why.to_string());
                Some(autopsy::Way { scheme: "pt".to_owned(), note, ..autopsy::Way::default() })
            }
        }
    }

    /// The lines that an activation never came to.
    fn never(&mut self, looked: &Looked<'_>) -> Never {
        let Some(concluded) = self.concluded else { return Never::default() };
        let Some(recovery) = looked.recovery else { return Never::default() };
        let (thread, frame) = looked.place;
        let frames = self.records.table(&recovery.module);
        let never = |frames| concluded.never(&recovery.module, frames, thread, frame);
        frames.map_or_else(Never::default, never)
    }

    /// What can have run of the executable and of its libraries.
    fn conclusion(&mut self) -> Option<autopsy::Conclusion> {
        let concluded = self.concluded?;
        let last = concluded.last_blocks();
        self.stops.retain(|key, _| last.contains(key));
        let mut found = concluded.report(&mut self.records, &self.stops)?;
        for file in &mut found.files {
            file.name = mapped(self.map, &file.name);
        }
        for (file, _) in &mut found.impossible_lines {
            *file = mapped(self.map, file);
        }
        Some(found)
    }

    /// A source file as it is shown, and where it is now.
    fn mapped(&self, file: &str, folder: Option<&str>) -> (String, String) {
        let path = match folder {
            Some(folder) => format!("{folder}/{file}"),
            None => file.to_owned(),
        };
        match self.map.iter().find_map(|map| map.apply(&path)) {
            Some(moved) => (moved.clone(), moved),
            None => (file.to_owned(), path),
        }
    }
}

/// A file as `--source-map` says.
fn mapped(map: &[SourceMap], path: &str) -> String {
    map.iter().find_map(|map| map.apply(path)).unwrap_or_else(|| path.to_owned())
}

/// `A=B`: sources that were below A are below B now.
#[derive(Debug, Clone)]
pub struct SourceMap {
    from: String,
    to: String,
}

impl SourceMap {
    fn apply(&self, path: &str) -> Option<String> {
        let rest = path.strip_prefix(&self.from)?;
        let whole = rest.is_empty() || rest.starts_with('/');
        whole.then(|| format!("{}{rest}", self.to))
    }
}

impl std::str::FromStr for SourceMap {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let (from, to) = word.split_once('=').ok_or("not of the form A=B")?;
        let trimmed = |folder: &str| match folder.trim_end_matches('/') {
            "" if !folder.is_empty() => String::new(),
            folder => folder.to_owned(),
        };
        if from.is_empty() {
            return Err("nothing is before the =".to_owned());
        }
        Ok(Self { from: trimmed(from), to: trimmed(to) })
    }
}

#[cfg(test)]
mod tests {
    use super::SourceMap;

    #[test]
    fn sources_move_by_whole_folders() {
        let map: SourceMap = "/build/a/=/src".parse().unwrap();
        assert_eq!(map.apply("/build/a/x.c").as_deref(), Some("/src/x.c"));
        assert_eq!(map.apply("/build/ab/x.c"), None);
        assert!("".parse::<SourceMap>().is_err());
        assert!("=b".parse::<SourceMap>().is_err());
    }
}
