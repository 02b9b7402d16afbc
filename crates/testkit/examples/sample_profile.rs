//! Writes the sample program and its profiles into a folder, to try things on.

use std::path::PathBuf;

use backtrail_profile::file::write_profile;
use backtrail_testkit::{random_profile, sample_profile};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = PathBuf::from(std::env::args_os().nth(1).ok_or("give a folder")?);
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("scan.c"), sample_profile::SOURCE)?;
    let write = |name: &str, profile| -> Result<(), Box<dyn std::error::Error>> {
        Ok(std::fs::write(folder.join(name), write_profile(&profile)?)?)
    };
    let source = folder.join("scan.c").display().to_string();
    write("a.btprof", sample_profile::profile(&source))?;
    write("b.btprof", sample_profile::other_profile(&source))?;
    let large = random_profile::program(1, 5_000, 30);
    write("large.btprof", random_profile::run(&large, 1).0)
}
