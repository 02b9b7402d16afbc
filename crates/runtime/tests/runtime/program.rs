//! Compiling, running and reading the records of a test program.

use std::collections::BTreeMap;
use std::collections::hash_map::DefaultHasher;
use std::ffi::OsStr;
use std::fs;
use std::hash::{Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

use backtrail_collect::records::Records;
use backtrail_trace::block_log::{Events, Gap, Process, Summary, ThreadLog as LogBytes};
use tempfile::TempDir;

/// The runtime as it is linked into variants that log.
pub fn runtime_object() -> &'static Path {
    object("backtrail_runtime.o")
}

/// The runtime as it is linked into variants that count.
pub fn counts_object() -> &'static Path {
    object("backtrail_counts.o")
}

/// The runtime that the program or library of this name is linked with.
pub fn runtime_for(name: &str) -> &'static Path {
    if name.starts_with("count_") { counts_object() } else { runtime_object() }
}

/// An object of the runtime, compiled once for each content of its sources,
/// whoever runs the tests in however many processes.
fn object(name: &str) -> &'static Path {
    static FOLDER: OnceLock<PathBuf> = OnceLock::new();
    let folder = FOLDER.get_or_init(|| {
        let runtime = Path::new(env!("CARGO_MANIFEST_DIR"));
        let crates = runtime.parent().unwrap();
        let mut hasher = DefaultHasher::new();
        fs::read(runtime.join("recipe.rs")).unwrap().hash(&mut hasher);
        for folder in [runtime.join("src"), crates.join("abi/src")] {
            let mut paths: Vec<_> =
                fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
            paths.sort();
            paths.iter().for_each(|path| fs::read(path).unwrap().hash(&mut hasher));
        }
        let tmp = Path::new(env!("CARGO_TARGET_TMPDIR"));
        let objects = tmp.join(format!("runtime-{:016x}", hasher.finish()));
        if !objects.exists() {
            let folder = TempDir::new_in(tmp).unwrap();
            let rustc = std::env::var_os("RUSTC").unwrap_or("rustc".into());
            crate::compile_runtime(&rustc, crates, folder.path());
            // Another process may have been faster.
            if fs::rename(folder.path(), &objects).is_ok() {
                let _ = folder.keep();
            }
        }
        objects
    });
    Box::leak(folder.join(name).into_boxed_path())
}

/// The path of a file in `programs/`.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/programs").join(name)
}

/// Runs a compiler, which must succeed.
pub fn compile<S: AsRef<OsStr>>(compiler: &str, arguments: impl IntoIterator<Item = S>) {
    let mut command = Command::new(compiler);
    command.args(arguments);
    let output = command.output().unwrap_or_else(|error| panic!("no {compiler}: {error}"));
    assert!(output.status.success(), "{command:?}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// A compiled program and the folder it runs in.
pub struct Program {
    pub folder: TempDir,
    pub executable: PathBuf,
}

impl Program {
    /// Compiles `programs/NAME.c` with the runtime, by clang with -O2.
    pub fn new(name: &str) -> Self {
        Self::with(name, "clang-19", &["-O2"])
    }

    /// Compiles it some other way.
    pub fn with(name: &str, compiler: &str, options: &[&str]) -> Self {
        let mut options = options.to_vec();
        options.push(runtime_for(name).to_str().unwrap());
        Self::without_runtime(name, compiler, &options)
    }

    /// Compiles it without the runtime.
    pub fn without_runtime(name: &str, compiler: &str, options: &[&str]) -> Self {
        let folder = TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        let executable = folder.path().join(name);
        let source = source(&format!("{name}.c"));
        let output = [OsStr::new("-pthread"), OsStr::new("-o"), executable.as_os_str()];
        let options = options.iter().map(OsStr::new);
        compile(compiler, std::iter::once(source.as_os_str()).chain(options).chain(output));
        Self { folder, executable }
    }

    /// The same where any user may go, which the checkout need not be.
    pub fn where_all_may_go(mut self) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let executable = folder.path().join(self.executable.file_name().unwrap());
        fs::copy(&self.executable, &executable).unwrap();
        (self.folder, self.executable) = (folder, executable);
        self
    }

    /// The folder for records.
    pub fn records(&self) -> PathBuf {
        self.folder.path().join("records")
    }

    /// The folder the programs write what is true to.
    pub fn truth(&self) -> PathBuf {
        let truth = self.folder.path().join("truth");
        fs::create_dir_all(&truth).unwrap();
        truth
    }

    /// Removes what earlier runs recorded and told.
    pub fn clear(&self) {
        for folder in [self.records(), self.truth()] {
            if folder.exists() {
                fs::remove_dir_all(folder).unwrap();
            }
        }
    }

    /// The program, ready to be started in its folder.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.executable);
        command
            .current_dir(self.folder.path())
            .env("BACKTRAIL_DIR", self.records())
            .env("TRUTH", self.truth());
        command
    }

    /// Runs it with arguments; it must end with `status`.
    pub fn run(&self, arguments: &[&str], status: i32) -> Output {
        let output = self.command().args(arguments).output().unwrap();
        check_status(&output, status);
        output
    }

    /// Reads what it recorded.
    pub fn logs(&self) -> Vec<ProcessLog> {
        read_logs(&self.records())
    }

    /// What the program says is true, by process and thread.
    pub fn told(&self) -> BTreeMap<(u32, u32), Vec<u32>> {
        fs::read_dir(self.truth())
            .unwrap()
            .map(|entry| {
                let path = entry.unwrap().path();
                let (pid, tid) =
                    path.file_name().unwrap().to_str().unwrap().split_once('-').unwrap();
                let bytes = fs::read(&path).unwrap();
                let (words, rest) = bytes.as_chunks::<4>();
                assert!(rest.is_empty());
                let events = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
                ((pid.parse().unwrap(), tid.parse().unwrap()), events)
            })
            .collect()
    }

    /// Checks that the records are exactly what the program says, and gives
    /// them.
    pub fn check(&self) -> Vec<ProcessLog> {
        let logs = self.logs();
        let mut recorded = BTreeMap::new();
        for process in &logs {
            assert_eq!(process.process.incomplete, None);
            for thread in &process.threads {
                assert_eq!(thread.summary.lost, 0, "process {} lost events", process.process.pid);
                assert!(!thread.summary.truncated);
                let place = (process.process.pid, thread.tid);
                assert_eq!(recorded.insert(place, thread.events.clone()), None);
            }
        }
        let told = self.told();
        assert!(!told.is_empty(), "the program told nothing");
        assert_eq!(
            recorded.keys().collect::<Vec<_>>(),
            told.keys().collect::<Vec<_>>(),
            "threads recorded, threads told"
        );
        for (place, events) in told {
            assert_same(&recorded[&place], &events);
        }
        logs
    }
}

/// Fails with what the program printed.
pub fn check_status(output: &Output, status: i32) {
    assert_eq!(
        output.status.code(),
        Some(status),
        "{}: {}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
}

/// Compares two lists without printing all of them.
pub fn assert_same(recorded: &[u32], told: &[u32]) {
    let common = recorded.iter().zip(told).take_while(|(left, right)| left == right).count();
    assert!(
        recorded == told,
        "{} recorded, {} told, the same up to {common}: {:x?} instead of {:x?}",
        recorded.len(),
        told.len(),
        recorded.get(common),
        told.get(common)
    );
}

/// One process's record, decoded.
pub struct ProcessLog {
    pub process: Process,
    pub threads: Vec<ThreadLog>,
}

/// One thread's record: events as the programs keep them, the first byte of the
/// unit's id above the block.
pub struct ThreadLog {
    pub tid: u32,
    pub events: Vec<u32>,
    pub summary: Summary,
}

impl ProcessLog {
    /// The events of the only thread.
    pub fn only_thread(&self) -> &ThreadLog {
        assert_eq!(self.threads.len(), 1);
        &self.threads[0]
    }

    /// Why it is incomplete, which it must be.
    pub fn gap(&self) -> Gap {
        self.process.incomplete.expect("the record says it is incomplete")
    }
}

/// Decodes all records of a folder, which must hold nothing else.
pub fn read_logs(folder: &Path) -> Vec<ProcessLog> {
    let records = Records::read(folder).unwrap();
    assert_eq!(records.foreign, []);
    let logs = records.processes.iter().map(|record| {
        let process = Process::read(&fs::read(record.process_file()).unwrap()).unwrap();
        assert_eq!(process.pid, record.pid);
        let threads = record.threads.iter().map(|thread| {
            let file = LogBytes::open(&thread.path).unwrap();
            let mut reader = Events::new(&process, file).unwrap();
            let header = reader.tid().zip(reader.ordinal());
            assert!(header.is_none_or(|header| header == (thread.tid, thread.ordinal)));
            let events = (&mut reader)
                .map(|event| event.unwrap())
                .map(|event| u32::from(event.unit.0[0]) << 24 | event.block)
                .collect();
            ThreadLog { tid: thread.tid, events, summary: reader.summary() }
        });
        let threads = threads.collect();
        ProcessLog { process, threads }
    });
    logs.collect()
}
