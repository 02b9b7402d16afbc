//! What is said of a function.

use crate::set::{Member, Set};

/// Kinds of hooks: functions of the program that one call leaves with a library and
/// another, later, runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// What runs when the process ends: `atexit`.
    AtExit,
    /// What runs when a thread ends: destructors of its own data. They also run behind
    /// what the thread began with, without a call.
    ThreadExit,
    /// What a thread does when it is cancelled or ends early: `pthread_cleanup_push`.
    Cleanup,
    /// What runs around a fork: `pthread_atfork`.
    AtFork,
    /// What threads begin with. It runs beside whoever started it, so nothing runs it.
    Thread,
    /// Handlers of signals.
    Signal,
    /// Streams whose reading and writing are the program's: `fopencookie`.
    Stream,
    /// Conversions of `printf` that are the program's.
    Printf,
    /// How obstacks get memory, and what happens when there is none.
    Obstack,
    /// What `error` prints the program's name with.
    Error,
    /// What runs when `operator new` finds no memory.
    NewHandler,
    /// `std::set_terminate`.
    Terminate,
    /// `std::set_unexpected`.
    Unexpected,
    /// Destructors of exceptions that were thrown.
    Exception,
    /// Hooks of the allocator (`__malloc_hook`), in C libraries that still have them.
    Malloc,
}

impl Member for Class {
    const ALL: &'static [Self] = &[
        Self::AtExit,
        Self::ThreadExit,
        Self::Cleanup,
        Self::AtFork,
        Self::Thread,
        Self::Signal,
        Self::Stream,
        Self::Printf,
        Self::Obstack,
        Self::Error,
        Self::NewHandler,
        Self::Terminate,
        Self::Unexpected,
        Self::Exception,
        Self::Malloc,
    ];

    fn number(self) -> u32 {
        self as u32
    }

    fn word(self) -> &'static str {
        match self {
            Self::AtExit => "at-exit",
            Self::ThreadExit => "thread-exit",
            Self::Cleanup => "cleanup",
            Self::AtFork => "at-fork",
            Self::Thread => "thread",
            Self::Signal => "signal",
            Self::Stream => "stream",
            Self::Printf => "printf",
            Self::Obstack => "obstack",
            Self::Error => "error",
            Self::NewHandler => "new-handler",
            Self::Terminate => "terminate",
            Self::Unexpected => "unexpected",
            Self::Exception => "exception",
            Self::Malloc => "malloc",
        }
    }
}

/// Functions that libraries call by name, so that a program's own of that name takes
/// their place if it is exported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Family {
    /// The allocator of C.
    Malloc,
    /// That of C++: `operator new` and `operator delete`.
    New,
    /// What works on memory and on strings: the `str…`, `mem…` and `wcs…`.
    String,
    /// Any function that has a row.
    Library,
    /// What is in the namespaces of the C++ library. Programs have many of these, as
    /// instances of templates.
    Cxx,
}

/// The allocator of C.
const MALLOC: [&str; 12] = [
    "aligned_alloc",
    "calloc",
    "cfree",
    "free",
    "malloc",
    "malloc_usable_size",
    "memalign",
    "posix_memalign",
    "pvalloc",
    "realloc",
    "reallocarray",
    "valloc",
];

impl Family {
    /// Whether a function of this name is one of them.
    pub fn has(self, name: &str) -> bool {
        let begins = |begins: &[&str]| begins.iter().any(|it| name.starts_with(it));
        let is_malloc = MALLOC.contains(&name);
        match self {
            Self::Malloc => is_malloc,
            Self::New => begins(&["_Znw", "_Zna", "_Zdl", "_Zda"]),
            Self::String => {
                let plain = name.trim_start_matches('_');
                let is_one = ["str", "stp", "mem", "wcs", "wcp", "wmem", "rawmem"];
                !is_malloc
                    && (is_one.iter().any(|it| plain.starts_with(it))
                        || matches!(plain, "bcmp" | "bcopy" | "bzero" | "index" | "rindex"))
                    && crate::of(name).is_some()
            }
            Self::Library => crate::of(name).is_some(),
            Self::Cxx => is_of_cxx(name),
        }
    }
}

/// Whether a name is in `std`, `__gnu_cxx` or `__cxxabiv1`, as the C++ ABI mangles it.
fn is_of_cxx(name: &str) -> bool {
    let Some(rest) = name.strip_prefix("_Z") else { return false };
    // Of a nested name, and of a member that is `const`. `Sa` to `St` abbreviate names of `std`.
    let rest = rest.strip_prefix('N').unwrap_or(rest);
    let rest = rest.strip_prefix('K').unwrap_or(rest);
    ["Sa", "Sb", "Sd", "Si", "So", "Ss", "St", "9__gnu_cxx", "10__cxxabiv1"]
        .iter()
        .any(|begin| rest.starts_with(begin))
}

impl Member for Family {
    const ALL: &'static [Self] = &[Self::Malloc, Self::New, Self::String, Self::Library, Self::Cxx];

    fn number(self) -> u32 {
        self as u32
    }

    fn word(self) -> &'static str {
        match self {
            Self::Malloc => "malloc",
            Self::New => "new",
            Self::String => "string",
            Self::Library => "libc",
            Self::Cxx => "c++",
        }
    }
}

/// Which functions of the program a call may run that were given to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Whom {
    /// None.
    Nobody,
    /// Those that are passed as these arguments, counted from 0. If an argument is not a
    /// function that is known, any whose address is taken.
    Arguments(Vec<u8>),
    /// Any whose address is taken: they come in structures.
    Taken,
    /// Any whose address is taken, and any that others can call by name.
    Anyone,
}

/// Where the functions come from that are left as hooks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// One is this argument, counted from 0.
    Argument(u8),
    /// They come in structures: any whose address is taken.
    Taken,
}

/// That functions are left as hooks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Installs {
    /// Of what kind.
    pub class: Class,
    /// Where they come from.
    pub from: Vec<Source>,
}

/// Where fresh memory comes out, to which nothing points when the call is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// It is the result.
    Result,
    /// It is stored where this argument points to.
    Through(u8),
}

/// Why a name is not one of the libraries the rows are checked against.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elsewhere {
    /// Newer versions of them have it.
    Newer,
    /// It is linked into every program, or into static ones.
    Static,
    /// It is within the library, and not for others.
    Private,
    /// Other C libraries have it.
    Other,
    /// Rust's library.
    Rust,
    /// Libraries for OpenMP.
    OpenMp,
    /// Programs have it.
    Program,
}

impl Member for Elsewhere {
    const ALL: &'static [Self] = &[
        Self::Newer,
        Self::Static,
        Self::Private,
        Self::Other,
        Self::Rust,
        Self::OpenMp,
        Self::Program,
    ];

    fn number(self) -> u32 {
        self as u32
    }

    fn word(self) -> &'static str {
        match self {
            Self::Newer => "newer",
            Self::Static => "static",
            Self::Private => "private",
            Self::Other => "other",
            Self::Rust => "rust",
            Self::OpenMp => "openmp",
            Self::Program => "program",
        }
    }
}

/// What a function does to control.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Function {
    /// Its name, or a pattern of names: `*` is anything, `#` a number.
    pub name: &'static str,
    /// Whether it may return.
    pub returns: bool,
    /// Whether the process may end in it. (Of what is executed in its place, see
    /// [`Function::execs`].)
    pub ends: bool,
    /// Whether it may leave frames for one that waits for that: it jumps or throws.
    pub leaves: bool,
    /// Whether it may return once more, later.
    pub returns_twice: bool,
    /// Whether it returns in a child, too.
    pub forks: bool,
    /// Whether it returns in a child that runs in the frames of its parent.
    pub vforks: bool,
    /// Whether the process goes on as another program, and it returns only if it cannot.
    pub execs: bool,
    /// Whether it may run another program beside this one.
    pub spawns: bool,
    /// Whether it may start threads.
    pub starts_threads: bool,
    /// Whether it may end another thread, anywhere in it.
    pub cancels: bool,
    /// Whether the thread goes on with the frames of another stack.
    pub switches_stacks: bool,
    /// Whether what it begins shares memory and is no thread of the C library.
    pub shares_memory: bool,
    /// Whether a thread may be cancelled at any instruction behind it.
    pub allows_cancelling: bool,
    /// Whether it may send a signal to the process.
    pub signals: bool,
    /// Whether it finds functions by names that are known only when the program runs.
    pub looks_up: bool,
    /// Whether it may bring code into the process that was not there when it began.
    pub loads: bool,
    /// Whether it may do anything, as if it were not listed. What the row says is then
    /// what it is known for.
    pub anything: bool,
    /// Whether code generation calls it for what is no call in the program.
    pub implied: bool,
    /// Whether code generation calls it where functions begin or end.
    pub inserted: bool,
    /// Which functions it calls that are given to it.
    pub calls: Whom,
    /// What it leaves as hooks.
    pub installs: Vec<Installs>,
    /// The kinds of hooks that may run in it.
    pub runs: Set<Class>,
    /// What it may call by name, though the program replaced it.
    pub by_name: Set<Family>,
    /// Where it gives fresh memory.
    pub allocates: Option<Fresh>,
    /// Which argument's memory is no more.
    pub frees: Option<u8>,
    /// If it is not one of the libraries the rows are checked against: why.
    pub elsewhere: Option<Elsewhere>,
}

impl Function {
    /// One that returns and calls nobody.
    pub const fn plain(name: &'static str) -> Self {
        Self {
            name,
            returns: true,
            ends: false,
            leaves: false,
            returns_twice: false,
            forks: false,
            vforks: false,
            execs: false,
            spawns: false,
            starts_threads: false,
            cancels: false,
            switches_stacks: false,
            shares_memory: false,
            allows_cancelling: false,
            signals: false,
            looks_up: false,
            loads: false,
            anything: false,
            implied: false,
            inserted: false,
            calls: Whom::Nobody,
            installs: Vec::new(),
            runs: Set::NONE,
            by_name: Set::NONE,
            allocates: None,
            frees: None,
            elsewhere: None,
        }
    }

    /// Whether no call of it comes back.
    pub fn never_returns(&self) -> bool {
        !self.returns
    }

    /// Whether a call of it is but a step in any program: it returns, once, in one process,
    /// and no function of the program runs in it.
    pub fn is_plain(&self) -> bool {
        self.is_step(Set::all(), Set::all())
    }

    /// The same in a program that leaves hooks of these kinds ([`crate::installed_by`]) and
    /// has functions of its own in place of these.
    pub fn is_step(&self, hooks: Set<Class>, replaced: Set<Family>) -> bool {
        let once = self.returns && !self.returns_twice && !self.forks && !self.vforks;
        let goes_on = !self.ends && !self.leaves && !self.execs && !self.signals;
        let calls = self.anything || self.calls != Whom::Nobody;
        let runs = !self.runs.common(hooks).is_empty();
        once && goes_on && !calls && !runs && self.by_name.common(replaced).is_empty()
    }

    /// Whether it leaves hooks of this kind.
    pub fn installs(&self, class: Class) -> bool {
        self.installs.iter().any(|it| it.class == class)
    }

    /// Where the hooks of this kind come from that it leaves.
    pub fn hooks(&self, class: Class) -> impl Iterator<Item = Source> + '_ {
        let of_class = self.installs.iter().filter(move |it| it.class == class);
        of_class.flat_map(|it| it.from.iter().copied())
    }

    /// Whether it may call a function of this name in place of a library's.
    pub fn may_call_by_name(&self, name: &str) -> bool {
        self.anything || self.by_name.iter().any(|family| family.has(name))
    }
}
