//! The object of one unit of a variant.
//!
//! A worker inserts the probes, the unit's own compiler generates the code.
//!
//! An object whose plan tells blocks ([`backtrail_plan::block_lines`]) is made
//! with that debug information, in sections of other names. Where the user wants
//! debug information of their own, the object is made a second time with that,
//! and gets the sections of the first. The two must have the same code, since the
//! code that the table describes is the code that runs. Where they do not, because
//! LLVM allocates registers differently when it keeps track of variables (it does so
//! for two functions of SQLite), the user's debug information is reduced to
//! functions and lines, and that is said.

use std::path::{Path, PathBuf};

use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_plan::UnitPlan;
use backtrail_plan::block_lines::SECTION_PREFIX;
use backtrail_plan::worker::{DebugKept, Output, Request, Response};

use crate::carry::unit::{Damaged, Generator, UnitRecord};
use crate::codegen_args::without_side_outputs;
use crate::trust::Maker;
use crate::{Error, compile, debug_graft, worker};

/// Makes the object of `unit` under `scheme`, by `maker`.
pub fn derive(
    program: &Path,
    unit: &UnitRecord,
    maker: &Maker,
    scheme: &str,
    plan: Option<UnitPlan>,
    folder: &Path,
) -> Result<Vec<u8>, Error> {
    let name = &unit.meta.name;
    let damaged = |Damaged(what)| Error::Damaged {
        path: program.to_owned(),
        what: format!("{name}: {what}"),
    };
    worker::check_library(name, &unit.meta.compiler, &maker.library)?;
    let bitcode = unit.bitcode().map_err(damaged)?;
    let bitcode = bitcode.ok_or_else(|| damaged(Damaged("it has no bitcode".into())))?;
    unit.verify_id(&bitcode).map_err(damaged)?;
    let input = folder.join("unit.bc");
    std::fs::write(&input, bitcode).map_err(Error::write(&input))?;
    let tells_blocks = plan.as_ref().is_some_and(|plan| plan.block_lines.is_some());
    let kept = if unit.meta.debug_wanted { DebugKept::All } else { DebugKept::Nothing };
    let generate = |plan, kept| generate(program, unit, maker, plan, kept, &input, folder);
    let (object, mut bytes) = generate(plan.clone(), kept).map_err(|error| match error {
        Error::Worker { unit: name, why } => {
            // If it is not the probes, it is what was carried.
            match generate(None, kept) {
                Err(Error::Worker { .. }) => {
                    Error::Unusable { path: program.to_owned(), unit: name, why }
                }
                _ => Error::Worker { unit: name, why },
            }
        }
        error => error,
    })?;
    if tells_blocks {
        let mut own = None;
        if unit.meta.debug_wanted {
            let plan = plan.map(UnitPlan::without_block_lines);
            let described = |kept| Ok(generate(plan.clone(), kept)?.1);
            let (found, lost) = with_own_debug(&object, &bytes, described)?;
            own = found;
            if let Some(lost) = lost {
                compile::warn(&format!(
                    "{name}: its variant has no debug information of {lost}: with it, its compiler \
                     generates other code"
                ));
            }
        }
        bytes = match own {
            Some(own) => own,
            None => {
                let rename = Some((".debug_", SECTION_PREFIX));
                edit::edit(&bytes, &Edit { rename, ..Edit::default() })
                    .map_err(Error::machine(&object))?
            }
        };
    }
    let record = unit.of_variant(scheme).to_bytes();
    let section = NewSection { name: backtrail_abi::UNIT_SECTION, data: &record };
    edit::edit(&bytes, &Edit { add: &[section], ..Edit::default() })
        .map_err(Error::machine(&object))
}

/// The object that `describe` makes with as much of the user's debug information as
/// leaves its code that of `bytes`, and `bytes`' own under other names; and what of the
/// user's is lost.
fn with_own_debug(
    object: &Path,
    bytes: &[u8],
    describe: impl Fn(DebugKept) -> Result<Vec<u8>, Error>,
) -> Result<(Option<Vec<u8>>, Option<&'static str>), Error> {
    let mut lost = None;
    for (kept, other) in [(DebugKept::All, "variables and types"), (DebugKept::Lines, "lines")] {
        let described = describe(kept)?;
        let grafted = debug_graft::graft(&described, bytes).map_err(Error::machine(object))?;
        if grafted.is_some() {
            return Ok((grafted, lost));
        }
        lost = Some(other);
    }
    Ok((None, lost))
}

/// Generates code from `bitcode` with the probes of `plan`: the object file and
/// its contents.
fn generate(
    program: &Path,
    unit: &UnitRecord,
    maker: &Maker,
    plan: Option<UnitPlan>,
    debug: DebugKept,
    bitcode: &Path,
    folder: &Path,
) -> Result<(PathBuf, Vec<u8>), Error> {
    let name = &unit.meta.name;
    let object = folder.join("unit.o");
    let changed = folder.join("changed.bc");
    let output = match &maker.generator {
        Generator::Library(codegen) => {
            Output::Object { path: object.clone(), codegen: codegen.clone() }
        }
        _ => Output::Bitcode(changed.clone()),
    };
    let request = Request {
        library: maker.library.clone(),
        bitcode: bitcode.to_owned(),
        name: name.clone(),
        lower: false,
        files_in_assembly: maker.reads_files,
        plan,
        debug,
        output: Some(output),
    };
    match worker::call(&request)? {
        Response::Done { .. } => {}
        Response::FilesInAssembly(what) => {
            let what = format!("{name}: its assembly has '{what}'");
            return Err(Error::Untrusted { path: program.to_owned(), what });
        }
        Response::Failed(_) => {
            let why = "the worker gave no answer".into();
            return Err(Error::Worker { unit: name.clone(), why });
        }
    }
    if let Generator::Clang { program, arguments } = &maker.generator {
        compile::generate(program, &without_side_outputs(arguments), &changed, &object)
            .map_err(|why| Error::Worker { unit: name.clone(), why })?;
    }
    let bytes = std::fs::read(&object).map_err(Error::read(&object))?;
    Ok((object, bytes))
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    use backtrail_machine::elf::Elf;

    use super::*;

    /// The object of a function that returns its argument plus `number`.
    fn object(folder: &Path, number: u32, debug: &str) -> Vec<u8> {
        let (source, object) = (folder.join("a.c"), folder.join("a.o"));
        std::fs::write(&source, format!("int f(int x) {{ int y = x + {number}; return y; }}"))
            .unwrap();
        let mut clang = Command::new("clang-19");
        clang.args(["-O1", debug, "-c", "-o"]).arg(&object).arg(&source);
        assert!(clang.status().expect("clang-19 can be started").success());
        std::fs::read(&object).unwrap()
    }

    #[test]
    fn debug_information_that_changes_code_is_reduced_to_lines() {
        let folder = tempfile::tempdir().unwrap();
        let make = |number, debug| object(folder.path(), number, debug);
        let lines = make(3, "-gline-tables-only");
        // A compiler that generates other code with all of it, with more than
        // nothing, or not at all.
        let cases = [(4, 3, Some("variables and types")), (4, 5, Some("lines")), (3, 3, None)];
        for (with_all, with_lines, expected) in cases {
            let describe = |kept| {
                Ok(match kept {
                    DebugKept::All => make(with_all, "-g"),
                    _ => make(with_lines, "-gline-tables-only"),
                })
            };
            let (found, lost) = with_own_debug(Path::new("a.o"), &lines, describe).unwrap();
            assert_eq!((found.is_some(), lost), (expected != Some("lines"), expected));
            let names = found.map(|it| Elf::parse(&it).unwrap().section_names());
            let has = |name: &str| names.iter().flatten().any(|it| it == name);
            assert_eq!(has(".debug_line"), found_lines(expected));
            assert_eq!(has(&format!("{SECTION_PREFIX}line")), found_lines(expected));
        }
    }

    fn found_lines(lost: Option<&str>) -> bool {
        lost != Some("lines")
    }
}
