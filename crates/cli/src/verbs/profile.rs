//! `backtrail profile`: runs a program and writes its path profile.

pub mod copies;

use std::collections::BTreeMap;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::output::{Mode, check_writable, write_whole};
use backtrail_build::trust::Trust;
use backtrail_build::variant::{Destination, Scheme, modules_to_plan};
use backtrail_collect::local::{self, Run};
use backtrail_collect::packing::Packer;
use backtrail_foreign::say;
use backtrail_graph::Index as _;
use backtrail_interruption::Folder;
use backtrail_ir::program::Program;
use backtrail_profile::derived::counted_blocks;
use backtrail_profile::file::{EXTENSION, write_profile};
use backtrail_profile::model::Profile;

use crate::args::files::check_output_of;
use crate::args::{self, copies::Engine};
use crate::exit::{EndedEarly, Unreadable, check_units};
use crate::path_counting::PathCounting;
use crate::progress::{self, Phase};
use crate::recorded;
use crate::script::{Wanted, check_no_script};
use crate::untraced::{self, Came};
use crate::verbs::instrument::derive;

/// Runs the verb. Leaves as the program did, if everything else went well.
pub fn run(args: &args::Profile, quiet: bool) -> anyhow::Result<u8> {
    leave(collect(args, quiet), args.status.as_deref())
}

/// Leaves as the program did, if everything else went well; `path` is told how
/// it went.
pub fn leave(result: anyhow::Result<ExitStatus>, path: Option<&Path>) -> anyhow::Result<u8> {
    if let Some(path) = path {
        let by_signal = |signal| format!("program signal {signal}\n");
        let (ours, program) = match &result {
            Ok(status) => match status.signal() {
                Some(signal) => (0, by_signal(signal)),
                None => (0, format!("program {}\n", status.code().unwrap_or(0))),
            },
            Err(error) => match crate::exit::ended_early(error) {
                Some(signal) => (crate::exit::INPUT, by_signal(signal)),
                None => (crate::exit::code_of(error), String::new()),
            },
        };
        let text = format!("backtrail {ours}\n{program}");
        write_whole(path, text.as_bytes(), Mode::Data)?;
    }
    let status = result?;
    if let Some(signal) = status.signal() {
        // Does not come back, unless the signal is one that is ignored.
        local::end_by(signal);
        return Ok(128u8.wrapping_add(signal as u8));
    }
    Ok(status.code().unwrap_or(0) as u8)
}

/// Where the profile goes.
pub fn output(args: &args::Profile) -> PathBuf {
    args.output.clone().unwrap_or_else(|| default_output(&args.program, EXTENSION))
}

fn collect(args: &args::Profile, quiet: bool) -> anyhow::Result<ExitStatus> {
    check_no_script(&args.program, Wanted::ToRun("profile"))?;
    let carried = Carried::read(&args.program)?;
    if carried.recipe.as_ref().is_some_and(|recipe| recipe.variant.is_some()) {
        let path = args.program.display();
        anyhow::bail!(Unreadable(format!(
            "{path} is a variant; give the program it was made from"
        )));
    }
    check_units(&carried)?;
    let output = output(args);
    check_output_of(&output, &carried)?;
    // Found out before the program runs.
    local::check_replaceable(&args.program)?;
    check_writable(&output)?;
    let inputs = args.copies.running.check_inputs(args.copies.copies, "--copies")?;
    let counting = PathCounting::new(&args.counting, &carried)?;
    let scratch = Folder::new("profile");
    let scratch = scratch.map_err(Error::write(&std::env::temp_dir()))?;
    let several = args.copies.copies > 1 || args.copies.running.engine != Engine::Local;
    let (status, mut profile) = match several {
        true => copies::collect(args, &carried, &counting, inputs, scratch.path(), quiet)?,
        false => collect_one(args, &carried, &counting, scratch.path(), quiet)?,
    };
    for why in &profile.incomplete {
        say!("backtrail: incomplete: {why}");
    }
    if !quiet {
        tell_untraced(&carried, &profile)?;
    }
    profile.ended_by.extend(status.signal().map(|signal| (signal, 1)));
    let bytes = write_profile(&profile).map_err(|error| Unreadable(error.to_string()))?;
    write_whole(&output, &bytes, Mode::Data)?;
    Ok(status)
}

/// Tells what the run did that is not counted.
fn tell_untraced(carried: &Carried, profile: &Profile) -> anyhow::Result<()> {
    let modules = modules_to_plan(carried)?;
    let joined = modules.iter().map(|module| {
        let units = module.units.iter().map(|(_, unit)| unit).collect();
        (units, &module.surroundings)
    });
    let program = Program::linked(joined);
    let mut functions: BTreeMap<(&str, &str), Vec<usize>> = BTreeMap::new();
    for (place, function) in profile.functions.iter().enumerate() {
        functions.entry((&function.unit, &function.name)).or_default().push(place);
    }
    untraced::tell(carried, &program, |object, func, block| {
        let Some(unit) = program.unit(object) else { return Came::No };
        let name = &unit.symbols[unit.functions[func].symbol].name;
        let found = || functions.get(&(&*unit.name, &**name)).into_iter().flatten().copied();
        let block = block.position() as u32;
        let counted = |place: usize| {
            profile.functions[place].paths.iter().any(|it| counted_blocks(it).contains(&block))
        };
        let known = || found().filter_map(|place| profile.inexact(place));
        if found().any(counted) || known().any(|it| it.ran.iter().any(|it| it.block == block)) {
            return Came::Yes;
        }
        // Of an inexact one of which nothing is said, nothing is known.
        let untold = |place: usize| {
            !profile.functions[place].edges_exact && profile.inexact(place).is_none()
        };
        match found().any(untold) || known().any(|it| it.unknown.contains(&block)) {
            true => Came::Maybe,
            false => Came::No,
        }
    })
}

/// Runs the program once, counting everything.
fn collect_one(
    args: &args::Profile,
    carried: &Carried,
    counting: &PathCounting,
    scratch: &Path,
    quiet: bool,
) -> anyhow::Result<(ExitStatus, Profile)> {
    let name = args.program.file_name().unwrap_or_default();
    let variant = scratch.join(name);
    let destination = Destination::in_place(&variant);
    derive(carried, Scheme::Counting(counting), Trust::given(args.trust), destination, quiet)?;
    let records = scratch.join("records");
    let run = Run {
        executable: &variant,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &[(backtrail_abi::log::DIR_VARIABLE, records.as_os_str())],
    };
    let packer = Packer::start([records.clone()]);
    progress::running(&args.program, quiet);
    let status = local::run(&run)?;
    drop(packer);
    if !records.is_dir() {
        return Err(recorded_nothing(&args.program, scratch, status));
    }
    let _reading = Phase::begin("reading what was counted", quiet);
    Ok((status, recorded::load(&records, std::slice::from_ref(&variant))?))
}

/// A program that ran, ended so and left no record.
pub fn recorded_nothing(program: &Path, scratch: &Path, status: ExitStatus) -> anyhow::Error {
    if let Some(signal) = status.signal() {
        return EndedEarly { path: program.to_owned(), signal }.into();
    }
    let what = format!(
        "{} ran and recorded nothing: no function that counts was entered, or the disk under {} \
         is full or read-only",
        program.display(),
        scratch.display()
    );
    Unreadable(what).into()
}

/// `PROG.EXTENSION` in the working directory.
pub fn default_output(program: &Path, extension: &str) -> PathBuf {
    let mut name = program.file_name().unwrap_or_default().to_owned();
    name.push(format!(".{extension}"));
    PathBuf::from(name)
}
