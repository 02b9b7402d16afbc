//! `backtrail run`: runs a variant, or what starts variants, with what they record packed.

use std::ffi::OsString;
use std::path::PathBuf;

use backtrail_abi::log::{DEFAULT_DIR, DIR_VARIABLE};
use backtrail_collect::local::{self, Run, child_seconds};
use backtrail_collect::packing::Packer;
use backtrail_foreign::say;

use super::profile::leave;
use crate::args::program::Program;

/// Runs the verb. Leaves as the program did.
pub fn run(program: &Program, arguments: &[OsString], quiet: bool) -> anyhow::Result<u8> {
    local::check_executable(program)?;
    let records = std::env::var_os(DIR_VARIABLE).map_or(DEFAULT_DIR.into(), PathBuf::from);
    let packer = Packer::start([records]);
    let began = child_seconds();
    let status = local::run(&Run {
        executable: program,
        name: program.name(),
        arguments,
        environment: &[],
    })?;
    drop(packer);
    if !quiet {
        tell_time_since(began);
    }
    leave(Ok(status), None)
}

/// Tells the processor time of what ran since `began`.
pub fn tell_time_since(began: (f64, f64)) {
    let (user, kernel) = child_seconds();
    let (user, kernel) = (user - began.0, kernel - began.1);
    say!("backtrail: the run took {user:.3} s in user mode and {kernel:.3} s in the kernel");
}
