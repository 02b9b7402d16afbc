//! `backtrail cargo`, and what cargo and rustc start of it: the wrapper around
//! rustc and the linker.

use std::ffi::OsString;
use std::process::ExitCode;

use backtrail_build::Error;
use backtrail_build::cargo::{self, Role};

use crate::exit;

/// Becomes cargo with `words`.
pub fn run(words: &[OsString]) -> ExitCode {
    leave(cargo::run(words))
}

/// Does what a process started as `role` with the command line `words` is for.
pub fn part(role: Role, mut words: Vec<OsString>) -> ExitCode {
    leave(match role {
        Role::Rustc { with_std } => cargo::rustc::run(words.split_off(1), with_std),
        Role::Linker => cargo::link::run(words),
    })
}

fn leave(result: Result<i32, Error>) -> ExitCode {
    match result {
        Ok(status) => ExitCode::from(u8::try_from(status).unwrap_or(1)),
        Err(error) => exit::report(Err(error.into())),
    }
}
