//! An object file from a module.

use backtrail_llvm_ffi::{CodeModel, Module, OptLevel, RelocModel, TargetMachine, TargetOptions};
use backtrail_plan::worker::Codegen;

use crate::Error;

/// Generates code for `module`.
pub fn emit(module: &mut Module<'_>, codegen: &Codegen) -> Result<Vec<u8>, Error> {
    let options = TargetOptions {
        cpu: codegen.cpu.clone(),
        features: codegen.features.clone(),
        opt_level: match codegen.opt_level {
            0 => OptLevel::None,
            1 => OptLevel::Less,
            2 => OptLevel::Default,
            _ => OptLevel::Aggressive,
        },
        reloc_model: match codegen.relocation_model.as_str() {
            "" | "default" => RelocModel::Default,
            "static" => RelocModel::Static,
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
    };
    let triple = module.triple();
    let machine = TargetMachine::new(module.context(), &triple, &options)?;
    Ok(machine.emit_object(module)?)
}

fn unknown(what: &'static str, value: &str) -> Error {
    Error::UnknownOption { what, value: value.to_owned() }
}
