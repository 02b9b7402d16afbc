//! `backtrail trace --witness breakpoint` on programs with threads, on programs that
//! start others or become one, and with what an earlier trace tells.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

struct Place {
    folder: tempfile::TempDir,
}

/// One thread of a trace: function, block and line of each step, and whether its end
/// is not known.
type Thread = (Vec<String>, bool);

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn compile(&self, name: &str, text: &str) {
        let source = self.path(name).with_extension("c");
        std::fs::write(&source, text).unwrap();
        let mut gcc = Command::new("gcc");
        gcc.current_dir(self.folder.path()).args(["-O2", "-g", "-o", name]);
        let done = gcc.arg(Path::new(name).with_extension("c")).status().unwrap();
        assert!(done.success(), "{name}");
    }

    fn backtrail(&self, words: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_backtrail"));
        command.current_dir(self.folder.path()).args(words).output().unwrap()
    }

    fn trace(&self, words: &[&str]) -> (Option<i32>, String, String) {
        let traced =
            self.backtrail(&[&["trace", "--witness", "breakpoint", "--explain"], words].concat());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (traced.status.code(), text(&traced.stdout), text(&traced.stderr))
    }

    fn threads(&self, file: &str) -> Vec<Thread> {
        let shown = self.backtrail(&["show", file, "--json"]);
        assert!(shown.status.success(), "{shown:?}");
        let text = String::from_utf8(shown.stdout).unwrap();
        let mut lines =
            text.lines().map(|it| serde_json::from_str::<serde_json::Value>(it).unwrap());
        let header = lines.next().unwrap();
        let threads = header["threads"].as_array().unwrap();
        let mut threads: Vec<Thread> =
            threads.iter().map(|it| (Vec::new(), !it["unknown"].is_null())).collect();
        for row in lines {
            let step = format!("{} {} {}", row["function"], row["block"], row["line"]);
            threads[row["thread"].as_u64().unwrap() as usize - 1].0.push(step);
        }
        threads
    }
}

/// The numbers in brackets behind a word.
fn numbers(told: &str, word: &str) -> Vec<u64> {
    let rest = &told[told.find(word).unwrap_or_else(|| panic!("{told}")) + word.len()..];
    let list = &rest[rest.find('[').unwrap() + 1..rest.find(']').unwrap()];
    list.split(", ").map(|it| it.parse().unwrap()).collect()
}

const THREADS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static long results[8];
static void *run(void *it) {
  long number = (long)it, sum = 0;
  for (long i = 1; i < number * 7; i++) {
    if (i % 3 == 0)
      sum += i;
    else if (i % 5 == 0)
      sum ^= i;
    else
      sum -= 1;
  }
  results[number % 8] = sum;
  if (number == 5)
    pthread_exit(it);
  return it;
}
int main(int count, char **words) {
  pthread_t threads[8];
  void *(*volatile function)(void *) = run;
  for (int i = 2; i < count; i++) {
    if (strcmp(words[1], "threads"))
      function((void *)atol(words[i]));
    else
      pthread_create(&threads[i], 0, function, (void *)atol(words[i]));
  }
  for (int i = 2; i < count && !strcmp(words[1], "threads"); i++)
    pthread_join(threads[i], 0);
  printf("%ld\n", results[3] + results[4] + results[5]);
  return 0;
}
"#;

#[test]
fn each_thread_has_its_trace_and_does_what_it_would_alone() {
    let place = Place::new();
    place.compile("program", THREADS);
    let (code, output, told) = place.trace(&["-o", "direct", "./program", "--", "one", "3", "4"]);
    assert_eq!(code, Some(0), "{told}");
    let direct = place.threads("direct").remove(0).0;
    let (threads, same) = traced_in_one_run_and_in_three(&place, &["threads", "3", "4"]);
    assert_eq!(same, output);
    assert_eq!(threads.len(), 3);
    for (thread, is_unknown) in &threads[1..] {
        assert!(!is_unknown && thread.len() > 20);
        assert!(thread[0].starts_with("\"run\" \"0x") && thread[0].contains("program.c:"));
        assert!(direct.windows(thread.len()).any(|part| part == thread), "{thread:#?}");
    }
    // One that ends in the middle of its function.
    let (code, _, told) = place.trace(&["-o", "exits", "./program", "--", "threads", "5"]);
    assert_eq!(code, Some(0), "{told}");
    let threads = place.threads("exits");
    assert!(threads.len() == 2 && !threads[1].1 && threads[1].0.len() > 20);
    let (code, _, told) =
        place.trace(&["--in-process", "-o", "inside", "./program", "--", "threads", "3"]);
    assert_eq!(code, Some(5), "{told}");
    assert!(told.contains("starts a thread"), "{told}");
    assert!(!place.path("inside").exists());
}

/// The threads of `./program`, and what it prints, which both ways have to tell alike.
fn traced_in_one_run_and_in_three(place: &Place, arguments: &[&str]) -> (Vec<Thread>, String) {
    let [one, three] = [("1", "one"), ("3", "three")].map(|(runs, file)| {
        let words = [&["--runs", runs, "-o", file, "./program", "--"], arguments].concat();
        let (code, output, told) = place.trace(&words);
        assert_eq!(code, Some(0), "{told}");
        assert_eq!(numbers(&told, "stops "), numbers(&told, "predicted "));
        (place.threads(file), output)
    });
    assert_eq!(one, three);
    one
}

#[test]
fn what_runs_behind_the_function_of_a_thread_is_in_its_trace() {
    let place = Place::new();
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace");
    place.compile("program", &std::fs::read_to_string(format!("{folder}/thread_ends.c")).unwrap());
    let (threads, _) = traced_in_one_run_and_in_three(&place, &[]);
    let in_done = threads[1..].iter().map(|(thread, is_unknown)| {
        assert!(!is_unknown && thread[0].starts_with("\"work\""));
        let done = thread.iter().position(|it| it.starts_with("\"done\"")).unwrap();
        assert!(thread[done..].iter().all(|it| it.starts_with("\"done\"")));
        thread.len() - done
    });
    let in_done: Vec<usize> = in_done.collect();
    // Neither calls the other.
    let tree = place.backtrail(&["show", "one", "--tree"]).stdout;
    let tree = String::from_utf8(tree).unwrap();
    let indented = |name: &str| -> BTreeSet<usize> {
        tree.lines().filter(|it| it.ends_with(name)).filter_map(|it| it.find(name)).collect()
    };
    assert_eq!(indented(" done"), indented(" work"), "{tree}");
    assert!(in_done[0] > in_done[2] && in_done[2] > in_done[1], "{in_done:?}");
}

#[test]
fn threads_that_the_library_of_cxx_starts_have_traces() {
    let place = Place::new();
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/thread_ends.cc");
    let mut compiler = Command::new("g++");
    compiler.args(["-O1", "-pthread", source, "-o"]).arg(place.path("program"));
    assert!(compiler.status().unwrap().success());
    let (threads, _) = traced_in_one_run_and_in_three(&place, &[]);
    assert!(threads.len() == 7 && threads.iter().all(|(_, is_unknown)| !is_unknown));
}

const SLEEPERS: &str = r#"
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>
static void *sleeper(void *unused) {
  for (;;)
    sleep(1000);
  return unused;
}
int main(void) {
  pthread_t threads[4];
  for (int i = 0; i < 4; i++)
    pthread_create(&threads[i], 0, sleeper, 0);
  puts("done");
  return 0;
}
"#;

/// Which of them is gone first when the program ends is a matter of chance.
#[test]
fn threads_that_sleep_do_not_keep_a_program_from_its_end() {
    let place = Place::new();
    place.compile("program", SLEEPERS);
    for round in 0..6 {
        let (code, output, told) = place.trace(&["-o", "slept", "./program"]);
        assert_eq!((code, output.as_str()), (Some(0), "done\n"), "{round}: {told}");
    }
    // How often they go round is not known, and not made up.
    let threads = place.threads("slept");
    assert!(threads[1..].iter().all(|(blocks, is_unknown)| *is_unknown && blocks.len() < 10));
}

fn fixture(name: &str) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/fixtures/trace/");
    std::fs::read_to_string(format!("{folder}{name}")).unwrap()
}

/// The steps of a thread that are not those of a function, and how many these are of
/// each of its blocks.
fn without(thread: &Thread, function: &str) -> (Vec<String>, Vec<usize>) {
    let name = format!("\"{function}\" ");
    let (own, others): (Vec<String>, _) =
        thread.0.iter().cloned().partition(|step| step.starts_with(&name));
    let blocks: BTreeSet<&String> = own.iter().collect();
    let counts = blocks.iter().map(|block| own.iter().filter(|it| it == block).count());
    (others, counts.collect())
}

#[test]
fn handlers_that_interrupt_a_run_anywhere_are_in_its_trace() {
    let place = Place::new();
    place.compile("program", &fixture("ticks.c"));
    let (code, output, told) = place.trace(&["-o", "still", "./program", "--", "0"]);
    assert_eq!((code, output.as_str()), (Some(0), "0 0\n"), "{told}");
    let still = place.threads("still").remove(0);
    let mut most = 0;
    for between in ["20000", "3000", "700"] {
        let (code, output, told) = place.trace(&["-o", "ticked", "./program", "--", between]);
        assert_eq!(code, Some(0), "{told}");
        let numbers: Vec<usize> = output.split_whitespace().map(|it| it.parse().unwrap()).collect();
        let [ticks, odd] = numbers[..] else { panic!("{output}") };
        let ticked = place.threads("ticked").remove(0);
        let (others, counts) = without(&ticked, "tick");
        assert_eq!(others.len(), still.0.len(), "{between}");
        assert!(others == still.0 && !ticked.1, "{between}");
        let expected: BTreeSet<usize> = [ticks, odd].into_iter().filter(|&it| it > 0).collect();
        assert_eq!(counts.into_iter().collect::<BTreeSet<usize>>(), expected, "{between}");
        most = most.max(ticks);
    }
    assert!(most > 3, "{most}");
}

/// A signal that has no name, one that a restorer of the program's own returns from, one
/// that its first thread does not see the end of, and one that breakpoints need.
#[test]
fn signals_of_every_kind_are_handled() {
    let place = Place::new();
    place.compile("program", &fixture("more_signals.c"));
    for (how, printed) in [("real-time", "1\n"), ("restorer", "1\n"), ("thread", "done\n")] {
        let (code, output, told) = place.trace(&["-o", "trace", "./program", "--", how]);
        assert_eq!((code, output.as_str()), (Some(0), printed), "{how}: {told}");
        let handled = place.threads("trace").iter().any(|it| !without(it, "handle").1.is_empty());
        assert!(handled, "{how}");
    }
    // Whoever takes them, the advice is the same, and is one that helps.
    let mut advice = [&[][..], &["--in-process"]].map(|options| {
        let words = [options, &["-o", "none", "./program", "--", "trap"]].concat();
        let (code, _, told) = place.trace(&words);
        assert_eq!(code, Some(5), "{told}");
        told
    });
    assert!(advice[0].contains("it blocks SIGTRAP or handles it itself"), "{}", advice[0]);
    assert!(advice[0].contains("trace it with probes"), "{}", advice[0]);
    advice.iter_mut().for_each(|told| *told = told.trim_end().to_owned());
    assert_eq!(advice[0], advice[1]);
}

/// They happen at the same places in every run.
#[test]
fn handlers_of_faults_are_in_the_trace_of_one_run_and_of_several() {
    let place = Place::new();
    place.compile("program", &fixture("traps.c"));
    for (words, printed, handled) in [(&[][..], "318 12 38\n", 12), (&["x"], "1106 9 27\n", 9)] {
        let mut found = Vec::new();
        for runs in ["1", "2"] {
            let options = ["--runs", runs, "-o", "trace", "./program", "--"];
            let (code, output, told) = place.trace(&[&options[..], words].concat());
            assert_eq!((code, output.as_str()), (Some(0), printed), "{told}");
            let (others, counts) = without(&place.threads("trace").remove(0), "allow");
            assert_eq!(counts.iter().max(), Some(&handled), "{runs}: {words:?}");
            found.push((others, counts));
        }
        assert!(found[0] == found[1], "{words:?}");
    }
}

const RUST: &str = r#"
#[no_mangle]
#[inline(never)]
fn work(mut value: u64) -> u64 {
    let mut steps = 0;
    while value != 1 {
        value = if value % 2 == 0 { value / 2 } else { 3 * value + 1 };
        steps += 1;
    }
    steps
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let mut sum = 0;
    for word in &words[1..] {
        let value = word.parse().unwrap();
        sum += match words[0].as_str() {
            "threads" => std::thread::spawn(move || work(value)).join().unwrap(),
            _ => work(value),
        };
    }
    println!("{sum}");
}
"#;

#[test]
fn threads_of_rust_do_what_they_would_alone() {
    let place = Place::new();
    std::fs::write(place.path("program.rs"), RUST).unwrap();
    let mut rustc = Command::new("rustc");
    rustc.arg("-Copt-level=2").arg(place.path("program.rs")).arg("-o").arg(place.path("program"));
    assert!(rustc.status().unwrap().success());
    let work = |thread: &Thread| -> Vec<String> {
        thread.0.iter().filter(|it| it.starts_with("\"work\"")).cloned().collect()
    };
    let (code, output, told) =
        place.trace(&["-o", "direct", "./program", "--", "alone", "6", "27"]);
    assert_eq!(code, Some(0), "{told}");
    let direct = work(&place.threads("direct")[0]);
    let (threads, same) = traced_in_one_run_and_in_three(&place, &["threads", "6", "27"]);
    assert_eq!(same, output);
    assert!(threads.len() == 3 && threads.iter().all(|(_, is_unknown)| !is_unknown));
    assert!(work(&threads[0]).is_empty());
    let of_threads: Vec<Vec<String>> = threads[1..].iter().map(work).collect();
    assert!(of_threads.iter().all(|it| it.len() > 8));
    assert_eq!(of_threads.concat(), direct);
}

const CHILDREN: &str = r#"
#define _GNU_SOURCE
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
extern char **environ;
static int twice(int value) { return value > 3 ? 2 * value : value + 1; }
int main(int count, char **words) {
  char *echo[] = {"echo", "hello", 0};
  int status = 0;
  pid_t child;
  if (!strcmp(words[1], "exec")) {
    if (twice(count) == 3)
      execvp("/nowhere", echo);
    execvp("echo", echo);
  } else if (!strcmp(words[1], "fork")) {
    child = fork();
    if (child == 0) {
      printf("child %d\n", twice(count));
      return 7;
    }
    waitpid(child, &status, 0);
  } else if (!strcmp(words[1], "vfork")) {
    child = vfork();
    if (child == 0)
      _exit(twice(7));
    waitpid(child, &status, 0);
  } else {
    posix_spawnp(&child, "echo", 0, 0, echo, environ);
    waitpid(child, &status, 0);
  }
  printf("%d\n", WEXITSTATUS(status));
  return 0;
}
"#;

#[test]
fn children_run_and_a_program_that_becomes_another_is_traced_up_to_there() {
    let place = Place::new();
    place.compile("program", CHILDREN);
    let expected =
        [("exec", "hello\n"), ("fork", "child 3\n7\n"), ("vfork", "14\n"), ("spawn", "hello\n0\n")];
    for (how, printed) in expected {
        for runs in ["1", "2"] {
            let words = ["--runs", runs, "-o", "trace", "./program", "--", how];
            let (code, output, told) = place.trace(&words);
            assert_eq!((code, &output[..]), (Some(0), printed), "{how}: {told}");
            let (blocks, is_unknown) = place.threads("trace").remove(0);
            assert!(!is_unknown && blocks.len() > 10, "{how}, {runs} runs: {blocks:#?}");
            assert_eq!(numbers(&told, "stops "), numbers(&told, "predicted "), "{how}");
        }
    }
}

#[test]
fn an_earlier_trace_makes_fewer_stops() {
    let place = Place::new();
    let command = ["/usr/bin/sed", "--", "-n", "s/a/b/p", "/etc/group"];
    let trace = |words: &[&str]| place.trace(&[words, &command[..]].concat());
    let (_, output, guessed) = trace(&["-o", "first"]);
    let expected = place.threads("first");
    for runs in ["1", "3", "12"] {
        let words = ["--weights", "first", "--runs", runs, "-o", "same"];
        let (code, same, told) = trace(&words);
        assert_eq!((code, &same), (Some(0), &output), "{told}");
        assert_eq!(place.threads("same"), expected, "{words:?}");
        let stops = numbers(&told, "stops ");
        assert_eq!(stops, numbers(&told, "predicted "), "{words:?}");
        let is_fewer = stops.len().to_string() != runs;
        assert_eq!(told.contains(&format!(" instead of {runs}")), is_fewer, "{told}");
        assert!(stops.iter().max() < numbers(&guessed, "stops ").iter().max(), "{told}{guessed}");
    }
    let words = ["--weights", "first", "-o", "none", "/usr/bin/true"];
    let (code, _, told) = place.trace(&words);
    assert_eq!(code, Some(3), "{told}");
    assert!(told.contains("a trace of another build"), "{told}");
    assert!(!place.path("none").exists());
}

#[test]
fn a_limit_counts_every_breakpoint() {
    let place = Place::new();
    place.compile("program", THREADS);
    let trace = |words: &[&str]| place.trace(&[words, &["./program", "--", "one", "3"]].concat());
    let (code, output, told) = trace(&["-o", "whole"]);
    assert_eq!(code, Some(0), "{told}");
    let (code, same, told) = trace(&["--limit", "14", "-o", "limited"]);
    assert_eq!((code, same), (Some(0), output), "{told}");
    assert_eq!(place.threads("limited"), place.threads("whole"));
    assert_eq!(numbers(&told, "stops "), numbers(&told, "predicted "));
    let breakpoints = numbers(&told, "in each run: ");
    assert!(breakpoints.len() > 1 && breakpoints.iter().all(|&it| it <= 14), "{told}");
    let (code, _, told) = trace(&["--limit", "3", "-o", "none"]);
    assert_eq!(code, Some(2), "{told}");
    assert!(told.contains("--limit 3 is too low"), "{told}");
    assert!(!place.path("none").exists());
}
