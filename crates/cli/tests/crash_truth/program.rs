//! A program in three variants: with records and coverage, stripped, and with
//! every block logged; and how it dies.

use std::cell::Cell;
use std::fs::{self, File};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use backtrail_testkit::cores;
use serde_json::Value;

use super::judge::{Judged, compare};

const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// A program in a folder of its own.
pub struct Program {
    folder: tempfile::TempDir,
    words: Vec<String>,
    input: Option<PathBuf>,
    /// Whether a debugger writes its cores.
    pub by_debugger: bool,
    /// How many cores were kept.
    kept: Cell<usize>,
}

/// What was found of a crash, and what is left of it.
pub struct Crashed {
    pub judged: Judged,
    /// What the autopsy said.
    pub told: Value,
    pub core: PathBuf,
}

impl Program {
    fn empty(run: &[&str]) -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-truth-").tempdir().unwrap();
        let words = run.iter().map(|it| it.to_string()).collect();
        Self { folder, words, input: None, by_debugger: false, kept: Cell::new(0) }
    }

    /// Compiles with these words, which name the output `program`.
    pub fn new(words: &[&str], run: &[&str]) -> Self {
        let program = Self::empty(run);
        program.backtrail(words);
        program
    }

    /// One that is there, and what it reads.
    pub fn existing(executable: &Path, run: &[&str], input: Option<&Path>) -> Self {
        let program = Self { input: input.map(Path::to_owned), ..Self::empty(run) };
        fs::copy(executable, program.path("program")).unwrap();
        program
    }

    /// Derives the variants.
    pub fn derive(&self, scheme: &str) {
        self.backtrail(&["instrument", "-q", "--scheme", scheme, "-o", "traced", "program"]);
        if !self.path("logged").exists() {
            self.backtrail(&["instrument", "-q", "--scheme", "log", "-o", "logged", "program"]);
        }
        let mut strip = self.command("strip");
        assert!(strip.args(["-o", "shaved", "traced"]).status().unwrap().success());
    }

    /// The executable of a variant. Their names are of one length, for where a debugger
    /// starts them by these.
    fn executable(&self, variant: &str) -> PathBuf {
        self.path(if variant == "stripped" { "shaved" } else { variant })
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn command(&self, program: impl AsRef<std::ffi::OsStr>) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.folder.path()).env("LC_ALL", "C");
        // Long runs keep what they derive.
        let kept = std::env::var_os("BACKTRAIL_VARIANTS").map(PathBuf::from);
        command.env("BACKTRAIL_CACHE", kept.unwrap_or_else(|| self.path("cache")));
        command.env("BACKTRAIL_DIR", self.path("records"));
        command.env("XDG_STATE_HOME", self.path("state"));
        command
    }

    #[track_caller]
    pub fn backtrail(&self, words: &[&str]) -> Output {
        let output = self.command(BACKTRAIL).args(words).output().unwrap();
        let message = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{words:?}: {message}");
        output
    }

    fn input(&self) -> Stdio {
        match &self.input {
            Some(path) => File::open(path).unwrap().into(),
            None => Stdio::null(),
        }
    }

    /// How many blocks it executes if nothing ends it; `None` if it takes too long.
    pub fn count(&self) -> Option<u64> {
        let file = self.path("count");
        let mut command = self.command("timeout");
        command.arg("20").args(BY_ONE_NAME).arg(self.path("program")).args(&self.words);
        command.env("COUNT_TO", &file);
        command.stdin(self.input()).output().unwrap();
        fs::read_to_string(file).ok()?.parse().ok()
    }

    /// Lets a variant die; `stop` is the block at which it is ended. What it wrote,
    /// if it died.
    fn die(&self, variant: &str, words: &[&str], stop: u64, core: &str) -> Option<Output> {
        let mut shell = self.command("sh");
        let script = format!("ulimit -c {core} && ulimit -s 512 && exec timeout 60 \"$@\"");
        shell.args(["-c", &script, "sh"]).args(BY_ONE_NAME).arg(self.executable(variant));
        shell.args(&self.words).args(words);
        shell.env("STOP_AT", stop.to_string()).stdin(self.input());
        let output = shell.output().unwrap();
        let died = output.status.signal().is_some() || output.status.code() > Some(128);
        died.then_some(output)
    }

    /// Lets a variant die, and gives its core: the kernel's, if that leaves it here,
    /// else gdb's.
    fn core(&self, variant: &str, words: &[&str], stop: u64) -> Option<PathBuf> {
        if self.by_debugger || !cores::kernel_writes() {
            let core = self.core_by(&["gdb"], variant, words, stop);
            return core.unwrap_or_else(|why| {
                panic!("{why}; kernel.core_pattern is {:?}", cores::pattern())
            });
        }
        self.die(variant, words, stop, "unlimited")?;
        Some(self.take_core())
    }

    /// The same by a debugger, in the way of gcore; none if the program does not die.
    pub fn core_by(
        &self,
        debugger: &[&str],
        variant: &str,
        words: &[&str],
        stop: u64,
    ) -> Result<Option<PathBuf>, String> {
        let kept = self.next_core();
        let mut gdb = self.command("sh");
        gdb.args(["-c", "ulimit -s 512 && exec \"$@\"", "sh"])
            .args(debugger)
            .args(["-nx", "-batch"]);
        gdb.args(["-ex", "set startup-with-shell off"]);
        gdb.args(["-ex", "handle SIGUSR1 nostop noprint pass", "-ex", "run"]);
        gdb.arg("-ex").arg(format!("generate-core-file {}", kept.display()));
        gdb.arg("--args").arg(self.executable(variant)).args(&self.words).args(words);
        gdb.env("STOP_AT", stop.to_string()).stdin(self.input());
        let output = gdb.output().map_err(|error| format!("sh: {error}"))?;
        let said = String::from_utf8_lossy(&output.stderr);
        let printed = String::from_utf8_lossy(&output.stdout);
        if printed.contains("exited normally") || printed.contains("exited with code") {
            return Ok(None);
        }
        match kept.is_file() {
            true => Ok(Some(kept)),
            false => Err(format!(
                "gdb could not write a core; it needs ptrace (kernel.yama.ptrace_scope, the \
                 capability SYS_PTRACE, seccomp): {}",
                said.trim()
            )),
        }
    }

    /// Where the next core is kept.
    fn next_core(&self) -> PathBuf {
        self.kept.set(self.kept.get() + 1);
        self.path(&format!("kept-{}", self.kept.get()))
    }

    /// The core that the kernel left, under another name.
    fn take_core(&self) -> PathBuf {
        let kept = self.next_core();
        let is_core = |path: &PathBuf| {
            path.file_name().is_some_and(|it| it.to_string_lossy().starts_with("core"))
        };
        let files = fs::read_dir(self.folder.path()).unwrap().flatten();
        let cores: Vec<PathBuf> = files.map(|it| it.path()).filter(is_core).collect();
        let [core] = &cores[..] else {
            panic!(
                "the kernel left no core here; kernel.core_pattern must be a name without a folder \
                 or a pipe, and `ulimit -H -c` must not be 0"
            );
        };
        fs::rename(core, &kept).unwrap();
        kept
    }

    /// Runs a variant to its end.
    pub fn run(&self, variant: &str) {
        let mut command = self.command(self.path(variant));
        let output = command.args(&self.words).stdin(self.input()).output().unwrap();
        assert!(output.status.success(), "{variant}: {output:?}");
    }

    /// Lets a variant die after some time, and gives its core; none if it was over
    /// before.
    pub fn die_after(&self, variant: &str, after: Duration) -> Option<PathBuf> {
        let later = self.path("later.so");
        if !later.exists() {
            let mut clang = self.command("clang-19");
            clang.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&later).arg(fixture("later.c"));
            assert!(clang.status().unwrap().success());
        }
        let mut shell = self.command("sh");
        // The shell and what it starts are not to be ended.
        let script = "ulimit -c unlimited && LD_PRELOAD=./later.so exec \"$0\" \"$@\"";
        shell.args(["-c", script]).arg(self.path(variant)).args(&self.words);
        shell.env("DIE_AFTER", after.as_micros().to_string()).stdin(self.input());
        let died = shell.output().unwrap().status.signal().is_some();
        died.then(|| self.take_core())
    }

    /// Lets both variants die in the same way, and compares.
    pub fn judge(&self, variant: &str, words: &[&str], stop: u64) -> Option<Crashed> {
        let _ = fs::remove_dir_all(self.path("records"));
        self.die("logged", words, stop, "0")?;
        let core = self.core(variant, words, stop)?;
        let told = self.backtrail(&["autopsy", "--json", "--blocks", core.to_str().unwrap()]);
        let told: Value = serde_json::from_slice(&told.stdout).unwrap();
        let shown = self.backtrail(&["show", "--json", "records"]).stdout;
        let judged = compare(&told, &String::from_utf8(shown).unwrap());
        Some(Crashed { judged, told, core })
    }
}

/// Starts a program by one name whatever its file is called: a program may look at its
/// own name, and go another way by a letter of it (Lua has it in a table of strings).
const BY_ONE_NAME: [&str; 3] = ["bash", "-c", "exec -a program \"$0\" \"$@\""];

/// A file among the fixtures.
pub fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/crash_truth/fixtures");
    folder.join(name).to_str().unwrap().to_owned()
}
