//! `--check inputs`: runs that were told something else are refused, with the system call
//! that told it; runs that were told the same are checked, and say what was not compared.

mod profile_program;

use profile_program::{BACKTRAIL, Program};
use serde_json::Value;

const WAYS: [&[&str]; 2] = [
    &["profile", "--copies", "2", "--check", "inputs"],
    &["trace", "--runs", "2", "--check", "inputs"],
];

/// What a program looks at cannot be told by the order of its functions: there is one.
const BEGIN: &str = r#"
    #define _GNU_SOURCE
    #include <dirent.h>
    #include <errno.h>
    #include <fcntl.h>
    #include <pthread.h>
    #include <sched.h>
    #include <signal.h>
    #include <stdio.h>
    #include <stdlib.h>
    #include <string.h>
    #include <sys/auxv.h>
    #include <sys/mman.h>
    #include <sys/ptrace.h>
    #include <sys/random.h>
    #include <sys/resource.h>
    #include <sys/stat.h>
    #include <sys/time.h>
    #include <sys/wait.h>
    #include <time.h>
    #include <unistd.h>
    #include <x86intrin.h>
    volatile unsigned long sink;
    void look(const void *at, int n) { for (int i = 0; i < n; i++) if (((char *)at)[i] & 1) sink++; }
    void note(int signal) { sink += signal; }
"#;

fn program(main: &str) -> Program {
    let source = format!("{BEGIN} int main(int argc, char **argv) {{ {main} return 0; }}");
    Program::c(&source, &["-O1", "-pthread"])
}

/// What is said of runs that were put together.
#[track_caller]
fn merged(program: &Program, way: &[&str]) -> Value {
    let words = [way, &["-o", "merged", "./program"]].concat();
    let output = program.command(BACKTRAIL).args(&words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{words:?}: {said}");
    let show = if way[0] == "profile" { "paths" } else { "show" };
    let output = program.command(BACKTRAIL).args([show, "--json", "merged"]).output().unwrap();
    let json = String::from_utf8(output.stdout).unwrap();
    let first = json.lines().next().unwrap();
    let document: Value =
        serde_json::from_str(&json).unwrap_or_else(|_| serde_json::from_str(first).unwrap());
    match &document["merged"] {
        Value::Array(list) => list[0].clone(),
        merged => merged.clone(),
    }
}

#[track_caller]
fn refused(main: &str, expected: &str) {
    println!("{main}");
    let program = program(main);
    for way in WAYS {
        let (code, said) = program.refused(&[way, &["./program"]].concat());
        assert_eq!(code, 4, "{way:?}: {said}");
        assert!(said.contains("1 and 2 of 2 differ: system call"), "{way:?}: {said}");
        assert!(said.contains(expected), "{way:?}: {said}");
        assert!(!program.path("program.btprof").exists(), "{way:?}");
    }
}

/// Each of these differs for certain: `/proc/self/stat`, say, counts in hundredths of a
/// second and may be the same by chance.
#[test]
fn what_differs_from_run_to_run_is_a_difference() {
    let cases = [
        ("struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); look(&t, 16);", "clock_gettime"),
        ("struct timeval t; gettimeofday(&t, 0); look(&t, 16);", "gettimeofday"),
        (
            "struct rusage r; usleep(1000); for (int i = 0; i < 1000000; i++) sink++; \
          getrusage(RUSAGE_SELF, &r); look(&r, sizeof r);",
            "getrusage",
        ),
        (
            "int f = open(\"/proc/sys/kernel/random/uuid\", O_RDONLY); char t[99]; \
          look(t, read(f, t, 99));",
            "read: 37 bytes",
        ),
        ("unsigned long t = __rdtsc(); look(&t, 8);", "rdtsc"),
        (
            "int f = open(\"/proc/self/exe\", O_RDONLY); static char t[1 << 20]; \
          look(t, read(f, t, sizeof t));",
            "of thread 1, ",
        ),
    ];
    for (main, expected) in cases {
        refused(main, expected);
    }
}

/// In a thread, and in a process.
#[test]
fn whoever_is_told_something_else_is_named() {
    let time = "struct timespec t; clock_gettime(CLOCK_REALTIME, &t); look(&t, 16);";
    refused(
        &format!("if (!fork()) {{ {time} _exit(0); }} wait(0);"),
        "of thread 1.1, clock_gettime",
    );
    let source = format!(
        "{BEGIN} void *play(void *it) {{ if (it) {{ {time} }} return 0; }} int main(void) {{ \
         pthread_t t[2]; for (long k = 0; k < 2; k++) {{ pthread_create(&t[k], 0, play, (void *)k); \
         pthread_join(t[k], 0); }} return 0; }}"
    );
    let program = Program::c(&source, &["-O1", "-pthread"]);
    let (code, said) = program.refused(&[WAYS[0], &["./program"]].concat());
    assert_eq!(code, 4, "{said}");
    assert!(said.contains("of thread 1.2, clock_gettime"), "{said}");
}

/// What differs without `--check inputs`, and is the same with it: numbers of processes,
/// random numbers; and what has always been the same.
#[test]
fn what_is_made_the_same_is_checked() {
    let cases = [
        "printf(\"%d\\n\", 1);",
        "pid_t p[2] = {getpid(), getppid()}; look(p, 8);",
        "unsigned long s; if (getrandom(&s, 8, 0) != 8) abort(); look(&s, 8); look(malloc(9), 0);",
        "int f = open(\"/dev/urandom\", O_RDONLY); long s; look(&s, read(f, &s, 8));",
        "look((void *)getauxval(AT_RANDOM), 16);",
        "int s; for (int k = 0; k < 3; k++) { \
         if (!fork()) { pid_t p = getpid(); look(&p, 4); _exit(k); } wait(&s); look(&s, 4); }",
        "FILE *f = fopen(\"made\", \"w\"); fprintf(f, \"text\\n\"); fclose(f); \
         f = fopen(\"made\", \"r\"); sink += fgetc(f); struct stat s; fstat(fileno(f), &s); \
         look(&s.st_size, 8); if (system(\"ls /usr > list\")) abort();",
        "signal(SIGUSR1, note); raise(SIGUSR1); kill(getpid(), SIGUSR1);",
    ];
    for main in cases {
        let program = program(main);
        for way in WAYS {
            let merged = merged(&program, way);
            assert_eq!(merged["checked"], true, "{main}: {merged}");
            assert!(merged["by"].to_string().contains("what system calls returned"), "{merged}");
            assert!(merged["unseen"].to_string().contains("rdrand"), "{merged}");
        }
    }
}

/// Who takes turns is chance, and is no difference.
#[test]
fn threads_are_matched_and_their_turns_are_named() {
    let source = format!(
        "{BEGIN} pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER; \
         void *play(void *it) {{ for (int i = 0; i < 1000; i++) {{ pthread_mutex_lock(&m); sink++; \
         pthread_mutex_unlock(&m); }} return it; }} int main(void) {{ pthread_t t[4]; \
         for (int k = 0; k < 4; k++) pthread_create(&t[k], 0, play, 0); \
         for (int k = 0; k < 4; k++) pthread_join(t[k], 0); return 0; }}"
    );
    let program = Program::c(&source, &["-O1", "-pthread"]);
    let merged = merged(&program, WAYS[0]);
    assert!(merged["unseen"].to_string().contains("access memory that they share"), "{merged}");
}

/// The number and the times of a new file may differ, and are told.
#[test]
fn what_may_differ_is_told() {
    let program = program(
        "close(open(\"made\", O_CREAT | O_RDWR, 0600)); struct stat s; stat(\"made\", &s); \
         look(&s.st_mtim, 16);",
    );
    for way in WAYS {
        let merged = merged(&program, way);
        let unseen = merged["unseen"].to_string();
        assert!(unseen.contains("times of files") && unseen.contains("stat"), "{merged}");
    }
}

/// A program does under it what it does without.
#[test]
fn the_program_is_not_broken() {
    let main = "if (argc > 1) { printf(\"again %d\\n\", argc); return 7; } \
        int q[2]; if (pipe(q)) return 1; \
        pid_t p = fork(); if (!p) { raise(SIGSTOP); char c; _exit(2 + read(q[0], &c, 1)); } \
        int s; waitpid(p, &s, WUNTRACED); printf(\"%d\\n\", WIFSTOPPED(s) && WSTOPSIG(s) == SIGSTOP); \
        kill(p, SIGCONT); waitpid(p, &s, WCONTINUED); printf(\"%d\\n\", WIFCONTINUED(s)); \
        if (write(q[1], \"x\", 1) != 1) return 1; waitpid(p, &s, 0); printf(\"%d\\n\", WIFEXITED(s) && WEXITSTATUS(s) == 3); \
        int r[2]; char c; if (pipe(r)) return 1; \
        p = fork(); if (!p) { if (write(r[1], \"x\", 1) == 1) pause(); _exit(1); } \
        if (read(r[0], &c, 1) != 1) return 1; kill(p, SIGTERM); waitpid(p, &s, 0); \
        printf(\"%d\\n\", WIFSIGNALED(s) && WTERMSIG(s) == SIGTERM); \
        p = vfork(); if (!p) { execl(\"/bin/false\", \"false\", (char *)0); _exit(9); } \
        waitpid(p, &s, 0); printf(\"%d\\n\", WEXITSTATUS(s)); \
        p = fork(); if (!p) { char c; _exit(read(q[0], &c, 1)); } \
        usleep(1000); if (write(q[1], \"x\", 1) != 1) return 1; waitpid(p, &s, 0); \
        printf(\"%d\\n\", WEXITSTATUS(s)); fflush(stdout); \
        execl(\"/proc/self/exe\", argv[0], \"more\", (char *)0); return 1;";
    let program = program(main);
    let run = |words: &[&str]| {
        let (first, rest) = words.split_first().unwrap();
        let output = program.command(first).args(rest).output().unwrap();
        (
            output.status.code(),
            String::from_utf8(output.stdout).unwrap(),
            String::from_utf8(output.stderr).unwrap(),
        )
    };
    let (code, printed, _) = run(&["./program"]);
    assert_eq!((code, printed.lines().count()), (Some(7), 7), "{printed}");
    let (checked, under, said) = run(&[&[BACKTRAIL], WAYS[0], &["./program"]].concat());
    assert_eq!((checked, under), (code, printed), "{said}");
}

#[test]
fn what_cannot_be_checked_is_said() {
    let program = program("look(argv, 8);");
    for (words, expected) in [
        (&["profile", "--check", "inputs"][..], "give --copies 2 or more"),
        (&["trace", "--check", "inputs"], "give --runs 2 or more"),
        (&["profile", "--copies", "2", "--engine", "slurm", "--check", "inputs"], "this machine"),
        (&["trace", "--runs", "2", "--witness", "breakpoint", "--check", "inputs"], "for probes"),
        (&["trace", "--runs", "3", "--weights", "first", "--check", "inputs"], "leave out"),
    ] {
        let (code, said) = program.refused(&[words, &["./program"]].concat());
        assert_eq!(code, 2, "{words:?}: {said}");
        assert!(said.contains(expected), "{words:?}: {said}");
    }
    let traces =
        self::program("if (!fork()) { ptrace(PTRACE_TRACEME, 0, 0, 0); _exit(0); } wait(0);");
    let (code, said) = traces.refused(&[WAYS[0], &["./program"]].concat());
    assert_eq!(code, 5, "{said}");
    assert!(said.contains("traces others itself"), "{said}");
}
