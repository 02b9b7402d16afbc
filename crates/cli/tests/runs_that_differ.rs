//! Runs that are put together are called checked if all entered the same functions in the
//! same order; if they did not, there is no result, or it says so.

mod profile_program;

use profile_program::{BACKTRAIL, Program};
use serde_json::Value;

/// Counts never tell runs apart: of two functions one is called first, as chance says, and
/// then the other. So each run counts the same.
const ORDER: &str = r#"
    #include <pthread.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/random.h>
    #include <sys/wait.h>
    #include <unistd.h>
    volatile int sink;
    __attribute__((noinline)) void odd(int x) { sink += x; }
    __attribute__((noinline)) void even(int x) { sink -= x; }
    unsigned long seed(void) { unsigned long n; if (getrandom(&n, 8, 0) != 8) abort(); return n; }
    void *play(void *chance) {
        unsigned long bits = chance ? seed() : 12345;
        for (int i = 0; i < 64; i++, bits >>= 1)
            if (bits & 1) { odd(i); even(i); } else { even(i); odd(i); }
        return 0;
    }
    void caught(int signal) { sink = signal; }
"#;

fn program(main: &str) -> Program {
    Program::c(&format!("{ORDER}int main(void) {{ {main} return 0; }}"), &["-O1", "-pthread"])
}

const WAYS: [&[&str]; 6] = [
    &["profile", "--copies", "2"],
    &["profile", "--copies", "3", "--strategy", "pbl"],
    &["profile", "--copies", "4", "--strategy", "p3"],
    &["trace", "--runs", "2"],
    &["trace", "--runs", "4", "--strategy", "fine"],
    &["trace", "--runs", "2", "--limit", "2"],
];

/// What is said of how far the runs were compared.
#[track_caller]
fn merged(program: &Program, way: &[&str]) -> Value {
    let words = [way, &["-o", "merged", "./program"]].concat();
    let output = program.command(BACKTRAIL).args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    let show = if way[0] == "profile" { "paths" } else { "show" };
    let shown = |words: &[&str]| {
        let output = program.command(BACKTRAIL).arg(show).args(words).output().unwrap();
        assert!(output.status.success(), "{words:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let json = shown(&["--json", "merged"]);
    let (first, whole) = (json.lines().next().unwrap(), serde_json::from_str(&json));
    let document: Value = whole.unwrap_or_else(|_| serde_json::from_str(first).unwrap());
    let merged = match &document["merged"] {
        Value::Array(list) => list[0].clone(),
        merged => merged.clone(),
    };
    // The text and the page say the same, and so does what is said at once.
    let verdict = if merged["checked"] == true { ", checked" } else { ", not checked" };
    assert!(shown(&["merged"]).contains(verdict), "{words:?}");
    assert_eq!(said.contains("not checked"), merged["checked"] == false, "{said}");
    shown(&["merged", "--html", "site"]);
    let page = std::fs::read_to_string(program.path("site/index.html")).unwrap();
    let verdict = verdict.trim_start_matches(", ");
    assert!(page.contains(verdict), "{words:?}");
    merged
}

#[test]
fn runs_that_are_alike_are_checked() {
    // Children begin at the same time; which of them comes first is chance.
    let children = "for (int k = 0; k < 4; k++) if (!fork()) { \
                    for (int i = 0; i < k; i++) play(0); if (k % 2) odd(1); _exit(0); } \
                    while (wait(0) > 0) ;";
    let threads = "pthread_t t[2]; for (int k = 0; k < 2; k++) \
                   pthread_create(&t[k], 0, play, 0); \
                   for (int k = 0; k < 2; k++) pthread_join(t[k], 0);";
    for main in ["play(0);", children] {
        let program = program(main);
        for way in WAYS {
            let merged = merged(&program, way);
            assert_eq!(merged["checked"], true, "{way:?}: {merged}");
            assert!(merged["by"].to_string().contains("entered functions"), "{merged}");
            assert!(merged["unseen"].to_string().contains("one run alone"), "{merged}");
        }
    }
    let merged = merged(&program(threads), WAYS[0]);
    assert_eq!(merged["checked"], true, "{merged}");
}

#[test]
fn another_order_of_entries_is_a_difference() {
    // A handler that does not run changes nothing.
    let program = program("signal(SIGUSR1, caught); play(&sink);");
    for way in WAYS {
        let (code, said) = program.refused(&[way, &["./program"]].concat());
        assert_eq!(code, 4, "{way:?}: {said}");
        if way[0] == "profile" {
            assert!(said.contains("in the same order"), "{way:?}: {said}");
        }
    }
}

/// Threads and handlers may take turns in another way in each run.
#[test]
fn where_the_order_may_differ_the_result_is_not_checked() {
    let thread = "pthread_t t; pthread_create(&t, 0, play, &t); pthread_join(t, 0);";
    let handler = "signal(SIGUSR1, caught); play(&sink); raise(SIGUSR1);";
    for main in [thread, handler] {
        let program = program(main);
        for way in &WAYS[..3] {
            let merged = merged(&program, way);
            assert_eq!(merged["checked"], false, "{way:?}: {merged}");
            assert!(merged["unseen"][0].to_string().contains("differs between runs 1 and"));
        }
    }
}

/// In trees of processes, too.
#[test]
fn a_child_that_differs_is_a_difference() {
    let program = program("if (!fork()) { play(&sink); _exit(0); } wait(0);");
    for way in &WAYS[..3] {
        let (code, said) = program.refused(&[*way, &["./program"]].concat());
        assert_eq!((code, said.contains("in the same order")), (4, true), "{way:?}: {said}");
    }
}
