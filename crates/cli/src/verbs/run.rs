//! `backtrail run`: runs a variant as `backtrail trace` does, with its logs packed.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use backtrail_abi::log::{DEFAULT_DIR, DIR_VARIABLE};
use backtrail_collect::local::{self, Run, child_seconds};
use backtrail_collect::packing::Packer;

use super::profile::leave;

/// Runs the verb. Leaves as the variant did.
pub fn run(variant: &Path, arguments: &[OsString]) -> anyhow::Result<u8> {
    local::check_executable(variant)?;
    let records = std::env::var_os(DIR_VARIABLE).map_or(DEFAULT_DIR.into(), PathBuf::from);
    let packer = Packer::start([records]);
    let began = child_seconds();
    let status = local::run(&Run {
        executable: variant,
        name: variant.as_os_str(),
        arguments,
        environment: &[],
    })?;
    drop(packer);
    tell_time_since(began);
    leave(Ok(status), None)
}

/// Tells the processor time of what ran since `began`.
pub fn tell_time_since(began: (f64, f64)) {
    let (user, kernel) = child_seconds();
    let (user, kernel) = (user - began.0, kernel - began.1);
    eprintln!("backtrail: the run took {user:.3} s in user mode and {kernel:.3} s in the kernel");
}
