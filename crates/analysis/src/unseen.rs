//! What a function of a library may do on behalf of a call, where no more than its name is
//! known: that of machine code. Where the units are known, see [`crate::external`].
//!
//! Asynchronous signals are not thought of: they are nondeterminism.

use backtrail_ir::Traits;
use backtrail_outside::{self as outside, Class, Set, Whom};

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

    /// What a function of this name and with these traits may do in a program that leaves
    /// hooks of these kinds.
    pub fn of(name: &str, traits: Traits, hooks: Set<Class>) -> Self {
        let row = outside::of(name);
        if traits.returns_twice || row.is_some_and(|row| row.returns_twice && !row.vforks) {
            // `setjmp` remembers where it was called, no more.
            return Self::PLAIN;
        }
        let Some(row) = row.filter(|row| !row.anything && !row.vforks) else {
            return Self {
                calls_back: CallsBack::Anyone,
                ends: true,
                leaves: true,
                returns: !traits.no_return,
            };
        };
        let runs = row.runs.common(hooks).iter().any(|class| class != Class::Signal);
        let calls_back = match &row.calls {
            _ if runs || row.signals => CallsBack::Anyone,
            Whom::Nobody if row.installs.is_empty() => CallsBack::Nobody,
            Whom::Nobody | Whom::Arguments(_) => CallsBack::Arguments,
            Whom::Taken | Whom::Anyone => CallsBack::Anyone,
        };
        Self {
            calls_back,
            ends: row.ends || row.execs || row.signals,
            leaves: row.leaves || row.signals || row.calls != Whom::Nobody || runs,
            returns: row.returns && !traits.no_return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_found() {
        let of = |name: &str| Behaviour::of(name, Traits::default(), Set::NONE);
        assert_eq!(of("printf"), Behaviour::PLAIN);
        assert_eq!(of("__printf_chk"), Behaviour::PLAIN);
        assert_eq!(of("qsort").calls_back, CallsBack::Arguments);
        assert!(!of("exit").returns && of("exit").ends);
        assert!(of("__longjmp_chk").leaves && !of("fork").leaves);
        for name in ["__printf", "printf_chk", "errno_location", "overflow", "assert_fail"] {
            assert!(of(name).leaves, "{name}");
        }
        let unknown = of("frobnicate");
        assert!(unknown.ends && unknown.leaves && unknown.calls_back == CallsBack::Anyone);
    }

    #[test]
    fn hooks_are_run_where_there_are_some() {
        let of = |name: &str, hooks| Behaviour::of(name, Traits::default(), hooks).calls_back;
        assert_eq!(of("fgets", Set::NONE), CallsBack::Nobody);
        assert_eq!(of("fgets", [Class::Stream].into_iter().collect()), CallsBack::Anyone);
        assert_eq!(of("fgets", [Class::AtExit].into_iter().collect()), CallsBack::Nobody);
    }
}
