//! Threads, processes, and code that runs before and beside the program's own.

use super::profile_program::{LEVELS, Program, Scheme};

#[test]
fn functions_that_run_before_the_runtime_is_ready() {
    // A resolver runs while the program is being relocated, a function in
    // .preinit_array before all constructors, constructors by priority.
    let source = r#"
        volatile int work;
        __attribute__((noinline)) void step(int n) { for (int i = 0; i < n; i++) work++; }
        static int fast(int x) { return x + 1; }
        static void *helper(void) { return (void *)fast; }
        static void *resolve(void) { return helper(); }
        int chosen(int) __attribute__((ifunc("resolve")));
        static void before(int argc, char **argv, char **env) { (void)argc; (void)argv; (void)env; step(10); }
        __attribute__((section(".preinit_array"), used)) static void (*preinit)(int, char **, char **) = before;
        __attribute__((constructor(101))) static void first(void) { step(20); }
        __attribute__((constructor)) static void last(void) { step(40); }
        __attribute__((destructor)) static void end(void) { step(80); }
        int main(void) { step(160); return chosen(4) == 5 && work == 230 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level, "-fno-unroll-loops"]).profile(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.incomplete, None);
        let step = profile.function("step");
        assert_eq!(step.activations(), (5, 0, 0), "{level}");
        assert!(step.edges_exact, "{level}");
        let iterations: u64 = 10 + 20 + 40 + 80 + 160;
        let per_loop = if level == "-O0" { iterations } else { iterations - 5 };
        assert_eq!(step.count("", "loop"), per_loop, "{level}");
        for once in ["before", "first", "last", "end", "main", "fast"] {
            assert_eq!(profile.function(once).activations(), (1, 0, 0), "{level} {once}");
        }
        // Named, with the reason.
        let resolver = &profile.function("resolve").instrumented;
        assert!(resolver.starts_with("no: "), "{level}: {resolver}");
        assert!(resolver.contains("ifunc"), "{level}: {resolver}");
    }
}

#[test]
fn threads() {
    let source = r#"
        #include <pthread.h>
        volatile int start;
        __attribute__((noinline)) long collatz(unsigned long n) {
          long steps = 0;
          while (n != 1) { if (n % 2) n = 3 * n + 1; else n /= 2; steps++; }
          return steps;
        }
        static void *work(void *out) {
          __atomic_add_fetch(&start, 1, __ATOMIC_SEQ_CST);
          while (__atomic_load_n(&start, __ATOMIC_SEQ_CST) < 2) {}
          long sum = 0;
          for (unsigned long i = 1; i <= 20000; i++) sum += collatz(i);
          *(long *)out = sum;
          return 0;
        }
        int main(void) {
          pthread_t one, two; long a, b;
          pthread_create(&one, 0, work, &a); pthread_create(&two, 0, work, &b);
          pthread_join(one, 0); pthread_join(two, 0);
          return a == b ? 0 : 1;
        }
    "#;
    let steps = |mut n: u64| {
        let (mut odd, mut even) = (0u64, 0u64);
        while n != 1 {
            let is_odd = n % 2 == 1;
            (odd, even) = (odd + u64::from(is_odd), even + u64::from(!is_odd));
            n = if is_odd { 3 * n + 1 } else { n / 2 };
        }
        (odd, even)
    };
    let (odd, even) =
        (1..=20_000).map(steps).fold((0, 0), |sum: (u64, u64), one| (sum.0 + one.0, sum.1 + one.1));
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level, "-pthread"]).profile(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.incomplete, None);
        let collatz = profile.function("collatz");
        assert_eq!(collatz.activations(), (40_000, 0, 0), "{level}");
        assert!(collatz.edges_exact);
        if level == "-O0" {
            assert_eq!(collatz.count("", "loop"), 2 * (odd + even));
            // Both conditions: whether to go on, and whether the number is odd.
            assert_eq!(collatz.decided("true"), 2 * (odd + even) + 2 * odd);
            assert_eq!(collatz.decided("false"), 40_000 + 2 * even);
        }
        assert_eq!(profile.function("work").activations(), (2, 0, 0), "{level}");
    }
}

#[test]
fn fork_in_the_middle_of_a_loop() {
    // Both go on with the loop that forked, at the same time.
    let source = r#"
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void step(int x) { if (x % 2) work++; else work = 2; }
        int main(void) {
          int child = -1, status = 0;
          for (int i = 0; i < 200000; i++) {
            if (i == 1000) child = fork();
            step(i);
          }
          if (child == 0) return 3;
          wait(&status);
          return WEXITSTATUS(status) == 3 ? 0 : 1;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).profile(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.processes, 2);
        assert_eq!(profile.incomplete, None, "{level}");
        let step = profile.function("step");
        assert_eq!(step.activations(), (200_000 + 199_000, 0, 0), "{level}");
        assert_eq!(step.count("entry", "exit"), 399_000, "{level}");
        let mut counts: Vec<u64> = step.paths.values().map(|path| path.count).collect();
        counts.sort();
        assert_eq!(counts, [199_500, 199_500], "{level}");
        // main was entered once and left twice, the second time by inheritance.
        let main = profile.function("main");
        assert_eq!(main.activations(), (1, 0, 1), "{level}");
        // Where the condition is at the loop's end, the last round ends no path there.
        let rounds = if level == "-O0" { 399_000 } else { 399_000 - 2 };
        assert_eq!(main.count("", "loop"), rounds, "{level}");
        assert!(!main.edges_exact);
    }
}

#[test]
fn what_a_forks_child_inherits() {
    // The child leaves by `exit` below, so that nothing of its `main` ends a path.
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void leave(int n) { if (n) exit(0); }
        __attribute__((noinline)) void aside(int n) { if (n) work++; else leave(0); }
        int main(int argc, char **argv) {
          aside(argc);
          pid_t child = fork();
          if (child > 0) { waitpid(child, 0, 0); return 0; }
          if (argc > 1) work = 2; else work = 3;
          leave(argc);
          return 0;
        }
    "#;
    for level in LEVELS {
        let program = Program::c(source, &[level, "-g"]);
        let (ran, profile) = program.equal(&[]);
        assert_eq!((ran.status, profile.processes), (0, 2));
        let main = profile.function("main");
        assert!(!main.edges_exact, "{level}: lines of the child's main are in no count");
        assert!(!profile.known["program.c#main"].activations_exact, "{level}");
        // One that does not lead to the fork is exact.
        assert!(profile.function("aside").edges_exact, "{level}");
        let logged = program.recorded(Scheme::Log);
        assert_eq!(logged.function("main").activations(), (1, 1, 1), "{level}");
        let zero = |(_, count): (&(String, u32), &u64)| *count == 0;
        let lines = program.lcov(Scheme::Profile);
        let zeros = lines.iter().filter(|it| zero((it.0, it.1))).map(|(at, _)| at.1);
        assert!(zeros.clone().all(|line| line < 8), "{level}: {:?}", zeros.collect::<Vec<_>>());
        let records = program.records(Scheme::Profile);
        let text = program.backtrail(&["paths", records.to_str().unwrap()]);
        let said = "unfinished  no activation that is known (children of a fork may have left 1 function); in 1 function";
        assert!(text.contains(said), "{level}: {text}");
    }
}

#[test]
fn forks_deep_down_of_children_and_of_threads() {
    let source = r#"
        #include <pthread.h>
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        static int depth;
        __attribute__((noinline)) void split(int n) {
          pid_t child = fork();
          if (child > 0) { waitpid(child, 0, 0); work += n; return; }
          depth++;
          if (depth == 2 && n % 2) exit(0);
        }
        __attribute__((noinline)) void inner(int n) {
          for (int i = 0; i < n; i++) { work++; if (i == 1 && depth < 2) split(n); }
        }
        __attribute__((noinline)) void outer(int n) { inner(n); if (depth) work += 2; inner(n - 1); }
        void *start(void *n) { outer(*(int *)n); return 0; }
        int main(int argc, char **argv) {
          int n = 3;
          outer(n);
          if (depth) return 0;
          pthread_t thread;
          pthread_create(&thread, 0, start, &n);
          pthread_join(thread, 0);
          return 0;
        }
    "#;
    for level in LEVELS {
        let program = Program::c(source, &[level, "-g", "-pthread"]);
        let (ran, profile) = program.equal(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.incomplete, None);
        assert!(profile.processes > 6, "{level}: {}", profile.processes);
        let logged = program.recorded(Scheme::Log);
        for name in ["split", "inner", "outer"] {
            assert!(!profile.function(name).edges_exact, "{level}: {name}");
            assert!(logged.function(name).inherited > 1, "{level}: {name}");
        }
    }
}

#[test]
fn copies_say_the_same_of_forks() {
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void leave(int n) { if (n) exit(0); }
        __attribute__((noinline)) void step(int n) { if (n % 3) work++; if (n % 5) work++; }
        int main(int argc, char **argv) {
          for (int i = 0; i < 20; i++) step(i);
          pid_t child = fork();
          if (child > 0) { waitpid(child, 0, 0); return 0; }
          leave(argc);
          return 0;
        }
    "#;
    let program = Program::c(source, &["-O1", "-g"]);
    program.backtrail(&["profile", "-o", "one.btprof", "./program"]);
    program.backtrail(&["profile", "--copies", "2", "-o", "two.btprof", "./program"]);
    // But for what is said of the copies.
    let [one, two] = ["one", "two"].map(|it| {
        let text = program.backtrail(&["paths", "--json", &format!("{it}.btprof")]);
        let mut document: serde_json::Value = serde_json::from_str(&text).unwrap();
        document.as_object_mut().unwrap().remove("merged").unwrap();
        document
    });
    assert_eq!(one, two);
    let mut functions = one["functions"].as_array().unwrap().iter();
    assert!(functions.any(|it| it["activations_exact"] == false), "{one}");
}

#[test]
fn vfork() {
    let source = r#"
        #include <stdlib.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void step(int x) { if (x % 2) work++; }
        __attribute__((noinline)) int start(void) {
          int status;
          pid_t child = vfork();
          if (child == 0) { step(1); _exit(3); }
          waitpid(child, &status, 0);
          return WEXITSTATUS(status);
        }
        int main(void) {
          for (int i = 0; i < 20; i++) { step(i); if (start() != 3) return 1; }
          return 0;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).profile(&[]);
        assert_eq!(ran.status, 0);
        // The child runs in its parent's memory: what it does is counted there.
        assert_eq!(profile.processes, 1, "{level}");
        assert_eq!(profile.function("step").activations(), (40, 0, 0), "{level}");
        assert_eq!(profile.function("main").activations(), (1, 0, 0), "{level}");
        let start = profile.function("start");
        assert_eq!(start.activations(), (20, 0, 0), "{level}");
        assert_eq!(start.count("return_twice", "exit"), 20, "{level}");
    }
}

#[test]
fn exec() {
    let source = r#"
        #include <stdlib.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void step(int x) { if (x % 2) work++; }
        int main(int argc, char **argv) {
          int left = atoi(argv[1]);
          for (int i = 0; i < 100; i++) step(i);
          if (left == 0) return 0;
          char next[] = {'0' + left - 1, 0};
          execl("/proc/self/exe", argv[0], next, (char *)0);
          return 1;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).profile(&["4"]);
        assert_eq!(ran.status, 0);
        // One process to the system, five records: the number survives exec.
        assert_eq!(profile.processes, 5, "{level}");
        assert_eq!(profile.incomplete, None);
        assert_eq!(profile.function("step").activations(), (500, 0, 0), "{level}");
        // Four activations of main end in exec, which nobody knows not to return.
        assert_eq!(profile.function("main").activations(), (5, 4, 0), "{level}");
    }
}

#[test]
fn a_fork_around_the_c_library() {
    let source = r#"
        #define _GNU_SOURCE
        #include <signal.h>
        #include <sys/syscall.h>
        #include <sys/wait.h>
        #include <unistd.h>
        volatile int work;
        __attribute__((noinline)) void step(int x) { if (x % 2) work++; }
        static void handler(int signal) { (void)signal; step(1); }
        int main(void) {
          signal(SIGUSR1, handler);
          long child = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
          if (child == 0) { raise(SIGUSR1); _exit(0); }
          waitpid(child, 0, 0);
          for (int i = 0; i < 100; i++) step(i);
          return 0;
        }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::c(source, &[level]).profile(&[]);
        assert_eq!(ran.status, 0);
        let why = profile.incomplete.as_deref().expect("counts of both may be lost");
        assert!(why.contains("without the C library"), "{level}: {why}");
        assert_eq!(profile.processes, 2, "{level}");
        assert_eq!(profile.function("step").entries, 101, "{level}");
    }
}

const PLUGIN: &str = r#"
    volatile int work;
    __attribute__((constructor)) static void loaded(void) { work = 0; }
    static __attribute__((noinline)) void inner(int x) { if (x % 5 == 0) work++; }
    int library_step(int x) { for (int i = 0; i < 3; i++) inner(x + i); return x; }
"#;

#[test]
fn shared_libraries() {
    let source = r#"
        int library_step(int);
        int main(void) { int sum = 0; for (int i = 0; i < 100; i++) sum += library_step(i); return sum == 4950 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let program = Program::of_files(&[("program.c", source), ("library.c", PLUGIN)]);
        let words = ["cc", level, "-fPIC", "-shared", "-o", "libown.so", "library.c"];
        program.backtrail(&words);
        let words = ["cc", level, "-o", "program", "program.c", "-L.", "-lown"];
        program.backtrail(&[&words[..], &["-Wl,-rpath,$ORIGIN"]].concat());
        let (ran, profile) = program.equal(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.function("library_step").activations(), (100, 0, 0), "{level}");
        assert_eq!(profile.function("inner").activations(), (300, 0, 0), "{level}");
        assert_eq!(profile.function("loaded").activations(), (1, 0, 0), "{level}");
        assert_eq!(profile.function("main").activations(), (1, 0, 0), "{level}");
    }
}

#[test]
fn static_constructors() {
    let source = r#"
        #include <vector>
        struct Table {
          std::vector<int> squares;
          explicit Table(int n) { for (int i = 0; i < n; i++) squares.push_back(i * i); }
          __attribute__((noinline)) ~Table() { if (squares.size() > 5) squares.clear(); }
        };
        static Table small(5), large(50);
        __attribute__((noinline)) int local() { static Table table(7); return table.squares.back(); }
        int main() { return local() + local() + small.squares.back() + large.squares.back() == 36 + 36 + 16 + 2401 ? 0 : 1; }
    "#;
    for level in LEVELS {
        let (ran, profile) = Program::cxx(source, &[level]).equal(&[]);
        assert_eq!(ran.status, 0);
        assert_eq!(profile.function("_Z5localv").activations(), (2, 0, 0), "{level}");
        // Destroyed after main has returned.
        let end = profile.function("_ZN5TableD2Ev");
        assert_eq!(end.activations(), (3, 0, 0), "{level}");
        if level == "-O0" {
            let begin = profile.function("_ZN5TableC2Ei");
            assert_eq!((begin.entries, begin.count("", "loop")), (3, 5 + 50 + 7));
        }
    }
}

#[test]
fn merging() {
    let source = r#"
        #include <stdlib.h>
        volatile int work;
        __attribute__((noinline)) void step(int x) { if (x % 2) work++; }
        int main(int argc, char **argv) { int n = atoi(argv[1]); for (int i = 0; i < n; i++) step(i); return 0; }
    "#;
    let program = Program::c(source, &["-O1"]);
    // Two processes of one folder, and two files.
    program.profile(&["10"]);
    let (_, both) = program.profile(&["15"]);
    assert_eq!((both.processes, both.function("step").entries), (2, 25));
    for words in ["10", "15"] {
        program.backtrail(&["profile", "-o", &format!("{words}.btprof"), "./program", "--", words]);
    }
    program.backtrail(&["--quiet", "paths", "10.btprof", "15.btprof", "-o", "sum.btprof"]);
    let sum = program.backtrail(&["paths", "--json", "sum.btprof"]);
    assert_eq!(sum, program.backtrail(&["paths", "--json", "15.btprof", "10.btprof"]));
    let records = program.records(Scheme::Profile);
    let folder = program.backtrail(&["paths", "--json", records.to_str().unwrap()]);
    assert_eq!(sum, folder);

    // Another build is refused by name, in both ways.
    let other = source.replace("x % 2", "x % 3");
    std::fs::write(program.path("other.c"), other).unwrap();
    program.backtrail(&["cc", "-O1", "-o", "other", "other.c"]);
    program.backtrail(&["profile", "./other", "--", "10"]);
    let (code, message) = program.refused(&["paths", "10.btprof", "other.btprof"]);
    assert_eq!(code, 3);
    for part in ["other.btprof: ", "program (build id ", "other (build id "] {
        assert!(message.contains(part), "{message}");
    }
    let (code, message) = program.refused(&["profile", "--weights", "other.btprof", "./program"]);
    assert_eq!(code, 3);
    assert!(message.contains("other.btprof") && message.contains("build id"), "{message}");
}
