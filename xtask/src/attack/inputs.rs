//! One valid input of each kind, made by the tool from a small C program.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use super::{Place, programs};
use crate::command;

/// Arguments with which the program has a child and a thread.
const MANY: [&str; 2] = ["abcdez", "many"];

/// What is derived from the program: name and scheme.
const VARIANTS: [(&str, &[&str]); 6] = [
    ("p.log", &["--scheme", "log"]),
    ("p.profile", &["--scheme", "profile"]),
    ("p.full", &["--scheme", "full"]),
    ("p.pt", &["--scheme", "pt"]),
    ("p.tune", &["--scheme", "realistic", "--tunable", "*"]),
    ("q.log", &["--scheme", "log"]),
];

/// What else is collected, by verb and options: a profile, and traces from probes, from
/// a log, and from breakpoints.
const COLLECTED: [(&str, &[&str]); 5] = [
    ("p.btprof", &["profile", "-o", "p.btprof", "./p"]),
    ("other.btprof", &["profile", "-o", "other.btprof", "./p", "--", "bbbdcc"]),
    ("probes.bttrace", &["trace", "-o", "probes.bttrace", "./p", "--", MANY[0], MANY[1]]),
    ("log.bttrace", &["trace", "--strategy", "log", "-o", "log.bttrace", "./p"]),
    (
        "breakpoints.bttrace",
        &["trace", "--witness", "breakpoint", "-o", "breakpoints.bttrace", "./p"],
    ),
];

/// Where valid inputs are.
pub struct Inputs {
    /// The folder.
    pub folder: PathBuf,
}

impl Inputs {
    /// Makes them all.
    pub fn make(place: &Place) -> Result<Self> {
        let folder = place.folder.join("inputs");
        if folder.exists() {
            std::fs::remove_dir_all(&folder)?;
        }
        std::fs::create_dir_all(folder.join("detached"))?;
        let inputs = Self { folder };
        programs::write(&inputs.folder)?;
        inputs.compile(place)?;
        for (name, options) in VARIANTS {
            let program = name.split('.').next().unwrap_or(name);
            let words = [&["instrument", "--quiet"], options, &["-o", name, program]].concat();
            inputs.run(place, &words)?;
        }
        for (name, words) in COLLECTED {
            // The program's own status is the status of these.
            command::capture(&mut inputs.command(place, words))?;
            ensure!(inputs.folder.join(name).is_file(), "the tool made no {name}");
        }
        inputs.record("p.log", "records.log")?;
        inputs.record("p.profile", "records.profile")?;
        inputs.detach(place)?;
        for variant in ["p", "p.pt", "p.full"] {
            inputs.dump(variant)?;
        }
        inputs.list(place)?;
        Ok(inputs)
    }

    /// A command of the tool, in the folder.
    fn command(&self, place: &Place, words: &[&str]) -> Command {
        let mut tool = place.tool(&place.folder.join("cache"));
        tool.args(words).current_dir(&self.folder);
        tool
    }

    fn run(&self, place: &Place, words: &[&str]) -> Result<String> {
        command::output(&mut self.command(place, words))
    }

    fn compile(&self, place: &Place) -> Result<()> {
        let common = ["cc", "-O1", "-g", "-pthread"];
        for words in [
            &["-c", "-o", "p.o", "input.c"][..],
            &["-o", "p", "p.o"],
            &["-shared", "-fPIC", "-o", "libq.so", "library.c"],
            &["-DWITH_LIBRARY", "-o", "q", "input.c", "-L.", "-lq", "-Wl,-rpath,$ORIGIN"],
        ] {
            self.run(place, &[&common[..], words].concat())?;
        }
        Ok(())
    }

    /// Runs a variant, which records into a folder.
    fn record(&self, variant: &str, records: &str) -> Result<()> {
        let mut program = Command::new(self.folder.join(variant));
        program.args(MANY).env("BACKTRAIL_DIR", self.folder.join(records));
        command::capture(program.current_dir(&self.folder))?;
        let count = std::fs::read_dir(self.folder.join(records)).map_or(0, Iterator::count);
        ensure!(count == 2, "{variant} left {count} records, not its own and its child's");
        Ok(())
    }

    /// A program beside its side file, in a folder; and both by themselves.
    fn detach(&self, place: &Place) -> Result<()> {
        std::fs::copy(self.folder.join("p"), self.folder.join("detached/p"))?;
        self.run(place, &["detach", "detached/p"])?;
        let is_side = |it: &&PathBuf| it.extension().is_some_and(|it| it == "backtrail");
        let all = files(&self.folder.join("detached"))?;
        let side = all.iter().find(is_side).context("detach left no side file")?;
        std::fs::copy(side, self.folder.join("p.side"))?;
        std::fs::copy(self.folder.join("detached/p"), self.folder.join("bare"))?;
        Ok(())
    }

    /// The core that gdb writes when a variant dies.
    fn dump(&self, variant: &str) -> Result<()> {
        let core = self.folder.join(format!("core.{variant}"));
        let mut gdb = Command::new("gdb");
        gdb.args(["-nx", "-batch", "-ex", "set startup-with-shell off", "-ex", "run", "-ex"]);
        gdb.arg(format!("generate-core-file {}", core.display()));
        gdb.arg("--args").arg(self.folder.join(variant)).arg("abcdx");
        let output = command::capture(gdb.current_dir(&self.folder))?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(core.is_file(), "gdb wrote no core of {variant}: {said}");
        Ok(())
    }

    /// Lists of functions for `--pt-list`, as text and as an autopsy writes them.
    fn list(&self, place: &Place) -> Result<()> {
        let told = self.run(place, &["autopsy", "--json", "core.p.full"])?;
        std::fs::write(self.folder.join("list.json"), told)?;
        std::fs::write(self.folder.join("list.txt"), "main\nparse\ncollatz\n")?;
        Ok(())
    }

    /// A hash of every file, by name.
    pub fn hashes(&self) -> Result<Vec<(PathBuf, String)>> {
        let mut found = Vec::new();
        for file in files(&self.folder)? {
            let bytes = std::fs::read(&file).with_context(|| file.display().to_string())?;
            found.push((file, blake3::hash(&bytes).to_string()));
        }
        Ok(found)
    }
}

/// All files below a folder, in order.
pub fn files(folder: &Path) -> Result<Vec<PathBuf>> {
    let (mut found, mut folders) = (Vec::new(), vec![folder.to_path_buf()]);
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).with_context(|| folder.display().to_string())? {
            let entry = entry?;
            match entry.file_type()?.is_dir() {
                true => folders.push(entry.path()),
                false => found.push(entry.path()),
            }
        }
    }
    found.sort();
    Ok(found)
}
