//! What is told of what no path counts, against the block log of the same run: what ran
//! for certain did, what did not for certain did not, and nothing that ran is written as 0.

mod profile_program;

use std::fmt::Write as _;

use profile_program::{LEVELS, Program, Scheme};

/// A number that follows from a seed and how many came before it.
struct Dice(u64);

impl Dice {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

/// How many functions a program has beside `main`.
const FUNCTIONS: u64 = 7;

/// A program of functions that call those behind them, in branches and loops, and are left
/// by `exit`, by a jump or an exception, or fork on the way.
fn random_program(seed: u64, is_cxx: bool) -> String {
    let mut dice = Dice(seed);
    let mut source = String::from(
        "#include <setjmp.h>\n#include <stdlib.h>\n#include <sys/wait.h>\n#include <unistd.h>\n\
         volatile int work;\nstatic int forks;\nstatic jmp_buf back;\n\
         static void split(void) {\n  if (forks++ >= 2) return;\n  int status;\n  \
         pid_t child = fork();\n  if (child > 0) waitpid(child, &status, 0);\n}\n",
    );
    for number in 0..FUNCTIONS {
        let _ = writeln!(source, "static void f{number}(int n);");
    }
    for number in (0..FUNCTIONS).rev() {
        let inlining = if dice.below(4) == 0 { "" } else { "__attribute__((noinline)) " };
        // What only this function calls, in one place.
        let _ = writeln!(
            source,
            "__attribute__((noinline)) static void only{number}(int n) {{\n  \
             if (n % 3 == {}) exit(0);\n  work++;\n}}",
            dice.below(3)
        );
        let _ = writeln!(source, "{inlining}static void f{number}(int n) {{");
        let place = dice.below(4);
        for statement in 0..3 + dice.below(3) {
            if statement == place {
                let _ = writeln!(source, "  if (n % 5 != {place}) only{number}(n);");
            }
            let value = dice.below(5);
            let callee = number + 1 + dice.below(FUNCTIONS - number);
            let call = match callee {
                FUNCTIONS => "work++;".to_owned(),
                _ => format!("f{callee}(n + {value});"),
            };
            let statement = match dice.below(8) {
                1 if is_cxx => format!("if (n % 4 == {value}) throw n;"),
                1 => format!("if (n % 4 == {value}) longjmp(back, 1);"),
                2 => format!("if (n % 3 == {value}) split();"),
                3 => {
                    format!("for (int i = 0; i < n % 4; i++) {{\n    {call}\n    work += i;\n  }}")
                }
                4 => format!("if (n % 2) {{\n    {call}\n  }} else {{\n    work += 2;\n  }}"),
                _ => format!("{call}\n  if (work % 7 == {value}) work++;"),
            };
            let _ = writeln!(source, "  {statement}");
        }
        source.push_str("}\n");
    }
    let guarded = match is_cxx {
        true => "try {\n    f0(n);\n  } catch (int) {\n    work += 3;\n  }",
        false => "if (setjmp(back) == 0) f0(n);\n  else work += 3;",
    };
    let _ = writeln!(
        source,
        "__attribute__((noinline)) static void guard(int n) {{\n  {guarded}\n}}\n\
         int main(int argc, char **argv) {{\n  for (int i = 0; i < 3; i++) {{\n    \
         guard(argc + i + {seed});\n    work++;\n  }}\n  return 0;\n}}"
    );
    source
}

/// Whatever one tracefile says of a line, the other one, of a log, does not contradict.
#[track_caller]
fn assert_lines_agree(program: &Program, what: &str) {
    let (counted, logged) = (program.lcov(Scheme::Profile), program.lcov(Scheme::Log));
    for (line, &count) in &counted {
        let truth = logged.get(line).copied();
        assert!(
            truth.is_none_or(|truth| (truth > 0) == (count > 0)),
            "{what}: {line:?} is {count} by counters, {truth:?} by the log"
        );
    }
}

/// How many programs are tried: twelve, or as many as are asked for.
fn programs() -> u64 {
    std::env::var("BACKTRAIL_PROGRAMS").map_or(12, |it| it.parse().expect("a number"))
}

#[test]
fn random_programs_that_are_left_early() {
    let (mut uncounted, mut unknown, mut inherited, mut unfinished) = (0, 0, 0, 0);
    for seed in 0..programs() {
        let (level, is_cxx) = (LEVELS[seed as usize % 2], seed % 5 >= 3);
        let source = random_program(seed, is_cxx);
        let program = match is_cxx {
            true => Program::cxx(&source, &[level, "-g"]),
            false => Program::c(&source, &[level, "-g"]),
        };
        let (_, profile) = program.equal(&[]);
        assert_lines_agree(&program, &format!("seed {seed}"));
        for (id, known) in &profile.known {
            uncounted += known.ran_uncounted.len();
            unknown += known.unknown.len();
            inherited += usize::from(!known.activations_exact);
            unfinished += profile.functions[id].unfinished;
        }
    }
    let seen = (uncounted, unknown, inherited, unfinished);
    assert!(uncounted > 5 && unknown > 5 && inherited > 5 && unfinished > 5, "{seen:?}");
}

#[test]
fn a_call_that_ends_the_program_and_what_leads_there() {
    let source = r#"
        #include <stdlib.h>
        volatile int work;
        __attribute__((noinline)) static void leave(int n) { if (n > 100) work++; exit(n - 6); }
        int main(int argc, char **argv) {
          int sum = 0;
          for (int i = 0; i < argc + 3; i++)
            sum += i;
          if (argc > 5)
            work = 5;
          work++;
          leave(sum);
          work = 7;
          return 0;
        }
    "#;
    let program = Program::c(source, &["-O0", "-g"]);
    let (ran, profile) = program.equal(&[]);
    assert_eq!(ran.status, 0);
    assert_eq!(profile.function("main").activations(), (1, 1, 0));
    let lines = program.lcov(Scheme::Profile);
    let count = |line: u32| lines.iter().find(|(at, _)| at.1 == line).map(|(_, count)| *count);
    // The line of the call and the one before; nothing is known of what a branch leads to
    // that may have been taken, nor of what would be behind the call.
    assert_eq!([count(11), count(12)], [Some(1), Some(1)]);
    assert_eq!([count(10), count(13)], [None, None]);
    assert_eq!(count(8), Some(4));
    assert_lines_agree(&program, "exit");
    let said = program.command(profile_program::BACKTRAIL);
    let mut said = said;
    let output = said.args(["export", "counted.btprof", "--to", "callgrind"]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        message.contains("3 lines are left out: whether they were executed is not known"),
        "{message}"
    );
    assert!(!String::from_utf8_lossy(&output.stdout).lines().any(|line| line.starts_with("10 ")));
}

#[test]
fn a_function_that_ran_only_where_it_was_inlined() {
    let source = r#"
        #include <stdio.h>
        static inline int sq(int x) { return x * x; }
        int many(int x) {
          return sq(x) + sq(x + 1);
        }
        int never(int x) {
          return x + 5;
        }
        int main(int argc, char **argv) { printf("%d\n", many(argc)); return 0; }
    "#;
    let program = Program::c(source, &["-O2", "-g"]);
    let (_, profile) = program.equal(&[]);
    let ran = |name: &str| &*profile.known[&format!("program.c#{name}")].ran;
    assert_eq!([ran("main"), ran("many"), ran("never")], ["yes", "inlined", "no"]);
    program.lcov(Scheme::Profile);
    let text = program.backtrail(&["paths", "counted.btprof"]);
    assert!(text.contains("  1 that ran only where it was inlined, 1 that did not run"), "{text}");
    let lcov = program.backtrail(&["export", "counted.btprof", "--to", "lcov"]);
    assert!(lcov.contains("FNDA:0,never") && !lcov.contains(",many"), "{lcov}");
    assert!(lcov.contains("DA:5,1\n") && !lcov.contains("DA:4,"), "{lcov}");
    assert!(lcov.contains("DA:7,0\nDA:8,0\n"), "{lcov}");
}
