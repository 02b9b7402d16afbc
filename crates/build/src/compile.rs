//! Compiles one unit in two steps, and attaches what it carries.
//!
//! ```text
//! source --clang, all passes--> bitcode --worker--> program model
//!                                  |         \--> bitcode without line tables
//!                                  |                  |
//!                               carried      clang, code generation only
//!                                                     |
//!                                                  object
//! ```
//! What clang says is shown only when it is known to be all that it would have
//! said in one step. The second step knows neither the source nor the options
//! for warnings; if it has anything to say, or if anything of ours fails, the
//! object is made in one step as clang would have made it, messages included.
//!
//! The second step runs in a folder of its own, so that code generation that
//! needs a file of the build tree (`.incbin`) is found out now, and not when a
//! variant is derived without that tree.

use std::fs::File;
use std::io::Write as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

use backtrail_foreign::say;
use backtrail_interruption::bind;
use backtrail_ir::Unit;
use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_machine::elf::Elf;
use backtrail_plan::worker::{DebugKept, Output, Request, Response};

use crate::carry::unit::{Generator, IrState, UnitMeta, UnitRecord};
use crate::clang::Compiler;
use crate::codegen_args::{self, Source};
use crate::jobs::Job;
use crate::output::{self, Mode};
use crate::response_file::quote;
use crate::worker::Worker;
use crate::{Error, endless_loops, own_object};

/// Longer command lines go into a response file.
const LONG_COMMAND: usize = 100_000;

/// Bitcode of more bytes is not kept in memory between two steps.
const LARGE_BITCODE: u64 = 4 << 20;

/// Says something to the user, in the style of compilers.
pub fn warn(message: &str) {
    say!("backtrail: warning: {message}");
}

/// Why a `-cc1` job's IR cannot be carried, or `Ok` with its source. Jobs that
/// make no object at all are `None`.
pub fn source_of(job: &Job) -> Option<Result<Source, String>> {
    let source = codegen_args::source(&job.arguments)?;
    if job.has("-emit-llvm-bc") && job.has_prefix("-flto") {
        return Some(Err("compiled with -flto".into()));
    }
    if !job.has("-emit-obj") {
        return None;
    }
    let triple = job.value("-triple").unwrap_or_default();
    let reason = if job.has_prefix("-flto") {
        "compiled with -flto".to_owned()
    } else if job.has_prefix("-fthinlto-index=") {
        "compiled with -fthinlto-index".to_owned()
    } else if Path::new(&source.path).exists() && !Path::new(&source.path).is_file() {
        "its source can be read only once: it is no regular file".to_owned()
    } else if source.language.contains("cuda") || source.language.contains("hip") {
        "offloading is not supported".to_owned()
    } else if !triple.starts_with("x86_64-") || !triple.contains("linux") || triple.ends_with("x32")
    {
        format!("compiled for {triple}, not for x86-64 Linux")
    } else {
        return Some(Ok(source));
    };
    Some(Err(reason))
}

/// The status that stands for a finished command.
pub fn status_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Whether a status says that clang crashed: a signal of its own making, or its
/// code for an internal error. (Interrupts and the like come from others.)
pub fn is_crash(status: i32) -> bool {
    const ILLEGAL_TO_FLOATING_POINT: std::ops::RangeInclusive<i32> = 132..=136;
    const SEGMENTATION: i32 = 139;
    ILLEGAL_TO_FLOATING_POINT.contains(&status) || status == SEGMENTATION || status == 70
}

/// A command that starts `program`; where the words are too many for one, they
/// go into a response file in `scratch`.
pub fn command(program: &Path, arguments: &[String], scratch: &Path) -> Result<Command, Error> {
    let mut command = Command::new(program);
    bind(&mut command);
    if arguments.iter().map(|word| word.len() + 1).sum::<usize>() < LONG_COMMAND {
        command.args(arguments);
        return Ok(command);
    }
    let path = scratch.join("words.rsp");
    let text: String = arguments.iter().map(|word| quote(word) + "\n").collect();
    std::fs::write(&path, text).map_err(Error::write(&path))?;
    command.arg(format!("@{}", path.display()));
    Ok(command)
}

/// How a compilation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// With this status.
    Status(i32),
    /// The compiler crashed, and nothing was said about it yet.
    Crashed,
}

/// A unit to compile.
pub struct Task<'a> {
    /// The compiler.
    pub compiler: &'a Compiler,
    /// What it would do in one step.
    pub job: &'a Job,
    /// What it compiles.
    pub source: &'a Source,
    /// The unit's name.
    pub name: &'a str,
    /// The object to make.
    pub object: &'a Path,
    /// A folder for intermediate files.
    pub scratch: &'a Path,
    /// What stands for standard input, if the source is read from there.
    pub input: Option<&'a Path>,
    /// Whether what the compiler says is shown.
    pub shown: bool,
}

/// What the two steps gave.
struct TwoSteps {
    bitcode: Vec<u8>,
    model: Unit,
    /// Options of the second step.
    options: Vec<String>,
    object: PathBuf,
    /// What the first step said.
    said: Vec<u8>,
    /// Whether the second step had nothing to say, and its object is clang's own.
    faithful: bool,
}

/// What the worker made of the first step's bitcode.
struct Lowered {
    model: Unit,
    bitcode: PathBuf,
    /// What code is to be generated from.
    to_generate: PathBuf,
    loops_by_position: bool,
}

/// Why the two steps gave nothing.
enum NoSteps {
    /// The compiler ended with this status, having said this.
    Compiler(i32, Vec<u8>),
    /// Something of ours failed.
    Ours(String),
}

impl Task<'_> {
    /// Compiles the unit.
    pub fn compile(&self) -> Result<End, Error> {
        let made = self.scratch.join("unit.o");
        if codegen_args::needs_one_step(&self.job.arguments) {
            return match self.in_one_step(&made)? {
                End::Status(0) => self.finish_beside(&made),
                end => Ok(end),
            };
        }
        let steps = match self.two_steps(&self.job.arguments)? {
            Err(NoSteps::Compiler(status, _)) if is_crash(status) => return Ok(End::Crashed),
            Err(NoSteps::Compiler(status, said)) => {
                self.show(&said);
                return Ok(End::Status(status));
            }
            Err(NoSteps::Ours(why)) => Err(why),
            Ok(steps) => Ok(steps),
        };
        let made = match &steps {
            Ok(steps) if steps.faithful => {
                self.show(&steps.said);
                steps.object.clone()
            }
            _ => match self.in_one_step(&made)? {
                End::Status(0) => made,
                end => return Ok(end),
            },
        };
        self.finish(&made, steps)
    }

    /// Attaches to the object `made`, which clang made in its own way, what the
    /// two steps give.
    pub fn finish_beside(&self, made: &Path) -> Result<End, Error> {
        let arguments = codegen_args::without_side_outputs(&self.job.arguments);
        let steps = self.two_steps(&arguments)?.map_err(|failed| match failed {
            NoSteps::Compiler(status, _) => format!("the compiler gave no IR (status {status})"),
            NoSteps::Ours(why) => why,
        });
        self.finish(made, steps)
    }

    fn show(&self, said: &[u8]) {
        if self.shown {
            let _ = std::io::stderr().write_all(said);
        }
    }

    fn start(&self, arguments: &[String]) -> Result<Command, Error> {
        let mut command = command(&self.job.program, arguments, self.scratch)?;
        if let Some(input) = self.input {
            command.stdin(File::open(input).map_err(Error::read(input))?);
        }
        Ok(command)
    }

    fn not_runnable(&self, error: std::io::Error) -> Error {
        crate::clang::not_runnable(&self.job.program, error)
    }

    /// Makes the object `made` as clang would.
    fn in_one_step(&self, made: &Path) -> Result<End, Error> {
        let mut command = self.start(&with_output(&self.job.arguments, made))?;
        if !self.shown {
            command.stderr(Stdio::null());
        }
        let status = command.status().map_err(|error| self.not_runnable(error))?;
        Ok(match status_code(status) {
            status if is_crash(status) => End::Crashed,
            status => End::Status(status),
        })
    }

    fn two_steps(&self, arguments: &[String]) -> Result<Result<TwoSteps, NoSteps>, Error> {
        let debug_wanted = codegen_args::debug_wanted(arguments);
        let loops_matter = !debug_wanted && endless_loops::matter_under(arguments);
        let apart = loops_matter
            && self
                .source_text()
                .is_some_and(|text| endless_loops::seem_to_be_in(&text, arguments));
        let mut worker = Worker::default();
        let mut said = match self.first_step(&mut worker, arguments, apart)? {
            Ok(said) => said,
            Err(failed) => return Ok(Err(failed)),
        };
        let mut lowered = match self.lower(&mut worker, debug_wanted) {
            Ok(lowered) => lowered,
            Err(why) => return Ok(Err(NoSteps::Ours(why))),
        };
        if lowered.loops_by_position && loops_matter && !apart {
            said = match self.first_step(&mut worker, arguments, true)? {
                Ok(said) => said,
                Err(failed) => return Ok(Err(failed)),
            };
            lowered = match self.lower(&mut worker, debug_wanted) {
                Ok(lowered) => lowered,
                Err(why) => return Ok(Err(NoSteps::Ours(why))),
            };
        }
        // Where the optimiser cannot be run apart, one step makes the object.
        let exact = debug_wanted
            || !lowered.loops_by_position
            || !endless_loops::may_change_under(arguments);
        let Lowered { model, bitcode, to_generate, .. } = lowered;
        let options = codegen_args::second_step(arguments);
        let object = self.scratch.join("generated.o");
        let absolute = codegen_args::with_absolute(&options, &["-split-dwarf-output"]);
        let faithful = match generate(&self.job.program, &absolute, &to_generate, &object) {
            Ok(said) => said.is_empty() && exact,
            Err(why) => return Ok(Err(NoSteps::Ours(why))),
        };
        let bitcode = std::fs::read(&bitcode).map_err(Error::read(&bitcode))?;
        Ok(Ok(TwoSteps { bitcode, model, options, object, said, faithful }))
    }

    /// What is compiled, if it can be looked at.
    fn source_text(&self) -> Option<Vec<u8>> {
        std::fs::read(self.input.unwrap_or(Path::new(&self.source.path))).ok()
    }

    /// The first step, to `unit.bc`: what the compiler said. If `apart`, the
    /// optimiser runs on its own, on loops as they are without line tables.
    fn first_step(
        &self,
        worker: &mut Worker,
        arguments: &[String],
        apart: bool,
    ) -> Result<Result<Vec<u8>, NoSteps>, Error> {
        let bitcode = self.scratch.join("unit.bc");
        let compiled = if apart { self.scratch.join("unoptimised.bc") } else { bitcode.clone() };
        let debug_wanted = codegen_args::debug_wanted(arguments);
        let mut words =
            codegen_args::first_step(arguments, &compiled.display().to_string(), debug_wanted);
        if apart {
            words.insert(1, "-disable-llvm-passes".to_owned());
        }
        let output = self
            .start(&words)?
            .stdout(Stdio::inherit())
            .stderr(Stdio::piped())
            .spawn()
            .and_then(|child| child.wait_with_output())
            .map_err(|error| self.not_runnable(error))?;
        let status = status_code(output.status);
        if status != 0 || !compiled.exists() {
            return Ok(Err(NoSteps::Compiler(status, output.stderr)));
        }
        // What the optimiser says, it says better with the source before it.
        if apart && !self.optimise(worker, arguments, &compiled, &bitcode) {
            return self.first_step(worker, arguments, false);
        }
        Ok(Ok(output.stderr))
    }

    /// Optimises `unoptimised` to `bitcode`; whether that went without a word.
    fn optimise(
        &self,
        worker: &mut Worker,
        arguments: &[String],
        unoptimised: &Path,
        bitcode: &Path,
    ) -> bool {
        let prepared = self.scratch.join("prepared.bc");
        let request = Request {
            library: self.compiler.library.clone(),
            bitcode: unoptimised.to_owned(),
            name: self.name.to_owned(),
            lower: false,
            files_in_assembly: true,
            plan: None,
            debug: DebugKept::All,
            output: Some(Output::Unoptimised(prepared.clone())),
        };
        if worker.call(&request).is_err() {
            return false;
        }
        // It keeps what it read. Of a large unit that is too much for as long
        // as the optimiser runs, and to start another one costs little then.
        if std::fs::metadata(unoptimised).is_ok_and(|file| file.len() > LARGE_BITCODE) {
            *worker = Worker::default();
        }
        let words = codegen_args::optimising_step(arguments, &bitcode.display().to_string());
        let output = bind(&mut Command::new(&self.job.program))
            .args(words)
            .args(["-x", "ir"])
            .arg(&prepared)
            .stdin(Stdio::null())
            .output();
        output.is_ok_and(|output| output.status.success() && output.stderr.is_empty())
    }

    /// The program model of `unit.bc`, and bitcode without line tables that
    /// were not asked for. On failure, why.
    fn lower(&self, worker: &mut Worker, debug_wanted: bool) -> Result<Lowered, String> {
        let bitcode = self.scratch.join("unit.bc");
        let stripped = self.scratch.join("stripped.bc");
        let request = Request {
            library: self.compiler.library.clone(),
            bitcode: bitcode.clone(),
            name: self.name.to_owned(),
            lower: true,
            files_in_assembly: true,
            plan: None,
            debug: if debug_wanted { DebugKept::All } else { DebugKept::Nothing },
            output: (!debug_wanted).then(|| Output::Bitcode(stripped.clone())),
        };
        let to_generate = if debug_wanted { bitcode.clone() } else { stripped };
        match worker.call(&request) {
            Ok(Response::Done { unit: Some(model), loops_by_position, .. }) => {
                Ok(Lowered { model: *model, bitcode, to_generate, loops_by_position })
            }
            Ok(_) => Err("the LLVM worker gave no program model".to_owned()),
            Err(error) => Err(reason(error, self.name)),
        }
    }

    /// Writes the unit's object: `made` with the record of what `steps` gave.
    fn finish(&self, made: &Path, steps: Result<TwoSteps, String>) -> Result<End, Error> {
        let mut meta =
            meta_without_ir(self.name, &self.source.language, &self.compiler.version, "");
        meta.library = self.compiler.library.clone();
        meta.debug_wanted = codegen_args::debug_wanted(&self.job.arguments);
        let steps = match steps {
            Ok(steps) => {
                let program = std::path::absolute(&self.job.program);
                let program = program.unwrap_or_else(|_| self.job.program.clone());
                meta.generator = Generator::Clang { program, arguments: steps.options.clone() };
                meta.state = IrState::Carried;
                Some(steps)
            }
            Err(why) => {
                warn(&format!("the IR of {} is not carried: {why}", self.name));
                meta.state = IrState::Missing { why };
                None
            }
        };
        let bytes = std::fs::read(made).map_err(Error::read(made))?;
        let parts = steps.as_ref().map(|steps| (&steps.bitcode[..], &steps.model));
        let bytes = attach(&bytes, meta, parts).unwrap_or_else(|error| {
            warn(&format!("the IR of {} is not carried: {error}", self.name));
            bytes
        });
        // Clang puts its output in the place of a link.
        if self.object.is_symlink() && !self.object.exists() | self.object.is_file() {
            let _ = std::fs::remove_file(self.object);
        }
        // A file that may not be written to is not replaced either.
        let may_write =
            !self.object.is_file() || File::options().write(true).open(self.object).is_ok();
        match may_write && output::write_whole(self.object, &bytes, Mode::Data).is_ok() {
            true => Ok(End::Status(0)),
            // Why it cannot be written is for clang to say.
            false => {
                let status = self.start(&self.job.arguments)?.status();
                status
                    .map(|status| End::Status(status_code(status)))
                    .map_err(|error| self.not_runnable(error))
            }
        }
    }
}

/// What a worker's error says about the unit `name`, whose name it begins with.
fn reason(error: Error, name: &str) -> String {
    let mut text = error.to_string();
    while let Some(rest) = text.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) {
        text = rest.to_owned();
    }
    text
}

/// `arguments` with another output.
fn with_output(arguments: &[String], output: &Path) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    if let Some(at) = arguments.iter().rposition(|argument| argument == "-o") {
        arguments[at + 1] = output.display().to_string();
    }
    arguments
}

/// The second step: generates `object` from `bitcode`, in the folder of
/// `object`. Returns what the compiler said; on failure, why.
pub fn generate(
    program: &Path,
    options: &[String],
    bitcode: &Path,
    object: &Path,
) -> Result<String, String> {
    let folder = object.parent().unwrap_or(Path::new("."));
    let cannot_start = |error| format!("cannot start {}: {error}", program.display());
    let program = std::path::absolute(program).map_err(cannot_start)?;
    let output = bind(&mut Command::new(program))
        .args(options)
        .arg("-o")
        .arg(object)
        .args(["-x", "ir"])
        .arg(bitcode)
        .current_dir(folder)
        .stdin(Stdio::null())
        .output()
        .map_err(cannot_start)?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(format!("code generation failed: {line}"));
    }
    Ok(said.into_owned())
}

/// The object `bytes` with the record of its unit: `meta`, completed by the
/// unit's id and symbols, and its bitcode and model where they are carried.
pub fn attach(
    bytes: &[u8],
    mut meta: UnitMeta,
    parts: Option<(&[u8], &Unit)>,
) -> Result<Vec<u8>, backtrail_machine::Error> {
    let elf = Elf::parse(bytes)?;
    meta.symbols =
        elf.defined_symbols().into_iter().map(|symbol| (symbol.name, symbol.weak)).collect();
    meta.sections = own_object::sections(&elf);
    let bitcode = parts.map(|(bitcode, _)| bitcode);
    meta.id = meta.id_with(bitcode.unwrap_or_default());
    let record = UnitRecord::new(meta, bitcode, parts.map(|(_, model)| model)).to_bytes();
    let section = NewSection { name: backtrail_abi::UNIT_SECTION, data: &record };
    edit::edit(bytes, &Edit { add: &[section], ..Edit::default() })
}

/// Notes in the object `path` that it carries no IR, and why. What is no object
/// of ours to change (`/dev/null`, an object for another machine) stays as it is.
pub fn note_missing(path: &Path, meta: UnitMeta) -> Result<(), Error> {
    if !path.is_file() {
        return Ok(());
    }
    let bytes = std::fs::read(path).map_err(Error::read(path))?;
    match attach(&bytes, meta, None) {
        Ok(bytes) => output::write_whole(path, &bytes, Mode::Data),
        Err(_) => Ok(()),
    }
}

/// A record for an object that carries no IR.
pub fn meta_without_ir(name: &str, language: &str, compiler: &str, why: &str) -> UnitMeta {
    UnitMeta {
        id: [0; 16],
        name: name.to_owned(),
        language: language.to_owned(),
        compiler: compiler.to_owned(),
        library: Default::default(),
        generator: Generator::None,
        debug_wanted: false,
        symbols: Vec::new(),
        sections: Vec::new(),
        state: IrState::Missing { why: why.to_owned() },
    }
}
