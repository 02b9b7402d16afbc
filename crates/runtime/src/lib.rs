//! The part of Backtrail that runs inside instrumented programs.
//!
//! `recipe.rs` beside this crate's manifest compiles it to a relocatable object
//! that is linked into variants of C, C++ and Rust programs: static, static-pie,
//! PIE and not, shared libraries. It implements
//! [`backtrail_abi::log::LOG_FUNCTION`] and
//! [`backtrail_abi::counts::ENTER_FUNCTION`]; a second object has the latter
//! alone, and no thread storage, of which libraries that are loaded late cannot
//! have much. It needs nothing from the program:
//! no libc (system calls are made directly, so `errno` never changes), no
//! allocator, no destructor. It never panics, never unwinds, and has unwind
//! tables, so that a backtrace taken in a signal handler passes through it. Its
//! one constructor asks the C library, if that can be asked, to be called at forks,
//! and makes a module with counters known.
//!
//! # How an event is logged
//! Each thread has a page of state, found by one thread-local pointer, and a
//! window of its log file mapped into memory. The fast path reserves a slot with
//! one `xadd` that is not locked (atomic against signal handlers of the same
//! thread, which is all that is needed) and stores four bytes. What is stored is
//! in the page cache, so it survives any end of the process. Everything else
//! happens on the slow path with all signals blocked: registering a unit,
//! creating and extending files.
//!
//! # How counters are kept
//! Injected code counts by single instructions, in the copy of its module's
//! counters that the thread's `%gs` base leads to; [`backtrail_abi::counts`] has
//! the whole idea. The runtime is called when a thread has no copy yet: it finds
//! or makes one (`copy.rs`), with every module's area mapped at the same distance
//! (`distance.rs`), and puts a file under the area of the module that is run
//! (`area.rs`). From then on the file has the truth at any moment. A fork's child
//! is given new files before it counts (`fork.rs`).
//!
//! # How modules record together
//! All instances of the runtime in a process share one registry (`registry.rs`), and
//! with it the record; a thread has one state in all of them (`lasting.rs`).
//!
//! # What a record says of the process
//! Each module says which variant it is, and the record lists those that the process is
//! made of (`variants.rs`), each with where it is mapped from (`mapped.rs`).
//!
//! # What holds
//! - A thread's log is the exact sequence of its events, or a prefix of it and
//!   the process header says why it is incomplete. An event whose thread left a
//!   signal handler by `longjmp` between reserving and storing stays zero, and
//!   readers count it as lost.
//! - Counts of all copies of a module add up to what was counted, or the process
//!   header says why they may not.
//! - Folders and files are private, and are known again by what the kernel says of
//!   them once they are open (`folder.rs`): other users cannot have the program write
//!   anywhere else, nor cut a file that is mapped.
//! - Space is allocated on disk before it is mapped: a full disk is an error
//!   number and never SIGBUS. Descriptors are closed before the slow path ends.
//! - The state pages and the owners' pages are wiped in a fork's child
//!   (`MADV_WIPEONFORK`), whatever way the fork was made, so the child falls into
//!   the slow path and makes a record of its own. No lock is inherited in a
//!   locked state.
//! - What must survive a fork (where records go, which units have which numbers,
//!   what is mapped where) is in private memory and written in such an order that
//!   any prefix of the writes is consistent.
//!
//! # What is to be known
//! - Children made by `vfork` and other processes that share memory and thread
//!   storage with their parent log and count into the parent's record until they
//!   `exec`.
//! - Two kernel threads that share one thread storage at the same time (a raw
//!   `clone` without `CLONE_SETTLS`) would lose events; no libc works there.
//! - Every module has an instance of its own, which no other one sees. They record
//!   together if there is room for the registry at one of a few addresses; else a
//!   process has as many logs as modules, and no counters.
//! - A thread that ends leaves its page and window mapped; new threads look for
//!   such leftovers and take them over, so that their number stays in proportion
//!   to that of living threads. So it is with copies of counters.
//! - While a thread extends its file, another thread sees one or two descriptors
//!   more for a moment: a fork at that moment inherits them, and one that closes
//!   descriptors which are not its own can hit them.
//! - Thread storage must be there: code that runs before libc has set it up
//!   (resolvers of ifuncs, a program without libc) must not log or check. It may
//!   count without a check, but not in a library that a thread other than the
//!   first loads, whose areas are mapped only when its constructors run.
//! - The mapped windows of a parent stay mapped in a forked child.
//! - A program that gives up the right to open its record (a change of user, a
//!   change of root) logs until its window is full, counts in the copies it has,
//!   and is then incomplete. One that installs a seccomp filter which kills at
//!   `rt_sigprocmask`, `openat`, `fstat`, `fallocate`, `mmap` or `arch_prctl` is
//!   killed when its window is full or a thread first counts. Whether there is one
//!   cannot be found out without a system call that it may kill for.
//! - Its owner can cut a file that is mapped; then a store there is SIGBUS.
//! - A fork behind the C library whose child never reaches another check counts
//!   in its parent's record, unseen. The same holds for a function that one
//!   thread begins and another goes on with, if that one never reached a check.
//! - A program that uses `%gs` for itself cannot be counted: the check in its
//!   functions reads memory that is not there.
//! - Executables at fixed low addresses, and all programs where there are no
//!   instructions for the base (`FSGSBASE`, Linux 5.9), have room for copies above
//!   the originals only. When there is none left, for instance without address
//!   randomisation, further threads count in the first copy and the record says
//!   so.
//! - In a static musl program the C library can be asked to call at forks only if
//!   `pthread_atfork` is linked in; else forks are labelled as raw ones.
//! - A file of counters takes its whole size on disk, one per thread and process.
//! - `MADV_WIPEONFORK` needs Linux 4.14. Without it nothing is recorded.

#![cfg_attr(not(test), no_std)]
#![no_builtins]
#![cfg(all(target_arch = "x86_64", target_os = "linux"))]
#![cfg_attr(not(feature = "log"), allow(dead_code, reason = "what the log alone needs"))]

mod area;
mod copy;
mod counts;
mod distance;
#[cfg(feature = "log")]
mod entry;
mod environment;
mod file;
mod folder;
mod fork;
#[cfg(feature = "log")]
mod inheritance;
mod lasting;
mod lock;
mod mapped;
mod module;
mod name;
mod process;
mod registry;
mod sys;
mod table;
mod thread;
mod variants;
