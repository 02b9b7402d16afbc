//! Scripts, which are given where an executable is wanted.
//!
//! What runs is their interpreter, so that is what can be told something of; what a
//! script in a build tree may be is the wrapper that libtool makes of a program.

use std::io::Read as _;
use std::path::Path;

use backtrail_build::Error;
use backtrail_build::carry::file::libtool_program;
use backtrail_foreign::file;

use crate::args::Command;
use crate::exit::Unreadable;

/// How much tells what a script is: its first line, and who made it.
const BEGINNING: u64 = 4096;

/// What a program is wanted for.
pub enum Wanted<'a> {
    /// To be run by this verb, its options included.
    ToRun(&'a str),
    /// To be read.
    ToRead,
}

/// Fails if what a verb reads as a program is a script. Those that run programs see to it
/// themselves, since they tell `--status` how it went.
pub fn check(command: &Command) -> Result<(), Unreadable> {
    let program = match command {
        Command::Info(args) => &args.program,
        Command::Instrument(args) => &args.program,
        Command::Detach(args) => &args.program,
        Command::Extract(args) => &args.program,
        Command::Tune(args) => &args.program,
        Command::Plan(args) => &args.program,
        _ => return Ok(()),
    };
    check_no_script(program, Wanted::ToRead)
}

/// Fails if `path` is a script, with what to do instead.
pub fn check_no_script(path: &Path, wanted: Wanted<'_>) -> Result<(), Unreadable> {
    let Some(first) = beginning(path) else { return Ok(()) };
    let Some(interpreter) = interpreter(&first) else { return Ok(()) };
    let script = path.display();
    if let Some(program) = libtool_program(path, &first) {
        let path = path.to_owned();
        return Err(Unreadable(Error::LibtoolWrapper { path, program }.to_string()));
    }
    let instead = match wanted {
        Wanted::ToRead => "give that, or a program that the script starts".to_owned(),
        Wanted::ToRun(verb) => format!(
            "{} the interpreter with the script as argument: backtrail {verb} {interpreter} \
             -- {script}",
            verb.split(' ').next().unwrap_or(verb)
        ),
    };
    Err(Unreadable(format!("{script} is a script for {interpreter}: {instead}")))
}

/// The interpreter that a script names in its first line, behind `env` the one that
/// `env` is to find.
fn interpreter(bytes: &[u8]) -> Option<String> {
    let line = bytes.strip_prefix(b"#!")?.split(|&byte| byte == b'\n').next()?;
    let line = String::from_utf8_lossy(line).into_owned();
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    let is_env = Path::new(first).file_name().is_some_and(|name| name == "env");
    let found = words.find(|word| !word.starts_with('-') && !word.contains('='));
    Some(found.filter(|_| is_env).unwrap_or(first).to_owned())
}

/// What the file begins with.
fn beginning(path: &Path) -> Option<Vec<u8>> {
    let mut bytes = Vec::new();
    file::open(path).ok()?.take(BEGINNING).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_script_names_its_interpreter() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("script");
        for (first, expected) in [
            ("#!/bin/sh\n", Some("/bin/sh")),
            ("#! /bin/bash -e\necho", Some("/bin/bash")),
            ("#!/usr/bin/env python3", Some("python3")),
            ("#!/usr/bin/env -S A=1 perl -w\n", Some("perl")),
            ("#!/usr/bin/env\n", Some("/usr/bin/env")),
            ("#!\n/bin/sh", None),
            ("#!", None),
            ("\x7fELF", None),
            ("", None),
        ] {
            assert_eq!(interpreter(first.as_bytes()).as_deref(), expected, "{first}");
        }
        std::fs::write(&path, "#!/bin/sh\n").unwrap();
        let said = check_no_script(&path, Wanted::ToRun("trace")).unwrap_err().0;
        assert!(!said.contains("libtool"), "{said}");
        std::fs::write(&path, "#!/bin/sh\n# made by libtool\n").unwrap();
        let said = check_no_script(&path, Wanted::ToRun("trace")).unwrap_err().0;
        assert!(said.ends_with("/.libs/script"), "{said}");
    }
}
