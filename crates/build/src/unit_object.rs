//! The object of one unit of a variant.
//!
//! A worker inserts the probes, the unit's own compiler generates the code.
//!
//! An object whose plan tells blocks ([`backtrail_plan::block_lines`]) is made
//! with that debug information, in sections of other names. Where the user wants
//! debug information of their own, the object is made a second time with that,
//! and gets the sections of the first. Should the two ever have different code,
//! the user's goes: the code that the table describes is the code that runs.

use std::path::{Path, PathBuf};

use backtrail_machine::edit::{self, Edit, NewSection};
use backtrail_plan::UnitPlan;
use backtrail_plan::block_lines::SECTION_PREFIX;
use backtrail_plan::worker::{Output, Request, Response};

use crate::carry::unit::{Damaged, Generator, UnitRecord};
use crate::codegen_args::without_side_outputs;
use crate::{Error, compile, debug_graft, worker};

/// Makes the object of `unit` under `scheme`.
pub fn derive(
    program: &Path,
    unit: &UnitRecord,
    scheme: &str,
    plan: Option<UnitPlan>,
    folder: &Path,
) -> Result<Vec<u8>, Error> {
    let name = &unit.meta.name;
    let damaged = |Damaged(what)| Error::Damaged {
        path: program.to_owned(),
        what: format!("{name}: {what}"),
    };
    worker::check_library(name, &unit.meta.compiler, &unit.meta.library)?;
    let bitcode = unit.bitcode().map_err(damaged)?;
    let bitcode = bitcode.ok_or_else(|| damaged(Damaged("it has no bitcode".into())))?;
    let input = folder.join("unit.bc");
    std::fs::write(&input, bitcode).map_err(Error::write(&input))?;
    let tells_blocks = plan.as_ref().is_some_and(|plan| plan.block_lines.is_some());
    let (object, mut bytes) = generate(unit, plan.clone(), &input, folder)?;
    if tells_blocks {
        let mut own = None;
        if unit.meta.debug_wanted {
            let plan = plan.map(UnitPlan::without_block_lines);
            let (_, described) = generate(unit, plan, &input, folder)?;
            own = debug_graft::graft(&described, &bytes).map_err(Error::machine(&object))?;
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

/// Generates code from `bitcode` with the probes of `plan`: the object file and
/// its contents.
fn generate(
    unit: &UnitRecord,
    plan: Option<UnitPlan>,
    bitcode: &Path,
    folder: &Path,
) -> Result<(PathBuf, Vec<u8>), Error> {
    let name = &unit.meta.name;
    let object = folder.join("unit.o");
    let changed = folder.join("changed.bc");
    let output = match &unit.meta.generator {
        Generator::Library(codegen) => {
            Output::Object { path: object.clone(), codegen: codegen.clone() }
        }
        _ => Output::Bitcode(changed.clone()),
    };
    let request = Request {
        library: unit.meta.library.clone(),
        bitcode: bitcode.to_owned(),
        name: name.clone(),
        lower: false,
        plan,
        strip_debug: !unit.meta.debug_wanted,
        output: Some(output),
    };
    let Response::Done { .. } = worker::call(&request)? else {
        return Err(Error::Worker { unit: name.clone(), why: "the worker gave no answer".into() });
    };
    if let Generator::Clang { program, arguments } = &unit.meta.generator {
        compile::generate(program, &without_side_outputs(arguments), &changed, &object)
            .map_err(|why| Error::Worker { unit: name.clone(), why })?;
    }
    let bytes = std::fs::read(&object).map_err(Error::read(&object))?;
    Ok((object, bytes))
}
