//! The profile in a folder of records: of counters, or of block logs.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_build::variant::{build_id_text, layout_id};
use backtrail_collect::counts::CountsFile;
use backtrail_collect::records::{CountsPath, Foreign, ProcessRecord, Records};
use backtrail_ir::Unit;
use backtrail_plan::counters::Layout;
use backtrail_profile::decode::{Counters, Decoder};
use backtrail_profile::log_walk::LogWalk;
use backtrail_profile::model::Profile;
use backtrail_profile::skeleton::Module;
use backtrail_profile::unit_plan::{Choice, DEFAULT_LIMIT, plan_module};
use backtrail_trace::block_log::{Events, Process, ProgramMap};

use crate::exit::Unreadable;

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
        Some(bytes) => {
            let layout = postcard::from_bytes(bytes)
                .map_err(|_| damaged("the layout of its counters cannot be read".to_owned()))?;
            (layout_id(bytes), layout)
        }
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
            let bytes =
                postcard::to_stdvec(&layout).expect("serialising into memory does not fail");
            (layout_id(&bytes), layout)
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
    for record in processes {
        let (_, mut why) = incomplete(record)?;
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
            if modules.iter().all(|module| module.id != layout) {
                why = Some(format!(
                    "process {}: counters of a library that the program does not name are missing",
                    record.pid
                ));
                continue;
            }
            files.push((layout, bytes));
        }
        let counters: Vec<Counters<'_>> =
            files.iter().map(|(layout, area)| Counters { layout: *layout, area }).collect();
        decoder
            .add_process(&counters, why)
            .map_err(|error| Unreadable(format!("{}: {error}", record.folder.display())))?;
    }
    Ok(decoder.finish().map_err(|error| Unreadable(error.to_string()))?)
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
            let input = File::open(&file.path).map_err(Error::read(&file.path))?;
            let mut events = Events::new(&process, BufReader::with_capacity(1 << 20, input))
                .map_err(unreadable)?;
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
