//! Programs that are compiled, die, and leave a core.
//!
//! The kernel writes the core where it writes cores into the working directory;
//! where it hands them to another program (`core_pattern` begins with a pipe)
//! or puts them elsewhere, gdb runs the program and writes what gcore writes.

use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A source of this test.
pub fn fixture(name: &str) -> PathBuf {
    // Tests of the command line use these, too.
    let machine = Path::new(env!("CARGO_MANIFEST_DIR")).join("../machine");
    machine.join("tests/cores/fixtures").join(name)
}

/// Runs a tool that has to be there and has to succeed.
pub fn run(command: &mut Command) -> String {
    let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{command:?}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Compiles a source, named relative to its folder as builds do.
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

/// What the kernel does with cores.
fn pattern() -> String {
    std::fs::read_to_string("/proc/sys/kernel/core_pattern").unwrap_or_default().trim().to_owned()
}

/// Whether the kernel writes cores into the working directory.
fn kernel_writes() -> bool {
    let pattern = pattern();
    !pattern.starts_with('|') && !pattern.contains('/')
}

/// Lets a program die; its core is `NAME.core` beside it.
pub fn core_of(program: &Path, words: &[&str], name: &str) -> PathBuf {
    let core = program.with_file_name(format!("{name}.core"));
    if !kernel_writes() {
        gcore_of(program, words, &core);
        return core;
    }
    let folder = tempfile::tempdir_in(program.parent().unwrap()).unwrap();
    let mut shell = Command::new("sh");
    shell.args(["-c", "ulimit -c unlimited && exec \"$0\" \"$@\""]).arg(program).args(words);
    let output = shell.current_dir(folder.path()).output().unwrap();
    assert!(output.status.signal().is_some(), "{program:?} {words:?} did not die: {output:?}");
    let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
    let [Ok(written)] = &left[..] else {
        panic!(
            "the kernel left {} files for {words:?}; kernel.core_pattern is {:?}, `ulimit -H -c` \
             must not be 0",
            left.len(),
            pattern()
        );
    };
    std::fs::rename(written.path(), &core).unwrap();
    core
}

/// The core that gcore writes of a program that is about to die.
pub fn gcore_of(program: &Path, words: &[&str], core: &Path) {
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "run", "-ex"]);
    gdb.arg(format!("generate-core-file {}", core.display())).arg("--args").arg(program);
    let output = gdb.args(words).output().unwrap_or_else(|error| panic!("gdb: {error}"));
    assert!(
        core.is_file(),
        "gdb could not write a core of {program:?}; it needs ptrace (kernel.yama.ptrace_scope, the \
         capability SYS_PTRACE, seccomp), because kernel.core_pattern is {:?}: {}",
        pattern(),
        String::from_utf8_lossy(&output.stderr)
    );
}
