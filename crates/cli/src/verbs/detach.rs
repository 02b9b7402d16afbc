//! `backtrail detach`: moves what an executable carries into a side file.

use std::path::{Path, PathBuf};

use backtrail_abi::record::FRAMES_SECTION;
use backtrail_abi::{LINK_SECTION, UNIT_SECTION};
use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::carry::file::{SIDE_SUFFIX, SideFile, hex};
use backtrail_build::in_place::InPlace;
use backtrail_build::output::{Mode, write_whole};
use backtrail_foreign::file;
use backtrail_foreign::say;
use backtrail_machine::edit::{self, Edit};
use backtrail_machine::elf::Elf;

use crate::args;
use crate::args::files::check_output;
use crate::stdout;

/// Runs the verb.
pub fn run(args: &args::Detach) -> anyhow::Result<u8> {
    let program = &args.program;
    let in_place = InPlace::begin(program)?;
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
    let bytes = file::read(program).map_err(Error::read(program))?;
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
    check_output(&path, [program.as_path()])?;
    write_whole(&path, &side.to_bytes(), Mode::Data)?;
    let other_names = in_place.replace(&rest)?;
    other_names.iter().for_each(|note| say!("backtrail: {note}"));
    stdout::line(path.display())?;
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
