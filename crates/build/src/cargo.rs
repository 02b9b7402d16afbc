//! The drop-in cargo: `backtrail cargo build`, `run`, `test`, …
//!
//! Cargo runs as it is, with this program as its `RUSTC_WRAPPER` and as the C
//! compiler of build scripts:
//!
//! ```text
//! cargo --> backtrail-rustc --> the user's own wrappers --> rustc --> backtrail-link --> the user's linker
//!               |                                                         |
//!        after rustc: records into                               before the link: records into
//!        the objects of libraries                                the crate's objects; after it: the recipe
//! ```
//! [`rustc`] compiles one crate, `units` turns what rustc left behind into
//! records, [`link`] is the linker rustc calls, `library` the archive it
//! writes itself, `standard_library` the crates that came with the compiler,
//! which take part on request. [`config`] reads the two settings of cargo's configuration
//! that would otherwise be hidden by ours, `names` holds the names under
//! which this program is started.
//!
//! # Why this way
//! Three ways of getting bitcode out of a stable rustc (1.95) were compared.
//!
//! - `-C embed-bitcode=yes` embeds it in libraries only, and from before the
//!   last optimisations.
//! - `--emit=llvm-bc` changes the code: without `-C codegen-units` it compiles
//!   the crate as one unit, and naming the default number of units (16) is not
//!   the same as leaving it out, since only then rustc merges small units. With
//!   one unit it also turns `lto = "thin"` into fat LTO.
//! - `-C save-temps` changes nothing: the executable's code is byte for byte the
//!   same, and every object that is linked (the allocator shim, the results of
//!   thin and fat LTO and reused incremental units included) has its optimised
//!   bitcode beside it. It leaves much else behind, so rustc gets an output
//!   folder of its own, which is gone when it is done.
//!
//! # Freshness
//! A wrapper is not part of what cargo calls fresh; what rustc says of itself
//! is. The wrapper adds a line to the answer to `-vV`, so that crates built with
//! and without it are different to cargo, with file names of their own in the
//! one target folder. That answer is kept by cargo for as long as the wrapper has
//! the same name, so builds with the standard library have another wrapper.

pub mod config;
mod debug_sections;
mod driver_line;
mod library;
pub mod link;
mod names;
pub mod rustc;
mod rustc_args;
mod standard_library;
pub(crate) mod units;

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::Command;

pub use names::{Role, role_of};

use crate::{Error, clang, compile};

/// The environment variable by which the standard library takes part.
pub const STD_VARIABLE: &str = "BACKTRAIL_STD";

/// The environment variable that holds the user's own `RUSTC_WRAPPER`.
const WRAPPER_VARIABLE: &str = "BACKTRAIL_RUSTC_WRAPPER";

/// The environment variable that is set when a target is named.
const TARGET_VARIABLE: &str = "BACKTRAIL_TARGET";

/// The environment variable that names the folder of [`names`].
const NAMES_VARIABLE: &str = "BACKTRAIL_NAMES";

/// The target whose C code is compiled by us, as the `cc` crate spells it in
/// environment variables.
const C_TARGET: &str = "x86_64_unknown_linux_gnu";

/// Becomes cargo with `arguments`. Returns only if that fails.
pub fn run(arguments: &[OsString]) -> Result<i32, Error> {
    let names = names::prepare()?;
    let config = config::Config::read(arguments);
    let mut cargo = Command::new(cargo_program());
    cargo.args(arguments);
    let wrapper = match wants_standard_library() {
        true => names::RUSTC_WITH_STD,
        false => names::RUSTC,
    };
    cargo.env("RUSTC_WRAPPER", names.join(wrapper)).env(NAMES_VARIABLE, &names);
    match config.wrapper() {
        Some(wrapper) => cargo.env(WRAPPER_VARIABLE, wrapper),
        None => cargo.env_remove(WRAPPER_VARIABLE),
    };
    match config.names_target(arguments) {
        true => cargo.env(TARGET_VARIABLE, "1"),
        false => cargo.env_remove(TARGET_VARIABLE),
    };
    let compilers = [("CC", names::CC), ("CXX", names::CXX)];
    let wanted: Vec<_> =
        compilers.into_iter().filter(|(kind, _)| !config.chooses_compiler(kind)).collect();
    match clang::find() {
        Ok(_) => {
            for (kind, name) in wanted {
                cargo.env(format!("{kind}_{C_TARGET}"), names.join(name));
            }
        }
        // Not every crate has C code: no reason to fail.
        Err(error) if !wanted.is_empty() => {
            compile::warn(&format!("C and C++ code of build scripts will not be carried: {error}"));
        }
        Err(_) => {}
    }
    let error = cargo.exec();
    Err(not_started(cargo_program().as_os_str())(error))
}

/// Whether the user wants the standard library's units too.
fn wants_standard_library() -> bool {
    env::var_os(STD_VARIABLE).is_some_and(|value| !value.is_empty() && value != "0")
}

/// The cargo to run: the one that called us, or the one on the path.
fn cargo_program() -> PathBuf {
    env::var_os("CARGO").filter(|cargo| !cargo.is_empty()).map_or("cargo".into(), PathBuf::from)
}

/// Becomes `program` with `arguments`. Returns only if that fails.
fn become_program(program: &OsStr, arguments: &[OsString]) -> Error {
    not_started(program)(Command::new(program).args(arguments).exec())
}

/// The error of failing to start `program`.
fn not_started(program: &OsStr) -> impl FnOnce(io::Error) -> Error {
    let program = program.display().to_string();
    |error| Error::NotStarted { program, error }
}
