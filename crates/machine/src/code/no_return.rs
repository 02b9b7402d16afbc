//! Functions of other files that never return to their caller.
//!
//! A name that is not listed costs little: what follows a call of it is then decoded,
//! which is code as a rule. One that is listed wrongly would hide code.

use backtrail_outside as outside;

/// Whether no call of the function comes back.
pub(crate) fn never_returns(name: &str) -> bool {
    outside::of(name).is_some_and(outside::Function::never_returns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_do_not_matter() {
        assert!(never_returns("exit") && never_returns("__libc_start_main@GLIBC_2.34"));
        assert!(!never_returns("error") && !never_returns("main"));
        assert!(never_returns("_ZSt20__throw_future_errori@GLIBCXX_3.4.14"));
        assert!(!never_returns("_ZSt4move") && !never_returns("__throw_it"));
    }
}
