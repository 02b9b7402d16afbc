//! Cores of programs that die in every way, against gdb.

mod damage;
mod files;
mod gdb;

use std::path::{Path, PathBuf};

use backtrail_machine::backtrace::Backtrace;
use backtrail_machine::modules::Options;
use backtrail_machine::process::Process;
use backtrail_testkit::cores::{self, compile, core_beside, stripped};
use gdb::Tally;

/// Those of which gdb shows the truth, too.
const WAYS: [&str; 9] =
    ["segfault", "abort", "qsort", "handler", "other-stack", "threads", "overflow", "jump", "vdso"];
/// Unwind tables are in the debug information.
const DEBUG_FRAME: &str = "-fno-asynchronous-unwind-tables";
/// The frames of a thread that are compared.
const LIMIT: usize = 60;

fn process(core: &Path, program: &Path) -> Process {
    let options = Options { executable: Some(program.to_owned()), ..Options::default() };
    Process::of_core(core, &options).unwrap_or_else(|error| panic!("{}: {error}", core.display()))
}

/// Compares some cores of one program.
fn agree(program: &Path, cores: &[(String, PathBuf)], tally: &mut Tally) {
    let list: Vec<PathBuf> = cores.iter().map(|(_, core)| core.clone()).collect();
    let answers = gdb::ask(program, &list, LIMIT);
    for ((name, core), answer) in cores.iter().zip(&answers) {
        let what = format!("{name} of {}", program.display());
        gdb::compare(&process(core, program), answer, LIMIT, &what, tally);
    }
}

/// Compares all ways to die, with and without symbols.
fn crashes_agree(compiler: &str, options: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let program = compile(compiler, options, "crashes.c", folder.path());
    let cores: Vec<_> = WAYS
        .iter()
        .map(|way| (format!("{compiler} {options:?} {way}"), core_beside(&program, &[way], way)))
        .collect();
    let mut tally = Tally::default();
    agree(&program, &cores, &mut tally);
    // Without unwind tables, nobody can tell.
    if !options.contains(&DEBUG_FRAME) {
        agree(&stripped(&program), &cores, &mut tally);
    }
    let copies = tally.cores / WAYS.len();
    assert_eq!((tally.cores, tally.threads), (copies * WAYS.len(), copies * (WAYS.len() + 3)));
    assert!(tally.frames > copies * 130 && tally.registers > copies * 900, "{tally:?}");
    println!("{compiler} {options:?}: {tally:?}");
}

#[test]
fn clang_without_optimisation_agrees_with_gdb() {
    crashes_agree("clang-19", &["-O0"]);
}

#[test]
fn clang_with_optimisation_agrees_with_gdb() {
    crashes_agree("clang-19", &["-O2"]);
    crashes_agree("clang-19", &["-O3", "-fno-pie", "-no-pie", "-gdwarf-4"]);
}

#[test]
fn gcc_without_optimisation_agrees_with_gdb() {
    crashes_agree("gcc", &["-O0"]);
}

#[test]
fn gcc_with_optimisation_agrees_with_gdb() {
    crashes_agree("gcc", &["-O2"]);
    crashes_agree("gcc", &["-O3", "-gz", DEBUG_FRAME]);
}

#[test]
fn exceptions_that_nobody_catches_agree_with_gdb() {
    let mut tally = Tally::default();
    for (compiler, level) in [("clang++-19", "-O0"), ("clang++-19", "-O2"), ("g++", "-O2")] {
        let folder = tempfile::tempdir().unwrap();
        let program = compile(compiler, &[level], "terminate.cc", folder.path());
        let name = format!("{compiler} {level} terminate");
        let core = core_beside(&program, &[], "terminate");
        let cores = [(name, core)];
        agree(&program, &cores, &mut tally);
        agree(&stripped(&program), &cores, &mut tally);
    }
    assert_eq!(tally.cores, 6);
    println!("{tally:?}");
}

#[test]
fn a_panic_of_rust_has_the_frames_that_gdb_shows() {
    let folder = tempfile::tempdir().unwrap();
    let options = ["-O", "-Cpanic=abort"];
    let program = folder.path().join("program");
    let mut rustc = std::process::Command::new("rustc");
    rustc.args(options).args(["-g", "-o"]).arg(&program).arg(cores::fixture("panic.rs"));
    cores::run(&mut rustc);
    let core = core_beside(&program, &[], "panic");
    let answer = gdb::ask(&program, std::slice::from_ref(&core), LIMIT).remove(0);
    let process = process(&core, &program);
    let backtrace = Backtrace::compute(&process, &process.notes.threads[0].registers);
    let own = gdb::ours(&process, &backtrace);
    // How closures are called differs.
    let counters: Vec<_> = own.iter().map(|(frame, _)| (frame.counter, frame.inlined)).collect();
    let theirs = answer["threads"][0]["frames"].as_array().unwrap().iter();
    let theirs: Vec<_> =
        theirs.map(|it| (it["pc"].as_u64().unwrap(), it["inlined"] == true)).collect();
    assert_eq!(counters, theirs);
    let names: Vec<_> = own.iter().filter_map(|(frame, _)| frame.function.as_deref()).collect();
    for name in ["core::panicking::panic_bounds_check", "panic::deep::pick", "main"] {
        assert!(names.contains(&name), "{name} in {names:?}");
    }
}
