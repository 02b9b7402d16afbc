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
//! If anything of ours fails, the object is made in one step as clang would
//! have, and its record says why it carries no IR.

use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use backtrail_ir::Unit;
use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_machine::elf::Elf;
use backtrail_plan::worker::{Output, Request, Response};

use crate::carry::frame;
use crate::carry::unit::{Generator, IrState, UnitMeta, UnitRecord};
use crate::clang::Compiler;
use crate::codegen_args::{self, Source};
use crate::jobs::Job;
use crate::output::{self, Mode};
use crate::{Error, worker};

/// Says something to the user, in the style of compilers.
pub fn warn(message: &str) {
    eprintln!("backtrail: warning: {message}");
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
    let reason = if job.has_prefix("-flto") {
        "compiled with -flto"
    } else if job.has_prefix("-opt-record-file") || job.has("-opt-record-file") {
        "an optimisation record was asked for, which two steps would write twice"
    } else if source.language.contains("cuda") || source.language.contains("hip") {
        "offloading is not supported"
    } else {
        return Some(Ok(source));
    };
    Some(Err(reason.into()))
}

/// The status that stands for a finished command.
fn status_code(status: ExitStatus) -> i32 {
    status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0))
}

/// Runs a command with our own input and outputs.
pub fn run(program: &Path, arguments: &[String]) -> Result<i32, Error> {
    let status = Command::new(program).args(arguments).status();
    let failed = |error| Error::ClangNotRunnable { program: program.display().to_string(), error };
    status.map(status_code).map_err(failed)
}

/// What the first step gave.
struct FirstStep {
    bitcode: Vec<u8>,
    model: Unit,
}

/// Compiles `job`, whose object is to be `object`; the result is clang's status.
pub fn compile(
    compiler: &Compiler,
    job: &Job,
    source: &Source,
    object: &Path,
    scratch: &Path,
) -> Result<i32, Error> {
    let debug_wanted = codegen_args::debug_wanted(&job.arguments);
    let bitcode = scratch.join("unit.bc");
    let bitcode_name = bitcode.display().to_string();
    let first = codegen_args::first_step(&job.arguments, &bitcode_name, debug_wanted);
    let status = run(&job.program, &first)?;
    if status != 0 || !bitcode.exists() {
        // A crash of clang gets the driver's own treatment of crashes.
        return if status > 128 { run(&job.program, &job.arguments) } else { Ok(status) };
    }

    let to_generate = if debug_wanted { bitcode.clone() } else { scratch.join("stripped.bc") };
    let request = Request {
        library: compiler.library.clone(),
        bitcode: bitcode.clone(),
        name: source.path.clone(),
        lower: true,
        plan: None,
        strip_debug: !debug_wanted,
        output: (!debug_wanted).then(|| Output::Bitcode(to_generate.clone())),
    };
    let lowered = match worker::call(&request) {
        Ok(Response::Done { unit: Some(model), .. }) => {
            let bitcode = std::fs::read(&bitcode).map_err(Error::read(&bitcode))?;
            Ok(FirstStep { bitcode, model: *model })
        }
        Ok(_) => Err("the LLVM worker gave no program model".to_owned()),
        Err(error) => Err(error.to_string()),
    };

    let options = codegen_args::second_step(&job.arguments);
    let made = scratch.join("unit.o");
    let lowered = lowered.and_then(|step| {
        generate(&job.program, &options, &to_generate, &made)?;
        Ok(step)
    });
    let (state, step) = match lowered {
        Ok(step) => (IrState::Carried, Some(step)),
        Err(why) => {
            let status = run(&job.program, &with_output(&job.arguments, &made))?;
            if status != 0 {
                return Ok(status);
            }
            warn(&format!("the IR of {} is not carried: {why}", source.path));
            (IrState::Missing { why }, None)
        }
    };
    let generator = match step {
        Some(_) => Generator::Clang { program: job.program.clone(), arguments: options },
        None => Generator::None,
    };
    let meta = UnitMeta {
        id: [0; 16],
        name: source.path.clone(),
        language: source.language.clone(),
        compiler: compiler.version.clone(),
        library: compiler.library.clone(),
        generator,
        debug_wanted,
        symbols: Vec::new(),
        state,
    };
    let bytes = std::fs::read(&made).map_err(Error::read(&made))?;
    let parts = step.as_ref().map(|step| (&step.bitcode[..], &step.model));
    let bytes = attach(&bytes, meta, parts).map_err(Error::machine(object))?;
    output::write_whole(object, &bytes, Mode::Data)?;
    Ok(0)
}

/// `arguments` with another output.
fn with_output(arguments: &[String], output: &Path) -> Vec<String> {
    let mut arguments = arguments.to_vec();
    if let Some(at) = arguments.iter().rposition(|argument| argument == "-o") {
        arguments[at + 1] = output.display().to_string();
    }
    arguments
}

/// The second step: generates `object` from `bitcode`. On failure, why.
pub fn generate(
    program: &Path,
    options: &[String],
    bitcode: &Path,
    object: &Path,
) -> Result<(), String> {
    let output = Command::new(program)
        .args(options)
        .arg("-o")
        .arg(object)
        .args(["-x", "ir"])
        .arg(bitcode)
        .stdin(Stdio::null())
        .output()
        .map_err(|error| format!("cannot start {}: {error}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        let line = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it said nothing");
        return Err(format!("code generation failed: {line}"));
    }
    eprint!("{said}");
    Ok(())
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
    let described = postcard::to_stdvec(&meta).expect("serialising into memory does not fail");
    let bitcode = parts.map(|(bitcode, _)| bitcode);
    meta.id = frame::hash(&[&described, bitcode.unwrap_or_default()]);
    let record = UnitRecord::new(meta, bitcode, parts.map(|(_, model)| model)).to_bytes();
    let section = NewSection { name: backtrail_abi::UNIT_SECTION, data: &record };
    edit::edit(bytes, &Edit { add: &[section], ..Edit::default() })
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
        state: IrState::Missing { why: why.to_owned() },
    }
}
