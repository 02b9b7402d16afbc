//! The other names of `backtrail`: small programs that become it.
//!
//! Build systems that want a compiler without a space use `backtrail-cc`.
//! Whatever it is started as, the work is done by the `backtrail` beside it, so
//! that four names do not cost four times the space.

use backtrail_foreign::say;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};

/// Becomes `backtrail VERB` with the words of this command line, of which the
/// first is left out if it is `skip`. Returns only if that fails.
pub fn become_verb(verb: &str, skip: Option<&str>) -> ExitCode {
    let mut words = std::env::args_os().skip(1).peekable();
    if words.peek().is_some_and(|word| skip.is_some_and(|skip| word == skip)) {
        words.next();
    }
    let own = std::env::current_exe().unwrap_or_default();
    let program = own.with_file_name("backtrail");
    let error = Command::new(&program).args((!verb.is_empty()).then_some(verb)).args(words).exec();
    say!("backtrail: cannot start {}: {error}; install them together", program.display());
    ExitCode::from(127)
}
