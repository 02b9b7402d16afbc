//! A trace put together from what witnesses saw is that of a log of every block:
//! for edges and nodes, one run and several, every strategy, with a limit.

#[path = "../profile_program/mod.rs"]
mod profile_program;

mod as_linked;
mod forks;
mod left_by_handlers;

use std::process::Output;

use profile_program::{BACKTRAIL, Program, fixture};
use serde_json::Value;

fn source(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/");
    std::fs::read_to_string(format!("{folder}{name}")).unwrap()
}

/// A trace as `show --json` tells it.
#[derive(Debug, PartialEq)]
struct Trace {
    /// By thread of each process: function and block of each step.
    threads: Vec<Vec<(String, String)>>,
    /// By thread: how deep the frame of each step is.
    depths: Vec<Vec<u64>>,
    /// By thread: why it is not known what followed.
    unknown: Vec<Option<String>>,
    incomplete: Option<String>,
}

#[derive(Debug)]
struct Traced {
    output: Output,
    trace: Option<Trace>,
}

fn trace(program: &Program, options: &[&str], arguments: &[&str]) -> Traced {
    let file = program.path("program.bttrace");
    let _ = std::fs::remove_file(&file);
    let mut command = program.command("setarch");
    command.args(["-R", BACKTRAIL, "trace"]).args(options).args(["./program", "--"]);
    let output = command.args(arguments).output().unwrap();
    let trace = file.exists().then(|| {
        let shown = program.backtrail(&["show", "--json", "program.bttrace"]);
        let mut lines = shown.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
        let header = lines.next().unwrap();
        let rows = header["threads"].as_array().unwrap();
        let mut threads = vec![Vec::new(); rows.len()];
        let mut depths = vec![Vec::new(); rows.len()];
        let ids = |row: &Value| (row["process"].as_u64(), row["thread"].as_u64());
        for row in lines {
            let thread = rows.iter().position(|it| ids(it) == ids(&row)).unwrap();
            let word = |name: &str| row[name].as_str().unwrap().to_owned();
            threads[thread].push((word("function"), word("block")));
            depths[thread].push(row["depth"].as_u64().unwrap());
        }
        let text = |value: &Value| value.as_str().map(str::to_owned);
        let unknown = rows.iter().map(|row| text(&row["unknown"])).collect();
        Trace { threads, depths, unknown, incomplete: text(&header["incomplete"]) }
    });
    Traced { output, trace }
}

/// Traces a program in several ways, all of which must tell the same; gives what.
#[track_caller]
fn equal(program: &Program, ways: &[&[&str]], arguments: &[&str]) -> Trace {
    let logged = trace(program, &["--strategy", "log"], arguments);
    let expected = logged.trace.expect("the log is a trace");
    assert!(expected.threads.iter().map(Vec::len).sum::<usize>() > 3);
    for options in ways {
        let found = trace(program, options, arguments);
        let message = String::from_utf8_lossy(&found.output.stderr);
        assert_eq!(found.output.status, logged.output.status, "{options:?}: {message}");
        assert_eq!(found.output.stdout, logged.output.stdout, "{options:?}");
        let trace = found.trace.unwrap_or_else(|| panic!("{options:?}: {message}"));
        for (thread, (found, wanted)) in trace.threads.iter().zip(&expected.threads).enumerate() {
            let first = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
            assert_eq!(first, None, "{options:?}: thread {thread}");
            assert_eq!(found.len(), wanted.len(), "{options:?}: thread {thread}");
        }
        for (thread, (found, wanted)) in trace.depths.iter().zip(&expected.depths).enumerate() {
            let first = found.iter().zip(wanted).position(|(found, wanted)| found != wanted);
            let Some(first) = first else { continue };
            let shown = |depths: &[u64]| {
                let steps = expected.threads[thread].iter().zip(depths).enumerate();
                let near = steps.skip(first.saturating_sub(12)).take(16);
                near.map(|(at, (step, depth))| format!("{at} {depth} {step:?}\n"))
                    .collect::<String>()
            };
            panic!(
                "{options:?}: frames of thread {thread}, step {first}:\n{}\nlogged:\n{}",
                shown(found),
                shown(wanted)
            );
        }
        assert_eq!(trace, expected, "{options:?}");
    }
    expected
}

const SOME: [&[&str]; 4] = [
    &[],
    &["--witness", "node"],
    &["--runs", "2", "--strategy", "function"],
    &["--runs", "3", "--witness", "node"],
];

#[test]
fn every_strategy_kind_and_number_of_runs() {
    let program = Program::c(&source("pointers.c"), &["-O1"]);
    let mut ways = vec![
        vec!["--strategy", "single"],
        vec!["--strategy", "single", "--witness", "node"],
        vec!["--limit", "4"],
        vec!["--limit", "6", "--witness", "node", "--runs", "2"],
    ];
    for runs in ["2", "6"] {
        for strategy in ["fine", "function", "grouped"] {
            for witness in ["edge", "node"] {
                let way = ["--runs", runs, "--strategy", strategy, "--witness", witness];
                ways.push(way.to_vec());
            }
        }
    }
    let ways: Vec<&[&str]> = ways.iter().map(|way| &way[..]).collect();
    equal(&program, &ways, &[]);
}

#[test]
fn frames_that_are_left_by_jumps() {
    for level in ["-O0", "-O2"] {
        equal(&Program::c(&source("jumps.c"), &[level]), &SOME, &[]);
    }
}

#[test]
fn pointers_and_computed_jumps() {
    for level in ["-O0", "-O2"] {
        equal(&Program::c(&source("pointers.c"), &[level]), &SOME, &[]);
    }
}

#[test]
fn exceptions_and_virtual_calls() {
    equal(&Program::cxx(&source("unwinding.cc"), &["-O2"]), &SOME, &[]);
    equal(&Program::cxx(&fixture("shapes.cc"), &["-O1", "-std=c++20"]), &SOME[..1], &[]);
}

#[test]
fn threads_have_traces_of_their_own() {
    let program = Program::c(&source("threads.c"), &["-O2", "-pthread"]);
    assert_eq!(equal(&program, &SOME, &[]).threads.len(), 4);
}

/// They are in the trace, though all they do is to begin.
#[test]
fn threads_that_sleep_until_they_are_killed_have_traces() {
    for level in ["-O0", "-O2"] {
        let program = Program::c(&source("sleepers.c"), &[level, "-pthread"]);
        let logged = trace(&program, &["--strategy", "log"], &[]).trace.unwrap();
        assert_eq!(logged.threads.len(), 4, "{level}");
        for options in SOME {
            let found = trace(&program, options, &[]).trace.unwrap();
            assert_eq!(found.threads.len(), 4, "{level} {options:?}");
            assert_eq!(found.threads[0], logged.threads[0], "{level} {options:?}");
            for (thread, wanted) in found.threads.iter().zip(&logged.threads).skip(1) {
                // They may be killed before they get as far as is certain, or one block
                // further than others.
                let shared = thread.len().min(wanted.len());
                assert!(shared > 0 && thread[..shared] == wanted[..shared], "{level} {options:?}");
                assert!(thread.len() < 8, "{level} {options:?}: {}", thread.len());
            }
            let cut = found.unknown.iter().map(Option::is_some).collect::<Vec<_>>();
            assert_eq!(cut, [false, true, true, true], "{level} {options:?}");
        }
    }
}

#[test]
fn what_runs_behind_the_function_of_a_thread_is_in_its_trace() {
    for level in ["-O0", "-O2"] {
        let program = Program::c(&source("thread_ends.c"), &[level, "-pthread"]);
        let traced = equal(&program, &SOME, &[]);
        assert_eq!(traced.unknown, [None, None, None, None]);
        let program = Program::cxx(&source("thread_ends.cc"), &[level, "-pthread"]);
        let traced = equal(&program, &SOME, &[]);
        assert!(traced.threads.len() == 7 && traced.unknown.iter().all(Option::is_none));
    }
}

const RUST_THREADS: &str = "\
use std::cell::RefCell;
struct Held(u32);
impl Drop for Held {
    fn drop(&mut self) {
        let sum: u32 = (0..self.0).filter(|it| it % 3 == 0).sum();
        println!(\"{sum}\");
    }
}
thread_local! { static HELD: RefCell<Held> = const { RefCell::new(Held(3)) }; }
fn main() {
    for count in 2..5u32 {
        let thread = std::thread::spawn(move || {
            HELD.with(|it| it.borrow_mut().0 = count);
            if count == 3 { 7 } else { count }
        });
        println!(\"{}\", thread.join().unwrap());
    }
}
";

#[test]
fn threads_of_rust_have_traces() {
    let manifest = "[package]\nname = \"threads\"\nversion = \"0.1.0\"\nedition = \"2021\"\n\
                    [[bin]]\nname = \"program\"\npath = \"main.rs\"\n[workspace]\n";
    let program = Program::of_files(&[("Cargo.toml", manifest), ("main.rs", RUST_THREADS)]);
    for (words, folder) in [(&["--release"][..], "release"), (&[], "debug")] {
        let words = [&["cargo", "build", "--quiet", "--target-dir", "target"], words].concat();
        program.backtrail(&words);
        let built = program.path(&format!("target/{folder}/program"));
        std::fs::copy(built, program.path("program")).unwrap();
        let traced = equal(&program, &SOME, &[]);
        assert!(traced.threads.len() == 4 && traced.threads.iter().all(|it| !it.is_empty()));
        assert!(traced.unknown.iter().all(Option::is_none));
    }
}

#[test]
fn handlers_of_signals_that_are_raised() {
    equal(&Program::c(&source("signals.c"), &["-O1"]), &SOME, &[]);
}

/// Blocks of handlers, and all others, in order.
fn handled_and_not(trace: &Trace) -> [Vec<(String, String)>; 2] {
    let is_handler = |step: &&(String, String)| step.0 == "allow";
    let steps = &trace.threads[0];
    [
        steps.iter().filter(is_handler).cloned().collect(),
        steps.iter().filter(|it| !is_handler(it)).cloned().collect(),
    ]
}

/// Where a handler ran is known as well as witnesses tell; what was executed is
/// known in order, in handlers and without them.
#[test]
fn handlers_that_the_kernel_calls() {
    for level in ["-O0", "-O2"] {
        let program = Program::c(&source("traps.c"), &[level]);
        let logged = trace(&program, &["--strategy", "log"], &[]);
        assert!(logged.output.stdout.starts_with(b"318 12 "), "{logged:?}");
        let expected = handled_and_not(&logged.trace.unwrap());
        assert!(expected[0].len() > 20);
        for options in &SOME[..3] {
            let found = trace(&program, options, &[]);
            let message = String::from_utf8_lossy(&found.output.stderr);
            assert_eq!(found.output.stdout, logged.output.stdout, "{options:?}: {message}");
            let found = found.trace.unwrap_or_else(|| panic!("{level} {options:?}: {message}"));
            assert_eq!(handled_and_not(&found), expected, "{level} {options:?}");
            assert_eq!((&found.unknown[..], &found.incomplete), (&[None][..], &None));
        }
        // What a handler jumps out of has not said yet what it did.
        let logged = trace(&program, &["--strategy", "log"], &["jump"]).trace.unwrap();
        for options in &SOME[..3] {
            let found = trace(&program, options, &["jump"]).trace.unwrap();
            assert_eq!(handled_and_not(&found)[0], handled_and_not(&logged)[0], "{options:?}");
            let incomplete = found.incomplete.unwrap_or_default();
            assert!(incomplete.contains("1 time, a handler"), "{options:?}: {incomplete}");
        }
    }
}

#[test]
fn children_in_the_frames_of_their_parents() {
    for level in ["-O0", "-O2"] {
        equal(&Program::c(&source("vfork.c"), &[level]), &SOME, &[]);
    }
}

#[test]
fn runs_that_end_in_the_middle() {
    let program = Program::c(&source("endings.c"), &["-O1"]);
    for way in ["return", "exit", "_exit"] {
        let found = equal(&program, &SOME, &[way]);
        assert_eq!(found.unknown, [None], "{way}");
    }
    // What was recorded is kept, and what it does not decide is not guessed.
    for way in ["kill", "crash"] {
        let logged = trace(&program, &["--strategy", "log"], &[way]);
        let expected = logged.trace.unwrap();
        for options in SOME {
            let found = trace(&program, options, &[way]);
            assert_eq!(found.output.status, logged.output.status, "{way} {options:?}");
            let trace = found.trace.unwrap();
            assert!(trace.unknown[0].is_some(), "{way} {options:?}");
            let (found, wanted) = (&trace.threads[0], &expected.threads[0]);
            // What follows for certain may be more than what was executed.
            let shared = found.len().min(wanted.len());
            assert_eq!(found[..shared], wanted[..shared], "{way} {options:?}");
            assert!(found.len() < wanted.len() + 4, "{way} {options:?}: {}", found.len());
            assert!(found.len() * 2 > wanted.len(), "{way} {options:?}: {}", found.len());
        }
    }
}

#[test]
fn loops_whose_iterations_are_counted() {
    for level in ["-O0", "-O2"] {
        let options = [level, "-fno-vectorize", "-fno-unroll-loops"];
        let program = Program::c(&source("loops.c"), &options);
        equal(&program, &SOME[..3], &["7"]);
        equal(&program, &SOME[..1], &["70000"]);
    }
}

#[test]
fn a_log_takes_no_more_space_than_it_may() {
    let program = Program::c(&source("loops.c"), &["-O0"]);
    let whole = trace(&program, &["--strategy", "log"], &["70000"]).trace.unwrap();
    for options in [&["--disk", "64K", "--runs", "2"][..], &["--disk", "64K", "--strategy", "log"]]
    {
        let found = trace(&program, options, &["70000"]);
        let message = String::from_utf8_lossy(&found.output.stderr);
        assert_eq!(found.output.status.code(), Some(0), "{message}");
        let cut = found.trace.unwrap();
        assert!(cut.incomplete.unwrap().contains("the bound that was set"), "{message}");
        let (found, wanted) = (&cut.threads[0], &whole.threads[0]);
        assert!((1_000..wanted.len()).contains(&found.len()), "{options:?}: {}", found.len());
        assert_eq!(found[..], wanted[..found.len()], "{options:?}");
    }
    let refused = trace(&program, &["--disk", "much"], &[]);
    assert_eq!(refused.output.status.code(), Some(2));
}

#[test]
fn larger_programs() {
    equal(&Program::c(&fixture("words.c"), &["-O2"]), &SOME, &["9"]);
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/oracle/control.c");
    let control = std::fs::read_to_string(path).unwrap();
    equal(&Program::c(&control, &["-O1"]), &SOME, &["one", "two"]);
}

#[test]
fn a_library_of_the_programs_own() {
    let library = "__attribute__((noinline)) static int step(int n) { return n & 1 ? 3 * n + 1 : n / 2; }\n\
                   int walk(int n, int (*each)(int)) { int s = 0; while (n > 1) { n = step(n); \
                   s += each(n); } return s; }\n";
    let main = "#include <stdio.h>\nint walk(int, int (*)(int));\n\
                static int odd(int n) { if (n % 3) return 1; return 0; }\n\
                int main(void) { printf(\"%d\\n\", walk(27, odd) + walk(6, odd)); return 0; }\n";
    let program = Program::of_files(&[("program.c", main), ("walk.c", library)]);
    program.backtrail(&["cc", "-O1", "-shared", "-fPIC", "-o", "libwalk.so", "walk.c"]);
    let words = ["cc", "-O1", "-o", "program", "program.c", "-L.", "-lwalk", "-Wl,-rpath,$ORIGIN"];
    program.backtrail(&words);
    equal(&program, &SOME, &[]);
}

/// A library without a name of its own is asked for as the linker was given it, and one
/// whose name has a folder by that.
#[test]
fn libraries_that_are_asked_for_by_a_path() {
    let program = Program::of_files(&[
        (
            "program.c",
            "#include <stdio.h>\nint outer(int), inner(int);\nint main(void) { int s = 0; \
             for (int i = 0; i < 4; i++) s += outer(i) + inner(i); printf(\"%d\\n\", s); return 0; }\n",
        ),
        ("outer.c", "int inner(int);\nint outer(int n) { return n > 1 ? inner(n) : 1; }\n"),
        ("inner.c", "int inner(int n) { if (n & 1) return 5; return 2; }\n"),
        ("inner.map", "V1 { global: inner; local: *; };\n"),
    ]);
    let folder = program.path("program.c").parent().unwrap().to_owned();
    let map = "-Wl,--version-script=inner.map";
    let shared = ["cc", "-O1", "-shared", "-fPIC", "-o"];
    program.backtrail(&[&shared[..], &["inner.so", "inner.c", map]].concat());
    let name = format!("-Wl,-soname,{}", folder.join("outer.so").display());
    program.backtrail(&[&shared[..], &["outer.so", "outer.c", "./inner.so", &name]].concat());
    program.backtrail(&["cc", "-O1", "-o", "program", "program.c", "outer.so", "./inner.so"]);
    let trace = equal(&program, &SOME, &[]);
    for name in ["outer", "inner"] {
        assert!(trace.threads[0].iter().any(|(function, _)| function == name), "{name}");
    }
    program.backtrail(&["profile", "-q", "--copies", "2", "-o", "copies.btprof", "./program"]);

    std::fs::create_dir(folder.join("other")).unwrap();
    let other = [&shared[..], &["other/inner.so", "outer.c", "./inner.so"]].concat();
    program.backtrail(&other);
    program.backtrail(&["cc", "-O1", "-o", "program", "program.c", "other/inner.so", "./inner.so"]);
    let (code, said) =
        program.refused(&["instrument", "--scheme", "log", "-o", "variant", "program"]);
    assert_eq!(code, 3, "{said}");
    assert!(said.contains("have one file name"), "{said}");
}

#[test]
fn weights_of_a_profile_change_costs_and_not_the_trace() {
    let program = Program::c(&source("pointers.c"), &["-O1"]);
    program.backtrail(&["profile", "./program"]);
    let weights = ["--weights", "program.btprof"];
    let several = ["--runs", "3", "--weights", "program.btprof"];
    equal(&program, &[&weights, &several], &[]);
}

#[test]
fn weights_of_the_first_run_change_costs_and_not_the_trace() {
    let first = |options: &[&'static str]| [&["--weights", "first"], options].concat();
    let ways = [
        first(&["--runs", "2"]),
        first(&["--runs", "4", "--witness", "node"]),
        first(&["--runs", "3", "--strategy", "function", "--isolate", "copy"]),
        first(&["--runs", "3", "--strategy", "grouped", "--limit", "6"]),
    ];
    let ways: Vec<&[&str]> = ways.iter().map(|way| &way[..]).collect();
    equal(&Program::c(&source("pointers.c"), &["-O1"]), &ways, &[]);
    equal(&Program::c(&source("jumps.c"), &["-O2"]), &ways[1..2], &[]);
    let threads = Program::c(&source("threads.c"), &["-O2", "-pthread"]);
    equal(&threads, &ways[..1], &[]);
}

/// Notes in a file that it ran, and adds up what it reads.
const NOTING: &str = r#"
#include <stdio.h>
int main(void) {
    FILE *notes = fopen("notes", "a");
    fputs("ran\n", notes);
    fclose(notes);
    int sum = 0;
    for (int c; (c = getchar()) != EOF;) sum += c == 'a' ? 2 : c == 'b' ? 3 : 0;
    printf("%d\n", sum);
    return 0;
}
"#;

#[test]
fn a_first_run_leaves_nothing() {
    let program = Program::c(NOTING, &["-O1"]);
    std::fs::write(program.path("input"), "abba").unwrap();
    for isolation in ["auto", "copy"] {
        let mut command = program.command(BACKTRAIL);
        command.args(["trace", "--weights", "first", "--runs", "3", "--isolate", isolation]);
        command.arg("./program").stdin(std::fs::File::open(program.path("input")).unwrap());
        let output = command.output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(0), "{message}");
        assert_eq!(output.stdout, b"10\n", "{message}");
        assert_eq!(std::fs::read_to_string(program.path("notes")).unwrap(), "ran\n");
        std::fs::remove_file(program.path("notes")).unwrap();
        std::fs::remove_file(program.path("program.bttrace")).unwrap();
    }
    // What comes from a pipe cannot be read again.
    let mut command = program.command("sh");
    let words = format!("echo ab | {BACKTRAIL} trace --weights first --runs 2 ./program");
    let output = command.args(["-c", &words]).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(5), "{message}");
    assert!(message.contains("give it as a file"), "{message}");
    assert!(!program.path("program.bttrace").exists() && !program.path("notes").exists());
    for refused in [&["--weights", "first"][..], &["--weights", "first", "--witness", "breakpoint"]]
    {
        assert_eq!(trace(&program, refused, &[]).output.status.code(), Some(2));
    }
}

/// All strategies, kinds, limits and numbers of runs.
fn all_ways() -> Vec<Vec<&'static str>> {
    let mut ways =
        vec![vec!["--strategy", "single"], vec!["--strategy", "single", "--witness", "node"]];
    for runs in ["1", "2", "3", "4", "5", "6"] {
        for strategy in ["fine", "function", "grouped"] {
            for witness in ["edge", "node"] {
                for limit in [&[][..], &["--limit", "5"], &["--limit", "12"], &["--limit", "30"]] {
                    let way = ["--runs", runs, "--strategy", strategy, "--witness", witness];
                    ways.push([&way[..], limit].concat());
                }
            }
        }
    }
    ways
}

/// One of all ways, another one for each program; `cargo xtask fuzz trace` takes all.
#[test]
fn some_of_all_ways() {
    let ways = all_ways();
    let names = ["jumps.c", "pointers.c", "signals.c", "threads.c", "unwinding.cc", "loops.c"];
    let mut random = fastrand::Rng::with_seed(6);
    for name in names {
        let text = source(name);
        let program = match name.strip_suffix(".cc") {
            Some(_) => Program::cxx(&text, &["-O2"]),
            None => Program::c(&text, &["-O1", "-pthread"]),
        };
        let chosen = &ways[random.usize(0..ways.len())];
        equal(&program, &[chosen], if name == "loops.c" { &["7"] } else { &[] });
    }
}

/// Ends otherwise in one of several runs: the one that makes the folder.
const CHANGING: &str = r#"
#include <stdlib.h>
#include <sys/stat.h>
int main(int count, char **words) {
    int sum = 0;
    for (int i = 0; i < count + 5; i++) {
        if (i % 2) sum += words[0][0]; else sum ^= 1;
    }
    if (mkdir("made", 0700) == 0) exit(sum == 0);
    return sum == 0;
}
"#;

#[test]
fn runs_that_differ_are_told() {
    let program = Program::c(CHANGING, &["-O1"]);
    let options = ["--runs", "3", "--isolate", "none", "--strategy", "fine"];
    let found = trace(&program, &options, &[]);
    let message = String::from_utf8_lossy(&found.output.stderr);
    assert_eq!(found.output.status.code(), Some(4), "{message}");
    assert!(message.contains("diverged behind") && message.contains("of main"), "{message}");
    assert!(found.trace.is_none(), "nothing that could be taken for a trace");
}
