//! A place where the tool runs, and who is there.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

pub const BACKTRAIL: &str = env!("CARGO_BIN_EXE_backtrail");

/// To whom a signal is sent.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum To {
    Group,
    Backtrail,
}

pub struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-test-").tempdir().unwrap();
        let place = Self { folder };
        for name in ["temporary", "work", "cache"] {
            fs::create_dir(place.path(name)).unwrap();
        }
        place
    }

    /// With the program that waits.
    pub fn with_waits() -> Self {
        let place = Self::new();
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/waits.c");
        let words = ["cc", "-O1", "-g", "-o", "waits", source.to_str().unwrap()];
        assert!(place.command(BACKTRAIL).args(words).status().unwrap().success());
        place.begin();
        place
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(self.path("work"));
        command.env("TMPDIR", self.path("temporary")).env("BACKTRAIL_CACHE", self.path("cache"));
        command.env("BEGUN", self.path("begun"));
        command
    }

    /// Nobody has begun.
    pub fn begin(&self) {
        File::create(self.path("begun")).unwrap();
    }

    /// The tool in a session of its own.
    pub fn tool(&self, words: &[&str]) -> Command {
        let mut command = self.command("setsid");
        command.args(["env", "--default-signal=HUP,INT,QUIT,TERM", BACKTRAIL]).args(words);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn start(&self, words: &[&str]) -> Child {
        self.tool(words).spawn().unwrap()
    }

    /// Starts it on the program that waits, until so many of it wait.
    pub fn start_waits(&self, words: &[&str], mode: &str, runs: usize) -> Child {
        self.begin();
        let out = ["-o", "out", "./waits", "--", mode];
        let mut child = self.start(&[words, &out].concat());
        self.until_begun(&mut child, runs);
        child
    }

    pub fn until_begun(&self, child: &mut Child, runs: usize) {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        while fs::metadata(self.path("begun")).unwrap().len() < runs.min(cores) as u64 {
            if child.try_wait().unwrap().is_some() {
                let mut said = String::new();
                std::io::Read::read_to_string(child.stderr.as_mut().unwrap(), &mut said).unwrap();
                panic!("it ended: {said}");
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Waits for its end, and fails if anything is left.
    #[track_caller]
    pub fn finish(&self, child: Child, what: &str) -> Output {
        let session = child.id();
        let output = child.wait_with_output().unwrap();
        self.nothing_left(session, what);
        output
    }

    #[track_caller]
    pub fn nothing_left(&self, session: u32, what: &str) {
        nobody_left(session, what);
        assert_eq!(names(&self.path("temporary")), [""; 0], "{what}");
    }

    /// The document about the output, or its first line.
    pub fn document(&self, words: &[&str]) -> serde_json::Value {
        let verb = if words[0] == "profile" { "paths" } else { "show" };
        let output = self.command(BACKTRAIL).args([verb, "--json", "out"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout).unwrap();
        let first = if verb == "show" { text.lines().next().unwrap() } else { &text };
        serde_json::from_str(first).unwrap()
    }

    pub fn shown(&self, words: &[&str]) -> String {
        let verb = if words[0] == "profile" { "paths" } else { "show" };
        let output = self.command(BACKTRAIL).args([verb, "out"]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    }

    pub fn take_output(&self) -> bool {
        fs::remove_file(self.path("work").join("out")).is_ok()
    }
}

pub fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<String> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// Who lives in a session, but for its first process.
pub fn members(session: u32) -> Vec<String> {
    let mut found = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
        let Some((name, rest)) = stat.rsplit_once(") ") else { continue };
        // State, parent, group, session.
        let words: Vec<&str> = rest.split(' ').collect();
        if words[3] == session.to_string() && !["Z", "X"].contains(&words[0]) {
            found.push(name.to_owned());
        }
    }
    found
}

/// The kernel may take a moment to end whoever was killed.
#[track_caller]
pub fn nobody_left(session: u32, what: &str) {
    let begun = Instant::now();
    while !members(session).is_empty() {
        let left = members(session);
        assert!(begun.elapsed() < Duration::from_secs(60), "{what}: {left:?} run on");
        std::thread::sleep(Duration::from_millis(5));
    }
}

pub fn send(signal: &str, to: To, child: &Child) {
    let id = match to {
        To::Group => format!("-{}", child.id()),
        To::Backtrail => child.id().to_string(),
    };
    let status = Command::new("kill").args(["-s", signal, "--", &id]).status().unwrap();
    assert!(status.success());
}

pub fn number(signal: &str) -> i32 {
    ["HUP", "INT", "QUIT"].iter().position(|it| *it == signal).map_or(15, |at| at as i32 + 1)
}
