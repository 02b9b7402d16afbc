//! Breakpoints that the program takes itself: the handler of
//! [`backtrail_agent`], put into it where it begins.
//!
//! Three times as fast as a stop for each hit, and less is known: the program is not
//! traced while it runs. Only where it ends does it stop, to be looked at. So:
//!
//! - landings need frames, and are stops: with any, this is not used;
//! - a program that blocks `SIGTRAP`, or has a handler of its own for it, dies of the
//!   first breakpoint, which is told;
//! - a program whose run does not end with `_exit` of its C library leaves no frames.
//!
//! The program does not outlive this process (`PR_SET_PDEATHSIG`).

use std::fs::File;
use std::io::{BufReader, Read as _, Seek as _, SeekFrom};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

use backtrail_agent::{self as agent, Header, LOG_START, LogHeader};
use nix::libc::{self, user_regs_struct};
use nix::sys::ptrace;
use nix::sys::signal::{Signal, kill};

use super::breakpoints::{Breakpoints, Ran, Stop};
use super::frames::{self, Frames};
use super::sys::{self, Status};
use super::untraced::Untraced;
use super::{Ended, SIGTRAP_IS_ITS_OWN, Tracee};
use crate::Error;

/// How many hits are recorded at most. The file is sparse.
const CAPACITY: u64 = 1 << 31;

impl Breakpoints<'_> {
    /// As [`Self::run`], with a handler in the program, where that is possible. Hits
    /// are kept in `folder` until the program has ended; only then are they given to
    /// `visit`.
    pub fn run_in_process(
        &self,
        tracee: &mut Tracee,
        folder: &Path,
        mut visit: impl FnMut(usize, Stop<'_>) -> Result<(), Error>,
    ) -> Result<Ran, Error> {
        if self.is_landing.contains(&true) && self.code.modules.len() == 1 {
            return self.run(tracee, visit);
        }
        if self.code.modules.len() > 1 {
            return Err(tracee.wrong(
                "the handler inside of it is for the executable alone: trace libraries without it",
            ));
        }
        let path = folder.join("hits");
        let unwritable = |source| Error::Write { path: path.clone(), source };
        let file = File::options().read(true).write(true).create(true).truncate(true).open(&path);
        let file = file.map_err(unwritable)?;
        file.set_len(LOG_START + 4 * CAPACITY).map_err(unwritable)?;
        let placed = self.place(tracee)?;
        let table: Vec<u8> = placed.numbers().flat_map(u32::to_le_bytes).collect();
        install(tracee, &path, &table, placed.start())?;
        ptrace::detach(tracee.pid, None).map_err(|error| tracee.failed(error))?;
        let mut frames = Frames::new();
        let mut untraced = Untraced::default();
        let mut at_end: Option<Vec<u64>> = None;
        let ended = loop {
            match sys::wait(Some(tracee.pid), libc::WUNTRACED | libc::__WALL) {
                Ok(Status::Exited(_, status)) => break Ended::Exited(status),
                Ok(Status::Killed(_, signal)) => break Ended::Killed(signal),
                Ok(Status::Stopped(_, libc::SIGSTOP)) => {
                    let log = read_log(&file).map_err(unwritable)?;
                    if log.context != 0 {
                        let registers = registers_of(tracee, log.context)?;
                        untraced.note_memory(tracee, tracee.pid, &self.traced_files());
                        at_end = frames.of_ending(tracee, tracee.pid, &registers)?;
                        let _ = kill(tracee.pid, Signal::SIGCONT);
                    }
                }
                Ok(_) => {}
                Err(error) => return Err(tracee.failed(error)),
            }
        };
        tracee.is_gone = true;
        let log = read_log(&file).map_err(unwritable)?;
        if log.threads != 0 {
            return Err(tracee.wrong(
                "it starts a thread, and the handler inside of it is for one only: trace it \
                 without one",
            ));
        }
        if ended == Ended::Killed(Signal::SIGTRAP as i32) {
            return Err(tracee.wrong(SIGTRAP_IS_ITS_OWN));
        }
        if ended == Ended::Killed(Signal::SIGBUS as i32) {
            // What memory does where a file cannot grow; unless it was the program's own.
            let next = LOG_START + 4 * log.count;
            file.write_all_at(&[0; 4096], next).map_err(unwritable)?;
        }
        if log.count > CAPACITY {
            return Err(tracee.wrong("more breakpoints were hit than can be recorded"));
        }
        let mut reader = BufReader::with_capacity(1 << 16, file);
        reader.seek(SeekFrom::Start(LOG_START)).map_err(unwritable)?;
        for _ in 0..log.count {
            let mut number = [0; 4];
            reader.read_exact(&mut number).map_err(unwritable)?;
            let number = u32::from_le_bytes(number) as usize;
            if number >= self.blocks.len() {
                return Err(tracee.wrong("it wrote into memory of its tracer"));
            }
            visit(0, Stop::At(number))?;
        }
        if let Some(frames) = &at_end {
            visit(0, Stop::Ending(frames))?;
        }
        let _ = std::fs::remove_file(&path);
        Ok(Ran { ended, replaced: false, stops: log.count, untraced })
    }
}

fn read_log(mut file: &File) -> std::io::Result<LogHeader> {
    let mut bytes = [0; 24];
    file.seek(SeekFrom::Start(0))?;
    file.read_exact(&mut bytes)?;
    let word = |at: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[at..at + 8]);
        u64::from_le_bytes(word)
    };
    Ok(LogHeader { count: word(0), threads: word(8), context: word(16) })
}

/// The registers that the kernel saved before it called the handler: `ucontext_t` of
/// `<sys/ucontext.h>`, from r8 to rip.
fn registers_of(tracee: &Tracee, context: u64) -> Result<user_regs_struct, Error> {
    let mut bytes = [0; 17 * 8];
    tracee.read(context.wrapping_add(agent::CONTEXT_REGISTERS), &mut bytes)?;
    let word = |number: usize| {
        let mut word = [0; 8];
        word.copy_from_slice(&bytes[8 * number..8 * number + 8]);
        u64::from_le_bytes(word)
    };
    Ok(user_regs_struct {
        r8: word(0),
        r9: word(1),
        r10: word(2),
        r11: word(3),
        r12: word(4),
        r13: word(5),
        r14: word(6),
        r15: word(7),
        rdi: word(8),
        rsi: word(9),
        rbp: word(10),
        rbx: word(11),
        rdx: word(12),
        rax: word(13),
        rcx: word(14),
        rsp: word(15),
        // Behind the breakpoint.
        rip: word(16).wrapping_sub(1),
        orig_rax: u64::MAX,
        cs: 0,
        eflags: 0,
        ss: 0,
        fs_base: 0,
        gs_base: 0,
        ds: 0,
        es: 0,
        fs: 0,
        gs: 0,
    })
}

/// Puts the handler into the program, which is stopped where it begins.
fn install(tracee: &Tracee, log: &Path, table: &[u8], start: u64) -> Result<(), Error> {
    let registers = tracee.registers()?;
    let exit = frames::function_of_c_library(tracee, "_exit")?.unwrap_or(0);
    // Words for system calls, below what the program uses of its stack.
    let place = (registers.rsp - 8192) & !0xf;
    let mut name = log.as_os_str().as_bytes().to_vec();
    name.push(0);
    if name.len() > 4096 {
        return Err(tracee.wrong("the path of its records is too long"));
    }
    tracee.write(place, &name)?;
    let flags = (libc::O_RDWR | libc::O_CLOEXEC) as u64;
    let file = tracee.call(libc::SYS_open, [place, flags, 0, 0, 0, 0])?;
    let both = (libc::PROT_READ | libc::PROT_WRITE) as u64;
    let shared = (libc::MAP_SHARED | libc::MAP_NORESERVE) as u64;
    let size = LOG_START + 4 * CAPACITY;
    let log = tracee.call(libc::SYS_mmap, [0, size, both, shared, file, 0])?;
    tracee.call(libc::SYS_close, [file, 0, 0, 0, 0, 0])?;
    let private = (libc::MAP_PRIVATE | libc::MAP_ANONYMOUS) as u64;
    let size = 4096 + (table.len() as u64).next_multiple_of(4096);
    let data = tracee.call(libc::SYS_mmap, [0, size, both, private, u64::MAX, 0])?;
    let alive = tracee.call(libc::SYS_mmap, [0, 4096, both, private, u64::MAX, 0])?;
    let wiped = libc::MADV_WIPEONFORK as u64;
    tracee.call(libc::SYS_madvise, [alive, 4096, wiped, 0, 0, 0])?;
    tracee.write(alive, &1u64.to_le_bytes())?;
    let header = Header {
        start,
        length: table.len() as u64 / 4,
        table: data + 4096,
        log,
        alive,
        thread: registers.fs_base,
        slots: tracee.slots_of(0),
        capacity: CAPACITY,
        exit,
        process: u64::from(tracee.id()),
        default: [0; 4],
    };
    tracee.write(data, &header.bytes())?;
    tracee.write(data + 4096, table)?;
    let mut code = agent::code().to_vec();
    let word = code.len() - 8;
    code[word..].copy_from_slice(&data.to_le_bytes());
    let handler = tracee.agent_place();
    tracee.write(handler, &code)?;
    // As the kernel reads it: handler, flags, restorer, mask.
    const SA_RESTORER: u64 = 0x0400_0000;
    // No other signal comes while it notes a hit: a handler of the program would come to
    // a breakpoint, and the kernel ends a program that does while SIGTRAP is blocked.
    let mask = u64::MAX;
    let action =
        [handler, libc::SA_SIGINFO as u64 | SA_RESTORER, handler + agent::restorer() as u64, mask];
    let action: Vec<u8> = action.into_iter().flat_map(u64::to_le_bytes).collect();
    tracee.write(place, &action)?;
    let trap = libc::SIGTRAP as u64;
    tracee.call(libc::SYS_rt_sigaction, [trap, place, 0, 8, 0, 0])?;
    let (death, by) = (libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64);
    tracee.call(libc::SYS_prctl, [death, by, 0, 0, 0, 0])?;
    if exit != 0 {
        tracee.put_breakpoint(exit)?;
    }
    Ok(())
}
