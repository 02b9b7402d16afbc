//! Activations that do not return as others do.

use super::profile_program::{LEVELS, Program};

#[test]
fn calls_known_not_to_return() {
    let source = r#"
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        __attribute__((noinline, noreturn)) void give_up(const char *how) {
          if (!strcmp(how, "exit")) exit(7);
          if (!strcmp(how, "_exit")) _exit(7);
          if (!strcmp(how, "quick_exit")) quick_exit(7);
          abort();
        }
        __attribute__((noinline)) int check(int x, const char *how) {
          if (x == 3) give_up(how);
          return x;
        }
        int main(int argc, char **argv) {
          for (int i = 0;; i++) check(i, argv[1]);
        }
    "#;
    for level in LEVELS {
        let program = Program::c(source, &[level]);
        for (runs, how) in ["exit", "_exit", "quick_exit", "abort"].iter().enumerate() {
            let runs = runs as u64 + 1;
            let (ran, profile) = program.equal(&[how]);
            assert_eq!(ran.status, if *how == "abort" { 128 + 6 } else { 7 });
            assert_eq!(profile.processes, runs);
            // The path ends before the call, and is counted there.
            let check = profile.function("check");
            assert_eq!(check.activations(), (4 * runs, 0, 0), "{level} {how}");
            assert_eq!((check.count("", "exit"), check.count("", "call")), (3 * runs, runs));
            assert!(check.edges_exact);
            let give_up = profile.function("give_up");
            assert_eq!(give_up.activations(), (runs, 0, 0), "{level} {how}");
            assert_eq!(give_up.count("entry", "call"), runs);
            // Nobody knows that check does not return, so main's is unfinished.
            let main = profile.function("main");
            assert_eq!(main.activations(), (runs, runs, 0), "{level} {how}");
            assert!(!main.edges_exact);
            assert_eq!(main.count("", "loop"), 3 * runs);
        }
    }
}

#[test]
fn activations_left_by_longjmp() {
    let source = r#"
        #include <setjmp.h>
        static jmp_buf home;
        volatile int fell;
        __attribute__((noinline)) void fall(int depth) {
          if (depth == 0) longjmp(home, 1);
          fall(depth - 1);
          fell++;
        }
        __attribute__((noinline)) int climb(int depth) {
          if (setjmp(home)) return 1;
          fall(depth);
          return 0;
        }
        int main(void) { int sum = 0; for (int i = 0; i < 10; i++) sum += climb(4); return sum == 10 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let fall = profile.function("fall");
        // Of five activations the innermost ends at its call, four are left.
        if level == "-O0" {
            assert_eq!(fall.activations(), (50, 40, 0));
            assert_eq!(fall.count("entry", "call"), 10);
            assert!(!fall.edges_exact);
        } else {
            // The optimiser may have made a loop of them.
            assert_eq!(fall.entries, fall.unfinished + fall.count("", "call"));
            assert_eq!(fall.count("", "exit"), 0);
        }
        let climb = profile.function("climb");
        assert_eq!(climb.activations(), (10, 0, 0), "{level}");
        assert_eq!(climb.count("return_twice", "exit"), 10, "{level}");
        assert!(!climb.edges_exact, "{level}: what was done before the jump is not known");
    }
}

#[test]
fn activations_left_by_exceptions() {
    let source = r#"
        volatile int passed;
        __attribute__((noinline)) void thrower(int x) { if (x % 3 == 0) throw x; passed = passed + 1; }
        __attribute__((noinline)) void between(int x) { thrower(x); passed = passed + 1; }
        __attribute__((noinline)) int catcher(int x) {
          try { between(x); } catch (int) { return 1; }
          return 0;
        }
        int main() { int sum = 0; for (int i = 0; i < 99; i++) sum += catcher(i); return sum == 33 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::cxx(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.function("_Z7throweri").activations(), (99, 0, 0), "{level}");
        assert_eq!(profile.function("_Z7throweri").count("", "call"), 33, "{level}");
        let between = profile.function("_Z7betweeni");
        assert_eq!(between.activations(), (99, 33, 0), "{level}");
        assert!(!between.edges_exact);
        let catcher = profile.function("_Z7catcheri");
        assert_eq!(catcher.activations(), (99, 0, 0), "{level}");
        assert!(catcher.edges_exact, "{level}");
        assert_eq!(catcher.decided("unwound"), 33, "{level}");
    }
}

#[test]
fn activations_left_by_exit_deeper_in_the_stack() {
    let source = r#"
        #include <stdlib.h>
        void leave(int);
        volatile int done;
        __attribute__((noinline)) void deep(int depth) {
          if (depth == 0) leave(5);
          else deep(depth - 1);
          done++;
        }
        int main(void) { deep(6); return 0; }
    "#;
    let leave = "#include <stdlib.h>\nvoid leave(int code) { exit(code); }\n";
    for level in LEVELS {
        let files = [("program.c", source), ("leave.c", leave)];
        let program = Program::new("cc", &["leave.c", level], &files);
        let (ran, profile) = program.equal(&[]);
        assert_eq!(ran.status, 5);
        let deep = profile.function("deep");
        assert!(deep.entries == 7 || level == "-O2", "{level}");
        assert_eq!(deep.unfinished, deep.entries, "{level}");
        assert_eq!(profile.function("main").activations(), (1, 1, 0), "{level}");
        assert_eq!(profile.function("leave").activations(), (1, 0, 0), "{level}");
    }
}

#[test]
fn activations_left_by_a_crash() {
    let source = r#"
        volatile int *volatile nowhere, steps;
        int outside(int);
        __attribute__((noinline)) int deref(int x) {
          for (int i = 0; i < 10; i++) steps++;
          if (x == 20) return *nowhere;
          return outside(x);
        }
        int main(void) { int sum = 0; for (int i = 0; i < 30; i++) sum += deref(i); return sum; }
    "#;
    for level in LEVELS {
        let files = [("program.c", source), ("outside.c", "int outside(int x) { return x; }\n")];
        let program = Program::new("cc", &["outside.c", level, "-fno-unroll-loops"], &files);
        let (ran, profile) = program.equal(&[]);
        assert_eq!(ran.status, 128 + 11);
        let deref = profile.function("deref");
        assert_eq!(deref.activations(), (21, 1, 0), "{level}");
        assert!(!deref.edges_exact);
        assert_eq!(profile.function("main").activations(), (1, 1, 0), "{level}");
        assert_eq!(profile.function("main").count("", "loop"), 20, "{level}");
        assert_eq!(profile.function("outside").activations(), (20, 0, 0), "{level}");
        if level == "-O0" {
            // One path from entry and one per iteration, the last ends with the loop
            // and, in the activation that crashes, nowhere.
            assert_eq!((deref.count("", "loop"), deref.count("loop", "exit")), (21 * 10, 20));
        }
    }
}

/// Where the last block of a function has the call that does not come back.
#[test]
fn activations_left_in_their_last_block() {
    let source = r#"
        #define _GNU_SOURCE
        #include <pthread.h>
        #include <semaphore.h>
        #include <setjmp.h>
        #include <signal.h>
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        void leave(int);
        static sigjmp_buf home;
        volatile int done;
        static void handler(int signal) { (void)signal; siglongjmp(home, 1); }
        __attribute__((noinline)) void last(int depth) {
          if (depth > 0) { last(depth - 1); done++; return; }
          raise(SIGUSR1);
          done++;
        }
        __attribute__((noinline)) void climb(void) { if (!sigsetjmp(home, 1)) last(3); }
        static sem_t waiting;
        static void *replace(void *path) { sem_wait(&waiting); execl(path, path, (char *)0); return 0; }
        __attribute__((noinline)) void wait_for(pthread_t thread) { sem_post(&waiting); pthread_join(thread, 0); done++; }
        int main(int argc, char **argv) {
          static char other[1 << 16];
          stack_t stack = {.ss_sp = other, .ss_size = sizeof other};
          sigaltstack(&stack, 0);
          struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
          sigaction(SIGUSR1, &action, 0);
          for (int i = 0; i < 10; i++) climb();
          pthread_t thread;
          if (!strcmp(argv[1], "exec")) {
            pthread_create(&thread, 0, replace, "/bin/true");
            wait_for(thread);
          }
          leave(3);
          return argc;
        }
    "#;
    let leave = "#include <stdlib.h>\nvoid leave(int code) { exit(code); }\n";
    for level in LEVELS {
        for (how, status) in [("exit", 3), ("exec", 0)] {
            let files = [("program.c", source), ("leave.c", leave)];
            let program = Program::new("cc", &["leave.c", level, "-pthread"], &files);
            let (ran, profile) = program.equal(&[how]);
            assert_eq!(ran.status, status, "{level} {how}");
            let last = profile.function("last");
            assert_eq!(last.activations(), (40, 40, 0), "{level} {how}");
            assert_eq!(profile.function("main").activations(), (1, 1, 0), "{level} {how}");
            if how == "exec" {
                assert_eq!(profile.function("replace").activations(), (1, 1, 0), "{level}");
                assert_eq!(profile.function("wait_for").activations(), (1, 1, 0), "{level}");
            }
        }
    }
}

#[test]
fn setjmp_and_other_calls_that_return_twice() {
    // The call returns six times; what it does in between depends on it.
    let source = r#"
        #include <setjmp.h>
        static jmp_buf home;
        volatile int work;
        __attribute__((noinline)) void fail(int code) { if (work >= 0) longjmp(home, code + 1); }
        __attribute__((noinline)) int attempt(int last, int x) {
          if (x & 1) work += 2;
          if (x & 2) work += 4;
          int code = setjmp(home);
          if (code & 1) work++;
          if (code < last) fail(code);
          return code;
        }
        int main(void) {
          int sum = 0;
          for (int i = 0; i < 40; i++) sum += attempt(5, i);
          return sum == 200 ? 0 : 1;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let attempt = profile.function("attempt");
        assert_eq!(attempt.activations(), (40, 0, 0), "{level}");
        // What is done before the call is counted once, however often it returns.
        assert_eq!(attempt.count("entry", "cut"), 40, "{level}");
        assert_eq!(attempt.count("return_twice", "exit"), 40, "{level}");
        assert_eq!(attempt.count("", ""), 80, "{level}");
        assert!(!attempt.edges_exact, "{level}: five paths of each activation were lost");
        assert_eq!(profile.function("fail").activations(), (200, 0, 0), "{level}");
    }
}

#[test]
fn a_call_that_returns_twice_and_does_not() {
    // Nothing jumps, so nothing is lost; the function has a call that ends paths.
    let source = r#"
        #include <setjmp.h>
        #include <stdlib.h>
        static jmp_buf home;
        volatile int work;
        __attribute__((noinline)) int attempt(int x) {
          if (setjmp(home) == 0 && x % 2) work++;
          if (x == 1000) abort();
          return x;
        }
        int main(void) { for (int i = 0; i < 40; i++) attempt(i); return 0; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let attempt = profile.function("attempt");
        assert_eq!(attempt.activations(), (40, 0, 0), "{level}");
        assert!(attempt.edges_exact, "{level}");
    }
}

#[test]
fn a_call_that_does_not_return_goes_back_to_one_that_returned() {
    // Where the optimiser knows that fail does not return, a path ends before it,
    // and yet the activation goes on: it must not be counted as several.
    let source = r#"
        #include <setjmp.h>
        static jmp_buf home;
        volatile int work;
        __attribute__((noinline, noreturn)) void fail(int code) { longjmp(home, code + 1); }
        __attribute__((noinline)) int attempt(int last) {
          int code = setjmp(home);
          if (code & 1) work++;
          if (code < last) fail(code);
          return code;
        }
        int main(void) { int sum = 0; for (int i = 0; i < 40; i++) sum += attempt(5); return sum == 200 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        let attempt = profile.function("attempt");
        assert_eq!(attempt.activations(), (40, 0, 0), "{level}");
        assert_eq!(attempt.count("", "exit"), 40, "{level}");
    }
}
