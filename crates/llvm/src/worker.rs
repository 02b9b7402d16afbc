//! The worker: one unit, one libLLVM, one process.
//!
//! [`main`] reads a [`Request`] from standard input and writes a [`Response`]
//! to standard output. There is always a response, also when LLVM gives up in
//! the middle (`LLVM ERROR`), unless LLVM crashes. The exit status is 0 when it
//! is done, 1 when it failed.
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
use backtrail_plan::worker::{Output, Request, Response};

use crate::{Error, apply, loops, lower, object};

/// The unit at work, for the message when LLVM gives up.
static UNIT_NAME: OnceLock<String> = OnceLock::new();

/// Serves the one request on standard input.
pub fn main() -> ExitCode {
    // A panic becomes a response; its message would only be noise before that.
    std::panic::set_hook(Box::new(|_| {}));
    let mut bytes = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut bytes);
    let request = match read {
        Err(error) => Err(format!("cannot read the worker's request: {error}")),
        Ok(_) => postcard::from_bytes::<Request>(&bytes)
            .map_err(|error| format!("not a request to a worker: {error}")),
    };
    let response = match request {
        Err(why) => Response::Failed(why),
        Ok(request) => {
            let _ = UNIT_NAME.set(request.name.clone());
            match catch_unwind(AssertUnwindSafe(|| run_within_process(&request))) {
                Ok(response) => response,
                Err(panic) => failed(&request.name, panic_text(&*panic)),
            }
        }
    };
    finish(&response)
}

/// Writes the response and ends the process.
fn finish(response: &Response) -> ! {
    let mut out = std::io::stdout().lock();
    let written =
        postcard::to_stdvec(response).map_err(|error| error.to_string()).and_then(|bytes| {
            out.write_all(&bytes).and_then(|()| out.flush()).map_err(|error| error.to_string())
        });
    if let Err(error) = written {
        eprintln!("backtrail: the worker cannot answer: {error}");
        exit_at_once(1);
    }
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

fn treat(module: &mut Module<'_>, request: &Request) -> Result<Response, Error> {
    let unit = request.lower.then(|| Box::new(lower::lower(module, &request.name)));
    let loops_by_position = request.lower && loops::has_positions_only(module);
    let mut changed = false;
    if let Some(plan) = &request.plan {
        apply::apply(module, plan)?;
        changed = true;
    }
    if request.strip_debug {
        changed |= module.strip_debug_info();
    }
    if changed {
        module.verify()?;
    }
    let mut order_kept = true;
    match &request.output {
        None => {}
        Some(Output::Bitcode(path) | Output::Unoptimised(path)) => {
            if matches!(request.output, Some(Output::Unoptimised(_))) {
                loops::forget_positions(module);
                module.verify()?;
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
