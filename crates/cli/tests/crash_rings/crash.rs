//! A program that dies in two variants: with records in its frames, and with
//! every block logged. What the core of the first tells must be how the log of
//! the second ends.
//!
//! A log is one list for each thread. It becomes activations by the rule that a
//! function is entered with its first block, which nothing jumps to, and that an
//! activation above one that goes on has ended. Activations that ended without
//! another block after them look as if they were live; so the frames of the core
//! must be some of those that remain, in order.

use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use backtrail_build::carry::Carried;
use backtrail_crash::{Frame, Frames, Known, Recovered, Unread};
use backtrail_graph::Index as _;
use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_testkit::cores;
use serde_json::Value;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// A program in a folder of its own.
pub struct Crash {
    folder: tempfile::TempDir,
}

/// A live activation, as its core tells it.
#[derive(Debug)]
pub struct Live {
    /// The function.
    pub name: String,
    /// What was recovered.
    pub recovered: Recovered,
}

impl Live {
    /// The blocks that are known, oldest first.
    pub fn blocks(&self) -> Vec<usize> {
        let older = self.recovered.older.iter().rev().flat_map(|path| &path.blocks);
        older.chain(&self.recovered.path).map(|block| block.position()).collect()
    }
}

/// An activation, as the log tells it.
#[derive(Debug, Clone)]
pub struct Logged {
    /// The function.
    pub name: String,
    /// The blocks it entered.
    pub blocks: Vec<usize>,
}

impl Crash {
    /// Compiles `source` by `verb`.
    #[track_caller]
    pub fn new(verb: &str, source: &Path, words: &[&str]) -> Self {
        let crash = Self::empty();
        let (source, words) = (source.to_str().unwrap(), words);
        crash.backtrail(&[&[verb, "-o", "program", source], words].concat());
        crash
    }

    /// An empty folder, into which the caller puts `program`.
    pub fn empty() -> Self {
        Self { folder: tempfile::Builder::new().prefix("backtrail-crash-").tempdir().unwrap() }
    }

    /// A file in the folder.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        let cache = self.path("cache");
        command.current_dir(self.folder.path()).env("BACKTRAIL_CACHE", cache).env("LC_ALL", "C");
        command.env("BACKTRAIL_DIR", self.path("records"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    /// Runs `backtrail WORDS`, which must succeed.
    #[track_caller]
    pub fn backtrail(&self, words: &[&str]) -> Output {
        let output = self.command(BACKTRAIL).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
        output
    }

    /// Derives both variants.
    #[track_caller]
    pub fn derive(&self, scheme: &str, ring: u32) {
        let ring = ring.to_string();
        let words = ["instrument", "-q", "--scheme", scheme, "--ring", &ring, "-o", "traced"];
        self.backtrail(&[&words[..], &["program"]].concat());
        self.backtrail(&["instrument", "-q", "--scheme", "log", "-o", "logged", "program"]);
    }

    /// Lets the traced variant die and gives its live activations by thread,
    /// the thread that died first, each innermost first.
    #[track_caller]
    pub fn die(&self, program: &str, words: &[&str]) -> Vec<Vec<Live>> {
        let core = self.core_of(&self.path(program), words);
        let process = Process::of_core(&core, &Options::default()).unwrap();
        fs::remove_file(&core).unwrap();
        let carried = Carried::read(&self.path(program)).unwrap();
        let model =
            |id: [u8; 16]| carried.units.iter().find(|it| it.meta.id == id)?.model().ok().flatten();
        let section = carried.frames.as_deref().expect("a traced variant has a table");
        let frames = Frames::new(section, &model).unwrap();
        let crashed = process.crashed().map(|thread| thread.id);
        let mut threads: Vec<_> = process.notes.threads.iter().collect();
        threads.sort_by_key(|thread| Some(thread.id) != crashed);
        let of_thread = |thread: &&backtrail_machine::core_file::notes::Thread| {
            live(&process, &frames, &thread.registers)
        };
        threads.iter().map(of_thread).collect()
    }

    /// The core that the kernel writes, or gdb if it writes none here.
    #[track_caller]
    pub fn core_of(&self, program: &Path, words: &[&str]) -> PathBuf {
        let core = self.path("the-core");
        let folder = self.path("dying");
        fs::create_dir_all(&folder).unwrap();
        cores::core_of(self.command(program).args(words).current_dir(&folder), &core);
        core
    }

    /// The blocks that the other variant logs before it dies: thread, function and
    /// block, in order.
    #[track_caller]
    pub fn events(&self, words: &[&str]) -> Vec<(u64, String, usize)> {
        let _ = fs::remove_dir_all(self.path("records"));
        let output = self.command(self.path("logged")).args(words).output().unwrap();
        assert!(output.status.signal().is_some(), "{words:?} did not die: {output:?}");
        let shown = self.backtrail(&["show", "--json", "records"]).stdout;
        let mut events = Vec::new();
        for line in String::from_utf8(shown).unwrap().lines() {
            let event: Value = serde_json::from_str(line).unwrap();
            let (Some(thread), Some(name)) = (event["thread"].as_u64(), event["function"].as_str())
            else {
                continue;
            };
            let block = event["block"].as_str().unwrap().trim_start_matches('b').parse().unwrap();
            events.push((thread, name.to_owned(), block));
        }
        events
    }

    /// The activations that are live in the log of the other variant, by thread,
    /// outermost first, with some that have ended.
    #[track_caller]
    pub fn log(events: &[(u64, String, usize)]) -> Vec<Vec<Logged>> {
        let mut threads: Vec<(u64, Vec<Logged>)> = Vec::new();
        for (thread, name, block) in events {
            let stack = match threads.iter_mut().find(|(id, _)| id == thread) {
                Some((_, stack)) => stack,
                None => {
                    threads.push((*thread, Vec::new()));
                    &mut threads.last_mut().unwrap().1
                }
            };
            if *block == 0 {
                stack.push(Logged { name: name.clone(), blocks: vec![0] });
                continue;
            }
            let own = stack.iter().rposition(|it| it.name == *name);
            let own = own.unwrap_or_else(|| panic!("{name} goes on and was not entered: {block}"));
            stack.truncate(own + 1);
            stack[own].blocks.push(*block);
        }
        threads.into_iter().map(|(_, stack)| stack).collect()
    }

    /// Lets both variants die, and checks that each thread's frames tell how
    /// one of the logs ends. Gives the frames.
    #[track_caller]
    pub fn check(&self, program: &str, words: &[&str]) -> Vec<Vec<Live>> {
        let threads = self.die(program, words);
        let logs = Self::log(&self.events(words));
        for live in threads.iter().filter(|live| !live.is_empty()) {
            let fits = logs.iter().any(|log| is_told(live, log));
            assert!(fits, "{words:?}: no log ends like this: {live:#?}\n{logs:#?}");
        }
        assert!(!threads[0].is_empty(), "{words:?}: nothing is known of the thread that died");
        threads
    }
}

/// The traced activations of a thread.
fn live(
    process: &Process,
    frames: &Frames,
    registers: &backtrail_machine::registers::Registers,
) -> Vec<Live> {
    let mut found = Vec::new();
    for frame in Backtrace::compute(process, registers).frames {
        let address = frame.instruction();
        let Some(module) = process.modules.of(address) else { continue };
        if !process.main().is_some_and(|main| std::ptr::eq(main, module)) {
            continue;
        }
        let Some(end) = frame.end else { continue };
        let asked = Frame {
            address: address.wrapping_sub(module.bias),
            is_call: !frame.interrupted,
            frame_address: end,
            register: &|number| frame.registers.get(number),
            memory: &|at, bytes| process.memory.read(at, bytes).is_ok(),
        };
        match frames.recover(&asked) {
            Ok(recovered) => {
                let unit = frames.model(recovered.unit).unwrap();
                let name = unit.symbols[unit.functions[recovered.function].symbol].name.clone();
                found.push(Live { name, recovered });
            }
            // What starts `main` is the C library's.
            Err(Unread::NotOurs) => {}
            Err(why) => panic!("{address:#x}: {why}"),
        }
    }
    found
}

/// Whether frames, innermost first, are what a log's activations say.
fn is_told(live: &[Live], log: &[Logged]) -> bool {
    // Which of the outermost frames can be the last of the first activations.
    let mut possible = vec![false; live.len() + 1];
    possible[0] = true;
    for activation in log {
        for count in (1..=live.len()).rev() {
            let frame = &live[live.len() - count];
            possible[count] |= possible[count - 1] && agrees(frame, activation);
        }
    }
    possible[live.len()]
}

fn agrees(frame: &Live, activation: &Logged) -> bool {
    let known = frame.blocks();
    frame.name == activation.name
        && match (frame.recovered.known, frame.recovered.truncated) {
            (Known::No, _) => true,
            (_, true) => activation.blocks.ends_with(&known),
            (_, false) => activation.blocks == known,
        }
}
