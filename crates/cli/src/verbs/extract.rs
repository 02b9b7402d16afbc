//! `backtrail extract`: the plain bitcode and the program model of every unit.

use std::collections::BTreeSet;
use std::path::Path;

use backtrail_build::Error;
use backtrail_build::carry::Carried;
use backtrail_build::output::{Mode, write_whole};

use crate::args;

/// Runs the verb.
pub fn run(args: &args::Extract) -> anyhow::Result<u8> {
    let carried = Carried::read(&args.program)?;
    std::fs::create_dir_all(&args.output).map_err(Error::write(&args.output))?;
    let mut taken = BTreeSet::new();
    for unit in &carried.units {
        let damaged = |damaged: backtrail_build::carry::unit::Damaged| Error::Damaged {
            path: args.program.clone(),
            what: format!("{}: {}", unit.meta.name, damaged.0),
        };
        let stem = free_stem(&unit.meta.name, &mut taken);
        if let Some(bitcode) = unit.bitcode().map_err(damaged)? {
            let path = args.output.join(format!("{stem}.bc"));
            write_whole(&path, &bitcode, Mode::Data)?;
            println!("{}  {}", path.display(), unit.meta.compiler);
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
