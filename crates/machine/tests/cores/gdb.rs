//! gdb's own view of a core, and the comparison with ours.
//!
//! Compared are, for every thread: each frame's program counter, function,
//! line, whether it was inlined or a signal's, and the registers that calls
//! preserve, wherever we say that we know them. Functions that ended with a
//! call are left out: they have no frame, and gdb infers them.

use std::path::{Path, PathBuf};
use std::process::Command;

use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::process::Process;
use serde_json::Value;

use backtrail_testkit::cores::run;

/// The order in which the oracle prints registers, by DWARF's numbers.
const REGISTERS: [u16; 7] = [3, 6, 12, 13, 14, 15, 7];

/// A frame, as either shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub counter: u64,
    pub function: Option<String>,
    pub place: Option<(String, u64)>,
    pub inlined: bool,
    pub signal: bool,
}

/// What was compared.
#[derive(Debug, Default, Clone, Copy)]
pub struct Tally {
    pub cores: usize,
    pub threads: usize,
    pub frames: usize,
    pub registers: usize,
}

/// What gdb says of some cores of one program, at most `limit` frames a thread.
pub fn ask(program: &Path, cores: &[PathBuf], limit: usize) -> Vec<Value> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/cores/oracle.py");
    let list: Vec<_> = cores.iter().map(|core| core.display().to_string()).collect();
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-x"]).arg(script).env("PROGRAM", program);
    gdb.env("CORES", list.join(":")).env("LIMIT", limit.to_string());
    let said = run(&mut gdb);
    let answers: Vec<Value> = said
        .lines()
        .filter_map(|line| line.strip_prefix("ORACLE "))
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(answers.len(), cores.len(), "{said}");
    answers
}

fn demangle(name: &str) -> String {
    if let Ok(name) = rustc_demangle::try_demangle(name) {
        return format!("{name:#}");
    }
    let symbol = cpp_demangle::Symbol::new(name).ok().filter(|_| name.starts_with("_Z"));
    symbol.and_then(|symbol| symbol.demangle().ok()).unwrap_or_else(|| name.to_owned())
}

/// Names up to their parameters: how those are written differs.
fn bare(name: &str) -> String {
    let name = demangle(name);
    let name = name.split_once('<').map_or(&name[..], |(name, _)| name);
    let name = name.split_once('(').map_or(name, |(name, _)| name);
    // What a template returns is part of its mangled name.
    let name = name.rsplit_once(' ').map_or(name, |(_, name)| name);
    // The vDSO has two names for each of its functions.
    name.strip_prefix("__vdso_").unwrap_or(name).to_owned()
}

/// Our frames of a thread, inlined functions apart.
pub fn ours(process: &Process, backtrace: &Backtrace) -> Vec<(Shown, Option<usize>)> {
    let mut shown = Vec::new();
    for (number, frame) in backtrace.frames.iter().enumerate() {
        let mut places = process.places(frame.instruction());
        if places.is_empty() {
            places.push(Default::default());
        }
        for place in places {
            let file = place.file.as_deref().and_then(|file| file.rsplit('/').next());
            let line = file.map(str::to_owned).zip(place.line.map(u64::from));
            let one = Shown {
                counter: frame.program_counter(),
                function: place.function.as_deref().map(bare),
                place: line,
                inlined: place.inlined,
                signal: frame.signal,
            };
            shown.push((one, (!place.inlined).then_some(number)));
        }
    }
    shown
}

fn theirs(frame: &Value) -> Shown {
    let line = frame["line"].as_u64().filter(|&line| line > 0);
    let signal = frame["signal"] == true;
    Shown {
        counter: frame["pc"].as_u64().unwrap(),
        function: frame["name"].as_str().map(bare),
        place: frame["file"].as_str().map(str::to_owned).zip(line),
        inlined: frame["inlined"] == true,
        signal,
    }
}

/// Compares all threads of a core; `what` is said if they differ.
pub fn compare(process: &Process, answer: &Value, limit: usize, what: &str, tally: &mut Tally) {
    let threads = answer["threads"].as_array().unwrap();
    assert_eq!(threads.len(), process.notes.threads.len(), "{what}: threads");
    tally.cores += 1;
    for thread in &process.notes.threads {
        let same = threads.iter().find(|other| other["id"] == thread.id);
        let other = same.unwrap_or_else(|| panic!("{what}: gdb has no thread {}", thread.id));
        let frames = other["frames"].as_array().unwrap();
        let backtrace = Backtrace::compute(process, &thread.registers);
        let own = ours(process, &backtrace);
        let left: Vec<Shown> = own.iter().map(|(frame, _)| frame.clone()).take(limit).collect();
        let right: Vec<Shown> = frames.iter().map(theirs).collect();
        for (number, (own, other)) in left.iter().zip(&right).enumerate() {
            assert_eq!(own, other, "{what}, thread {}, frame {number}: ours, gdb's", thread.id);
        }
        let end = &backtrace.end;
        assert_eq!(left.len(), right.len(), "{what}, thread {}: {end:?}", thread.id);
        for ((_, number), frame) in own.iter().zip(frames) {
            let Some(number) = number else { continue };
            let registers = &backtrace.frames[*number].registers;
            for (register, value) in REGISTERS.iter().zip(frame["registers"].as_array().unwrap()) {
                if let (Some(own), Some(other)) = (registers.get(*register), value.as_u64()) {
                    let where_ = format!("{what}: register {register} of frame {number}");
                    assert_eq!(own, other, "{where_}");
                    tally.registers += 1;
                }
            }
        }
        tally.threads += 1;
        tally.frames += left.len();
    }
}
