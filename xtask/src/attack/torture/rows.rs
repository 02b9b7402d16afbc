//! The programs, the ways in which they run, and what is known not to work.

use std::os::unix::process::ExitStatusExt as _;
use std::process::ExitStatus;

/// How a program ends.
#[derive(Debug, Clone, Copy)]
pub enum Ends {
    /// With a code.
    With(i32),
    /// By a signal.
    By(i32),
}

impl Ends {
    /// Whether this is it.
    pub fn is(self, status: ExitStatus) -> bool {
        match self {
            Ends::With(code) => status.code() == Some(code),
            Ends::By(signal) => status.signal() == Some(signal),
        }
    }

    /// As it stands on the page.
    pub fn shown(self) -> String {
        match self {
            Ends::With(code) => code.to_string(),
            Ends::By(signal) => format!("signal {signal}"),
        }
    }
}

/// A program.
#[derive(Debug)]
pub struct Row {
    /// Its name, which is its first argument.
    pub name: &'static str,
    /// Its source.
    pub source: &'static str,
    /// How it ends.
    pub ends: Ends,
    /// What it does.
    pub what: &'static str,
    /// Whether every run executes the same.
    pub is_steady: bool,
    /// Whether it is traced with the handler inside, too.
    pub in_process: bool,
    /// Whether it gets a long argument and one that is not text.
    pub has_odd_words: bool,
}

const fn row(source: &'static str, name: &'static str, code: i32, what: &'static str) -> Row {
    Row {
        name,
        source,
        ends: Ends::With(code),
        what,
        is_steady: true,
        in_process: false,
        has_odd_words: false,
    }
}

const fn dies(source: &'static str, name: &'static str, signal: i32, what: &'static str) -> Row {
    Row { ends: Ends::By(signal), ..row(source, name, 0, what) }
}

/// What runs differently each time.
const fn unsteady(row: Row) -> Row {
    Row { is_steady: false, ..row }
}

const PROCESSES: &str = "processes.c";
const THREADS: &str = "threads.c";
const SIGNALS: &str = "signals.c";
const LIMITS: &str = "limits.c";
const STACKS: &str = "stacks.c";
const LANGUAGE: &str = "language.cc";

/// All programs.
pub const ROWS: [Row; 50] = [
    row(PROCESSES, "fork-200", 3, "200 children, one after another"),
    row(PROCESSES, "fork-tree", 4, "children that have children, five levels"),
    row(PROCESSES, "vfork", 5, "children that share memory until they end"),
    row(PROCESSES, "exec-true", 0, "becomes another program"),
    row(PROCESSES, "exec-itself", 6, "becomes itself, five times"),
    row(PROCESSES, "exec-in-thread", 7, "becomes itself in a second thread"),
    row(PROCESSES, "raw-fork", 8, "a fork that the C library does not know of"),
    row(PROCESSES, "clone-vm", 10, "a child that shares memory, `CLONE_VM`"),
    row(PROCESSES, "daemon", 11, "leaves its parent and its session"),
    row(PROCESSES, "fork-in-threads", 12, "forks in eight threads"),
    row(THREADS, "threads-500", 3, "500 threads, 50 at a time"),
    row(THREADS, "threads-64", 4, "64 threads at a time"),
    unsteady(row(THREADS, "detached", 5, "threads that nobody joins")),
    row(THREADS, "cancel", 6, "threads that are cancelled where they wait"),
    unsteady(row(THREADS, "cancel-anywhere", 6, "threads that are cancelled anywhere")),
    row(THREADS, "keys", 7, "destructors of what threads keep"),
    row(THREADS, "exit-with-threads", 8, "`exit` while four threads wait"),
    Row { in_process: true, ..unsteady(row(SIGNALS, "timer", 3, "a timer of 1 ms")) },
    // How many frames there are depends on how large a variant's are.
    unsteady(row(SIGNALS, "altstack", 4, "a stack that overflows, left by `siglongjmp`")),
    row(SIGNALS, "fault-mended", 5, "a handler of `SIGSEGV` that mends the fault"),
    row(SIGNALS, "int3", 6, "traps of its own"),
    row(SIGNALS, "all-blocked", 7, "all signals blocked"),
    dies(SIGNALS, "abort", 6, "`abort`"),
    dies(SIGNALS, "killed", 9, "kills itself"),
    dies(SIGNALS, "fault", 11, "a fault that nobody handles"),
    row(LIMITS, "seccomp", 3, "a filter that kills it for all but a few calls of the kernel"),
    row(LIMITS, "seccomp-long", 3, "the same, and two million steps"),
    row(LIMITS, "chroot", 4, "another root"),
    row(LIMITS, "setuid", 5, "another user"),
    row(LIMITS, "limit-memory", 6, "64 MB of address space"),
    row(LIMITS, "limit-file", 7, "files of 8 KB at most"),
    row(LIMITS, "limit-descriptors", 8, "no more descriptors"),
    row(LIMITS, "closed", 9, "all descriptors closed but one"),
    row(LIMITS, "close-range", 10, "`close_range` of all but three"),
    row(LIMITS, "writes-everywhere", 11, "writes to every descriptor there may be"),
    row(LIMITS, "locked", 12, "`mlockall`"),
    unsteady(row(LIMITS, "records-removed", 13, "removes what is recorded, while it is")),
    unsteady(row(LIMITS, "records-cut", 13, "cuts what is recorded to nothing, while it is")),
    Row {
        has_odd_words: true,
        ..row(LIMITS, "arguments", 14, "an argument of 100,000 bytes, and one that is not UTF-8")
    },
    row(LIMITS, "errno", 15, "`errno` over 300,000 steps"),
    row(STACKS, "recursion", 3, "a million frames"),
    row(STACKS, "contexts", 4, "two stacks in turns, by `swapcontext`"),
    row(STACKS, "longjmp", 5, "`longjmp` out of up to twenty frames"),
    row(STACKS, "constructors", 6, "constructors in order, and a destructor"),
    row(STACKS, "quick-exit", 7, "`quick_exit` with a handler"),
    row(STACKS, "gs", 8, "uses the segment `%gs` itself"),
    row(LANGUAGE, "thrown-through-qsort", 3, "an exception through frames of C"),
    row(LANGUAGE, "unwound", 4, "exceptions through up to fifty frames with destructors"),
    row(LANGUAGE, "terminate", 5, "an exception that nobody catches"),
    row(LANGUAGE, "std-thread", 6, "`std::thread`"),
];

/// The schemes, and how a variant is derived by them.
pub const SCHEMES: &[(&str, &[&str])] = &[
    ("log", &["--scheme", "log"]),
    ("profile", &["--scheme", "profile"]),
    ("pt", &["--scheme", "pt"]),
    ("full", &["--scheme", "full"]),
    ("fc", &["--scheme", "fc"]),
    ("cc", &["--scheme", "cc"]),
    ("bc", &["--scheme", "bc"]),
    ("tunable", &["--scheme", "full", "--tunable", "*"]),
];

/// The verbs that run a program.
pub const COLLECTING: &[(&str, &[&str])] = &[
    ("profiled", &["profile"]),
    ("traced", &["trace"]),
    ("traced by log", &["trace", "--strategy", "log"]),
    ("breakpoints", &["trace", "--witness", "breakpoint"]),
    ("in process", &["trace", "--witness", "breakpoint", "--in-process"]),
];

/// What is known not to be as it is alone.
#[derive(Debug)]
pub struct Named {
    /// The program.
    pub row: &'static str,
    /// The scheme or verb.
    pub way: &'static str,
    /// How it ends then.
    pub ends: Ends,
    /// Whether it depends on the moment, so that it may also be as it is alone.
    pub by_chance: bool,
    /// Why.
    pub why: &'static str,
}

const fn named(row: &'static str, way: &'static str, ends: Ends, why: &'static str) -> Named {
    Named { row, way, ends, by_chance: false, why }
}

const fn by_chance(row: &'static str, way: &'static str, code: i32, why: &'static str) -> Named {
    Named { by_chance: true, ..named(row, way, Ends::With(code), why) }
}

const GS: &str = "counters are reached through `%gs` ([profiling.md](profiling.md))";
const TRAPS: &str =
    "a program that handles `SIGTRAP` itself is refused ([breakpoints.md](breakpoints.md))";
const GONE: &str = "what a program removes of its own record cannot be written";
const CUT: &str = "what is mapped of a file that was cut is not there ([cli.md](cli.md#records))";
const FILTERED: &str =
    "a log that grows makes calls that the filter kills for ([cli.md](cli.md#records))";
const STACKS_IN_TURNS: &str = "a trace follows one stack of frames in each thread";
const ELSEWHERE: &str = "the thread that calls `exec` ends all others, wherever they are";
const ANYWHERE: &str = "a thread that is cancelled anywhere ends between two blocks";
const IN_A_LOOP: &str = "a thread that is cancelled in a loop without decisions does not leave it";
const SHARED: &str = "a child that shares memory meets breakpoints that nobody handles for it";
const OFTEN: &str = "the handler inside does not see that another runs";

/// All of it.
pub const NAMED: &[Named] = &[
    named("gs", "profile", Ends::By(11), GS),
    named("gs", "profiled", Ends::By(11), GS),
    named("int3", "breakpoints", Ends::With(5), TRAPS),
    named("records-removed", "profiled", Ends::With(3), GONE),
    named("records-removed", "traced", Ends::With(3), GONE),
    named("records-removed", "traced by log", Ends::With(3), GONE),
    named("records-cut", "log", Ends::By(7), CUT),
    named("records-cut", "profile", Ends::By(7), CUT),
    named("records-cut", "profiled", Ends::By(7), CUT),
    // Whichever is met first: the cut part, or that nothing is left.
    named("records-cut", "traced", Ends::By(7), CUT),
    named("records-cut", "traced", Ends::With(3), CUT),
    named("records-cut", "traced by log", Ends::By(7), CUT),
    named("records-cut", "traced by log", Ends::With(3), CUT),
    named("seccomp-long", "log", Ends::By(31), FILTERED),
    named("seccomp-long", "traced", Ends::By(31), FILTERED),
    named("seccomp-long", "traced by log", Ends::By(31), FILTERED),
    named("contexts", "traced", Ends::With(4), STACKS_IN_TURNS),
    named("contexts", "breakpoints", Ends::With(4), STACKS_IN_TURNS),
    named("exec-in-thread", "traced", Ends::With(4), ELSEWHERE),
    named("cancel", "breakpoints", Ends::With(4), IN_A_LOOP),
    by_chance("cancel-anywhere", "traced", 3, ANYWHERE),
    by_chance("cancel-anywhere", "traced by log", 3, ANYWHERE),
    by_chance("cancel-anywhere", "breakpoints", 4, ANYWHERE),
    named("clone-vm", "breakpoints", Ends::With(4), SHARED),
    by_chance("timer", "in process", 4, OFTEN),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_of_rows_and_ways_that_there_are() {
        let ways: Vec<&str> = SCHEMES.iter().chain(COLLECTING).map(|it| it.0).collect();
        for named in NAMED {
            assert!(ROWS.iter().any(|row| row.name == named.row), "{named:?}");
            assert!(ways.contains(&named.way), "{named:?}");
            assert!(!named.why.is_empty());
        }
        let mut names: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), ROWS.len());
    }
}
