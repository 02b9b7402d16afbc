//! `backtrail extract`: the plain bitcode and the program model of every unit.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::output::{Mode, write_whole};

use crate::args;
use crate::args::files::check_output;
use crate::stdout;

/// Runs the verb.
pub fn run(args: &args::Extract) -> anyhow::Result<u8> {
    let carried = Carried::read(&args.program)?;
    let mut taken = BTreeSet::new();
    let stems: Vec<String> =
        carried.units.iter().map(|unit| free_stem(&unit.meta.name, &mut taken)).collect();
    let inputs = || [&args.program].into_iter().chain(&carried.side).map(PathBuf::as_path);
    for name in stems.iter().flat_map(|stem| [format!("{stem}.bc"), format!("{stem}.btir")]) {
        check_output(&args.output.join(name), inputs())?;
    }
    std::fs::create_dir_all(&args.output).map_err(Error::write(&args.output))?;
    for (unit, stem) in carried.units.iter().zip(&stems) {
        let damaged = |damaged: backtrail_build::carry::unit::Damaged| Error::Damaged {
            path: args.program.clone(),
            what: format!("{}: {}", unit.meta.name, damaged.0),
        };
        if let Some(bitcode) = unit.bitcode().map_err(damaged)? {
            let path = args.output.join(format!("{stem}.bc"));
            write_whole(&path, &bitcode, Mode::Data)?;
            stdout::line(format_args!("{}  {}", path.display(), unit.meta.compiler))?;
        }
        if let Some(model) = unit.model().map_err(damaged)? {
            let path = args.output.join(format!("{stem}.btir"));
            write_whole(&path, backtrail_ir::text::print(&model).as_bytes(), Mode::Data)?;
        }
    }
    Ok(0)
}

/// A file name for the unit `name` that no other unit has.
fn free_stem(name: &str, taken: &mut BTreeSet<String>) -> String {
    let file = Path::new(name).file_name().unwrap_or_default().to_string_lossy().into_owned();
    let numbered =
        (1..).map(|number| if number == 1 { file.clone() } else { format!("{file}-{number}") });
    let stem = numbered.into_iter().find(|stem| !taken.contains(stem)).expect("numbers do not end");
    taken.insert(stem.clone());
    stem
}
