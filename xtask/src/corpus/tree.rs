//! One build of a program, in a folder of its own.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

use super::fetch::{self, Archive};
use super::program::{Program, Source};
use crate::{command, workspace};

/// The longest a build or a suite may take.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What compiles.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Compiler {
    /// clang alone: the reference.
    Plain,
    /// clang alone, told to keep line tables: shows what these change by
    /// themselves.
    PlainWithLines,
    /// `backtrail cc`, `backtrail c++`, `backtrail cargo`.
    Carrying,
}

impl Compiler {
    /// The name of its folder.
    pub fn folder(self) -> &'static str {
        match self {
            Compiler::Plain => "plain",
            Compiler::PlainWithLines => "lines",
            Compiler::Carrying => "carried",
        }
    }

    fn environment(self) -> [(&'static str, &'static str); 3] {
        match self {
            Compiler::Plain => {
                [("CC", "clang-19"), ("CXX", "clang++-19"), ("CARGO_COMMAND", "cargo")]
            }
            Compiler::PlainWithLines => [
                ("CC", "clang-19 -gline-tables-only"),
                ("CXX", "clang++-19 -gline-tables-only"),
                ("CARGO_COMMAND", "cargo"),
            ],
            Compiler::Carrying => [
                ("CC", "backtrail cc"),
                ("CXX", "backtrail c++"),
                ("CARGO_COMMAND", "backtrail cargo"),
            ],
        }
    }
}

/// Where corpus programs are kept and built.
pub struct Workshop {
    /// Everything is below this.
    pub folder: PathBuf,
    /// The folder with the built tool.
    pub tool: PathBuf,
    /// How many processes a build may run.
    pub jobs: usize,
    /// What the names of build folders begin with: builds for another purpose
    /// do not disturb each other.
    pub prefix: &'static str,
}

impl Workshop {
    /// In the target folder, with this tool.
    pub fn new(tool: PathBuf, jobs: usize, prefix: &'static str) -> Result<Workshop> {
        let folder = workspace::target()?.join("corpus");
        std::fs::create_dir_all(folder.join("temporary"))?;
        Ok(Workshop { folder, tool, jobs, prefix })
    }

    /// The folder of a program.
    pub fn of(&self, program: &Program) -> PathBuf {
        self.folder.join(program.name)
    }

    /// The tool, with a cache of its own.
    pub fn backtrail(&self) -> Command {
        let mut backtrail = Command::new(self.tool.join("backtrail"));
        backtrail.env("BACKTRAIL_CACHE", self.cache());
        backtrail
    }

    /// Where variants are cached.
    pub fn cache(&self) -> PathBuf {
        self.folder.join("cache")
    }

    /// What changes when the tool does: a hash of its executable, so that one
    /// linked again from the same sources is the same tool.
    pub fn tool_stamp(&self) -> Result<String> {
        let path = self.tool.join("backtrail");
        let content = std::fs::read(&path).with_context(|| path.display().to_string())?;
        Ok(blake3::hash(&content).to_string())
    }

    /// Fetches the source, if it is not there, and returns its version.
    pub fn fetch(&self, program: &Program) -> Result<String> {
        let version = self.of(program).join("version");
        if let Ok(version) = std::fs::read_to_string(&version) {
            return Ok(version);
        }
        let source = self.of(program).join("source");
        if source.exists() {
            std::fs::remove_dir_all(&source)?;
        }
        std::fs::create_dir_all(self.of(program))?;
        let found = match program.source {
            Source::Debian(package) => {
                Archive::new(&self.folder.join("apt"))?.unpack(package, &source)?
            }
            Source::Registry { name, version } => {
                fetch::unpack_crate(&self.of(program).join("fetch"), name, version, &source)?;
                version.to_owned()
            }
        };
        std::fs::write(version, &found)?;
        Ok(found)
    }

    /// Builds a program, unless that has been done with the same recipe and tool.
    ///
    /// All builds are made in one place, because code can depend on where its
    /// source is (`__FILE__`, whose length is a constant): only the build with
    /// Backtrail stays there, of the others the executables are kept.
    pub fn build(&self, program: &Program, compiler: Compiler) -> Result<Built> {
        self.fetch(program)?;
        let name = format!("{}{}", self.prefix, compiler.folder());
        let tree = self.of(program).join(format!("{}tree", self.prefix));
        let stays = compiler == Compiler::Carrying;
        let folder = if stays { tree.clone() } else { self.of(program).join(&name) };
        let stamp_file = self.of(program).join(format!("{name}.stamp"));
        let mut stamp = format!("{}\n{:?}", program.build, program.replaced);
        if stays {
            stamp.push_str(&self.tool_stamp()?);
        }
        let aside = tree.with_extension("aside");
        if aside.exists() {
            replace(&aside, &tree)?;
        }
        if std::fs::read_to_string(&stamp_file).is_ok_and(|made| made == stamp) && folder.exists() {
            return Ok(Built { folder, fresh: false });
        }
        let _ = std::fs::remove_file(&stamp_file);
        if stays {
            self.build_in(program, compiler, &tree, &name)?;
        } else {
            if tree.exists() {
                replace(&tree, &aside)?;
            }
            let built = self.build_in(program, compiler, &tree, &name);
            let kept = built.and_then(|()| keep_executables(program, &tree, &folder));
            if aside.exists() {
                replace(&aside, &tree)?;
            } else if tree.exists() {
                std::fs::remove_dir_all(&tree)?;
            }
            kept?;
        }
        std::fs::write(stamp_file, stamp)?;
        Ok(Built { folder, fresh: true })
    }

    fn build_in(
        &self,
        program: &Program,
        compiler: Compiler,
        tree: &Path,
        name: &str,
    ) -> Result<()> {
        if tree.exists() {
            std::fs::remove_dir_all(tree)?;
        }
        let source = self.of(program).join("source");
        command::output(Command::new("cp").arg("-a").arg(&source).arg(tree))?;
        let log = self.of(program).join(format!("{name}.build.log"));
        let ran = self.script(program, compiler, tree, program.build, &log, &[])?;
        ensure!(
            ran.success,
            "{} does not build with {} (see {}): {}",
            program.name,
            compiler.environment()[0].1,
            workspace::shown(&log),
            command::tail(&ran.output, 12)
        );
        Ok(())
    }

    /// Runs a shell script in a program's folder; what it prints goes to `log`.
    pub fn script(
        &self,
        program: &Program,
        compiler: Compiler,
        folder: &Path,
        script: &str,
        log: &Path,
        variables: &[(&str, &Path)],
    ) -> Result<Ran> {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let path = std::env::join_paths(
            std::iter::once(self.tool.clone()).chain(std::env::split_paths(&path)),
        )?;
        let output = std::fs::File::create(log)
            .with_context(|| format!("cannot write {}", log.display()))?;
        let start = Instant::now();
        let mut shell = Command::new("timeout");
        shell.arg(PATIENCE.as_secs().to_string()).args(["sh", "-eu", "-c", script]);
        shell.current_dir(folder).env("PATH", path).envs(compiler.environment());
        for variable in ["CARGO", "CARGO_TARGET_DIR", "MAKEFLAGS", "LANG", "LANGUAGE", "RUSTFLAGS"]
        {
            shell.env_remove(variable);
        }
        shell
            .env("CFLAGS", "-O2")
            .env("CXXFLAGS", "-O2")
            .env("JOBS", self.jobs.to_string())
            .env("AUTOTOOLS", "ACLOCAL=: AUTOMAKE=: AUTOCONF=: AUTOHEADER=: MAKEINFO=:")
            .env("FORCE_UNSAFE_CONFIGURE", "1")
            .env("LC_ALL", "C")
            .env("TZ", "UTC")
            .env("BACKTRAIL_CACHE", self.cache())
            .env("TMPDIR", self.folder.join("temporary"))
            .env("WORKLOAD", workspace::root().join("xtask/corpus").join(program.name))
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone()?)
            .stderr(output);
        let status = shell.status().context("cannot start a shell")?;
        let output = String::from_utf8_lossy(&std::fs::read(log)?).into_owned();
        Ok(Ran { success: status.success(), output, took: start.elapsed() })
    }
}

/// Moves a folder to where another may be.
fn replace(from: &Path, to: &Path) -> Result<()> {
    if to.exists() {
        std::fs::remove_dir_all(to)?;
    }
    std::fs::rename(from, to).with_context(|| format!("cannot move {}", from.display()))
}

/// Copies the executables and libraries of a build, under their names in it.
fn keep_executables(program: &Program, tree: &Path, folder: &Path) -> Result<()> {
    for name in program.replaced.iter().chain(program.libraries) {
        let to = folder.join(name);
        if let Some(parent) = to.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::copy(tree.join(name), &to)
            .with_context(|| format!("the build of {} made no {name}", program.name))?;
    }
    Ok(())
}

/// A program that is built.
pub struct Built {
    /// Where.
    pub folder: PathBuf,
    /// Whether that was done just now.
    pub fresh: bool,
}

/// A script that ran.
pub struct Ran {
    /// Whether it ended with success.
    pub success: bool,
    /// What it printed, on both streams.
    pub output: String,
    /// How long it took.
    pub took: Duration,
}
