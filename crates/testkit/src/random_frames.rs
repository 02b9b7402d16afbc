//! Random programs that keep a call stack of their own.
//!
//! Each function `frame_N` notes, when it is entered, how deep it is, by a count that it
//! takes back when it returns, when something is thrown past it (C++) and where a jump
//! lands (C). They call each other directly, from `qsort`, `bsearch` and `tsearch`, as
//! handlers of signals on both stacks, by `atexit`, as threads and in tail position, and
//! are left by `siglongjmp`, `exit`, `pthread_exit` and exceptions. At its end a program
//! prints what was noted: thread, function and depth, a line for each entry.

use std::fmt::Write as _;

use fastrand::Rng;

const C: &str = r"
#define ENTER(k) int own = ++depth; NOTE(k, own)
#define LEAVE (depth = own - 1)
";

const CXX: &str = r"
struct Frame {
  int own;
  __attribute__((always_inline)) Frame(int k) : own(++depth) { NOTE(k, own); }
  __attribute__((always_inline)) ~Frame() { depth = own - 1; }
};
#define ENTER(k) Frame frame(k)
#define LEAVE ((void)0)
static __thread int tries;
";

const BEFORE: &str = r#"#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <pthread.h>
#include <search.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#ifdef __cplusplus
#define FUNCTION extern "C" __attribute__((noinline))
#else
#define FUNCTION __attribute__((noinline))
#endif
static struct { int thread, function, depth; } noted[1 << 14];
static unsigned count;
static int threads, registered, exiting;
static __thread int depth, self, handling;
static __thread sigjmp_buf *home;
#define NEXT ((state = state * 1103515245u + 12345u) >> 16)
#define MAY (fuel > 0 && depth < 40 && NEXT % 3 != 0 && fuel-- > 0)
#define NOTE(k, d) (noted[count & 16383].thread = self, noted[count & 16383].function = k, \
                    noted[count++ & 16383].depth = d)
"#;

const AFTER: &str = r#"
__attribute__((destructor)) static void tell(void) {
  for (unsigned i = 0; i < count && i < 16384; i++)
    printf("%d %d %d\n", noted[i].thread, noted[i].function, noted[i].depth);
}
int main(void) {
  static char other_stack[1 << 18];
  stack_t stack;
  stack.ss_sp = other_stack, stack.ss_size = sizeof other_stack, stack.ss_flags = 0;
  sigaltstack(&stack, 0);
  struct sigaction action;
  sigemptyset(&action.sa_mask);
  action.sa_flags = 0, action.sa_handler = ON_1;
  sigaction(SIGUSR1, &action, 0);
  action.sa_flags = SA_ONSTACK, action.sa_handler = ON_2;
  sigaction(SIGUSR2, &action, 0);
  depth = 1;
  for (int i = 0; i < 4; i++) frame_0(i);
  depth = 0;
  return 0;
}
"#;

/// The language of a program.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    /// With jumps and calls that must be in tail position.
    C,
    /// With exceptions.
    Cxx,
}

/// What the functions of a program are, by number.
struct Functions {
    plain: usize,
    comparing: usize,
}

impl Functions {
    fn call(&self, random: &mut Rng) -> String {
        format!("r += frame_{}(n + 1);", random.usize(0..self.plain))
    }

    fn comparing(&self, random: &mut Rng) -> usize {
        self.plain + random.usize(0..self.comparing)
    }

    /// The number of a function of the kinds that there is one each of.
    fn single(&self, which: usize) -> usize {
        self.plain + self.comparing + which
    }

    /// What may be done in a function.
    fn statement(&self, language: Language, random: &mut Rng) -> String {
        let call = self.call(random);
        let compare = self.comparing(random);
        match random.u32(0..14) {
            0..=3 => format!("if (MAY) {call}"),
            4 => format!(
                "if (MAY) {{ int v[5]; for (int i = 0; i < 5; i++) v[i] = NEXT % 9; \
                 qsort(v, 5, sizeof *v, frame_{compare}); r += v[0]; }}"
            ),
            5 => format!(
                "if (MAY) {{ int v[6] = {{0, 1, 2, 3, 4, 5}}, key = NEXT % 6; \
                 r += bsearch(&key, v, 6, sizeof *v, frame_{compare}) != 0; }}"
            ),
            6 => {
                let tree = format!(
                    "void *root = 0; int v[3]; for (int i = 0; i < 3; i++) \
                     {{ v[i] = NEXT % 5; tsearch(&v[i], &root, frame_{compare}); }} \
                     for (int i = 0; i < 3; i++) tdelete(&v[i], &root, frame_{compare});"
                );
                match language {
                    Language::C => format!("if (MAY) {{ {tree} }}"),
                    // Not through a tree.
                    Language::Cxx => format!(
                        "if (MAY) {{ int before = tries; tries = 0; {tree} tries = before; }}"
                    ),
                }
            }
            7 => format!("if (MAY) raise(SIGUSR{});", random.u32(1..=2)),
            8 => format!(
                "if (MAY && registered < 6) {{ registered++; atexit(frame_{}); }}",
                self.single(2)
            ),
            9 => format!(
                "if (MAY && self == 0 && threads < 4) {{ pthread_t thread; \
                 pthread_create(&thread, 0, frame_{}, 0); pthread_join(thread, 0); }}",
                self.single(3)
            ),
            10 => "if (self && !handling && NEXT % 12 == 0) pthread_exit(0);".to_owned(),
            11 => "if (!self && !exiting && fuel < 60 && NEXT % 6 == 0) { exiting = 1; exit(0); }"
                .to_owned(),
            12 => match language {
                Language::C => format!(
                    "{{ sigjmp_buf here, *before = home; if (sigsetjmp(here, 1) == 0) \
                     {{ home = &here; if (MAY) {call} }} else depth = own; home = before; }}"
                ),
                Language::Cxx => format!(
                    "{{ int before = tries; try {{ tries = before + 1; if (MAY) {call} }} \
                     catch (int) {{ r--; }} tries = before; }}"
                ),
            },
            _ => match language {
                Language::C => "if (home && NEXT % 3 == 0) siglongjmp(*home, 1);".to_owned(),
                Language::Cxx => "if (tries && NEXT % 3 == 0) throw 1;".to_owned(),
            },
        }
    }

    fn statements(&self, language: Language, random: &mut Rng, most: usize) -> String {
        let count = random.usize(1..=most);
        let one = |_| format!("  {}\n", self.statement(language, random));
        (0..count).map(one).collect()
    }
}

/// The program of a seed.
pub fn program(seed: u64, language: Language) -> String {
    let mut random = Rng::with_seed(seed);
    let functions = Functions { plain: random.usize(2..7), comparing: 2 };
    let mut text = BEFORE.to_owned();
    let (state, fuel) = (random.u32(..), random.u32(60..400));
    let _ = writeln!(text, "static unsigned state = {state}u;\nstatic int fuel = {fuel};");
    text.push_str(if language == Language::C { C } else { CXX });
    let plain = 0..functions.plain;
    let comparing = functions.plain..functions.plain + functions.comparing;
    let [on_1, on_2, at_exit, thread] = [0, 1, 2, 3].map(|which| functions.single(which));
    for number in plain.clone() {
        let _ = writeln!(text, "FUNCTION int frame_{number}(int n);");
    }
    for number in comparing.clone() {
        let _ = writeln!(text, "FUNCTION int frame_{number}(const void *, const void *);");
    }
    let _ = writeln!(text, "FUNCTION void frame_{on_1}(int);\nFUNCTION void frame_{on_2}(int);");
    let _ = writeln!(text, "FUNCTION void frame_{at_exit}(void);");
    let _ = writeln!(text, "FUNCTION void *frame_{thread}(void *);");
    for number in plain {
        let body = functions.statements(language, &mut random, 5);
        let other = random.usize(0..functions.plain);
        // The optimiser makes a loop of a function that calls itself so.
        let ends_by_call =
            language == Language::C && other != number && !body.contains("sigsetjmp");
        let last = if ends_by_call && random.bool() {
            format!("  if (MAY) {{ LEAVE; __attribute__((musttail)) return frame_{other}(n); }}\n")
        } else {
            String::new()
        };
        let _ = writeln!(
            text,
            "int frame_{number}(int n) {{\n  ENTER({number});\n  volatile int r = n;\n{body}{last}  \
             LEAVE;\n  return r;\n}}"
        );
    }
    for number in comparing {
        let body = functions.statements(language, &mut random, 2);
        let _ = writeln!(
            text,
            "int frame_{number}(const void *a, const void *b) {{\n  ENTER({number});\n  \
             volatile int n = 0, r = 0;\n{body}  LEAVE;\n  \
             return *(const int *)a - *(const int *)b;\n}}"
        );
    }
    // What is thrown or jumped out of may not pass these, but jumps may leave handlers.
    let (shut, open) = match language {
        Language::C => ("", ""),
        Language::Cxx => ("int before = tries; tries = 0;", "tries = before;"),
    };
    for number in [on_1, on_2] {
        let body = functions.statements(language, &mut random, 2);
        let _ = writeln!(
            text,
            "void frame_{number}(int n) {{\n  ENTER({number});\n  volatile int r = 0; {shut}\n  \
             handling++;\n{body}  handling--; {open}\n  LEAVE;\n}}"
        );
    }
    let body = functions.statements(language, &mut random, 2);
    let shut_off = if language == Language::C { "home = 0;" } else { "tries = 0;" };
    let _ = writeln!(
        text,
        "void frame_{at_exit}(void) {{\n  ENTER({at_exit});\n  volatile int n = 0, r = 0; \
         {shut_off} exiting = 1; fuel += 9;\n{body}  LEAVE;\n}}"
    );
    let body = functions.statements(language, &mut random, 4);
    let _ = writeln!(
        text,
        "void *frame_{thread}(void *given) {{\n  self = ++threads;\n  ENTER({thread});\n  \
         volatile int n = 0, r = 0;\n{body}  LEAVE;\n  return given;\n}}"
    );
    let after = AFTER.replace("ON_1", &format!("frame_{on_1}"));
    text.push_str(&after.replace("ON_2", &format!("frame_{on_2}")));
    text
}
