//! Exit codes, and how an error is shown.

use std::backtrace::{Backtrace, BacktraceStatus};
use std::io;
use std::panic::{AssertUnwindSafe, PanicHookInfo, catch_unwind};
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::recipe::InputKind;
use backtrail_build::carry::unit::IrState;
use backtrail_build::libraries::own_libraries;
use backtrail_foreign::say;

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

/// A program that a signal ended before it recorded anything.
#[derive(Debug)]
pub struct EndedEarly {
    /// Which.
    pub path: PathBuf,
    /// By which signal.
    pub signal: i32,
}

impl std::fmt::Display for EndedEarly {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { path, signal } = self;
        write!(f, "{} was ended by signal {signal} before it recorded anything", path.display())
    }
}

impl std::error::Error for EndedEarly {}

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

/// Fails, before anything is run, if there is nothing of a program and of its own
/// libraries that can have probes.
pub fn check_units(program: &Carried) -> anyhow::Result<()> {
    let libraries = own_libraries(program)?;
    let files = || std::iter::once(program).chain(libraries.values());
    if files().flat_map(|file| &file.units).any(|unit| unit.model_size() > 0) {
        return Ok(());
    }
    let missing = program.units.iter().find_map(|unit| match &unit.meta.state {
        IrState::Missing { why } => Some(format!("{}: {why}", unit.meta.name)),
        _ => None,
    });
    let mut inputs = program.recipe.iter().flat_map(|recipe| &recipe.inputs);
    let mut native = || {
        inputs.find_map(|input| match &input.kind {
            InputKind::Native { why, .. } => Some(format!("{}: {why}", input.path.display())),
            _ => None,
        })
    };
    let why = missing.or_else(&mut native).map(|why| format!(" ({why})"));
    Err(Unreadable(format!(
        "{} carries the IR of none of its units{}, so nothing of it can be recorded: build them so \
         that they do ('backtrail info' says why they do not), or trace it as it is, with \
         'backtrail trace --witness breakpoint'",
        program.path.display(),
        why.unwrap_or_default()
    ))
    .into())
}

fn code_of_collect(error: &backtrail_collect::Error) -> u8 {
    use backtrail_collect::Error;
    match error {
        Error::Diverged { .. } => DIVERGED,
        Error::Engine { .. } | Error::Privileged(_) => ENGINE,
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
        Error::Write { .. } | Error::NoSpace { .. } => WRITE,
        Error::Worker { .. } => BUG,
        // What is wrong is something that we added, or the recipe.
        Error::Link { said, .. } if said.contains("__backtrail_") => BUG,
        _ => INPUT,
    }
}

fn code_of_trace(error: &backtrail_trace::Error) -> u8 {
    use backtrail_trace::Error;
    match error {
        Error::Diverged(_) | Error::Impossible(_) => DIVERGED,
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
    if let Some(signal) = signal_of(error) {
        return 128u8.wrapping_add(signal as u8);
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

/// Runs the whole program. A panic is a bug of ours: it is said in one line, where
/// it is, with a backtrace if `RUST_BACKTRACE` asks for one, and what was begun is
/// cleaned up.
pub fn guard(run: impl FnOnce() -> ExitCode) -> ExitCode {
    std::panic::set_hook(Box::new(tell_bug));
    catch_unwind(AssertUnwindSafe(run)).unwrap_or(ExitCode::from(BUG))
}

fn tell_bug(panic: &PanicHookInfo<'_>) {
    // What follows a panic, such as the loss of a thread, is no other bug.
    static SAID: AtomicBool = AtomicBool::new(false);
    if SAID.swap(true, Ordering::Relaxed) {
        return;
    }
    let payload = panic.payload();
    let text = payload.downcast_ref::<&str>().copied();
    let text = text.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("it panicked");
    let place = panic.location().map(|place| format!(" ({place})")).unwrap_or_default();
    say!("backtrail: a bug in Backtrail: {what}{place}; please report it");
    let trace = Backtrace::capture();
    if trace.status() == BacktraceStatus::Captured {
        trace.to_string().lines().for_each(|line| say!("{line}"));
    }
}

/// The signal that ended what was to be looked at, and that we end by as well.
pub fn signal_of(error: &anyhow::Error) -> Option<i32> {
    if let Some(backtrail_collect::Error::Interrupted { signal }) = error.downcast_ref() {
        return Some(*signal);
    }
    ended_early(error)
}

/// The signal that ended the program before there was anything to be looked at.
pub fn ended_early(error: &anyhow::Error) -> Option<i32> {
    if let Some(EndedEarly { signal, .. }) = error.downcast_ref() {
        return Some(*signal);
    }
    match error.downcast_ref()? {
        backtrail_machine::Error::EndedBySignal { signal, .. } => Some(*signal),
        _ => None,
    }
}

/// Shows what went wrong, in one line, and gives the code to leave with. What a signal
/// asked for that came while a result was being written is done then.
pub fn report(result: anyhow::Result<u8>) -> ExitCode {
    let code = tell(result);
    backtrail_interruption::obey();
    code
}

fn tell(result: anyhow::Result<u8>) -> ExitCode {
    match result {
        Ok(code) => ExitCode::from(code),
        Err(error) => {
            // What was ended has failed, which is no news.
            backtrail_interruption::settle();
            let broken_pipe = error
                .downcast_ref::<io::Error>()
                .is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe);
            if broken_pipe {
                return ExitCode::SUCCESS;
            }
            say!("backtrail: {}", message(&error));
            if let Some(signal) = signal_of(&error) {
                // As whoever sent it expects.
                backtrail_collect::local::end_by(signal);
            }
            ExitCode::from(code_of(&error))
        }
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    /// Whether this is the process that is to panic.
    const PANICS: &str = "BACKTRAIL_TEST_PANICS";

    #[test]
    fn a_panic_is_a_bug_that_is_said_in_one_line() {
        if std::env::var_os(PANICS).is_some() {
            let code = guard(|| {
                let thread = std::thread::spawn(|| panic!("it\x1b[31m\nbroke"));
                thread.join().unwrap();
                ExitCode::SUCCESS
            });
            std::process::exit(if code == ExitCode::from(BUG) { 70 } else { 1 });
        }
        let own = std::env::current_exe().unwrap();
        let run = |backtrace: &str| {
            let mut again = std::process::Command::new(&own);
            again.args(["--exact", "exit::tests::a_panic_is_a_bug_that_is_said_in_one_line"]);
            again.env(PANICS, "1").env("RUST_BACKTRACE", backtrace);
            let output = again.output().unwrap();
            assert_eq!(output.status.code(), Some(70));
            String::from_utf8(output.stderr).unwrap()
        };
        let said = run("0");
        let begin = r"backtrail: a bug in Backtrail: it\u{1b}[31m\u{a}broke (";
        assert!(said.starts_with(begin) && said.contains("exit.rs:"), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert!(run("1").lines().count() > 3);
    }

    #[test]
    fn a_cause_is_said_once() {
        let cause = || io::Error::from(io::ErrorKind::NotFound);
        let twice = Err::<(), _>(cause()).context(format!("cannot read x: {}", cause()));
        assert_eq!(message(&twice.unwrap_err()), "cannot read x: entity not found");
        let once = Err::<(), _>(cause()).context("cannot read x");
        assert_eq!(message(&once.unwrap_err()), "cannot read x: entity not found");
    }
}
