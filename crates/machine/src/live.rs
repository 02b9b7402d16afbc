//! A process that lives: stopped while it is looked at, as a debugger would.
//!
//! What a core tells in notes is read from `/proc/PID`, and memory through
//! `/proc/PID/mem`, in which an address is an offset: so a live process is a
//! core of which everything was dumped. All threads are seized and interrupted
//! (`PTRACE_SEIZE`, which, other than `PTRACE_ATTACH`, sends no signal that the
//! program could see) and go on when this is dropped. A signal that arrived in
//! between is delivered then.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use nix::errno::Errno;
use nix::sys::ptrace;
use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Error;
use crate::bytes::Bytes;
use crate::core_file::notes::{MappedFile, Notes, Program, Thread};
use crate::core_file::{CoreFile, Segment};
use crate::registers::Registers;

/// Threads that are stopped until this is dropped, and the signals they still
/// have to get.
#[derive(Debug)]
pub(crate) struct Stopped {
    threads: BTreeMap<i32, Option<Signal>>,
}

impl Drop for Stopped {
    fn drop(&mut self) {
        for (&thread, &signal) in &self.threads {
            // One that is gone needs nothing.
            let _ = ptrace::detach(Pid::from_raw(thread), signal);
        }
    }
}

/// Stops a process and describes it as a core would.
pub(crate) fn stop(pid: u32) -> Result<(CoreFile, Stopped), Error> {
    let wrong = |what: String| Error::Live { pid, what };
    let mut stopped = Stopped { threads: BTreeMap::new() };
    let mut threads = Vec::new();
    // Threads may start while others are being stopped: until none is new.
    loop {
        let new: Vec<i32> = list_threads(pid)
            .map_err(|_| missing(pid))?
            .into_iter()
            .filter(|thread| !stopped.threads.contains_key(thread))
            .collect();
        if new.is_empty() {
            break;
        }
        for thread in new {
            match stop_thread(thread) {
                Ok(signal) => stopped.threads.insert(thread, signal),
                // It ended meanwhile.
                Err(Errno::ESRCH) if thread as u32 != pid => continue,
                Err(Errno::ESRCH) => return Err(missing(pid)),
                Err(error) => return Err(wrong(refusal(error))),
            };
            let registers = ptrace::getregs(Pid::from_raw(thread));
            let registers = registers.map_err(|error| wrong(refusal(error)))?;
            threads.push(describe_thread(thread, &registers));
        }
    }
    threads.sort_by_key(|thread| (thread.id != pid, thread.id));
    let core = describe(pid, threads).map_err(|error| wrong(error.to_string()))?;
    Ok((core, stopped))
}

/// Describes a process that somebody else has stopped, but for its threads.
pub(crate) fn of_stopped(pid: u32) -> Result<CoreFile, Error> {
    describe(pid, Vec::new()).map_err(|error| Error::Live { pid, what: error.to_string() })
}

fn missing(pid: u32) -> Error {
    let path = PathBuf::from(format!("/proc/{pid}"));
    Error::Core { path, what: "there is no such process".to_owned() }
}

fn list_threads(pid: u32) -> std::io::Result<Vec<i32>> {
    let entries = fs::read_dir(format!("/proc/{pid}/task"))?;
    Ok(entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect())
}

/// Stops a thread; the signal that it was about to get, if one came first.
fn stop_thread(thread: i32) -> Result<Option<Signal>, Errno> {
    let thread = Pid::from_raw(thread);
    ptrace::seize(thread, ptrace::Options::empty())?;
    ptrace::interrupt(thread)?;
    loop {
        match waitpid(thread, Some(WaitPidFlag::__WALL)) {
            Ok(WaitStatus::Stopped(_, signal)) => return Ok(Some(signal)),
            Ok(WaitStatus::Exited(..) | WaitStatus::Signaled(..)) => return Err(Errno::ESRCH),
            Ok(_) => return Ok(None),
            Err(Errno::EINTR) => {}
            Err(error) => return Err(error),
        }
    }
}

fn refusal(error: Errno) -> String {
    match error {
        Errno::EPERM => "the system does not allow to look at it: it is another user's, or is \
                         traced already, or kernel.yama.ptrace_scope or seccomp forbid ptrace"
            .to_owned(),
        Errno::ESRCH => "it ended while it was being looked at".to_owned(),
        other => format!("it cannot be stopped: {}", other.desc().to_lowercase()),
    }
}

fn describe_thread(id: i32, registers: &nix::libc::user_regs_struct) -> Thread {
    Thread { id: id as u32, signal: 0, registers: Registers::of_thread(registers), info: None }
}

fn describe(pid: u32, threads: Vec<Thread>) -> std::io::Result<CoreFile> {
    let of = |name: &str| PathBuf::from(format!("/proc/{pid}/{name}"));
    let auxiliary = fs::read(of("auxv"))?;
    let pairs = auxiliary.chunks_exact(16).map(Bytes).map(|pair| (pair.word(0), pair.word(8)));
    let auxiliary = pairs.take_while(|&(kind, _)| kind != 0).collect();
    let command = fs::read(of("cmdline"))?;
    let command = String::from_utf8_lossy(&command).replace('\0', " ").trim_end().to_owned();
    let name = fs::read_to_string(of("comm"))?.trim_end().to_owned();
    let (segments, files) = read_maps(&fs::read(of("maps"))?);
    let path = of("mem");
    Ok(CoreFile {
        file: File::open(&path)?,
        path,
        notes: Notes { threads, program: Some(Program { pid, name, command }), auxiliary, files },
        segments,
        remarks: Vec::new(),
        complete: true,
        length: i64::MAX as u64,
    })
}

/// The mappings, and those of them that are of files (`proc_pid_maps(5)`).
fn read_maps(maps: &[u8]) -> (Vec<Segment>, Vec<MappedFile>) {
    let (mut segments, mut files) = (Vec::new(), Vec::new());
    for line in maps.split(|&byte| byte == b'\n') {
        let mut words = line.splitn(6, |&byte| byte == b' ');
        let mut bytes = || words.next().unwrap_or_default();
        let mut word = || std::str::from_utf8(bytes()).unwrap_or_default();
        let (range, flags, offset, _, node) = (word(), word(), word(), word(), word());
        let path = bytes().trim_ascii_start();
        let hexadecimal = |word: &str| u64::from_str_radix(word, 16).ok();
        let range = range.split_once('-');
        let range = range.and_then(|(from, to)| Some((hexadecimal(from)?, hexadecimal(to)?)));
        let (Some((start, end)), Some(offset)) = (range, hexadecimal(offset)) else { continue };
        segments.push(Segment {
            start,
            size: end.saturating_sub(start),
            offset: start,
            dumped: end.saturating_sub(start),
            writable: flags.contains('w'),
            executable: flags.contains('x'),
        });
        if node != "0" && path.starts_with(b"/") {
            let path = PathBuf::from(OsStr::from_bytes(path));
            files.push(MappedFile { start, end, offset, path });
        }
    }
    (segments, files)
}

#[cfg(test)]
mod tests {
    use std::os::unix::ffi::OsStrExt as _;

    use super::read_maps;

    #[test]
    fn mappings_of_files_are_told_from_others() {
        let maps = b"5581-5582 r-xp 00001000 fe:00 77    /usr/bin/a b\xff\n\
                    7ffc00-7ffd00 rw-p 00000000 00:00 0       [stack]\n\
                    damage\n";
        let (segments, files) = read_maps(maps);
        assert_eq!(segments.len(), 2);
        assert!(segments[0].executable && segments[1].writable);
        assert_eq!((segments[1].start, segments[1].size), (0x7ffc00, 0x100));
        assert_eq!(files.len(), 1);
        assert_eq!(files[0].offset, 0x1000);
        assert_eq!(files[0].path.as_os_str().as_bytes(), b"/usr/bin/a b\xff");
    }
}
