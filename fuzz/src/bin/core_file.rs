//! Core dumps: every thread's stack is walked. What is told of the same bytes is the
//! same, and frames that rest on one that is not exact say so.

#![no_main]

use std::path::PathBuf;

use backtrail_fuzz::fixtures;
use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_machine::unwind::FoundBy;
use libfuzzer_sys::fuzz_target;

/// As many threads as are walked.
const MOST_THREADS: usize = 4;

/// The longest first input, as much as libFuzzer takes: the notes and what of the
/// memory follows.
const LONGEST: usize = 1 << 16;

fuzz_target!(init: fixtures::write_if_asked(first_inputs), |data: &[u8]| {
    let path = scratch();
    std::fs::write(&path, data).expect("a file can be written");
    let Some(told) = tell(&path) else { return };
    assert_eq!(tell(&path), Some(told), "the same core tells something else");
});

/// A file of this process.
fn scratch() -> PathBuf {
    std::env::temp_dir().join(format!("backtrail-fuzz-core-{}", std::process::id()))
}

/// The frames of the threads, as text.
fn tell(path: &PathBuf) -> Option<String> {
    let process = Process::of_core(path, &Options::default()).ok()?;
    let _ = (process.signal(), process.signal_info(), process.crashed().map(|it| it.id));
    let mut told = String::new();
    for thread in process.notes.threads.iter().take(MOST_THREADS) {
        let backtrace = Backtrace::compute(&process, &thread.registers);
        let mut uncertain = false;
        for frame in &backtrace.frames {
            uncertain |= frame.found_by == FoundBy::Scan;
            assert!(frame.uncertain || !uncertain, "a frame behind a guess is called certain");
            let places = process.places(frame.instruction());
            told.push_str(&format!("{:x} {}\n", frame.program_counter(), places.len()));
        }
        told.push_str(&format!("{:?}\n", backtrace.end));
    }
    Some(told)
}

fn first_inputs(from: &fixtures::Fixtures) -> Vec<Vec<u8>> {
    let mut inputs = Vec::new();
    for core in ["core.plain", "core.threads"] {
        let whole = from.read(core);
        inputs.push(whole[..whole.len().min(LONGEST)].to_vec());
        inputs.push(whole[..whole.len().min(8192)].to_vec());
    }
    inputs
}
