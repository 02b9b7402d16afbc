//! What code that is not seen may do while it runs on behalf of a call.
//!
//! The safe answer is everything: call back any function whose address is known,
//! end the run, leave frames. Whatever is traced or analysed then has to reckon
//! with all of it. So it is worth knowing of a function that it does less. The names
//! here are of functions that the C standard, POSIX or the C++ ABI describe, and only
//! where these descriptions exclude more; a program that replaces one of them by its
//! own has it in a unit, where it is seen.
//!
//! Asynchronous signals are not thought of: they are nondeterminism.

use backtrail_ir::Traits;

mod names;

use names::PLAIN;

/// Whom unseen code may call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CallsBack {
    /// Nobody.
    Nobody,
    /// The functions that were passed to it, if these are known by name, and any
    /// whose address is taken if not.
    Arguments,
    /// Any function whose address is taken.
    Anyone,
}

/// What unseen code may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Behaviour {
    /// Whom it calls.
    pub calls_back: CallsBack,
    /// Whether the run may end in it.
    pub ends: bool,
    /// Whether it may leave frames for a landing.
    pub leaves: bool,
    /// Whether it may return.
    pub returns: bool,
}

impl Behaviour {
    /// Nothing but to return.
    pub const PLAIN: Self =
        Self { calls_back: CallsBack::Nobody, ends: false, leaves: false, returns: true };

    /// Whether a function of this name sends a signal, whose handler then runs and
    /// may jump.
    pub fn may_signal(name: &str) -> bool {
        matches!(name, "raise" | "kill" | "pthread_kill" | "tgkill")
    }

    /// What a function of this name and with these traits may do.
    pub fn of(name: &str, traits: Traits) -> Self {
        if traits.returns_twice {
            // `setjmp` and `vfork` remember where they were called, no more.
            return Self::PLAIN;
        }
        // The checking twin, as `__printf_chk`.
        let name = name.strip_prefix("__").and_then(|it| it.strip_suffix("_chk")).unwrap_or(name);
        if PLAIN.binary_search(&name).is_ok() {
            return Self { returns: !traits.no_return, ..Self::PLAIN };
        }
        match name {
            "qsort" | "bsearch" | "qsort_r" | "lfind" | "lsearch" | "tsearch" | "tfind"
            | "tdelete" | "twalk" | "ftw" | "nftw" | "glob" | "scandir" | "pthread_once" => {
                Self { calls_back: CallsBack::Arguments, leaves: true, ..Self::PLAIN }
            }
            // Not before this thread goes on, but on its behalf.
            "pthread_create" | "thrd_create" | "pthread_key_create" | "atexit" | "on_exit"
            | "__cxa_atexit" => Self { calls_back: CallsBack::Arguments, ..Self::PLAIN },
            // What was registered for forks runs.
            "fork" | "_Fork" => Self { calls_back: CallsBack::Anyone, ..Self::PLAIN },
            "_exit" | "_Exit" => Self { ends: true, returns: false, ..Self::PLAIN },
            "execl" | "execle" | "execlp" | "execv" | "execve" | "execvp" => {
                Self { ends: true, ..Self::PLAIN }
            }
            _ if Self::may_signal(name) => {
                Self { calls_back: CallsBack::Anyone, ends: true, leaves: true, returns: true }
            }
            // What was registered runs, and may call for the end again.
            "exit" | "quick_exit" | "abort" | "__assert_fail" | "__stack_chk_fail" | "err"
            | "errx" | "verr" | "verrx" => {
                Self { calls_back: CallsBack::Anyone, ends: true, leaves: false, returns: false }
            }
            // They end the run if they are told to.
            "error" | "error_at_line" => {
                Self { calls_back: CallsBack::Anyone, ends: true, leaves: false, returns: true }
            }
            // The checking twin of `longjmp` among them.
            "longjmp" | "_longjmp" | "siglongjmp" => {
                Self { leaves: true, returns: false, ..Self::PLAIN }
            }
            _ => Self {
                calls_back: CallsBack::Anyone,
                ends: true,
                leaves: true,
                returns: !traits.no_return,
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        let of = |name: &str| Behaviour::of(name, Traits::default());
        assert_eq!(of("printf"), Behaviour::PLAIN);
        assert_eq!(of("__printf_chk"), Behaviour::PLAIN);
        assert_eq!(of("qsort").calls_back, CallsBack::Arguments);
        assert!(!of("exit").returns && of("exit").ends);
        assert!(of("__longjmp_chk").leaves && !of("fork").leaves);
        // Only what has both the one and the other is a checking twin.
        for name in ["__printf", "printf_chk", "errno_location", "overflow"] {
            assert!(of(name).leaves, "{name}");
        }
        let unknown = of("frobnicate");
        assert!(unknown.ends && unknown.leaves && unknown.calls_back == CallsBack::Anyone);
    }
}
