//! Traces a program with all threads and processes that it starts, and writes down what
//! comes into each.
//!
//! Each system call stops twice: when it is about to be made, and when it returned. A call
//! that a signal interrupted and that is made again is one call: what came back in between
//! (`ERESTARTSYS` and its kind) the program does not see. What a signal without a handler
//! does, the program does not see either.
//!
//! Nothing of the program's behaviour is changed but what [`super`] says: signals are
//! delivered as they come, and a program that is stopped stays so until it is continued
//! (`PTRACE_LISTEN`).

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Write};
use std::path::Path;

use backtrail_abi::OWN_CALL;
use backtrail_foreign::file;
use nix::errno::Errno;
use nix::libc;
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::calls::{self, Length, Output};
use super::event::{Event, What, Writer};
use super::outputs::{Given, Memory, Returned};
use super::start;
use crate::tracee::handlers::is_caught;
use crate::tracee::sys::{self, CallInfo};

/// How a run is recorded.
pub struct How<'a> {
    /// The folder of the variant, which is not the same in all runs.
    pub own: &'a Path,
    /// When the first of the runs began: seconds, nanoseconds.
    pub since: (i64, i64),
    /// What random numbers are made of.
    pub seed: u64,
}

/// How the program ended: its status, as `wait` gives it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ended(pub i32);

/// What a tracer could not do, in words.
type Failed = String;

const OPTIONS: i32 = libc::PTRACE_O_EXITKILL
    | libc::PTRACE_O_TRACESYSGOOD
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC;

const CALL_STOP: i32 = libc::SIGTRAP | 0x80;
const X86_64: u32 = 0xc000_003e;
const RT_SIGRETURN: u64 = 15;
const EXIT: u64 = 60;
const EXIT_GROUP: u64 = 231;
/// Results that mean that the call is made again: `ERESTARTSYS` and its kind.
const AGAIN: [i64; 3] = [-512, -513, -514];
/// That it is gone on with, by `restart_syscall`.
const GOES_ON: i64 = -516;

/// Traces a process that waits for `begin`, which is called as soon as it is traced. What
/// comes into the program that it becomes is written to `out`. Comes back when that has
/// ended, and nobody whom it left behind has its output open.
pub fn record(
    process: Pid,
    how: &How<'_>,
    out: impl Write,
    begin: impl FnOnce(),
) -> Result<Ended, Failed> {
    sys::seize(process, OPTIONS).map_err(|error| match error {
        Errno::EPERM => "the system forbids ptrace: see kernel.yama.ptrace_scope, and whether a \
                         container's seccomp profile allows it"
            .to_owned(),
        other => format!("ptrace: {}", other.desc()),
    })?;
    let writer = Writer::new(out).map_err(written)?;
    let streams = [1, 2].map(|it| Memory(process).file(it));
    let mut recording = Recording {
        how,
        writer,
        tasks: BTreeMap::new(),
        early: HashSet::new(),
        count: 0,
        notes: BTreeSet::new(),
        root: process,
    };
    recording.tasks.insert(process, Task::unseen());
    begin();
    let status = recording.run(&streams)?;
    recording.finish()?;
    Ok(Ended(status))
}

fn written(error: io::Error) -> Failed {
    format!("what comes into the program cannot be written down: {error}")
}

/// A system call under way.
#[derive(Debug, Clone, Copy)]
struct Entered {
    number: u64,
    arguments: [u64; 6],
    /// What was at the pointers that say how long a buffer is.
    lengths: [u64; 6],
    /// Behind the instruction.
    address: u64,
}

/// A thread.
struct Task {
    /// Its number in what is written; none if it is not the program's.
    number: Option<u32>,
    /// How many it started.
    started: u32,
    entered: Option<Entered>,
    /// A call that is gone on with.
    interrupted: Option<Entered>,
    /// The last signal that it got, if it has no handler for it and it is its own doing.
    fatal: Option<i32>,
    /// Makes its random numbers.
    random: u64,
    /// Where its dynamic linker was loaded.
    linker: u64,
}

impl Task {
    /// One that is not the program's, or not yet.
    fn unseen() -> Self {
        Self {
            number: None,
            started: 0,
            entered: None,
            interrupted: None,
            fatal: None,
            random: 0,
            linker: 0,
        }
    }
}

struct Recording<'a, W: Write> {
    how: &'a How<'a>,
    writer: Writer<W>,
    tasks: BTreeMap<Pid, Task>,
    /// Threads that stopped before whoever started them said so.
    early: HashSet<Pid>,
    count: u32,
    notes: BTreeSet<String>,
    root: Pid,
}

/// What becomes of a thread that stopped.
enum Next {
    GoOn(Option<i32>),
    StayStopped,
    Nothing,
}

impl<W: Write> Recording<'_, W> {
    /// Until the program has ended; its status.
    fn run(&mut self, streams: &[Option<std::path::PathBuf>; 2]) -> Result<i32, Failed> {
        let mut ended = None;
        loop {
            let (pid, status) = match sys::wait_any() {
                Ok(found) => found,
                Err(_) => return ended.ok_or_else(|| "the program is gone".to_owned()),
            };
            let mut may_let_go = false;
            if libc::WIFSTOPPED(status) {
                may_let_go = ended.is_some() && self.closes(pid);
                let next = match self.stopped(pid, status) {
                    Ok(next) => next,
                    Err(Stop::Gone) => Next::Nothing,
                    Err(Stop::Failed(why)) => return Err(why),
                };
                // It may be gone by now.
                let _ = match next {
                    Next::GoOn(signal) => sys::go_on_to_call(pid, signal),
                    Next::StayStopped => sys::leave_stopped(pid),
                    Next::Nothing => Ok(()),
                };
            } else {
                self.ended(pid, status).map_err(written)?;
                if pid == self.root {
                    ended = Some(status);
                }
                may_let_go |= ended.is_some();
            }
            if let (Some(status), true) = (ended, may_let_go)
                && !self.tasks.keys().any(|&pid| has_open(pid, streams))
            {
                return Ok(status);
            }
        }
    }

    fn finish(self) -> Result<(), Failed> {
        self.writer.finish(&self.notes).map_err(written)
    }

    /// Whether a stopped thread may just have closed a file.
    fn closes(&self, pid: Pid) -> bool {
        // close, dup2, execve, dup3, execveat, close_range.
        const CLOSING: [u64; 6] = [3, 33, 59, 292, 322, 436];
        let entered = self.tasks.get(&pid).and_then(|task| task.entered);
        entered.is_some_and(|it| CLOSING.contains(&it.number))
    }

    fn write(&mut self, pid: Pid, what: What, value: i64, given: Given) -> io::Result<()> {
        let Some(number) = self.tasks.get(&pid).and_then(|task| task.number) else {
            return Ok(());
        };
        let length = given.length.try_into().unwrap_or(u32::MAX);
        let event = Event { what, value, length, must: given.must.0, may: given.may.0 };
        self.writer.event(number, &event)
    }

    fn ended(&mut self, pid: Pid, status: i32) -> io::Result<()> {
        self.early.remove(&pid);
        let Some(task) = self.tasks.get(&pid) else { return Ok(()) };
        let number = task.entered.map(|it| it.number);
        let killed = libc::WIFSIGNALED(status).then(|| libc::WTERMSIG(status));
        let by_itself = matches!(number, Some(EXIT | EXIT_GROUP)) && killed.is_none()
            || killed.is_some() && task.fatal == killed;
        let thread = task.number;
        self.write(pid, What::Ended, status.into(), Given::NOTHING)?;
        self.tasks.remove(&pid);
        match thread.filter(|_| by_itself) {
            Some(thread) => self.writer.is_whole(thread),
            None => Ok(()),
        }
    }

    fn stopped(&mut self, pid: Pid, status: i32) -> Result<Next, Stop> {
        let (signal, event) = (libc::WSTOPSIG(status), status >> 16);
        if !self.tasks.contains_key(&pid) {
            self.early.insert(pid);
            return Ok(Next::Nothing);
        }
        match event {
            0 if signal == CALL_STOP => {
                self.at_call(pid)?;
                Ok(Next::GoOn(None))
            }
            0 => self.on_signal(pid, signal),
            libc::PTRACE_EVENT_FORK | libc::PTRACE_EVENT_VFORK | libc::PTRACE_EVENT_CLONE => {
                self.on_new(pid)?;
                Ok(Next::GoOn(None))
            }
            libc::PTRACE_EVENT_EXEC => {
                self.on_start(pid)?;
                Ok(Next::GoOn(None))
            }
            // It is stopped as a whole, or has just begun.
            libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => Ok(Next::StayStopped),
            _ => Ok(Next::GoOn(None)),
        }
    }

    /// It started another.
    fn on_new(&mut self, pid: Pid) -> Result<(), Stop> {
        let new = Pid::from_raw(ptrace::getevent(pid)? as i32);
        let mut task = Task::unseen();
        let (count, is_own) = (self.count, self.is_own(pid));
        if let Some(starter) = self.tasks.get_mut(&pid)
            && let (Some(number), false) = (starter.number, is_own)
        {
            starter.started += 1;
            task.number = Some(count);
            task.random = mixed(starter.random ^ u64::from(starter.started));
            task.linker = starter.linker;
            self.writer.begins(count, Some(number), starter.started)?;
            self.count += 1;
        }
        self.tasks.insert(new, task);
        if self.early.remove(&new) {
            let _ = sys::go_on_to_call(new, None);
        }
        Ok(())
    }

    /// Whether the call under way is one of the runtime's.
    fn is_own(&self, pid: Pid) -> bool {
        let entered = self.tasks.get(&pid).and_then(|task| task.entered);
        entered.is_some_and(|it| Memory(pid).read(it.address, OWN_CALL.len()) == OWN_CALL)
    }

    /// It became a program.
    fn on_start(&mut self, pid: Pid) -> Result<(), Stop> {
        // A thread that is not the first has the number of the first from now on.
        let former = Pid::from_raw(ptrace::getevent(pid)? as i32);
        if former != pid
            && let Some(task) = self.tasks.remove(&former)
        {
            self.tasks.insert(pid, task);
        }
        let path = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        if file::gains_privileges(&path) {
            return Err(Stop::Failed(format!(
                "the program starts {}, which is set-user-id or set-group-id, or has \
                 capabilities, and a traced program gets no privileges",
                path.display()
            )));
        }
        let Some(task) = self.tasks.get_mut(&pid) else { return Ok(()) };
        if pid == self.root && task.number.is_none() {
            task.number = Some(self.count);
            task.random = mixed(self.how.seed);
            // What it did before it was the program is not its own.
            self.writer.begins(self.count, None, 1)?;
            self.count += 1;
        }
        let mut random = [0; 16];
        fill(&mut task.random, &mut random);
        let stack = ptrace::getregs(pid)?.rsp;
        let Some(start) = start::fix(Memory(pid), stack, &random) else {
            let path = path.display();
            return Err(Stop::Failed(format!("what {path} is started with cannot be read")));
        };
        task.linker = start.linker;
        Ok(self.write(pid, What::Started, 0, start.given)?)
    }

    fn on_signal(&mut self, pid: Pid, signal: i32) -> Result<Next, Stop> {
        if signal == libc::SIGSEGV && self.is_clock(pid)? {
            return Ok(Next::GoOn(None));
        }
        let info = sys::signal_info(pid)?;
        let is_caught = is_caught(pid, signal) == Some(true);
        let number = |at: usize| i32::from_le_bytes([0, 1, 2, 3].map(|it| info[at + it]));
        let is_fault = number(8) > 0
            && [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE, libc::SIGTRAP]
                .contains(&signal);
        if let Some(task) = self.tasks.get_mut(&pid) {
            let is_its_own = || Path::new(&format!("/proc/{}/task/{pid}", number(16))).exists();
            task.fatal = Some(signal).filter(|_| !is_caught && (is_fault || is_its_own()));
        }
        if is_caught {
            let mut given = Given::NOTHING;
            // Which, why; then who, or where.
            given.must(&info[..12]);
            if is_fault {
                given.may.add(&info[16..]);
            } else {
                let end = if signal == libc::SIGCHLD { 28 } else { 24 };
                given.must(&info[16..end]);
                given.may.add(&info[end..]);
            }
            self.write(pid, What::Signal(signal as u16), 0, given)?;
        }
        Ok(Next::GoOn(Some(signal)))
    }

    /// Whether it trapped because it reads the processor's clock; then it has read it.
    fn is_clock(&mut self, pid: Pid) -> Result<bool, Stop> {
        let mut registers = ptrace::getregs(pid)?;
        let bytes = Memory(pid).read(registers.rip, 3);
        let length = match &bytes[..] {
            // rdtsc, rdtscp.
            [0x0f, 0x31, ..] => 2,
            [0x0f, 0x01, 0xf9] => 3,
            _ => return Ok(false),
        };
        let clock = sys::clock();
        (registers.rax, registers.rdx) = (clock & 0xffff_ffff, clock >> 32);
        if length == 3 {
            registers.rcx = 0;
        }
        let place = registers.rip;
        registers.rip += length;
        ptrace::setregs(pid, registers)?;
        // The dynamic linker takes the time that it needs, for statistics.
        let linker = self.tasks.get(&pid).map_or(0, |task| task.linker);
        if is_within(pid, linker, place) {
            return Ok(true);
        }
        self.write(pid, What::Clock, clock.cast_signed(), Given::NOTHING)?;
        Ok(true)
    }

    fn at_call(&mut self, pid: Pid) -> Result<(), Stop> {
        let info = sys::call_info(pid)?;
        match info.stage {
            1 => self.on_entry(pid, info),
            2 => self.on_exit(pid, info.words[0].cast_signed()),
            _ => Ok(()),
        }
    }

    fn on_entry(&mut self, pid: Pid, info: CallInfo) -> Result<(), Stop> {
        let Some(task) = self.tasks.get_mut(&pid) else { return Ok(()) };
        let [number, arguments @ ..] = info.words;
        if task.number.is_none() {
            task.entered = None;
            return Ok(());
        }
        if info.architecture != X86_64 {
            return Err(Stop::Failed("the program makes system calls of 32 bits".to_owned()));
        }
        let call = calls::of(number);
        if let Some(call) = call
            && call.is("restart")
            && let Some(interrupted) = task.interrupted.take()
        {
            task.entered = Some(interrupted);
            return Ok(());
        }
        let mut entered = Entered { number, arguments, lengths: [0; 6], address: info.address };
        for output in call.map_or(&[][..], |call| &call.outputs) {
            if let Output::Bytes { length: Length::Pointed(at), .. } = output {
                entered.lengths[*at] = Memory(pid).half(arguments[*at]).into();
            }
        }
        task.entered = Some(entered);
        // Whoever does not come back.
        if matches!(number, EXIT | EXIT_GROUP) && !self.is_own(pid) {
            let value = i64::from(arguments[0] as i32);
            self.write(pid, What::Call(number as u16), value, Given::NOTHING)?;
        }
        let Some(call) = call else { return Ok(()) };
        if call.is("ptrace") {
            return Err(Stop::Failed(
                "the program traces others itself (ptrace), which is not possible while it is \
                 traced"
                    .to_owned(),
            ));
        }
        let flags = match call.name {
            "clone" => arguments[0],
            "clone3" => Memory(pid).word(arguments[0]),
            _ => 0,
        };
        if flags & libc::CLONE_UNTRACED as u64 != 0 {
            return Err(Stop::Failed(
                "the program starts another that may not be traced (CLONE_UNTRACED)".to_owned(),
            ));
        }
        // Threads, and processes that share memory but do not wait.
        if flags & libc::CLONE_VM as u64 != 0 && flags & libc::CLONE_VFORK as u64 == 0 {
            self.notes.insert(super::TURNS.to_owned());
        }
        if call.is("rseq") {
            // Another number, which no call has.
            let mut registers = ptrace::getregs(pid)?;
            registers.orig_rax = u64::MAX;
            ptrace::setregs(pid, registers)?;
        }
        Ok(())
    }

    fn on_exit(&mut self, pid: Pid, value: i64) -> Result<(), Stop> {
        let memory = Memory(pid);
        let is_own = self.is_own(pid);
        let Some(task) = self.tasks.get_mut(&pid) else { return Ok(()) };
        let Some(entered) = task.entered.take() else { return Ok(()) };
        if is_own || entered.number == RT_SIGRETURN {
            return Ok(());
        }
        if AGAIN.contains(&value) || value == GOES_ON {
            task.interrupted = Some(entered).filter(|_| value == GOES_ON);
            return Ok(());
        }
        let number = entered.number as u16;
        let Some(call) = calls::of(entered.number) else {
            let name = calls::name(entered.number);
            self.notes.insert(format!("what {name} gives"));
            return Ok(self.write(pid, What::Call(number), value, Given::NOTHING)?);
        };
        if call.is("rseq") {
            let mut registers = ptrace::getregs(pid)?;
            registers.rax = (-i64::from(libc::ENOSYS)).cast_unsigned();
            return Ok(ptrace::setregs(pid, registers)?);
        }
        let failed = (-4095..0).contains(&value);
        if call.is("skip") || (call.is("memory") && !failed) {
            return Ok(());
        }
        if failed {
            return Ok(self.write(pid, What::Call(number), value, Given::NOTHING)?);
        }
        let file = match call.name {
            "read" | "pread64" | "readv" | "fstat" | "lseek" => memory.file(entered.arguments[0]),
            "newfstatat" | "statx" if is_empty(memory, entered.arguments[1]) => {
                memory.file(entered.arguments[0])
            }
            "mmap" => memory.file(entered.arguments[4]),
            _ => None,
        };
        let file = file.unwrap_or_default();
        let is_random = ["/dev/urandom", "/dev/random"].iter().any(|it| file == Path::new(it));
        if call.is("random") || (is_random && ["read", "pread64"].contains(&call.name)) {
            let buffer = entered.arguments[usize::from(is_random)];
            let mut bytes = vec![0; value as usize];
            fill(&mut task.random, &mut bytes);
            let mut given = Given::NOTHING;
            if start::write(memory, buffer, &bytes).is_some() {
                given.must(&bytes);
            }
            return Ok(self.write(pid, What::Call(number), value, given)?);
        }
        if is_map_of_memory(&file) {
            self.notes.insert("addresses that /proc/self/maps told".to_owned());
            return Ok(());
        }
        if call.is("mmap") && entered.arguments[3] & libc::MAP_ANONYMOUS as u64 != 0 {
            if entered.arguments[3] & 3 == libc::MAP_SHARED as u64 {
                self.notes.insert(super::TURNS.to_owned());
            }
            return Ok(());
        }
        // The variant's libraries, as the dynamic linker loads them.
        if file.starts_with(self.how.own) && is_within(pid, task.linker, entered.address) {
            return Ok(());
        }
        let given = Returned {
            call,
            arguments: entered.arguments,
            value: value.cast_unsigned(),
            lengths: entered.lengths,
            since: self.how.since,
            memory,
            notes: &mut self.notes,
        }
        .given();
        let is_address = call.is("address") || call.is("mmap");
        if call.name == "shmat" {
            self.notes.insert(super::TURNS.to_owned());
        }
        let value = if is_address { 0 } else { value };
        Ok(self.write(pid, What::Call(number), value, given)?)
    }
}

/// Why a stop is not gone on from.
enum Stop {
    /// The thread is gone.
    Gone,
    /// The run is over.
    Failed(Failed),
}

impl From<Errno> for Stop {
    fn from(error: Errno) -> Self {
        match error {
            Errno::ESRCH => Self::Gone,
            other => Self::Failed(format!("ptrace: {}", other.desc())),
        }
    }
}

impl From<io::Error> for Stop {
    fn from(error: io::Error) -> Self {
        Self::Failed(written(error))
    }
}

/// Whether a process has one of these files open.
fn has_open(pid: Pid, streams: &[Option<std::path::PathBuf>; 2]) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{pid}/fd")) else { return false };
    let mut files = open.filter_map(|it| std::fs::read_link(it.ok()?.path()).ok());
    files.any(|file| streams.iter().flatten().any(|stream| *stream == file))
}

fn is_empty(memory: Memory, text: u64) -> bool {
    text == 0 || memory.read(text, 1) == [0]
}

/// Whether a file tells where memory is, and nothing else.
fn is_map_of_memory(file: &Path) -> bool {
    file.starts_with("/proc") && file.file_name().is_some_and(|name| name == "maps")
}

/// Whether code at an address is of the file that was loaded at `start`.
fn is_within(pid: Pid, start: u64, address: u64) -> bool {
    let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
    let file_at = |wanted: u64| {
        maps.lines().find_map(|line| {
            let (range, rest) = line.split_once(' ')?;
            let (from, to) = range.split_once('-')?;
            let [from, to] = [from, to].map(|it| u64::from_str_radix(it, 16).unwrap_or(0));
            // Behind rights and offset: device and number of the file.
            (from..to)
                .contains(&wanted)
                .then(|| rest.split(' ').skip(2).take(2).collect::<Vec<_>>())
        })
    };
    start != 0 && file_at(start).is_some_and(|file| file_at(address) == Some(file))
}

/// Random bytes, which are the same in all runs.
fn fill(state: &mut u64, bytes: &mut [u8]) {
    for chunk in bytes.chunks_mut(8) {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let word = mixed(*state).to_le_bytes();
        chunk.copy_from_slice(&word[..chunk.len()]);
    }
}

/// A number whose bits all depend on all of `number`'s (the finalizer of splitmix64).
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
