//! Running other programs, with an error that says which one and what it said.

use std::ffi::OsStr;
use std::process::{Command, Output, Stdio};

use anyhow::{Context, Result, bail};

/// How a command is written in messages.
pub fn shown(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(quoted).collect::<Vec<_>>().join(" ")
}

fn quoted(word: &OsStr) -> String {
    let text = word.to_string_lossy();
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./=:+,@%".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.into_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// Words that become a command which heeds the signals that whoever started us ignores:
/// shells ignore some for what runs in the background, and children inherit that.
pub const HEEDING_SIGNALS: [&str; 2] = ["env", "--default-signal"];

/// The command behind words that become it.
pub fn behind(words: &[&str], command: &Command) -> Command {
    let mut whole = Command::new(words[0]);
    whole.args(&words[1..]).arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        whole.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => whole.env(name, value),
            None => whole.env_remove(name),
        };
    }
    whole
}

/// Runs a command whose output goes where ours goes; anything but success is an error.
pub fn run(command: &mut Command) -> Result<()> {
    let status = command
        .stdin(Stdio::null())
        .status()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{} failed ({status})", shown(command));
    }
    Ok(())
}

/// Runs a command and keeps what it prints, whatever its status.
pub fn capture(command: &mut Command) -> Result<Output> {
    command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))
}

/// What a command prints on standard output; anything but success is an error
/// that holds the end of what it printed on standard error.
pub fn output(command: &mut Command) -> Result<String> {
    let output = capture(command)?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr);
        bail!("{} failed ({}): {}", shown(command), output.status, tail(&said, 8));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The last lines of a text.
pub fn tail(text: &str, lines: usize) -> String {
    let all: Vec<&str> = text.trim_end().lines().collect();
    all[all.len().saturating_sub(lines)..].join("\n")
}

/// Whether a program of this name is on the search path.
pub fn exists(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;

    use super::*;

    #[test]
    fn what_is_ignored_is_not_inherited() {
        let mut kill = Command::new("sh");
        kill.args(["-c", "test \"$IT\" && kill -INT $$; exit 3"]).env("IT", "is there");
        for (words, signal) in [(&["nohup"][..], None), (&HEEDING_SIGNALS, Some(2))] {
            let ignoring = ["sh", "-c", "trap '' INT; exec \"$@\"", "sh"];
            let mut whole = behind(&[&ignoring, words].concat(), &kill);
            let status = whole.stdout(Stdio::null()).stderr(Stdio::null()).status().unwrap();
            assert_eq!(status.signal(), signal, "{words:?}: {status}");
        }
    }

    #[test]
    fn a_failure_names_the_command_and_what_it_said() {
        let error = output(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("sh -c 'echo broken >&2; exit 3'"), "{text}");
        assert!(text.contains("exit status: 3") && text.ends_with("broken"), "{text}");
    }
}
