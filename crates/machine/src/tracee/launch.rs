//! Starting a program and stopping it where its code begins.
//!
//! The dynamic linker has done its work then: libraries are there, and what the
//! file asks to be written into it has been.

use std::ffi::{OsStr, OsString};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt as _;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use backtrail_foreign::file;
use nix::errno::Errno;
use nix::libc::{self, user_regs_struct};
use nix::sched::{CpuSet, sched_getaffinity, sched_getcpu, sched_setaffinity};
use nix::sys::personality::{self, Persona};
use nix::sys::ptrace;
use nix::unistd::Pid;

use super::layout::{AT_ENTRY, Layout};
use super::sys::{self, Status};
use crate::Error;
use crate::code::Code;

/// What to run.
pub struct Launch<'a> {
    /// The executable.
    pub executable: &'a Path,
    /// The name it is started under.
    pub name: &'a OsStr,
    /// Its arguments.
    pub arguments: &'a [OsString],
    /// What it reads; inherited if nothing is said.
    pub input: Option<File>,
    /// Where it prints to; inherited if nothing is said.
    pub output: Option<Stdio>,
    /// Where it complains to; inherited if nothing is said.
    pub errors: Option<Stdio>,
    /// What is to be done with the command before it is started; all signals are blocked
    /// until it runs.
    pub prepare: Option<&'a dyn Fn(&mut Command)>,
}

/// A program that is being traced, stopped. Dropping it ends the program.
pub struct Tracee {
    pub(super) pid: Pid,
    child: Child,
    pub(super) memory: File,
    executable: PathBuf,
    /// What to add to the addresses of the executable's file.
    pub bias: u64,
    /// Where the code is that is seen.
    pub(super) layout: Layout,
    /// Threads it started.
    pub(super) threads: Vec<Pid>,
    /// By module: memory for code, within reach of its own, and how much.
    pub(super) scratch: Vec<(u64, u64)>,
    pub(super) is_gone: bool,
}

impl Drop for Tracee {
    fn drop(&mut self) {
        if !self.is_gone {
            let _ = self.child.kill();
            // Its threads before itself; each may have more to say before it is gone. One
            // that stopped when it was about to end anyway does not go on by itself.
            for thread in self.threads.iter().copied().chain([self.pid]) {
                let _ = sys::go_on(thread, None);
                while let Ok(status) = sys::wait(Some(thread), libc::__WALL) {
                    if status.is_end() {
                        break;
                    }
                    let _ = sys::go_on(thread, None);
                }
            }
        }
    }
}

const FORBIDDEN: &str = "the system forbids ptrace: see kernel.yama.ptrace_scope, and whether a \
                         container's seccomp profile allows it";

/// The instruction that stops.
pub(super) const BREAKPOINT: u8 = 0xcc;

impl Launch<'_> {
    /// Starts the program and stops it at its entry point.
    pub fn start(self, code: &Code) -> Result<Tracee, Error> {
        let executable = self.executable.to_owned();
        refuse_privileges(&executable)?;
        stay_on_one_core();
        if let Ok(persona) = personality::get() {
            // Inherited by the program; of no consequence for this process.
            let _ = personality::set(persona | Persona::ADDR_NO_RANDOMIZE);
        }
        let mut command = Command::new(self.executable);
        command.arg0(self.name).args(self.arguments);
        if let Some(input) = self.input {
            command.stdin(input);
        }
        if let Some(output) = self.output {
            command.stdout(output);
        }
        if let Some(errors) = self.errors {
            command.stderr(errors);
        }
        if let Some(prepare) = self.prepare {
            prepare(&mut command);
        }
        let (child, mask) = sys::spawn_traced(&mut command).map_err(|source| {
            let path = executable.clone();
            // A file that may not be executed is another error (`EACCES`).
            match source.raw_os_error().map(Errno::from_raw) {
                Some(Errno::EPERM) => Error::Trace { path, what: FORBIDDEN.to_owned() },
                _ => Error::Start { path, source },
            }
        })?;
        let pid = Pid::from_raw(child.id() as i32);
        let wrong = |what: &str| Error::Trace { path: executable.clone(), what: what.to_owned() };
        match sys::wait(Some(pid), libc::__WALL) {
            Ok(Status::Stopped(_, libc::SIGTRAP)) => {}
            _ => return Err(wrong("it did not stop when it was started")),
        }
        let memory = OpenOptions::new().read(true).write(true).open(format!("/proc/{pid}/mem"));
        let memory = memory.map_err(|error| wrong(&format!("its memory is closed: {error}")));
        let mut tracee = Tracee {
            pid,
            child,
            memory: match memory {
                Ok(memory) => memory,
                Err(error) => {
                    let _ = ptrace::kill(pid);
                    return Err(error);
                }
            },
            executable: executable.clone(),
            bias: 0,
            layout: Layout::default(),
            threads: Vec::new(),
            scratch: Vec::new(),
            is_gone: false,
        };
        let options = ptrace::Options::PTRACE_O_EXITKILL
            | ptrace::Options::PTRACE_O_TRACEEXIT
            | ptrace::Options::PTRACE_O_TRACEFORK
            | ptrace::Options::PTRACE_O_TRACEVFORK
            | ptrace::Options::PTRACE_O_TRACECLONE
            | ptrace::Options::PTRACE_O_TRACEEXEC;
        ptrace::setoptions(pid, options).map_err(|error| tracee.failed(error))?;
        sys::set_mask(pid, mask).map_err(|error| tracee.failed(error))?;
        let entry = code.blocks[code.routines[code.entry].head].start;
        let loaded =
            tracee.auxiliary(AT_ENTRY).ok_or_else(|| wrong("its entry point is not known"))?;
        tracee.bias = loaded.wrapping_sub(entry);
        tracee.run_to(loaded)?;
        tracee.locate(code)?;
        tracee.map_scratch(code)?;
        Ok(tracee)
    }
}

/// The kernel gives a program that is traced no privileges: it would be another.
fn refuse_privileges(path: &Path) -> Result<(), Error> {
    if !file::gains_privileges(path) {
        return Ok(());
    }
    Err(Error::Trace {
        path: path.to_owned(),
        what: "it is set-user-id or set-group-id, or has capabilities, and a traced program gets \
               no privileges: trace a copy, or as its owner"
            .to_owned(),
    })
}

/// Keeps this thread, and what it starts, on the core it is on.
fn stay_on_one_core() {
    let own = Pid::from_raw(0);
    let Ok(allowed) = sched_getaffinity(own) else { return };
    let is_allowed = |core: &usize| allowed.is_set(*core).unwrap_or(false);
    let own_core = sched_getcpu().ok().filter(is_allowed);
    let Some(core) = own_core.or_else(|| (0..CpuSet::count()).find(is_allowed)) else { return };
    let mut one = CpuSet::new();
    if one.set(core).is_ok() {
        let _ = sched_setaffinity(own, &one);
    }
}

impl Tracee {
    /// Its process id.
    pub fn id(&self) -> u32 {
        self.pid.as_raw() as u32
    }

    pub(super) fn executable(&self) -> &Path {
        &self.executable
    }

    pub(super) fn failed(&self, error: Errno) -> Error {
        let what = match error {
            Errno::EPERM => FORBIDDEN.to_owned(),
            Errno::ESRCH => "it was ended from outside".to_owned(),
            other => other.desc().to_lowercase(),
        };
        Error::Trace { path: self.executable.clone(), what }
    }

    pub(super) fn wrong(&self, what: impl Into<String>) -> Error {
        Error::Trace { path: self.executable.clone(), what: what.into() }
    }

    pub(super) fn ended_by(&self, signal: i32) -> Error {
        Error::EndedBySignal { path: self.executable.clone(), signal }
    }

    pub(super) fn registers(&self) -> Result<user_regs_struct, Error> {
        self.registers_of(self.pid)
    }

    pub(super) fn registers_of(&self, thread: Pid) -> Result<user_regs_struct, Error> {
        ptrace::getregs(thread).map_err(|error| self.failed(error))
    }

    pub(super) fn set_registers(&self, registers: user_regs_struct) -> Result<(), Error> {
        ptrace::setregs(self.pid, registers).map_err(|error| self.failed(error))
    }

    pub(super) fn wait(&self) -> Result<Status, Error> {
        sys::wait(Some(self.pid), libc::__WALL).map_err(|error| self.failed(error))
    }

    pub(super) fn read(&self, address: u64, bytes: &mut [u8]) -> Result<(), Error> {
        self.memory.read_exact_at(bytes, address).map_err(|error| self.unreadable(address, error))
    }

    /// Writes into its memory, whatever the protection there is.
    pub(super) fn write(&self, address: u64, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write_all_at(bytes, address).map_err(|error| self.unreadable(address, error))
    }

    fn unreadable(&self, address: u64, error: io::Error) -> Error {
        self.wrong(format!("its memory at {address:#x} is closed: {error}"))
    }

    /// Puts a breakpoint; the byte that was there.
    pub(super) fn put_breakpoint(&self, address: u64) -> Result<u8, Error> {
        let mut byte = [0];
        self.read(address, &mut byte)?;
        self.write(address, &[BREAKPOINT])?;
        Ok(byte[0])
    }

    /// Runs until it comes to an address.
    fn run_to(&mut self, address: u64) -> Result<(), Error> {
        let byte = self.put_breakpoint(address)?;
        let mut signal = None;
        loop {
            sys::go_on(self.pid, signal).map_err(|error| self.failed(error))?;
            signal = None;
            match self.wait()? {
                Status::Stopped(_, libc::SIGTRAP) => break,
                Status::Stopped(_, other) => signal = Some(other),
                Status::Killed(_, signal) => {
                    self.is_gone = true;
                    return Err(self.ended_by(signal));
                }
                Status::Exited(..) => {
                    self.is_gone = true;
                    return Err(self.wrong(
                        "it ended before its own code began: a library may be missing, run it by itself",
                    ));
                }
                _ => {}
            }
        }
        let mut registers = self.registers()?;
        if registers.rip != address + 1 {
            return Err(self.wrong("it stopped before its own code began"));
        }
        self.write(address, &[byte])?;
        registers.rip = address;
        self.set_registers(registers)
    }
}
