//! A trace from a log of every block.

use std::path::Path;
use std::process::ExitStatus;

use backtrail_build::Error;
use backtrail_build::variant::Scheme;
use backtrail_collect::local::{self, Run};
use backtrail_collect::packing::Packer;
use backtrail_collect::records::{Descendant, ProcessRecord, in_order_of_forks};
use backtrail_trace::block_log::{Events, LogFrames, Process, ProgramMap, ThreadLog};
use backtrail_trace::file::Ending;
use backtrail_trace::places::ProgramPlaces;

use super::{TracedProgram, begin_file, disk_bound, finish_file};
use crate::args::trace::Trace;
use crate::exit::Unreadable;
use crate::recorded::read_processes;
use crate::verbs::instrument::derive;
use crate::verbs::profile::recorded_nothing;

/// Runs a variant that logs every block, and writes the trace.
pub fn collect(
    args: &Trace,
    program: &TracedProgram,
    scratch: &Path,
    output: &Path,
    quiet: bool,
) -> anyhow::Result<ExitStatus> {
    let variant = scratch.join(args.program.file_name().unwrap_or_default());
    derive(&program.carried, Scheme::Log, &variant, quiet)?;
    let records = scratch.join("records");
    let bound = disk_bound(args);
    let mut environment = bound.environment();
    environment.push((backtrail_abi::log::DIR_VARIABLE, records.as_os_str()));
    let packer = Packer::start([records.clone()]);
    let status = local::run(&Run {
        executable: &variant,
        name: args.program.name(),
        arguments: &args.arguments,
        environment: &environment,
    })?;
    drop(packer);
    if !records.is_dir() {
        anyhow::bail!(recorded_nothing(&args.program, scratch));
    }
    let (processes, missing) = read_processes(&records)?;
    let places = ProgramPlaces::new(program.models());
    let mut legend = program.legend(&places);
    legend.incomplete = missing;
    let map = ProgramMap::new(program.models());
    let mut frames = LogFrames::new(program.models());
    let mut writer = begin_file(output)?;
    for Descendant { record, .. } in &in_order_of_forks(processes) {
        let process = read_process(record)?;
        if let Some(gap) = process.incomplete {
            legend.incomplete.push(format!("process {}: {gap}", record.pid));
        }
        for (number, file) in record.threads.iter().enumerate() {
            let unreadable = |error: backtrail_trace::Error| {
                Unreadable(format!("{}: {error}", file.path.display()))
            };
            let input = ThreadLog::open(&file.path).map_err(Error::read(&file.path))?;
            let mut events = Events::new(&process, input).map_err(unreadable)?;
            frames.clear();
            writer.begin_thread(record.pid, number as u32 + 1)?;
            for event in &mut events {
                let step = map.step(&event.map_err(unreadable)?).map_err(unreadable)?;
                let place = places.place_of(&step).expect("the map has the same units");
                writer.push(frames.go(step, place))?;
            }
            let summary = events.summary();
            let ending = match (summary.lost, summary.truncated) {
                (0, false) => Ending::Whole,
                (lost, _) => Ending::Unknown(format!("{lost} blocks were lost")),
            };
            writer.end_thread(ending)?;
        }
    }
    finish_file(writer, legend)?;
    Ok(status)
}

/// What a process file says.
pub fn read_process(record: &ProcessRecord) -> anyhow::Result<Process> {
    let path = record.process_file();
    let bytes = std::fs::read(&path).map_err(Error::read(&path))?;
    Process::read(&bytes).map_err(|error| Unreadable(format!("{}: {error}", path.display())).into())
}
