//! The frames in the log of every block are those that the program has: random programs
//! keep a call stack of their own and tell it ([`random_frames`]).
//!
//! `BACKTRAIL_FRAMES=FIRST..END` takes the programs with these seeds instead of a few.

mod profile_program;

use std::collections::BTreeMap;

use backtrail_testkit::random_frames::{self, Language};
use profile_program::{BACKTRAIL, Program};
use serde_json::Value;

/// By thread, each entry of a function that is told: which, and how deep.
type Entries = BTreeMap<u64, Vec<(u64, u64)>>;

/// Runs a program with its log: what it printed, and what it logged.
fn traced(program: &Program, seed: u64) -> (String, Vec<Value>) {
    let mut command = program.command(BACKTRAIL);
    let words = ["--quiet", "trace", "--strategy", "log", "-o", "trace", "./program"];
    let output = command.args(words).output().unwrap();
    let message = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "seed {seed}: {} {message}", output.status);
    let shown = program.backtrail(&["show", "--json", "trace"]);
    let rows = shown.lines().skip(1).map(|line| serde_json::from_str(line).unwrap()).collect();
    (String::from_utf8(output.stdout).unwrap(), rows)
}

fn told(text: &str) -> Entries {
    let mut entries = Entries::new();
    for line in text.lines() {
        let numbers: Vec<u64> = line.split(' ').map(|word| word.parse().unwrap()).collect();
        let [thread, function, depth] = numbers[..] else { panic!("{line}") };
        entries.entry(thread + 1).or_default().push((function, depth));
    }
    entries
}

fn logged(rows: &[Value]) -> Entries {
    let mut entries = Entries::new();
    for row in rows.iter().filter(|row| row["block"] == "b0") {
        let Some(function) = row["function"].as_str().unwrap().strip_prefix("frame_") else {
            continue;
        };
        // The optimiser may have made several of one function.
        let function = function.split('.').next().unwrap().parse().unwrap();
        let thread = row["thread"].as_u64().unwrap();
        entries.entry(thread).or_default().push((function, row["depth"].as_u64().unwrap()));
    }
    entries
}

/// Compares the program of a seed; how many entries there were.
fn compare(seed: u64) -> usize {
    let language = if seed.is_multiple_of(2) { Language::C } else { Language::Cxx };
    let level = ["-O0", "-O1", "-O2"][seed as usize / 2 % 3];
    let source = random_frames::program(seed, language);
    let words = [level, "-pthread", "-Wno-everything"];
    let program = match language {
        Language::C => Program::c(&source, &words),
        Language::Cxx => Program::cxx(&source, &words),
    };
    let (text, rows) = traced(&program, seed);
    let (told, logged) = (told(&text), logged(&rows));
    let threads = |entries: &Entries| entries.keys().copied().collect::<Vec<_>>();
    assert_eq!(threads(&told), threads(&logged), "seed {seed} {language:?} {level}");
    for (thread, told) in &told {
        let logged = &logged[thread];
        let first = told.iter().zip(logged).position(|(told, logged)| told != logged);
        if let Some(first) = first.or((told.len() != logged.len()).then_some(told.len())) {
            let near = first.saturating_sub(8)..first + 3;
            let part = |list: &[(u64, u64)]| {
                list[near.start.min(list.len())..near.end.min(list.len())].to_vec()
            };
            panic!(
                "seed {seed} {language:?} {level}: thread {thread}, entry {first} of {}: \
                 (function, depth)\n   told {:?}\n logged {:?}",
                told.len(),
                part(told),
                part(logged)
            );
        }
    }
    told.values().map(Vec::len).sum()
}

fn compare_all(seeds: impl Iterator<Item = u64>) {
    let (mut programs, mut entries) = (0, 0);
    for seed in seeds {
        programs += 1;
        entries += compare(seed);
    }
    assert!(entries > programs * 10, "{entries} entries of {programs} programs are too few");
}

/// A part of the programs that are asked for, or of a few.
fn compare_part(part: u64) {
    let asked = std::env::var("BACKTRAIL_FRAMES").ok();
    let (first, end) = match &asked {
        Some(asked) => {
            let (first, end) = asked.split_once("..").expect("BACKTRAIL_FRAMES is FIRST..END");
            (first.parse().expect("a number"), end.parse().expect("a number"))
        }
        None => (0, 60),
    };
    compare_all((first..end).filter(|seed| seed % 4 == part));
}

/// The call tree of a program, by its log: a line for each function, with how often it was
/// called, as deep as it is.
fn tree(program: &Program) -> Vec<String> {
    program.backtrail(&["trace", "--quiet", "--strategy", "log", "-o", "trace", "./program"]);
    let shown = program.backtrail(&["show", "--tree", "trace"]);
    let line = |line: &str| {
        let (_, behind) = line.split_once('%').expect("a share");
        let calls = behind.split_whitespace().next().expect("how often");
        let (_, function) = behind.split_once(calls).expect("it is in there");
        format!("{calls} {}", &function[4..])
    };
    shown.lines().skip(2).map(line).collect()
}

#[test]
fn what_returned_called_nothing() {
    let source = r#"
        #include <stdio.h>
        #define NOINLINE __attribute__((noinline))
        NOINLINE void leaf(void) { puts("leaf"); }
        NOINLINE void other(void) { puts("other"); }
        NOINLINE void mid(int n) { if (n) leaf(); puts("mid"); }
        int main(void) { mid(1); other(); return 0; }
    "#;
    for level in ["-O0", "-O2"] {
        let found = tree(&Program::c(source, &[level]));
        assert_eq!(found, ["1 main", "1   mid", "1     leaf", "1   other"], "{level}");
    }
}

#[test]
fn callbacks_are_called_by_whoever_called_the_library() {
    let source = r#"
        #include <stdlib.h>
        static int compare(const void *a, const void *b) { return *(const int *)a - *(const int *)b; }
        int main(void) {
          int all[64];
          for (int i = 0; i < 64; i++) all[i] = i * 37 % 64;
          qsort(all, 64, sizeof *all, compare);
          return all[5] != 5;
        }
    "#;
    for level in ["-O0", "-O2"] {
        let found = tree(&Program::c(source, &[level]));
        assert_eq!(found.len(), 2, "{level}: {found:?}");
        assert!(found[1].ends_with("   compare"), "{level}: {found:?}");
    }
}

#[test]
fn what_was_unwound_through_called_nothing() {
    let source = r#"
        #include <cstdio>
        #define NOINLINE __attribute__((noinline))
        NOINLINE int fall(int n) { if (n == 0) throw 1; return fall(n - 1) + 1; }
        NOINLINE int hold(int n) { try { return fall(n); } catch (int) { return -1; } }
        NOINLINE void rest() { puts("rest"); }
        int main() { for (int i = 0; i < 3; i++) hold(1); rest(); return 0; }
    "#;
    let found = tree(&Program::cxx(source, &["-O0"]));
    let wanted = ["1 main", "3   hold", "3     fall", "3       fall", "1   rest"];
    assert_eq!(found, wanted);
}

/// Two coroutines that take turns with `main`: each goes on in its own frames.
#[test]
fn coroutines_go_on_in_their_frames() {
    let source = r#"
        #include <ucontext.h>
        static ucontext_t home, one, two;
        static char stacks[2][1 << 16];
        volatile int work;
        __attribute__((noinline)) void frame_2(void) { work++; }
        __attribute__((noinline)) void frame_1(ucontext_t *own) {
          for (int i = 0; i < 3; i++) { frame_2(); swapcontext(own, &home); }
        }
        static void begin(int which) { frame_1(which ? &two : &one); }
        static void make(ucontext_t *made, int which) {
          getcontext(made);
          made->uc_stack.ss_sp = stacks[which];
          made->uc_stack.ss_size = sizeof stacks[which];
          made->uc_link = &home;
          makecontext(made, (void (*)(void))begin, 1, which);
        }
        __attribute__((noinline)) void frame_3(void) { work++; }
        int main(void) {
          make(&one, 0);
          make(&two, 1);
          for (int i = 0; i < 4; i++) {
            swapcontext(&home, &one);
            frame_3();
            swapcontext(&home, &two);
            frame_3();
          }
          return 0;
        }
    "#;
    for level in ["-O0", "-O2"] {
        let program = Program::c(source, &[level, "-fno-unroll-loops"]);
        let (_, rows) = traced(&program, 0);
        let entries = &logged(&rows)[&1];
        let of = |function| entries.iter().filter(move |(it, _)| *it == function);
        let depths = |function| of(function).map(|(_, depth)| *depth).collect::<Vec<_>>();
        // `main` is below all; it is where `begin` may have given up its frame.
        assert_eq!(depths(3), [2; 8], "{level}");
        assert_eq!(depths(2).len(), 6, "{level}");
        assert_eq!(rows.last().unwrap()["function"], "main", "{level}");
        assert_eq!(rows.last().unwrap()["depth"], 1, "{level}");
        // Whatever was left or ended, nothing is unfinished.
        let (_, profile) = program.equal(&[]);
        for function in ["main", "frame_1", "frame_2", "frame_3"] {
            assert_eq!(profile.function(function).unfinished, 0, "{level} {function}");
        }
    }
}

#[test]
fn random_programs_of_c() {
    compare_part(0);
}

#[test]
fn more_random_programs_of_c() {
    compare_part(2);
}

#[test]
fn random_programs_of_cxx() {
    compare_part(1);
}

#[test]
fn more_random_programs_of_cxx() {
    compare_part(3);
}
