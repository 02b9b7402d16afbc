//! Copies that each count a part give the profile that one run gives, to the
//! last count; copies that do not do the same give none.

mod profile_program;

use std::fs;

use backtrail_profile::file::read_profile;
use profile_program::{BACKTRAIL, Program, fixture};

const STRATEGIES: [&str; 4] = ["sbl", "pbl", "p3", "adaptive"];

/// Profiles `program` with one run and with copies; all must be the same file.
#[track_caller]
fn same_profile(program: &Program, strategies: &[&str], copies: &[&str], arguments: &[&str]) {
    let profile = |words: &[&str]| {
        let words = [&["profile"], words, &["./program", "--"], arguments].concat();
        let output = program.command(BACKTRAIL).args(&words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code().is_some_and(|code| code < 2), "{words:?}: {message}");
        (output.stdout, output.status)
    };
    let one = profile(&["-o", "one"]);
    let read = |name: &str| read_profile(&fs::read(program.path(name)).unwrap()).unwrap();
    let expected = read("one");
    assert_eq!(expected.merged, []);
    for strategy in strategies {
        for copies in copies {
            let words = ["--copies", copies, "--strategy", strategy, "-o", "several"];
            assert_eq!(profile(&words), one, "{strategy}, {copies} copies");
            let mut found = read("several");
            let merged = std::mem::take(&mut found.merged);
            assert!(found == expected, "{strategy}, {copies} copies: another profile");
            assert_eq!(merged.len(), usize::from(*copies != "1"));
            let is_checked = merged.iter().all(|it| it.checked && it.runs.to_string() == *copies);
            assert!(is_checked, "{strategy}, {copies} copies: {merged:?}");
        }
    }
}

#[test]
fn every_strategy_and_number_of_copies() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/oracle/control.c");
    let program = Program::c(&fs::read_to_string(path).unwrap(), &["-O2"]);
    same_profile(&program, &STRATEGIES, &["1", "2", "3", "4", "8"], &["one", "two"]);
}

#[test]
fn exceptions_and_virtual_calls() {
    let program = Program::cxx(&fixture("shapes.cc"), &["-O2", "-std=c++20"]);
    same_profile(&program, &["p3", "adaptive"], &["3"], &[]);
}

const FORKS: &str = r#"
    #include <stdio.h>
    #include <stdlib.h>
    #include <sys/wait.h>
    #include <unistd.h>
    __attribute__((noinline)) int work(int n) {
        int sum = 0;
        for (int i = 0; i < n; i++)
            sum += i % 3 ? i : -i;
        return sum;
    }
    __attribute__((noinline)) int other(int n) { return n % 2 ? work(n) : work(n * 2) + 1; }
    int main(int count, char **words) {
        int sum = 0;
        for (int k = 0; k < 5 && count < 3; k++) {
            pid_t child = fork();
            if (child == 0) {
                sum = k % 2 ? other(k * 10) : work(7);
                if (k == 3)
                    execl("/proc/self/exe", words[0], "x", "y", (char *)0);
                exit(sum & 7);
            }
            int status;
            waitpid(child, &status, 0);
            sum += status;
        }
        printf("%d\n", sum);
        return 0;
    }
"#;

#[test]
fn several_processes() {
    same_profile(&Program::c(FORKS, &["-O1"]), &STRATEGIES, &["2", "3"], &[]);
}

/// Reads its input, writes something else and removes it, as compressors do.
const MOVER: &str = r#"
    #include <stdio.h>
    int main(int count, char **words) {
        FILE *from = fopen(words[1], "r"), *to = fopen("moved", "w");
        if (!from || !to)
            return 2;
        int lines = 0;
        for (int c; (c = getc(from)) != EOF; putc(c == 'a' ? 'b' : c, to))
            lines += c == '\n';
        for (int c; (c = getchar()) != EOF; putc(c, to))
            lines += c == '\n';
        fclose(to);
        remove(words[1]);
        fprintf(stderr, "%d lines\n", lines);
        return 1;
    }
"#;

#[test]
fn files_are_as_after_one_run() {
    for isolation in ["auto", "copy", "overlay"] {
        let program = Program::c(MOVER, &["-O1"]);
        fs::write(program.path("input"), "a\nb\na\n").unwrap();
        fs::write(program.path("typed"), "and\nmore\n").unwrap();
        let typed = fs::File::open(program.path("typed")).unwrap();
        let words =
            ["profile", "--copies", "3", "--isolate", isolation, "./program", "--", "input"];
        let output = program.command(BACKTRAIL).args(words).stdin(typed).output().unwrap();
        let message = String::from_utf8(output.stderr).unwrap();
        if isolation == "overlay" && output.status.code() == Some(5) {
            // Some kernels allow none; that must be said.
            assert!(message.contains("overlay"), "{message}");
            continue;
        }
        assert_eq!((output.status.code(), message.as_str()), (Some(1), "5 lines\n"), "{isolation}");
        assert!(!program.path("input").exists(), "{isolation}");
        let moved = fs::read_to_string(program.path("moved")).unwrap();
        assert_eq!(moved, "b\nb\nb\nand\nmore\n", "{isolation}");
        assert!(program.path("program.btprof").is_file(), "{isolation}");
    }
}

/// Profiles a program that is not the same twice; gives the message.
#[track_caller]
fn diverged(body: &str) -> String {
    let source = format!(
        "#include <fcntl.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <time.h>\n\
         #include <unistd.h>\n\
         unsigned chance(void) {{ unsigned n = 0; int f = open(\"/dev/urandom\", O_RDONLY); \
         if (read(f, &n, 4) != 4) abort(); return n; }}\n\
         volatile int sink;\n\
         __attribute__((noinline)) static void step(unsigned n) {{ if (n % 3) sink++; else sink--; \
         if (n % 5) sink++; }}\n\
         int main(void) {{ if (sink) step(0); {body} return 0; }}\n"
    );
    let program = Program::c(&source, &["-O1"]);
    let words = ["profile", "--copies", "2", "--strategy", "pbl", "./program"];
    let (code, message) = program.refused(&words);
    assert_eq!(code, 4, "{message}");
    assert!(!program.path("program.btprof").exists(), "{message}");
    message
}

#[test]
fn differences_are_reported_and_nothing_is_merged() {
    let time = diverged(
        "struct timespec t; clock_gettime(CLOCK_REALTIME, &t); printf(\"%ld\\n\", t.tv_nsec);",
    );
    assert!(time.contains("standard output"), "{time}");
    let random = diverged("fprintf(stderr, \"%u\\n\", chance());");
    assert!(random.contains("standard error"), "{random}");
    let file =
        diverged("FILE *f = fopen(\"left\", \"w\"); fprintf(f, \"%u\", chance()); fclose(f);");
    assert!(file.contains("left"), "{file}");
    let status = diverged("return getpid() & 127;");
    assert!(status.contains("copies 1 and 2") && status.contains("status"), "{status}");
}

/// Nothing is printed: the loop of `main` and what it calls are counted by
/// different copies, and do not fit.
#[test]
fn calls_that_do_not_fit_are_a_difference() {
    let message = diverged("for (unsigned n = 1 + chance() % 100000; n--;) step(n);");
    assert!(message.contains("step") && message.contains("called"), "{message}");
}
