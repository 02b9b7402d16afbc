//! Where a trace from witnesses cannot follow, it is said which call is the reason, and the
//! log of every block can be taken.

use std::fs;
use std::path::Path;
use std::process::Command;

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// Two that take turns, each on a stack of its own.
const COROUTINES: &str = r#"
#include <stdio.h>
#include <ucontext.h>
static ucontext_t back, one, two;
static char stacks[2][65536];
static int turns;
__attribute__((noinline)) static void go(ucontext_t *from, ucontext_t *to) { swapcontext(from, to); }
static void first(void) { for (int i = 0; i < 6; i++) { if (i & 1) turns++; go(&one, &two); } go(&one, &back); }
static void second(void) { for (int i = 0; i < 9; i++) { if (i % 3) turns += 2; go(&two, &one); } }
int main(void) {
    getcontext(&one); one.uc_stack.ss_sp = stacks[0]; one.uc_stack.ss_size = 65536;
    getcontext(&two); two.uc_stack.ss_sp = stacks[1]; two.uc_stack.ss_size = 65536;
    makecontext(&one, first, 0); makecontext(&two, second, 0);
    go(&back, &one);
    printf("%d\n", turns);
    return 0;
}"#;

/// A thread executes another program while the first one waits for it.
const EXEC: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static int sum;
__attribute__((noinline)) static void step(int i) { if (i % 3) sum += i; }
static void *run(void *it) {
    for (int i = 0; i < 10; i++) step(i);
    execl("/bin/echo", "echo", "done", (char *)0);
    return it;
}
int main(void) {
    pthread_t thread;
    for (int i = 0; i < 5; i++) step(i);
    pthread_create(&thread, 0, run, 0);
    pthread_join(thread, 0);
    for (int i = 0; i < 7; i++) step(i);
    printf("%d\n", sum);
    return 0;
}"#;

/// A thread is cancelled wherever it is.
const CANCELLED: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static volatile unsigned long sum;
__attribute__((noinline)) static void step(unsigned long i) { if (i % 3) sum += i; else sum ^= i; }
static void *run(void *it) {
    pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, 0);
    for (unsigned long i = 0;; i++) step(i);
    return it;
}
int main(void) {
    for (int i = 0; i < 5; i++) {
        pthread_t thread;
        pthread_create(&thread, 0, run, 0);
        usleep(3000);
        pthread_cancel(thread);
        pthread_join(thread, 0);
    }
    puts("done");
    return 0;
}"#;

/// Two flows in one memory.
const CLONED: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
static volatile int sum;
__attribute__((noinline)) static void step(int i) { if (i % 3) sum += i; else sum ^= 5; }
static int run(void *it) { for (int i = 0; i < 50; i++) step(i); return 0; }
int main(void) {
    char *stack = malloc(65536);
    int child = clone(run, stack + 65536, CLONE_VM | SIGCHLD, 0);
    waitpid(child, 0, 0);
    for (int i = 0; i < 20; i++) step(i);
    printf("%d\n", sum);
    return 0;
}"#;

/// The handler of a timer, which does what has decisions.
const TIMER: &str = r#"
#include <signal.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int ticks, sum;
__attribute__((noinline)) static void step(int i) { if (i % 3) sum += i; else sum ^= i; }
static void tick(int signal) { step(ticks); ticks++; }
int main(void) {
    struct itimerval every = {{0, 1000}, {0, 1000}};
    signal(SIGALRM, tick);
    setitimer(ITIMER_REAL, &every, 0);
    for (int i = 0; ticks < 200; i = (i + 1) % 1000) step(i);
    puts("done");
    return 0;
}"#;

/// What code generation calls where other functions begin and end.
const HOOKS: &str = r#"
#define PLAIN __attribute__((no_instrument_function))
#include <stdio.h>
static volatile int depth, sink;
PLAIN void __cyg_profile_func_enter(void *f, void *c) { if (depth & 1) sink++; depth++; }
PLAIN void __cyg_profile_func_exit(void *f, void *c) { if (depth & 2) sink--; depth--; }
__attribute__((noinline)) static int step(int i) { return i & 1 ? i * 3 : i / 2; }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += step(i);
    printf("%d\n", sum);
    return 0;
}"#;

/// The same of `-pg`, through code that has no probes.
const MCOUNT: &str = r#"
#define PLAIN __attribute__((no_instrument_function))
#include <stdio.h>
static volatile int depth, sink;
PLAIN __attribute__((noinline, used)) void count(void) { if (depth & 1) sink++; depth++; }
PLAIN __attribute__((naked)) void mcount(void) {
    __asm__("push %rax; push %rcx; push %rdx; push %rsi; push %rdi; push %r8; push %r9; call count;"
            "pop %r9; pop %r8; pop %rdi; pop %rsi; pop %rdx; pop %rcx; pop %rax; ret");
}
__attribute__((noinline)) static int step(int i) { return i & 1 ? i * 3 : i / 2; }
int main(void) {
    int sum = 0;
    for (int i = 0; i < 5; i++) sum += step(i);
    printf("%d\n", sum);
    return 0;
}"#;

/// Code that is made while the program runs calls the program's own, and then gives up all
/// frames above assembly that has no unwind tables, as a JIT compiler's does.
const MADE: &str = r#"
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
static volatile int sum;
__attribute__((noinline)) void step(int i) { if (i % 3) sum += i; else sum ^= i; }
__attribute__((noinline)) void turn(void) { for (int i = 0; i < 7; i++) step(i + sum); }
/* What calls made code, and where that gives up all frames above: no unwind tables. */
__asm__(".text\n.globl enter\n.type enter, @function\nenter:\n"
        "push %rbp\nmov %rsp, top(%rip)\nlea 1f(%rip), %rax\nmov %rax, on(%rip)\ncall *%rdi\nud2\n"
        "1: mov top(%rip), %rsp\npop %rbp\nret\n"
        ".globl give_up\n.type give_up, @function\ngive_up:\njmp *on(%rip)\n"
        ".bss\ntop: .quad 0\non: .quad 0\n.text\n");
void enter(void *code);
void give_up(void);
int main(void) {
    unsigned char code[] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0,
                            0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xd0};
    void *calls[] = {turn, give_up};
    memcpy(code + 2, calls, 8);
    memcpy(code + 14, calls + 1, 8);
    int all = PROT_READ | PROT_WRITE | PROT_EXEC;
    void *made = mmap(0, 4096, all, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    memcpy(made, code, sizeof code);
    for (int i = 0; i < 5; i++) { enter(made); step(i); }
    printf("%d\n", sum);
    return 0;
}"#;

struct Place(tempfile::TempDir);

impl Place {
    fn of(source: &str) -> Self {
        Self::with(source, "-pthread")
    }

    fn with(source: &str, options: &str) -> Self {
        let place = Self(tempfile::Builder::new().prefix("backtrail-causes-").tempdir().unwrap());
        fs::write(place.0.path().join("p.c"), source).unwrap();
        let (code, _, err) = place.run(&format!("cc -O1 -g p.c -o p {options}"));
        assert_eq!(code, Some(0), "{err}");
        place
    }

    fn run(&self, words: &str) -> (Option<i32>, String, String) {
        let mut command = Command::new(BACKTRAIL);
        command.current_dir(self.0.path()).args(words.split_whitespace());
        command.env("BACKTRAIL_CACHE", self.0.path().join("cache"));
        let output = command.env("XDG_STATE_HOME", self.0.path().join("state")).output().unwrap();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (output.status.code(), text(output.stdout), text(output.stderr))
    }

    /// The trace cannot be had this way, in one line that has these words.
    #[track_caller]
    fn refused(&self, words: &str, said: &[&str]) {
        let (code, _, err) = self.run(&format!("{words} -o refused ./p"));
        assert_eq!(code, Some(4), "{words}: {err}");
        assert_eq!(err.lines().count(), 1, "{err}");
        for word in said {
            assert!(err.contains(word), "no {word} in: {err}");
        }
        assert!(!self.exists("refused"));
    }

    fn exists(&self, name: &str) -> bool {
        Path::new(self.0.path()).join(name).exists()
    }

    /// With the fallback, it is told why every block is logged, and what that is.
    #[track_caller]
    fn falls_back(&self, said: &[&str]) {
        let (code, _, err) = self.run("trace --fallback -o fallen ./p");
        assert_eq!(code, Some(0), "{err}");
        for word in said.iter().chain(&["every block is logged"]) {
            assert!(err.contains(word), "no {word} in: {err}");
        }
        let (code, shown, err) = self.run("show fallen --json");
        assert_eq!(code, Some(0), "{err}");
        assert!(shown.contains("\"main\""), "{shown}");
    }
}

#[test]
fn coroutines_are_named() {
    let place = Place::of(COROUTINES);
    let cause = ["go (p.c:", "calls swapcontext, which goes on with another stack"];
    place.refused("trace", &[cause[0], cause[1], "--fallback"]);
    place.refused("trace --witness node", &cause);
    place.refused("trace --runs 2", &cause);
    let stops = ["go (0x", cause[1], "--strategy log"];
    place.refused("trace --witness breakpoint", &stops);
    place.falls_back(&cause);
    // What is logged is as with the strategy by name.
    place.run("trace --strategy log -o log ./p");
    let blocks = |name: &str| {
        let shown = place.run(&format!("show {name} --json")).1;
        shown.lines().skip(1).map(str::to_owned).collect::<Vec<_>>()
    };
    let without_process = |line: &String| line.split("\"thread\"").nth(1).map(str::to_owned);
    let (fallen, log) = (blocks("fallen"), blocks("log"));
    assert!(!log.is_empty());
    assert!(fallen.iter().map(without_process).eq(log.iter().map(without_process)));
}

#[test]
fn an_exec_beside_other_threads_is_named() {
    let place = Place::of(EXEC);
    let cause = ["run (p.c:", "calls execl, which replaces the program while its other threads"];
    place.refused("trace", &[cause[0], cause[1], "--fallback"]);
    place.falls_back(&cause);
}

#[test]
fn cancellation_anywhere_is_named() {
    let place = Place::of(CANCELLED);
    let cause = ["run (p.c:", "calls pthread_setcanceltype, which lets a thread be cancelled"];
    place.falls_back(&cause);
    // Where a thread is cancelled is chance: it may be where witnesses follow.
    let (code, _, err) = place.run("trace -o t ./p");
    assert!(code == Some(0) || (code == Some(4) && err.contains(cause[1])), "{code:?} {err}");
}

#[test]
fn two_flows_in_one_memory_are_named() {
    let place = Place::of(CLONED);
    let cause = "calls clone, which begins what shares memory";
    place.refused("trace --witness breakpoint", &["main (0x", cause]);
    place.falls_back(&[cause]);
}

#[test]
fn what_code_generation_calls_is_named() {
    let place = Place::with(HOOKS, "-finstrument-functions-after-inlining");
    let cause = ["code generation calls __cyg_profile_func_enter (p.c:", "functions begin or end"];
    for words in ["trace", "trace --runs 3", "trace --witness node"] {
        place.refused(words, &cause);
    }
    place.falls_back(&cause);
    // In the IR they are calls.
    let place = Place::with(HOOKS, "-finstrument-functions");
    let (code, out, err) = place.run("trace -o t ./p");
    assert_eq!((code, &*out), (Some(0), "15\n"), "{err}");
    let place = Place::with(MCOUNT, "-pg");
    let cause = ["code generation calls mcount", "may run wherever functions begin"];
    place.refused("trace", &cause);
    place.falls_back(&cause);
}

#[test]
fn code_that_is_made_while_the_program_runs_is_named() {
    let place = Place::of(MADE);
    let cause = "the program made code while it ran, which may enter what is traced";
    place.refused("trace --witness breakpoint", &[cause, "(the runs diverged", "--strategy log"]);
    // Made code that only calls and returns is followed.
    let kind = MADE.replace("code + 14, calls + 1, 8", "code + 12, \"\\xc3\", 1");
    let kind = kind.replace("lea 1f(%rip), %rax\\nmov %rax, on(%rip)\\n", "");
    let kind = kind.replace("ud2\\n", "").replace("1: mov top(%rip), %rsp", "");
    assert!(!kind.contains("1f") && !kind.contains("ud2"), "{kind}");
    let place = Place::of(&kind);
    let (code, out, err) = place.run("trace --witness breakpoint -o t ./p");
    assert_eq!((code, &*out), (Some(0), "92\n"), "{err}");
}

#[test]
fn a_timer_and_a_handler_inside_are_no_use_of_sigtrap() {
    let place = Place::of(TIMER);
    let (code, out, err) = place.run("trace --witness breakpoint --in-process -o t ./p");
    assert_eq!(out, "done\n");
    assert!(!err.contains("SIGTRAP"), "{err}");
    let cause = "which lets a handler of a signal run at any instruction";
    let hint = "trace without --in-process";
    assert!(code == Some(0) || (err.contains(cause) && err.contains(hint)), "{code:?} {err}");
    assert!(matches!(code, Some(0 | 4)), "{code:?} {err}");
}

#[test]
fn without_a_cause_nothing_is_logged_instead() {
    let place = Place::of("int main(int argc, char **argv) { return argc > 3; }");
    let (code, _, err) = place.run("trace --fallback -o t ./p");
    assert_eq!((code, &*err), (Some(0), ""));
    let (code, _, err) = place.run("trace --fallback --witness breakpoint -o t ./p");
    assert!(code == Some(2) && err.contains("--fallback logs every block"), "{err}");
    assert!(err.contains("leave out --witness breakpoint: ./p carries its IR"), "{err}");
    let (code, _, err) = place.run("trace --fallback --witness breakpoint -o t true");
    let hint = "bin/true with 'backtrail cc', 'c++' or 'cargo' and leave out";
    assert!(code == Some(2) && err.contains(hint), "{err}");
}
