//! A trace from a log of every block.
//!
//! What a fork's child did goes on in the frames of its parent: so the parent's log is
//! walked up to there, for its frames alone.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::ExitStatus;
use std::rc::Rc;

use backtrail_abi::UnitId;
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::trust::Trust;
use backtrail_build::variant::{Destination, Scheme};
use backtrail_collect::local::{self, Run};
use backtrail_collect::packing::Packer;
use backtrail_collect::records::{Descendant, ProcessRecord, in_order_of_forks};
use backtrail_ir::Unit;
use backtrail_trace::block_log::{
    Events, InheritedLog, LogFrames, Moment, Moments, ProgramMap, ThreadLog,
};
use backtrail_trace::file::{Ending, Step};
use backtrail_trace::places::ProgramPlaces;

use super::{TracedProgram, begin_file, disk_bound, finish_file};
use crate::args::trace::Trace;
use crate::exit::Unreadable;
use crate::forked_logs::inherited;
use crate::progress::{self, Phase};
use crate::recorded::{read_process, read_processes};
use crate::style::{counted, lost_blocks};
use crate::variants::Variants;
use crate::verbs::instrument::derive;
use crate::verbs::profile::recorded_nothing;
use crate::verbs::show::read_models;

/// Runs a variant that logs every block, and writes the trace.
pub fn collect(
    args: &Trace,
    program: &TracedProgram,
    scratch: &Path,
    output: &Path,
    quiet: bool,
) -> anyhow::Result<ExitStatus> {
    let variant = scratch.join(args.program.file_name().unwrap_or_default());
    derive(
        &program.carried,
        Scheme::Log,
        Trust::given(args.trust),
        Destination::in_place(&variant),
        quiet,
    )?;
    let records = scratch.join("records");
    let bound = disk_bound(args);
    let mut environment = bound.environment();
    environment.push((backtrail_abi::log::DIR_VARIABLE, records.as_os_str()));
    let packer = Packer::start([records.clone()]);
    progress::running(&args.program, quiet);
    let status = local::run(&Run {
        executable: &variant,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &environment,
    })?;
    drop(packer);
    if !records.is_dir() {
        return Err(recorded_nothing(&args.program, scratch, status));
    }
    let _writing = Phase::begin("writing the trace", quiet);
    let (processes, missing) = read_processes(&records)?;
    let (opened, missing) = opened(&processes, &variant, program, missing)?;
    let units = || {
        let opened = opened.iter().map(|(id, unit)| (*id, unit));
        program.models().chain(opened)
    };
    let places = ProgramPlaces::new(units());
    let mut legend = program.legend(&places);
    legend.incomplete = missing;
    let map = ProgramMap::new(units());
    let mut writer = begin_file(output)?;
    let processes = in_order_of_forks(processes);
    for (place, Descendant { record, parent }) in processes.iter().enumerate() {
        let unreadable = |error: backtrail_trace::Error| {
            Unreadable(format!("{}: {error}", record.process_file().display()))
        };
        let process = read_process(record)?.of_blocks().map_err(unreadable)?;
        if let Some(gap) = process.incomplete {
            legend.incomplete.push(format!("process {}: {gap}", record.pid));
        }
        for (number, file) in record.threads.iter().enumerate() {
            let unreadable = |error: backtrail_trace::Error| {
                Unreadable(format!("{}: {error}", file.path.display()))
            };
            let mut frames = LogFrames::default();
            let inherited = if number == 0 { inherited(&processes, place) } else { Vec::new() };
            if !inherited.is_empty() {
                let input = InheritedLog::open(inherited).map_err(Error::read(&file.path))?;
                let events = Events::new(&process, input).map_err(unreadable)?;
                for moment in Moments::new(&map, events, &mut frames) {
                    moment.map_err(unreadable)?;
                }
            }
            let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
            let events = Events::new(&process, input).map_err(unreadable)?;
            let mut moments = Moments::new(&map, events, &mut frames);
            writer.begin_thread(record.pid, number as u32 + 1)?;
            // Frames are counted from the lowest that a fork came back to.
            let mut bottom = if number == 0 && parent.is_some() { u32::MAX } else { 1 };
            let mut unseen = 0u64;
            for moment in &mut moments {
                match moment.map_err(unreadable)? {
                    Moment::Block { step, of, .. } => {
                        let place = places.place_of(&step).expect("the map has the same units");
                        bottom = bottom.min(of.depth);
                        let depth = of.depth - bottom + 1;
                        writer.push(Step { place, depth, enters: of.enters })?;
                    }
                    Moment::Unseen { .. } => unseen += 1,
                    _ => {}
                }
            }
            if unseen > 0 {
                let (pid, unseen) = (record.pid, counted(unseen, "block"));
                let why = format!("process {pid}: {unseen} of a library that is not found");
                legend.incomplete.push(why);
            }
            let summary = moments.summary();
            let ending = match (summary.lost, summary.truncated) {
                (0, false) => Ending::Whole,
                (lost, _) => Ending::Unknown(format!("{} lost", lost_blocks(lost, "block"))),
            };
            writer.end_thread(ending)?;
        }
    }
    if !quiet {
        program.tell_untraced(&places, &writer)?;
    }
    finish_file(writer, legend, status)?;
    Ok(status)
}

/// Units of what a program opened, and what is missing of all that ran.
type Opened = (Vec<(UnitId, Unit)>, Vec<String>);

/// The units of what the program opened by itself and that logs, too; and what is missing
/// of all that ran.
fn opened(
    processes: &[ProcessRecord],
    variant: &Path,
    program: &TracedProgram,
    mut missing: Vec<String>,
) -> anyhow::Result<Opened> {
    let mut variants = Variants::new(&[variant.to_owned()])?;
    let mut units: Vec<(UnitId, Unit)> = Vec::new();
    let mut seen = BTreeSet::new();
    for record in processes {
        let made = variants.made_of(record, &read_process(record)?)?;
        missing.extend(made.missing);
        let mut is_new =
            |module: &&Rc<Carried>| seen.insert(module.variant.as_ref().map(|mark| mark.id));
        for module in made.modules.iter().filter(&mut is_new) {
            for (id, unit) in read_models(module)? {
                let known = program.models().map(|(id, _)| id);
                let mut known = known.chain(units.iter().map(|(id, _)| *id));
                if known.all(|it| it != id) {
                    units.push((id, unit));
                }
            }
        }
    }
    missing.sort();
    missing.dedup();
    Ok((units, missing))
}
