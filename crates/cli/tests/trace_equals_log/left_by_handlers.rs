//! A handler of a signal that does not return but jumps: what it interrupted had done since
//! its last witness is not known. Such a trace says so, and has nothing that did not run.

use std::fmt::Write as _;

use fastrand::Rng;

use super::{SOME, trace};
use crate::profile_program::Program;

/// Statements of the function of number `own`, which calls those before it; some of them
/// fault, so that the same happens in all runs.
fn statements(rng: &mut Rng, depth: u32, own: u32, text: &mut String) {
    for _ in 0..rng.u32(1..4) {
        match rng.u32(0..7) {
            kind @ (0 | 1) if depth < 3 => {
                let condition = match kind {
                    0 => format!("x & {}", 1 << rng.u32(0..3)),
                    _ => format!("x % {} == 0", rng.u32(2..5)),
                };
                write!(text, "if ({condition}) {{ ").unwrap();
                statements(rng, depth + 1, own, text);
                if kind == 0 {
                    text.push_str("} else { ");
                    statements(rng, depth + 1, own, text);
                }
                text.push_str("}\n");
            }
            2 if depth < 2 => {
                write!(text, "for (int i{depth} = 0; i{depth} < (x & 3); i{depth}++) {{ x++; ")
                    .unwrap();
                statements(rng, depth + 1, own, text);
                text.push_str("}\n");
            }
            3 if own > 0 => {
                writeln!(text, "x += f{}(x + {});", rng.u32(0..own), rng.u32(0..6)).unwrap();
            }
            4 => {
                let often = rng.u32(5..16);
                writeln!(text, "if (++n % {often} == 0) {{ sink++; *null = 1; sink++; }}").unwrap();
            }
            _ => text.push_str("sink += x;\n"),
        }
    }
}

fn program(rng: &mut Rng) -> String {
    let mut text = "#include <setjmp.h>\n#include <signal.h>\n#include <stdio.h>\n\
                    static sigjmp_buf out; static volatile int sink; static volatile unsigned n;\n\
                    static int *volatile null;\n\
                    static void handler(int signal) { if (n & 1) sink++; siglongjmp(out, 1); }\n"
        .to_owned();
    let functions = rng.u32(2..6);
    for own in 0..functions {
        writeln!(text, "__attribute__((noinline)) static int f{own}(int x) {{").unwrap();
        statements(rng, 0, own, &mut text);
        text.push_str("return x * 3; }\n");
    }
    let rounds = rng.u32(2..9);
    writeln!(
        text,
        "int main(void) {{ volatile int round = 0; signal(SIGSEGV, handler);\n\
         if (sigsetjmp(out, 1)) round++;\n\
         while (round < {rounds}) {{ round++; sink += f{}(round); if (round & 1) sink++; }}\n\
         printf(\"%u\\n\", n); return 0; }}",
        functions - 1
    )
    .unwrap();
    text
}

/// The first step of `found` that is not there in `logged`, in this order.
fn invented<T: PartialEq>(found: &[T], logged: &[T]) -> Option<usize> {
    let mut rest = logged.iter();
    found.iter().position(|step| !rest.any(|it| it == step))
}

#[test]
fn nothing_is_there_that_did_not_run() {
    let mut labelled = 0;
    for seed in 0..24 {
        let mut rng = Rng::with_seed(seed);
        let program = Program::c(&program(&mut rng), &[["-O0", "-O1", "-O2"][seed as usize % 3]]);
        let logged = trace(&program, &["--strategy", "log"], &[]).trace.unwrap();
        for options in SOME {
            let what = format!("seed {seed}, {options:?}");
            let found = trace(&program, options, &[]);
            let Some(found) = found.trace else {
                assert_eq!(found.output.status.code(), Some(4), "{what}");
                continue;
            };
            let (found_steps, steps) = (&found.threads[0], &logged.threads[0]);
            if let Some(at) = invented(found_steps, steps) {
                panic!("{what}: step {at}: {:?}", &found_steps[at.saturating_sub(4)..=at]);
            }
            assert!(found_steps == steps || found.incomplete.is_some(), "{what}: no label");
            labelled += u32::from(found.incomplete.is_some());
        }
    }
    assert!(labelled > 10, "only {labelled}");
}
