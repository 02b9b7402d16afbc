//! Core dumps of programs that crash.
//!
//! The kernel writes them into the working directory where it is set to, and where it
//! hands them to somebody else, gdb runs the program and writes what gcore writes. No
//! setting is changed.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::Result;

const PATTERN: &str = "/proc/sys/kernel/core_pattern";

/// A command that may leave a core, in the environment of another.
pub fn limited(dying: &Command) -> Command {
    let mut sh = Command::new("sh");
    // Where cores may not be large, gdb is asked.
    sh.args(["-c", "ulimit -c unlimited 2> /dev/null; exec \"$0\" \"$@\""]);
    as_words(&mut sh, dying);
    sh
}

/// gdb, which runs a command and writes a core of it where it dies.
pub fn by_debugger(dying: &Command) -> Command {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set startup-with-shell off"]);
    for signal in ["SIGUSR1", "SIGUSR2"] {
        gdb.args(["-ex", &format!("handle {signal} nostop noprint pass")]);
    }
    gdb.args(["-ex", "run", "-ex", "generate-core-file core", "--args"]);
    as_words(&mut gdb, dying);
    gdb
}

fn as_words(runner: &mut Command, command: &Command) {
    runner.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => runner.env(name, value),
            None => runner.env_remove(name),
        };
    }
}

/// The core that was left in a folder: the last one, if several processes died.
pub fn left(folder: &Path) -> Result<Option<PathBuf>> {
    let mut cores = cores(folder)?;
    cores.sort_by_key(|it| it.metadata().and_then(|it| it.modified()).ok());
    Ok(cores.pop())
}

/// Removes the cores of a folder.
pub fn remove(folder: &Path) -> Result<()> {
    Ok(cores(folder)?.into_iter().try_for_each(std::fs::remove_file)?)
}

fn cores(folder: &Path) -> Result<Vec<PathBuf>> {
    let entries = std::fs::read_dir(folder)?.flatten().map(|it| it.path());
    Ok(entries.filter(|it| it.file_name().and_then(OsStr::to_str).is_some_and(is_core)).collect())
}

/// Whether the kernel gives cores such a name.
fn is_core(name: &str) -> bool {
    let number = name.strip_prefix("core.").unwrap_or_default();
    name == "core" || !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
}

/// Why there may be no core.
pub fn settings() -> String {
    let pattern = std::fs::read_to_string(PATTERN).unwrap_or_default();
    format!("neither the kernel nor gdb wrote a core; kernel.core_pattern is {:?}", pattern.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cores_are_found_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["core.zst", "cores", "core."] {
            std::fs::write(path(name), "").unwrap();
        }
        assert_eq!(left(folder.path()).unwrap(), None);
        std::fs::write(path("core.12"), "").unwrap();
        assert_eq!(left(folder.path()).unwrap(), Some(path("core.12")));
        remove(folder.path()).unwrap();
        assert_eq!(left(folder.path()).unwrap(), None);
        assert!(path("cores").is_file());
    }

    #[test]
    fn limits_keep_words_and_environment() {
        let mut dying = Command::new("printenv");
        dying.arg("OWN").env("OWN", "value");
        assert_eq!(crate::command::output(&mut limited(&dying)).unwrap(), "value\n");
    }
}
