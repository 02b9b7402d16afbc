//! One profile from copies of a program, each of which counts a part.

use std::io::IsTerminal as _;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::atomic::{AtomicUsize, Ordering};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::variant::{self, Scheme, modules_to_plan};
use backtrail_collect::copies::{self, Copies, Engine, Event, Isolation, SlurmOptions, Variant};
use backtrail_profile::model::Profile;
use backtrail_profile::partition::{Partition, Strategy};
use indicatif::{ProgressBar, ProgressStyle};
use rayon::prelude::*;

use super::recorded_nothing;
use crate::args::{self, copies::Isolate};
use crate::path_counting::{CopyCounting, PathCounting};
use crate::recorded;

/// Derives a variant for each copy, runs them all and puts their counts together.
pub fn collect(
    args: &args::Profile,
    carried: &Carried,
    counting: &PathCounting,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<(ExitStatus, Profile)> {
    let modules = modules_to_plan(carried)?;
    let program = counting.program(&modules);
    let count = usize::from(args.copies.copies);
    let partition = Partition::new(&program, strategy(args.copies.strategy), count);
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
    derive_all(carried, counting, &partition, &variants, quiet)?;

    let bar = bar("running {bar:30} {pos}/{len} copies, {msg}", count, quiet);
    let listener = |event: Event| match event {
        Event::Notice(text) => bar.suspend(|| eprintln!("backtrail: {text}")),
        Event::Progress { done, what, .. } => {
            bar.set_position(done as u64);
            bar.set_message(what);
        }
    };
    let entry = std::env::current_exe().map_err(Error::read(Path::new("/proc/self/exe")))?;
    let outcome = copies::run_copies(&Copies {
        variants: &variants,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &[],
        isolation: isolation(args.copies.running.isolate),
        engine: engine(&args.copies.running),
        is_trial: false,
        entry: &entry,
        listener: &listener,
    });
    bar.finish_and_clear();
    let outcome = outcome?;
    if variants.iter().all(|variant| !variant.records.is_dir()) {
        anyhow::bail!(recorded_nothing(&args.program, scratch));
    }
    let profile = recorded::load_copies(carried, &modules, counting, &variants, outcome.status)?;
    Ok((outcome.status, profile))
}

/// Derives the variants of all copies.
fn derive_all(
    carried: &Carried,
    counting: &PathCounting,
    partition: &Partition,
    variants: &[Variant],
    quiet: bool,
) -> Result<(), Error> {
    let bar = bar("deriving {bar:30} {pos}/{len} units", carried.units.len(), quiet);
    let done = AtomicUsize::new(0);
    let derived = variants.par_iter().enumerate().try_for_each(|(copy, variant)| {
        let folder = variant.executable.parent().unwrap_or(Path::new("."));
        std::fs::create_dir_all(folder).map_err(Error::write(folder))?;
        let scheme = CopyCounting { counting, partition, copy };
        let progress = |_, total: usize| {
            bar.set_length((total * variants.len()) as u64);
            bar.set_position(done.fetch_add(1, Ordering::Relaxed) as u64 + 1);
        };
        variant::derive(carried, Scheme::Counting(&scheme), &variant.executable, &progress)
            .map(drop)
    });
    bar.finish_and_clear();
    derived
}

/// A bar on a terminal.
pub fn bar(template: &str, length: usize, quiet: bool) -> ProgressBar {
    if quiet || !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template(template).expect("the template is a constant");
    ProgressBar::new(length as u64).with_style(style)
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
