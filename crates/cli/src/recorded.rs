//! The profile in a folder of records: of counters, or of block logs.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_build::variant::{CountingScheme, ModuleToPlan, build_id_text, layout_id};
use backtrail_collect::copies::Variant;
use backtrail_collect::counts::CountsFile;
use backtrail_collect::records::{CountsPath, Foreign, ProcessRecord, Records};
use backtrail_ir::Unit;
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::{Counters, Decoder};
use backtrail_profile::log_walk::LogWalk;
use backtrail_profile::model::Profile;
use backtrail_profile::partition::copies::CopyDecoder;
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, plan_module};
use backtrail_trace::block_log::{Events, Process, ProgramMap, ThreadLog};

use crate::exit::{Diverged, Unreadable};

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
        eprintln!("backtrail: {} is passed over: {why}", path.display());
        if *lost {
            let name = path.strip_prefix(parent).unwrap_or(path).display();
            missing.push(format!("{name} is missing: {why}"));
        }
    }
    if processes.is_empty() {
        anyhow::bail!(Unreadable(format!("{} holds no record that can be read", path.display())));
    }
    Ok((processes, missing))
}

/// The profile of the processes recorded in the folder `dir` (or of the one whose
/// folder it is), which must be of one program. `variant` is the executable that
/// ran, if it is no longer where it was, or chooses among several.
pub fn load(dir: &Path, variant: Option<&Path>) -> anyhow::Result<Profile> {
    let (mut processes, missing) = read_processes(dir)?;
    let variant = variant.map(|it| it.canonicalize().unwrap_or_else(|_| it.to_owned()));
    if let Some(variant) = &variant {
        let is_it = |record: &ProcessRecord| record.executable == *variant;
        let has_its_name =
            |record: &ProcessRecord| record.executable.file_name() == variant.file_name();
        if processes.iter().any(is_it) {
            processes.retain(is_it);
        } else if processes.iter().any(has_its_name) {
            processes.retain(has_its_name);
        }
    }
    let named: BTreeSet<&PathBuf> = processes.iter().map(|it| &it.executable).collect();
    if named.len() > 1 {
        let names: Vec<String> = named.iter().map(|it| it.display().to_string()).collect();
        let (dir, names) = (dir.display(), names.join(", "));
        anyhow::bail!(Unreadable(format!(
            "{dir} holds records of several programs; choose one with --exe: {names}"
        )));
    }
    let program = variant.unwrap_or_else(|| processes[0].executable.clone());
    let mut profile = decode(&program, &processes)?;
    profile.incomplete.extend(missing);
    profile.incomplete.sort();
    Ok(profile)
}

/// The models of an executable or library and the layout of its counters.
struct Loaded {
    id: [u8; 16],
    layout: Layout,
    units: Vec<(UnitId, Unit)>,
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
                is_executable: true,
                referred_to: None,
            };
            let with_id: Vec<_> = units.iter().map(|(id, unit)| (id.0, unit)).collect();
            let planned = plan_module(&with_id, &choice).into_iter();
            let layout = Layout::new(
                planned.map(|(plan, meaning)| (plan.unit, plan.counters, meaning.to_bytes())),
            );
            (identify(&layout), layout)
        }
    };
    Ok(Loaded { id, layout, units })
}

fn decode(program: &Path, processes: &[ProcessRecord]) -> anyhow::Result<Profile> {
    let carried = Carried::read(program)?;
    let libraries = own_libraries(&carried)?;
    let mut loaded = Vec::new();
    for file in [&carried].into_iter().chain(libraries.values()) {
        loaded.push(load_module(file)?);
    }
    let modules: Vec<Module<'_>> = loaded
        .iter()
        .map(|it| Module {
            id: it.id,
            layout: it.layout.clone(),
            units: it.units.iter().map(|(id, unit)| (*id, unit)).collect(),
        })
        .collect();
    let recipe = carried.recipe.as_ref();
    let build_id = recipe.map_or(&carried.build_id, |recipe| &recipe.derived_from);
    let build_id = if build_id.is_empty() { String::new() } else { build_id_text(build_id) };
    let name = program.file_name().unwrap_or_default().to_string_lossy();
    // A variant is shown under the name of what it is a variant of.
    let variant = recipe.and_then(|recipe| recipe.variant.as_ref());
    let suffix = variant.map(|scheme| format!(".{scheme}"));
    let name = suffix.and_then(|suffix| name.strip_suffix(&suffix)).unwrap_or(&name);
    let decoder = Decoder::new(name, &build_id, &modules);
    if carried.layout.is_some() {
        from_counters(decoder, &modules, processes)
    } else {
        from_logs(decoder, &loaded, processes)
    }
}

/// Why a process's record may lack something, as its header says.
fn incomplete(record: &ProcessRecord) -> anyhow::Result<(Process, Option<String>)> {
    let path = record.process_file();
    let bytes = std::fs::read(&path).map_err(Error::read(&path))?;
    let process = Process::read(&bytes)
        .map_err(|error| Unreadable(format!("{}: {error}", path.display())))?;
    let why = process.incomplete.map(|gap| format!("process {}: {gap}", record.pid));
    Ok((process, why))
}

fn from_counters(
    mut decoder: Decoder<'_>,
    modules: &[Module<'_>],
    processes: &[ProcessRecord],
) -> anyhow::Result<Profile> {
    let layouts: Vec<[u8; 16]> = modules.iter().map(|module| module.id).collect();
    for record in processes {
        let counted = Counted::read(record, &layouts)?;
        decoder
            .add_process(&counted.counters(), counted.incomplete.clone())
            .map_err(|error| Unreadable(format!("{}: {error}", record.folder.display())))?;
    }
    Ok(decoder.finish().map_err(|error| Unreadable(error.to_string()))?)
}

/// What a process counted.
struct Counted {
    /// The layout and the bytes of each file.
    files: Vec<([u8; 16], Vec<u8>)>,
    /// Why some of it is missing, if it is.
    incomplete: Option<String>,
}

impl Counted {
    /// Reads the counters of the modules with these layouts.
    fn read(record: &ProcessRecord, layouts: &[[u8; 16]]) -> anyhow::Result<Self> {
        let (_, mut incomplete) = incomplete(record)?;
        let mut files = Vec::new();
        for CountsPath { path, .. } in &record.counts {
            let bytes = std::fs::read(path).map_err(Error::read(path))?;
            let layout = match CountsFile::decode(&bytes) {
                Ok(file) => file.layout(),
                Err(backtrail_collect::Error::NoCounts) => continue,
                Err(error) => {
                    let path = path.display();
                    anyhow::bail!(Unreadable(format!("{path}: {error}")));
                }
            };
            if !layouts.contains(&layout) {
                incomplete = Some(format!(
                    "process {}: counters of a library that the program does not name are missing",
                    record.pid
                ));
                continue;
            }
            files.push((layout, bytes));
        }
        Ok(Self { files, incomplete })
    }

    fn counters(&self) -> Vec<Counters<'_>> {
        self.files.iter().map(|(layout, area)| Counters { layout: *layout, area }).collect()
    }
}

/// The one profile of copies that counted parts of what `counting` counts in
/// `program`, which has these modules and ended so.
pub fn load_copies(
    program: &Carried,
    modules: &[ModuleToPlan],
    counting: &dyn CountingScheme,
    copies: &[Variant],
    status: ExitStatus,
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
            Module { id: identify(&layout), layout, units }
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
        let ids: Vec<[u8; 16]> = layouts.iter().map(|(id, _)| *id).collect();
        decoder.add_copy(&layouts).map_err(unusable)?;
        if !copy.records.is_dir() {
            continue;
        }
        let (mut processes, lost) = read_processes(&copy.records)?;
        let name = copy.executable.file_name();
        processes.retain(|record| record.executable.file_name() == name);
        missing.extend(lost);
        for record in &processes {
            has_threads |= record.counts.iter().any(|file| file.copy > 0);
            let counted = Counted::read(record, &ids)?;
            decoder
                .add_process(number, &counted.counters(), counted.incomplete.clone())
                .map_err(|error| Unreadable(format!("{}: {error}", record.folder.display())))?;
        }
    }
    if !has_threads && missing.is_empty() && status.code().is_some() {
        decoder.expect_calls_to_fit();
    }
    let mut profile = decoder.finish().map_err(unusable)?;
    profile.incomplete.extend(missing);
    profile.incomplete.sort();
    Ok(profile)
}

/// Counts that cannot be put together.
fn unusable(error: backtrail_profile::Error) -> anyhow::Error {
    match error {
        backtrail_profile::Error::Diverged { .. } => Diverged(error.to_string()).into(),
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

/// What identifies a layout.
fn identify(layout: &Layout) -> [u8; 16] {
    layout_id(&postcard::to_stdvec(layout).expect("serialising into memory does not fail"))
}

fn from_logs(
    decoder: Decoder<'_>,
    loaded: &[Loaded],
    processes: &[ProcessRecord],
) -> anyhow::Result<Profile> {
    let units = loaded.iter().flat_map(|it| &it.units);
    let map = ProgramMap::new(units.map(|(id, unit)| (*id, unit)));
    let mut walk = LogWalk::new(decoder);
    for record in processes {
        let (process, mut why) = incomplete(record)?;
        let before = walk.inherited;
        for file in &record.threads {
            let unreadable = |error: backtrail_trace::Error| {
                Unreadable(format!("{}: {error}", file.path.display()))
            };
            let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
            let mut events = Events::new(&process, input).map_err(unreadable)?;
            let steps = events.by_ref().map(|event| {
                let step = map.step(&event?)?;
                Ok((step.unit, step.func, step.block))
            });
            walk.add_thread(steps).map_err(unreadable)?;
            let summary = events.summary();
            if summary.lost > 0 || summary.truncated {
                let cut = if summary.truncated { ", and a thread's file was cut" } else { "" };
                let (pid, lost) = (record.pid, summary.lost);
                why = Some(format!("process {pid}: {lost} logged blocks were lost{cut}"));
            }
        }
        if walk.inherited > before {
            let count = walk.inherited - before;
            let note = format!(
                "process {}: {count} blocks of activations that its log saw no beginning of",
                record.pid
            );
            why = Some(why.map_or(note.clone(), |why| format!("{why}; {note}")));
        }
        walk.end_process(why).map_err(|error| Unreadable(error.to_string()))?;
    }
    Ok(walk.finish().map_err(|error| Unreadable(error.to_string()))?)
}
