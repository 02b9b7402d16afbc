//! An object file from a module.
//!
//! For compilers that do not take bitcode back. The code generator that LLVM's C
//! API makes cannot be told what every driver tells it for ELF: to list
//! constructors in `.init_array` (it writes `.ctors`, which lld links and
//! nothing runs), to give each function and datum a section of its own, and, as
//! rustc does, to compile `unreachable` to a trap. So the module says it itself:
//! `constructors`, `sections`, `traps`.

mod constructors;
mod sections;
mod traps;

use backtrail_llvm_ffi::{CodeModel, Module, OptLevel, RelocModel, TargetMachine, TargetOptions};
use backtrail_plan::worker::Codegen;

use crate::Error;

/// Generates code for `module`.
pub fn emit(module: &mut Module<'_>, codegen: &Codegen) -> Result<Vec<u8>, Error> {
    let options = target_options(codegen)?;
    let triple = module.triple();
    let machine = TargetMachine::new(module.context(), &triple, &options)?;
    constructors::place(module)?;
    traps::insert(module)?;
    if codegen.separate_sections {
        sections::separate(module)?;
    }
    module.verify()?;
    Ok(machine.emit_object(module)?)
}

fn target_options(codegen: &Codegen) -> Result<TargetOptions, Error> {
    Ok(TargetOptions {
        cpu: codegen.cpu.clone(),
        features: codegen.features.clone(),
        opt_level: match codegen.opt_level {
            0 => OptLevel::None,
            1 => OptLevel::Less,
            2 => OptLevel::Default,
            3 => OptLevel::Aggressive,
            other => return Err(unknown("optimisation level", &other.to_string())),
        },
        reloc_model: match codegen.relocation_model.as_str() {
            "" | "default" => RelocModel::Default,
            "static" => RelocModel::Static,
            // LLVM has one model for both; the module says which it is.
            "pic" | "pie" => RelocModel::Pic,
            "dynamic-no-pic" => RelocModel::DynamicNoPic,
            other => return Err(unknown("relocation model", other)),
        },
        code_model: match codegen.code_model.as_str() {
            "" | "default" => CodeModel::Default,
            "tiny" => CodeModel::Tiny,
            "small" => CodeModel::Small,
            "kernel" => CodeModel::Kernel,
            "medium" => CodeModel::Medium,
            "large" => CodeModel::Large,
            other => return Err(unknown("code model", other)),
        },
    })
}

fn unknown(what: &'static str, value: &str) -> Error {
    Error::UnknownOption { what, value: value.to_owned() }
}
