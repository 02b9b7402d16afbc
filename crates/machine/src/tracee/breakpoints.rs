//! Breakpoints at many places, one stop for each hit.
//!
//! At a stop the program counter says which breakpoint it was, and is set to the
//! slot where the displaced instruction is run (`displaced`); then the
//! program goes on. Breakpoints stay where they are.
//!
//! Where frames were left and one resumes, and where a thread ends, the stack is
//! unwound: these are the *landings* and the end. So it is where a handler of a signal
//! begins (`handlers`).

use std::collections::{BTreeSet, HashMap};
use std::path::Path;

use backtrail_outside as outside;
use nix::libc::SIGTRAP;

use super::children::{self, Change};
use super::frames::{self, Frames};
use super::handlers::{self, Handlers};
use super::pages::Pages;
use super::scratch::SLOT;
use super::sys::Status;
use super::threads::Threads;
use super::untraced::Untraced;
use super::{Ended, SIGTRAP_IS_ITS_OWN, Tracee, displaced};
use crate::Error;
use crate::code::{Callee, Code, Exit};

/// Places to stop at.
pub struct Breakpoints<'a> {
    /// The code they are in.
    pub code: &'a Code,
    /// Their blocks, in any order, none twice: a stop is named by its number here.
    pub blocks: &'a [usize],
    /// By number: whether frames are wanted there.
    pub is_landing: &'a [bool],
}

/// What a thread does, or that it ends.
#[derive(Debug)]
pub enum Stop<'a> {
    /// The thread begins: the thread of this number started it.
    Begins(usize),
    /// At the breakpoint of this number.
    At(usize),
    /// The kernel called the function whose breakpoint comes next, as the handler of a
    /// signal.
    Handles {
        /// The number of that breakpoint.
        number: usize,
        /// Whether the thread was in code that is seen, and not in a stub.
        within: bool,
        /// If it was not: frames as below.
        frames: &'a [u64],
        /// The handler's frame.
        frame: u64,
    },
    /// The handler with this frame returned.
    Resumes(u64),
    /// At a landing.
    Landing {
        /// Its number.
        number: usize,
        /// The places of frames, innermost first. Frames elsewhere are left out.
        frames: &'a [u64],
        /// The top of the stack: what is below was left.
        stack: u64,
    },
    /// The thread ends, or becomes another program, in a call: frames as above, none
    /// if whoever started it is back. A thread that is killed where it is has no
    /// such stop.
    Ending(&'a [u64]),
}

/// How a run went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// How it ended.
    pub ended: Ended,
    /// Whether it had become another program before it did.
    pub replaced: bool,
    /// How many stops there were.
    pub stops: u64,
    /// What it did beside what is traced.
    pub untraced: Untraced,
}

const NONE: u32 = u32::MAX;

/// After so many stops it is looked whether the program has made code: every second or so.
const OFTEN: u64 = 1 << 16;

impl Breakpoints<'_> {
    /// Runs the program to its end and gives each stop to `visit`, with the number of
    /// the thread: 0 is the first, others come as they are started.
    pub fn run(
        &self,
        tracee: &mut Tracee,
        mut visit: impl FnMut(usize, Stop<'_>) -> Result<(), Error>,
    ) -> Result<Ran, Error> {
        let mut placed = self.place(tracee)?;
        let watched = self.watch(tracee, &mut placed)?;
        let mut frames = Frames::new();
        let mut threads = Threads::new(tracee.pid);
        // Threads that are about to end, or to become another program: their frames.
        let mut leaving: HashMap<usize, Vec<u64>> = HashMap::new();
        let mut called = Handlers::new(self);
        let mut called_last = 0;
        let mut stops = 0u64;
        let mut untraced = Untraced::default();
        let (mut stopped, mut deliver) = (Some(tracee.pid), None);
        loop {
            if let Some(pid) = stopped.take() {
                threads.go_on(tracee, pid, deliver.take())?;
            }
            let status = threads.wait(tracee)?;
            let pid = status.pid();
            let Some(thread) = threads.number(pid) else {
                threads.remember(pid);
                continue;
            };
            stopped = Some(pid);
            match status {
                Status::Stopped(_, SIGTRAP) => {
                    let Some(counter) = threads.program_counter(tracee, pid)? else { continue };
                    let address = counter.wrapping_sub(1);
                    // It may be code that has a breakpoint of its own.
                    if let Some(frame) = called.returned(tracee, pid, address)? {
                        visit(thread, Stop::Resumes(frame))?;
                        continue;
                    }
                    let Some(number) = placed.number(address) else {
                        if watched.contains(&address) {
                            let mut registers = tracee.registers_of(pid)?;
                            registers.rip = address;
                            called_last = thread;
                            untraced.note_memory(tracee, pid, &self.traced_files());
                            let found = frames.of_ending(tracee, pid, &registers)?;
                            found.map(|found| leaving.insert(thread, found));
                            children::pass(tracee, pid, address, &placed.bytes)
                                .map_err(|error| tracee.failed(error))?;
                        } else if handlers::is_caught(pid, SIGTRAP) == Some(true) {
                            return Err(tracee.wrong(SIGTRAP_IS_ITS_OWN));
                        } else {
                            deliver = Some(SIGTRAP);
                        }
                        continue;
                    };
                    stops += 1;
                    // Some give back what they made before they end.
                    if stops.is_power_of_two() || stops.is_multiple_of(OFTEN) {
                        untraced.note_code(tracee, pid);
                    }
                    if called.may_begin(pid, number)
                        && let Some(frame) = called.begins(tracee, pid, &mut placed.bytes)?
                    {
                        let within = called.was_within(tracee, self.code);
                        // A thread that is gone has none.
                        let frames: &[u64] = match within {
                            true => &[],
                            false => {
                                frames.of(tracee, pid, called.interrupted()).unwrap_or_default()
                            }
                        };
                        visit(thread, Stop::Handles { number, within, frames, frame })?;
                    }
                    if !leaving.is_empty() {
                        leaving.remove(&thread);
                    }
                    if self.is_landing[number] {
                        let mut registers = tracee.registers_of(pid)?;
                        registers.rip = address;
                        let found = frames.of(tracee, pid, &registers)?;
                        let stack = registers.rsp;
                        visit(thread, Stop::Landing { number, frames: found, stack })?;
                    } else {
                        visit(thread, Stop::At(number))?;
                    }
                    threads.set_program_counter(tracee, pid, placed.slots[number])?;
                }
                Status::Stopped(_, signal) => {
                    called.expect(pid, signal);
                    deliver = Some(signal);
                }
                Status::Exited(..) | Status::Killed(..) if pid != tracee.pid => {
                    threads.forget(pid);
                    stopped = None;
                }
                Status::Exited(_, status) => {
                    tracee.is_gone = true;
                    let ended = Ended::Exited(status);
                    return Ok(Ran { ended, replaced: false, stops, untraced });
                }
                Status::Killed(_, signal) => {
                    tracee.is_gone = true;
                    let ended = Ended::Killed(signal);
                    return Ok(Ran { ended, replaced: false, stops, untraced });
                }
                Status::Event(_, event) => {
                    match children::on_event(tracee, &mut threads, pid, event, &placed.bytes)? {
                        Change::None => {}
                        Change::Process => untraced.processes += 1,
                        Change::Thread(new) => visit(new, Stop::Begins(thread))?,
                        Change::Replaced => {
                            if let Some(frames) = leaving.get(&called_last) {
                                visit(called_last, Stop::Ending(frames))?;
                            }
                            untraced.note_program(tracee.pid);
                            let ended = children::see_out(tracee)?;
                            return Ok(Ran { ended, replaced: true, stops, untraced });
                        }
                        Change::Ending => {
                            if pid == tracee.pid {
                                untraced.note_memory(tracee, pid, &self.traced_files());
                            }
                            if let Ok(registers) = tracee.registers_of(pid)
                                && let Some(found) = frames.of_ending(tracee, pid, &registers)?
                            {
                                // Frames that were unwound on the way out are gone.
                                let left = leaving.remove(&thread);
                                let left = left.filter(|left| left.ends_with(&found));
                                visit(thread, Stop::Ending(&left.unwrap_or(found)))?;
                            }
                        }
                    }
                }
            }
        }
    }

    /// The files that are traced.
    pub(super) fn traced_files(&self) -> Vec<&Path> {
        self.code.modules.iter().map(|module| &*module.path).collect()
    }

    /// Breakpoints in the C library where it becomes another program or ends a
    /// thread, if the executable asks for that: neither leaves frames behind.
    fn watch(&self, tracee: &Tracee, placed: &mut Placed) -> Result<Vec<u64>, Error> {
        let mut wanted = BTreeSet::new();
        for block in &self.code.blocks {
            if let Exit::Call(Callee::External(name), _) | Exit::Tail(Callee::External(name)) =
                &block.exit
            {
                match name.split('@').next().unwrap_or(name) {
                    name if outside::of(name).is_some_and(|row| row.execs) => {
                        wanted.insert("execve")
                    }
                    "pthread_exit" => wanted.insert("pthread_exit"),
                    "thrd_exit" => wanted.insert("thrd_exit"),
                    _ => continue,
                };
            }
        }
        let mut watched = Vec::new();
        for name in wanted {
            if let Some(address) = frames::function_of_c_library(tracee, name)? {
                let byte = tracee.put_breakpoint(address)?;
                placed.bytes.insert(address, byte);
                watched.push(address);
            }
        }
        Ok(watched)
    }

    /// Writes slots and breakpoints.
    pub(super) fn place(&self, tracee: &Tracee) -> Result<Placed, Error> {
        let mut placed = Placed {
            areas: tracee.layout.ranges().map(|(start, end)| Area::new(start, end)).collect(),
            slots: Vec::with_capacity(self.blocks.len()),
            bytes: HashMap::with_capacity(self.blocks.len()),
        };
        if placed.areas.is_empty() {
            return Err(tracee.wrong("it has no code"));
        }
        // By module: what goes into its slots.
        let mut slots: Vec<Vec<u8>> = vec![Vec::new(); placed.areas.len()];
        let mut pages = Pages::default();
        for (number, &block) in self.blocks.iter().enumerate() {
            let place = self.code.blocks[block].start;
            let (module, _) = self.code.module(place);
            let (area, slots) = (&mut placed.areas[module], &mut slots[module]);
            let address = tracee.layout.address(place);
            let mut original = [0; 15];
            let length = (area.end() - address).min(15) as usize;
            pages.read(tracee, address, &mut original[..length])?;
            let original = &original[..length];
            let mut decoder =
                iced_x86::Decoder::with_ip(64, original, address, iced_x86::DecoderOptions::NONE);
            let instruction = decoder.decode();
            let slot = tracee.slots_of(module) + slots.len() as u64;
            let original = original.get(..instruction.len()).unwrap_or_default();
            let bytes = displaced::slot(&instruction, original, slot).ok_or_else(|| {
                let place = self.code.shown(place);
                tracee.wrong(format!("the instruction at {place} cannot be run elsewhere"))
            })?;
            slots.extend_from_slice(&bytes);
            slots.resize(slots.len().next_multiple_of(SLOT as usize), 0);
            placed.slots.push(slot);
            area.numbers[(address - area.start) as usize] = number as u32;
            placed.bytes.insert(address, original[0]);
        }
        for (module, slots) in slots.iter().enumerate() {
            tracee.write(tracee.slots_of(module), slots)?;
        }
        for &address in placed.bytes.keys() {
            pages.put(tracee, address, super::launch::BREAKPOINT)?;
        }
        pages.write(tracee)?;
        Ok(placed)
    }
}

/// The breakpoints in one file.
struct Area {
    /// Where its code begins.
    start: u64,
    /// By distance from there: the breakpoint.
    numbers: Vec<u32>,
}

impl Area {
    fn new(start: u64, end: u64) -> Self {
        Self { start, numbers: vec![NONE; (end - start) as usize] }
    }

    fn end(&self) -> u64 {
        self.start + self.numbers.len() as u64
    }
}

pub(super) struct Placed {
    /// By module.
    areas: Vec<Area>,
    slots: Vec<u64>,
    /// By address: the byte that belongs there.
    bytes: HashMap<u64, u8>,
}

impl Placed {
    /// Where the executable's code begins.
    pub(super) fn start(&self) -> u64 {
        self.areas[0].start
    }

    /// By distance from there: the breakpoint.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u32> {
        self.areas[0].numbers.iter().copied()
    }

    #[inline]
    fn number(&self, address: u64) -> Option<usize> {
        self.areas.iter().find_map(|area| {
            let distance = usize::try_from(address.checked_sub(area.start)?).ok()?;
            let number = *area.numbers.get(distance)?;
            (number != NONE).then_some(number as usize)
        })
    }
}
