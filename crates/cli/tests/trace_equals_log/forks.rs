//! Processes that a program forks begin in the frames of their parents.

use super::{SOME, equal, source, trace};
use crate::profile_program::Program;

/// Children begin in the frames of their parents, return from them, execute others, and
/// fork; they are in the order in which they were forked.
#[test]
fn forks_have_traces_of_their_own() {
    for level in ["-O0", "-O2"] {
        let program = Program::c(&source("forks.c"), &[level]);
        for (way, processes) in [("plain", 2), ("exec", 2), ("two", 3), ("nested", 4)] {
            let found = equal(&program, &SOME[..if way == "two" { 4 } else { 2 }], &[way]);
            assert_eq!(found.threads.len(), processes, "{way}");
            assert_eq!((found.unknown, found.incomplete), (vec![None; processes], None), "{way}");
        }
    }
}

/// Children that return through `main`, which gave up its frame, leave it by a jump, or
/// end with what was registered for that.
#[test]
fn forks_end_where_main_gave_up_its_frame() {
    let program = Program::c(&source("tail_forks.c"), &["-O2", "-pthread"]);
    for way in ["return", "jump", "exit", "_exit"] {
        for arguments in [&[way][..], &[way, "report"]] {
            let found = equal(&program, &SOME, arguments);
            assert_eq!((found.unknown, found.incomplete), (vec![None; 3], None), "{arguments:?}");
        }
    }
}

/// Processes that begin in the frames of a thread that is not the first, end there or
/// with it, and fork again.
#[test]
fn forks_by_other_threads_begin_in_their_frames() {
    let program = Program::c(&source("tail_forks.c"), &["-O2", "-pthread"]);
    for (arguments, threads) in [
        (&["thread"][..], 3),
        (&["thread that returns"], 4),
        (&["thread that returns", "report"], 4),
    ] {
        let found = equal(&program, &SOME, arguments);
        assert_eq!((found.unknown, found.incomplete), (vec![None; threads], None), "{arguments:?}");
    }
}

#[test]
fn a_fork_that_was_killed_is_known_as_far_as_it_came() {
    let program = Program::c(&source("forks.c"), &["-O1"]);
    let logged = trace(&program, &["--strategy", "log"], &["killed"]).trace.unwrap();
    // Of several runs, the one that decides next may have been stopped before it did.
    for (options, least) in SOME.into_iter().zip([9, 9, 9, 0]) {
        let found = trace(&program, options, &["killed"]).trace.unwrap();
        assert_eq!(found.threads.len(), 2, "{options:?}");
        assert_eq!(found.threads[0], logged.threads[0], "{options:?}");
        assert!(found.unknown[0].is_none() && found.unknown[1].is_some(), "{options:?}");
        let (found, wanted) = (&found.threads[1], &logged.threads[1]);
        let shared = found.len().min(wanted.len());
        assert_eq!(found[..shared], wanted[..shared], "{options:?}");
        assert!(shared >= least && found.len() < wanted.len() + 3, "{options:?}: {shared}");
    }
}

/// Forks behind the C library.
const FORKING: &str = r#"
#include <stdio.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
__attribute__((noinline)) static int sum(int n) { int s = 0; while (n-- > 0) s += n & 3; return s; }
int main(void) {
    pid_t child = syscall(SYS_fork);
    if (child == 0) _exit(sum(7) & 15);
    int status = 0;
    waitpid(child, &status, 0);
    printf("%d\n", WEXITSTATUS(status) + sum(3));
    return 0;
}
"#;

#[test]
fn a_fork_that_is_not_known_to_begin_anywhere_is_said_to_be_missing() {
    let program = Program::c(FORKING, &["-O1"]);
    let logged = trace(&program, &["--strategy", "log"], &[]).trace.unwrap();
    let found = trace(&program, &[], &[]);
    assert_eq!(found.output.status.code(), Some(0));
    let found = found.trace.unwrap();
    assert!(found.incomplete.unwrap().contains("where it began is not recorded"));
    assert_eq!((found.threads.len(), logged.threads.len()), (1, 2));
    assert_eq!(found.threads[..], logged.threads[..1]);
}
/// A child that begins with what was left to be called in it.
#[test]
fn forks_begin_in_handlers_of_forks() {
    let forking = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static int n;
static void before(void) { n += 2; }
static void in_parent(void) { n += 3; }
__attribute__((noinline)) static void more(void) { if (n > 1) n++; }
static void in_child(void) { n += 5; more(); }
int main(void) {
    pthread_atfork(before, in_parent, in_child);
    pid_t child = fork();
    if (child == 0) {
        n += 10;
        if (n > 3) _exit(7);
    }
    int status;
    waitpid(child, &status, 0);
    n += WEXITSTATUS(status);
    printf("%d\n", n);
    return 0;
}
"#;
    for level in ["-O0", "-O1"] {
        let program = Program::c(forking, &[level, "-fno-inline"]);
        let found = equal(&program, &SOME, &[]);
        assert_eq!((found.unknown, found.incomplete), (vec![None; 2], None));
    }
}
