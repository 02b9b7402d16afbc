//! What functions do to control that are not the program's own: those of the C library,
//! of POSIX, of the C++ library and its ABI, of the unwinder.
//!
//! Whoever follows a program from outside has to know, of each call into a library,
//! whether it comes back, and which functions of the program may run before it does. All
//! that is known is in one file, `outside.txt`, and the rule of it is: **a function that is
//! not listed may do everything.** A name that is missing costs precision and a few probes;
//! a row that is wrong makes something certain that is not. So in doubt a row claims more,
//! and tests compare the rows with the installed libraries: every name has to be theirs,
//! and no machine code that a function can reach may do what its row does not say.
//!
//! ```
//! use backtrail_outside::{Class, Family, Whom, of};
//!
//! let sort = of("qsort").unwrap();
//! assert_eq!(sort.calls, Whom::Arguments(vec![3]));
//! assert!(sort.by_name.has(Family::Malloc));
//! assert!(of("fgets").unwrap().runs.has(Class::Stream));
//! assert!(of("exit@GLIBC_2.2.5").unwrap().never_returns());
//! assert!(of("strlen").unwrap().is_plain());
//! assert!(of("frobnicate").is_none());
//! ```
//!
//! A function of the program may run in a call for one of four reasons:
//!
//! | reason | where |
//! | --- | --- |
//! | it was passed to this call | [`Function::calls`] |
//! | an earlier call left it as a hook | [`Function::installs`] there, [`Function::runs`] here |
//! | it takes the place of one that libraries call by name | [`Function::by_name`] |
//! | anything may happen | [`Function::anything`], or no row |
//!
//! Whatever the program's own functions do when they are run, they do to the call: they may
//! leave with `longjmp` or an exception, or end the run. [`Function::leaves`] and
//! [`Function::ends`] are of what a function does of itself.
//!
//! What rows do not speak of:
//! - signals that come of themselves, and those of faults and broken pipes: they come
//!   anywhere. Of `signal` only those calls say that they run it in which a handler runs
//!   because of the call.
//! - cancellation of threads. Where a program calls something that [`Function::cancels`],
//!   any call may leave.
//! - undefined behaviour, and the end of a run by a library that finds itself inconsistent
//!   (a broken heap, a smashed stack found by a checking twin).
//! - memory, yet: that will be further words.
//!
//! A row is of the library's function. A program that has its own of this name is seen.
//!
//! Sources: ISO C11 and C++17, POSIX.1-2008, the manual and headers of the GNU C library,
//! the Itanium C++ ABI, and the code of the GNU libraries 2.36 and 12.2. The format is
//! described in `docs/outside.md`.

#![forbid(unsafe_code)]

mod function;
mod pattern;
mod row;
mod set;
mod table;

pub use function::{Class, Elsewhere, Family, Fresh, Function, Installs, Source, Whom};
pub use set::{Member, Set};
pub use table::{
    Entered, Variable, entered, entered_functions, functions, hooks_through, installed_by, of,
    variable, variables,
};

/// The text of the data, as it is in the repository.
pub const TEXT: &str = include_str!("outside.txt");
