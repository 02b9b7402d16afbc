//! Exit codes, and how an error is shown.

use std::io;
use std::process::ExitCode;

use backtrail_build::Error;

/// A finding the user asked to be told about.
pub const FINDING: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// The input is missing, not ours, corrupt or of an unreadable version.
pub const INPUT: u8 = 3;
/// The runs diverged.
pub const DIVERGED: u8 = 4;
/// The engine failed.
pub const ENGINE: u8 = 5;
/// Cannot write.
pub const WRITE: u8 = 6;
/// A bug in Backtrail.
pub const BUG: u8 = 70;
/// No clang, or none that we can use.
pub const NO_CLANG: u8 = 127;

/// An input that is missing, not ours, corrupt or of an unreadable version.
#[derive(Debug)]
pub struct Unreadable(pub String);

impl std::fmt::Display for Unreadable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Unreadable {}

/// Runs that did not do the same.
#[derive(Debug)]
pub struct Diverged(pub String);

impl std::fmt::Display for Diverged {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Diverged {}

/// Options that do not go together.
#[derive(Debug)]
pub struct Usage(pub String);

impl std::fmt::Display for Usage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// What another process of ours said when it gave up.
#[derive(Debug)]
pub struct Refused {
    /// Its exit code.
    pub code: u8,
    /// Its message.
    pub message: String,
}

impl std::fmt::Display for Refused {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Refused {}

fn code_of_collect(error: &backtrail_collect::Error) -> u8 {
    use backtrail_collect::Error;
    match error {
        Error::Diverged { .. } => DIVERGED,
        Error::Engine { .. } => ENGINE,
        Error::Write { .. } => WRITE,
        Error::Interrupted { signal } => 128u8.wrapping_add(*signal as u8),
        _ => INPUT,
    }
}

fn code_of_build(error: &Error) -> u8 {
    match error {
        Error::NoClang
        | Error::ClangNotRunnable { .. }
        | Error::UnsupportedClang { .. }
        | Error::NotStarted { .. } => NO_CLANG,
        Error::Write { .. } => WRITE,
        Error::Worker { .. } | Error::Tool { .. } => BUG,
        _ => INPUT,
    }
}

fn code_of_trace(error: &backtrail_trace::Error) -> u8 {
    use backtrail_trace::Error;
    match error {
        Error::Diverged(_) => DIVERGED,
        Error::Write { .. } => WRITE,
        Error::Limit { .. } | Error::Executions { .. } | Error::Pairs { .. } => USAGE,
        Error::Graph(_) | Error::Plan(_) => BUG,
        _ => INPUT,
    }
}

/// The exit code that `error` stands for.
pub fn code_of(error: &anyhow::Error) -> u8 {
    if let Some(error) = error.downcast_ref::<Error>() {
        return code_of_build(error);
    }
    if let Some(error) = error.downcast_ref::<backtrail_collect::Error>() {
        return code_of_collect(error);
    }
    if let Some(
        backtrail_machine::Error::Live { .. }
        | backtrail_machine::Error::Trace { .. }
        | backtrail_machine::Error::Threads { .. },
    ) = error.downcast_ref()
    {
        return ENGINE;
    }
    if let Some(backtrail_machine::Error::Write { .. }) = error.downcast_ref() {
        return WRITE;
    }
    if let Some(Refused { code, .. }) = error.downcast_ref() {
        return *code;
    }
    if let Some(error) = error.downcast_ref::<backtrail_trace::Error>() {
        return code_of_trace(error);
    }
    if error.is::<Unreadable>() || error.is::<backtrail_machine::Error>() {
        return INPUT;
    }
    if error.is::<Usage>() {
        return USAGE;
    }
    if error.is::<Diverged>() {
        return DIVERGED;
    }
    match error.downcast_ref::<io::Error>() {
        Some(_) => WRITE,
        None => BUG,
    }
}

/// What went wrong and why, cause by cause; what a message has said already is not
/// said again.
fn message(error: &anyhow::Error) -> String {
    let mut said = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !said.ends_with(&cause) {
            said = format!("{said}: {cause}");
        }
    }
    said
}

/// Shows what went wrong, in one line, and gives the code to leave with.
pub fn report(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            let broken_pipe = error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            if broken_pipe {
                return ExitCode::SUCCESS;
            }
            eprintln!("backtrail: {}", message(&error));
            ExitCode::from(code_of(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::from(io::ErrorKind::NotFound);
        let twice = Err::<(), _>(cause()).context(format!("cannot read x: {}", cause()));
        assert_eq!(message(&twice.unwrap_err()), "cannot read x: entity not found");
        let once = Err::<(), _>(cause()).context("cannot read x");
        assert_eq!(message(&once.unwrap_err()), "cannot read x: entity not found");
    }
}
