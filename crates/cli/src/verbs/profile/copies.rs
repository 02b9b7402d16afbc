//! One profile from copies of a program, each of which counts a part.

use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::trust::Trust;
use backtrail_build::variant::{self, Destination, Scheme, modules_to_plan};
use backtrail_collect::copies::{self, Copies, Engine, Event, Isolation, SlurmOptions, Variant};
use backtrail_profile::model::Profile;
use backtrail_profile::partition::{Partition, Strategy};
use rayon::prelude::*;

use super::recorded_nothing;
use crate::alike;
use crate::args::{self, copies::Isolate};
use crate::path_counting::{CopyCounting, PathCounting};
use crate::progress::Phase;
use crate::recorded;

/// Derives a variant for each copy, runs them all and puts their counts together.
pub fn collect(
    args: &args::Profile,
    carried: &Carried,
    counting: &PathCounting,
    inputs: bool,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<(ExitStatus, Profile)> {
    let modules = modules_to_plan(carried)?;
    let program = counting.program(&modules);
    let count = usize::from(args.copies.copies);
    let planning = Phase::begin("planning", quiet);
    let partition = Partition::new(&program, strategy(args.copies.strategy), count);
    drop(planning);
    let name = args.program.file_name().unwrap_or_default();
    let variants: Vec<Variant> = (1..=count)
        .map(|copy| {
            let folder = format!("copy-{copy}");
            let place = args.copies.keep.as_deref().unwrap_or(scratch);
            Variant {
                executable: place.join(&folder).join(name),
                records: scratch.join(folder).join("records"),
            }
        })
        .collect();
    derive_all(args, carried, counting, &partition, &variants, quiet)?;

    let phase = Phase::counted("running", count, "copies", quiet);
    let listener = |event: Event| phase.hear(event);
    let entry = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &[],
        isolation: isolation(args.copies.running.isolate),
        engine: engine(&args.copies.running),
        is_trial: false,
        inputs,
        entry: &entry,
        listener: &listener,
    });
    drop(phase);
    let outcome = outcome?.uninterrupted()?;
    if variants.iter().all(|variant| !variant.records.is_dir()) {
        return Err(recorded_nothing(&args.program, scratch, outcome.status));
    }
    let _reading = Phase::begin("reading what was counted", quiet);
    let shared = alike::shared(args.copies.running.isolate);
    let mut profile =
        recorded::load_copies(carried, &modules, counting, &variants, outcome.status, shared)?;
    if let Some(unseen) = &outcome.unseen_inputs {
        profile.merged.iter_mut().for_each(|merged| alike::add_inputs(merged, unseen));
    }
    profile.merged.iter().for_each(alike::tell);
    Ok((outcome.status, profile))
}

/// Derives the variants of all copies.
fn derive_all(
    args: &args::Profile,
    carried: &Carried,
    counting: &PathCounting,
    partition: &Partition,
    variants: &[Variant],
    quiet: bool,
) -> Result<(), Error> {
    let total = carried.units.len() * variants.len();
    let phase = Phase::counted("deriving", total, "units", quiet);
    let done = AtomicUsize::new(0);
    variants.par_iter().enumerate().try_for_each(|(copy, variant)| {
        let folder = variant.executable.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let scheme = CopyCounting { counting, partition, copy };
        let progress = |_, total: usize| {
            phase.at(done.fetch_add(1, Ordering::Relaxed) + 1, total * variants.len());
        };
        let (scheme, trust) = (Scheme::Counting(&scheme), Trust::given(args.trust));
        let destination = Destination::in_place(&variant.executable);
        variant::derive(carried, scheme, trust, destination, &progress).map(drop)
    })
}

/// The strategy of this name.
pub fn strategy(name: args::copies::Strategy) -> Strategy {
    match name {
        args::copies::Strategy::Sbl => Strategy::Sbl,
        args::copies::Strategy::Pbl => Strategy::Pbl,
        args::copies::Strategy::P3 => Strategy::P3,
        args::copies::Strategy::Adaptive => Strategy::Adaptive,
    }
}

/// The isolation of this name.
pub fn isolation(name: Isolate) -> Isolation {
    match name {
        Isolate::Auto => Isolation::Auto,
        Isolate::Copy => Isolation::Copy,
        Isolate::Overlay => Isolation::Overlay,
        Isolate::None => Isolation::None,
    }
}

/// The engine that is asked for.
pub fn engine(args: &args::copies::Running) -> Engine {
    match args.engine {
        args::copies::Engine::Local => Engine::Local,
        args::copies::Engine::Slurm => Engine::Slurm(SlurmOptions {
            arguments: args.slurm_arg.clone(),
            folder: args.slurm_dir.clone(),
            ..SlurmOptions::default()
        }),
    }
}
