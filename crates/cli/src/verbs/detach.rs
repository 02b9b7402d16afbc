//! `backtrail detach`: moves what an executable carries into a side file.

use std::path::{Path, PathBuf};

use backtrail_abi::record::FRAMES_SECTION;
use backtrail_abi::{LINK_SECTION, UNIT_SECTION};
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::file::{SIDE_SUFFIX, SideFile, hex};
use backtrail_build::output::{Mode, write_whole};
use backtrail_machine::edit::{self, Edit};
use backtrail_machine::elf::Elf;

use crate::args;

/// Runs the verb.
pub fn run(args: &args::Detach) -> anyhow::Result<u8> {
    let program = &args.program;
    let carried = Carried::read(program)?;
    if let Some(side) = &carried.side {
        anyhow::bail!(Error::NotCarried {
            path: program.clone(),
            hint: format!(" (it is detached already: {})", side.display()),
        });
    }
    if carried.build_id.is_empty() {
        anyhow::bail!(Error::NotCarried {
            path: program.clone(),
            hint: " (it has no build id to find a side file by: link it with -Wl,--build-id)"
                .into(),
        });
    }
    let bytes = std::fs::read(program).map_err(Error::read(program))?;
    let elf = Elf::parse(&bytes).map_err(Error::machine(program))?;
    let section = |name| elf.section(name).map_err(Error::machine(program));
    let side = SideFile {
        build_id: carried.build_id.clone(),
        units: section(UNIT_SECTION)?.unwrap_or_default(),
        link: section(LINK_SECTION)?.unwrap_or_default(),
        frames: section(FRAMES_SECTION)?.unwrap_or_default(),
    };
    let edits = Edit { remove: &[UNIT_SECTION, LINK_SECTION, FRAMES_SECTION], ..Edit::default() };
    let rest = edit::edit(&bytes, &edits).map_err(Error::machine(program))?;

    // The side file first: if the second write fails, nothing is lost.
    let path = side_path(args.output.as_deref(), program, &carried.build_id);
    write_whole(&path, &side.to_bytes(), Mode::Data)?;
    write_whole(program, &rest, Mode::Program)?;
    println!("{}", path.display());
    Ok(0)
}

fn side_path(output: Option<&Path>, program: &Path, build_id: &[u8]) -> PathBuf {
    let name = format!("{}{SIDE_SUFFIX}", hex(build_id));
    match output {
        Some(path) if path.is_dir() => path.join(name),
        Some(path) => path.to_owned(),
        None => program.parent().unwrap_or(Path::new("")).join(name),
    }
}
