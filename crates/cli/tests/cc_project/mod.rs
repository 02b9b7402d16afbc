//! A small project that is built twice, by plain clang and by us, and compared.
//!
//! Both builds see their tree under the same path, because paths get into debug
//! information and messages: the trees take turns in one place. Compared are
//! the exit status, what was printed, which files there are, and what is in
//! them ([`elf`] says what that means for objects and programs). Three things
//! are allowed to differ, and nothing else:
//!
//! - names of temporary files in messages;
//! - lines that begin with `backtrail: warning:`, where a test expects them;
//! - in ELF files, our sections and the build id, which is a hash over the file.

#![allow(dead_code)] // Each test program uses its own part.

pub mod elf;

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The compilers that both builds are compared with.
pub const CLANG: [(&str, &str); 2] = [("CC", "clang-19"), ("CXX", "clang++-19")];

/// A project in a folder of its own, twice.
pub struct Project {
    folder: tempfile::TempDir,
    variables: Vec<(String, String)>,
}

/// Which of the two builds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Build {
    /// By clang alone.
    Plain,
    /// By us.
    Ours,
}

/// How a command ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ran {
    /// Its exit status; 128 and more for a signal.
    pub status: i32,
    /// What it wrote to standard output.
    pub stdout: Vec<u8>,
    /// What it wrote to standard error.
    pub stderr: String,
}

impl Ran {
    fn of(command: &mut Command) -> Self {
        use std::os::unix::process::ExitStatusExt as _;
        let output = command.output().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let signal = || 128 + output.status.signal().unwrap_or(0);
        Self {
            status: output.status.code().unwrap_or_else(signal),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
            stdout: output.stdout,
        }
    }

    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// Fails unless the command succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.status, 0, "{}{}", self.text(), self.stderr);
        self
    }
}

/// What both builds gave, found to be alike.
pub struct Both {
    /// How our command ended, without the warnings below.
    pub ours: Ran,
    /// Our own warnings.
    pub warnings: Vec<String>,
}

impl Both {
    /// Fails unless both succeeded, and we had no warning.
    #[track_caller]
    pub fn succeeded(&self) {
        assert_eq!(self.ours.status, 0, "{}", self.ours.stderr);
        assert_eq!(self.warnings, [""; 0]);
    }

    /// Fails unless both succeeded with these warnings of ours.
    #[track_caller]
    pub fn warned(&self, warnings: &[&str]) {
        assert_eq!(self.ours.status, 0, "{}", self.ours.stderr);
        assert_eq!(self.warnings, warnings);
    }
}

impl Project {
    /// A project of these files.
    pub fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::Builder::new().prefix("backtrail-project-").tempdir().unwrap();
        let project = Self { folder, variables: Vec::new() };
        fs::create_dir(project.path("temporary")).unwrap();
        for build in ["plain", "ours"] {
            fs::create_dir(project.path(build)).unwrap();
        }
        for (name, text) in files {
            project.write(name, text.as_bytes());
        }
        project
    }

    /// With an environment variable for all that is run.
    pub fn with(mut self, name: &str, value: &str) -> Self {
        self.variables.push((name.to_owned(), value.to_owned()));
        self
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// A file of our build.
    pub fn ours(&self, name: &str) -> PathBuf {
        self.path("ours").join(name)
    }

    /// A file of the plain build.
    pub fn plain(&self, name: &str) -> PathBuf {
        self.path("plain").join(name)
    }

    /// Writes a file into both trees.
    pub fn write(&self, name: &str, bytes: &[u8]) {
        for build in ["plain", "ours"] {
            let path = self.path(build).join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, bytes).unwrap();
        }
    }

    /// Copies a folder of fixtures into both trees.
    pub fn add_fixture(&self, name: &str) {
        let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/cc").join(name);
        for build in ["plain", "ours"] {
            let status =
                Command::new("cp").arg("-a").arg(from.join(".")).arg(self.path(build)).status();
            assert!(status.unwrap().success(), "copy {}", from.display());
        }
    }

    fn command(&self, build: Build, program: &str) -> Command {
        let own = Path::new(env!("CARGO_BIN_EXE_backtrail")).parent().unwrap();
        let path = std::env::var("PATH").unwrap_or_default();
        let mut command = Command::new(program);
        command
            .current_dir(self.path("work"))
            .stdin(Stdio::null())
            .env("PATH", format!("{}:{path}", own.display()))
            .env("TMPDIR", self.path("temporary"))
            .env("BACKTRAIL_CACHE", self.path("cache"))
            .env("XDG_STATE_HOME", self.path("state"))
            .env("BACKTRAIL_DIR", self.path("records"))
            .env_remove("BACKTRAIL_CLANG")
            .env_remove("TRUST")
            .env("LC_ALL", "C")
            .envs(self.variables.iter().map(|(name, value)| (name, value)));
        match build {
            Build::Plain => command.envs(CLANG),
            Build::Ours => command.env("CC", "backtrail-cc").env("CXX", "backtrail-cxx"),
        };
        command
    }

    /// Runs `sh -c SCRIPT` in one of the trees.
    pub fn run(&self, build: Build, script: &str) -> Ran {
        let tree = self.path(if build == Build::Plain { "plain" } else { "ours" });
        fs::rename(&tree, self.path("work")).unwrap();
        let ran = Ran::of(self.command(build, "sh").arg("-c").arg(script));
        fs::rename(self.path("work"), &tree).unwrap();
        ran
    }

    /// Runs `sh -c SCRIPT` in our tree.
    pub fn run_ours(&self, script: &str) -> Ran {
        self.run(Build::Ours, script)
    }

    /// Runs `sh -c SCRIPT` in both trees, with `$CC` and `$CXX` set, and fails
    /// unless it went alike: see the module.
    #[track_caller]
    pub fn both(&self, script: &str) -> Both {
        let both = self.both_spoke(script);
        self.same_files(script);
        both
    }

    /// As [`Project::both`], without looking at files.
    #[track_caller]
    pub fn both_spoke(&self, script: &str) -> Both {
        let plain = self.run(Build::Plain, script);
        let mut ours = self.run(Build::Ours, script);
        let (own, clangs): (Vec<String>, Vec<String>) = ours
            .stderr
            .split_inclusive('\n')
            .map(str::to_owned)
            .partition(|line| line.starts_with("backtrail: warning: "));
        ours.stderr = clangs.concat();
        assert_eq!(ours.status, plain.status, "status of {script}\n{}", ours.stderr);
        let stdout = |ran: &Ran| self.without_names(&ran.text());
        assert_eq!(stdout(&ours), stdout(&plain), "standard output of {script}");
        let stderr = |ran: &Ran| self.without_names(&ran.stderr);
        assert_eq!(stderr(&ours), stderr(&plain), "standard error of {script}");
        let left: Vec<_> = fs::read_dir(self.path("temporary")).unwrap().flatten().collect();
        assert!(left.is_empty(), "left behind by {script}: {left:?}");
        let warnings = own
            .iter()
            .map(|line| line.trim_end().trim_start_matches("backtrail: warning: ").to_owned())
            .collect();
        Both { ours, warnings }
    }

    /// Names of temporary files, made equal: `TMP/ours/NAME-1a2b3c.o` and
    /// `TMP/NAME-4d5e6f.o` are both `TMP/NAME.o`.
    fn without_names(&self, text: &str) -> String {
        let temporary = format!("{}/", self.path("temporary").display());
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, behind)) = rest.split_once(&temporary) {
            out.push_str(before);
            out.push_str("TMP/");
            let end = behind
                .find(|c: char| !(c.is_alphanumeric() || "-_./+".contains(c)))
                .unwrap_or(behind.len());
            let (path, behind) = behind.split_at(end);
            let name = path.rsplit('/').next().unwrap();
            let (stem, ending) = name.rsplit_once('.').unwrap_or((name, ""));
            let random = stem.rsplit_once('-').filter(|(_, random)| {
                random.len() == 6 && random.chars().all(|c| c.is_ascii_hexdigit())
            });
            out.push_str(random.map_or(stem, |(stem, _)| stem));
            out.push('.');
            out.push_str(ending);
            rest = behind;
        }
        out.push_str(rest);
        out
    }

    /// Fails unless both trees hold the same files.
    #[track_caller]
    pub fn same_files(&self, what: &str) {
        let [plain, ours] = ["plain", "ours"].map(|build| files(&self.path(build)));
        let names = |files: &BTreeMap<String, PathBuf>| files.keys().cloned().collect::<Vec<_>>();
        assert_eq!(names(&ours), names(&plain), "files after {what}");
        for (name, path) in &ours {
            let mode = |path: &Path| fs::symlink_metadata(path).unwrap().permissions().mode();
            assert_eq!(mode(path), mode(&plain[name]), "mode of {name} after {what}");
            elf::assert_same(path, &plain[name], &format!("{name} after {what}"));
        }
    }

    /// What `backtrail info --json` says about a file of our build.
    #[track_caller]
    pub fn info(&self, name: &str) -> serde_json::Value {
        let ran = self.run_ours(&format!("backtrail info --json '{name}'"));
        let ran = ran.succeeded();
        serde_json::from_slice(&ran.stdout)
            .unwrap_or_else(|error| panic!("{error}: {}", ran.text()))
    }

    /// The units of a file of our build, each with whether it is carried.
    #[track_caller]
    pub fn units(&self, name: &str) -> Vec<(String, String)> {
        let info = self.info(name);
        let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
        let units = info["units"].as_array().unwrap();
        units.iter().map(|unit| (text(&unit["name"]), text(&unit["carried"]))).collect()
    }

    /// Fails unless a file of our build carries exactly these units, whole.
    #[track_caller]
    pub fn carries(&self, name: &str, units: &[&str]) {
        let expected: Vec<_> =
            units.iter().map(|unit| (unit.to_string(), "yes".to_owned())).collect();
        assert_eq!(self.units(name), expected, "units of {name}");
    }

    /// Fails unless `program ARGUMENTS` behaves alike when it is built by plain
    /// clang, by us, and in both variants.
    #[track_caller]
    pub fn behaves(&self, program: &str, arguments: &str) {
        let plain = self.run(Build::Plain, &format!("./{program} {arguments}"));
        self.behaves_as(program, arguments, &plain);
    }

    /// Fails unless our `program ARGUMENTS` and its variants behave as `plain`.
    #[track_caller]
    pub fn behaves_as(&self, program: &str, arguments: &str, plain: &Ran) {
        let ours = self.run_ours(&format!("./{program} {arguments}"));
        assert_eq!(&ours, plain, "{program} {arguments}");
        for scheme in ["empty", "log"] {
            self.derive(program, scheme);
            let variant = format!("./{program}.{scheme} {arguments}");
            assert_eq!(&self.run_ours(&variant), plain, "{variant}");
            // Not a part of what is compared.
            let _ = fs::remove_file(self.ours(&format!("{program}.{scheme}")));
            let _ = fs::remove_dir_all(self.ours(&format!("{program}.{scheme}.libs")));
        }
    }

    /// Derives `PROGRAM.SCHEME` in our tree: `empty` as of a program that was built
    /// elsewhere, whose recipe is checked (but for `$TRUST`).
    #[track_caller]
    pub fn derive(&self, program: &str, scheme: &str) {
        let elsewhere = if scheme == "empty" { "XDG_STATE_HOME=/no/state " } else { "" };
        let script =
            format!("{elsewhere}backtrail --quiet instrument $TRUST --scheme {scheme} '{program}'");
        self.run_ours(&script).succeeded();
    }
}

/// The files below `folder`, by their names there.
fn files(folder: &Path) -> BTreeMap<String, PathBuf> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(&next).unwrap().flatten() {
            let path = entry.path();
            if path.is_dir() && !path.is_symlink() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().to_string_lossy().into_owned();
                found.insert(name, path);
            }
        }
    }
    found
}
