//! `cargo xtask bench breakpoints`: how many breakpoints a second.
//!
//! A loop with a branch in it is traced, with a stop for each hit and with a handler
//! in the program. Beside it, in turns, what the system allows at best: a bare loop
//! of traps that a tracer on the same core continues, and one whose handler does
//! nothing. The most of several rounds is taken of each: other work on the machine
//! can only make it less.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::{command, workspace};

/// What `cargo xtask bench breakpoints` takes.
#[derive(Debug, Args)]
pub struct Options {
    /// How often everything is measured
    #[arg(long, value_name = "N", default_value_t = 5)]
    rounds: usize,
    /// How often the loop goes round
    #[arg(long, value_name = "N", default_value_t = 300_000)]
    hits: u64,
    /// The tool, if it is not to be built
    #[arg(long, value_name = "FILE")]
    tool: Option<PathBuf>,
}

/// Traps as fast as the system can: `stops` continues a child, `handler` returns.
const BARE: &str = r#"
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static void nothing(int signal) { (void)signal; }

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static void trap(long count) {
  for (long i = 0; i < count; i++)
    __asm__ volatile("int3");
}

int main(int argc, char **argv) {
  long count = argc > 2 ? atol(argv[2]) : 0;
  double start;
  if (argc > 1 && !strcmp(argv[1], "handler")) {
    signal(SIGTRAP, nothing);
    start = now();
    trap(count);
  } else {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(sched_getcpu(), &one);
    sched_setaffinity(0, sizeof one, &one);
    int status;
    pid_t child = fork();
    if (child == 0) {
      ptrace(PTRACE_TRACEME, 0, 0, 0);
      raise(SIGSTOP);
      trap(count);
      _exit(0);
    }
    waitpid(child, &status, 0);
    start = now();
    do {
      ptrace(PTRACE_CONT, child, 0, 0);
      waitpid(child, &status, 0);
    } while (!WIFEXITED(status));
  }
  printf("%.6f\n", now() - start);
  return 0;
}
"#;

/// A loop whose way is not known without looking.
const LOOP: &str = r#"
#include <stdlib.h>
static volatile unsigned odd, even;
int main(int argc, char **argv) {
  unsigned long count = argc > 1 ? strtoul(argv[1], 0, 10) : 0;
  unsigned value = 12345;
  for (unsigned long i = 0; i < count; i++) {
    value = value * 1103515245u + 12345u;
    if (value & 0x10000)
      odd++;
    else
      even++;
  }
  return 0;
}
"#;

/// Measures and prints.
pub fn run(options: &Options) -> Result<()> {
    ensure!(options.rounds > 0, "--rounds must be at least 1");
    let tool = match &options.tool {
        Some(tool) => tool.canonicalize().context(tool.display().to_string())?,
        None => workspace::build_tool(workspace::Profile::Release)?.join("backtrail"),
    };
    let folder = workspace::target()?.join("bench-breakpoints");
    std::fs::create_dir_all(&folder)?;
    let bare = compile(&folder, "bare", BARE)?;
    let traced = compile(&folder, "loop", LOOP)?;
    let mut best = [0.0f64; 4];
    for _ in 0..options.rounds {
        let measured = [
            bare_rate(&bare, "stops", options.hits)?,
            bare_rate(&bare, "handler", options.hits)?,
            traced_rate(&tool, &folder, &traced, &[], options.hits)?,
            traced_rate(&tool, &folder, &traced, &["--in-process"], options.hits)?,
        ];
        for (best, rate) in best.iter_mut().zip(measured) {
            *best = best.max(rate);
        }
    }
    let [stops_bound, handler_bound, stops, handler] = best;
    println!("hits a second       traced  at best  part");
    for (name, rate, bound) in
        [("ptrace", stops, stops_bound), ("handler inside", handler, handler_bound)]
    {
        println!("{name:<15} {rate:>10.0} {bound:>8.0}  {:>3.0} %", 100.0 * rate / bound);
    }
    Ok(())
}

fn compile(folder: &Path, name: &str, text: &str) -> Result<PathBuf> {
    let (source, program) = (folder.join(name).with_extension("c"), folder.join(name));
    std::fs::write(&source, text)?;
    // Without conversion of the branch into a conditional move.
    let options = ["-O1", "-fno-if-conversion", "-fno-if-conversion2", "-o"];
    command::run(Command::new("gcc").args(options).arg(&program).arg(&source))?;
    Ok(program)
}

fn bare_rate(program: &Path, kind: &str, hits: u64) -> Result<f64> {
    let seconds = command::output(Command::new(program).arg(kind).arg(hits.to_string()))?;
    Ok(hits as f64 / seconds.trim().parse::<f64>()?)
}

/// Stops a second, by what the tool tells.
fn traced_rate(
    tool: &Path,
    folder: &Path,
    program: &Path,
    options: &[&str],
    hits: u64,
) -> Result<f64> {
    let mut command = Command::new(tool);
    command.args(["trace", "--witness", "breakpoint", "--explain"]).args(options);
    command.arg("-o").arg(folder.join("loop.bttrace")).arg(program);
    command.arg("--").arg(hits.to_string());
    let told = command::capture(&mut command)?;
    let told = String::from_utf8_lossy(&told.stderr).into_owned();
    let number = |before: &str, after: char| -> Option<f64> {
        let rest = &told[told.find(before)? + before.len()..];
        rest[..rest.find(after)?].trim().parse().ok()
    };
    let stops = number("stops [", ']').with_context(|| told.clone())?;
    let seconds = number("seconds: ", '\n').with_context(|| told.clone())?;
    ensure!(stops >= hits as f64, "the loop was traced with {stops} stops");
    Ok(stops / seconds)
}
