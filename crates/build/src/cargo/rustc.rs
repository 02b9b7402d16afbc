//! The wrapper around rustc: compiles one crate and keeps its bitcode.
//!
//! rustc writes into a folder of its own inside the output folder. Its messages
//! pass through us: when it says that an artifact is there (cargo starts
//! dependent crates as soon as the metadata is), the artifact gets a second
//! name where cargo expects it before cargo hears of it. When rustc is done,
//! libraries get the records of their units, and the other results their place.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::{self, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use backtrail_interruption::{Leftover, bind};

use super::rustc_args::RustcArgs;
use super::units::{Compilation, ORIGIN_VARIABLE};
use super::{TARGET_VARIABLE, WRAPPER_VARIABLE, become_program, library, names, not_started};
use crate::{Error, compile};

/// Command lines longer than this go into a file of arguments.
const LONG_COMMAND: usize = 100_000;

/// Carries out `words`: rustc, perhaps behind a wrapper, and its arguments.
pub fn run(mut words: Vec<OsString>, with_std: bool) -> Result<i32, Error> {
    if let Some(wrapper) = env::var_os(WRAPPER_VARIABLE).filter(|wrapper| !wrapper.is_empty()) {
        words.insert(0, wrapper);
    }
    let Some((program, arguments)) = words.split_first() else { return Ok(2) };
    if arguments.last().is_some_and(|last| last == "-vV") {
        return describe(program, arguments, with_std);
    }
    let texts: Option<Vec<String>> =
        arguments.iter().map(|argument| argument.to_str().map(str::to_owned)).collect();
    let Some(texts) = texts.map(expand) else { return Err(become_program(program, arguments)) };
    let args = RustcArgs::parse(&texts);
    match (&args.out_dir, names_folder()) {
        (Some(folder), Some(names)) if is_ours(&args) => {
            let call = Call { program, texts: &texts, args: &args, names: &names, with_std };
            call.run(&PathBuf::from(folder))
        }
        _ => Err(become_program(program, arguments)),
    }
}

fn names_folder() -> Option<PathBuf> {
    env::var_os(super::NAMES_VARIABLE).map(PathBuf::from)
}

/// Answers `-vV`, which is how cargo tells compilers apart.
fn describe(program: &OsStr, arguments: &[OsString], with_std: bool) -> Result<i32, Error> {
    let output = Command::new(program).args(arguments).stderr(Stdio::inherit()).output();
    let output = output.map_err(not_started(program))?;
    let mut out = io::stdout().lock();
    let _ = out.write_all(&output.stdout);
    if output.status.success() {
        let (version, format) = (env!("CARGO_PKG_VERSION"), crate::carry::frame::VERSION);
        let with_std = if with_std { ", with the standard library" } else { "" };
        let _ = writeln!(out, "backtrail: {version}, format {format}{with_std}");
    }
    Ok(compile::status_code(output.status))
}

/// Words of the form `@FILE` stand for the lines of the file.
fn expand(words: Vec<String>) -> Vec<String> {
    let mut all = Vec::with_capacity(words.len());
    for word in words {
        match word.strip_prefix('@').and_then(|path| fs::read_to_string(path).ok()) {
            Some(text) => all.extend(text.lines().map(str::to_owned)),
            None => all.push(word),
        }
    }
    all
}

/// Whether this is a compilation by cargo whose code can end up in a program
/// of the user's: not one by a build script, of a build script or of a macro.
fn is_ours(args: &RustcArgs) -> bool {
    let of_cargo = env::var_os("CARGO_CRATE_NAME").is_some() && args.reports_artifacts;
    let is_target = args.target.as_deref().is_none_or(|target| {
        target.starts_with("x86_64-") && target.contains("linux") && !target.ends_with(".json")
    });
    // Where a target is named, what is compiled without one runs while building.
    let runs_later = args.target.is_some() || env::var_os(TARGET_VARIABLE).is_none();
    of_cargo
        && is_target
        && runs_later
        && args.emits("link")
        && !args.names_output
        && !args.crate_name.starts_with("build_script_")
        && !args.has_type("proc-macro")
}

/// A folder for one call of rustc. Its name is always the same, so that what is
/// built is; no two calls write to the same files at the same time.
struct Scratch {
    path: PathBuf,
    _leftover: Leftover,
}

impl Scratch {
    fn new(path: PathBuf) -> Result<Self, Error> {
        let path = std::path::absolute(&path).unwrap_or(path);
        // A call that was killed leaves it behind.
        let _ = fs::remove_dir_all(&path);
        let make = || fs::create_dir_all(&path).map(|()| path.clone());
        let (path, leftover) = Leftover::make(make).map_err(Error::write(&path))?;
        Ok(Self { path, _leftover: leftover })
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}

/// One call of rustc.
struct Call<'a> {
    program: &'a OsStr,
    texts: &'a [String],
    args: &'a RustcArgs,
    names: &'a Path,
    with_std: bool,
}

impl Call<'_> {
    fn run(&self, out_dir: &Path) -> Result<i32, Error> {
        let scratch = Scratch::new(out_dir.join(format!(".backtrail-{}", self.args.stem())))?;
        let scratch = scratch.path.as_path();
        let mut compilation = Compilation::of(self.args, self.compiler(), scratch)?;
        compilation.with_std = self.with_std;
        let origin = scratch.join("compilation");
        fs::write(&origin, compilation.to_bytes()).map_err(Error::write(&origin))?;
        if self.args.is_linked() && self.args.codegen_flag("linker-plugin-lto") {
            let name = &self.args.crate_name;
            compile::warn(&format!(
                "the IR of {name} is not carried: it is compiled by the linker"
            ));
        }
        let status = self.compile(&origin, scratch, out_dir)?;
        if status == 0 {
            for path in self.archives(scratch) {
                if let Err(error) = library::attach(&compilation, &path) {
                    compile::warn(&format!(
                        "the IR of {} is not carried: {error}",
                        self.args.crate_name
                    ));
                }
            }
            self.move_results(scratch, out_dir)?;
        }
        Ok(status)
    }

    /// The compiler itself: with wrappers before it, it is the word before the
    /// first option.
    fn compiler(&self) -> PathBuf {
        let before = self.texts.iter().take_while(|text| !text.starts_with('-'));
        let own = self.program.to_string_lossy().into_owned();
        PathBuf::from(before.last().filter(|text| !text.ends_with(".rs")).cloned().unwrap_or(own))
    }

    /// What rustc is told besides: later options take precedence.
    fn words(&self, scratch: &Path, out_dir: &Path) -> Result<Vec<String>, Error> {
        let mut words = Vec::with_capacity(self.texts.len() + 8);
        let mut texts = self.texts.iter();
        while let Some(text) = texts.next() {
            if text == "--out-dir" {
                texts.next();
            } else if !text.starts_with("--out-dir=") {
                words.push(text.clone());
            }
        }
        words.extend(["--out-dir".to_owned(), scratch.display().to_string()]);
        words.push("-Csave-temps=yes".to_owned());
        if !self.args.debug_wanted() {
            // Lines are wanted in the IR; units::attach takes them out of objects.
            words.push("-Cdebuginfo=line-tables-only".to_owned());
            words.push("-Csplit-debuginfo=off".to_owned());
        }
        if self.args.codegen("split-debuginfo") == Some("unpacked") {
            // Debuggers look for these files where they will be.
            let (from, to) = (scratch.display(), out_dir.display());
            words.push(format!("--remap-path-prefix={from}={to}"));
        }
        if self.args.is_linked() {
            let linker = names::linker(self.names, self.args.linker())?;
            words.push(format!("-Clinker={}", linker.display()));
        }
        Ok(words)
    }

    fn compile(&self, origin: &Path, scratch: &Path, out_dir: &Path) -> Result<i32, Error> {
        let mut words = self.words(scratch, out_dir)?;
        if words.iter().map(|word| word.len() + 1).sum::<usize>() > LONG_COMMAND {
            // What stands before the first option are programs.
            let at = words.iter().position(|word| word.starts_with('-')).unwrap_or(0);
            let path = scratch.join("arguments");
            let lines: String = words[at..].iter().map(|word| format!("{word}\n")).collect();
            fs::write(&path, lines).map_err(Error::write(&path))?;
            words.splice(at.., [format!("@{}", path.display())]);
        }
        let mut child = bind(&mut Command::new(self.program))
            .args(words)
            .env(ORIGIN_VARIABLE, origin)
            // From its cache, the user's own sccache would give back the results
            // without the bitcode beside them.
            .env("SCCACHE_RECACHE", "1")
            .stderr(Stdio::piped())
            .spawn()
            .map_err(not_started(self.program))?;
        let messages = BufReader::new(child.stderr.take().expect("stderr is a pipe"));
        self.forward(messages, scratch, out_dir)?;
        let status = child.wait().map_err(not_started(self.program))?;
        Ok(compile::status_code(status))
    }

    /// Passes rustc's messages on, as if it wrote into `out_dir`.
    fn forward(
        &self,
        mut messages: impl io::BufRead,
        scratch: &Path,
        out_dir: &Path,
    ) -> Result<(), Error> {
        let (from, to) = (scratch.display().to_string(), out_dir.display().to_string());
        let mut line = Vec::new();
        loop {
            line.clear();
            if messages.read_until(b'\n', &mut line).map_err(Error::read(scratch))? == 0 {
                return Ok(());
            }
            let text = String::from_utf8_lossy(&line);
            if let Some(name) = announced(&text, &from) {
                // Not moved: rustc still reads the metadata.
                share(&scratch.join(name), &out_dir.join(name))?;
            }
            let _ = io::stderr().write_all(text.replace(&from, &to).as_bytes());
        }
    }

    /// The archives that rustc wrote itself.
    fn archives(&self, scratch: &Path) -> Vec<PathBuf> {
        let stem = self.args.stem();
        let names = [format!("lib{stem}.rlib"), format!("lib{stem}.a")];
        names.iter().map(|name| scratch.join(name)).filter(|path| path.is_file()).collect()
    }

    fn move_results(&self, scratch: &Path, out_dir: &Path) -> Result<(), Error> {
        for entry in fs::read_dir(scratch).map_err(Error::read(scratch))? {
            let entry = entry.map_err(Error::read(scratch))?;
            let name = entry.file_name();
            let is_file = entry.file_type().is_ok_and(|kind| kind.is_file());
            if is_file && self.is_result(&name.to_string_lossy()) {
                let to = out_dir.join(&name);
                fs::rename(entry.path(), &to).map_err(Error::write(&to))?;
            }
        }
        Ok(())
    }

    /// Whether a file is what the user asked for.
    fn is_result(&self, name: &str) -> bool {
        let stem = self.args.stem();
        let own = name.strip_prefix("lib").unwrap_or(name);
        let Some(rest) = own.strip_prefix(&stem).or_else(|| name.strip_prefix(&stem)) else {
            return false;
        };
        let Some((_, kind)) = rest.split_once(".rcgu.") else { return true };
        let asked = [("obj", "o"), ("llvm-bc", "bc"), ("llvm-ir", "ll"), ("asm", "s")];
        kind == "dwo" || asked.iter().any(|(emit, end)| *end == kind && self.args.emits(emit))
    }
}

/// The name of the metadata file in `folder` that `line` says is there. What is
/// linked appears when it is complete.
fn announced<'a>(line: &'a str, folder: &str) -> Option<&'a str> {
    let rest = line.strip_prefix("{\"$message_type\":\"artifact\",\"artifact\":\"")?;
    let (path, _) = rest.split_once('"')?;
    let name = path.strip_prefix(folder)?.strip_prefix('/')?;
    (!name.contains('/') && name.ends_with(".rmeta")).then_some(name)
}

/// Gives the file `from` a second name `to`, in place of what has it.
fn share(from: &Path, to: &Path) -> Result<(), Error> {
    let place = || -> io::Result<()> {
        let aside = from.with_extension("shared");
        match fs::hard_link(from, &aside) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(_) => fs::copy(from, &aside).map(|_| ())?,
        }
        fs::rename(&aside, to)
    };
    place().map_err(Error::write(to))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn announced_artifacts_are_recognised() {
        let line =
            r#"{"$message_type":"artifact","artifact":"/t/.b/libx-1.rmeta","emit":"metadata"}"#;
        assert_eq!(announced(line, "/t/.b"), Some("libx-1.rmeta"));
        assert_eq!(announced(line, "/t/.c"), None);
        assert_eq!(announced("error: something", "/t/.b"), None);
    }

    #[test]
    fn results_are_told_from_what_save_temps_leaves() {
        let texts: Vec<String> = "--crate-name x -Cextra-filename=-1 --emit=link,asm"
            .split(' ')
            .map(str::to_owned)
            .collect();
        let args = RustcArgs::parse(&texts);
        let program = OsStr::new("rustc");
        let call =
            Call { program, texts: &texts, args: &args, names: Path::new(""), with_std: false };
        for name in
            ["x-1", "x-1.d", "libx-1.rlib", "libx-1.rmeta", "libx-1.so", "x-1.a-cgu.0.rcgu.s"]
        {
            assert!(call.is_result(name), "{name}");
        }
        for name in ["compilation", "x-1.a-cgu.0.rcgu.o", "x-1.a-cgu.0.rcgu.no-opt.bc", "y-1"] {
            assert!(!call.is_result(name), "{name}");
        }
    }
}
