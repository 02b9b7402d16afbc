//! The worker: one unit, one libLLVM, one process.
//!
//! [`main`] reads [`Request`]s from standard input and writes a [`Response`]
//! for each to standard output, each behind its length in four bytes. Loading a
//! libLLVM takes longer than treating a small unit, so what is asked about the
//! same unit at different times may be asked of the same worker. There is always
//! a response, also when LLVM gives up in the middle (`LLVM ERROR`), unless LLVM
//! crashes. The first request that fails is the last. The exit status is 0 when
//! all is done, 1 when something failed.
//!
//! Nothing is freed at the end: the process is over.

use std::fs;
use std::io::{Read, Write};
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;
use std::sync::OnceLock;

use backtrail_llvm_ffi::{Context, Llvm, Module, exit_at_once};
use backtrail_plan::worker::{DebugKept, Output, Request, Response};

use crate::apply::Generation;
use crate::{Error, apply, assembly, loops, lower, object, switch};

/// The unit at work, for the message when LLVM gives up.
static UNIT_NAME: OnceLock<String> = OnceLock::new();

/// Serves the requests on standard input.
pub fn main() -> ExitCode {
    // A panic becomes a response; its message would only be noise before that.
    std::panic::set_hook(Box::new(|_| {}));
    let mut input = std::io::stdin().lock();
    loop {
        let request = match next_request(&mut input) {
            Ok(Some(request)) => request,
            Ok(None) => exit_at_once(0),
            Err(why) => finish(&Response::Failed(why)),
        };
        let _ = UNIT_NAME.set(request.name.clone());
        let response = catch_unwind(AssertUnwindSafe(|| run_within_process(&request)))
            .unwrap_or_else(|panic| failed(&request.name, panic_text(&*panic)));
        match response {
            Response::Done { .. } | Response::FilesInAssembly(_) => answer(&response),
            Response::Failed(_) => finish(&response),
        }
    }
}

/// The next request, unless there are no more.
fn next_request(input: &mut impl Read) -> Result<Option<Request>, String> {
    let cannot_read = |error| format!("cannot read the worker's request: {error}");
    let mut length = Vec::with_capacity(4);
    input.take(4).read_to_end(&mut length).map_err(cannot_read)?;
    let length = match length[..] {
        [] => return Ok(None),
        [a, b, c, d] => u64::from(u32::from_le_bytes([a, b, c, d])),
        _ => return Err("not a request to a worker: it ends in its length".to_owned()),
    };
    let mut bytes = Vec::new();
    input.take(length).read_to_end(&mut bytes).map_err(cannot_read)?;
    postcard::from_bytes(&bytes)
        .map(Some)
        .map_err(|error| format!("not a request to a worker: {error}"))
}

/// Writes a response; if that cannot be done, the process ends.
fn answer(response: &Response) {
    let bytes = postcard::to_stdvec(response).expect("serialising into memory does not fail");
    let length = u32::try_from(bytes.len()).map_err(|_| std::io::ErrorKind::FileTooLarge.into());
    let mut out = std::io::stdout().lock();
    let written = length
        .and_then(|length| out.write_all(&length.to_le_bytes()))
        .and_then(|()| out.write_all(&bytes))
        .and_then(|()| out.flush());
    if let Err(error) = written {
        eprintln!("backtrail: the worker cannot answer: {error}");
        exit_at_once(1);
    }
}

/// Writes the last response and ends the process.
fn finish(response: &Response) -> ! {
    answer(response);
    exit_at_once(i32::from(matches!(response, Response::Failed(_))))
}

fn on_fatal_error(reason: &str) {
    let name = UNIT_NAME.get().map_or("?", String::as_str);
    finish(&failed(name, format!("LLVM gave up: {reason}")))
}

fn failed(name: &str, why: impl std::fmt::Display) -> Response {
    let why = why.to_string();
    Response::Failed(format!("{name}: {}", why.lines().collect::<Vec<_>>().join("; ")))
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    format!("a bug in Backtrail's worker: {}", text.unwrap_or("no message"))
}

/// As [`run`], in a process that ends afterwards.
fn run_within_process(request: &Request) -> Response {
    let serve = || {
        let llvm = ManuallyDrop::new(Llvm::load(&request.library)?);
        llvm.on_fatal_error(on_fatal_error);
        let context = ManuallyDrop::new(Context::new(&llvm));
        let mut module = ManuallyDrop::new(read(&context, request)?);
        treat(&mut module, request)
    };
    serve().unwrap_or_else(|error: Error| failed(&request.name, error))
}

/// Serves a request within this process. An error that LLVM cannot report ends
/// it; [`main`] answers even then.
pub fn run(request: &Request) -> Response {
    let serve = || {
        let llvm = Llvm::load(&request.library)?;
        let context = Context::new(&llvm);
        let mut module = read(&context, request)?;
        treat(&mut module, request)
    };
    serve().unwrap_or_else(|error: Error| failed(&request.name, error))
}

fn read<'c>(context: &'c Context<'c>, request: &Request) -> Result<Module<'c>, Error> {
    let path = &request.bitcode;
    let bitcode = fs::read(path).map_err(|why| Error::Read { path: path.clone(), why })?;
    Ok(Module::parse(context, &bitcode, &request.name)?)
}

fn treat<'c>(module: &mut Module<'c>, request: &Request) -> Result<Response, Error> {
    if !request.files_in_assembly
        && let Some(word) = assembly::may_read_files(module)
    {
        return Ok(Response::FilesInAssembly(word));
    }
    let unit = request.lower.then(|| Box::new(lower::lower(module, &request.name)));
    let loops_by_position = request.lower && loops::has_positions_only(module);
    let tells_blocks = request.plan.as_ref().is_some_and(|plan| plan.block_lines.is_some());
    if tells_blocks {
        module.strip_debug_info();
    }
    if let Some(plan) = &request.plan {
        let generation = match &request.output {
            Some(Output::Object { codegen, .. }) if codegen.opt_level == 0 => {
                Generation::Unoptimised
            }
            _ => Generation::AsMarked,
        };
        apply::apply(module, plan, generation)?;
        let context = module.context();
        switch::apply(module, plan, generation, &|| read(context, request))?;
    }
    match request.debug {
        DebugKept::Nothing if !tells_blocks => {
            module.strip_debug_info();
        }
        DebugKept::Lines if !tells_blocks => module.run_passes("strip-nonlinetable-debuginfo")?,
        _ => {}
    }
    // What LLVM does by itself, taking away metadata, it does right; to verify
    // that would take a third of the worker's time.
    if request.plan.is_some() {
        module.verify()?;
    }
    let mut order_kept = true;
    match &request.output {
        None => {}
        Some(Output::Bitcode(path) | Output::Unoptimised(path)) => {
            if matches!(request.output, Some(Output::Unoptimised(_))) {
                loops::forget_positions(module);
            }
            let bitcode = module.to_bitcode()?;
            order_kept = bitcode.order_kept;
            write(path, &bitcode.bytes)?;
        }
        Some(Output::Object { path, codegen }) => write(path, &object::emit(module, codegen)?)?,
    }
    Ok(Response::Done { unit, order_kept, loops_by_position })
}

fn write(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    fs::write(path, bytes).map_err(|why| Error::Write { path: path.to_owned(), why })
}
