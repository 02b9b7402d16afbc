//! Every verb with every kind of input.

/// What is damaged.
#[derive(Debug, Clone, Copy)]
pub enum Input {
    /// A file.
    File(&'static str),
    /// A file in a folder.
    Folder(&'static str),
}

impl Input {
    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Input::File(name) | Input::Folder(name) => name,
        }
    }
}

/// What a command does with its input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Way {
    /// Reads it.
    Reads,
    /// Writes it anew.
    Changes,
    /// Reads it, and leaves with 1 if it finds what it was asked for.
    Compares,
    /// Runs it, and writes into `status` whose status it leaves with.
    Runs,
    /// Hands it to a compiler or linker, and leaves with its status.
    Compiles,
}

/// A command.
pub struct Tested {
    /// Its words: `IN` is the damaged input, `@NAME` a valid one.
    pub words: &'static str,
    /// What is damaged.
    pub input: Input,
    /// What is done with it.
    pub way: Way,
}

const fn reads(words: &'static str, input: &'static str) -> Tested {
    Tested { words, input: Input::File(input), way: Way::Reads }
}

const fn reads_folder(words: &'static str, input: &'static str) -> Tested {
    Tested { words, input: Input::Folder(input), way: Way::Reads }
}

const fn with(way: Way, words: &'static str, input: &'static str) -> Tested {
    Tested { words, input: Input::File(input), way }
}

/// All of them. Cases take them in turns.
#[rustfmt::skip]
pub const COMMANDS: [Tested; 83] = [
    reads("info IN", "p"),
    reads("info --functions --json IN", "q"),
    reads("info --functions IN", "p.profile"),
    reads("info IN", "p.tune"),
    reads("info IN", "p.o"),
    reads("info --functions IN", "libq.so"),
    reads("info --side IN @bare", "p.side"),
    reads_folder("info IN/p", "detached"),
    reads("instrument --quiet --scheme empty -o out IN", "p"),
    reads("instrument --quiet --scheme log -o out IN", "p"),
    reads("instrument --quiet --scheme profile -o out IN", "p"),
    reads("instrument --quiet --scheme profile -o out IN", "libq.so"),
    reads("instrument --quiet --scheme *=fc,parse=cc+pt -o out IN", "p"),
    reads("instrument --quiet --scheme full --tunable * -o out IN", "p"),
    reads("instrument --quiet --scheme bc -o out IN", "q"),
    reads_folder("instrument --quiet --scheme pt -o out IN/p", "detached"),
    reads("instrument --quiet --scheme realistic --pt-list IN -o out @p", "list.json"),
    reads("instrument --quiet --scheme realistic --pt-list IN -o out @p", "list.txt"),
    reads("instrument --quiet --scheme profile --weights IN -o out @p", "p.btprof"),
    with(Way::Changes, "detach IN", "p"),
    with(Way::Changes, "detach IN -o side", "p.full"),
    reads("extract IN -o out", "p"),
    reads("extract IN -o out", "libq.so"),
    reads("tune --list IN", "p.tune"),
    reads("tune --list --json IN", "p.tune"),
    reads("tune --set *=none -o out IN", "p.tune"),
    with(Way::Changes, "tune --set pa*=cc+pt IN", "p.tune"),
    with(Way::Changes, "tune --undo IN", "p.tune"),
    reads("autopsy IN --exe @p", "core.p"),
    reads("autopsy IN --exe @p.pt", "core.p.pt"),
    reads("autopsy IN", "core.p.full"),
    reads("autopsy --json --blocks IN --exe @p.full", "core.p.full"),
    reads("autopsy --html out IN --exe @p.full", "core.p.full"),
    reads("autopsy IN @core.p.full", "core.p.full"),
    reads("autopsy @core.p --exe IN", "p"),
    reads("autopsy @core.p.pt --exe IN", "p.pt"),
    reads("autopsy --json @core.p.full --exe IN", "p.full"),
    reads("autopsy --html out @core.p.full --exe IN", "p.full"),
    reads("paths IN", "p.btprof"),
    reads("paths --full --by executions IN", "p.btprof"),
    reads("paths --json IN", "p.btprof"),
    reads("paths --html out IN", "p.btprof"),
    reads("paths -o out.btprof IN @other.btprof", "p.btprof"),
    with(Way::Compares, "paths --compare IN @other.btprof --fail-over 1", "p.btprof"),
    reads("paths --compare @other.btprof IN --json", "p.btprof"),
    reads("export IN --to lcov", "p.btprof"),
    reads("export IN --to callgrind", "p.btprof"),
    reads("export IN --to autofdo", "p.btprof"),
    reads("export IN --to pprof -o out", "p.btprof"),
    reads("export IN --to dot", "p.btprof"),
    reads("plan @p --weights IN --copies 2,3", "p.btprof"),
    reads("plan @p --weights IN --copies 2 --json", "p.btprof"),
    reads("plan @p --weights @p.btprof --on IN --copies 2", "p.btprof"),
    reads("plan IN --guessed --copies 2", "p"),
    reads_folder("paths IN", "records.profile"),
    reads_folder("paths --json IN", "records.profile"),
    reads_folder("paths --exe @p.profile IN", "records.profile"),
    reads_folder("paths IN", "records.log"),
    reads_folder("paths --json --exe @p.log IN", "records.log"),
    reads_folder("show IN", "records.log"),
    reads_folder("show --json --exe @p.log IN", "records.log"),
    reads("paths --exe IN @records.profile", "p.profile"),
    reads("show --exe IN @records.log", "p.log"),
    reads("show IN", "probes.bttrace"),
    reads("show IN", "log.bttrace"),
    reads("show IN", "breakpoints.bttrace"),
    reads("show --json --from 3 IN", "probes.bttrace"),
    reads("show --last 5 --function pa* IN", "probes.bttrace"),
    reads("show --tree IN", "probes.bttrace"),
    reads("show --tree IN", "breakpoints.bttrace"),
    reads("show --html out IN", "probes.bttrace"),
    reads("show --to perfetto -o out IN", "probes.bttrace"),
    with(Way::Compiles, "cc -o out IN -pthread", "p.o"),
    with(Way::Compiles, "cc -pthread -o out @p.o IN", "libq.so"),
    with(Way::Runs, "profile --status status -o out IN", "p"),
    with(Way::Runs, "profile --status status --copies 2 --strategy pbl -o out IN", "p"),
    with(Way::Runs, "profile --status status --weights IN -o out @p", "p.btprof"),
    with(Way::Runs, "trace --status status -o out IN", "p"),
    with(Way::Runs, "trace --status status --strategy log -o out IN", "p"),
    with(Way::Runs, "trace --status status --runs 2 --weights IN -o out @p", "p.btprof"),
    with(Way::Runs, "trace --status status --witness breakpoint -o out IN", "p"),
    with(Way::Runs, "trace --status status --witness breakpoint --in-process -o out IN", "bare"),
    with(Way::Runs, "trace --status status --witness breakpoint --weights IN -o out @p", "breakpoints.bttrace"),
];
