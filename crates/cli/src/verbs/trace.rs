//! `backtrail trace`: runs a program and writes which blocks it executed.
//!
//! What a run records is decided by `--strategy` and `--witness`; whatever it is,
//! a trace file comes out ([`backtrail_trace::file`](mod@backtrail_trace::file)).

pub mod breakpoint;
mod causes;
mod costs;
mod first_run;
mod log;
mod merge;
mod order;
mod weights;
mod witnesses;

use std::ffi::{OsStr, OsString};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::libraries::own_libraries;
use backtrail_build::output::{Mode, WholeFile, check_writable};
use backtrail_build::surroundings;
use backtrail_build::variant::build_id_text;
use backtrail_collect::local;
use backtrail_foreign::say;
use backtrail_interruption::Folder;
use backtrail_ir::Unit;
use backtrail_ir::program::{Object, Program, Surroundings};
use backtrail_trace::file::{EXTENSION, Legend, Writer};
use backtrail_trace::places::ProgramPlaces;
use backtrail_trace::planning;

use crate::args::files::check_output_of;
use crate::args::trace::{Strategy, Trace, Witness};
use crate::exit::check_units;
use crate::exit::{Unreadable, Usage};
use crate::progress::Phase;
use crate::script::{Wanted, check_no_script};
use crate::untraced::{self, Came};
use crate::verbs::profile::{default_output, leave};

/// Runs the verb. Leaves as the program did, if everything else went well.
pub fn run(args: &Trace, quiet: bool) -> anyhow::Result<u8> {
    leave(collect(args, quiet), args.status.as_deref())
}

/// Where the trace goes.
pub fn output(args: &Trace) -> PathBuf {
    args.output.clone().unwrap_or_else(|| default_output(&args.program, EXTENSION))
}

fn collect(args: &Trace, quiet: bool) -> anyhow::Result<ExitStatus> {
    let output = output(args);
    // Found out before the program runs.
    local::check_replaceable(&args.program)?;
    let verb = match args.witness {
        Witness::Breakpoint => "trace --witness breakpoint",
        Witness::Edge | Witness::Node => "trace",
    };
    check_no_script(&args.program, Wanted::ToRun(verb))?;
    check_writable(&output)?;
    check_inputs(args)?;
    if args.witness == Witness::Breakpoint {
        return breakpoint::collect(&breakpoints(args, quiet)?, &output);
    }
    if args.in_process {
        anyhow::bail!(Usage("--in-process is for --witness breakpoint".to_owned()));
    }
    if !args.library.is_empty() {
        anyhow::bail!(Usage("--library is for --witness breakpoint".to_owned()));
    }
    if args.fallback && args.costs {
        anyhow::bail!(Usage(
            "--costs runs nothing, so there is nothing to fall back from".to_owned()
        ));
    }
    let reading = Phase::begin("reading the program", quiet);
    let program = TracedProgram::read(&args.program)?;
    drop(reading);
    check_output_of(&output, &program.carried)?;
    let scratch = Folder::new("trace");
    let scratch = scratch.map_err(Error::write(&std::env::temp_dir()))?;
    let with_log = || log::collect(args, &program, scratch.path(), &output, quiet);
    if args.strategy == Some(Strategy::Log) {
        return with_log();
    }
    if args.fallback
        && let Some(why) = causes::foreseen(&program.join())
    {
        say!("backtrail: {why}: every block is logged, in one run");
        return with_log();
    }
    witnesses::collect(args, &program, scratch.path(), &output, quiet)
}

/// Refuses to compare the inputs of runs where that cannot be.
fn check_inputs(args: &Trace) -> Result<(), Usage> {
    if !args.running.check_inputs(args.runs, "--runs")? {
        return Ok(());
    }
    let wrong = |what: &str| Err(Usage(format!("--check inputs {what}")));
    match (args.witness, args.strategy, args.weights.as_deref()) {
        (Witness::Breakpoint, ..) => {
            wrong("is for probes: breakpoints trace the program themselves, and only one can")
        }
        (_, Some(Strategy::Single | Strategy::Log), _) => wrong("is for several runs"),
        (.., Some(weights)) if weights == Path::new(first_run::FIRST) => {
            wrong("is for runs that are alike from the first: leave out --weights first")
        }
        _ => Ok(()),
    }
}

/// What is asked for, where breakpoints are.
fn breakpoints(args: &Trace, quiet: bool) -> anyhow::Result<breakpoint::Request<'_>> {
    if args.fallback {
        anyhow::bail!(Usage(format!(
            "--fallback logs every block, which takes probes, not breakpoints: {}",
            breakpoint::without(&args.program)
        )));
    }
    if args.costs {
        anyhow::bail!(Usage(
            "--costs is for probes; --explain tells what breakpoints cost".to_owned()
        ));
    }
    // Unless there is a file of that name.
    let first = Path::new(first_run::FIRST);
    if args.weights.as_deref() == Some(first) && !first.exists() {
        let what = "--weights first is for probes; breakpoints take an earlier trace";
        anyhow::bail!(Usage(what.to_owned()));
    }
    if args.in_process && !args.library.is_empty() {
        anyhow::bail!(Usage(
            "--in-process is for the executable alone: leave out one of it and --library"
                .to_owned()
        ));
    }
    let single = args.strategy == Some(Strategy::Single);
    let strategy = match args.strategy {
        None | Some(Strategy::Single) => None,
        Some(Strategy::Fine) => Some(planning::Strategy::Fine),
        Some(Strategy::Function) => Some(planning::Strategy::Function),
        Some(Strategy::Grouped) => Some(planning::Strategy::Grouped),
        Some(Strategy::Log) => {
            anyhow::bail!(Usage("a log of every block takes probes, not breakpoints".to_owned()))
        }
    };
    Ok(breakpoint::Request {
        program: &args.program,
        arguments: &args.arguments,
        runs: if single { 1 } else { usize::from(args.runs) },
        strategy,
        limit: args.limit,
        weights: args.weights.as_deref(),
        libraries: &args.library,
        in_process: args.in_process,
        running: &args.running,
        explain: args.explain,
        quiet,
    })
}

/// Tells where fewer runs do than were asked for.
fn explain_fewer(asked: usize, planned: usize) {
    if planned < asked {
        let runs = if planned == 1 { "run" } else { "runs" };
        say!("backtrail: {planned} {runs} instead of {asked}: no cheaper plan of more was found");
    }
}

/// How much disk space logs may take.
pub struct DiskBound(Option<OsString>);

/// What is asked for.
pub fn disk_bound(args: &Trace) -> DiskBound {
    DiskBound(args.disk.map(|bytes| bytes.to_string().into()))
}

impl DiskBound {
    /// What a run is told of it.
    pub fn environment(&self) -> Vec<(&'static str, &OsStr)> {
        let told = |bytes| (backtrail_abi::log::DISK_VARIABLE, bytes);
        self.0.as_deref().map(told).into_iter().collect()
    }
}

/// Begins a trace file.
pub fn begin_file(output: &Path) -> anyhow::Result<Writer<WholeFile>> {
    Ok(Writer::new(WholeFile::create(output, Mode::Data)?)?)
}

/// Ends the trace file of a program that ended so, and tells what is missing in it.
pub fn finish_file(
    mut writer: Writer<WholeFile>,
    legend: Legend,
    status: ExitStatus,
) -> anyhow::Result<()> {
    if let Some(signal) = status.signal() {
        writer.ended_by(signal);
    }
    for why in &legend.incomplete {
        say!("backtrail: incomplete: {why}");
    }
    Ok(writer.finish(legend)?.finish()?)
}

/// A program built by Backtrail, and the models of its units and of those of its
/// own libraries.
pub struct TracedProgram {
    /// What it carries.
    pub carried: Carried,
    /// The models, the program's first.
    pub units: Vec<(UnitId, Unit)>,
    /// How many of them each module has, and what else was linked into it.
    modules: Vec<(usize, Surroundings)>,
    /// Whether it has no libraries of its own.
    pub is_one_module: bool,
}

impl TracedProgram {
    fn read(path: &Path) -> anyhow::Result<Self> {
        let carried = match Carried::read(path) {
            Err(error @ Error::NotCarried { .. }) => anyhow::bail!(Unreadable(format!(
                "{error}; or trace it as it is, with --witness breakpoint"
            ))),
            read => read?,
        };
        if carried.recipe.as_ref().is_some_and(|recipe| recipe.variant.is_some()) {
            let path = path.display();
            anyhow::bail!(Unreadable(format!(
                "{path} is a variant; give the program it was made from"
            )));
        }
        check_units(&carried)?;
        let libraries = own_libraries(&carried)?;
        let mut units: Vec<(UnitId, Unit)> = Vec::new();
        let mut modules = Vec::new();
        for file in [&carried].into_iter().chain(libraries.values()) {
            for unit in &file.units {
                let model = unit.model().map_err(|damaged| Error::Damaged {
                    path: file.path.clone(),
                    what: format!("{}: {}", unit.meta.name, damaged.0),
                })?;
                let is_new = units.iter().all(|(id, _)| *id != unit.id());
                units.extend(model.filter(|_| is_new).map(|model| (unit.id(), model)));
            }
            let before: usize = modules.iter().map(|(units, _)| units).sum();
            let (surroundings, changes) = surroundings::of_run(file);
            for change in changes {
                say!("backtrail: {}: {change}", file.path.display());
            }
            modules.push((units.len() - before, surroundings));
        }
        Ok(Self { is_one_module: libraries.is_empty(), carried, units, modules })
    }

    /// Its units, joined.
    pub fn join(&self) -> Program<'_> {
        let mut units = self.units.iter().map(|(_, unit)| unit);
        Program::linked(
            self.modules
                .iter()
                .map(|(count, surroundings)| (units.by_ref().take(*count).collect(), surroundings)),
        )
    }

    /// Tells what the run did elsewhere that is traced so far.
    fn tell_untraced(
        &self,
        places: &ProgramPlaces<'_>,
        writer: &Writer<WholeFile>,
    ) -> anyhow::Result<()> {
        let program = self.join();
        // Inputs that are no units have numbers, too.
        let units: Vec<Object> = program.units().map(|(object, _)| object).collect();
        untraced::tell(&self.carried, &program, |object, func, block| {
            let unit = units.iter().position(|it| *it == object);
            match unit.is_some_and(|unit| writer.has(places.place(unit, func, block))) {
                true => Came::Yes,
                false => Came::No,
            }
        })
    }

    /// Its units, with their ids.
    pub fn models(&self) -> impl Iterator<Item = (UnitId, &Unit)> {
        self.units.iter().map(|(id, unit)| (*id, unit))
    }

    /// What the places of its traces are called.
    pub fn legend(&self, places: &ProgramPlaces<'_>) -> Legend {
        let build_id = match &self.carried.build_id[..] {
            [] => String::new(),
            bytes => build_id_text(bytes),
        };
        let name = self.carried.path.file_name().unwrap_or_default().to_string_lossy();
        places.legend(&name, &build_id)
    }
}
