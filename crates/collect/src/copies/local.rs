//! Copies as processes on this machine.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use backtrail_abi::log::DIR_VARIABLE;
use backtrail_interruption::Folder;
use nix::sched::{CpuSet, sched_getaffinity};
use nix::unistd::Pid;

use super::divergence::{Ending, compare};
use super::input::Input;
use super::output::files_below;
use super::overlay::put_in_place;
use super::process::{Mount, Spec};
use super::run::{Ran, run_copy};
use super::signals::Watch;
use super::tree::{Changes, Ours, let_the_clock_tick};
use super::view::{Means, Method, View};
use super::watched::{self, Watched};
use super::{Copies, Event, Isolation, Outcome, Variant};
use crate::Error;
use crate::packing::Packer;

/// Runs them.
pub(super) fn run(copies: &Copies<'_>) -> Result<Outcome, Error> {
    let watch = Watch::begin();
    let directory = std::env::current_dir()
        .map_err(|source| Error::Read { path: PathBuf::from("."), source })?;
    let watched = Watched::begin(copies)?;
    let scratch = scratch_outside(&directory, copies.isolation)?;
    copies.variants.iter().try_for_each(|variant| make(&variant.records))?;
    let means = Means::find(
        copies.isolation,
        &directory,
        &directory,
        copies.entry,
        scratch.path(),
        &copies.listener,
    )?;
    if watched.is_some() && !means.mounts {
        let what = "copies can have no namespaces of their own here, in which numbers of \
                    processes are the same: see user_namespaces(7)";
        return Err(Error::Engine { engine: "--check inputs", what: what.to_owned() });
    }
    let ours = Ours::below(&directory, own_paths(copies.variants, scratch.path()));
    let places = Places::new(scratch.path(), means.mounts)?;
    let mut cores = cores_of_copies(copies.variants.len());
    if watched.is_some() {
        // Which they are is an input.
        cores.pinned.clear();
    }
    let mut prepared = Vec::new();
    for (index, variant) in copies.variants.iter().enumerate() {
        let folder = scratch.path().join(format!("{:04}", index + 1));
        make(&folder)?;
        let view = View::new(
            &means,
            &directory,
            &directory,
            &folder,
            &ours,
            index == 0 && !copies.is_trial,
        )?;
        let mut mounts = places.mounts(variant)?;
        mounts.extend(view.mounts.iter().cloned());
        let spec = Spec {
            executable: places.executable(variant)?,
            name: copies.name.to_owned(),
            arguments: copies.arguments.to_vec(),
            environment: None,
            variables: variables(copies, places.records(variant)?),
            directory: view.directory.clone(),
            cores: cores.pinned.get(index).cloned().unwrap_or_default(),
            mounts,
            failure: folder.join("failure"),
            watched: watched.as_ref().map(|it| it.within(&folder)),
        };
        prepared.push((spec, view, folder));
    }
    let_the_clock_tick();
    // A copy that runs in place may write to what the others read.
    let written = (means.method == Method::Copy).then_some(&*directory);
    let input = Input::of_this_process(written)
        .map_err(|source| Error::Read { path: "standard input".into(), source })?;
    let packer = Packer::start(copies.variants.iter().map(|variant| variant.records.clone()));
    let ran = run_all(copies, &prepared, cores.at_once, &input, &watch);
    drop(packer);
    if let (Err(Error::Interrupted { .. }), Some((_, view, _)), false) =
        (&ran, prepared.first(), copies.is_trial)
    {
        put_first_in_place(&means, view, view.changes()?.as_ref(), &directory)?;
    }
    let ran = ran?;
    if copies.is_trial && input.was_consumed() {
        let what = "the first run, which is a trial, read standard input, which cannot be read \
                    again; give it as a file";
        return Err(Error::Engine { engine: "local", what: what.to_owned() });
    }
    if let (Some(file), false) = (ran.first().and_then(|ran| ran.input.as_ref()), copies.is_trial) {
        input.advance(file);
    }
    // What the first copy prints is passed on, perhaps into its working directory.
    let passed_on = files_below(&directory);
    let mut endings = Vec::new();
    for (ran, (_, view, _)) in ran.into_iter().zip(&prepared) {
        let Ran { status, output, error, .. } = ran;
        let mut changes = view.changes()?;
        if let (Method::Copy, Some(changes)) = (means.method, &mut changes) {
            changes.changed.retain(|name, _| !passed_on.contains(name));
        }
        endings.push(Ending { status, output, error, changes });
    }
    let watched: Vec<&Watched> =
        prepared.iter().filter_map(|(spec, ..)| spec.watched.as_ref()).collect();
    let compared = if watched.is_empty() { None } else { Some(watched::compare(&watched)?) };
    // What came in is why they differ otherwise.
    let (unseen_inputs, difference) = match compared {
        Some(Err(difference)) => (None, Some(difference)),
        Some(Ok(unseen)) => (Some(unseen), first_difference(&endings)?),
        None => (None, first_difference(&endings)?),
    };
    // The others' are thrown away.
    if let (Some((_, view, _)), Some(first), false) =
        (prepared.first(), endings.first(), copies.is_trial)
    {
        put_first_in_place(&means, view, first.changes.as_ref(), &directory)?;
    }
    for variant in copies.variants {
        // Nothing was recorded, if it can be removed.
        let _ = fs::remove_dir(&variant.records);
    }
    let outcome = conclude(endings, difference, watch.received(), copies.variants.len())?;
    // What a trial got was meant for all that follows it.
    let interrupted = watch.heeded().filter(|_| copies.variants.len() > 1 || copies.is_trial);
    Ok(Outcome { interrupted, unseen_inputs, ..outcome })
}

/// Makes what the first copy changed the working directory's, if it is not.
fn put_first_in_place(
    means: &Means,
    view: &View,
    changes: Option<&Changes>,
    directory: &Path,
) -> Result<(), Error> {
    match (means.method, changes, view.apart()) {
        (Method::Overlay, Some(changes), Some(upper)) => put_in_place(changes, upper, directory),
        _ => Ok(()),
    }
}

/// The first difference between the first copy and the others, with the number
/// of the other one, counted from 1.
pub(super) fn first_difference(
    endings: &[Ending],
) -> Result<Option<(usize, super::Difference)>, Error> {
    let Some((first, others)) = endings.split_first() else { return Ok(None) };
    for (index, other) in others.iter().enumerate() {
        if let Some(difference) = compare(first, other)? {
            return Ok(Some((index + 2, difference)));
        }
    }
    Ok(None)
}

/// What becomes of it all.
pub(super) fn conclude(
    endings: Vec<Ending>,
    difference: Option<(usize, super::Difference)>,
    received: Option<i32>,
    of: usize,
) -> Result<Outcome, Error> {
    match (difference, received) {
        (Some(_), Some(signal)) => Err(Error::Interrupted { signal }),
        (Some((copy, difference)), None) => Err(Error::Diverged { copy, of, difference }),
        (None, _) => {
            let status = endings.first().map(|first| first.status).unwrap_or_default();
            Ok(Outcome { status, ..Outcome::default() })
        }
    }
}

/// Runs all that were prepared, so many at once.
fn run_all(
    copies: &Copies<'_>,
    prepared: &[(Spec, View, PathBuf)],
    at_once: usize,
    input: &Input,
    watch: &Watch,
) -> Result<Vec<Ran>, Error> {
    let of = prepared.len();
    let pending: Mutex<VecDeque<usize>> = Mutex::new((0..of).collect());
    let results: Mutex<Vec<Option<Ran>>> = Mutex::new((0..of).map(|_| None).collect());
    let failure: Mutex<Option<Error>> = Mutex::new(None);
    let lock = || failure.lock().unwrap_or_else(PoisonError::into_inner);
    let work = || {
        // Not in the condition, which would hold the lock through the loop.
        let next = || pending.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        while let Some(index) = next() {
            if watch.received().is_some() || lock().is_some() {
                return;
            }
            let (spec, _, folder) = &prepared[index];
            match run_copy(copies.entry, spec, folder, input, index == 0 && !copies.is_trial, watch)
            {
                Ok(ran) => {
                    let mut results = results.lock().unwrap_or_else(PoisonError::into_inner);
                    results[index] = Some(ran);
                    let done = results.iter().flatten().count();
                    drop(results);
                    let what = format!("{} running", at_once.min(of - done));
                    (copies.listener)(Event::Progress { done, of, what });
                }
                Err(error) => {
                    lock().get_or_insert(error);
                    watch.kill_all();
                    return;
                }
            }
        }
    };
    // Where there are no more threads, fewer run at once.
    thread::scope(|scope| {
        for _ in 1..at_once.min(of) {
            drop(thread::Builder::new().spawn_scoped(scope, work));
        }
        work();
    });
    if let Some(error) = failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
        return Err(error);
    }
    let results = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    let ran: Vec<Ran> = results.into_iter().flatten().collect();
    match watch.received() {
        Some(signal) if ran.len() < of => Err(Error::Interrupted { signal }),
        _ => Ok(ran),
    }
}

/// Which cores each copy has, and how many copies run at once.
struct Cores {
    pinned: Vec<Vec<usize>>,
    at_once: usize,
}

fn cores_of_copies(copies: usize) -> Cores {
    let allowed: Vec<usize> = match sched_getaffinity(Pid::this()) {
        Ok(set) => (0..CpuSet::count()).filter(|&core| set.is_set(core) == Ok(true)).collect(),
        Err(_) => Vec::new(),
    };
    if copies < 2 || allowed.len() < copies {
        return Cores { pinned: Vec::new(), at_once: allowed.len().max(1) };
    }
    let each = allowed.len() / copies;
    let pinned = allowed.chunks_exact(each).take(copies).map(<[usize]>::to_vec).collect();
    Cores { pinned, at_once: copies }
}

/// The folder for what is needed while copies run: one that is not below `directory`,
/// where a view would hide it.
fn scratch_outside(directory: &Path, isolation: Isolation) -> Result<Folder, Error> {
    let mut places = vec![std::env::temp_dir()];
    places.extend(std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from));
    places.extend(["/var/tmp", "/dev/shm"].map(PathBuf::from));
    places.extend(directory.parent().map(Path::to_owned));
    let resolved = places.iter().filter_map(|place| place.canonicalize().ok());
    for place in resolved {
        if isolation != Isolation::None && place.starts_with(directory) {
            continue;
        }
        if let Ok(folder) = Folder::within(&place, "copies") {
            return Ok(folder);
        }
    }
    let what = format!(
        "no folder for temporary files is outside of {}; set TMPDIR to one, start in another \
         folder, or use --isolate none",
        directory.display()
    );
    Err(Error::Engine { engine: "local", what })
}

/// Where copies find their executables and leave their records: the same paths
/// for all, if they can have mounts of their own.
pub(super) struct Places {
    shared: Option<(PathBuf, PathBuf)>,
}

impl Places {
    pub fn new(scratch: &Path, mounts: bool) -> Result<Self, Error> {
        let shared = (scratch.join("program"), scratch.join("records"));
        if mounts {
            make(&shared.0)?;
            make(&shared.1)?;
        }
        Ok(Self { shared: mounts.then_some(shared) })
    }

    pub fn mounts(&self, variant: &Variant) -> Result<Vec<Mount>, Error> {
        let Some((program, records)) = &self.shared else { return Ok(Vec::new()) };
        let executable = resolved(&variant.executable)?;
        let folder = executable.parent().unwrap_or(Path::new("/")).to_owned();
        Ok(vec![
            Mount::Bind { from: folder, to: program.clone() },
            Mount::Bind { from: resolved(&variant.records)?, to: records.clone() },
        ])
    }

    pub fn executable(&self, variant: &Variant) -> Result<PathBuf, Error> {
        let path = resolved(&variant.executable)?;
        Ok(match (&self.shared, path.file_name()) {
            (Some((program, _)), Some(name)) => program.join(name),
            _ => path,
        })
    }

    pub fn records(&self, variant: &Variant) -> Result<PathBuf, Error> {
        match &self.shared {
            Some((_, records)) => Ok(records.clone()),
            None => resolved(&variant.records),
        }
    }
}

/// The variables to set for a copy that records into a folder.
pub(super) fn variables(copies: &Copies<'_>, records: PathBuf) -> Vec<(OsString, OsString)> {
    let mut variables = copies.environment.to_vec();
    variables.push((DIR_VARIABLE.into(), records.into()));
    variables
}

/// What is ours and may be in the working directory.
pub(super) fn own_paths(variants: &[Variant], scratch: &Path) -> Vec<PathBuf> {
    let folder_of = |variant: &Variant| variant.executable.parent().map(Path::to_owned);
    let folders = variants.iter().filter_map(folder_of);
    let records = variants.iter().map(|variant| variant.records.clone());
    folders.chain(records).chain([scratch.to_owned()]).collect()
}

fn resolved(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|source| Error::Read { path: path.to_owned(), source })
}

pub(super) fn make(path: &Path) -> Result<(), Error> {
    fs::create_dir_all(path).map_err(|source| Error::Write { path: path.to_owned(), source })
}
