//! Stacks and cores that are damaged: what is found says how, and nothing
//! panics.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_machine::unwind::{End, FoundBy};

use crate::process;
use backtrail_testkit::cores::{self, compile, core_beside};

fn function(process: &Process, address: u64) -> String {
    let places = process.places(address);
    places.last().and_then(|place| place.function.clone()).unwrap_or_default()
}

#[test]
fn a_smashed_return_address_is_told_and_the_rest_is_labelled() {
    for (compiler, level) in [("clang-19", "-O0"), ("clang-19", "-O2"), ("gcc", "-O2")] {
        let folder = tempfile::tempdir().unwrap();
        let options = [level, "-fno-stack-protector"];
        let program = compile(compiler, &options, "crashes.c", folder.path());
        let core = core_beside(&program, &["smash"], "smash");
        let process = process(&core, &program);
        let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
        let frames = &backtrace.frames;
        let what = format!("{compiler} {level}: {backtrace:#?}");
        assert_eq!(function(&process, frames[0].instruction()), "smash", "{what}");
        let remark = frames[0].remark.as_deref().unwrap_or_default();
        assert!(remark.contains("was overwritten: 0x4141414141414141"), "{what}");
        assert!(frames.len() > 2 && frames[1..].iter().all(|frame| frame.uncertain), "{what}");
        assert!(matches!(frames[1].found_by, FoundBy::FramePointer | FoundBy::Scan), "{what}");
        // What lies behind the damage is found again.
        let last = frames.last().unwrap();
        assert_eq!(function(&process, last.instruction()), "_start", "{what}");
        assert_eq!(backtrace.end, End::Outermost, "{what}");
    }
}

#[test]
fn a_jump_to_nowhere_is_told_and_its_caller_found() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("clang-19", &["-O2"], "crashes.c", folder.path());
    let process = process(&core_beside(&program, &["jump"], "jump"), &program);
    let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
    let remark = backtrace.frames[0].remark.as_deref();
    assert_eq!(remark, Some("the program jumped to 0x0: what is not mapped"));
    assert_eq!(backtrace.frames[1].found_by, FoundBy::Scan);
    assert_eq!(function(&process, backtrace.frames[1].instruction()), "jump");
    assert_eq!(process.signal_info().unwrap().fault_address(), Some(0));
}

#[test]
fn a_stack_that_overflowed_is_walked_to_its_end() {
    let folder = tempfile::tempdir().unwrap();
    let program = compile("clang-19", &["-O2"], "crashes.c", folder.path());
    let process = process(&core_beside(&program, &["overflow"], "overflow"), &program);
    let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
    let gap = backtrace.gap.as_ref().unwrap();
    assert!(gap.count > 50_000, "{gap:?}");
    assert_eq!((gap.cycle, gap.instructions.len()), (Some(1), 1));
    assert_eq!(backtrace.end, End::Outermost);
    let names: Vec<_> = backtrace.frames[gap.behind..]
        .iter()
        .map(|frame| function(&process, frame.instruction()))
        .collect();
    assert_eq!((&names[0][..], &names[names.len() - 1][..]), ("overflow", "_start"));
    assert!(names.iter().any(|name| name == "main"));
}

/// A small core and its program.
fn small(folder: &Path) -> (PathBuf, Vec<u8>) {
    let program = compile("clang-19", &["-O2"], "crashes.c", folder);
    let core = core_beside(&program, &["segfault"], "segfault");
    let bytes = std::fs::read(core).unwrap();
    (program, bytes)
}

fn open(bytes: &[u8], path: &Path) -> Result<(Process, Vec<Backtrace>), String> {
    let mut file = std::fs::File::create(path).unwrap();
    file.write_all(bytes).unwrap();
    let process = Process::of_core(path, &Options::default()).map_err(|error| error.to_string())?;
    let threads = process.notes.threads.iter();
    let backtraces = threads.map(|it| Backtrace::compute(&process, &it.registers)).collect();
    Ok((process, backtraces))
}

#[test]
fn a_truncated_core_tells_what_it_can_and_that_it_is_truncated() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small(folder.path());
    let path = folder.path().join("truncated");
    let (whole, truth) = open(&bytes, &path).unwrap();
    assert_eq!(whole.remarks, [""; 0]);
    assert_eq!(truth[0].end, End::Outermost);
    let (mut errors, mut partial, mut complete) = (0, 0, 0);
    for length in (0..bytes.len()).step_by(4096) {
        match open(&bytes[..length], &path) {
            Err(message) => {
                assert!(!message.contains('\n'), "{message}");
                errors += 1;
            }
            Ok((process, backtraces)) => {
                // Frames are those of the whole core, or labelled.
                let frames = &backtraces[0].frames;
                for (own, other) in frames.iter().zip(&truth[0].frames) {
                    assert!(own == other || own.uncertain || own.remark.is_some(), "{length}");
                }
                let whole = *frames == truth[0].frames;
                // Behind what gdb writes come headers that nobody needs.
                let said = process.remarks.join("; ");
                let is_enough = whole && !cores::kernel_writes();
                assert!(said.contains("truncated") || is_enough, "{length}: {said}");
                let lost = matches!(backtraces[0].end, End::Lost(_));
                assert!(whole || lost || frames.iter().any(|it| it.uncertain), "{length}");
                complete += usize::from(whole);
                partial += usize::from(!whole);
            }
        }
    }
    let counts = format!("{errors} {partial} {complete}");
    match cores::kernel_writes() {
        // The stack is at the end of the core, the registers are at its beginning.
        true => assert!(errors >= 1 && partial > 20 && complete >= 1, "{counts}"),
        // gdb puts the registers behind everything else.
        false => assert!(errors > 20 && partial + complete <= 8, "{counts}"),
    }
}

/// How many random damages are tried; many more, if asked for.
fn rounds() -> usize {
    let asked = std::env::var("BACKTRAIL_CORE_ROUNDS").ok();
    asked.map_or(120, |rounds| rounds.parse().unwrap())
}

/// Random numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963);
        (self.0 >> 33) as usize % end
    }

    fn byte(&mut self) -> u8 {
        let other = self.below(256) as u8;
        [0, 1, 0x7f, 0x80, 0xff, other][self.below(6)]
    }
}

#[test]
fn a_corrupt_core_never_makes_the_reader_stumble() {
    let folder = tempfile::tempdir().unwrap();
    let (_, bytes) = small(folder.path());
    let path = folder.path().join("corrupt");
    let mut random = Random(1);
    let mut opened = 0;
    for round in 0..rounds() {
        let mut damaged = bytes.clone();
        for _ in 0..1 + round % 6 {
            // Headers, notes, stack: what is followed.
            let place = match round % 3 {
                0 => random.below(0x580),
                1 => 0x580 + random.below(0x800),
                _ => bytes.len() - 0x9000 + random.below(0x8000),
            };
            damaged[place] = random.byte();
        }
        opened += usize::from(open(&damaged, &path).is_ok());
    }
    assert!(opened > rounds() / 3, "{opened}");
}

#[test]
fn a_corrupt_executable_never_makes_the_reader_stumble() {
    let folder = tempfile::tempdir().unwrap();
    let (program, _) = small(folder.path());
    let core = folder.path().join("segfault.core");
    let bytes = std::fs::read(&program).unwrap();
    let damaged = folder.path().join("damaged");
    let options = Options { executable: Some(damaged.clone()), ..Options::default() };
    let mut random = Random(2);
    let mut used = 0;
    for round in 0..rounds() {
        let mut copy = bytes.clone();
        for _ in 0..1 << (round % 8) {
            // Program headers, section headers, anything.
            let place = match round % 5 {
                0 => 0x40 + random.below(0x300),
                1 => bytes.len() - 1 - random.below(40 * 64),
                _ => 0x400 + random.below(bytes.len() - 0x400),
            };
            copy[place] = random.byte();
        }
        std::fs::write(&damaged, copy).unwrap();
        let Ok(process) = Process::of_core(&core, &options) else { continue };
        let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
        for frame in &backtrace.frames {
            // The libraries are whole, and slow to read again and again.
            if process.modules.index(frame.instruction()) == process.modules.main {
                process.places(frame.instruction());
            }
        }
        used += 1;
    }
    assert!(used > rounds() / 3, "{used}");
}
