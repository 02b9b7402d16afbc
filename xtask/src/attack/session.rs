//! Commands in sessions of their own, so that what they leave running is found.
//!
//! A process can leave its parent and its group without meaning to, but its session
//! only by a call that few programs make. What is looked at and what is ended here are
//! the processes of sessions that were started here, and no others.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use nix::errno::Errno;
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use crate::command;

/// How often a command is looked at.
const LOOK: Duration = Duration::from_millis(2);

/// How long processes may take to be gone that were ended by somebody else. Programs
/// that are left by mistake run longer.
const GONE: Duration = Duration::from_secs(2);

/// The most that is kept of what a command prints.
const PRINTED: usize = 64 << 20;

/// A command that was started in a session of its own. What is left of it ends when
/// this goes.
pub struct Session {
    child: Child,
    ended: Option<ExitStatus>,
    printed: PathBuf,
}

/// A process of a session.
struct Process {
    id: i32,
    name: String,
}

impl Session {
    /// Starts a command, which prints into files `stdout` and `stderr` in a folder.
    pub fn start(command: &Command, printed: &Path) -> Result<Self> {
        // It becomes the command: a process that was just started leads no group.
        let words = [&["setsid"], &command::HEEDING_SIGNALS[..]].concat();
        let mut session = command::behind(&words, command);
        let file = |name| File::create(printed.join(name)).context("cannot write what is printed");
        session.stdin(Stdio::null()).stdout(file("stdout")?).stderr(file("stderr")?);
        let child = session.spawn().context("setsid comes with Debian's package util-linux")?;
        Ok(Self { child, ended: None, printed: printed.to_owned() })
    }

    fn id(&self) -> i32 {
        self.child.id().cast_signed()
    }

    /// How the command ended, if it has.
    pub fn ended(&mut self) -> Result<Option<ExitStatus>> {
        if self.ended.is_none() {
            self.ended = self.child.try_wait()?;
        }
        Ok(self.ended)
    }

    /// Waits until something is so, the command has ended, or patience has; whether it
    /// was so.
    pub fn wait_until(&mut self, patience: Duration, is_so: impl Fn() -> bool) -> Result<bool> {
        let start = Instant::now();
        while !is_so() {
            if self.ended()?.is_some() || start.elapsed() > patience {
                return Ok(is_so());
            }
            std::thread::sleep(LOOK);
        }
        Ok(true)
    }

    /// How the command ends; nothing if patience does before.
    pub fn wait(&mut self, patience: Duration) -> Result<Option<ExitStatus>> {
        self.wait_until(patience, || false)?;
        self.ended()
    }

    /// Sends a signal to the command, or to its group; whether it was still there.
    pub fn signal(&mut self, signal: Signal, to_group: bool) -> Result<bool> {
        // Until it was waited for, its number is nobody else's.
        if self.ended()?.is_some() {
            return Ok(false);
        }
        let id = Pid::from_raw(self.id());
        match if to_group { killpg(id, signal) } else { kill(id, signal) } {
            Ok(()) => Ok(true),
            // A group that has ended, or one that is not there yet.
            Err(Errno::ESRCH) => Ok(false),
            Err(error) => Err(error).context("cannot send a signal"),
        }
    }

    /// The processes that are left, once those are gone that somebody ended.
    pub fn left(&self) -> Result<Vec<String>> {
        let start = Instant::now();
        loop {
            let left = self.processes()?;
            if left.is_empty() || start.elapsed() > GONE {
                return Ok(left.into_iter().map(|it| it.name).collect());
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Ends all that is left.
    pub fn end(&mut self) -> Result<()> {
        loop {
            let left = self.processes()?;
            if left.is_empty() && self.ended()?.is_some() {
                return Ok(());
            }
            for process in left {
                let _ = kill(Pid::from_raw(process.id), Signal::SIGKILL);
            }
            std::thread::sleep(LOOK);
        }
    }

    /// What was printed, on standard output or standard error.
    pub fn printed(&self, name: &str) -> Result<Vec<u8>> {
        use std::io::Read as _;
        let mut bytes = Vec::new();
        let file = File::open(self.printed.join(name))?;
        file.take(PRINTED as u64).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// The processes of the session that live.
    fn processes(&self) -> Result<Vec<Process>> {
        let mut found = Vec::new();
        for entry in std::fs::read_dir("/proc").context("no /proc")?.flatten() {
            let name = entry.file_name();
            let Some(id) = name.to_str().and_then(|it| it.parse::<i32>().ok()) else { continue };
            // One that ended meanwhile has no file.
            let Ok(stat) = std::fs::read_to_string(entry.path().join("stat")) else { continue };
            let Some((state, session, name)) = read_stat(&stat) else { continue };
            if session == self.id() && !["Z", "X"].contains(&state) {
                found.push(Process { id, name: name.to_owned() });
            }
        }
        Ok(found)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Nobody can be told here; what cannot be listed cannot be ended.
        let _ = self.end();
    }
}

/// State, session and name of `ID (NAME) STATE PARENT GROUP SESSION …`.
fn read_stat(stat: &str) -> Option<(&str, i32, &str)> {
    // A name may have brackets in it, but none of the fields behind it has.
    let (before, behind) = stat.rsplit_once(')')?;
    let name = before.split_once('(')?.1;
    let mut fields = behind.split_whitespace();
    let state = fields.next()?;
    Some((state, fields.nth(2)?.parse().ok()?, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Duration = Duration::from_secs(60);

    #[test]
    fn sessions_are_read_whatever_programs_are_called() {
        assert_eq!(read_stat("12 (a) b) S 1 2 34 0 -1"), Some(("S", 34, "a) b")));
        assert_eq!(read_stat("12 (a"), None);
    }

    #[test]
    fn what_a_command_leaves_is_found_and_ended() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo begun; exit 3"]);
        let mut session = Session::start(&command, folder.path()).unwrap();
        let ended = session.wait(PATIENCE).unwrap().unwrap();
        assert_eq!(ended.code(), Some(3));
        assert_eq!(session.printed("stdout").unwrap(), b"begun\n");
        assert_eq!(session.left().unwrap(), ["sleep"]);
        assert!(!session.signal(Signal::SIGTERM, true).unwrap());
        session.end().unwrap();
        assert!(session.left().unwrap().is_empty());
    }

    #[test]
    fn a_signal_reaches_a_command_or_all_of_its_group() {
        let folder = tempfile::tempdir().unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo begun; wait"]);
        for to_group in [true, false] {
            let mut session = Session::start(&command, folder.path()).unwrap();
            let begun = || std::fs::read(folder.path().join("stdout")).unwrap() == b"begun\n";
            assert!(session.wait_until(PATIENCE, begun).unwrap());
            assert!(session.signal(Signal::SIGKILL, to_group).unwrap());
            assert_eq!(session.wait(PATIENCE).unwrap().unwrap().code(), None);
            assert_eq!(session.left().unwrap().is_empty(), to_group);
        }
    }
}
