//! What is interrupted.

/// What a command writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Output {
    /// A variant, `out`.
    Executable,
    /// `tuned`, in place.
    Switched,
    /// `prog` in place, and its side file.
    Detached,
    /// A profile, `out`.
    Profile,
    /// A trace, `out`.
    Trace,
}

/// A command.
#[derive(Debug)]
pub struct Way {
    /// Its words, without the program.
    pub words: &'static str,
    /// What it writes.
    pub output: Output,
    /// Whether it runs the program once, in a way that follows any handler.
    pub is_one_run: bool,
}

impl Way {
    /// Whether it runs the program.
    pub fn has_program(&self) -> bool {
        matches!(self.output, Output::Profile | Output::Trace)
    }
}

const fn way(words: &'static str, output: Output, is_one_run: bool) -> Way {
    Way { words, output, is_one_run }
}

/// All of them.
pub const WAYS: [Way; 11] = [
    way("instrument --quiet --scheme profile -o out prog", Output::Executable, false),
    way("instrument --quiet --scheme full --tunable * -o out prog", Output::Executable, false),
    way("tune --set *=none tuned", Output::Switched, false),
    way("detach prog", Output::Detached, false),
    way("profile -o out", Output::Profile, true),
    way("profile --copies 3 -o out", Output::Profile, false),
    way("trace -o out", Output::Trace, true),
    way("trace --runs 3 -o out", Output::Trace, false),
    way("trace --strategy log -o out", Output::Trace, true),
    way("trace --witness breakpoint -o out", Output::Trace, true),
    way("trace --witness breakpoint --in-process -o out", Output::Trace, false),
];
