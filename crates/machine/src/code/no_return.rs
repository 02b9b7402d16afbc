//! Functions of other files that never return to their caller.
//!
//! By the C standard, POSIX, glibc's headers (`__attribute__((noreturn))`) and the
//! C++ ABI. A name that is missing here costs little: what follows a call of it is
//! then decoded, which is code as a rule. A name that is here wrongly would hide
//! code.

/// Whether no call of the function comes back.
pub(crate) fn never_returns(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or(name);
    NAMES.binary_search(&name).is_ok() || is_throw_of_std(name)
}

/// `std::__throw_bad_alloc` and its like, by which libstdc++'s headers throw.
fn is_throw_of_std(name: &str) -> bool {
    let rest = name.strip_prefix("_ZSt").unwrap_or_default();
    rest.trim_start_matches(|it: char| it.is_ascii_digit()).starts_with("__throw_")
}

/// In order.
#[rustfmt::skip]
const NAMES: &[&str] = &[
    "_Exit", "_Unwind_Resume", "_ZSt10unexpectedv",
    "_ZSt17rethrow_exceptionNSt15__exception_ptr13exception_ptrE", "_ZSt9terminatev", "__assert",
    "__assert_fail", "__assert_perror_fail", "__chk_fail", "__cxa_bad_cast", "__cxa_bad_typeid",
    "__cxa_call_unexpected", "__cxa_rethrow", "__cxa_throw", "__cxa_throw_bad_array_new_length",
    "__fortify_fail", "__libc_fatal", "__libc_start_main", "__longjmp_chk", "__pthread_unwind_next",
    "__stack_chk_fail", "_exit", "_longjmp", "abort", "err", "errx", "exit", "longjmp",
    "pthread_exit", "quick_exit", "siglongjmp", "thrd_exit", "verr", "verrx",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_order_and_versions_do_not_matter() {
        assert!(NAMES.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(never_returns("exit") && never_returns("__libc_start_main@GLIBC_2.34"));
        assert!(!never_returns("error") && !never_returns("main"));
        assert!(never_returns("_ZSt20__throw_future_errori@GLIBCXX_3.4.14"));
        assert!(!never_returns("_ZSt4move") && !never_returns("__throw_it"));
    }
}
