//! The profile in a folder of records: of counters, or of block logs.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitStatus;
use std::rc::Rc;

use backtrail_abi::UnitId;
use backtrail_abi::log::{ProcessHeader, Registration};
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::file::hex;
use backtrail_build::libraries::own_libraries;
use backtrail_build::variant::{CountingScheme, ModuleToPlan, build_id_text, layout_id};
use backtrail_collect::copies::Variant;
use backtrail_collect::counts::{layout_in as layout_of_counts, unpack};
use backtrail_collect::records::{
    CountsPath, Descendant, Foreign, ProcessRecord, Records, in_order_of_forks,
};
use backtrail_foreign::file;
use backtrail_foreign::say;
use backtrail_ir::Unit;
use backtrail_ir::program::Surroundings;
use backtrail_machine::elf::Kind;
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::{Counters, Decoder, Origin};
use backtrail_profile::log_walk::{Before, LogWalk, Logged};
use backtrail_profile::model::Profile;
use backtrail_profile::partition::copies::CopyDecoder;
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, plan_module};
use backtrail_trace::block_log::{
    Events, InheritedLog, LogFrames, Module as RecordedModule, Moment, Moments, Process,
    ProgramMap, ThreadLog,
};

use crate::alike;
use crate::exit::{Diverged, Unreadable};
use crate::forked_logs::inherited;
use crate::style::{counted, lost_blocks};
use crate::variants::{Variants, underived};

/// No process has more units and libraries, whatever a damaged header says.
const MOST_REGISTRATIONS: u32 = 1 << 22;

/// The processes in a folder of records, or the one whose folder it is; and what
/// is missing of them, a line each.
pub fn read_processes(path: &Path) -> anyhow::Result<(Vec<ProcessRecord>, Vec<String>)> {
    if !path.is_dir() {
        let hint = "give the folder of records ($BACKTRAIL_DIR) or a process's folder in it";
        anyhow::bail!(Unreadable(format!("{} is not a folder of records; {hint}", path.display())));
    }
    let single = path.join(backtrail_abi::log::PROCESS_FILE).is_file();
    let folder = path.canonicalize().map_err(Error::read(path))?;
    let parent = if single { folder.parent().unwrap_or(&folder) } else { &folder };
    let records = Records::read(parent).map_err(|error| Unreadable(error.to_string()))?;
    let (mut processes, mut foreign) = (records.processes, records.foreign);
    if single {
        processes.retain(|process| process.folder.file_name() == folder.file_name());
        foreign.retain(|foreign| foreign.path.starts_with(&folder));
    }
    let mut missing = Vec::new();
    for Foreign { path, why, lost } in &foreign {
        say!("backtrail: {} is passed over: {why}", path.display());
        if *lost {
            let name = path.strip_prefix(parent).unwrap_or(path).display();
            missing.push(format!("{name} is missing: {why}"));
        }
    }
    processes.retain(|record| match read_process(record) {
        Ok(_) => true,
        Err(why) => {
            say!("backtrail: {} is passed over: {why}", record.folder.display());
            missing.push(format!("process {} is missing: {why}", record.pid));
            false
        }
    });
    if processes.is_empty() {
        anyhow::bail!(Unreadable(format!("{} holds no record that can be read", path.display())));
    }
    Ok((processes, missing))
}

/// A process's record, and what its process file says.
type Recorded = (ProcessRecord, Process);

/// What a process file says: no more of it is read than its header says there is.
pub fn read_process(record: &ProcessRecord) -> anyhow::Result<Process> {
    let path = record.process_file();
    let read = |bytes: usize| file::read_head(&path, bytes as u64).map_err(Error::read(&path));
    let header = ProcessHeader::read(&read(ProcessHeader::BYTES)?);
    let rows = header.map_or(0, |header| header.registrations).min(MOST_REGISTRATIONS);
    let bytes = read(ProcessHeader::BYTES + rows as usize * Registration::BYTES)?;
    Process::read(&bytes).map_err(|error| Unreadable(format!("{}: {error}", path.display())).into())
}

/// The profile of the processes recorded in the folder `dir` (or of the one whose
/// folder it is), which must be of one program. `given` are variants that ran, if they are
/// not found by themselves, or choose among several programs.
pub fn load(dir: &Path, given: &[PathBuf]) -> anyhow::Result<Profile> {
    let (processes, mut missing) = read_processes(dir)?;
    let mut recorded: Vec<Recorded> = Vec::new();
    for record in processes {
        let process = read_process(&record)?;
        recorded.push((record, process));
    }
    let mut variants = Variants::new(given)?;
    variants.check_given(dir, recorded.iter().map(|(_, process)| process))?;
    choose(dir, &mut recorded, &variants.given())?;
    let mut modules: Vec<Rc<Carried>> = Vec::new();
    let mut without: BTreeMap<String, usize> = BTreeMap::new();
    for (record, process) in &recorded {
        variants.look(record, process)?;
    }
    for (record, process) in &recorded {
        let made = variants.made_of(record, process)?;
        for module in made.modules {
            if modules.iter().all(|known| known.variant != module.variant) {
                modules.push(module);
            }
        }
        made.missing.into_iter().for_each(|what| *without.entry(what).or_default() += 1);
    }
    let all = recorded.len();
    missing.extend(without.into_iter().map(|(what, count)| match count {
        count if count < all => format!("{what} (in {count} of {all} processes)"),
        _ => what,
    }));
    // Whatever it is made of, a record is of a program.
    modules.sort_by_key(|module| module.kind == Kind::SharedLibrary);
    let Some(program) = modules.first().map(Rc::clone) else {
        let dir = dir.display();
        anyhow::bail!(Unreadable(format!("{dir} holds no record that says which variant made it")));
    };
    let counts = |module: &Rc<Carried>| module.layout.is_some();
    modules.retain(|module| {
        let is_alike = counts(module) == counts(&program);
        if !is_alike {
            let (name, other) = (module.path.display(), program.path.display());
            missing.push(format!("what {name} recorded is of another scheme than {other}"));
        }
        is_alike
    });
    let mut profile = decode(&program, &modules, &recorded)?;
    profile.incomplete.extend(missing);
    profile.incomplete.sort();
    Ok(profile)
}

/// The one of a process's modules that is the program.
fn program_of(process: &Process) -> Option<&RecordedModule> {
    process.modules.iter().find(|module| module.is_executable)
}

/// Leaves the processes of one program, one of those `given` if there are several.
fn choose(
    dir: &Path,
    recorded: &mut Vec<Recorded>,
    given: &BTreeSet<[u8; 16]>,
) -> Result<(), Unreadable> {
    let programs = |recorded: &[Recorded]| -> BTreeMap<[u8; 16], PathBuf> {
        let programs = recorded.iter().filter_map(|(_, process)| program_of(process));
        programs.map(|it| (it.id, it.path.clone().unwrap_or_default())).collect()
    };
    let all = programs(recorded);
    if all.len() > 1 && all.keys().any(|id| given.contains(id)) {
        recorded
            .retain(|(_, process)| program_of(process).is_some_and(|it| given.contains(&it.id)));
    }
    let left = programs(recorded);
    if left.len() > 1 {
        let name =
            |(id, path): (&[u8; 16], &PathBuf)| format!("{} (variant {})", path.display(), hex(id));
        let names: Vec<String> = left.iter().map(name).collect();
        let (dir, names) = (dir.display(), names.join(", "));
        return Err(Unreadable(format!(
            "{dir} holds records of several programs; choose one with --exe: {names}"
        )));
    }
    Ok(())
}

/// The models of an executable or library and the layout of its counters.
struct Loaded {
    id: [u8; 16],
    layout: Layout,
    units: Vec<(UnitId, Unit)>,
    surroundings: Surroundings,
}

fn load_module(carried: &Carried) -> anyhow::Result<Loaded> {
    let damaged = |what: String| Error::Damaged { path: carried.path.clone(), what };
    let mut units = Vec::new();
    for unit in &carried.units {
        let model = unit.model().map_err(|it| damaged(format!("{}: {}", unit.meta.name, it.0)))?;
        units.extend(model.map(|model| (unit.id(), model)));
    }
    let (id, layout) = match &carried.layout {
        Some(_) => layout_in(carried)?,
        // A log: its paths are those that would be counted.
        None => {
            let choice = Choice {
                wants: &|_| true,
                limit: DEFAULT_LIMIT,
                weights: None,
                surroundings: None,
            };
            let with_id: Vec<_> = units.iter().map(|(id, unit)| (id.0, unit)).collect();
            let planned = plan_module(&with_id, &choice).into_iter();
            let layout = Layout::new(
                planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())),
            );
            (identify(&layout), layout)
        }
    };
    let recipe = carried.recipe.as_ref();
    let surroundings = recipe.map(|it| it.surroundings.clone()).unwrap_or_default();
    Ok(Loaded { id, layout, units, surroundings })
}

fn decode(
    program: &Carried,
    files: &[Rc<Carried>],
    processes: &[Recorded],
) -> anyhow::Result<Profile> {
    let loaded: Vec<Loaded> =
        files.iter().map(|file| load_module(file)).collect::<anyhow::Result<_>>()?;
    let modules: Vec<Module<'_>> = loaded
        .iter()
        .map(|it| Module {
            id: it.id,
            layout: it.layout.clone(),
            units: it.units.iter().map(|(id, unit)| (*id, unit)).collect(),
            surroundings: it.surroundings.clone(),
        })
        .collect();
    let recipe = program.recipe.as_ref();
    let build_id = recipe.map_or(&program.build_id, |recipe| &recipe.derived_from);
    let build_id = if build_id.is_empty() { String::new() } else { build_id_text(build_id) };
    let name = program.path.file_name().unwrap_or_default().to_string_lossy();
    // A variant is shown under the name of what it is a variant of.
    let variant = recipe.and_then(|recipe| recipe.variant.as_ref());
    let suffix = variant.map(|scheme| format!(".{scheme}"));
    let name = suffix.and_then(|suffix| name.strip_suffix(&suffix)).unwrap_or(&name);
    let decoder = Decoder::new(name, &build_id, &modules);
    if program.layout.is_some() {
        let layouts = modules.iter().map(|module| (module.id, module.layout.bytes)).collect();
        let variants = ids(files.iter().map(|file| &**file));
        from_counters(decoder, &Known { layouts, variants }, processes)
    } else {
        from_logs(decoder, &loaded, processes)
    }
}

/// Why a process's record may lack something, as its header says.
fn gap(process: &Process) -> Option<String> {
    process.incomplete.map(|gap| format!("process {}: {gap}", process.pid))
}

/// How a process began, if these are the processes that are read.
fn origin<'r>(
    record: &ProcessRecord,
    mut processes: impl Iterator<Item = &'r ProcessRecord>,
) -> Origin {
    match record.forked_from {
        None => Origin::Started,
        Some(parent) if processes.any(|it| it.pid == parent) => Origin::Forked,
        Some(_) => Origin::Orphaned,
    }
}

fn records(processes: &[Recorded]) -> impl Iterator<Item = &ProcessRecord> {
    processes.iter().map(|(record, _)| record)
}

fn from_counters(
    mut decoder: Decoder<'_>,
    known: &Known,
    processes: &[Recorded],
) -> anyhow::Result<Profile> {
    for (record, process) in processes {
        let counted = Counted::read(record, process, known)?;
        decoder
            .add_process(
                &counted.counters(),
                origin(record, records(processes)),
                counted.incomplete.clone(),
            )
            .map_err(|error| Unreadable(format!("{}: {error}", record.folder.display())))?;
    }
    Ok(decoder.finish().map_err(|error| Unreadable(error.to_string()))?)
}

/// The modules whose counters can be read.
struct Known {
    /// The layouts of their counters, and how many bytes they take.
    layouts: Vec<([u8; 16], u64)>,
    /// Which variants they are.
    variants: BTreeSet<[u8; 16]>,
}

impl Known {
    fn has(&self, module: &RecordedModule) -> bool {
        self.variants.contains(&module.id)
    }
}

/// Which variants these files are.
fn ids<'a>(files: impl IntoIterator<Item = &'a Carried>) -> BTreeSet<[u8; 16]> {
    files.into_iter().filter_map(|file| file.variant.as_ref()).map(|mark| mark.id).collect()
}

/// What a process counted.
struct Counted {
    /// The layout and the bytes of each file.
    files: Vec<([u8; 16], Vec<u8>)>,
    /// Why some of it is missing, if it is.
    incomplete: Option<String>,
}

impl Counted {
    /// Reads the counters of the modules with these layouts and so many bytes.
    fn read(record: &ProcessRecord, process: &Process, known: &Known) -> anyhow::Result<Self> {
        let mut incomplete = gap(process);
        let mut files = Vec::new();
        for CountsPath { path, .. } in &record.counts {
            let bytes = file::read(path).map_err(Error::read(path))?;
            let unreadable = |error: backtrail_collect::Error| {
                Unreadable(format!("{}: {error}", path.display()))
            };
            let (layout, length) = match layout_of_counts(&bytes) {
                Ok(found) => found,
                Err(backtrail_collect::Error::NoCounts) => continue,
                Err(error) => anyhow::bail!(unreadable(error)),
            };
            let Some((_, expected)) = known.layouts.iter().find(|(id, _)| *id == layout) else {
                // Otherwise, the library has been named.
                if process.modules.iter().all(|module| known.has(module)) {
                    incomplete = Some(format!(
                        "process {}: counters of a library that it does not name are missing",
                        record.pid
                    ));
                }
                continue;
            };
            // Before it takes memory.
            if length != *expected {
                anyhow::bail!(unreadable(backtrail_collect::Error::CorruptCounts {
                    bytes: length
                }));
            }
            files.push((layout, unpack(bytes).map_err(unreadable)?));
        }
        Ok(Self { files, incomplete })
    }

    fn counters(&self) -> Vec<Counters<'_>> {
        self.files.iter().map(|(layout, area)| Counters { layout: *layout, area }).collect()
    }
}

/// The one profile of copies that counted parts of what `counting` counts in
/// `program`, which has these modules and ended so. The copies were compared in what is
/// `shared`.
pub fn load_copies(
    program: &Carried,
    modules: &[ModuleToPlan],
    counting: &dyn CountingScheme,
    copies: &[Variant],
    status: ExitStatus,
    shared: Vec<String>,
) -> anyhow::Result<Profile> {
    // The program first, then its libraries, as where everything is counted.
    let (last, libraries) = modules.split_last().expect("a program is a module");
    let layout_of = |module: &ModuleToPlan| {
        let planned = counting.plan(module).into_iter();
        Layout::new(planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning)))
    };
    let whole: Vec<Module<'_>> = [last]
        .into_iter()
        .chain(libraries)
        .map(|module| {
            let layout = layout_of(module);
            let units = module.units.iter().map(|(id, unit)| (UnitId(*id), unit)).collect();
            let surroundings = module.surroundings.clone();
            Module { id: identify(&layout), layout, units, surroundings }
        })
        .collect();
    let build_id =
        if program.build_id.is_empty() { String::new() } else { build_id_text(&program.build_id) };
    let name = program.path.file_name().unwrap_or_default().to_string_lossy();
    let mut decoder = CopyDecoder::new(Decoder::new(&name, &build_id, &whole));
    let mut missing = Vec::new();
    let mut has_threads = false;
    for (number, copy) in copies.iter().enumerate() {
        let carried = Carried::read(&copy.executable)?;
        let libraries = own_libraries(&carried)?;
        let layouts: Vec<([u8; 16], Layout)> = [&carried]
            .into_iter()
            .chain(libraries.values())
            .map(layout_in)
            .collect::<Result<_, _>>()?;
        let layouts: Vec<([u8; 16], &Layout)> =
            layouts.iter().map(|(id, layout)| (*id, layout)).collect();
        let known = Known {
            layouts: layouts.iter().map(|(id, layout)| (*id, layout.bytes)).collect(),
            variants: ids([&carried].into_iter().chain(libraries.values())),
        };
        decoder.add_copy(&layouts).map_err(unusable)?;
        if !copy.records.is_dir() {
            continue;
        }
        let (mut processes, lost) = read_processes(&copy.records)?;
        let name = copy.executable.file_name();
        processes.retain(|record| record.executable.file_name() == name);
        missing.extend(lost);
        let descent = in_order_of_forks(processes);
        for Descendant { record, parent } in &descent {
            has_threads |= record.counts.iter().any(|file| file.copy > 0);
            let process = read_process(record)?;
            missing.extend(underived(&carried, &process));
            for module in process.modules.iter().filter(|module| !known.has(module)) {
                let path = module.path.as_deref().unwrap_or(Path::new("a library"));
                missing.push(format!(
                    "{} counts by itself, which copies cannot share: what it counted is left out",
                    path.display()
                ));
            }
            let counted = Counted::read(record, &process, &known)?;
            decoder
                .add_process(
                    number,
                    *parent,
                    &counted.counters(),
                    origin(record, descent.iter().map(|it| &it.record)),
                    counted.incomplete.clone(),
                )
                .map_err(|error| Unreadable(format!("{}: {error}", record.folder.display())))?;
        }
    }
    if !has_threads && missing.is_empty() && status.code().is_some() {
        decoder.expect_one_thread();
    }
    let (mut profile, entries) = decoder.finish().map_err(unusable)?;
    profile.incomplete.extend(missing);
    profile.incomplete.sort();
    profile.incomplete.dedup();
    if copies.len() > 1 {
        let mut by = shared;
        by.push("how often paths were taken that several count".to_owned());
        let parts = "which way was taken within a function that one run alone counts";
        profile.merged = vec![alike::merged(copies.len(), by, &entries, parts)];
    }
    Ok(profile)
}

/// Counts that cannot be put together.
fn unusable(error: backtrail_profile::Error) -> anyhow::Error {
    use backtrail_profile::Error;
    match error {
        Error::Diverged { .. } | Error::Impossible { .. } => Diverged(error.to_string()).into(),
        _ => Unreadable(error.to_string()).into(),
    }
}

/// The layout of a variant's counters.
fn layout_in(carried: &Carried) -> anyhow::Result<([u8; 16], Layout)> {
    let damaged = |what: &str| Error::Damaged { path: carried.path.clone(), what: what.to_owned() };
    let bytes = carried.layout.as_ref().ok_or_else(|| damaged("it has no counters"))?;
    let layout = postcard::from_bytes(bytes)
        .map_err(|_| damaged("the layout of its counters cannot be read"))?;
    Ok((layout_id(bytes), layout))
}

/// How many bytes the counters of a process of a variant take, at least: those of
/// further threads come on top.
pub fn counter_bytes(carried: &Carried) -> anyhow::Result<u64> {
    let libraries = own_libraries(carried)?;
    let files = [carried].into_iter().chain(libraries.values());
    let counting = files.filter(|file| file.layout.is_some());
    counting.map(|file| Ok(layout_in(file)?.1.bytes)).sum()
}

/// What identifies a layout.
fn identify(layout: &Layout) -> [u8; 16] {
    layout_id(&postcard::to_stdvec(layout).expect("serialising into memory does not fail"))
}

fn from_logs(
    decoder: Decoder<'_>,
    loaded: &[Loaded],
    processes: &[Recorded],
) -> anyhow::Result<Profile> {
    let units = loaded.iter().flat_map(|it| &it.units);
    let map = ProgramMap::new(units.map(|(id, unit)| (*id, unit)));
    let mut walk = LogWalk::new(decoder);
    let read: BTreeMap<&PathBuf, &Process> =
        processes.iter().map(|(record, process)| (&record.folder, process)).collect();
    let descent = in_order_of_forks(processes.iter().map(|(record, _)| record.clone()).collect());
    for (place, Descendant { record, .. }) in descent.iter().enumerate() {
        let process = read[&record.folder];
        let mut why = gap(process);
        let process = process
            .clone()
            .of_blocks()
            .map_err(|error| Unreadable(format!("{}: {error}", record.process_file().display())))?;
        let before = walk.inherited;
        for (number, file) in record.threads.iter().enumerate() {
            let unreadable = |error: backtrail_trace::Error| {
                Unreadable(format!("{}: {error}", file.path.display()))
            };
            let mut frames = LogFrames::default();
            let parts = if number == 0 { inherited(&descent, place) } else { Vec::new() };
            let mut begun = Before::default();
            if !parts.is_empty() {
                let input = InheritedLog::open(parts).map_err(Error::read(&file.path))?;
                let events = Events::new(&process, input).map_err(unreadable)?;
                let moments = Moments::new(&map, events, &mut frames);
                let moments = moments.filter_map(|moment| moment.map(logged).transpose());
                begun = walk.walk_before(moments).map_err(unreadable)?;
            }
            let under_way = frames.under_way();
            let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
            let events = Events::new(&process, input).map_err(unreadable)?;
            let mut moments = Moments::new(&map, events, &mut frames);
            let mut unseen = 0u64;
            let going_on = moments.by_ref().filter_map(|moment| {
                let logged = moment.map(logged).transpose();
                unseen += u64::from(logged.is_none());
                logged
            });
            walk.add_thread_behind(begun, &under_way, going_on).map_err(unreadable)?;
            if unseen > 0 {
                let (pid, unseen) = (record.pid, counted(unseen, "logged block"));
                why = Some(format!("process {pid}: {unseen} of a library that is not found"));
            }
            let summary = moments.summary();
            if summary.lost > 0 || summary.truncated {
                let cut = if summary.truncated { ", and a thread's file was cut" } else { "" };
                let (pid, lost) = (record.pid, summary.lost);
                why =
                    Some(format!("process {pid}: {} lost{cut}", lost_blocks(lost, "logged block")));
            }
        }
        if walk.inherited > before {
            let count = walk.inherited - before;
            let note = format!(
                "process {}: {} of activations that its log saw no beginning of",
                record.pid,
                counted(count, "block")
            );
            why = Some(why.map_or(note.clone(), |why| format!("{why}; {note}")));
        }
        let origin = origin(record, records(processes));
        walk.end_process(origin, why).map_err(|error| Unreadable(error.to_string()))?;
    }
    Ok(walk.finish().map_err(|error| Unreadable(error.to_string()))?)
}

/// What a walk over a log takes.
fn logged(moment: Moment) -> Option<Logged> {
    Some(match moment {
        Moment::Unseen { .. } => return None,
        Moment::Block { step, of, .. } => {
            Logged::Block(of.activation, (step.unit, step.func), step.block)
        }
        Moment::Ended(activation) => Logged::Ended(activation),
        Moment::Left(activation) => Logged::Left(activation),
        Moment::Comes(activation, call) => Logged::Comes(activation, call),
        Moment::Returned(activation, call) => Logged::Returned(activation, call),
    })
}
