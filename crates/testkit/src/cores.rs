//! Programs that die and leave a core.
//!
//! The kernel writes the core where it writes cores into the working directory;
//! where it hands them to another program (`core_pattern` begins with a pipe)
//! or puts them elsewhere, gdb runs the program and writes what gcore writes;
//! so it does with `BACKTRAIL_CORES=gdb`.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source of a program that dies in many ways.
pub fn fixture(name: &str) -> PathBuf {
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine");
    machine.join("tests/cores/fixtures").join(name)
}

/// Runs a tool that has to be there and has to succeed.
///
/// # Panics
///
/// If it does not.
#[track_caller]
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles such a source, named relative to its folder as builds do.
pub fn compile(compiler: &str, options: &[&str], source: &str, folder: &Path) -> PathBuf {
    let program = folder.join("program");
    let source = fixture(source);
    let mut command = Command::new(compiler);
    command.args(["-g", "-pthread"]).args(options).arg(source.file_name().unwrap());
    command.arg("-o").arg(&program);
    run(command.current_dir(source.parent().unwrap()));
    program
}

/// A copy of a program without symbols and debug information.
pub fn stripped(program: &Path) -> PathBuf {
    let copy = program.with_extension("stripped");
    run(Command::new("strip").arg(program).arg("-o").arg(&copy));
    copy
}

/// Lets a program die in its folder; its core is `NAME.core` beside it.
#[track_caller]
pub fn core_beside(program: &Path, words: &[&str], name: &str) -> PathBuf {
    let core = program.with_file_name(format!("{name}.core"));
    core_of(Command::new(program).args(words).current_dir(program.parent().unwrap()), &core);
    core
}

/// What the kernel does with cores.
pub fn pattern() -> String {
    std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default().trim().to_owned()
}

/// Whether cores are left in the working directory by the kernel, and not asked
/// for from gdb.
pub fn kernel_writes() -> bool {
    let pattern = pattern();
    let asked = std::env::var_os("BACKTRAIL_CORES").is_some_and(|it| it == "gdb");
    !asked && !pattern.starts_with('|') && !pattern.contains('/')
}

/// Lets a program die; its core gets this name.
///
/// # Panics
///
/// If it does not die, or if nobody can write its core; then the settings that
/// matter are named.
#[track_caller]
pub fn core_of(dying: &Command, core: &Path) {
    if !kernel_writes() {
        return gcore_of(dying, core);
    }
    let script = "ulimit -c unlimited && exec \"$0\" \"$@\"";
    let output = as_words_of(Command::new("sh").args(["-c", script]), dying).output().unwrap();
    assert!(output.status.signal().is_some(), "{dying:?} did not die: {output:?}");
    let folder = dying.get_current_dir().unwrap_or(Path::new("."));
    let left: Vec<PathBuf> = std::fs::read_dir(folder)
        .unwrap()
        .flatten()
        .map(|it| it.path())
        .filter(|path| path.file_name().and_then(|it| it.to_str()).is_some_and(is_core))
        .collect();
    let [written] = &left[..] else {
        panic!(
            "{} cores are there after {dying:?}; kernel.core_pattern is {:?}, `ulimit -H -c` must \
             not be 0",
            left.len(),
            pattern()
        );
    };
    std::fs::rename(written, folder.join(core)).unwrap();
}

/// Whether the kernel gives cores such a name.
fn is_core(name: &str) -> bool {
    let number = name.strip_prefix("core.").unwrap_or_default();
    name == "core" || !number.is_empty() && number.bytes().all(|it| it.is_ascii_digit())
}

/// The core that gcore writes of a program that is about to die.
///
/// # Panics
///
/// If none is written; then the settings that matter are named.
#[track_caller]
pub fn gcore_of(dying: &Command, core: &Path) {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set startup-with-shell off"]);
    // Handlers of this one run; what dies in them dies there.
    gdb.args(["-ex", "handle SIGUSR1 nostop noprint pass", "-ex", "run", "-ex"]);
    gdb.arg(format!("generate-core-file {}", core.display())).arg("--args");
    let output = as_words_of(&mut gdb, dying).output();
    let output = output.unwrap_or_else(|error| panic!("gdb: {error}"));
    let folder = dying.get_current_dir().unwrap_or(Path::new("."));
    assert!(
        folder.join(core).is_file(),
        "gdb could not write a core of {dying:?}; it needs ptrace (kernel.yama.ptrace_scope, the \
         capability SYS_PTRACE, seccomp), because kernel.core_pattern is {:?}: {}",
        pattern(),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// `runner` with a command as its last words, in the same folder and environment.
fn as_words_of<'a>(runner: &'a mut Command, command: &Command) -> &'a mut Command {
    runner.arg(command.get_program()).args(command.get_args());
    if let Some(folder) = command.get_current_dir() {
        runner.current_dir(folder);
    }
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => runner.env(name, value),
            None => runner.env_remove(name),
        };
    }
    runner
}

#[test]
fn what_the_kernel_calls_cores() {
    assert!(is_core("core") && is_core("core.12"));
    assert!(!is_core("core.zst") && !is_core("core.") && !is_core("score") && !is_core("cores"));
}
